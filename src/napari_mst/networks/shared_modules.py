"""Parts of several networks: passes in a row, convolutions, and means that a softmax weights.

Letters: N batch, C channels, H rows, W columns, T tiles, K softmaxes side by side.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from napari_mst.networks.network import PHOTO, Pass


class Chain(list[Pass]):
    """Passes one after the other: the first reads the map *start*, and each other one the last."""

    def __init__(self, start: str = PHOTO) -> None:
        super().__init__()
        self.start = start

    @property
    def last(self) -> str:
        """The map that the last pass writes."""
        return self[-1].writes if self else self.start

    def add(self, name: str, local: Any, *others: str, **words: Any) -> str:
        """Add the pass of *local* from the last map, and *others*, to the map *name*; returns that.

        Channels, halo and scale come from the convolution that *local* is or has; else the channels
        of the last map stay. *words* of the pass say otherwise.
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
        """Add the passes of an attention *block* from the last map, prepared, to the map *name*."""
        self[-1] = block.prepared(self[-1])
        self += block.passes(name, self.last)


def near(before: int, after: int, side: int = 3, **options: Any) -> nn.Conv2d:
    """A convolution whose output has the size of its input."""
    return nn.Conv2d(before, after, side, padding=side // 2, **options)


class Activated(nn.Sequential):
    """A convolution of maps side by side, and a leaky ReLU."""

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
    """*x* for long sums: in float64, which MPS has not."""
    return x.float() if x.device.type == "mps" else x.double()


def softmax_sums(logits: Tensor, values: Tensor | None = None) -> Tensor:
    """Sums that a tile adds to softmaxes over all pixels that weight *values*: (N, 1, K, C + 2).

    *logits* are (N, K, H, W), and *values* (N, C, H, W). A run has to gather tiles: a plain sum of
    exponentials would overflow, as nobody knows the largest logit before.
    """
    values = logits[:, :0] if values is None else values
    logits, values = (wide(each).flatten(2) for each in (logits, values))
    largest = logits.amax(2, keepdim=True)
    weights = (logits - largest).exp()
    sums = largest, weights.sum(2, keepdim=True), weights @ values.mT
    return torch.cat(sums, 2)[:, None]


class Softmaxes(NamedTuple):
    """K softmaxes over all pixels: largest logits and sums of exponentials, (N, K, 1, 1).

    `means` are the values that they weight, (N, K, C).
    """

    largest: Tensor
    total: Tensor
    means: Tensor

    def of(self, logits: Tensor) -> Tensor:
        """Their weights where the logits are known: (N, K, H, W)."""
        return (logits - self.largest.to(logits)).exp() / self.total.to(logits)


def softmaxes(tiles: Tensor, _pixels: int = 0) -> Softmaxes:
    """The softmaxes of all tiles: (N, T, K, C + 2)."""
    largest = tiles[..., :1].amax(1, keepdim=True)
    sums = ((tiles[..., :1] - largest).exp() * tiles[..., 1:]).sum(1)
    total, means = sums[..., :1], sums[..., 1:] / sums[..., :1]
    return Softmaxes(largest[:, 0, :, :, None], total[..., None], means)
