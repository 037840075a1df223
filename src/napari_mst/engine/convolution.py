"""A convolution of the network whose filters are summed row by row, in the fastest form for its device.

A float32 sum of hundreds of products rounds as much as its length. The 4x4 and 3x3 convolutions have the longest sums
of the network, up to 992 products, and one row of the filter after the other has them in shorter ones.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine import onednn

Convolve = Callable[[Tensor], Tensor]
"""A convolution without padding: (1, C, h, w) -> (1, C', h', w')."""


def unpadded(convolution: nn.Conv2d, dtype: torch.dtype) -> Convolve:
    """*convolution* without its padding, of features of *dtype*: what `Region.convolve` takes."""
    weight, bias = convolution.weight, convolution.bias
    if onednn.can_run(weight.device, dtype):
        return onednn.OneDnnConvolution(convolution, dtype)
    weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)
    return lambda x: F.conv2d(x.contiguous(memory_format=torch.channels_last), weight, bias, convolution.stride)
