"""Parts shared by networks: chains of passes, convolutions, and means weighted by a softmax.

Letters: N batch, C channels, H rows, W columns, T tiles, K parallel softmaxes.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from napari_mst.networks.network import PHOTO, Pass


class Chain(list[Pass]):
    """Consecutive passes: the first reads the map *start*, every other the previous map."""

    def __init__(self, start: str = PHOTO) -> None:
        super().__init__()
        self.start = start

    @property
    def last(self) -> str:
        """The map that the last pass writes."""
        return self[-1].writes if self else self.start

    def add(self, name: str, local: Any, *others: str, **words: Any) -> str:
        """Add a pass with *local* from the last map and *others* to the map *name*; return *name*.

        Channels, halo and scale are those of the convolution that *local* is or has; without one,
        the channels of the last map are kept. *words* of the pass override them.
        """
        convolution = getattr(local, "convolution", local)
        if isinstance(convolution, nn.Conv2d | nn.ConvTranspose2d):
            stride = Fraction(convolution.stride[0])
            is_larger = isinstance(convolution, nn.ConvTranspose2d)
            usual = {
                "channels": convolution.out_channels,
                "halo": convolution.padding[0],
                "scale": stride if is_larger else 1 / stride,
            }
        else:
            usual = {"channels": self[-1].channels} if self else {}
        reads = self.last, *others
        self.append(Pass(name, local=local, **{"reads": reads, **usual, **words}))
        return name

    def add_block(self, block: Any, name: str) -> None:
        """Add the passes of an attention *block* from the last map, once prepared, to *name*."""
        self[-1] = block.prepared(self[-1])
        self += block.passes(name, self.last)


def near(before: int, after: int, side: int = 3, **options: Any) -> nn.Conv2d:
    """A convolution that keeps the size of its input."""
    return nn.Conv2d(before, after, side, padding=side // 2, **options)


class Activated(nn.Sequential):
    """A convolution of concatenated maps, and a leaky ReLU."""

    def __init__(self, before: int, after: int, side: int = 3) -> None:
        super().__init__(near(before, after, side), nn.LeakyReLU(0.2))

    def forward(self, *maps: Tensor) -> Tensor:
        """Maps (N, C, H, W) -> (N, C', H, W)."""
        convolution, activation = self
        return activation(convolution(torch.cat(maps, 1)))

    @property
    def convolution(self) -> nn.Module:
        """The convolution before the ReLU."""
        return self[0]


def wide(x: Tensor) -> Tensor:
    """*x* in the precision of long sums: float64, except on MPS, which lacks it."""
    return x.float() if x.device.type == "mps" else x.double()


def softmax_sums(logits: Tensor, values: Tensor | None = None) -> Tensor:
    """A tile's sums for softmaxes over all pixels that weight *values*: (N, 1, K, C + 2).

    *logits* are (N, K, H, W), and *values* (N, C, H, W). A run must gather the tiles, because the
    largest logit is unknown beforehand and a plain sum of exponentials would overflow.
    """
    values = logits[:, :0] if values is None else values
    logits, values = (wide(each).flatten(2) for each in (logits, values))
    largest = logits.amax(2, keepdim=True)
    weights = (logits - largest).exp()
    sums = largest, weights.sum(2, keepdim=True), weights @ values.mT
    return torch.cat(sums, 2)[:, None]


class Softmaxes(NamedTuple):
    """K softmaxes over all pixels: largest logits and sums of exponentials, (N, K, 1, 1).

    `means` (N, K, C) are the weighted means of the values.
    """

    largest: Tensor
    total: Tensor
    means: Tensor

    def of(self, logits: Tensor) -> Tensor:
        """The weights (N, K, H, W) for given logits."""
        return (logits - self.largest.to(logits)).exp() / self.total.to(logits)


def softmaxes(tiles: Tensor, _pixels: int = 0) -> Softmaxes:
    """The softmaxes of all tiles: (N, T, K, C + 2)."""
    largest = tiles[..., :1].amax(1, keepdim=True)
    sums = ((tiles[..., :1] - largest).exp() * tiles[..., 1:]).sum(1)
    total, means = sums[..., :1], sums[..., 1:] / sums[..., :1]
    return Softmaxes(largest[:, 0, :, :, None], total[..., None], means)
