"""Passes of the network in torch alone: the forms of a GPU, of 16 bits, and where numba is missing.

On a CPU oneDNN fuses the GELUs of a block into its convolutions. Without that, three stages took
1.30 times as long in bfloat16, and 1.37 times in float32 without kernels.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine.device import computes_in
from napari_mst.engine.windows import Sides
from napari_mst.networks.attention.spectral import SpectralAttentionBlock

Convolve = Callable[[Tensor, Sides], Tensor]
"""(1, C, h, w) and how many zeros to add on each side -> the convolution (1, C', h', w')."""


def can_fuse(device: torch.device, dtype: torch.dtype) -> bool:
    """True if *device* is a CPU that torch drives through oneDNN, for features of *dtype*."""
    return device.type == "cpu" and torch.backends.mkldnn.is_available() and computes_in(dtype)


def fused_mixing(block: SpectralAttentionBlock, x: Tensor, mixing: Tensor) -> Tensor:
    """Return `block.apply_mixing` of one map, (1, C, h, w), to rounding."""
    attention = block.attention
    feed_forward = block.feed_forward
    # With any other strides oneDNN would copy the map before each convolution.
    x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    normal = block.channel_input(x)
    first, second = attention.pos.parameters()
    hidden = _convolved(normal, attention.to_v.weight[..., None, None])
    hidden = _convolved(_convolved(hidden, first, has_gelu=True), second)
    hidden += _convolved(normal, mixing[0].to(x)[..., None, None], attention.proj.bias)
    x = hidden.add_(x)
    normal = feed_forward.norm(x)
    # As many hidden channels at a time as the block has: all of them would take more memory.
    parts = zip(
        feed_forward.expand.weight.split(x.shape[1]),
        feed_forward.depthwise.weight.split(x.shape[1]),
        feed_forward.reduce.weight.split(x.shape[1], dim=1),
        strict=True,
    )
    for expand, depthwise, reduce in parts:
        hidden = _convolved(normal, expand, has_gelu=True)
        hidden = _convolved(hidden, depthwise, has_gelu=True)
        x = x + _convolved(hidden, reduce)
    return x


def _convolved(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, has_gelu: bool = False
) -> Tensor:
    """A padded convolution, over all channels or each alone, and its GELU in one operation."""
    operation: Any = torch.ops.mkldnn._convolution_pointwise
    padding = [side // 2 for side in weight.shape[2:]]
    groups = x.shape[1] // weight.shape[1]
    gelu = "gelu" if has_gelu else "none"
    result: Tensor = operation(x, weight, bias, padding, (1, 1), (1, 1), groups, gelu, [], "none")
    return result


def bordered(convolution: nn.Conv2d, dtype: torch.dtype) -> Convolve:
    """*convolution* of features of *dtype*, without padding of its own."""
    weight = convolution.weight.to(dtype)
    bias = None if convolution.bias is None else convolution.bias.to(dtype)
    stride = convolution.stride

    def convolve(x: Tensor, sides: Sides) -> Tensor:
        if any(sides):
            top, bottom, left, right = sides
            x = F.pad(x, (left, right, top, bottom))
        # From any other layout the result, and all that follows, would be of that layout, too.
        dense = x.contiguous(memory_format=torch.channels_last)
        return F.conv2d(dense, weight, bias, stride)

    return convolve


def folded_fusion(up: nn.ConvTranspose2d, fuse: nn.Conv2d) -> tuple[Tensor, Tensor, Tensor]:
    """The end of a decoder step, fuse(concat(up(x), skip)), as products with x and with the skip.

    The 1x1 fusion is linear in both halves. Its first half goes into the weights of the transposed
    convolution, its second is a 1x1 convolution of the skip, and nothing has to be put side by
    side. Returns a matrix for each pixel of a square, (4, C, 2C), the bias that is added, (C,), and
    the matrix of the skip, (C, C), in float64.
    """
    # The weights are folded on the CPU, because MPS has no float64.
    fusion = fuse.weight.cpu().double()[:, :, 0, 0]
    of_up, of_skip = fusion.split(len(fusion), dim=1)
    quarters = torch.einsum("oc,icyx->yxoi", of_up, up.weight.cpu().double()).flatten(0, 1)
    bias = of_up.new_zeros(len(fusion)) if up.bias is None else up.bias.cpu().double()
    return quarters, of_up @ bias, of_skip


def up_fusion(
    up: nn.ConvTranspose2d, fuse: nn.Conv2d, dtype: torch.dtype
) -> Callable[[Tensor, Tensor], Tensor]:
    """fuse(concat(up(x), skip)): x (1, 2C, h, w) and skip (1, C, 2h, 2w) -> (1, C, 2h, 2w)."""
    quarters, bias, of_skip = folded_fusion(up, fuse)
    weights = (quarters.flatten(0, 1)[..., None, None], of_skip[..., None, None], bias.repeat(4))
    of_quads, skips, added = (weight.to(dtype).to(fuse.weight.device) for weight in weights)

    def fused(x: Tensor, skip: Tensor) -> Tensor:
        doubled = _doubled(F.conv2d(x, of_quads, added))
        return doubled.add_(F.conv2d(skip, skips))

    return fused


def _doubled(quads: Tensor) -> Tensor:
    """(1, 4C, h, w), the four pixels of a square after each other, -> dense (1, C, 2h, 2w)."""
    _, four_channels, height, width = quads.shape
    channels = four_channels // 4
    squares = quads[0].permute(1, 2, 0).reshape(height, width, 2, 2, channels)
    pixels = squares.transpose(1, 2).reshape(1, 2 * height, 2 * width, channels)
    return pixels.permute(0, 3, 1, 2)
