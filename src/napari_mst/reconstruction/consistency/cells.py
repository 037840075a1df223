"""The colours that a photo allows: one cell around the stored value of each channel.

Letters: H rows, W columns, C colours, n pixels.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_to_srgb, srgb_to_linear
from napari_mst.photo.photo import Photo

Floats = NDArray[np.floating]
"""Numbers of any precision: spectra, colours or codes."""

HALF_CODE = 0.49
"""Half the width of a cell, in codes of the photo.

It is a little less than a half, so that rounding gives the same code.
"""

_CODES = 255  # of 8 bits
_FLOAT_CODES = 65535  # the codes that a photo of floats is taken to have: those of 16 bits


class Bounds(NamedTuple):
    """The colours between *low* and *high*, in linear light; infinite beyond a clipped channel."""

    low: Floats
    high: Floats


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
        own_half = HALF_CODE if self._is_integer else HALF_CODE * photo.full_scale / _FLOAT_CODES
        self._own_half = own_half / photo.full_scale
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

    def codes(self, rows: slice) -> NDArray[np.float32]:
        """The photo in 8-bit sRGB codes, not rounded, (C, rows, W)."""
        stored = self._photo.pixels[:, rows]
        if self._is_integer:
            return self._code_table[stored]
        return self._code(stored).astype(np.float32)

    def residual(self, rendered: Floats, rows: slice) -> Floats:
        """*rendered* (C, rows, W), linear, minus the photo: 8-bit codes; NaN where clipped."""
        codes = self.codes(rows)
        is_known = ((codes > 0) & (codes < _CODES)).all(axis=0)
        return np.where(is_known, _difference(rendered, codes), np.float32(np.nan))

    def distance(self, rendered: Floats, rows: slice) -> NDArray[np.float32]:
        """Distance (rows, W) of *rendered* (C, rows, W), linear, from the photo, in 8-bit codes.

        The channel that is furthest counts.
        """
        furthest = np.abs(_difference(rendered, self.codes(rows))).max(axis=0)
        return np.asarray(furthest, dtype=np.float32)

    def _channel_bounds(self, stored: NDArray[np.generic], channel: int) -> Bounds:
        if not self._is_integer:
            return self._bounds(stored, channel)
        table = self._tables[channel]
        return Bounds(table.low[stored], table.high[stored])

    def _bounds(self, stored: NDArray[np.generic], channel: int) -> Bounds:
        value = np.asarray(stored, dtype=np.float64) / self._photo.full_scale
        code = self._code(stored) / _CODES
        half = self._half[channel] / _CODES
        low = np.minimum(self._decoded(value - self._own_half), srgb_to_linear(code - half))
        high = np.maximum(self._decoded(value + self._own_half), srgb_to_linear(code + half))
        # Beyond a clipped channel the light may have been anything.
        low = np.where(value <= 0, -np.inf, low)
        high = np.where(value >= 1, np.inf, high)
        return Bounds(low.astype(np.float32), high.astype(np.float32))

    def _code(self, stored: NDArray[np.generic]) -> Floats:
        value = np.asarray(stored, dtype=np.float64) / self._photo.full_scale
        encoded = value if self._photo.encoding == "srgb" else linear_to_srgb(value)
        return encoded * _CODES

    def _decoded(self, value: NDArray[np.float64]) -> Floats:
        return srgb_to_linear(value) if self._photo.encoding == "srgb" else value


def srgb_codes(linear: Floats) -> Floats:
    """*linear* light as 8-bit sRGB codes, clipped and not rounded."""
    return np.asarray(linear_to_srgb(linear.clip(0, 1)) * np.float32(_CODES))


def _difference(rendered: Floats, codes: Floats) -> Floats:
    """*rendered*, in linear light, minus *codes*: 8-bit sRGB codes, 0 beyond a clipped channel."""
    return np.asarray(srgb_codes(rendered) - np.clip(codes, 0, _CODES))
