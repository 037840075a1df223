"""`FAST_PATHS`: the passes that the engine knows how to compute better than as they are written.

A row is a pattern of passes that follow each other and a device; what it gives equals the plain
passes to rounding. To add one: a function that builds it and a row of `FAST_PATHS`. Passes that no
row fits are computed as they are written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from napari_mst.base.arrays import Array
from napari_mst.engine.fast_paths import native
from napari_mst.engine.windows import Sides
from napari_mst.networks.forms import (
    BlockForm,
    ConvolutionForm,
    DecodingForm,
    DoublingForm,
    EncodingForm,
    EstimateForm,
    Form,
    FusionForm,
    gram,
)
from napari_mst.networks.network import Local, Pass

Windows = Sequence[Any]
"""(1, C, h, w) of every map that is read, the first with its halo."""

ComputeWindows = Callable[[Windows, Sides], Any]
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
    takes_arrays
        Whether it computes in NumPy, as compiled kernels do; else in torch.
    """

    name: str
    kinds: tuple[IsKind, ...]
    build: Callable[[Sequence[Pass], Any, Any], ComputeWindows]
    can_run: Callable[[Any, Any], bool] = native.can_run
    pace: float = COMPILED_PACE
    takes_arrays: bool = False

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


def fast_path_of(passes: Sequence[Pass], device: Any, dtype: Any) -> FastPath | None:
    """The fast path of the first of *passes*; None if they are computed as they are written."""
    for fast_path in FAST_PATHS:
        if fast_path.takes_arrays and not native.is_native(device, dtype):
            continue
        if fast_path.fits(passes) and fast_path.can_run(device, dtype):
            return fast_path
    return None


def compiled_statistic(statistic: Callable[[Any], Any], device: Any, dtype: Any) -> Local | None:
    """The kernel that makes the *statistic* of a map of *dtype*, in NumPy; None if none does."""
    if statistic is not gram:
        from napari_mst.engine.fast_paths.torch_forms import is_gram

        if not is_gram(statistic):
            return None
    if not native.can_run(device, dtype):
        return None
    from napari_mst.engine.fast_paths.compiled_passes import compiled_gram

    return compiled_gram


# Kinds


def kind_of(local: Any) -> type[Form] | None:
    """The kind of form of *local*, or None if no kernel supports it."""
    if isinstance(local, Form):
        return type(local)
    # Other passes exist only if torch was imported.
    from napari_mst.engine.fast_paths.torch_forms import recognised

    found = recognised(local)
    return found and found[0]


def form_of(local: Any) -> Any:
    """The form of *local*, which has one."""
    if isinstance(local, Form):
        return local
    from napari_mst.engine.fast_paths import torch_forms

    return torch_forms.form_of(local)


def _of_kind(*kinds: type[Form]) -> tuple[IsKind, ...]:
    return tuple(partial(_is_of, kind) for kind in kinds)


def _is_of(kind: type[Form], local: Local) -> bool:
    return kind_of(local) is kind


# Builders


def _compiled_block(passes: Sequence[Pass], mixing: Array, _dtype: Any) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledBlock

    block = CompiledBlock(form_of(passes[0].local), mixing)
    return lambda windows, missing: block(windows[0], missing)


def _compiled_convolution(passes: Sequence[Pass], _folded: None, _dtype: Any) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledConvolution

    convolve = CompiledConvolution(form_of(passes[0].local))

    def compute(windows: Windows, missing: Sides) -> Any:
        features, *others = windows
        result = convolve(features, missing)
        # In place: nobody else has the result of the convolution.
        for other in others:
            result += other
        return result

    return compute


def _compiled_fusion(passes: Sequence[Pass], _folded: None, _dtype: Any) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledUpFusion

    fused = CompiledUpFusion(*(form_of(each.local) for each in passes))
    return lambda windows, _missing: fused(*windows)


def _compiled_estimate(passes: Sequence[Pass], _folded: None, _dtype: Any) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import CompiledSpectra

    estimate = CompiledSpectra(form_of(passes[0].local))
    return lambda windows, _missing: estimate(windows[0])


def _compiled_encoding(_passes: Sequence[Pass], _folded: None, _dtype: Any) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import compiled_encoding

    return lambda windows, _missing: compiled_encoding(windows[0])


def _compiled_decoding(_passes: Sequence[Pass], _folded: None, _dtype: Any) -> ComputeWindows:
    from napari_mst.engine.fast_paths.compiled_passes import compiled_decoding

    return lambda windows, _missing: compiled_decoding(windows[0])


_compiled = partial(FastPath, takes_arrays=True)

FAST_PATHS: list[FastPath] = [
    _compiled("block", _of_kind(BlockForm), _compiled_block),
    _compiled("convolution", _of_kind(ConvolutionForm), _compiled_convolution),
    _compiled("doubling and fusion", _of_kind(DoublingForm, FusionForm), _compiled_fusion),
    _compiled("estimate", _of_kind(EstimateForm), _compiled_estimate),
    _compiled("encoding", _of_kind(EncodingForm), _compiled_encoding, pace=DECODING_PACE),
    _compiled("decoding", _of_kind(DecodingForm), _compiled_decoding, pace=DECODING_PACE),
]
"""The rows in order of speed: the first that fits is taken."""
