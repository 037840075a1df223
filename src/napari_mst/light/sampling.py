"""Pixels that stand for a photo where its light is told: a few of each of its cells.

Letters: S cells on a side of the picture.

References: Finlayson & Trezzi, "Shades of Gray and Colour Constancy", CIC 2004, 37-41.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import PhotoError
from napari_mst.light.lights import Doubles
from napari_mst.light.seeing import CLIPPED
from napari_mst.photo.photo import Photo

_SAMPLES = 8  # pixels on a side that are read of each cell
_BRIGHTEST = 4  # of these 64, the number that are the brightest part
_POWER = 6  # of shades of grey, as in its paper


class Sample(NamedTuple):
    """Some pixels of a photo, S x S of its cells.

    *means* (3, S, S) are of all pixels of a cell that are not clipped, *brightest* (3, S, S) of a
    few of them. *is_known* (S, S) tells which cells have any, and *bright* (3,) is the mean colour
    of the brightest in the whole photo (shades of grey).
    """

    means: Doubles
    brightest: Doubles
    is_known: NDArray[np.bool_]
    bright: Doubles


def sampled(photo: Photo, side: int) -> Sample:
    """Some pixels all over a photo, in *side* x *side* cells: they are enough for its colours.

    Raises
    ------
    PhotoError
        If all of them are black or clipped.
    """
    values, is_known = _samples(photo, side * _SAMPLES)
    if not values.any():
        raise PhotoError(
            "Expected a photo with colours to tell its light, got only black and clipped pixels. "
            "Name the illuminant."
        )
    # Divided first: a power of small numbers would be lost.
    largest = values.max()
    bright = ((values / largest) ** _POWER).mean(axis=(1, 2)) ** (1 / _POWER)
    cells = _in_cells(values)
    known = _in_cells(is_known).sum(axis=-1)
    means = cells.sum(axis=-1) / np.maximum(known, 1)
    return Sample(means, _brightest(cells, known), known > 0, bright)


def _samples(photo: Photo, side: int) -> tuple[Doubles, NDArray[np.bool_]]:
    """Linear values (3, *side*, *side*), 0 where not known, and which are."""
    rows, columns = (_spaced(length, side) for length in photo.shape)
    sample = Photo(photo.pixels[:, rows[:, None], columns], photo.full_scale, photo.encoding)
    values = sample.rows(0, side, linear=True).astype(np.float64)
    is_known = np.all(sample.rows(0, side, linear=False) < CLIPPED, axis=0)
    if photo.valid is not None:
        is_known = np.logical_and(is_known, photo.valid[np.ix_(rows, columns)])
    return values.clip(0) * is_known, np.asarray(is_known, dtype=np.bool_)


def _in_cells(samples: NDArray[Any]) -> NDArray[Any]:
    """(..., 8 S, 8 S) -> (..., S, S, 64)."""
    side = samples.shape[-1] // _SAMPLES
    cells = samples.reshape(*samples.shape[:-2], side, _SAMPLES, side, _SAMPLES)
    return cells.swapaxes(-3, -2).reshape(*samples.shape[:-2], side, side, _SAMPLES**2)


def _brightest(cells: Doubles, known: NDArray[np.intp]) -> Doubles:
    """The mean colour (3, S, S) of the brightest of the samples (3, S, S, 64) of each cell."""
    # Stable, so that equally bright samples are picked alike on every machine.
    order = (-cells.sum(axis=0)).argsort(axis=-1, kind="stable")[..., :_BRIGHTEST]
    picked = np.take_along_axis(cells, order[None], axis=-1)
    return np.asarray(picked.sum(axis=-1) / known.clip(1, _BRIGHTEST))


def _spaced(length: int, number: int) -> NDArray[np.intp]:
    """*number* indices at equal distances all over an axis of this *length*."""
    return np.asarray((np.arange(number) + 0.5) * length / number, dtype=np.intp)
