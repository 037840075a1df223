"""The parts of a correction that take its time, by the kernels of numba where it is installed.

Nothing here imports numba before somebody asks. Without it NumPy computes the same, as `moving` and
`cells` write it. Letters: B bands, C colours, h, w sides of some rows.
"""

import functools
import logging
import threading
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from napari_mst.arrays import Floats, Singles
from napari_mst.cube.colour import linear_to_srgb, srgb_to_linear
from napari_mst.engine.kernels import fault_of

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
