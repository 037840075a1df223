"""A spectral attention block on a CPU by torch alone: oneDNN convolutions with their GELU fused.

For one image S-MSA is one C x C matrix. (The residual around it is added last: as an identity in
that matrix, it would round what is small together with what is large.) The affine part of LayerNorm
goes into the expanding convolution. All channels are padded to whole vectors, P of them, and halos
shrink as the convolutions use them up, so nothing is computed twice.
Letters: C channels, P padded channels, h, w sides of a window.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine.device import abilities
from napari_mst.engine.windows import Sides
from napari_mst.networks.attention.spectral import HALO, FeedForward, SpectralAttentionBlock

_VECTOR = 16
"""Channels are filled up to multiples of this: the floats of a vector of AVX-512."""

_STEP = 4
"""Sides of windows are filled up to multiples of this: oneDNN keeps kernels for each shape."""

_HALVES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
"""The types of 16 bits by their names."""

_PACKED_SIDE = 64
"""Side of the tiles for which weights are packed; other tiles run too."""


def can_run(device: torch.device, dtype: torch.dtype) -> bool:
    """Tell whether *device* is a CPU that torch drives through oneDNN, in float32 or 16 bits."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    # A processor without AVX-512 imitates 16 bits, but cannot pack weights of 16 bits.
    is_packed = dtype in _HALVES and _HALVES[dtype] in abilities().computes_in
    return dtype == torch.float32 or is_packed


class _Hidden(NamedTuple):
    """The weights of as many hidden channels as the block has padded channels."""

    expand: Tensor
    bias: Tensor
    filters: Tensor
    reduce: Tensor


class OneDnnBlock:
    """The local part of a block for one *mixing* matrix, in *dtype*: `apply_mixing` to rounding."""

    def __init__(
        self, block: SpectralAttentionBlock, mixing: Tensor, dtype: torch.dtype = torch.float32
    ) -> None:
        attention = block.attention
        channels = mixing.shape[-1]
        self._channels = channels
        self._eps = block.feed_forward.norm.eps
        self._mixing = pointwise(_padded(mixing[0]), dtype)
        self._bias = _padded(attention.proj.bias).to(dtype)
        self._value = pointwise(_padded(attention.to_v.weight), dtype)
        self._pos = [
            _packed(_padded(parameter), dtype, groups=True)
            for parameter in attention.pos.parameters()
        ]
        # With zeros for the padded channels, which would count in a plain mean.
        self._mean = _padded(torch.full((channels,), 1 / channels))
        self._hidden = _hidden_parts(block.feed_forward, len(self._bias), dtype)

    def __call__(self, window: Tensor, halo: Sides) -> Tensor:
        """The block inside the *halo* of *window*, (1, C, h, w).

        The halo has `HALO` pixels on each side, or fewer where the image ends.
        """
        top, bottom, left, right = (HALO - side for side in halo)
        height = window.shape[-2] + top + bottom
        width = window.shape[-1] + left + right
        missing = top, bottom + -height % _STEP, left, right + -width % _STEP
        attended = self._attended(window, missing)
        normalised = self._normalised(attended)
        result = dense(attended[:, : self._channels, 1:-1, 1:-1])
        del attended  # its memory is free for the hidden channels
        for part in self._hidden:
            hidden = convolve(normalised, part.expand, part.bias, gelu=True)
            hidden = _depthwise(_clear(hidden, missing, 1), part.filters, gelu=True)
            convolve_onto(result, hidden, part.reduce)
        return result[..., : height - 2 * HALO, : width - 2 * HALO]

    def _attended(self, window: Tensor, missing: Sides) -> Tensor:
        """The input and its S-MSA added: (1, C, h, w) -> (1, P, h - 4, w - 4)."""
        x = _surrounded(window, missing)
        hidden = _depthwise(convolve(x, self._value), self._pos[0], gelu=True)
        attended = _depthwise(_clear(hidden, missing, 2), self._pos[1])
        del hidden
        inside = dense(x[..., 2:-2, 2:-2])
        convolve_onto(attended, inside, self._mixing, self._bias)
        attended[:, : self._channels] += inside
        return attended

    def _normalised(self, x: Tensor) -> Tensor:
        """LayerNorm without its affine part, (1, P, h, w) -> (1, P, h, w).

        It leaves numbers in the padded channels, which nothing uses: their weights are zero.
        """
        pixels = x.permute(0, 2, 3, 1).float()
        values = pixels.flatten(0, 2)
        centred = values - torch.mv(values, self._mean)[:, None]
        variance = torch.mv(centred * centred, self._mean)
        centred.mul_(variance.add_(self._eps).rsqrt_()[:, None])
        return centred.to(x.dtype).view(pixels.shape).permute(0, 3, 1, 2)


def _hidden_parts(feed_forward: FeedForward, size: int, dtype: torch.dtype) -> list[_Hidden]:
    """The hidden channels in parts of *size*, whose results are added up one after the other."""
    norm = feed_forward.norm
    expand = feed_forward.expand.weight[:, :, 0, 0].double()
    expand_weight = _padded(_padded((expand * norm.weight).T).T)
    expand_bias = _padded(expand @ norm.bias.double())
    filters = _padded(feed_forward.depthwise.weight)
    reduce = _padded(feed_forward.reduce.weight[:, :, 0, 0].T)
    weights = (expand_weight, expand_bias, filters, reduce)
    parts = zip(*(weight.split(size) for weight in weights), strict=True)
    return [
        _Hidden(
            expand=pointwise(weight, dtype),
            bias=bias.to(dtype),
            filters=_packed(spatial, dtype, groups=True),
            reduce=pointwise(back.T, dtype),
        )
        for weight, bias, spatial, back in parts
    ]


class OneDnnConvolution:
    """*convolution* without padding, one row of its filters after the other, added up in place.

    In 16 bits, in which each sum would be rounded, it is one piece.
    """

    def __init__(self, convolution: nn.Conv2d, dtype: torch.dtype = torch.float32) -> None:
        weight = convolution.weight
        self._stride = convolution.stride
        self._bias = None if convolution.bias is None else convolution.bias.to(dtype)
        rows_at_once = weight.shape[-2] if dtype.itemsize == 2 else 1
        self._rows = [
            _packed(row.contiguous(memory_format=torch.channels_last), dtype, stride=self._stride)
            for row in weight.split(rows_at_once, dim=-2)
        ]

    def __call__(self, x: Tensor) -> Tensor:
        """(1, C, h, w) -> (1, C', h', w')."""
        x = x.contiguous(memory_format=torch.channels_last)
        reach = x.shape[-2] - len(self._rows) + 1
        total = convolve(x.narrow(2, 0, reach), self._rows[0], self._bias, stride=self._stride)
        for first, weight in enumerate(self._rows[1:], start=1):
            convolve_onto(total, x.narrow(2, first, reach), weight, stride=self._stride)
        return total


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    gelu: bool = False,
    stride: tuple[int, ...] = (1, 1),
) -> Tensor:
    """Unpadded convolution and its GELU in one oneDNN primitive."""
    operation: Any = torch.ops.mkldnn._convolution_pointwise
    follows = "gelu" if gelu else "none"
    result: Tensor = operation(x, weight, bias, (0, 0), stride, (1, 1), 1, follows, [], "none")
    return result


def convolve_onto(
    total: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: tuple[int, ...] = (1, 1),
) -> Tensor:
    """Add an unpadded convolution to *total*, in place, in one oneDNN primitive."""
    operation: Any = torch.ops.mkldnn._convolution_pointwise_.binary
    operation(total, x, weight, bias, (0, 0), stride, (1, 1), 1, "add", 1.0, None, [], None)
    return total


def _depthwise(x: Tensor, weight: Tensor, gelu: bool = False) -> Tensor:
    """Unpadded convolution of each channel by itself, and its GELU, in one oneDNN primitive."""
    operation: Any = torch.ops.mkldnn._convolution_pointwise
    follows = "gelu" if gelu else "none"
    result: Tensor = operation(
        x, weight, None, (0, 0), (1, 1), (1, 1), x.shape[1], follows, [], "none"
    )
    return result


def _clear(x: Tensor, missing: Sides, halo: int) -> Tensor:
    """Zero, in place, what lies outside the image: the network's convolutions see zeros there."""
    top, bottom, left, right = (max(side - (HALO - halo), 0) for side in missing)
    height, width = x.shape[-2:]
    x[:, :, :top].zero_()
    x[:, :, height - bottom :].zero_()
    x[..., :left].zero_()
    x[..., width - right :].zero_()
    return x


def dense(x: Tensor) -> Tensor:
    """(1, C, h, w) with the strides of dense channels-last memory, so that oneDNN makes no copy."""
    return x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)


def _surrounded(window: Tensor, sides: Sides) -> Tensor:
    """Dense (1, C, h, w) with zeros on its *sides*."""
    if not any(sides):
        return dense(window)
    top, bottom, left, right = sides
    return F.pad(window.permute(0, 2, 3, 1), (0, 0, left, right, top, bottom)).permute(0, 3, 1, 2)


def pointwise(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix (out, in) as the weight of a 1x1 convolution."""
    return _packed(matrix[:, :, None, None].contiguous(memory_format=torch.channels_last), dtype)


def _packed(
    weight: Tensor, dtype: torch.dtype, groups: bool = False, stride: tuple[int, ...] = (1, 1)
) -> Tensor:
    """*weight* in oneDNN's own layout, so that no call reorders it; *groups*: it is depthwise."""
    channels = len(weight) if groups else weight.shape[1]
    group_count = channels if groups else 1
    shape = (1, channels, _PACKED_SIDE, _PACKED_SIDE)
    operation: Any = torch.ops.mkldnn._reorder_convolution_weight
    packed: Tensor = operation(weight.to(dtype), (0, 0), stride, (1, 1), group_count, shape)
    return packed


def _padded(weight: Tensor) -> Tensor:
    """*weight* with zero output channels added up to whole vectors."""
    extra = -weight.shape[0] % _VECTOR
    return torch.cat([weight, weight.new_zeros(extra, *weight.shape[1:])])
