"""A spectral attention block on a CPU: oneDNN convolutions with their GELU fused, weights folded ahead.

For one image S-MSA is one C x C matrix, and the residual around it one more identity in that matrix. LayerNorm is a
centring matrix and one factor a pixel; its affine part goes into the expanding convolution. All channels are padded to
whole vectors, P of them, and halos shrink as the convolutions use them up, so nothing is computed twice.
Letters: C channels, P padded channels, h, w sides of a window.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine.regions import Sides
from napari_mst.models.spectral_attention import HALO, SpectralAttentionBlock

_VECTOR = 16


def can_run(tensor: Tensor) -> bool:
    """Whether *tensor* is float32 on a CPU that torch drives through oneDNN."""
    is_fitting = tensor.device.type == "cpu" and tensor.dtype == torch.float32
    return is_fitting and torch.backends.mkldnn.is_available()


def is_available(block: SpectralAttentionBlock) -> bool:
    """Whether *block* can run in this form: without LayerNorm before S-MSA, as published."""
    return isinstance(block.norm, nn.Identity) and can_run(block.attention.to_v.weight)


class OneDnnBlock:
    """The local part of a block for one *mixing* matrix: what `apply_mixing` gives, to rounding."""

    def __init__(self, block: SpectralAttentionBlock, mixing: Tensor) -> None:
        attention, feed_forward = block.attention, block.feed_forward
        norm, expand = feed_forward.norm, feed_forward.expand.weight[:, :, 0, 0].double()
        self._channels = channels = mixing.shape[-1]
        identity = torch.eye(channels)
        self._eps = norm.eps
        self._mixing = _pointwise(_padded(mixing[0] + identity))
        self._bias = _padded(attention.proj.bias)
        self._value = _pointwise(_padded(attention.to_v.weight))
        self._pos = [_padded(parameter.detach()) for parameter in attention.pos.parameters()]
        self._centring = _pointwise(_padded(_padded(identity - 1 / channels).T).T)
        self._expand = _pointwise(_padded(_padded((expand * norm.weight).T).T))
        self._expand_bias = _padded(expand @ norm.bias.double()).float()
        self._hidden_filters = _padded(feed_forward.depthwise.weight)
        self._reduce = _pointwise(_padded(feed_forward.reduce.weight[:, :, 0, 0].T).T)
        self._mean = torch.full((self._centring.shape[0],), 1 / channels)

    def __call__(self, window: Tensor, halo: Sides) -> Tensor:
        """The block inside the *halo* of *window*, (1, C, h, w): HALO pixels, or less where the image ends."""
        missing = tuple(HALO - side for side in halo)
        top, bottom, left, right = missing
        x = dense(F.pad(window, (left, right, top, bottom)))
        hidden = _depthwise(_convolve(x, self._value), self._pos[0], gelu=True)
        attended = _depthwise(_clear(hidden, missing, 2), self._pos[1])
        convolve_onto(attended, dense(x[..., 2:-2, 2:-2]), self._mixing, self._bias)
        hidden = _convolve(self._normalised(attended), self._expand, self._expand_bias, gelu=True)
        hidden = _depthwise(_clear(hidden, missing, 1), self._hidden_filters, gelu=True)
        return _convolve(hidden, self._reduce).add_(attended[:, : self._channels, 1:-1, 1:-1])

    def _normalised(self, x: Tensor) -> Tensor:
        """LayerNorm without its affine part, (1, P, h, w) -> (1, P, h, w)."""
        centred = _convolve(x, self._centring)
        pixels = centred.permute(0, 2, 3, 1).flatten(0, 2)
        variance = torch.mv(pixels * pixels, self._mean)
        pixels.mul_(variance.add_(self._eps).rsqrt_()[:, None])
        return centred


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None = None, gelu: bool = False, groups: int = 1) -> Tensor:
    """Unpadded convolution and its GELU in one oneDNN primitive."""
    operation: Any = torch.ops.mkldnn._convolution_pointwise
    result: Tensor = operation(x, weight, bias, (0, 0), (1, 1), (1, 1), groups, "gelu" if gelu else "none", [], "none")
    return result


def convolve_onto(total: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Add an unpadded convolution to *total*, in place, in one oneDNN primitive."""
    operation: Any = torch.ops.mkldnn._convolution_pointwise_.binary
    operation(total, x, weight, bias, (0, 0), (1, 1), (1, 1), 1, "add", 1.0, None, [], None)
    return total


def _depthwise(x: Tensor, weight: Tensor, gelu: bool = False) -> Tensor:
    return _convolve(x, weight, gelu=gelu, groups=len(weight))


def _clear(x: Tensor, missing: tuple[int, ...], halo: int) -> Tensor:
    """Zero, in place, what lies outside the image: the network's own convolutions see zeros there."""
    top, bottom, left, right = (max(side - (HALO - halo), 0) for side in missing)
    height, width = x.shape[-2:]
    for outside in (x[..., :top, :], x[..., height - bottom :, :], x[..., :left], x[..., width - right :]):
        if outside.numel():
            outside.zero_()
    return x


def dense(x: Tensor) -> Tensor:
    """A copy of (1, C, h, w) with the strides of dense channels-last memory, of which oneDNN makes no copy."""
    return x.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format).permute(0, 3, 1, 2)


def _pointwise(matrix: Tensor) -> Tensor:
    """A matrix (out, in) as the weight of a 1x1 convolution."""
    return matrix.float()[:, :, None, None].contiguous(memory_format=torch.channels_last)


def _padded(weight: Tensor) -> Tensor:
    """*weight* with zero output channels added up to whole vectors."""
    extra = -weight.shape[0] % _VECTOR
    return torch.cat([weight, weight.new_zeros(extra, *weight.shape[1:])])
