"""The fit of `mstpp-photo`: sets of pixels are images whose neighbours are alike."""

import pytest
import torch

from lab.fit_photo import PhotoFit, PhotoSettings, as_images, estimate, orthogonal
from lab.pixel_sets import GROUP, PixelSets

TINY = PhotoSettings(steps=2, batch=2, pixels=4 * GROUP)


def test_a_set_is_an_image_whose_neighbours_are_alike() -> None:
    fit = PhotoFit(TINY)
    fit.take_step(0)  # so that no weight is as it began
    squares = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(3))
    image = squares.repeat_interleave(4, 2).repeat_interleave(4, 3)
    groups = squares.flatten(2).mT.repeat_interleave(GROUP, 1)
    with torch.inference_mode():
        of_set = estimate(fit.network, groups)[:, ::GROUP].clamp_min(0)
        of_image = as_images(fit.network)(image)[:, :, ::4, ::4]
    torch.testing.assert_close(of_set.mT.unflatten(2, (4, 4)), of_image, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_a_fit_is_repeatable_and_leaves_other_taps_alone() -> None:
    first, second = (PhotoFit(TINY).run(report_every=2) for _ in range(2))
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, second.state_dict()[name]), name
    down = first.state_dict()["stages.0.down.0.weight"]
    assert down.count_nonzero() == down[:, :, 1, 1].count_nonzero() > 0


def test_orthogonal_keeps_directions_and_evens_their_sizes() -> None:
    matrix = torch.randn(12, 5, generator=torch.Generator().manual_seed(1))
    left, sizes, right = torch.linalg.svd(orthogonal(matrix), full_matrices=False)
    assert sizes.min() > 0.6
    assert sizes.max() < 1.3
    expected = torch.linalg.svd(matrix, full_matrices=False)
    torch.testing.assert_close(left @ right, expected[0] @ expected[2], atol=1e-4, rtol=0)


def test_neighbours_of_most_sets_are_alike_and_of_some_are_not() -> None:
    sets = PixelSets(torch.Generator().manual_seed(5)).draw(200, 8 * GROUP)
    assert sets.shape == (200, 8 * GROUP, 31)
    assert sets.min() >= 0
    assert sets.max() <= 1.1
    encoded = sets.clamp_min(1e-3).log()
    within = encoded.unflatten(1, (-1, GROUP)).std(2).mean((1, 2))
    between = encoded.std(1).mean(1)
    is_alike = within < 0.8 * between
    assert 0.4 < is_alike.float().mean() < 0.9
