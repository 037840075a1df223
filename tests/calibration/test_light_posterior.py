"""What the network says of a light: mixtures of Gaussians, and their lights."""

import numpy as np
import torch

from napari_mst.calibration.light.seeing import OUTPUTS, LightPosterior, light_table, posterior_of
from napari_mst.photo.lights import FAMILIES


def drawn(photos: int) -> LightPosterior:
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(photos, OUTPUTS, generator=generator, dtype=torch.float64)
    return posterior_of(outputs, torch.randn(photos, 2, generator=generator, dtype=torch.float64))


def test_densities_are_those_of_gaussians_with_these_cholesky_factors() -> None:
    posterior = drawn(3)
    factors = torch.zeros(3, len(FAMILIES), 2, 2, dtype=torch.float64)
    factors[..., 0, 0], factors[..., 1, 1] = posterior.log_widths.exp().unbind(-1)
    factors[..., 1, 0] = posterior.skews
    gaussians = torch.distributions.MultivariateNormal(
        posterior.whites, precision_matrix=factors.mT @ factors
    )
    whites = posterior.whites[:, 0] + torch.tensor([[0.05, -0.1]], dtype=torch.float64)
    expected = gaussians.log_prob(whites[:, None])
    torch.testing.assert_close(posterior.log_densities(whites[:, None])[:, 0], expected)


def test_each_family_divides_its_share_among_its_lights_by_their_densities() -> None:
    sharp, table = drawn(2), light_table()
    # Broad enough that no density is 0.
    posterior = sharp._replace(log_widths=sharp.log_widths - 2, skews=0.1 * sharp.skews)
    found = table.probabilities(posterior)
    densities = posterior.log_densities(torch.from_numpy(table.whites).double()).exp()
    shares = posterior.log_shares.exp()
    for index, family in enumerate(FAMILIES):
        own = np.array([name == family for name in table.families])
        within = densities[:, own, index]
        expected = shares[:, index, None] * within / within.sum(1, keepdim=True)
        np.testing.assert_allclose(found[own], expected.mean(0), rtol=1e-4, atol=1e-9)
