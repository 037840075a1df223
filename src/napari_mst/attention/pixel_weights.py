"""The weights of the keys of one pixel of a photo, and the rectangles that explain them.

Letters: h heads.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.arrays import Doubles, Mask
from napari_mst.attention.maps import AttentionMap, Selection
from napari_mst.attention.overlays import WEIGHTS
from napari_mst.attention.record import PixelBlock
from napari_mst.cube import Provenance


@dataclass(frozen=True, eq=False)
class PixelWeights:
    """The weights of the keys of one pixel of a photo, in one block.

    Attributes
    ----------
    block
        The name of the block.
    weights
        (h, keys), each head sums to 1.
    places
        (keys, 2): row and column of the photo at which the pixels of each key begin. Keys beyond
        the photo are padding.
    regions
        (keys,): the part of a shifted window in which each key lies; only those in the part of the
        pixel have weight. 0 everywhere where no window is shifted.
    query
        Row and column of the photo at which the pixels of the query begin.
    pitch
        Pixels of the photo, on each side, that a query or key stands for.
    sides
        The block, with its sides of windows in keys.
    provenance
        The history of the run whose weights these are.
    """

    block: str
    weights: Doubles
    places: NDArray[np.int64]
    regions: NDArray[np.int64]
    query: tuple[int, int]
    pitch: int
    sides: PixelBlock
    provenance: Provenance = field(default_factory=Provenance)

    def maps(self, corner: tuple[int, int] = (0, 0)) -> list[AttentionMap]:
        """The weights as a map for each head, where the first pixel that was seen is *corner*."""
        images, first = self.planes()
        row, column = np.add(first, corner)
        middle = (self.pitch - 1) / 2
        pixel = self.query[0] + corner[0], self.query[1] + corner[1]
        return [
            AttentionMap(
                values=image.astype(np.float32),
                overlay=WEIGHTS.name,
                unit=WEIGHTS.unit,
                selection=Selection(self.block, head),
                pitch=self.pitch,
                offset=(float(row + middle), float(column + middle)),
                total=float(image.sum()),
                provenance=self.provenance,
                pixel=pixel,
            )
            for head, image in enumerate(images)
        ]

    def planes(self) -> tuple[Doubles, tuple[int, int]]:
        """The weights as images, (h, rows, columns), one value a key, and where they begin.

        It is the row and column of the photo of their first key: for a layer of scale `pitch`.
        """
        is_heard = self.weights.sum(0) > 0
        places = self.places[is_heard]
        first = places.min(0)
        rows, columns = ((places - first) // self.pitch).T
        images = np.zeros((len(self.weights), rows.max() + 1, columns.max() + 1))
        images[:, rows, columns] = self.weights[:, is_heard]
        return images, (int(first[0]), int(first[1]))

    @property
    def effective_keys(self) -> Doubles:
        """The number of keys that count in each head, (h,): 1 / sum of the squared weights."""
        counts: Doubles = 1 / np.square(self.weights).sum(-1)
        return counts

    @property
    def heard(self) -> Mask:
        """(keys,): True for the keys that the mask of shifted windows leaves to the query."""
        is_query = (self.places == self.query).all(1)
        is_heard: Mask = self.regions == self.regions[is_query]
        return is_heard

    def around(self, chosen: Mask) -> tuple[int, int, int, int]:
        """The rectangle of the photo around the *chosen* keys, as `Outline` has it."""
        places = self.places[chosen]
        top, left = places.min(0).tolist()
        bottom, right = (places.max(0) + self.pitch).tolist()
        return top, bottom, left, right


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


def outlines(weights: PixelWeights) -> list[Outline]:
    """The outlines of the *weights* of a pixel, the largest first and the pixel last."""
    pitch = weights.pitch
    row, column = weights.query
    pixel = Outline("pixel", (row, row + pitch, column, column + pitch))
    if not weights.sides.window:
        return [pixel]
    is_heard = weights.heard
    top, bottom, left, right = keys = weights.around(is_heard)
    masked = [
        Outline("masked", weights.around(weights.regions == region))
        for region in np.unique(weights.regions[~is_heard])
    ]
    rim = (weights.sides.keys - weights.sides.window) // 2 * pitch
    window = Outline("window", (top + rim, bottom - rim, left + rim, right - rim))
    return [*masked, *([Outline("keys", keys)] if rim else []), window, pixel]
