"""The network's operations on a CPU as compiled kernels: what the torch forms give, faster.

This module imports numba, so it is imported only where `native.can_run` says so.
Letters: C channels, h, w sides of a region.
"""

import threading

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine.kernels.block import SCRATCH_ROWS, BlockWeights, apply_block
from napari_mst.engine.kernels.convolution import ConvolutionWeights, convolve
from napari_mst.engine.kernels.convolution import scratch_bytes as convolution_bytes
from napari_mst.engine.kernels.gram import GRAM_BYTES, add_gram
from napari_mst.engine.kernels.processor import LANES, PANEL, STEP
from napari_mst.engine.kernels.rows import Features, Missing, row_bytes
from napari_mst.engine.kernels.upsampling import UpFusionWeights, double
from napari_mst.engine.kernels.upsampling import scratch_bytes as fusion_bytes
from napari_mst.engine.windows import Sides
from napari_mst.networks.attention.spectral import HALO, SpectralAttentionBlock

_FLOAT_BYTES = 4
_DOUBLE_BYTES = 8
_CACHE_LINE = 64
_memory = threading.local()


class CompiledBlock:
    """The local part of a block for one *mixing* matrix: what `apply_mixing` gives, to rounding."""

    def __init__(self, block: SpectralAttentionBlock, mixing: Tensor) -> None:
        attention = block.attention
        feed_forward = block.feed_forward
        norm = feed_forward.norm
        expand = feed_forward.expand.weight[:, :, 0, 0].double()
        first_filters, second_filters = attention.pos.parameters()
        channels = mixing.shape[-1]
        inside = _filled(channels)
        hidden = inside * len(expand) // channels
        # In the order of `BlockWeights`. The affine part of LayerNorm is folded into the product
        # that follows it. The tensors are kept, because the record has only their addresses.
        self._weights = [
            _panels(attention.to_v.weight, inside, inside),
            _filters(first_filters, inside),
            _filters(second_filters, inside),
            _panels(mixing[0], inside, inside),
            _vector(attention.proj.bias, inside),
            _panels(expand * norm.weight.double(), hidden, inside),
            _vector(expand @ norm.bias.double(), hidden),
            _filters(feed_forward.depthwise.weight, hidden),
            _panels(feed_forward.reduce.weight[:, :, 0, 0], inside, hidden),
            torch.tensor([norm.eps]),
        ]
        self._channels = channels
        self._planes = inside // LANES
        addresses = (weight.data_ptr() for weight in self._weights)
        self._addresses = BlockWeights(self._planes, *addresses)

    def __call__(self, window: Tensor, halo: Sides) -> Tensor:
        """The block inside the *halo* of *window*, (1, C, h, w).

        The halo has `HALO` pixels on each side, or fewer where the image ends.
        """
        window = _side_by_side(window)
        top, bottom, left, right = halo
        height = window.shape[2] - top - bottom
        width = window.shape[3] - left - right
        out = _empty(self._channels, height, width)
        scratch = _scratch(SCRATCH_ROWS * row_bytes(width + 2 * HALO, self._planes))
        missing = Missing(*(HALO - side for side in halo))
        apply_block(_features(window), missing, self._addresses, _features(out), scratch)
        return out


class CompiledConvolution:
    """A 3x3 convolution, or a 4x4 of stride 2, without padding of its own."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        weight = convolution.weight
        stride = convolution.stride[0]
        self.side = weight.shape[-1]
        self._out_channels, channels = weight.shape[:2]
        planes = -(-channels // LANES)
        # A photo has three channels: where they fill no vector, only the groups that they fill are
        # multiplied.
        step = min(-(-channels // STEP) * STEP, LANES)
        inside = planes * step
        outside = _filled(self._out_channels)
        columns = _by_phase(self.side, stride)
        taps = weight[..., columns].permute(2, 3, 0, 1).flatten(0, 1)
        self._weight = _panels(taps, outside, inside).transpose(0, 1).contiguous()
        bias = torch.zeros(self._out_channels) if convolution.bias is None else convolution.bias
        self._bias = _vector(bias, outside)
        self._record = ConvolutionWeights(
            side=self.side,
            stride=stride,
            planes=planes,
            out_planes=outside // LANES,
            steps=step // STEP,
            weights=self._weight.data_ptr(),
            bias=self._bias.data_ptr(),
        )

    def __call__(self, features: Tensor, missing: Sides) -> Tensor:
        """(1, C, h, w), and zeros around it where pixels are *missing*, convolved."""
        features = _side_by_side(features)
        top, bottom, left, right = missing
        height = features.shape[2] + top + bottom
        width = features.shape[3] + left + right
        side, stride = self._record.side, self._record.stride
        rows, columns = ((length - side) // stride + 1 for length in (height, width))
        out = _empty(self._out_channels, rows, columns)
        scratch = _scratch(convolution_bytes(self._record, width))
        convolve(_features(features), Missing(*missing), self._record, _features(out), scratch)
        return out


def _by_phase(side: int, stride: int) -> Tensor:
    """The columns of a filter by their remainder by the *stride*, as `products.Taps` has them."""
    return torch.arange(side).view(-1, stride).T.flatten()


class CompiledUpFusion:
    """Features doubled in size, and a skip, fused and added.

    *up* (4, C, 2C) has a matrix for each pixel of a square, *bias* (C) is added, and *fuse* (C, C)
    is the matrix of the skip.
    """

    def __init__(self, up: Tensor, bias: Tensor, fuse: Tensor) -> None:
        self._out_channels, channels = up.shape[1:]
        outside = _filled(self._out_channels)
        inside = _filled(channels)
        self._weights = [
            _panels(up, outside, inside),
            _vector(bias, outside),
            _panels(fuse, outside, outside),
        ]
        addresses = (weight.data_ptr() for weight in self._weights)
        self._record = UpFusionWeights(inside // LANES, outside // LANES, *addresses)

    def __call__(self, x: Tensor, skip: Tensor) -> Tensor:
        """(1, 2C, h, w) and (1, C, 2h, 2w) -> (1, C, 2h, 2w)."""
        x = _side_by_side(x)
        skip = _side_by_side(skip)
        height, width = x.shape[2:]
        out = _empty(self._out_channels, 2 * height, 2 * width)
        scratch = _scratch(fusion_bytes(self._record, width))
        double(_features(x), _features(skip), self._record, _features(out), scratch)
        return out


def compiled_gram(x: Tensor) -> Tensor:
    """Gram matrix of the channels, summed over pixels: (1, C, H, W) -> (1, C, C), in float64."""
    x = _side_by_side(x)
    channels = x.shape[1]
    filled = _filled(channels)
    total = torch.zeros(filled, filled, dtype=torch.float64)
    scratch = _scratch(max(GRAM_BYTES, _DOUBLE_BYTES * filled))
    add_gram(_features(x), filled // LANES, total.data_ptr(), scratch)
    # The kernel completes only what is above the diagonal.
    upper = total[None, :channels, :channels].triu()
    return upper + upper.triu(1).mT


def largest_error() -> float:
    """The error of the kernels against torch on small random features, by the largest value."""
    # The fork leaves the random numbers of the caller as they are.
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        block = SpectralAttentionBlock(6, 1)
        x = torch.randn(1, 6, 10, 14).contiguous(memory_format=torch.channels_last)
        half = nn.Conv2d(6, 9, 4, 2, padding=1)
        up = torch.randn(4, 3, 6)
        fuse = torch.randn(3, 3)
        skip = torch.randn(1, 3, 20, 28)
        bias = torch.randn(3)
        mixing = block.mixing(block.input_gram(x))
        doubled = F.pixel_shuffle(torch.einsum("qci,nihw->ncqhw", up, x).flatten(1, 2), 2)
        fused = doubled + F.conv2d(skip, fuse[:, :, None, None], bias)
        pairs = [
            (CompiledBlock(block, mixing)(x, (0, 0, 0, 0)), block.apply_mixing(x, mixing.float())),
            (CompiledConvolution(half)(x, (1, 1, 1, 1)), half(x)),
            (CompiledUpFusion(up, bias, fuse)(x, skip), fused),
            (compiled_gram(x), block.input_gram(x)),
        ]
        return max(
            float((ours - theirs).abs().max() / theirs.abs().max()) for ours, theirs in pairs
        )


# Features


def _side_by_side(features: Tensor) -> Tensor:
    """(1, C, h, w) whose channels lie side by side: the same where they do."""
    is_fitting = features.stride(1) == 1 or features.shape[1] == 1
    return features if is_fitting else features.contiguous(memory_format=torch.channels_last)


def _features(features: Tensor) -> Features:
    """(1, C, h, w) as kernels take it."""
    _, channels, height, width = features.shape
    return Features(
        address=features.data_ptr(),
        row=_FLOAT_BYTES * features.stride(2),
        pixel=_FLOAT_BYTES * features.stride(3),
        height=height,
        width=width,
        channels=channels,
    )


def _empty(channels: int, height: int, width: int) -> Tensor:
    """Room for dense channels-last features, (1, C, h, w)."""
    return torch.empty(1, height, width, channels).permute(0, 3, 1, 2)


def _scratch(size: int) -> int:
    """The address of *size* bytes or more, of whole cache lines, that only this thread uses."""
    # Kernels run without Python's lock, so threads cannot share one buffer.
    if getattr(_memory, "size", 0) < size + _CACHE_LINE:
        _memory.size = size + _CACHE_LINE
        _memory.buffer = torch.zeros(size + _CACHE_LINE, dtype=torch.uint8)
    return -(-_memory.buffer.data_ptr() // _CACHE_LINE) * _CACHE_LINE


# Weights


def _filled(channels: int) -> int:
    """*channels* filled up to whole panels."""
    return -(-channels // PANEL) * PANEL


def _panels(matrices: Tensor, outside: int, inside: int) -> Tensor:
    """Matrices (..., out, in) in the order in which a product reads them.

    It is (..., panels, in, PANEL), float32, with zeros up to *outside* and *inside* channels.
    """
    full = torch.zeros(*matrices.shape[:-2], outside, inside)
    full[..., : matrices.shape[-2], : matrices.shape[-1]] = matrices
    return full.unflatten(-2, (-1, PANEL)).mT.contiguous()


def _filters(weight: Tensor, channels: int) -> Tensor:
    """Depthwise filters (C, 1, 3, 3) in the order in which they are read: (planes, 9, LANES)."""
    full = torch.zeros(channels, 9)
    full[: len(weight)] = weight.flatten(1)
    return full.unflatten(0, (-1, LANES)).mT.contiguous()


def _vector(values: Tensor, length: int) -> Tensor:
    """*values* and zeros up to *length*, float32."""
    full = torch.zeros(length)
    full[: len(values)] = values
    return full
