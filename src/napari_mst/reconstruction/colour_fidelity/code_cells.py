"""The colours that a photo allows: one cell around the stored value of each channel.

Letters: B bands, H rows, W columns, C colours, n pixels; h, w sides of some rows.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple, TypeVar

import numpy as np

from napari_mst.base.arrays import Array, Floats, Mask, Singles, singles
from napari_mst.base.progress import Progress
from napari_mst.cube.colour import linear_to_srgb, srgb_to_linear
from napari_mst.cube.lazy import Numbers
from napari_mst.engine.kernels import fault_of
from napari_mst.photo.photo import Photo

B = TypeVar("B")
T = TypeVar("T")


HALF_CODE = 0.49
"""Half the width of a cell in codes of the photo, slightly below 0.5 so that rounding is safe."""

BLOCK_PIXELS = 1 << 14
"""Pixels in a block of rows, whose spectra take 2 MB."""

THREADS = 4
"""Blocks processed at a time."""

_CODES = 255  # of 8 bits
_FLOAT_CODES = 65535  # a photo of floats is treated as 16-bit


class Bounds(NamedTuple):
    """Colours between *low* and *high*, in linear light; infinite beyond a clipped channel."""

    low: Floats
    high: Floats


class Difference(NamedTuple):
    """Codes of spectra minus codes of the photo (C, rows, W), exact where nothing is clipped.

    A clipped channel of the photo counts as 0 or the largest code.
    """

    codes: Floats
    is_known: Mask

    @property
    def distance(self) -> Singles:
        """Largest distance (rows, W) of each pixel over the channels."""
        return singles(np.abs(self.codes).max(axis=0))

    @property
    def residual(self) -> Floats:
        """The codes, with NaN in clipped pixels."""
        return np.where(self.is_known, self.codes, np.float32(np.nan))


class Cells:
    """The colours that *photo* allows, in linear light.

    A cell extends *half* (C,) 8-bit codes to each side, but at least half a code of the photo.
    Cells of integer photos are looked up by stored value, since values are few and pixels many.
    Cells of float photos, which are as narrow as those of 16 bits, are computed.
    """

    def __init__(self, photo: Photo, half: Floats) -> None:
        self._photo = photo
        self.shape = photo.shape
        self._half = half
        self._is_integer = photo.pixels.dtype.kind == "u"
        code_half = HALF_CODE if self._is_integer else HALF_CODE * photo.full_scale / _FLOAT_CODES
        self._own_half = float(code_half / photo.full_scale)
        if self._is_integer:
            values = np.arange(np.iinfo(photo.pixels.dtype).max + 1)
            self._tables = [self._bounds(values, channel) for channel in range(3)]
            self._code_table = self._code(values).astype(np.float32)

    def bounds(self, rows: slice) -> Bounds:
        """Return the cells (C, rows, W) of the pixels in *rows*."""
        stored = enumerate(self._photo.pixels[:, rows])
        if self._is_integer:
            cells = [[side[plane] for side in self._tables[channel]] for channel, plane in stored]
        else:
            cells = [[*self._bounds(plane, channel)] for channel, plane in stored]
        return Bounds(*map(np.stack, zip(*cells, strict=True)))

    def codes(self, rows: slice) -> Singles:
        """Return the photo (C, rows, W) in 8-bit sRGB codes, without rounding."""
        stored = self._photo.pixels[:, rows]
        if self._is_integer:
            return self._code_table[stored]
        return self._code(stored).astype(np.float32)

    def difference(self, shown: Floats, rows: slice) -> Difference:
        """Compare the codes *shown* (C, rows, W), see `srgb_codes`, with those of the photo."""
        codes = self.codes(rows)
        is_known = np.asarray(((codes > 0) & (codes < _CODES)).all(axis=0))
        return Difference(np.asarray(shown - np.clip(codes, 0, _CODES)), is_known)

    def _bounds(self, stored: Array, channel: int) -> Bounds:
        value = self._value(stored)
        code = self._code(stored) / _CODES
        half = float(self._half[channel]) / _CODES
        low = np.minimum(self._decoded(value - self._own_half), linear_light(code - half))
        high = np.maximum(self._decoded(value + self._own_half), linear_light(code + half))
        # The light beyond a clipped channel is unknown.
        low = np.where(value <= 0, -np.inf, low)
        high = np.where(value >= 1, np.inf, high)
        return Bounds(low.astype(np.float32), high.astype(np.float32))

    def _value(self, stored: Array) -> Floats:
        """Return *stored* values as shares of the full scale, in float64 except for float32."""
        is_narrow = stored.dtype == np.float32
        values: Floats = np.asarray(stored, dtype=np.float32 if is_narrow else np.float64)
        return values / float(self._photo.full_scale)

    def _code(self, stored: Array) -> Floats:
        value = self._value(stored)
        encoded = value if self._photo.encoding == "srgb" else linear_to_srgb(value)
        return encoded * _CODES

    def _decoded(self, value: Floats) -> Floats:
        return linear_light(value) if self._photo.encoding == "srgb" else value


def srgb_codes(linear: Floats) -> Floats:
    """Encode *linear* light as 8-bit sRGB codes, clipped but not rounded."""
    if has_kernels(linear):
        from napari_mst.engine.kernels.powers import encode_light

        return _each_number(encode_light, linear)
    return linear_to_srgb(linear.clip(0, 1)) * np.float32(_CODES)


def linear_light(encoded: Floats) -> Floats:
    """Decode *encoded* sRGB values, 0 to 1, to linear light."""
    if has_kernels(encoded):
        from napari_mst.engine.kernels.powers import decode_light

        return _each_number(decode_light, encoded)
    return srgb_to_linear(encoded)


def _each_number(kernel: Callable[[int, int, int], None], values: Floats) -> Singles:
    values = np.ascontiguousarray(values)
    results = np.empty_like(values)
    kernel(values.ctypes.data, results.ctypes.data, values.size)
    return results


class ColourCheck:
    """Compares the colours of spectra *data* (B, H, W) with those that *photo* allows.

    *response* (B, C) takes reflectance to linear light. *least* is the smallest half width of a
    cell, in 8-bit codes.
    """

    def __init__(
        self,
        data: Numbers,
        photo: Photo,
        response: Singles,
        least: float,
    ) -> None:
        self.data = data
        self.photo = photo
        self.shape = photo.shape
        self.response = response
        self.least = least
        self.cells = Cells(photo, np.full(3, least))

    def rendered(self, rows: slice) -> Floats:
        """Return the colours (C, rows, W) of the spectra of *rows*, in linear light."""
        # einsum instead of a matrix product, whose BLAS threads would compete with ours.
        return np.einsum("bc,bhw->chw", self.response, self.data[:, rows])

    def difference(self, rows: slice) -> Difference:
        """Return the colours of the spectra of *rows* minus the colours of the photo."""
        return self.cells.difference(srgb_codes(self.rendered(rows)), rows)


def row_blocks(shape: tuple[int, int], most: int = BLOCK_PIXELS) -> list[slice]:
    """Divide an image of *shape* (H, W) into blocks of rows with about *most* pixels each.

    Blocks have at most about `BLOCK_PIXELS` pixels.
    """
    height, width = shape
    rows = max(1, min(most, BLOCK_PIXELS) // width)
    return [slice(start, min(start + rows, height)) for start in range(0, height, rows)]


def each_block(
    work: Callable[[B], T], blocks: Sequence[B], progress: Progress, threads: int = THREADS
) -> list[T]:
    """Return the results of *work* for all *blocks*, in order; several blocks run at a time."""

    def unless_cancelled(block: B) -> T:
        progress.check()
        return work(block)

    results = []
    with ThreadPoolExecutor(threads) as pool:
        for result in pool.map(unless_cancelled, blocks):
            results.append(result)
            progress.reach(len(results) / len(blocks))
    return results


def has_kernels(values: Floats) -> bool:
    """True if compiled kernels accept *values*: float32 with contiguous pixels."""
    is_fitting = values.dtype == np.float32 and values.strides[-1] == values.itemsize
    return is_fitting and _are_right()


@cache
def _are_right() -> bool:
    """True if kernels encode light as NumPy does; the first call compiles them."""
    return find_spec("numba") is not None and not fault_of(_largest_error)


def _largest_error() -> float:
    from napari_mst.engine.kernels.powers import encode_light

    light = np.linspace(0, 1, 100, dtype=np.float32)
    codes = linear_to_srgb(light) * _CODES
    return float(np.abs(_each_number(encode_light, light) - codes).max()) / _CODES
