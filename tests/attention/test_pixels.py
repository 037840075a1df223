"""What a pixel of a photo attends to: the weights of the whole network's own forward pass."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from safetensors.torch import save_file
from tests.conftest import on_cpu
from torch import Tensor, nn

from napari_mst import Model, Reconstructor
from napari_mst.attention import pixels
from napari_mst.attention.pixels import PixelExplorer
from napari_mst.base.errors import AttentionError
from napari_mst.networks.awan import AWAN
from napari_mst.networks.mst_plus_plus import MSTPlusPlus

SIZE = (28, 36)
PIXELS = [(0, 0), (2, 35), (27, 3), (20, 29)]


def reconstructor_of(kind: str, folder: Path) -> Reconstructor:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1, attention=kind, window=4)
    for name, parameter in network.named_parameters():
        if name.endswith("position.table"):
            nn.init.normal_(parameter)
    save_file(network.state_dict(), folder / f"{kind}.safetensors")
    return on_cpu(folder / f"{kind}.safetensors", precision="float64")


def photo() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)


def heard(reconstructor: Reconstructor, block: str) -> Tensor:
    """The whole map that the attention of *block* gets in a run, in one tile."""
    inputs: list[Tensor] = []
    norm = reconstructor.network.get_submodule(f"{block}.norm")
    handle = norm.register_forward_hook(lambda _, __, normal: inputs.append(normal))
    reconstructor.reconstruct(photo())
    handle.remove()
    return inputs[-1]


KINDS = ["window", "shifted", "hybrid", "overlapping", "global"]
BLOCKS = ["encoder.1", "bottleneck", "decoder.1"]
USUAL = {("shifted", "encoder.1"), ("hybrid", "decoder.1"), *product(KINDS, ["bottleneck"])}
"""Every kind in one block and every block with some kind; the rest is slow."""


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        pytest.param(*case, marks=() if case in USUAL else pytest.mark.slow)
        for case in product(KINDS, BLOCKS)
    ],
)
def test_weights_of_a_pixel_are_those_of_the_whole_network(
    kind: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_mst.engine.run.Execution.tile", lambda *_: (1024, 1024))
    own = reconstructor_of(kind, tmp_path)
    name = f"stages.0.{block}"
    explorer = PixelExplorer(own, photo())
    features = heard(own, name)
    pitch = own.program.padded(*SIZE)[0] // features.shape[-2]
    for row, column in PIXELS:
        found = explorer.weights(name, row, column)
        attention: Any = own.network.get_submodule(f"{name}.attention")
        expected = attention.weights(features, (row // pitch, column // pitch))
        assert found.pitch == pitch
        assert_allclose(found.weights.sum(1), 1)
        assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-12)
        assert_array_equal(found.places, expected.places * pitch)
        assert_array_equal(found.regions, expected.regions)


@pytest.mark.parametrize("kind", ["shifted", "overlapping"])
@pytest.mark.parametrize("large", [20 * 20, -1])
def test_maps_that_are_kept_change_no_weight(
    kind: str, large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixels, "_LARGE", large)
    explorer = PixelExplorer(reconstructor_of(kind, tmp_path), photo(), region=(2, 26, 1, 36))
    before = {name: explorer.weights(name, 20, 29) for name in explorer.blocks}
    explorer.keep()
    if large < 0:  # then all maps are kept, and nothing is computed again
        monkeypatch.setattr(pixels, "execute_crop", None)
    for name, found in before.items():
        again = explorer.weights(name, 20, 29)
        assert_allclose(again.weights, found.weights, rtol=0, atol=1e-12)
        assert_array_equal(again.places, found.places)


def test_maps_beyond_the_bound_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixels, "_LARGE", 0)
    monkeypatch.setattr(pixels, "MOST_KEPT", 1000)
    monkeypatch.setattr("napari_mst.attention.explorer.execute", None)  # nothing is run
    PixelExplorer(reconstructor_of("window", tmp_path), photo()).keep()


def test_keys_that_a_pixel_hears_are_those_with_weight(tmp_path: Path) -> None:
    explorer = PixelExplorer(reconstructor_of("shifted", tmp_path), photo())
    found = explorer.weights("stages.0.encoder.1", 1, 1)
    assert_array_equal(found.heard, found.weights.sum(0) > 0)
    assert 0 < found.heard.sum() < len(found.heard)


def test_planes_hold_all_weights_at_their_places(tmp_path: Path) -> None:
    explorer = PixelExplorer(reconstructor_of("shifted", tmp_path), photo())
    found = explorer.weights("stages.0.encoder.1", 1, 1)  # in the corner: a quarter of a window
    images, (row, column) = found.planes()
    assert (images.shape, row, column) == ((2, 2, 2), 0, 0)
    assert_allclose(images.sum((1, 2)), 1)
    assert (found.sides.window, found.sides.keys, found.sides.shift) == (4, 4, 2)
    assert (found.effective_keys <= 4).all()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("stages.7", "Expected a block of stages.0.encoder.0"),
        ("stages.0.encoder.0", r"Expected a query within 28 x 36, got \(28, 0\)"),
    ],
)
def test_a_block_or_a_pixel_that_is_not_there_is_refused(
    block: str, message: str, tmp_path: Path
) -> None:
    explorer = PixelExplorer(reconstructor_of("window", tmp_path), photo())
    with pytest.raises(AttentionError, match=message):
        explorer.weights(block, 28, 0)


def test_a_network_without_attention_between_pixels_is_refused() -> None:
    with pytest.raises(AttentionError, match=r"attention between pixels, got mstpp-srgb"):
        PixelExplorer(on_cpu("mstpp-srgb"), photo())


def test_weights_of_a_network_that_is_no_mst_make_what_its_forward_makes() -> None:
    torch.manual_seed(0)
    model = Model.of(AWAN(out_bands=9, features=16, blocks=1), range(9), is_linear=True)
    own = Reconstructor(model, "cpu", precision="float64")
    explorer = PixelExplorer(own, photo())
    last: Any = own.network.get_submodule("tail_nonlocal.non_local")
    bands = torch.from_numpy(explorer.padded_features("bands")[0])[None]
    values, result = last.g(bands)[0], last(bands)[0]
    for row, column in PIXELS:
        found = explorer.weights("attended", row, column)
        weights = torch.from_numpy(found.weights[0])
        attended = values[:, *found.places.T] @ weights
        made = bands[0, :, row, column] + last.W.weight[:, :, 0, 0] @ attended
        torch.testing.assert_close(made, result[:, row, column])
