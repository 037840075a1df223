"""Pinned spectra: the points of one Points layer, whose colours and names are those of their curves.

The layer holds all there is, so that picks stay on the image, move with it, are edited with napari's own tools, and
are saved and opened like any layer.
"""

import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer, Points
from napari.utils.colormaps.standardize_color import rgb_to_hex, transform_color
from numpy.typing import NDArray

from napari_mst.plugin.viewer.layers import METADATA_KEY, LayerTuple, shown_cube_layers
from napari_mst.plugin.viewer.placement import Placement, pixel_at, to_pixels

ROLE = "picks"
"""What marks our Points layer in its metadata."""
PALETTE = (
    "#e6194b",
    "#f58231",
    "#3cb44b",
    "#4d8fea",
    "#c44fd6",
    "#12b5a5",
    "#c9a000",
    "#e377c2",
    "#9a6324",
    "#7f8fa6",
)
"""Colours that are told apart on dark and on light; used again from the first when all are taken."""
RELATIVE_SIZE = 0.02
"""Diameter of a point as a share of the longer side of the image."""
COLOURS = transform_color(list(PALETTE))
WINDOWS = (1, 3, 5, 9)
"""Sides of the squares of pixels that a pick is the mean of."""
STATES = 100
"""How many changes can be undone."""

Position = Sequence[float]


def pixel_under(viewer: ViewerModel, position: Position) -> tuple[Image, int, int] | None:
    """The first cube under the world *position*, row and column; None outside all, in 3-D, and where no cube shows."""
    if viewer.dims.ndisplay != 2:
        return None
    at = ((layer, pixel_at(layer, position)) for layer in shown_cube_layers(viewer))
    return next(((layer, *pixel) for layer, pixel in at if pixel is not None), None)


def picks_layer(viewer: ViewerModel) -> Points | None:
    """The layer of the picks, if there is one."""
    return next(
        (layer for layer in viewer.layers if layer.metadata.get(METADATA_KEY) == ROLE), None
    )


def pin(viewer: ViewerModel, position: Position, window: int = 1) -> bool:
    """Pin the pixel under the world *position*; False where there is none, or it is pinned already."""
    under = pixel_under(viewer, position)
    if under is None:
        return False
    layer, *pixel = under
    points = picks_layer(viewer) or add_picks(viewer, layer)
    at, _ = pixels_of(points, layer)
    same = (at == pixel).all(axis=1) & (windows(points) == window)
    matrix = to_pixels(layer, points)
    if matrix is None or same.any():
        return False
    points.feature_defaults = {"name": "", "window": window}
    points.add((matrix @ (*pixel, 1))[:2])
    points.selected_data = set()
    return True


def pixels_of(points: Points, layer: Layer) -> tuple[NDArray[np.int_], NDArray[np.bool_]]:
    """(n, 2) rows and columns of the pixels of *layer* under all *points*, and which of them are within it."""
    matrix = to_pixels(points, layer)
    if matrix is None or not len(points.data):
        return np.zeros((len(points.data), 2), dtype=int), np.zeros(len(points.data), dtype=bool)
    at = points.data[:, -2:] @ matrix[:2, :2].T + matrix[:2, 2]
    at = np.floor(at + 0.5)
    inside = ((at >= 0) & (at < layer.data.shape[-2:])).all(axis=1)
    return np.where(inside[:, None], at, -1).astype(int), inside


def windows(points: Points) -> NDArray[np.int_]:
    """(n,) side of the square of pixels of each pick; 1 where the layer does not tell."""
    told = points.features.get("window")
    if told is None:
        return np.ones(len(points.data), dtype=int)
    return np.array([int(side) if side in WINDOWS else 1 for side in told], dtype=int)


def names(points: Points) -> list[str]:
    """Name of each pick."""
    told = points.features.get("name")
    return [
        name if isinstance(name, str) else ""
        for name in ([""] * len(points.data) if told is None else told)
    ]


def colours(layer: Any) -> list[str]:
    """Colour of each point as "#rrggbb"."""
    return (
        [str(colour)[:7].lower() for colour in rgb_to_hex(layer.face_color)]
        if len(layer.face_color)
        else []
    )


def set_feature(points: Points, feature: str, values: Sequence[object]) -> None:
    """Give all picks their "name" or "window"; that of the next pick stays as it is."""
    told = points.feature_defaults.get("window")
    defaults = {"name": "", "window": 1 if told is None else int(told.iloc[0])}
    points.features = points.features.assign(**{feature: list(values)})
    points.feature_defaults = {
        key: value for key, value in defaults.items() if key in points.features
    }


def name_all(points: Points, added: Sequence[int] = ()) -> None:
    """Give a name to the picks that have none, or one that napari has copied from another to them."""
    told = names(points)
    new = {index % len(told) for index in added} if told else set()
    count, seen = Counter(told), set[str]()
    for index, name in enumerate(told):
        is_copy = count[name] > 1 if index in new else bool(_number(name)) and name in seen
        seen.add(name)
        if is_copy:
            told[index] = ""
    taken = {_number(name) for name in told}
    free = (number for number in range(1, 2 + len(told)) if number not in taken)
    named = [name or f"pick {next(free)}" for name in told]
    if named != names(points):
        set_feature(points, "name", named)


def _number(name: str) -> int:
    """N of "pick N"; 0 for another name."""
    return int(name[5:]) if name.startswith("pick ") and name[5:].isdecimal() else 0


def recolour(points: Points, index: int, colour: str) -> None:
    """Give one pick another colour ("#rrggbb")."""
    every = np.array(points.face_color)
    every[index] = transform_color(colour)[0]
    points.face_color = every


def remove(points: Points, indices: Sequence[int]) -> None:
    """Take picks off the image."""
    points.selected_data = set(indices)
    points.remove_selected()


def tell_apart(points: Points, added: Sequence[int]) -> None:
    """Give the points just *added* (counted from the end) colours that no other point has."""
    colours = np.array(points.face_color)
    for index in added:
        colours[index] = unused_colour(np.delete(colours, index, axis=0))
    points.face_color = colours


def unused_colour(others: NDArray[np.floating]) -> NDArray[np.floating]:
    """The RGBA colour of the palette that is used least among *others* (n, 4)."""
    uses = [
        int(np.isclose(others[:, :3], colour[:3], atol=1e-2).all(axis=1).sum())
        for colour in COLOURS
    ]
    return np.asarray(COLOURS[int(np.argmin(uses))])


@dataclass(frozen=True, eq=False)
class State:
    """All that a person can change about the picks."""

    data: NDArray[np.float64]
    face_color: NDArray[np.floating]
    shown: NDArray[np.bool_]
    features: Any

    @classmethod
    def of(cls, points: Points) -> "State":
        """A copy of what *points* are now."""
        return cls(
            points.data.copy(),
            points.face_color.copy(),
            points.shown.copy(),
            points.features.copy(),
        )

    def equals(self, other: "State") -> bool:
        """Whether the other is the same."""
        pairs = (
            (self.data, other.data),
            (self.face_color, other.face_color),
            (self.shown, other.shown),
        )
        return all(np.array_equal(one, two) for one, two in pairs) and self.features.equals(
            other.features
        )


class History:
    """What the picks were before, to undo."""

    def __init__(self) -> None:
        self.is_undoing = False
        self._states: list[State] = []
        self._points: weakref.ref[Points] | None = None

    def record(self, points: Points | None) -> None:
        """Remember what *points* are now."""
        if points is None or self.is_undoing:
            return
        if self._points is None or self._points() is not points:
            self._states, self._points = [], weakref.ref(points)
        state = State.of(points)
        if not self._states or not self._states[-1].equals(state):
            self._states = [*self._states, state][-STATES:]

    def undo(self, points: Points | None) -> bool:
        """Make *points* what they were before the last change; False if there is none."""
        self.record(points)  # a change that was made just now
        if points is None or len(self._states) < 2:
            return False
        self._states.pop()
        self.is_undoing = True
        try:
            _restore(points, self._states[-1])
        finally:
            self.is_undoing = False
        self._states[-1] = State.of(
            points
        )  # napari may keep the same features in columns of another type
        return True


def _restore(points: Points, state: State) -> None:
    """Make *points* what they were in *state*; what the next one will be stays."""
    defaults = points.feature_defaults
    points.selected_data = set()
    points.data = state.data
    if len(state.data):
        points.features = state.features
        points.face_color = state.face_color
        points.shown = state.shown
        points.feature_defaults = defaults


def picks_text(points: Points, layer: Layer) -> str:
    """The picks within the cube *layer* as its file keeps them: "row column window #rrggbb name, ..."."""
    at, inside = pixels_of(points, layer)
    told = zip(
        at.tolist(), windows(points).tolist(), colours(points), names(points), inside, strict=True
    )
    return ", ".join(
        f"{row} {column} {window} {colour} {quote(name, safe='')}"
        for (row, column), window, colour, name, is_inside in told
        if is_inside
    )


def picks_of_text(text: str, shape: tuple[int, int]) -> LayerTuple:
    """The Points layer of picks on a cube of (H, W) pixels, from `picks_text`. Raises `ValueError` if it is damaged."""
    rows = [row.split(" ") for row in text.split(", ")]
    data = np.array([(int(row), int(column)) for row, column, *_ in rows], dtype=float)
    sides, marks, told = zip(*(row[2:] for row in rows), strict=True)
    known = {"name": [unquote(name) for name in told], "window": [int(side) for side in sides]}
    features = {
        key: np.array(values, dtype=object if key == "name" else int)
        for key, values in known.items()
    }
    return (
        data,
        _arguments(shape) | {"features": features, "face_color": transform_color(list(marks))},
        "points",
    )


def _arguments(shape: tuple[int, ...]) -> dict[str, Any]:
    """How picks look on an image of *shape* (H, W)."""
    return {
        "name": "Picks",
        "border_color": "white",
        "border_width": 0.12,
        "size": max(1.0, RELATIVE_SIZE * max(shape)),
        "metadata": {METADATA_KEY: ROLE},
    }


def add_picks(viewer: ViewerModel, cube_layer: Image) -> Points:
    """A layer for picks that lies on *cube_layer*; what was selected stays selected."""
    active = viewer.layers.selection.active
    points: Points = viewer.add_points(
        np.empty((0, 2)),
        **Placement.of(cube_layer).image_kwargs(),
        **_arguments(cube_layer.data.shape[-2:]),
        features={"name": np.empty(0, dtype=object), "window": np.empty(0, dtype=int)},
        face_color=PALETTE[0],
    )
    viewer.layers.selection.active = active
    return points
