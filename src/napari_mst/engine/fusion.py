"""The end of a decoder step: doubling the size and fusing with the skip, folded into two smaller convolutions.

The 1x1 fusion of [up(x), skip] is linear in both halves: its first half goes into the weights of the transposed
convolution, its second is a 1x1 convolution of the skip, and nothing has to be put side by side.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine import onednn


class UpFusion:
    """fuse(concat(up(x), skip)), with x of (1, 2C, h, w) and skip of (1, C, 2h, 2w) -> (1, C, 2h, 2w)."""

    def __init__(self, up: nn.ConvTranspose2d, fuse: nn.Conv2d) -> None:
        fusion = fuse.weight.double()
        channels = len(fusion)
        of_up = fusion[:, :channels, 0, 0]
        self._up = torch.einsum("oc,icyx->ioyx", of_up, up.weight.double()).to(up.weight)
        self._skip = fuse.weight[:, channels:].contiguous(memory_format=torch.channels_last)
        bias = torch.zeros(channels).to(of_up) if up.bias is None else up.bias.double()
        self._bias = (of_up @ bias).to(up.weight)

    def __call__(self, x: Tensor, skip: Tensor) -> Tensor:
        """The fused features."""
        doubled = F.conv_transpose2d(x, self._up, self._bias, stride=2)
        if onednn.can_run(doubled):
            doubled = doubled.contiguous(memory_format=torch.channels_last)
            return onednn.convolve_onto(doubled, onednn.dense(skip), self._skip)
        return doubled.add_(F.conv2d(skip, self._skip))
