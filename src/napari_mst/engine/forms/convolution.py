"""A convolution of the network whose filters are summed row by row, in the fastest form for its device.

A float32 sum of hundreds of products rounds as much as its length. The 4x4 and 3x3 convolutions
have the longest sums of the network, up to 992 products, and one row of the filter after the other
has them in shorter ones.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine.forms import native, onednn
from napari_mst.engine.windows import Sides

Convolve = Callable[[Tensor, Sides], Tensor]
"""A convolution of (1, C, h, w), and of zeros on its sides, without more padding -> (1, C', h', w')."""


def bordered(convolution: nn.Conv2d, dtype: torch.dtype) -> Convolve:
    """*convolution* of features of *dtype*, with zeros on the sides that it is told: what `Region.convolve` takes."""
    device = convolution.weight.device
    if native.can_run(device, dtype):
        from napari_mst.engine.forms.kernel_forms import CompiledConvolution

        return CompiledConvolution(convolution)
    is_onednn = onednn.can_run(device, dtype)
    unpadded = (
        onednn.OneDnnConvolution(convolution, dtype) if is_onednn else _plain(convolution, dtype)
    )
    return lambda x, sides: unpadded(_surrounded(x, sides))


def _plain(convolution: nn.Conv2d, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    weight, bias = (
        convolution.weight.to(dtype),
        None if convolution.bias is None else convolution.bias.to(dtype),
    )
    return lambda x: F.conv2d(
        x.contiguous(memory_format=torch.channels_last), weight, bias, convolution.stride
    )


def _surrounded(x: Tensor, sides: Sides) -> Tensor:
    top, bottom, left, right = sides
    return F.pad(x, (left, right, top, bottom)) if any(sides) else x
