"""The network's operations on a CPU as compiled kernels, where numba is installed: what the torch forms give, faster.

Letters: C channels, P channels filled up to whole panels, h, w sides of a region.
"""

import functools
import logging
import threading
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine.windows import Sides
from napari_mst.networks.attention.spectral import HALO, SpectralAttentionBlock

logger = logging.getLogger("napari_mst")

_TOLERANCE = 1e-5
_LINE = 64
_memory, _preparing = threading.local(), threading.Lock()


def can_run(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether *device* is a CPU with kernels, which are float32; the first to ask waits until they are ready."""
    return device.type == "cpu" and dtype == torch.float32 and is_ready()


def is_available(block: SpectralAttentionBlock, dtype: torch.dtype) -> bool:
    """Whether *block* can run in this form: without LayerNorm before S-MSA, as published."""
    return isinstance(block.norm, nn.Identity) and can_run(
        block.attention.to_v.weight.device, dtype
    )


def is_installed() -> bool:
    """Whether numba is there: what it makes of the kernels is another question, which takes longer to answer."""
    return find_spec("numba") is not None


def is_ready() -> bool:
    """Whether there are kernels for this processor and they compute what they should.

    To find out takes some seconds the first time on a machine, less than one afterwards. Where they cannot be used that
    is logged, once, and all is computed without them.
    """
    with _preparing:
        return _is_ready()


@functools.cache
def _is_ready() -> bool:
    if not is_installed():
        return False
    try:
        error = _largest_error()
    except Exception as failure:  # noqa: BLE001 - whatever a compiler may meet: nobody needs it
        reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
    else:
        if error < _TOLERANCE:
            return True
        reason = f"they are off by {error:.1g}"
    logger.warning(
        "The kernels compiled by numba cannot be used here (%s). Running without them, slower.",
        reason,
    )
    return False


def _largest_error() -> float:
    """What the kernels give on small random features against torch, relative to the largest value."""
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        block, x = (
            SpectralAttentionBlock(6, 1),
            torch.randn(1, 6, 10, 14).contiguous(memory_format=torch.channels_last),
        )
        half, up, fuse = nn.Conv2d(6, 9, 4, 2, padding=1), torch.randn(4, 3, 6), torch.randn(3, 3)
        skip, bias, mixing = torch.randn(1, 3, 20, 28), torch.randn(3), block.mixing(block.gram(x))
        doubled = F.pixel_shuffle(torch.einsum("qci,nihw->ncqhw", up, x).flatten(1, 2), 2)
        pairs = [
            (Block(block, mixing)(x, (0, 0, 0, 0)), block.apply_mixing(x, mixing.float())),
            (Convolution(half)(x, (1, 1, 1, 1)), half(x)),
            (
                UpFusion(up, bias, fuse)(x, skip),
                doubled + F.conv2d(skip, fuse[:, :, None, None], bias),
            ),
            (gram(x), block.gram(x)),
        ]
        return max(
            float((ours - theirs).abs().max() / theirs.abs().max()) for ours, theirs in pairs
        )


class Block:
    """The local part of a block for one *mixing* matrix: what `apply_mixing` gives, to rounding."""

    def __init__(self, block: SpectralAttentionBlock, mixing: Tensor) -> None:
        kernels = _kernels()
        attention, feed_forward = block.attention, block.feed_forward
        norm, expand = feed_forward.norm, feed_forward.expand.weight[:, :, 0, 0].double()
        self._channels = channels = mixing.shape[-1]
        inside, hidden = _filled(channels), _filled(channels) * len(expand) // channels
        self._weights = [
            _products(attention.to_v.weight, inside, inside),
            *(_filters(parameter, inside) for parameter in attention.pos.parameters()),
            _products(mixing[0], inside, inside),
            _vector(attention.proj.bias, inside),
            _products(expand * norm.weight.double(), hidden, inside),
            _vector(expand @ norm.bias.double(), hidden),
            _filters(feed_forward.depthwise.weight, hidden),
            _products(feed_forward.reduce.weight[:, :, 0, 0], inside, hidden),
            torch.tensor([norm.eps]),
        ]
        self._addresses = tuple(weight.data_ptr() for weight in self._weights)
        self._planes = inside // kernels.LANES

    def __call__(self, window: Tensor, halo: Sides) -> Tensor:
        """The block inside the *halo* of *window*, (1, C, h, w): HALO pixels, or less where the image ends."""
        window = _side_by_side(window)
        kernels, (top, bottom, left, right) = _kernels(), halo
        out = _features(
            self._channels, window.shape[2] - top - bottom, window.shape[3] - left - right
        )
        height, width = out.shape[2:]
        scratch = _scratch(kernels.BLOCK_ROWS * kernels.row_bytes(width + 2 * HALO, self._planes))
        missing = tuple(HALO - side for side in halo)
        kernels.apply_block(
            *_place(window),
            height,
            width,
            missing,
            self._channels,
            self._planes,
            self._addresses,
            *_place(out),
            scratch,
        )
        return out


class Convolution:
    """A 3x3 convolution, or a 4x4 of stride 2, without padding of its own."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        kernels, weight = _kernels(), convolution.weight
        self.side, self._stride = weight.shape[-1], convolution.stride[0]
        self._out_channels, self._channels = weight.shape[:2]
        step = min(-(-self._channels // kernels.STEP) * kernels.STEP, kernels.LANES)
        self._planes, self._steps = -(-self._channels // kernels.LANES), step // kernels.STEP
        inside, outside = self._planes * step, _filled(self._out_channels)
        columns = (
            torch.arange(self.side).view(-1, self._stride).T.flatten()
        )  # by their remainder by the stride
        taps = weight[..., columns].permute(2, 3, 0, 1).flatten(0, 1)
        self._weight = _products(taps, outside, inside).transpose(0, 1).contiguous()
        bias = torch.zeros(self._out_channels) if convolution.bias is None else convolution.bias
        self._bias = _vector(bias, outside)

    def __call__(self, features: Tensor, missing: Sides) -> Tensor:
        """(1, C, h, w), and zeros around it where pixels are *missing*, convolved."""
        features = _side_by_side(features)
        kernels, (top, bottom, left, right) = _kernels(), missing
        height, width = features.shape[2] + top + bottom, features.shape[3] + left + right
        shrunk = ((side - self.side) // self._stride + 1 for side in (height, width))
        out = _features(self._out_channels, *shrunk)
        out_planes = self._bias.numel() // kernels.LANES
        rows = 2 * self.side * self._stride * self._planes + out_planes
        scratch = _scratch(kernels.row_bytes(width, rows))
        kernels.convolve(
            *_place(features), height, width, missing, self._channels, self._planes, self._steps, self.side,
            self._stride, self._weight.data_ptr(), self._bias.data_ptr(), *_place(out), self._out_channels, out_planes,
            scratch,
        )  # fmt: skip
        return out


class UpFusion:
    """The four quarters *up* (4, C, 2C) and *bias* (C) of doubled features, and *fuse* (C, C) of a skip, added."""

    def __init__(self, up: Tensor, bias: Tensor, fuse: Tensor) -> None:
        self._out_channels, self._channels = up.shape[1:]
        outside, inside = _filled(self._out_channels), _filled(self._channels)
        self._weights = (
            _products(up, outside, inside),
            _vector(bias, outside),
            _products(fuse, outside, outside),
        )
        self._planes, self._out_planes = (
            filled // _kernels().LANES for filled in (inside, outside)
        )

    def __call__(self, x: Tensor, skip: Tensor) -> Tensor:
        """(1, 2C, h, w) and (1, C, 2h, 2w) -> (1, C, 2h, 2w)."""
        x, skip = _side_by_side(x), _side_by_side(skip)
        kernels, (height, width) = _kernels(), x.shape[2:]
        out = _features(self._out_channels, 2 * height, 2 * width)
        scratch = _scratch(kernels.double_bytes(width, self._planes, self._out_planes))
        kernels.double(
            *_place(x), height, width, self._channels, self._planes, *_place(skip), self._out_channels,
            self._out_planes, tuple(weight.data_ptr() for weight in self._weights), *_place(out), scratch,
        )  # fmt: skip
        return out


def gram(x: Tensor) -> Tensor:
    """Gram matrix of the channels, summed over pixels: (1, C, H, W) -> (1, C, C), products and sums in float64."""
    x = _side_by_side(x)
    kernels, (channels, height, width) = _kernels(), x.shape[1:]
    filled = _filled(channels)
    total = torch.zeros(filled, filled, dtype=torch.float64)
    scratch = _scratch(max(kernels.GRAM_BYTES, 8 * filled))
    kernels.correlate(
        *_place(x), height, width, channels, filled // kernels.LANES, total.data_ptr(), scratch
    )
    upper = total[None, :channels, :channels].triu()
    return upper + upper.triu(1).mT


def _side_by_side(features: Tensor) -> Tensor:
    """(1, C, h, w) whose channels lie side by side: the same where they do."""
    is_fitting = features.stride(1) == 1 or features.shape[1] == 1
    return features if is_fitting else features.contiguous(memory_format=torch.channels_last)


def _place(features: Tensor) -> tuple[int, int, int]:
    """Address of (1, C, h, w), and the bytes of a row and of a pixel."""
    return features.data_ptr(), 4 * features.stride(2), 4 * features.stride(3)


def _features(channels: int, height: int, width: int) -> Tensor:
    """Room for dense channels-last features, (1, C, h, w)."""
    return torch.empty(1, height, width, channels).permute(0, 3, 1, 2)


def _scratch(size: int) -> int:
    """The address of at least *size* bytes, of whole cache lines, of the calling thread's own."""
    if getattr(_memory, "size", 0) < size + _LINE:
        _memory.size, _memory.buffer = size + _LINE, torch.zeros(size + _LINE, dtype=torch.uint8)
    return -(-_memory.buffer.data_ptr() // _LINE) * _LINE


def _filled(channels: int) -> int:
    """*channels* filled up to whole panels."""
    panel = _kernels().PANEL
    return -(-channels // panel) * panel


def _products(matrices: Tensor, outside: int, inside: int) -> Tensor:
    """Matrices (..., out, in) in the order in which the kernel reads them: (..., panels, in, PANEL), float32."""
    full = torch.zeros(*matrices.shape[:-2], outside, inside)
    full[..., : matrices.shape[-2], : matrices.shape[-1]] = matrices
    return full.unflatten(-2, (-1, _kernels().PANEL)).mT.contiguous()


def _filters(weight: Tensor, channels: int) -> Tensor:
    """Depthwise filters (C, 1, 3, 3) in the order in which the kernel reads them: (planes, 9, LANES)."""
    full = torch.zeros(channels, 9)
    full[: len(weight)] = weight.flatten(1)
    return full.unflatten(0, (-1, _kernels().LANES)).mT.contiguous()


def _vector(values: Tensor, length: int) -> Tensor:
    full = torch.zeros(length)
    full[: len(values)] = values
    return full


def _kernels() -> Any:
    from napari_mst.engine.kernels import block as kernels

    return kernels
