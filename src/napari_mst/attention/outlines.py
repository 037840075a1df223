"""The rectangles that explain the weights of one pixel: its window, its keys, its mask."""

from typing import Literal, NamedTuple

import numpy as np

from napari_mst.attention.pixel_weights import PixelWeights

Role = Literal["pixel", "window", "keys", "masked"]
"""The pixel itself, its window of queries, the larger window of its keys, and a part of a shifted
window that the mask keeps from it."""


class Outline(NamedTuple):
    """A rectangle of pixels of the photo.

    Attributes
    ----------
    rectangle
        First row, one past the last, first column, one past the last. It may reach beyond the
        photo, where padding is.
    """

    role: Role
    rectangle: tuple[int, int, int, int]


def outlines(found: PixelWeights) -> list[Outline]:
    """The outlines of *found*, the largest first and the pixel last."""
    pitch = found.pitch
    row, column = found.query
    pixel = Outline("pixel", (row, row + pitch, column, column + pitch))
    if found.geometry is None:
        return [pixel]
    is_heard = found.heard
    own = _bounds(found, is_heard)
    apart = [
        Outline("masked", _bounds(found, found.regions == region))
        for region in np.unique(found.regions[~is_heard])
    ]
    more = found.geometry.keys - found.geometry.window
    if not more:
        return [*apart, Outline("window", own), pixel]
    rim = more // 2 * pitch
    top, bottom, left, right = own
    window = Outline("window", (top + rim, bottom - rim, left + rim, right - rim))
    return [Outline("keys", own), window, pixel]


def _bounds(found: PixelWeights, chosen: np.ndarray) -> tuple[int, int, int, int]:
    """The rectangle around the *chosen* keys."""
    places = found.places[chosen]
    top, left = places.min(0).tolist()
    bottom, right = (places.max(0) + found.pitch).tolist()
    return top, bottom, left, right
