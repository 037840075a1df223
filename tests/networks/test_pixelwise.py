"""The pixelwise network is sane by construction at every exposure, in black, white and grey."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from napari_mst import load_model
from napari_mst.errors import CheckpointError
from napari_mst.networks.pixelwise import LIMIT, PixelwiseNetwork, build_pixelwise

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


def test_pixels_do_not_see_their_neighbours() -> None:
    photo = torch.rand(1, 3, 4, 5)
    torch.testing.assert_close(NETWORK(photo)[..., 2:3, 3:4], NETWORK(photo[..., 2:3, 3:4]))


def test_saved_network_comes_back(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(save(NETWORK.state_dict()))
    loaded = build_pixelwise(NETWORK.state_dict())
    photo = torch.rand(1, 3, 4, 5)
    assert torch.equal(loaded(photo), NETWORK(photo))
    assert torch.equal(load_model(tmp_path / "x.safetensors").network(photo), NETWORK(photo))


def test_damaged_network_is_refused() -> None:
    state = dict(NETWORK.state_dict())
    del state["hidden.2.bias"]
    with pytest.raises(CheckpointError, match="Expected a whole pixelwise network"):
        build_pixelwise(state)


def test_bundled_network_is_finite_and_bounded_on_saturated_colours() -> None:
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
    network = load_model("pixelwise-srgb").network
    assert isinstance(network, PixelwiseNetwork)
    lower, _, upper = network.quantiles(corners.T[None, :, None])
    assert torch.isfinite(upper).all()
    assert lower.min() >= 0
    assert upper.max() < 3


def test_no_colour_up_to_white_exceeds_the_limit() -> None:
    photo = torch.rand(1, 3, 40, 40)
    network = PixelwiseNetwork(out_bands=7, width=16)
    network.estimate.bias.data += 10
    assert 1 < network(photo).max() <= LIMIT
