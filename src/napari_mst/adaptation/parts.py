"""Parts of a cube, moved by what the known spectra say: a strip of rows, or what a screen shows.

A pixel depends on no other one, so that a part has the numbers that it has in the whole cube.
Letters: B bands, H rows, W columns; h, w rows and columns of a part; k pixels.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation.colours import View, moved_pixels, photo_of, tells_each_pixel, view_of
from napari_mst.adaptation.kernel import Doubles, features_of_spectra
from napari_mst.adaptation.process import Posterior, corrected
from napari_mst.cube import SpectralCube
from napari_mst.photo.photo import PhotoLike, as_photo
from napari_mst.watch import UNWATCHED, Watch

_NUMBERS = 1 << 21
"""Kernel values that are computed at a time: 16 MB each for what it takes, in the cache of no core
but small."""
_MOST_PIXELS = 1 << 14
_THREADS = 4


@dataclass(frozen=True)
class Part:
    """The pixels of some rows and columns of an image; with a *step*, each *step*-th of both.

    Rows and columns have a start and a stop within the image.
    """

    rows: slice
    columns: slice
    step: int = 1

    @classmethod
    def whole(cls, shape: tuple[int, int], step: int = 1) -> "Part":
        """The whole image of *shape* (H, W)."""
        height, width = shape
        return cls(slice(0, height), slice(0, width), step)

    @property
    def at(self) -> tuple[range, range]:
        """The rows and the columns of its pixels."""
        rows, columns = (range(at.start, at.stop, self.step) for at in (self.rows, self.columns))
        return rows, columns

    @property
    def shape(self) -> tuple[int, int]:
        """(h, w)."""
        rows, columns = self.at
        return len(rows), len(columns)

    @property
    def key(self) -> tuple[slice, slice, slice]:
        """Cuts the part out of an array of three axes, the last two of which are the image."""
        rows, columns = (slice(at.start, at.stop, at.step) for at in self.at)
        return slice(None), rows, columns

    def strips(self, points: int) -> Iterator[tuple[slice, "Part"]]:
        """Thin parts that make up this one, and the rows of it that each of them is.

        They are thin enough for the kernel to this many *points*.
        """
        for rows in row_strips(self.shape, points):
            top = self.rows.start + rows.start * self.step
            bottom = min(self.rows.start + rows.stop * self.step, self.rows.stop)
            yield rows, replace(self, rows=slice(top, bottom))


def row_strips(shape: tuple[int, int], points: int) -> Iterator[slice]:
    """Strips of rows of an image (H, W), thin enough for the kernel to this many *points*."""
    height, width = shape
    pixels = min(_MOST_PIXELS, _NUMBERS // max(points, 1))
    step = max(1, pixels // width)
    for start in range(0, height, step):
        yield slice(start, min(start + step, height))


def spread(
    cube: SpectralCube, process: Posterior, watch: Watch = UNWATCHED, part: Part | None = None
) -> NDArray[np.float32]:
    """The numbers (B, h, w) of *cube*, or of a *part*, moved by what *process* says.

    Colours move with them.
    """
    part = part or Part.whole(cube.shape[1:])
    data = np.empty((cube.shape[0], *part.shape), dtype=np.float32)
    strips = list(part.strips(len(process.points)))

    def move(strip: tuple[slice, Part]) -> None:
        watch.check()
        rows, pixels = strip
        data[:, rows] = _moved(cube, process, pixels)

    with ThreadPoolExecutor(_THREADS) as threads:
        for number, _ in enumerate(threads.map(move, strips), 1):
            watch.reach(number / len(strips))
    return data


class Parts:
    """Parts of *cube* as they are after any adaptation, with the colours of *photo*.

    They are those of the whole adapted cube, but for noisy photos and those with errors of JPEG:
    there the pixels of the whole photo tell their colours together, and a part keeps its own.

    Raises
    ------
    PhotoError
        If the photo is another one, by its size or its colours.
    """

    def __init__(self, cube: SpectralCube, photo: PhotoLike) -> None:
        self._cube = cube
        view = view_of(cube, photo_of(cube, as_photo(photo)))
        is_clean = view is not None and tells_each_pixel(cube.data, view)
        self._view: View | None = view if is_clean else None

    def adapted(self, process: Posterior, part: Part) -> NDArray[np.float32]:
        """The numbers (B, h, w) of *part*, moved by what *process* says."""
        data = spread(self._cube, process, part=part)
        if self._view is not None:
            moved_pixels(data, self._view.of_part(part.key))
        return data


def _moved(cube: SpectralCube, process: Posterior, part: Part) -> NDArray[np.floating]:
    spectra = spectra_of(cube, part)
    shift = process.shift(features_of(cube, part, spectra))
    return corrected(spectra, shift).T.reshape(-1, *part.shape)


def spectra_of(cube: SpectralCube, part: Part) -> Doubles:
    """The spectra (k, B) of all pixels of *part*, row by row."""
    numbers = np.asarray(cube.data[part.key], dtype=np.float64)
    return numbers.reshape(len(numbers), -1).T


def features_of(cube: SpectralCube, part: Part, spectra: Doubles) -> Doubles:
    """Features (k, 6) of these *spectra* (k, B) of all pixels of *part*."""
    rows, columns = np.meshgrid(*part.at, indexing="ij")
    places = np.stack([rows.ravel(), columns.ravel()], axis=1) / max(cube.shape[1:])
    return features_of_spectra(spectra, places, cube.wavelengths)
