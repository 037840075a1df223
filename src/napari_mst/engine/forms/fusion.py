"""The end of a decoder step, doubling the size and fusing with the skip, as two 1x1 convolutions.

The 1x1 fusion of [up(x), skip] is linear in both halves. Its first half goes into the weights of
the transposed convolution, its second is a 1x1 convolution of the skip, and nothing has to be put
side by side.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine.forms import native, onednn


class UpFusion:
    """fuse(concat(up(x), skip)): x (1, 2C, h, w) and skip (1, C, 2h, 2w) -> (1, C, 2h, 2w)."""

    def __init__(self, up: nn.ConvTranspose2d, fuse: nn.Conv2d, dtype: torch.dtype) -> None:
        device = fuse.weight.device
        # The weights are folded on the CPU, because MPS has no float64.
        fusion = fuse.weight.cpu().double()
        channels = len(fusion)
        of_up, of_skip = fusion[:, :, 0, 0].split(channels, dim=1)
        quarters = torch.einsum("oc,icyx->yxoi", of_up, up.weight.cpu().double()).flatten(0, 1)
        bias = torch.zeros(channels).to(of_up) if up.bias is None else up.bias.cpu().double()
        bias = of_up @ bias
        self._compiled = None
        if native.can_run(device, dtype):
            from napari_mst.engine.forms.kernel_forms import CompiledUpFusion

            self._compiled = CompiledUpFusion(quarters, bias, of_skip)
        self._is_onednn = onednn.can_run(device, dtype)
        pointwise = onednn.pointwise if self._is_onednn else _pointwise
        self._up = pointwise(quarters.flatten(0, 1), dtype).to(device)
        self._skip = pointwise(of_skip, dtype).to(device)
        self._bias = bias.to(dtype).repeat(4).to(device)

    def __call__(self, x: Tensor, skip: Tensor) -> Tensor:
        """The fused features."""
        if self._compiled is not None:
            return self._compiled(x, skip)
        if self._is_onednn:
            doubled = _doubled(onednn.convolve(x, self._up, self._bias))
            return onednn.convolve_onto(doubled, onednn.dense(skip), self._skip)
        doubled = _doubled(F.conv2d(x, self._up, self._bias))
        return doubled.add_(F.conv2d(skip, self._skip))


def _doubled(quads: Tensor) -> Tensor:
    """(1, 4C, h, w), the four pixels of a square after each other, -> dense (1, C, 2h, 2w)."""
    _, four_channels, height, width = quads.shape
    channels = four_channels // 4
    squares = quads[0].permute(1, 2, 0).reshape(height, width, 2, 2, channels)
    pixels = squares.transpose(1, 2).reshape(1, 2 * height, 2 * width, channels)
    return pixels.permute(0, 3, 1, 2)


def _pointwise(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix (out, in) as the weight of a 1x1 convolution."""
    return matrix.to(dtype)[:, :, None, None].contiguous(memory_format=torch.channels_last)
