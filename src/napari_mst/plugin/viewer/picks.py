"""Pinned spectra: the points of one Points layer, with the colours and names of their curves.

The layer holds all there is to know of them. So picks stay on the image, move with it, are edited
with napari's own tools, and are saved and opened like any layer.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, filterfalse
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer, Points
from napari.utils.colormaps.standardize_color import rgb_to_hex, transform_color
from numpy.typing import NDArray

from napari_mst.base.arrays import Doubles, Floats, Mask
from napari_mst.cube.layer import METADATA_KEY, LayerTuple
from napari_mst.plugin.viewer.layers import layer_of_role, shown_cube_layers
from napari_mst.plugin.viewer.placement import Placement, pixel_at, to_pixels

if TYPE_CHECKING:
    from napari_mst.references.reference_spectrum import ReferenceSpectrum

ROLE = "picks"
"""Marks the Points layer of this plugin in its metadata."""
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
"""Colours that can be told apart on dark and on light; the least used is taken next."""
RELATIVE_SIZE = 0.02
"""Diameter of a point as a share of the longer side of the image."""
COLOURS = transform_color(list(PALETTE))
SAME_COLOUR = 0.01
"""The most that two colours that count as one differ in red, green or blue, of 0-1."""
WINDOWS = (1, 3, 5, 9)
"""Sides, in pixels, of the squares that a pick may be the mean of."""
REFERENCE = "references"
"""The feature that holds the `ReferenceSpectrum` of a pick; see `marks_of`."""
SOURCE = "napari_mst_references_in"
"""The key, in the metadata of the layer of picks, of the photo in which their spectra are known."""
STATES = 100
"""The number of changes that can be undone."""

Position = Sequence[float]


def pixel_under(viewer: ViewerModel, position: Position) -> tuple[Image, int, int] | None:
    """Find the first cube layer under the world *position*, with row and column.

    None outside all cubes, in 3-D, and where no cube is shown.
    """
    if viewer.dims.ndisplay != 2:
        return None
    for layer in shown_cube_layers(viewer):
        pixel = pixel_at(layer, position)
        if pixel is not None:
            return layer, *pixel
    return None


def picks_layer(viewer: ViewerModel) -> Points | None:
    """Find the layer of the picks; None if there is none."""
    return layer_of_role(viewer, ROLE)


def pin(viewer: ViewerModel, position: Position, window: int = 1) -> bool:
    """Pin the pixel under the world *position*.

    False where there is none, or it is pinned already with this *window*.
    """
    under = pixel_under(viewer, position)
    if under is None:
        return False
    layer, *pixel = under
    return add(picks_layer(viewer) or add_picks(viewer, layer), layer, pixel, window)


def found_at(viewer: ViewerModel, position: Position) -> set[int]:
    """Return the number of the newest pick of the pixel under the world *position*, if any."""
    points, under = picks_layer(viewer), pixel_under(viewer, position)
    if points is None or under is None:
        return set()
    layer, *pixel = under
    at, _ = pixels_of(points, layer)
    return set(np.flatnonzero((at == pixel).all(axis=1))[-1:].tolist())


def add(
    points: Points, layer: Layer, pixel: Sequence[int], window: int = 1, name: str = ""
) -> bool:
    """Add a pick on a *pixel* of *layer*.

    False if that does not lie in the plane of *points*, or is pinned already with this *window*.
    """
    matrix = to_pixels(layer, points)
    at, _ = pixels_of(points, layer)
    is_there = (at == pixel).all(axis=1) & (windows(points) == window)
    if matrix is None or is_there.any():
        return False
    set_next(points, window, name)
    points.add((matrix @ (*pixel, 1))[:2])
    # napari selects a point that it adds; a selected pick would draw its prediction interval
    # unasked.
    points.selected_data = set()
    return True


def pixels_of(points: Points, layer: Layer) -> tuple[NDArray[np.int_], Mask]:
    """Find the pixels of *layer* under all *points*, and which of them are within it.

    The pixels are (n, 2) rows and columns, -1 outside; the second array is (n,).
    """
    matrix = to_pixels(points, layer)
    if matrix is None or not len(points.data):
        return np.zeros((len(points.data), 2), dtype=int), np.zeros(len(points.data), dtype=bool)
    exact = points.data[:, -2:] @ matrix[:2, :2].T + matrix[:2, 2]
    at = np.floor(exact + 0.5)
    shape = layer.data.shape[-3:-1] if getattr(layer, "rgb", False) else layer.data.shape[-2:]
    inside = ((at >= 0) & (at < shape)).all(axis=1)
    return np.where(inside[:, None], at, -1).astype(int), inside


def windows(points: Points) -> NDArray[np.int_]:
    """(n,) side of the square of each pick, in pixels; 1 where the layer does not say."""
    stored = points.features.get("window")
    if stored is None:
        return np.ones(len(points.data), dtype=int)
    return np.array([int(side) if side in WINDOWS else 1 for side in stored], dtype=int)


def names(points: Points) -> list[str]:
    """Name of each pick; "" for one without."""
    return texts(points, "name")


def texts(points: Points, feature: str) -> list[str]:
    """Text that each pick has in the column *feature*; "" for one without."""
    stored = points.features.get(feature, [""] * len(points.data))
    # A pick that was added without features has NaN there.
    return [text if isinstance(text, str) else "" for text in stored]


def marks_of(points: Points) -> "list[ReferenceSpectrum | None]":
    """Return the reference spectrum of each pick, as it was marked; None for a pick without one."""
    # Here, as the first file that is opened waits for all that this module imports.
    from napari_mst.references.reference_spectrum import ReferenceSpectrum

    stored = points.features.get(REFERENCE, [None] * len(points.data))
    return [mark if isinstance(mark, ReferenceSpectrum) else None for mark in stored]


def references_on(points: Points, layer: Layer) -> "dict[ReferenceSpectrum, ReferenceSpectrum]":
    """Return the reference spectra at pixels of *layer*, by the marks of the picks."""
    pixels, inside = pixels_of(points, layer)
    places = zip(marks_of(points), pixels.tolist(), inside, strict=True)
    return {
        mark: replace(mark, row=row, column=column)
        for mark, (row, column), is_inside in places
        if is_inside and mark is not None
    }


def colours(layer: Any) -> list[str]:
    """Colour of each point as "#rrggbb"."""
    return hexes(layer.face_color)


def hexes(rgba: Floats) -> list[str]:
    """Return the colours *rgba* (n, 4) of 0-1 as "#rrggbb"."""
    return [str(colour)[:7].lower() for colour in rgb_to_hex(rgba)] if len(rgba) else []


def set_feature(points: Points, feature: str, values: Sequence[object]) -> None:
    """Set the "name", "window" or "references" of all picks; the next window stays."""
    with _next_kept(points):
        points.features = points.features.assign(**{feature: list(values)})


@contextmanager
def _next_kept(points: Points) -> Iterator[None]:
    """Keep the next window; else napari takes it from the last pick, once `features` are set."""
    stored = points.feature_defaults.get("window")
    window = 1 if stored is None else int(stored.iloc[0])
    yield
    set_next(points, window)


def set_next(points: Points, window: int, name: str = "") -> None:
    """Give the next pick a *name*, the side of its square, *window*, and no reference."""
    own = {"name": name, "window": window, REFERENCE: ""}
    others = points.feature_defaults.iloc[0].to_dict()
    # napari wants one default for each feature that there is, and no others.
    points.feature_defaults = {key: own.get(key, others[key]) for key in points.features}


def name_all(points: Points, added: Sequence[int] = ()) -> None:
    """Name the picks that have no name, or one that napari has copied to them.

    *added* are the picks that have just been pasted, counted from the end.
    """
    before = names(points)
    uses = Counter(before)
    new = {index % len(before) for index in added}

    def is_copy(at: int, name: str) -> bool:
        # A person may type a name twice, but no number.
        is_second = name.startswith("pick ") and before.index(name) < at
        return uses[name] > 1 and (at in new or is_second)

    own = ["" if is_copy(at, name) else name for at, name in enumerate(before)]
    every = (f"pick {number}" for number in count(1))
    free = filterfalse(set(own).__contains__, every)
    named = [name or next(free) for name in own]
    if named != before:
        set_feature(points, "name", named)


def recolour(points: Points, index: int, colour: str) -> None:
    """Give one pick another colour ("#rrggbb")."""
    every = np.array(points.face_color)
    every[index] = transform_color(colour)[0]
    points.face_color = every


def remove(points: Points, indices: Iterable[int]) -> None:
    """Remove the picks at *indices*."""
    points.selected_data = set(indices)
    points.remove_selected()


def tell_apart(points: Points, added: Sequence[int]) -> None:
    """Give the points just *added*, counted from the end, the colours that are used least."""
    colours = np.array(points.face_color)
    new = np.zeros(len(colours), dtype=bool)
    new[list(added)] = True
    # Counted once: with a thousand new points, to count for each of them would take seconds.
    uses = _uses(colours[~new])
    for index in np.flatnonzero(new):
        least = int(np.argmin(uses))
        colours[index] = COLOURS[least]
        uses[least] += 1
    points.face_color = colours


def unused_colour(others: Floats) -> Floats:
    """Return the RGBA colour of the palette that is used least among *others* (n, 4)."""
    return COLOURS[int(np.argmin(_uses(others)))]


def _uses(colours: Floats) -> NDArray[np.int_]:
    """Count how many of *colours* (n, 4) are each colour of the palette."""
    distances = np.abs(colours[:, None, :3] - COLOURS[None, :, :3]).max(axis=-1)
    return (distances <= SAME_COLOUR).sum(axis=0)


class PicksState(NamedTuple):
    """All that a person can change about the picks."""

    data: Doubles
    face_color: Floats
    shown: Mask
    features: Any

    @classmethod
    def of(cls, points: Points) -> "PicksState":
        """Copy the present state of *points*."""
        # Copies, because napari moves a dragged point within the same array.
        return cls(*(getattr(points, name).copy() for name in cls._fields))

    def equals(self, other: "PicksState") -> bool:
        """True if *other* holds the same picks."""
        arrays = zip(self[:-1], other[:-1], strict=True)
        is_same = all(np.array_equal(mine, its) for mine, its in arrays)
        return is_same and bool(self.features.equals(other.features))


class History:
    """Remembers states of the picks, so that changes can be undone and redone."""

    def __init__(self) -> None:
        self.is_undoing = False
        self._states: list[PicksState] = []
        # Index of the shown state; the states after it were undone.
        self._at = 0
        self._points: Callable[[], Points | None] = lambda: None

    @property
    def can_undo(self) -> bool:
        """True if there is a change to undo."""
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        """True if the last change was undone."""
        return self._at + 1 < len(self._states)

    def record(self, points: Points | None) -> None:
        """Remember the present state of *points*."""
        if points is None or self.is_undoing:
            return
        # After the user has deleted the layer, new picks lie on another one, with its own past.
        if self._points() is not points:
            self._states = []
            self._points = weakref.ref(points)
        state = PicksState.of(points)
        if not self._states or not self._states[self._at].equals(state):
            self._states = [*self._states[: self._at + 1], state][-STATES:]
            self._at = len(self._states) - 1

    def step(self, points: Points | None, by: int) -> None:
        """Undo the last change of *points* (*by* -1), or redo the change undone last (1)."""
        # The last change may have been made just now, without a record.
        self.record(points)
        at = self._at + by
        if points is None or not 0 <= at < len(self._states):
            return
        state, self._at = self._states[at], at
        self.is_undoing = True
        try:
            points.selected_data = set()
            points.data = state.data
            if len(state.data):
                with _next_kept(points):
                    points.features = state.features
                points.face_color = state.face_color
                points.shown = state.shown
        finally:
            self.is_undoing = False
        # napari may keep the same features in columns of another type, as if they had changed.
        self._states[at] = PicksState.of(points)


def picks_text(points: Points, layer: Layer) -> str:
    """Write the picks within the cube *layer* as text for its file.

    Each is "row column window #rrggbb name"; a comma and a space are between them.
    """
    pixels, inside = pixels_of(points, layer)
    sides = windows(points)
    marks = colours(points)
    called = names(points)
    texts = []
    for index in np.flatnonzero(inside):
        row, column = pixels[index]
        # A name may hold spaces and commas, which separate the fields.
        name = quote(called[index], safe="")
        texts.append(f"{row} {column} {sides[index]} {marks[index]} {name}")
    return ", ".join(texts)


def picks_of_text(text: str, shape: tuple[int, int]) -> LayerTuple:
    """Describe the Points layer of picks on a cube of *shape* (H, W), from `picks_text`.

    Raises
    ------
    ValueError
        If the text is damaged.
    """
    rows = [row.split(" ") for row in text.split(", ")]
    row, column, sides, marks, called = zip(*rows, strict=True)
    data = np.stack([np.array(row, dtype=int), np.array(column, dtype=int)], axis=1)
    arguments = _arguments(shape, [unquote(name) for name in called], [int(side) for side in sides])
    return data.astype(float), arguments | {"face_color": transform_color(list(marks))}, "points"


def _arguments(
    shape: tuple[int, ...], called: Sequence[str] = (), sides: Sequence[int] = ()
) -> dict[str, Any]:
    """Describe picks of these names and windows on an image of *shape* (H, W)."""
    return {
        "name": "Picks",
        "border_color": "white",
        "border_width": 0.12,
        "size": max(1.0, RELATIVE_SIZE * max(shape)),
        "metadata": {METADATA_KEY: ROLE},
        "features": {
            "name": np.array(called, dtype=object),
            "window": np.array(sides, dtype=int),
            REFERENCE: np.full(len(called), "", dtype=object),
        },
    }


def add_picks(viewer: ViewerModel, cube_layer: Image) -> Points:
    """Add a layer for picks that lies on *cube_layer*; what was selected stays selected."""
    active = viewer.layers.selection.active
    points: Points = viewer.add_points(
        np.empty((0, 2)),
        **Placement.of(cube_layer).image_kwargs(),
        **_arguments(cube_layer.data.shape[-2:]),
        face_color=PALETTE[0],
    )
    viewer.layers.selection.active = active
    return points
