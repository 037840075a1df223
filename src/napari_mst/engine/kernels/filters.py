"""Depthwise convolutions: a 3x3 filter over each channel alone."""

from typing import NamedTuple

from numba import njit

from napari_mst.engine.kernels.emitter import Emitter, emitted
from napari_mst.engine.kernels.processor import VECTOR
from napari_mst.engine.kernels.rows import Row

_PIXELS = 6
"""Pixels that are filtered at a time."""

_TAPS = 9


class Neighbours(NamedTuple):
    """Addresses of three packed rows of an image."""

    above: int
    here: int
    below: int


class Filters(NamedTuple):
    """The address of the filters of all channels; whether GELU follows is 1 or 0."""

    weights: int
    has_gelu: int


class _Filtering(NamedTuple):
    """One plane of a few pixels, and the address that its result goes to."""

    rows: Neighbours
    filters: Filters
    target: int


@emitted
def _filter(e: Emitter, filtering: _Filtering) -> None:
    """Filter one plane of a few pixels."""
    rows, filters, target = filtering
    sums = e.variables(_PIXELS, e.constant(0))
    for row, source in enumerate(rows):
        # Neighbouring pixels share their values: each is loaded once for all three columns.
        values = [e.load(e.at(source, pixel * VECTOR)) for pixel in range(_PIXELS + 2)]
        for column in range(3):
            weight = e.load(e.at(filters.weights, (3 * row + column) * VECTOR))
            for pixel, total in enumerate(sums):
                e.put(e.multiply_add(weight, values[pixel + column], e.value(total)), total)
    e.apply_gelu(sums, filters.has_gelu)
    for pixel, total in enumerate(sums):
        e.store(e.value(total), e.at(target, pixel * VECTOR))


@njit(forceinline=True)  # so that LLVM knows which parts of the records are constants
def filter_row(rows: Neighbours, filters: Filters, target: Row, width: int) -> None:
    """Filter all planes of the *width* pixels between *rows*, which are two pixels wider."""
    for i in range(target.planes):
        weights = filters.weights + i * _TAPS * VECTOR
        for pixel in range(0, width, _PIXELS):
            shift = i * target.plane + pixel * VECTOR
            shifted = Neighbours(rows.above + shift, rows.here + shift, rows.below + shift)
            own = Filters(weights, filters.has_gelu)
            _filter(_Filtering(shifted, own, target.address + shift))
