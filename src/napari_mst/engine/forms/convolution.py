"""A convolution of the network in the fastest form for its device, summed up row by row.

A float32 sum of hundreds of products rounds as much as its length. The 4x4 and 3x3 convolutions
have the longest sums of the network, up to 992 products. Adding one row of the filter after the
other makes them shorter.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine.forms import native, onednn
from napari_mst.engine.windows import Sides

Convolve = Callable[[Tensor, Sides], Tensor]
"""(1, C, h, w) and how many zeros to add on each side -> the convolution (1, C', h', w')."""


def bordered(convolution: nn.Conv2d, dtype: torch.dtype) -> Convolve:
    """*convolution* of features of *dtype*, which adds as many zeros on each side as it is told."""
    device = convolution.weight.device
    if native.can_run(device, dtype):
        from napari_mst.engine.forms.kernel_forms import CompiledConvolution

        return CompiledConvolution(convolution)
    if onednn.can_run(device, dtype):
        return _surrounding(onednn.OneDnnConvolution(convolution, dtype))
    return _surrounding(_plain(convolution, dtype))


def _plain(convolution: nn.Conv2d, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    weight = convolution.weight.to(dtype)
    bias = None if convolution.bias is None else convolution.bias.to(dtype)
    stride = convolution.stride

    def convolve(x: Tensor) -> Tensor:
        # From any other layout the result, and all that follows, would be of that layout, too.
        dense = x.contiguous(memory_format=torch.channels_last)
        return F.conv2d(dense, weight, bias, stride)

    return convolve


def _surrounding(unpadded: Callable[[Tensor], Tensor]) -> Convolve:
    def convolve(x: Tensor, sides: Sides) -> Tensor:
        if not any(sides):
            return unpadded(x)
        top, bottom, left, right = sides
        return unpadded(F.pad(x, (left, right, top, bottom)))

    return convolve
