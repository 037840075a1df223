"""The place of an image in the world of the viewer, and the pixel under a position there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from napari.layers import Layer
from napari.utils.transforms import Affine
from numpy.typing import ArrayLike

from napari_mst.base.arrays import Doubles
from napari_mst.cube.layer import NO_UNIT

MIXED = 1e-9
"""Two axes count as mixed from this share of one in the other; below it lies rounding."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The place in the world of a layer's image axes (rows, columns), in napari's terms."""

    scale: Doubles
    translate: Doubles
    rotate: Doubles
    shear: Sequence[float]
    affine: Doubles
    units: tuple[str, ...]

    @classmethod
    def of(cls, layer: Layer) -> "Placement":
        """Return the placement of the last two axes of *layer*."""
        return cls(
            scale=np.array(layer.scale[-2:]),
            translate=np.array(layer.translate[-2:]),
            rotate=np.array(layer.rotate[-2:, -2:]),
            shear=[float(layer.shear[-1])],
            affine=np.array(layer.affine.affine_matrix[-3:, -3:]),
            units=tuple(str(unit) for unit in layer.units[-2:]),
        )

    @property
    def own_transform(self) -> Affine:
        """The transform from pixels to the world, without the layer's extra affine."""
        return Affine(
            scale=self.scale, rotate=self.rotate, shear=self.shear, translate=self.translate
        )

    def of_part(self, offset: ArrayLike, step: ArrayLike = (1.0, 1.0)) -> "Placement":
        """Return the placement of an image whose first pixel is centred at *offset*.

        Its pixels are *step* wide. Both are (rows, columns), in pixels of this image.
        """
        first = np.asarray(self.own_transform(np.asarray(offset)), dtype=np.float64)
        # The layer's extra affine acts after these two, so it stays as it is.
        return replace(self, scale=self.scale * np.asarray(step), translate=first)

    def pixels_at(self, positions: ArrayLike) -> Doubles:
        """Convert world positions (n, 2) to pixels (n, 2): row and column, not rounded."""
        to_pixel = Affine(affine_matrix=self.affine).compose(self.own_transform).inverse
        pixels = [to_pixel(position) for position in np.asarray(positions)]
        return np.asarray(pixels, dtype=np.float64)

    def image_kwargs(self) -> dict[str, Any]:
        """Return the arguments that put a layer of two axes here."""
        return dict(vars(self))

    def cube_kwargs(self, *axes: tuple[float, float]) -> dict[str, Any]:
        """Return the arguments that put a layer here which has more *axes* before these two.

        Each begins at its first number and advances by its second.
        """
        starts, steps = zip(*axes, strict=True)
        before = len(axes)
        # Only the image is turned: the other axes stay apart from both.
        rotate = np.eye(before + 2)
        rotate[before:, before:] = self.rotate
        affine = np.eye(before + 3)
        affine[before:, before:] = self.affine
        shear = np.zeros((before + 2) * (before + 1) // 2)
        shear[-1:] = self.shear
        return {
            "scale": [*steps, *self.scale],
            "translate": [*starts, *self.translate],
            "rotate": rotate,
            "shear": shear,
            "affine": affine,
            "units": (NO_UNIT,) * before + self.units,
        }


def image_matrix(layer: Layer) -> Doubles | None:
    """Return the matrix from pixels of *layer* to the world; None if other axes mix in.

    The (3, 3) matrix takes (row, column, 1) to the last two axes of the world.
    """
    origin = np.array(layer.data_to_world(np.zeros(layer.ndim)))
    ends = [layer.data_to_world(axis) for axis in np.eye(layer.ndim)]
    axes = np.stack(ends, axis=1) - origin[:, None]
    image_in_others = axes[:-2, -2:].ravel()
    others_in_image = axes[-2:, :-2].ravel()
    # The 0.0 is for a layer of two axes, which has no others: `max` of nothing is an error.
    mixed = np.abs([*image_in_others, *others_in_image, 0.0]).max()
    if mixed > MIXED * np.abs(axes).max():
        return None
    matrix = np.eye(3)
    matrix[:2, :2] = axes[-2:, -2:]
    matrix[:2, 2] = origin[-2:]
    return matrix


def to_pixels(source: Layer, target: Layer) -> Doubles | None:
    """Return the matrix from pixels of *source* to pixels of *target*; None if other axes mix in.

    The (3, 3) matrix takes (row, column, 1) to (row, column, 1).
    """
    there = image_matrix(target)
    here = image_matrix(source)
    if there is None or here is None:
        return None
    return np.asarray(np.linalg.solve(there, here), dtype=np.float64)


def pixel_at(layer: Layer, position: Sequence[float]) -> tuple[int, int] | None:
    """Return (row, column) of the pixel of *layer* under world *position*; None outside it."""
    # A pixel is the square around its centre, so 2.5 belongs to pixel 3.
    row, column = np.floor(np.asarray(layer.world_to_data(position))[-2:] + 0.5)
    rows, columns = layer.data.shape[-2:]
    # Unchecked, a -1 from just outside the image would be the last row or column to numpy.
    is_inside = 0 <= row < rows and 0 <= column < columns
    return (int(row), int(column)) if is_inside else None
