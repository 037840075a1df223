"""The colours that a photo allows, one cell around the stored value of each channel; its spectra.

Letters: B bands, H rows, W columns, C colours, n pixels; h, w sides of some rows.
"""

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import NamedTuple, TypeVar

import numpy as np

from napari_mst.arrays import Array, Floats, Mask, Singles, singles
from napari_mst.cube.colour import linear_to_srgb, srgb_to_linear
from napari_mst.cube.lazy import Numbers
from napari_mst.engine.kernels import fault_of
from napari_mst.photo.photo import Photo
from napari_mst.watch import Watch

B = TypeVar("B")
T = TypeVar("T")


HALF_CODE = 0.49
"""Half the width of a cell, in codes of the photo.

It is a little less than a half, so that rounding gives the same code.
"""

BLOCK_PIXELS = 1 << 14
"""Pixels of a block of rows: their spectra take 2 MB."""

THREADS = 4
"""Blocks that are worked on at a time."""

_CODES = 255  # of 8 bits
_FLOAT_CODES = 65535  # the codes that a photo of floats is taken to have: those of 16 bits


class Bounds(NamedTuple):
    """The colours between *low* and *high*, in linear light; infinite beyond a clipped channel."""

    low: Floats
    high: Floats


class Difference(NamedTuple):
    """The codes of spectra minus those of the photo (C, rows, W); known where nothing is clipped.

    Beyond a clipped channel the photo is taken to be 0 or the largest code.
    """

    codes: Floats
    is_known: Mask

    @property
    def distance(self) -> Singles:
        """The distance of each pixel (rows, W), in the channel that is furthest."""
        return singles(np.abs(self.codes).max(axis=0))

    @property
    def residual(self) -> Floats:
        """The codes, and NaN in pixels that are not known."""
        return np.where(self.is_known, self.codes, np.float32(np.nan))


class Cells:
    """The colours that *photo* allows, in linear light.

    A cell is *half* (C,) 8-bit codes wide to each side, but at least half a code of the photo's
    own. Cells of whole numbers are looked up by stored value, since there are few values and many
    pixels; cells of floats, which are as narrow as those of 16 bits, are computed.
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
        """The cells (C, rows, W) of the pixels in *rows*."""
        stored = self._photo.pixels[:, rows]
        channels = [self._channel_bounds(plane, channel) for channel, plane in enumerate(stored)]
        low = np.stack([each.low for each in channels])
        high = np.stack([each.high for each in channels])
        return Bounds(low, high)

    def codes(self, rows: slice) -> Singles:
        """The photo in 8-bit sRGB codes, not rounded, (C, rows, W)."""
        stored = self._photo.pixels[:, rows]
        if self._is_integer:
            return self._code_table[stored]
        return self._code(stored).astype(np.float32)

    def difference(self, shown: Floats, rows: slice) -> Difference:
        """The codes *shown* (C, rows, W), see `srgb_codes`, beside those of the photo."""
        codes = self.codes(rows)
        is_known = np.asarray(((codes > 0) & (codes < _CODES)).all(axis=0))
        return Difference(np.asarray(shown - np.clip(codes, 0, _CODES)), is_known)

    def _channel_bounds(self, stored: Array, channel: int) -> Bounds:
        if not self._is_integer:
            return self._bounds(stored, channel)
        table = self._tables[channel]
        return Bounds(table.low[stored], table.high[stored])

    def _bounds(self, stored: Array, channel: int) -> Bounds:
        value = self._value(stored)
        code = self._code(stored) / _CODES
        half = float(self._half[channel]) / _CODES
        low = np.minimum(self._decoded(value - self._own_half), linear_light(code - half))
        high = np.maximum(self._decoded(value + self._own_half), linear_light(code + half))
        # Beyond a clipped channel the light may have been anything.
        low = np.where(value <= 0, -np.inf, low)
        high = np.where(value >= 1, np.inf, high)
        return Bounds(low.astype(np.float32), high.astype(np.float32))

    def _value(self, stored: Array) -> Floats:
        """*stored* values as shares of the full scale: tables in float64, pixels as they are."""
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
    """*linear* light as 8-bit sRGB codes, clipped and not rounded."""
    compiled = compiled_colours(linear)
    if compiled is not None:
        return compiled.codes(linear)
    return linear_to_srgb(linear.clip(0, 1)) * np.float32(_CODES)


def linear_light(encoded: Floats) -> Floats:
    """The linear light of *encoded* sRGB values, 0 to 1."""
    compiled = compiled_colours(encoded)
    return srgb_to_linear(encoded) if compiled is None else compiled.light(encoded)


class ColourCheck:
    """The spectra *data* (B, H, W), the colours that they show, and those that *photo* allows.

    *response* (B, C) takes reflectance to linear light. *least* is the least half width of a cell,
    in 8-bit codes.
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
        """The colours that the spectra of *rows* show (C, rows, W), in linear light."""
        # einsum rather than a matrix product: the threads of BLAS would wait for our own.
        return np.einsum("bc,bhw->chw", self.response, self.data[:, rows])

    def difference(self, rows: slice) -> Difference:
        """The colours that the spectra of *rows* show, minus those of the photo."""
        return self.cells.difference(srgb_codes(self.rendered(rows)), rows)


def row_blocks(shape: tuple[int, int], most: int = BLOCK_PIXELS) -> list[slice]:
    """Blocks of rows that cover an image of *shape* (H, W), of about *most* pixels each.

    No block has many more than `BLOCK_PIXELS`.
    """
    height, width = shape
    rows = max(1, min(most, BLOCK_PIXELS) // width)
    return [slice(start, min(start + rows, height)) for start in range(0, height, rows)]


def each_block(
    work: Callable[[B], T], blocks: Sequence[B], watch: Watch, threads: int = THREADS
) -> list[T]:
    """The results of *work* for all *blocks*, as of rows, in their order; several run at a time."""

    def unless_cancelled(block: B) -> T:
        watch.check()
        return work(block)

    results = []
    with ThreadPoolExecutor(threads) as pool:
        for result in pool.map(unless_cancelled, blocks):
            results.append(result)
            watch.reach(len(results) / len(blocks))
    return results


# What takes the time of a correction, by the kernels of numba where it is installed. Nothing here
# imports numba before somebody asks. Without it NumPy computes the same.

logger = logging.getLogger("napari_mst")


UPPER = np.triu_indices(3)
"""Rows and columns of the entries of a symmetric system of three equations."""

_FLOAT_BYTES = 4
_compiling = threading.Lock()


CLOSE = 1e-6
"""A colour this near to its cell, in linear light, counts as within it."""

DARKEST = 1e-4
"""Reflectance that a band is taken to have at least, so that it can become brighter."""

HIGHEST = 1.25
"""Reflectance beyond which no surface has the colour, unless the estimate has it."""

STEPS = 8
"""Towards a cell, at most: more than one only where a spectrum would become negative."""


class CompiledColours:
    """The kernels of `engine.kernels` for arrays of NumPy, which are float32."""

    def __init__(self) -> None:
        from napari_mst.engine.kernels import colours, powers

        self._kernels = colours
        self._powers = powers

    def codes(self, linear: Singles) -> Singles:
        """*linear* light as 8-bit sRGB codes, clipped and not rounded."""
        return self._each_number(self._powers.encode_light, linear)

    def light(self, encoded: Singles) -> Singles:
        """The linear light of *encoded* sRGB values, 0 to 1."""
        return self._each_number(self._powers.decode_light, encoded)

    def _each_number(self, kernel: Callable[[int, int, int], None], values: Singles) -> Singles:
        values = np.ascontiguousarray(values)
        results = np.empty_like(values)
        kernel(values.ctypes.data, results.ctypes.data, values.size)
        return results

    def move(
        self, spectra: Singles, shown: Floats, cells: tuple[Floats, Floats], response: Floats
    ) -> int:
        """Move *spectra* (B, h, w), in place, that show a colour outside their *cells*.

        *shown* and *cells*, low and high, are (C, h, w), and *response* is (B, C). Counts those
        that were moved.
        """
        kernels = self._kernels
        # They are kept until the end: the records have only their addresses.
        planes = [np.ascontiguousarray(each, dtype=np.float32) for each in (shown, *cells)]
        coefficients = _coefficients(response)
        limits = np.array([CLOSE, DARKEST, HIGHEST], dtype=np.float32)
        band, row, _ = spectra.strides
        place = kernels.SpectraPlanes(spectra.ctypes.data, band, row, *spectra.shape)
        colours = kernels.ColourPlanes(*(each.ctypes.data for each in planes))
        moving = kernels.Moving(coefficients.ctypes.data, limits.ctypes.data, STEPS)
        return kernels.move_spectra(place, colours, moving)


def compiled_colours(values: Floats) -> CompiledColours | None:
    """The kernels, if there are any, for *values* of float32 whose pixels lie side by side."""
    if values.dtype != np.float32 or values.strides[-1] != _FLOAT_BYTES:
        return None
    with _compiling:
        return checked_kernels()


@functools.cache
def checked_kernels() -> CompiledColours | None:
    """The kernels, compiled if need be; None without numba, or where they are wrong."""
    if find_spec("numba") is None:
        return None
    fault = fault_of(lambda: largest_error(CompiledColours()))
    if not fault:
        return CompiledColours()
    logger.info("Colours are corrected without compiled kernels (%s), slower.", fault)
    return None


def largest_error(compiled: CompiledColours) -> float:
    """The largest error of *compiled* codes and colours, in shares of the full scale."""
    generator = np.random.default_rng(0)
    light = np.linspace(-0.2, 1.2, 1000, dtype=np.float32)
    code_error = np.abs(compiled.codes(light) / 255 - linear_to_srgb(light.clip(0, 1))).max()
    light_error = np.abs(compiled.light(light) - srgb_to_linear(light)).max()
    response = np.eye(5, 3, dtype=np.float32) + np.float32(0.1)
    spectra = generator.uniform(0.2, 0.8, (5, 2, 19)).astype(np.float32)
    shown = np.einsum("bc,bhw->chw", response, spectra)
    target = shown + generator.uniform(-0.1, 0.1, shown.shape).astype(np.float32)
    compiled.move(spectra, shown, (target, target), response)
    colour_error = np.abs(np.einsum("bc,bhw->chw", response, spectra) - target).max()
    return float(max(code_error, light_error, colour_error))


def _coefficients(response: Floats) -> Singles:
    """(B, 9) of each band: its response, and its products in the order of a system's entries."""
    rows, columns = UPPER
    products = response[:, rows] * response[:, columns]
    # The kernel reads rows of nine; the response of a chart is stored column by column.
    return np.ascontiguousarray(np.concatenate([response, products], axis=1), dtype=np.float32)
