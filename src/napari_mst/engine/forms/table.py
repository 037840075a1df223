"""Fast forms: one table of the passes that the engine knows how to compute better than as they are written.

A row is a pattern of passes that follow each other and a device; what it gives equals the plain
passes to rounding. To add one: a function that builds it and a row of `FORMS`. Passes that no row
fits are computed as they are written.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MethodType
from typing import Any, cast

import torch
from torch import Tensor, nn

from napari_mst.engine.forms import native, onednn
from napari_mst.engine.forms.convolution import bordered
from napari_mst.engine.forms.fusion import UpFusion
from napari_mst.engine.windows import Sides
from napari_mst.networks.attention.spectral import (
    HALO,
    FeedForward,
    SpectralAttention,
    SpectralAttentionBlock,
)
from napari_mst.networks.mst_plus_plus import Concatenated, Plus
from napari_mst.networks.network import Local, Pass, Program

Windows = Sequence[Tensor]
"""(1, C, h, w) of every map that is read, the first with its halo."""

Compute = Callable[[Windows, Sides], Tensor]
"""Windows, and the pixels of the halo that are missing on each side because the image ends -> what is written."""

IsKind = Callable[[Local], bool]
"""Whether the local function of a pass is of the kind that a form computes."""

NATIVE, TORCH = 32e-6, 47e-6
"""Microseconds of one thread for a multiplication and addition: in compiled kernels, and in torch."""


@dataclass(frozen=True)
class Form:
    """One row of `FORMS`.

    Attributes
    ----------
    name
        For a person.
    kinds
        What each pass of the pattern has to be.
    can_run
        Whether it runs on a device, in a precision.
    build
        The passes, the folded statistic that they use (or None) and the precision -> what computes them.
    pace
        Microseconds of one thread for a multiplication and addition.
    """

    name: str
    kinds: tuple[IsKind, ...]
    can_run: Callable[[torch.device, torch.dtype], bool]
    build: Callable[[Sequence[Pass], Any, torch.dtype], Compute]
    pace: float = TORCH

    def fits(self, passes: Sequence[Pass]) -> bool:
        """Whether the first of *passes* are the pattern, each of which only the next one reads."""
        own = passes[: len(self.kinds)]
        if len(own) < len(self.kinds):
            return False
        are_kinds = all(is_kind(each.local) for is_kind, each in zip(self.kinds, own, strict=True))
        return are_kinds and all(self._is_chained(*two, passes) for two in pairwise(own))

    @staticmethod
    def _is_chained(one: Pass, following: Pass, passes: Sequence[Pass]) -> bool:
        readers = [each for each in passes if one.writes in each.reads]
        return readers == [following] and following.reads[0] == one.writes and one.statistic is None


def form_of(passes: Sequence[Pass], device: torch.device, dtype: torch.dtype) -> Form | None:
    """The fastest form of the first of *passes*; None if they are computed as they are written."""
    fitting = (form for form in FORMS if form.fits(passes) and form.can_run(device, dtype))
    return next(fitting, None)


def statistic_form(
    statistic: Callable[[Tensor], Tensor], device: torch.device, dtype: torch.dtype
) -> Local:
    """The fastest form of the *statistic* of a map of *dtype*."""
    is_gram = _is_method(statistic, SpectralAttentionBlock.gram) and _has_no_norm(_owner(statistic))
    if not is_gram or not native.can_run(device, dtype):
        return statistic
    from napari_mst.engine.forms.kernel_forms import compiled_gram

    return compiled_gram


def has_compiled_form(program: Program, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether compiled kernels compute a pass of *program*; the first to ask may wait until they are compiled."""
    passes = program.passes
    compiled = [form for form in FORMS if form.pace == NATIVE]
    is_known = any(form.fits(passes[index:]) for index in range(len(passes)) for form in compiled)
    return is_known and native.can_run(device, dtype)


def plain_values(program: Program, device: torch.device, dtype: torch.dtype) -> int:
    """Numbers for each pixel that passes without a form work with at a time, at most."""
    plain = (
        each
        for index, each in enumerate(program.passes)
        if not _has_form(program.passes, index, device, dtype)
    )
    return max((program.values(each) for each in plain), default=0)


def _has_form(passes: Sequence[Pass], index: int, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a form computes the pass at *index*, alone or together with the one before it."""
    starts = range(max(index - 1, 0), index + 1)
    forms = ((start, form_of(passes[start:], device, dtype)) for start in starts)
    return any(form is not None and start + len(form.kinds) > index for start, form in forms)


def in_precision(local: Local, dtype: torch.dtype) -> Local:
    """A plain *local* for maps of *dtype*: a module is converted; what else there is computes in its own precision."""
    if not isinstance(local, nn.Module):
        return partial(_in_float32, local) if dtype.itemsize == 2 else local
    if all(weight.dtype == dtype for weight in local.parameters()):
        return local
    return copy.deepcopy(local).to(dtype)


def _in_float32(local: Local, *given: Any) -> Tensor:
    """*local* of maps of 16 bits: what it gives has 16 bits again."""
    narrow = given[0].dtype
    wide = (
        each.float() if isinstance(each, Tensor) and each.dtype == narrow else each
        for each in given
    )
    return local(*wide).to(narrow)


# Kinds


def _is_method(local: Any, method: Callable[..., Any]) -> bool:
    return isinstance(local, MethodType) and local.__func__ is method


def _has_no_norm(block: SpectralAttentionBlock) -> bool:
    return isinstance(block.norm, nn.Identity)


def _is_block(local: Local) -> bool:
    """The block itself, and not one that changes a part of it: of that the forms know nothing."""
    if not _is_method(local, SpectralAttentionBlock.apply_mixing):
        return False
    block = _owner(local)
    parts = type(block), type(block.attention), type(block.feed_forward)
    return parts == (SpectralAttentionBlock, SpectralAttention, FeedForward)


def _is_published_block(local: Local) -> bool:
    """A block without LayerNorm before its attention."""
    return _is_block(local) and _has_no_norm(_owner(local))


def _is_convolution(local: Local) -> bool:
    """A 3x3 convolution or a 4x4 one that halves, padded by one zero, alone or with a residual."""
    convolution = _convolved(local)
    if type(convolution) is not nn.Conv2d or convolution.padding_mode != "zeros":
        return False
    shape = convolution.kernel_size, convolution.stride
    is_known = shape in (((3, 3), (1, 1)), ((4, 4), (2, 2)))
    is_plain = convolution.groups == 1 and convolution.dilation == (1, 1)
    return is_known and is_plain and convolution.padding == (1, 1)


def _is_doubling(local: Local) -> bool:
    """A transposed convolution of 2x2, stride 2."""
    if type(local) is not nn.ConvTranspose2d:
        return False
    return (
        local.kernel_size == local.stride == (2, 2)
        and local.padding == (0, 0)
        and local.groups == 1
    )


def _is_fusion(local: Local) -> bool:
    return type(local) is Concatenated and local.convolution.bias is None


# Builders


def _block(apply: Callable[[Tensor, Sides], Tensor]) -> Compute:
    def compute(windows: Windows, missing: Sides) -> Tensor:
        top, bottom, left, right = (HALO - side for side in missing)
        return apply(windows[0], (top, bottom, left, right))

    return compute


def _native_block(passes: Sequence[Pass], mixing: Tensor, _dtype: torch.dtype) -> Compute:
    from napari_mst.engine.forms.kernel_forms import CompiledBlock

    return _block(CompiledBlock(_owner(passes[0].local), mixing))


def _onednn_block(passes: Sequence[Pass], mixing: Tensor, dtype: torch.dtype) -> Compute:
    return _block(onednn.OneDnnBlock(_owner(passes[0].local), mixing, dtype))


def _torch_block(passes: Sequence[Pass], mixing: Tensor, dtype: torch.dtype) -> Compute:
    block = _converted(_owner(passes[0].local), dtype)

    def compute(windows: Windows, missing: Sides) -> Tensor:
        (features,) = windows
        top, bottom, left, right = (HALO - side for side in missing)
        height, width = features.shape[-2:]
        return block.apply_mixing(features, mixing)[
            ..., top : height - bottom, left : width - right
        ]

    return compute


def _convolution(passes: Sequence[Pass], _folded: None, dtype: torch.dtype) -> Compute:
    convolve = bordered(_convolved(passes[0].local), dtype)

    def compute(windows: Windows, missing: Sides) -> Tensor:
        features, *others = windows
        result = convolve(features, missing)
        for other in others:
            result.add_(other)
        return result

    return compute


def _up_fusion(passes: Sequence[Pass], _folded: None, dtype: torch.dtype) -> Compute:
    up, fuse = passes
    fused = UpFusion(cast("nn.ConvTranspose2d", up.local), _convolved(fuse.local), dtype)
    return lambda windows, _missing: fused(*windows)


def _owner(method: Callable[..., Any]) -> SpectralAttentionBlock:
    """The block of which this is a method."""
    return cast("SpectralAttentionBlock", cast("MethodType", method).__self__)


def _convolved(local: Local) -> nn.Conv2d:
    """The convolution that *local* is, or adds to."""
    if type(local) is Plus or type(local) is Concatenated:
        return local.convolution
    return cast("nn.Conv2d", local)


def _converted(block: SpectralAttentionBlock, dtype: torch.dtype) -> SpectralAttentionBlock:
    """*block* with weights of *dtype*, and without whatever is hooked to it."""
    if block.attention.to_v.weight.dtype == dtype:
        return block
    with torch.device("meta"):
        converted = SpectralAttentionBlock(
            block.attention.to_v.in_features, block.attention.heads, not _has_no_norm(block)
        )
    converted.load_state_dict(
        {name: weight.to(dtype) for name, weight in block.state_dict().items()}, assign=True
    )
    return converted


def _anywhere(_device: torch.device, _dtype: torch.dtype) -> bool:
    return True


FORMS: tuple[Form, ...] = (
    Form("block, compiled", (_is_published_block,), native.can_run, _native_block, NATIVE),
    Form("block, oneDNN", (_is_published_block,), onednn.can_run, _onednn_block),
    Form("block", (_is_block,), _anywhere, _torch_block),
    Form("convolution, compiled", (_is_convolution,), native.can_run, _convolution, NATIVE),
    Form("convolution", (_is_convolution,), _anywhere, _convolution),
    Form(
        "doubling and fusion, compiled",
        (_is_doubling, _is_fusion),
        native.can_run,
        _up_fusion,
        NATIVE,
    ),
    Form("doubling and fusion", (_is_doubling, _is_fusion), _anywhere, _up_fusion),
)
"""The first that fits is taken."""
