"""A network with both kinds of attention: its matrices and its pixels, as of either kind alone."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from napari_mst import Reconstructor, load_model
from napari_mst.attention.explorer import AttentionExplorer
from napari_mst.attention.overlays import OVERLAYS
from napari_mst.attention.pixels import PixelExplorer
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.record_files import read_attention, write_attention
from napari_mst.attention.record_views import Selection
from napari_mst.attention.recorder import attention_blocks, record_attention
from napari_mst.networks.attention.blocks import HybridBlock
from napari_mst.networks.attention.spectral import gram
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.reconstruction.preparing import prepared_job

BLOCKS = ("stages.0.encoder.0", "stages.0.encoder.1", "stages.0.bottleneck")
SIZE = (28, 36)


def photo() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)


@cache
def reconstructor() -> Reconstructor:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1, attention="hybrid", window=4).eval().requires_grad_(False)
    model = replace(load_model("mstpp-srgb"), network=network)
    return Reconstructor(model, "cpu", precision="float64", correct_colour=False)


@cache
def recorded() -> AttentionRecord:
    return AttentionExplorer(reconstructor(), photo()).record()


@cache
def entering(name: str) -> tuple[HybridBlock, torch.Tensor]:
    """The block and the whole map that enters it, of a forward in one piece."""
    network = reconstructor().network
    program = network.program()
    rows = prepared_job(reconstructor().setup, photo()).source().rows(0, SIZE[0])
    with torch.inference_mode():
        block = attention_blocks(network)[name]
        source = program.until(block.source)
        return block.spec.parts, source.whole(torch.tensor(rows)[None].double())


def test_a_run_records_the_matrices_of_the_spectral_half(tmp_path: Path) -> None:
    record = recorded()
    assert len(record) == len(record.pixel_blocks) == 5
    for name in BLOCKS:
        block, features = entering(name)
        expected = block.channel_attention.attention(gram(features))[0]
        assert_allclose(record[name].attention, expected, rtol=0, atol=1e-7)
    again = read_attention(write_attention(tmp_path / "a.npz", record))
    assert list(again) == list(record)
    assert again.pixel_blocks == record.pixel_blocks


def test_pixels_and_matrices_are_recorded_together() -> None:
    explorer = PixelExplorer(reconstructor(), photo())
    record = explorer.record()
    assert record.provenance == recorded().provenance
    for name in recorded():
        assert_array_equal(record[name].attention, recorded()[name].attention)
    with record_attention(reconstructor().network) as of_a_click:
        explorer.weights("stages.0.decoder.1", 20, 29)
    assert not of_a_click.blocks  # nothing is run again


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("name", BLOCKS[1:])
def test_a_map_is_that_of_the_spectral_half(overlay: str, name: str) -> None:
    one = AttentionExplorer(reconstructor(), photo()).map(overlay, Selection(name, 1, 3, 5))
    block, x = entering(name)
    spectral = block.channel_attention
    with torch.inference_mode():
        mixing = spectral.mixing(spectral.attention(gram(x)))
        attended = block.attended_and_mixed(x, mixing)
        expected = {
            "attention": spectral(x).norm(dim=1)[0],
            "feed-forward": block.feed_forward(attended).norm(dim=1)[0],
        }.get(overlay)
    if expected is not None:
        rows, columns = one.values.shape
        assert_allclose(one.values, expected[:rows, :columns], rtol=1e-5)
    if overlay == "score":
        assert one.total == pytest.approx(recorded()[name].logits[1, 3, 5], abs=1e-6)


def test_the_steps_of_a_head_give_its_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = AttentionExplorer(reconstructor(), photo()).steps(BLOCKS[0])
    monkeypatch.setattr("napari_mst.attention.explorer.PICTURE", 16)
    steps = AttentionExplorer(reconstructor(), photo()).steps(BLOCKS[0])
    # Every third pixel is kept, which is no multiple of a window.
    assert_allclose(steps.keys, whole.keys[:, ::3, ::3], rtol=0, atol=1e-7)
    assert_array_equal(steps.matrices.logits, recorded()[BLOCKS[0]].logits)


def test_the_sensitivity_is_the_gradient_with_both_halves() -> None:
    row, column = 18, 21
    explorer = AttentionExplorer(reconstructor(), photo())
    one = explorer.sensitivity(15, row, column, recorded())
    top, left = (int(side) for side in one.offset)
    source = prepared_job(reconstructor().setup, photo()).source()
    seen = torch.tensor(source.rows(0, SIZE[0]), dtype=torch.float64, requires_grad=True)
    program = reconstructor().program
    folded = {}
    for name, matrices in recorded().blocks.items():
        block = attention_blocks(reconstructor().network)[name]
        folded[block.source] = block.spec.parts.spectral.mixing(
            torch.tensor(matrices.attention).double()[None]
        )
    value = program.whole(seen[None], folded)[0, 15, row, column]
    (gradient,) = torch.autograd.grad(value, seen)
    height, width = one.values.shape
    expected = gradient.norm(dim=0)[top : top + height, left : left + width]
    assert_allclose(one.values, expected, rtol=0, atol=1e-6 * float(expected.max()))
