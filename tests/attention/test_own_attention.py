"""Attention that somebody brings along: said by a pass, it is recorded, clicked, saved and read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from napari_mst import Reconstructor, load_model
from napari_mst.attention.explorer import AttentionExplorer
from napari_mst.attention.pixels import PixelExplorer
from napari_mst.attention.record_files import read_attention, write_attention
from napari_mst.attention.record_views import Selection
from napari_mst.base.errors import AttentionError
from napari_mst.networks import Network
from napari_mst.networks.attention.query import square, unmasked
from napari_mst.networks.attention_spec import AttentionSpec, QueryWeights
from napari_mst.networks.network import PHOTO, Pass, Program

SIZE = (6, 6)
CHANNELS, HEADS = 8, 2


class OfTorch(Network):
    """Attention of torch between all pixels, after a convolution or of the photo itself."""

    in_bands, out_bands = 3, CHANNELS

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 1)
        self.attention = nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True)

    def attended(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).mT
        made, _ = self.attention(tokens, tokens, tokens)
        return made.mT.unflatten(2, x.shape[2:])

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        tokens = x.flatten(2).mT
        asking = tokens[:, query[0] * x.shape[3] + query[1]][:, None]
        _, weights = self.attention(asking, tokens, tokens, average_attn_weights=False)
        return unmasked(weights[0, :, 0], square((0, 0), x.shape[3]))

    def program(self) -> Program:
        spec = AttentionSpec(block="own", channels=CHANNELS, heads=HEADS, weights=self.weights)
        features = Pass("features", (PHOTO,), self.first, CHANNELS)
        bands = Pass("bands", ("features",), self.attended, CHANNELS, halo=None, attention=(spec,))
        return Program((features, bands))


class BetweenChannels(Network):
    """Two heads of channels that attend to channels, by a softmax of their own."""

    in_bands, out_bands = 3, CHANNELS

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 1)
        self.softmax = nn.Softmax(dim=-1)

    def total(self, x: Tensor) -> Tensor:
        heads = x.double().flatten(2).unflatten(1, (HEADS, -1))
        return heads @ heads.mT

    def folded(self, total: Tensor, pixels: int) -> Tensor:
        return self.softmax((total / pixels).float())

    def attended(self, x: Tensor, matrices: Tensor) -> Tensor:
        heads = x.flatten(2).unflatten(1, (HEADS, -1))
        return (matrices @ heads).flatten(1, 2).unflatten(2, x.shape[2:])

    def program(self) -> Program:
        spec = AttentionSpec(block="own", channels=CHANNELS, heads=HEADS, softmax=self.softmax)
        features = Pass(
            "features", (PHOTO,), self.first, CHANNELS, statistic=self.total, fold=self.folded
        )
        bands = Pass(
            "bands", ("features",), self.attended, CHANNELS, uses="features", attention=(spec,)
        )
        return Program((features, bands))


def reconstructor(network: Network) -> Reconstructor:
    torch.manual_seed(0)
    model = replace(load_model("mstpp-srgb"), network=network.eval().requires_grad_(False))
    return Reconstructor(model, "cpu", correct_colour=False)


def photo() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)


def test_attention_of_torch_is_recorded_clicked_saved_and_read(tmp_path: Path) -> None:
    explorer = PixelExplorer(reconstructor(OfTorch()), photo())
    record = explorer.record()
    assert str(record.pixel_blocks["own"]) == "all pixels"
    weights = explorer.weights("own", 2, 3)
    assert weights.weights.shape == (HEADS, SIZE[0] * SIZE[1])
    np.testing.assert_allclose(weights.weights.sum(1), 1, rtol=1e-6)
    path = write_attention(tmp_path / "a.npz", record, weights.maps())
    assert read_attention(path).pixel_blocks == record.pixel_blocks
    with pytest.raises(AttentionError, match="Expected windows of at most"):
        explorer.steps("own", 0, 2, 3)


def test_matrices_of_somebody_elses_channels_are_recorded_and_maps_of_them_refused(
    tmp_path: Path,
) -> None:
    explorer = AttentionExplorer(reconstructor(BetweenChannels()), photo())
    record = explorer.record()
    np.testing.assert_allclose(record["own"].attention.sum(2), 1, rtol=1e-6)
    assert record["own"].attention.shape == (HEADS, CHANNELS // HEADS, CHANNELS // HEADS)
    assert list(read_attention(write_attention(tmp_path / "a.npz", record))) == ["own"]
    with pytest.raises(AttentionError, match=r"Expected a block of S-MSA .* got own"):
        explorer.map("score", Selection("own"))
    with pytest.raises(AttentionError, match=r"Expected blocks of S-MSA.* got own"):
        explorer.sensitivity(0, 1, 1)
