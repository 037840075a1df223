"""MST: one U-shape of spectral attention whose values are multiplied by a mask.

Paper: Cai et al., CVPR 2022, doi:10.1109/CVPR52688.2022.01698; with a mask computed from the photo,
as trained by the authors (https://github.com/caiyuanhao1998/MST-plus-plus, MIT), whose weights
load. The sizes S, M and L differ in the number of blocks. This is an independent implementation.
Letters: N batch, C channels, H rows, W columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.attention.kinds import halving
from napari_mst.networks.attention.spectral import SpectralAttentionBlock
from napari_mst.networks.hyperparameters import MULTIPLE
from napari_mst.networks.layout import count_of
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import Concatenated, Plus
from napari_mst.networks.network import PHOTO, Program
from napari_mst.networks.shared_modules import Chain, near


class MaskGuidance(nn.Module):
    """Features of a mask, plus the same features gated by a 5x5 convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (near(channels, channels, 1) for _ in range(2))
        self.depth_conv = near(channels, channels, 5, groups=channels)

    def forward(self, mask: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        features = self.conv1(mask)
        return features * (1 + torch.sigmoid(self.depth_conv(self.conv2(features))))


class MaskedBlock(SpectralAttentionBlock):
    """A SAB whose values are multiplied by the guidance of a mask."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__(channels, heads)
        self.mm = MaskGuidance(channels)

    def add_to(self, passes: Chain, name: str, mask: str) -> None:
        """Add the pass of this block, which also reads *mask*."""
        passes[-1] = self.prepared(passes[-1])
        (unmasked,) = self.passes(name, passes.last)
        passes.append(
            replace(
                unmasked,
                reads=(passes.last, mask),
                local=self.apply_masked,
                attention=(replace(unmasked.attention[0], parts=None),),
                block=None,
            )
        )

    def mixing(self, gram: Tensor, _pixels: int = 0) -> Tensor:
        """Gram matrix of the whole image -> mixing matrix of masked values, both (N, C, C)."""
        attention = self.attention.attention(gram)
        # The mask acts between values and attention, so values do not fold into the matrix.
        return self.attention.mixing(attention, torch.eye(gram.shape[-1]).to(attention))

    def apply_masked(self, x: Tensor, mask: Tensor, mixing: Tensor) -> Tensor:
        """The local part: (N, C, H, W) -> (N, C, H, W), exact `halo` pixels away from a cut."""
        value = F.conv2d(x, self.attention.to_v.weight[:, :, None, None])
        masked = (value * self.mm(mask)).flatten(2)
        mixed = mixing.to(x) @ masked + self.attention.proj.bias[:, None]
        x = x + mixed.unflatten(2, x.shape[2:]) + self.attention.pos(value)
        return x + self.feed_forward(x)


class Blocks(nn.Module):
    """Consecutive blocks."""

    def __init__(self, channels: int, heads: int, count: int) -> None:
        super().__init__()
        self.blocks: Any = nn.ModuleList([MaskedBlock(channels, heads) for _ in range(count)])

    def add_to(self, passes: Chain, name: str, mask: str) -> None:
        """Add the passes of all blocks."""
        for index, block in enumerate(self.blocks):
            block.add_to(passes, f"{name}.{index}", mask)


class MST(Network):
    """A U-shape with *blocks* at its levels, and its input features as a residual.

    Levels have *out_bands* channels times 1, 2, 4 ..., in 1, 2, 4 ... heads.
    """

    def __init__(
        self, in_bands: int = 3, out_bands: int = 31, blocks: Sequence[int] = (4, 7, 5)
    ) -> None:
        super().__init__()
        self.in_bands, self.out_bands = in_bands, out_bands
        self.embedding_1, self.embedding_2 = (
            near(in_bands, out_bands, bias=False) for _ in range(2)
        )
        *levels, lowest = [(out_bands << level, 1 << level, n) for level, n in enumerate(blocks)]
        self.encoder_layers: Any = nn.ModuleList(
            nn.ModuleList([Blocks(channels, *more), halving(channels), halving(channels)])
            for channels, *more in levels
        )
        self.bottleneck = Blocks(*lowest)
        self.decoder_layers: Any = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.ConvTranspose2d(2 * channels, channels, 2, 2),
                    near(2 * channels, channels, 1, bias=False),
                    Blocks(channels, *more),
                ]
            )
            for channels, *more in reversed(levels)
        )
        self.mapping = near(out_bands, out_bands, bias=False)

    def program(self) -> Program:
        """A pass for each block and convolution."""
        passes = Chain()
        mask = passes.add("mask", self.mask, channels=self.out_bands, halo=1)
        passes.add("embedded", self.embedded, reads=(PHOTO,), halo=1)
        skips = []
        for level, (blocks, down, mask_down) in enumerate(self.encoder_layers):
            blocks.add_to(passes, f"encoder.{level}", mask)
            skip = passes.last
            skips.append((skip, mask))
            mask = passes.add(f"mask.{level}", mask_down, reads=(mask,))
            passes.add(f"down.{level}", down, reads=(skip,))
        self.bottleneck.add_to(passes, "bottleneck", mask)
        for level, (up, fuse, blocks) in enumerate(self.decoder_layers):
            skip, mask = skips.pop()
            passes.add(f"up.{level}", up)
            passes.add(f"fuse.{level}", Concatenated(fuse), skip)
            blocks.add_to(passes, f"decoder.{level}", mask)
        passes.add("bands", Plus(self.mapping), "embedded")
        return self.program_of(passes, MULTIPLE)

    def mask(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, out_bands, H, W)."""
        return F.leaky_relu(self.embedding_1(photo), 0.1)

    def embedded(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, out_bands, H, W)."""
        return F.leaky_relu(self.embedding_2(photo), 0.1)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "MST":
        """A network with the blocks and channels of *weights*."""
        out_bands, in_bands = weights["embedding_1.weight"].shape[:2]
        levels = count_of(r"encoder_layers\.(\d+)\.", weights)
        parts = [*(rf"encoder_layers\.{level}\.0" for level in range(levels)), "bottleneck"]
        return cls(
            in_bands, out_bands, [count_of(rf"{part}\.blocks\.(\d+)\.", weights) for part in parts]
        )
