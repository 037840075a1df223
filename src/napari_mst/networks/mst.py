"""MST: one U-shape of spectral attention whose values are multiplied by a mask.

Paper: Cai et al., CVPR 2022, doi:10.1109/CVPR52688.2022.01698; with a mask that is computed of the
photo, as trained by the authors (https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose
weights load. The sizes S, M and L differ in the number of blocks. This is an independent
implementation. Letters: N batch, C channels, H rows, W columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.attention.spectral import (
    BLOCK_VALUES,
    HALO,
    SpectralAttentionBlock,
    channel_attends,
)
from napari_mst.networks.hyperparameters import MULTIPLE
from napari_mst.networks.layout import count_of
from napari_mst.networks.mst_plus_plus import Concatenated, Plus
from napari_mst.networks.network import PHOTO, Network, Pass, Program


class MaskGuidance(nn.Module):
    """Features of a mask, and once more where a 5x5 convolution of them lets them through."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 1) for _ in range(2))
        self.depth_conv = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)

    def forward(self, mask: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        features = self.conv1(mask)
        return features * (1 + torch.sigmoid(self.depth_conv(self.conv2(features))))


class MaskedBlock(SpectralAttentionBlock):
    """SAB whose values are multiplied by the guidance of a mask."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__(channels, heads)
        self.mm = MaskGuidance(channels)

    def masked_pass(self, name: str, source: str, mask: str) -> Pass:
        """The pass of this block from the map *source*, which is `prepared`, and a *mask*."""
        channels = self.attention.to_v.in_features
        return Pass(
            name,
            (source, mask),
            self.apply_masked,
            channels,
            halo=HALO,
            uses=source,
            work=self.local_work,
            values=BLOCK_VALUES * channels,
            attends=(replace(channel_attends(name, self), parts=None),),
        )

    def mixing(self, gram: Tensor) -> Tensor:
        """Gram matrix of the whole image -> mixing matrix of masked values, both (N, C, C)."""
        attention = self.attention.attention(gram)
        # The mask stands between values and attention, so that values do not fold into the matrix.
        return self.attention.mixing(attention, torch.eye(gram.shape[-1]).to(attention))

    def apply_masked(self, x: Tensor, mask: Tensor, mixing: Tensor) -> Tensor:
        """The local part: (N, C, H, W) -> (N, C, H, W), exact `halo` pixels away from a cut."""
        value = F.conv2d(x, self.attention.to_v.weight[:, :, None, None])
        masked = (value * self.mm(mask)).flatten(2)
        mixed = mixing.to(x) @ masked + self.attention.proj.bias[:, None]
        x = x + mixed.unflatten(2, x.shape[2:]) + self.attention.pos(value)
        return x + self.feed_forward(x)


class Blocks(nn.Module):
    """So many blocks one after the other."""

    def __init__(self, channels: int, heads: int, count: int) -> None:
        super().__init__()
        self.blocks: Any = nn.ModuleList([MaskedBlock(channels, heads) for _ in range(count)])

    def add_to(self, passes: list[Pass], name: str, mask: str) -> None:
        """Add their passes, which begin with the map that the last one of *passes* writes."""
        for index, block in enumerate(self.blocks):
            passes[-1] = block.prepared(passes[-1])
            passes.append(block.masked_pass(f"{name}.{index}", passes[-1].writes, mask))


class MST(Network):
    """A U-shape with *blocks* at its levels, and the features that it begins with as a residual.

    Levels have 1, 2, 4 ... times *out_bands* channels, and as many heads.
    """

    def __init__(
        self, in_bands: int = 3, out_bands: int = 31, blocks: Sequence[int] = (4, 7, 5)
    ) -> None:
        super().__init__()
        self.in_bands, self.out_bands = in_bands, out_bands
        self.embedding_1, self.embedding_2 = (
            nn.Conv2d(in_bands, out_bands, 3, padding=1, bias=False) for _ in range(2)
        )
        heads = [2**level for level in range(len(blocks))]
        *levels, (lowest, count) = zip(heads, blocks, strict=True)
        self.encoder_layers: Any = nn.ModuleList(
            nn.ModuleList(
                [Blocks(out_bands * h, h, n), *(_halving(out_bands * h) for _ in range(2))]
            )
            for h, n in levels
        )
        self.bottleneck = Blocks(out_bands * lowest, lowest, count)
        self.decoder_layers: Any = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.ConvTranspose2d(2 * out_bands * h, out_bands * h, 2, 2),
                    nn.Conv2d(2 * out_bands * h, out_bands * h, 1, bias=False),
                    Blocks(out_bands * h, h, n),
                ]
            )
            for h, n in reversed(levels)
        )
        self.mapping = nn.Conv2d(out_bands, out_bands, 3, padding=1, bias=False)

    def program(self) -> Program:
        """A pass for each block and convolution."""
        bands = self.out_bands
        mask = "mask"
        passes = [
            Pass(mask, (PHOTO,), self.mask, bands, halo=1),
            Pass("embedded", (PHOTO,), self.embedded, bands, halo=1),
        ]
        skips = []
        for level, (blocks, down, mask_down) in enumerate(self.encoder_layers):
            blocks.add_to(passes, f"encoder.{level}", mask)
            skips.append((passes[-1].writes, mask))
            mask = f"mask.{level}"
            for name, read, halving in zip(
                (mask, f"down.{level}"), reversed(skips[-1]), (mask_down, down), strict=True
            ):
                after = halving.out_channels
                passes.append(Pass(name, (read,), halving, after, halo=1, scale=Fraction(1, 2)))
        self.bottleneck.add_to(passes, "bottleneck", mask)
        for level, (up, fuse, blocks) in enumerate(self.decoder_layers):
            skip, mask = skips.pop()
            doubled = f"up.{level}"
            passes += [
                Pass(doubled, (passes[-1].writes,), up, up.out_channels, scale=Fraction(2)),
                Pass(f"fuse.{level}", (doubled, skip), Concatenated(fuse), fuse.out_channels),
            ]
            blocks.add_to(passes, f"decoder.{level}", mask)
        reads = passes[-1].writes, "embedded"
        passes.append(Pass("bands", reads, Plus(self.mapping), bands, halo=1))
        return Program(tuple(passes), self.in_bands, MULTIPLE, self.mapping.weight.dtype)

    def mask(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, out_bands, H, W)."""
        return F.leaky_relu(self.embedding_1(photo), 0.1)

    def embedded(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, out_bands, H, W)."""
        return F.leaky_relu(self.embedding_2(photo), 0.1)


def mst_of(weights: Mapping[str, Tensor]) -> MST:
    """A network with the blocks and channels of *weights*."""
    out_bands, in_bands = weights["mapping.weight"].shape[0], weights["embedding_1.weight"].shape[1]
    levels = count_of(r"encoder_layers\.(\d+)\.", weights)
    parts = [*(rf"encoder_layers\.{level}\.0" for level in range(levels)), "bottleneck"]
    return MST(
        in_bands, out_bands, [count_of(rf"{part}\.blocks\.(\d+)\.", weights) for part in parts]
    )


def _halving(channels: int) -> nn.Conv2d:
    return nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False)
