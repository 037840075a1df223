"""An adapted cube at once: coarse where a screen shows much of it, exact where little is read.

It stands in the layer until the whole cube is there. Letters: B bands, H rows, W columns; h, w rows
and columns of a part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_mst.adaptation.parts import Part, Parts
from napari_mst.adaptation.process import Posterior

PIXELS = 1 << 16
"""Pixels of a coarse picture for few known spectra; each costs as much as a pixel of the cube."""
EXACT = 1 << 10
"""Pixels up to which a part is computed exactly when it is read: milliseconds."""

Pixels = tuple[range, range]
"""Rows and columns."""

_BANDS = 32  # known spectra whose kernel takes about as long as all else that is done for a pixel


@dataclass(frozen=True, eq=False)
class Picture:
    """The numbers (B, h, w) of a part of the image, of which other pixels take the nearest."""

    part: Part
    numbers: NDArray[np.float32]

    def covers(self, pixels: Pixels) -> bool:
        """True if all of *pixels* lie within it."""
        spans = (self.part.rows, self.part.columns)
        return all(
            not at or (span.start <= min(at) and max(at) < span.stop)
            for span, at in zip(spans, pixels, strict=True)
        )

    def at(self, bands: int | slice, pixels: Pixels) -> NDArray[np.float32]:
        """Its numbers in some *bands* at *pixels*, which it covers."""
        first = (self.part.rows.start, self.part.columns.start)
        last = np.array(self.numbers.shape[1:]) - 1
        rows, columns = (
            np.minimum((np.array(at, dtype=int) - start) // self.part.step, end)
            for start, end, at in zip(first, last, pixels, strict=True)
        )
        return np.asarray(self.numbers[bands][..., rows[:, None], columns])


def drawn(parts: Parts, process: Posterior, part: Part) -> Picture:
    """The picture of *part*, with as many pixels as can be had at once."""
    pixels = PIXELS * _BANDS / (_BANDS + len(process.points))
    height, width = part.shape
    step = max(1, int(np.ceil(np.sqrt(height * width / pixels))))
    # The middle of what each pixel of the picture covers: else the picture would be moved.
    down, across = (
        slice(min(span.start + step // 2, span.stop - 1), span.stop)
        for span in (part.rows, part.columns)
    )
    numbers = parts.adapted(process, Part(down, across, step))
    return Picture(replace(part, step=step), numbers)


class PreviewData:
    """The numbers of an adapted cube, as an array (B, H, W) that is read like one of NumPy.

    A few pixels are computed when they are read, and are exact. Others come from the first of
    *pictures* that covers them; the last covers the image.
    """

    ndim = 3
    dtype = np.dtype(np.float32)

    def __init__(
        self,
        shape: tuple[int, int, int],
        parts: Parts,
        process: Posterior,
        pictures: Sequence[Picture],
    ) -> None:
        self.shape = shape
        self._parts = parts
        self._process = process
        self._pictures = tuple(pictures)

    @property
    def size(self) -> int:
        """Number of values."""
        bands, height, width = self.shape
        return bands * height * width

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """All numbers, as NumPy asks for them."""
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype)

    def __getitem__(self, key: Any) -> NDArray[np.float32]:
        """As of an array, for numbers and slices; other keys read all of it."""
        keys = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(one, int | np.integer | slice) for one in keys):
            return np.asarray(np.asarray(self)[key])
        bands, rows, columns = (keys + (slice(None),) * 2)[:3]
        pixels = (_at(rows, self.shape[1]), _at(columns, self.shape[2]))
        found = self._numbers(bands, pixels)
        # An axis that is read at one place is no axis of the result.
        down = slice(None) if isinstance(rows, slice) else 0
        across = slice(None) if isinstance(columns, slice) else 0
        return found[..., down, across]

    def _numbers(self, bands: int | slice, pixels: Pixels) -> NDArray[np.float32]:
        rows, columns = pixels
        is_square = rows.step == columns.step > 0
        if is_square and 0 < len(rows) * len(columns) <= EXACT:
            down, across = (slice(at.start, at[-1] + 1) for at in pixels)
            part = Part(down, across, rows.step)
            return np.asarray(self._parts.adapted(self._process, part)[bands])
        covering = next(one for one in self._pictures if one.covers(pixels))
        return covering.at(bands, pixels)


def _at(key: int | slice, length: int) -> range:
    """The places along an axis of *length* that *key* names."""
    places = range(length)
    if isinstance(key, slice):
        return places[key]
    at = places[key]
    return range(at, at + 1)
