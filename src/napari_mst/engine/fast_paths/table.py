"""`FAST_PATHS`: the passes that the engine knows how to compute better than as they are written.

A row is a pattern of passes that follow each other and a device; what it gives equals the plain
passes to rounding. To add one: a function that builds it and a row of `FAST_PATHS`. Passes that no
row fits are computed as they are written.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MethodType
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from napari_mst.engine.fast_paths import native
from napari_mst.engine.windows import Sides
from napari_mst.networks.attention.spectral import (
    FeedForward,
    SpectralAttention,
    SpectralAttentionBlock,
    gram,
)
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.mst_plus_plus import Concatenated, Plus
from napari_mst.networks.network import Local, Pass
from napari_mst.networks.pixelwise import OnePixel, PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus, decoded

M = TypeVar("M", bound=nn.Module)

Windows = Sequence[Tensor]
"""(1, C, h, w) of every map that is read, the first with its halo."""

ComputeWindows = Callable[[Windows, Sides], Tensor]
"""Windows, and the pixels of halo that the image lacks on each side -> the map that is written."""

IsKind = Callable[[Local], bool]
"""True if the local function of a pass is of the kind that a fast path computes."""

# The published network makes 0.32 million of them a pixel. It took about 10 us a pixel with kernels
# and 15 in torch: time of the processor, of one thread.
COMPILED_PACE = 32e-6
"""Microseconds of one thread for a multiplication and addition in compiled kernels."""

# A pass of 31 powers, each as long as 8 multiplications, took 0.09 us a pixel.
DECODING_PACE = 36e-5
"""Microseconds of one thread for a multiplication in the kernel that decodes spectra."""


@dataclass(frozen=True)
class FastPath:
    """One row of `FAST_PATHS`.

    Attributes
    ----------
    name
        For a person.
    kinds
        What each pass of the pattern has to be.
    build
        Takes the passes, the folded statistic that they use (or None) and the precision; returns
        what computes them.
    can_run
        Whether it runs on a device, in a precision; by default, where compiled kernels do.
    pace
        Microseconds of one thread for a multiplication and addition.
    """

    name: str
    kinds: tuple[IsKind, ...]
    build: Callable[[Sequence[Pass], Any, torch.dtype], ComputeWindows]
    can_run: Callable[[torch.device, torch.dtype], bool] = native.can_run
    pace: float = COMPILED_PACE

    def fits(self, passes: Sequence[Pass]) -> bool:
        """True if the first of *passes* are the pattern, and only the next one reads each."""
        own = passes[: len(self.kinds)]
        if len(own) < len(self.kinds):
            return False
        for is_kind, each in zip(self.kinds, own, strict=True):
            if not is_kind(each.local):
                return False
        return all(_is_chained(one, following, passes) for one, following in pairwise(own))


def _is_chained(one: Pass, following: Pass, passes: Sequence[Pass]) -> bool:
    """True if nothing needs the map of *one* but the pass that is *following*."""
    readers = [each for each in passes if one.writes in each.reads]
    is_only_reader = readers == [following] and following.reads[0] == one.writes
    # A fast path never has the map in its middle, so it cannot add up its statistic.
    return is_only_reader and one.statistic is None


def fast_path_of(
    passes: Sequence[Pass], device: torch.device, dtype: torch.dtype
) -> FastPath | None:
    """The fast path of the first of *passes*; None if they are computed as they are written."""
    for fast_path in FAST_PATHS:
        if fast_path.fits(passes) and fast_path.can_run(device, dtype):
            return fast_path
    return None


def fast_statistic(
    statistic: Callable[[Tensor], Tensor], device: torch.device, dtype: torch.dtype
) -> Local:
    """The fastest way to the *statistic* of a map of *dtype*."""
    # A LayerNorm before the attention makes the Gram matrix that of other features than the map's.
    is_gram = statistic is gram or (
        _is_method(statistic, SpectralAttentionBlock.input_gram) and _has_no_norm(_owner(statistic))
    )
    if not is_gram or not native.can_run(device, dtype):
        return statistic
    from napari_mst.engine.fast_paths.compiled_passes import compiled_gram

    return compiled_gram


def in_precision(local: Local, dtype: torch.dtype) -> Local:
    """A plain *local* for maps of *dtype*: modules are converted, functions compute in float32."""
    if isinstance(local, nn.Module):
        return _converted(local, dtype)
    if _is_method(local, SpectralAttentionBlock.apply_mixing):
        return _converted(_owner(local), dtype).apply_mixing
    return partial(_in_float32, local) if dtype.itemsize == 2 else local


def _converted(module: M, dtype: torch.dtype) -> M:
    """*module* with weights of *dtype*."""
    if all(weight.dtype == dtype for weight in module.parameters()):
        return module
    # The copy takes the converted tensors for its own, so that none is copied for nothing.
    tensors = (*module.parameters(), *module.buffers())
    converted = {id(each): each.to(dtype) for each in tensors if each.is_floating_point()}
    return copy.deepcopy(module, converted)


def _in_float32(local: Local, *given: Any) -> Tensor:
    """*local* of maps of 16 bits, computed in float32: the result has 16 bits again."""
    narrow = given[0].dtype

    def widened(value: Any) -> Any:
        is_narrow = isinstance(value, Tensor) and value.dtype == narrow
        return value.float() if is_narrow else value

    return local(*map(widened, given)).to(narrow)


# Kinds


def _is_method(local: Any, method: Callable[..., Any]) -> bool:
    return isinstance(local, MethodType) and local.__func__ is method


def _has_no_norm(block: SpectralAttentionBlock) -> bool:
    return not block.has_norm


def _is_block(local: Local) -> bool:
    """True if *local* is the local part of a block without LayerNorm before its attention."""
    if not _is_method(local, SpectralAttentionBlock.apply_mixing):
        return False
    block = _owner(local)
    # A subclass may compute something else, of which the fast paths know nothing.
    return (
        type(block) is SpectralAttentionBlock
        and not block.has_norm
        and type(block.attention) is SpectralAttention
        and type(block.feed_forward) is FeedForward
    )


def _is_convolution(local: Local) -> bool:
    """True if *local* is a convolution that has a fast path, alone or with a residual.

    It is a 3x3 one, or a 4x4 one that halves, padded by one zero.
    """
    convolution = _convolved(local)
    if type(convolution) is not nn.Conv2d or convolution.padding_mode != "zeros":
        return False
    shape = convolution.kernel_size, convolution.stride
    is_known = shape in (((3, 3), (1, 1)), ((4, 4), (2, 2)))
    is_plain = convolution.groups == 1 and convolution.dilation == (1, 1)
    return is_known and is_plain and convolution.padding == (1, 1)


def _is_doubling(local: Local) -> bool:
    """True if *local* is a transposed convolution of 2x2, stride 2."""
    if type(local) is not nn.ConvTranspose2d:
        return False
    is_two_by_two = local.kernel_size == local.stride == (2, 2)
    return is_two_by_two and local.padding == (0, 0) and local.groups == 1


def _is_estimate(local: Local) -> bool:
    """True if *local* is a network that sees one pixel at a time, or encodes its estimate."""
    # A subclass may compute something else, of which the fast paths know nothing.
    return type(_estimator(local)) in (PixelwiseNetwork, CameraNetwork)


def _is_decoding(local: Local) -> bool:
    return local is decoded


def _is_fusion(local: Local) -> bool:
    # `UpFusion` adds the bias of the doubling only.
    return type(local) is Concatenated and local.convolution.bias is None


# Builders


def _compiled_block(passes: Sequence[Pass], mixing: Tensor, _dtype: torch.dtype) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledBlock

    block = CompiledBlock(_owner(passes[0].local), mixing)
    return lambda windows, missing: block(windows[0], missing)


def _compiled_convolution(
    passes: Sequence[Pass], _folded: None, _dtype: torch.dtype
) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledConvolution

    convolve = CompiledConvolution(_convolved(passes[0].local))

    def compute(windows: Windows, missing: Sides) -> Tensor:
        features, *others = windows
        result = convolve(features, missing)
        # In place: nobody else has the result of the convolution.
        for other in others:
            result.add_(other)
        return result

    return compute


def _compiled_fusion(passes: Sequence[Pass], _folded: None, _dtype: torch.dtype) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledUpFusion, folded_fusion

    up, fuse = passes
    weights = folded_fusion(cast("nn.ConvTranspose2d", up.local), _convolved(fuse.local))
    fused = CompiledUpFusion(*weights)
    return lambda windows, _missing: fused(*windows)


def _compiled_estimate(
    passes: Sequence[Pass], _folded: None, _dtype: torch.dtype
) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledSpectra

    local = passes[0].local
    network = _estimator(local)
    estimate = CompiledSpectra(cast("OnePixel", network), is_encoded=network is not local)
    return lambda windows, _missing: estimate(windows[0])


def _compiled_decoding(
    _passes: Sequence[Pass], _folded: None, _dtype: torch.dtype
) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledDecoding

    decode = CompiledDecoding()
    return lambda windows, _missing: decode(windows[0])


def _estimator(local: Local) -> Any:
    """*local* itself, or the network whose estimate it, a method of a refining network, encodes."""
    if not _is_method(local, RefiningMSTPlusPlus.first_spectra):
        return local
    return cast("RefiningMSTPlusPlus", cast("MethodType", local).__self__).pixelwise


def _owner(method: Callable[..., Any]) -> SpectralAttentionBlock:
    """The block of which this is a method."""
    return cast("SpectralAttentionBlock", cast("MethodType", method).__self__)


def _convolved(local: Local) -> nn.Conv2d:
    """The convolution that *local* is, or adds to."""
    if type(local) is Plus or type(local) is Concatenated:
        return local.convolution
    return cast("nn.Conv2d", local)


FAST_PATHS: list[FastPath] = [
    FastPath("block", (_is_block,), _compiled_block),
    FastPath("convolution", (_is_convolution,), _compiled_convolution),
    FastPath("doubling and fusion", (_is_doubling, _is_fusion), _compiled_fusion),
    FastPath("estimate", (_is_estimate,), _compiled_estimate),
    FastPath("decoding", (_is_decoding,), _compiled_decoding, pace=DECODING_PACE),
]
"""The rows in order of speed: the first that fits is taken."""
