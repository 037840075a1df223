"""Pinned spectra: the points of one Points layer, whose colours are the colours of their curves.

The layer holds all there is, so that picks stay on the image, move with it, are edited with napari's own tools, and
are saved and opened like any layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from napari.components import ViewerModel
from napari.layers import Points
from napari.utils.colormaps.standardize_color import transform_color
from numpy.typing import NDArray

from napari_mst.plugin.layers import METADATA_KEY, Placement, active_cube_layer, cube_of, pixel_at

ROLE = "picks"
"""What marks our Points layer in its metadata."""
PALETTE = ("#e6194b", "#f58231", "#3cb44b", "#4d8fea", "#c44fd6", "#12b5a5", "#c9a000", "#e377c2", "#9a6324", "#7f8fa6")
"""Colours that are told apart on dark and on light; used again from the first when all are taken."""
RELATIVE_SIZE = 0.02
"""Diameter of a point as a share of the longer side of the image."""
COLOURS = transform_color(list(PALETTE))

Position = Sequence[float]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The (B,) values of one pixel, and the RGBA colour (0-1) that it is drawn in."""

    row: int
    column: int
    values: NDArray[np.floating]
    colour: tuple[float, ...] = ()


def spectrum_at(viewer: ViewerModel, position: Position) -> Spectrum | None:
    """The spectrum of the active cube under the world *position*; None outside it, in 3-D, and where no cube shows."""
    layer = active_cube_layer(viewer)
    cube = cube_of(layer)
    if layer is None or cube is None or viewer.dims.ndisplay != 2:
        return None
    pixel = pixel_at(layer, position)
    return None if pixel is None else Spectrum(*pixel, cube.spectrum(*pixel))


def picks_layer(viewer: ViewerModel) -> Points | None:
    """The layer of the picks, if there is one."""
    return next((layer for layer in viewer.layers if layer.metadata.get(METADATA_KEY) == ROLE), None)


def pin(viewer: ViewerModel, position: Position) -> bool:
    """Pin the pixel under the world *position*; False where there is none, or it is pinned already."""
    cube_layer, spectrum = active_cube_layer(viewer), spectrum_at(viewer, position)
    if cube_layer is None or spectrum is None:
        return False
    if any((s.row, s.column) == (spectrum.row, spectrum.column) for s in pinned(viewer)):
        return False
    points = picks_layer(viewer) or _add_layer(viewer, Placement.of(cube_layer), cube_layer.data.shape)
    centre = cube_layer.data_to_world((0, spectrum.row, spectrum.column))
    points.add(points.world_to_data(centre))
    points.selected_data = set()
    return True


def pinned(viewer: ViewerModel) -> list[Spectrum]:
    """The spectra of the active cube under the points, in their order; none for points off the image, or if hidden."""
    points, layer = picks_layer(viewer), active_cube_layer(viewer)
    cube = cube_of(layer)
    if points is None or layer is None or cube is None or not points.visible:
        return []
    pixels = (pixel_at(layer, points.data_to_world(point)) for point in points.data)
    return [
        Spectrum(*pixel, cube.spectrum(*pixel), tuple(colour))
        for pixel, colour in zip(pixels, points.face_color, strict=True)
        if pixel is not None
    ]


def clear(viewer: ViewerModel) -> None:
    """Take all picks off the image."""
    points = picks_layer(viewer)
    if points is not None:
        points.data = np.empty((0, points.ndim))


def tell_apart(points: Points, added: Sequence[int]) -> None:
    """Give the points just *added* (counted from the end) colours that no other point has."""
    colours = np.array(points.face_color)
    for index in added:
        others = np.delete(colours, index, axis=0)
        uses = [int(np.isclose(others, colour, atol=1e-3).all(axis=1).sum()) for colour in COLOURS]
        colours[index] = COLOURS[int(np.argmin(uses))]
    points.face_color = colours


def _add_layer(viewer: ViewerModel, placement: Placement, shape: tuple[int, ...]) -> Points:
    active = viewer.layers.selection.active
    points: Points = viewer.add_points(
        np.empty((0, 2)),
        **placement.image_kwargs(),
        name="Picks",
        face_color=PALETTE[0],
        border_color="white",
        border_width=0.12,
        size=max(1.0, RELATIVE_SIZE * max(shape[-2:])),
        metadata={METADATA_KEY: ROLE},
    )
    viewer.layers.selection.active = active
    return points
