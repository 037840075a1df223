"""MST++ on top of a pixelwise estimate: what it starts as, and that a file gives it back."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from napari_mst import load_model
from napari_mst.errors import CheckpointError
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining import RefiningMSTPlusPlus, build_refining

torch.manual_seed(0)
NETWORK = (
    RefiningMSTPlusPlus(PixelwiseNetwork(out_bands=6, width=8), stages=2)
    .eval()
    .requires_grad_(False)
)
PHOTO = torch.rand(1, 3, 19, 22)


def test_without_its_convolutions_it_is_the_pixelwise_estimate() -> None:
    network = build_refining(NETWORK.state_dict())
    network.conv_in.weight.zero_()
    network.conv_out.weight.zero_()
    torch.testing.assert_close(network(PHOTO), network.pixelwise(PHOTO))


def test_saved_network_comes_back(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(save(NETWORK.state_dict()))
    loaded = load_model(tmp_path / "x.safetensors").network
    assert isinstance(loaded, RefiningMSTPlusPlus)
    assert len(loaded.stages) == 2
    assert torch.equal(loaded(PHOTO), NETWORK(PHOTO))


@pytest.mark.parametrize(
    "missing", ["pixelwise.margins.bias", "pixelwise.margins.weight", "conv_out.weight"]
)
def test_damaged_network_is_refused(missing: str) -> None:
    state = {key: value for key, value in NETWORK.state_dict().items() if key != missing}
    with pytest.raises(CheckpointError, match="Expected"):
        build_refining(state)


def test_parts_that_do_not_fit_together_are_refused() -> None:
    other = {
        f"pixelwise.{key}": value
        for key, value in PixelwiseNetwork(out_bands=5, width=8).state_dict().items()
    }
    with pytest.raises(CheckpointError, match="Expected"):
        build_refining({**NETWORK.state_dict(), **other})
