"""The pixelwise network is sane at every exposure, and MST++ begins on top of it."""

import pytest
import torch

from napari_mst.base.errors import CheckpointError
from napari_mst.networks.forms import LIMIT
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus, build_refining

torch.manual_seed(0)
NETWORK = PixelwiseNetwork(out_bands=7, width=16).eval().requires_grad_(False)


def colours(*pixels: tuple[float, float, float]) -> torch.Tensor:
    """Pixels as a photo of one row, (1, 3, 1, W)."""
    return torch.tensor(pixels, dtype=torch.float32).T[None, :, None]


def test_lower_estimate_and_upper_stand_in_order_everywhere() -> None:
    photo = torch.rand(2, 3, 9, 11) * 2 - 0.5
    lower, estimate, upper = NETWORK.quantiles(photo)
    assert lower.shape == (2, 7, 9, 11)
    assert ((lower >= 0) & (lower <= estimate) & (estimate <= upper)).all()
    torch.testing.assert_close(estimate, NETWORK(photo))


def test_black_is_black() -> None:
    assert NETWORK(colours((0, 0, 0))).max() < 0.01


def test_beyond_white_a_spectrum_grows_with_the_light_and_keeps_its_shape() -> None:
    twice, eight_times = NETWORK(colours((2.0, 2.0, 2.0), (8.0, 8.0, 8.0)))[0, :, 0].T
    torch.testing.assert_close(eight_times, 4 * twice, rtol=2e-3, atol=0)


def test_negative_light_is_none() -> None:
    torch.testing.assert_close(NETWORK(colours((-0.2, 0.5, 0.1))), NETWORK(colours((0, 0.5, 0.1))))


def test_gradients_are_finite_in_black_and_in_saturated_colours() -> None:
    photo = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3).T[None, :, None].requires_grad_()
    (gradient,) = torch.autograd.grad(NETWORK(photo).sum(), photo)
    assert torch.isfinite(gradient).all()


def test_no_colour_up_to_white_exceeds_the_limit() -> None:
    photo = torch.rand(1, 3, 40, 40)
    network = PixelwiseNetwork(out_bands=7, width=16)
    network.estimate.bias.data += 10
    assert 1 < network(photo).max() <= LIMIT


REFINING = (
    RefiningMSTPlusPlus(PixelwiseNetwork(out_bands=6, width=8), stages=2)
    .eval()
    .requires_grad_(False)
)
PHOTO = torch.rand(1, 3, 19, 22)


def test_without_its_convolutions_it_is_the_pixelwise_estimate() -> None:
    network = build_refining(REFINING.state_dict())
    network.conv_in.weight.zero_()
    network.conv_out.weight.zero_()
    torch.testing.assert_close(network(PHOTO), network.pixelwise(PHOTO))


@pytest.mark.parametrize(
    "missing", ["pixelwise.margins.bias", "pixelwise.margins.weight", "conv_out.weight"]
)
def test_damaged_refining_network_is_refused(missing: str) -> None:
    state = {key: value for key, value in REFINING.state_dict().items() if key != missing}
    with pytest.raises(CheckpointError, match="Expected"):
        build_refining(state)


def test_parts_that_do_not_fit_together_are_refused() -> None:
    other = {
        f"pixelwise.{key}": value
        for key, value in PixelwiseNetwork(out_bands=5, width=8).state_dict().items()
    }
    with pytest.raises(CheckpointError, match="Expected"):
        build_refining({**REFINING.state_dict(), **other})
