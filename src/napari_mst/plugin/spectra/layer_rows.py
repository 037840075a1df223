"""The rows of picks, and of the regions that a person has drawn: how they are read and changed."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Shapes
from napari.utils.colormaps import DirectLabelColormap
from napari.utils.colormaps.standardize_color import transform_color
from numpy.typing import ArrayLike
from skimage.draw import line

from napari_mst.analysis.comparison import Comparison
from napari_mst.analysis.label_table import Table
from napari_mst.analysis.regions import Region
from napari_mst.base.arrays import Doubles
from napari_mst.base.progress import Progress
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.spectra.reader import Reading, ReadTask, label_image
from napari_mst.plugin.spectra.rows import Entry, Rows, Spectra
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layer_photos import is_made
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at
from napari_mst.plugin.viewer.picks import PALETTE, hexes, unused_colour
from napari_mst.plugin.viewer.placement import Placement, to_pixels
from napari_mst.references.reference_spectrum import ReferenceSpectrum

ELLIPSE_CORNERS = 256
"""Corners of the polygon that stands for an ellipse."""
OPEN_SHAPES = frozenset(["line", "path"])
"""napari's names for shapes without an inside: the pixels under the line are read."""
WHITE = [1.0, 1.0, 1.0, 0.15]
"""RGBA of the faces of new shapes: one sees the image through them. napari takes no tuple."""
RELATIVE_WIDTH = 0.004
"""Width of the edges of new shapes as a share of the longer side of the image."""

Tasks = dict[Hashable, ReadTask]
"""Tasks by the numbers of the rows that they read."""
FoundSpectra = Mapping[int, Any]
"""The results that were read of rows, by the numbers of these rows."""


def region_layers(viewer: ViewerModel) -> list[Shapes | Labels]:
    """Return the visible layers with regions; classes are regions, too, but no frame of a chart."""
    visible = [layer for layer in viewer.layers if layer.visible]
    return [
        layer
        for layer in visible
        if isinstance(layer, Labels) or (isinstance(layer, Shapes) and not is_made(layer))
    ]


class LayerRows(Rows, ABC):
    """The picks or the regions of one layer.

    Attributes
    ----------
    first
        The number by which a person calls the first.
    version
        Changes when names or colours do, where regions may be many.
    """

    first = 1
    version = 0

    @abstractmethod
    def tasks(self, reading: Reading, viewer: ViewerModel) -> Tasks:
        """Return the tasks that read these rows; none where they lie in another plane."""

    def found(self, results: Mapping[Hashable, Any], tasks: Tasks) -> FoundSpectra:
        """Return the *results* of *tasks*, which lie there by their slots."""
        read: dict[Any, Any] = {number: results.get(task.slot) for number, task in tasks.items()}
        return {number: each for number, each in read.items() if each is not None}

    @abstractmethod
    def rgba(self, numbers: Any) -> Any:
        """(n, 4) colours of these rows."""

    def marks(self) -> Mapping[int, ReferenceSpectrum | None]:
        """Return what is known of the rows."""
        return {}

    def names(self) -> dict[int, str]:
        """Return the names that a person has given, by the numbers of the rows."""
        names = self.features.get("name", {}).items()
        return {number: name for number, name in names if isinstance(name, str)}

    def rename(self, index: int, name: str) -> None:
        """Give a row another name, in the feature "name"; other features stay."""
        features = self.features
        # A label has a separate row only when it has been described.
        features.loc[index, "name"] = name
        self.features = features

    @property
    def features(self) -> Any:
        """A copy of the features, in which each row has the number of its region."""
        features = self.layer.features.copy()
        # Shapes are numbered by their rows alone, as these move when one is deleted.
        has_numbers = self.are_pixels and "index" in features
        return features.set_index("index") if has_numbers else features

    @features.setter
    def features(self, features: Any) -> None:
        numbers = {"index": features.index} if self.are_pixels else {}
        self.layer.features = features.assign(**numbers)


class PickRows(LayerRows):
    """The picks, whose curves are read at once, and their prediction intervals later."""

    def tasks(self, reading: Reading, _: ViewerModel) -> Tasks:
        """See `LayerRows`; those of prediction intervals are under ("band", number)."""
        points = self.layer
        # Points may be hidden with napari's own tools.
        self.hidden = set(np.flatnonzero(~points.shown).tolist())
        shape = cube_at(reading.on).shape[1:]
        pixels, inside = picks.pixels_of(points, reading.on)
        sides = picks.windows(points)

        def read_window(row: int, column: int, side: int, _: Progress) -> Any:
            return reading.of_region(Region.of_window(row, column, shape, side))

        tasks: Tasks = {}
        for index in np.flatnonzero(inside).tolist():
            row, column = pixels[index].tolist()
            place = (row, column, int(sides[index]))
            read = partial(read_window, *place)
            tasks[index] = reading.task((id(points), index), place, read, is_quick=True)
            if reading.of_band is not None and sides[index] == 1:
                # Its place is its slot: no band stays around a pick that has moved away.
                key = ("band", row, column, reading.what)
                tasks["band", index] = ReadTask(key, key, partial(reading.of_band, row, column))
        return tasks

    def found(self, results: Mapping[Hashable, Any], tasks: Tasks) -> FoundSpectra:
        """See `LayerRows`; spectra have their prediction intervals, once these were read."""
        read: Any = super().found(results, tasks)
        bands = {key[1]: read.pop(key) for key in [*read] if isinstance(key, tuple)}
        return read | {number: replace(read[number], **band) for number, band in bands.items()}

    def marks(self) -> Mapping[int, ReferenceSpectrum | None]:
        """See `LayerRows`."""
        return dict(enumerate(picks.marks_of(self.layer)))

    def rgba(self, numbers: Any) -> Any:
        """See `LayerRows`."""
        return self.layer.face_color[numbers]

    def show(self, indices: set[int], is_shown: bool) -> None:
        """See `Rows`."""
        # A copy: napari draws the points again only when `shown` is assigned.
        mask = np.array(self.layer.shown)
        mask[list(indices)] = is_shown
        self.layer.shown = mask

    def delete(self, indices: set[int]) -> None:
        """See `Rows`."""
        picks.remove(self.layer, indices)

    def recolour(self, index: int, colour: str) -> None:
        """See `Rows`."""
        picks.recolour(self.layer, index, colour)

    def rename(self, index: int, name: str) -> None:
        """See `Rows`."""
        names = picks.names(self.layer)
        names[index] = name
        picks.set_feature(self.layer, "name", names)


class ShapeRows(LayerRows):
    """The shapes of a layer."""

    def tasks(self, reading: Reading, _: ViewerModel) -> Tasks:
        """See `LayerRows`."""
        layer, shape = self.layer, cube_at(reading.on).shape[1:]
        matrix = to_pixels(layer, reading.on)
        if matrix is None:
            return {}

        def read(vertices: Doubles, kind: str, _: Progress) -> Any:
            trace = _line if kind in OPEN_SHAPES else Region.of_polygon
            return reading.of_region(trace(vertices, shape))

        tasks: Tasks = {}
        for index, (corners, kind) in enumerate(zip(layer.data, layer.shape_type, strict=True)):
            outline = corners[:, -2:]
            if kind == "ellipse":
                outline = _ellipse(outline)
            vertices = outline @ matrix[:2, :2].T + matrix[:2, 2]
            # The count is part of the slot: after one was deleted, its index may be another's.
            slot = (id(layer), index, len(layer.data))
            place = (kind, vertices.tobytes())
            tasks[index] = reading.task(slot, place, partial(read, vertices, kind))
        return tasks

    def rgba(self, numbers: Any) -> Any:
        """Return the colours of the edges."""
        return self.layer.edge_color[numbers]

    def recolour(self, index: int, colour: str) -> None:
        """See `Rows`."""
        self._recolour({index: transform_color(colour)[0, :3]})

    def delete(self, indices: set[int]) -> None:
        """See `Rows`."""
        self.layer.selected_data = indices
        self.layer.remove_selected()

    def tell_apart(self, taken: Any) -> None:
        """Give shapes colours that are neither *taken* (n, 4) nor used by earlier shapes."""
        edges = np.array(self.layer.edge_color)
        changes = dict[int, ArrayLike]()
        for index, colour in enumerate(edges):
            others = np.concatenate([taken.reshape(-1, 4), edges[:index]])
            if np.isclose(others[:, :3], colour[:3], atol=1e-2).all(axis=1).any():
                edges[index] = unused_colour(others)
                changes[index] = edges[index, :3]
        if changes:
            self._recolour(changes)

    def _recolour(self, colours: Mapping[int, ArrayLike]) -> None:
        """Give edges other RGB colours (0-1), and also faces that one sees through."""
        layer = self.layer
        edges = np.array(layer.edge_color)
        faces = np.array(layer.face_color)
        for index, colour in colours.items():
            edges[index, :3] = colour
            # A face that hides the image was made so by a person: it stays.
            if faces[index, 3] < 1:
                faces[index, :3] = colour
        layer.edge_color = edges
        layer.face_color = faces


def _ellipse(corners: Doubles) -> Doubles:
    """Return the outline of the ellipse in a (4, 2) frame."""
    turn = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS, endpoint=False)[:, None]
    first_axis, second_axis = (corners[[1, 3]] - corners[0]) / 2
    return corners.mean(axis=0) + np.cos(turn) * first_axis + np.sin(turn) * second_axis


def _line(vertices: Doubles, shape: tuple[int, int]) -> Region:
    """The pixels under a line through *vertices*. Raises `SpectrumError` if there are none."""
    mask = np.zeros(shape, dtype=bool)
    for start, stop in pairwise(np.floor(vertices + 0.5).astype(int)):
        pixels = np.stack(line(*start, *stop), axis=1)
        pixels = pixels[((pixels >= 0) & (pixels < shape)).all(axis=1)]
        mask[tuple(pixels.T)] = True
    return Region.of_mask(mask)


class LabelRows(LayerRows):
    """The labels of a layer: pixels of an image, which stay, in the colours of that layer."""

    are_pixels = True
    first = 0

    def __init__(self, layer: Labels) -> None:
        super().__init__(layer)
        self._pixel_version = 0

    def tasks(self, reading: Reading, viewer: ViewerModel) -> Tasks:
        """See `LayerRows`; one task reads them all."""
        layer = self.layer
        image = label_image(layer, reading.on, viewer)
        if image is None:
            return {}
        where, labels = image
        # The pixels are not compared, as that would take as long as to read them again. The second
        # number is for undone paint, which `changed` does not hear of. The list is napari's private
        # one, as nothing public reports an undo.
        place = (id(layer), self._pixel_version, len(layer._redo_history), where)

        def read(progress: Progress) -> Any:
            return reading.of_labels(labels(), progress)

        return {0: reading.task(id(layer), place, read, is_large=True)}

    def found(self, results: Mapping[Hashable, Any], tasks: Tasks) -> FoundSpectra:
        """See `LayerRows`."""
        found: FoundSpectra = super().found(results, tasks).get(0, {})
        return found

    def rgba(self, numbers: Any) -> Any:
        """See `LayerRows`."""
        colormap = self.layer.colormap
        if not isinstance(colormap, DirectLabelColormap):
            return colormap.map(numbers)
        # For an array napari compiles code first, which takes seconds; a single number it looks up.
        return np.reshape([colormap.map(int(number)) for number in numbers], (-1, 4))

    def describe(self, table: Table) -> None:
        """Add the columns of *table* to the features that are there."""
        # Here, for that takes long; napari has it.
        import pandas as pd

        kept = self.features.drop(columns=[*table], errors="ignore")
        self.features = kept.join(pd.DataFrame(table, index=table["label"]), how="outer")

    def changed(self, *, has_other_pixels: bool) -> None:
        """Take notice that names or colours have changed, and perhaps pixels."""
        self.version += 1
        self._pixel_version += has_other_pixels


class Group:
    """The rows of one layer that were read.

    *read* has a mapping by the numbers of the rows for each of the *cubes*, and one more with the
    errors if there is a reference.
    """

    def __init__(self, rows: LayerRows, read: Sequence[FoundSpectra], cubes: int) -> None:
        self.made_from = _origin(rows, read, cubes)
        self._spectra = read[:cubes]
        errors: Mapping[int, Comparison] = read[cubes] if len(read) > cubes else {}
        numbers = sorted(set[int]().union(*self._spectra))
        given, marks, name = rows.names(), rows.marks(), rows.layer.name
        rgba = np.asarray(rows.rgba(np.array(numbers, dtype=int)), dtype=float).reshape(-1, 4)
        # The feature "name", or else the layer and the number; and the colour.
        self._looks = {
            number: (given.get(number) or f"{name} {number + rows.first}", colour)
            for number, colour in zip(numbers, hexes(rgba), strict=True)
        }
        self.entries = [
            Entry(
                rows,
                number,
                self.spectra,
                errors.get,
                is_shown=number not in rows.hidden,
                mark=marks.get(number),
            )
            for number in numbers
        ]

    def spectra(self, number: int) -> Spectra:
        """Return the spectra of one row, on each cube, with its name and colour."""
        name, colour = self._looks[number]

        def named(spectrum: Spectrum | None) -> Spectrum | None:
            if spectrum is None:
                return None
            origin = spectrum.origin
            # A pick is found again by its row and column.
            place = origin if origin.row is not None else replace(origin, region=name)
            return replace(spectrum, name=name, colour=colour, origin=place)

        return tuple(named(read.get(number)) for read in self._spectra)


def _origin(rows: LayerRows, read: Sequence[FoundSpectra], cubes: int) -> tuple[Hashable, ...]:
    """Return a key that identifies a group while it holds everything that *read* returned."""
    return (rows, rows.version, cubes, id(rows.hidden), *map(id, read))


def group_of(
    rows: LayerRows, read: Sequence[FoundSpectra], cubes: int, last: Sequence[Group]
) -> Group:
    """Return the group of *rows*; that among the *last* ones if nothing has changed.

    Thousands of labels have the same results again; picks and shapes have new ones each time.
    """
    made_from = _origin(rows, read, cubes)
    same = (group for group in last if group.made_from == made_from)
    return next(same, None) or Group(rows, read, cubes)


def draw(viewer: ViewerModel, tool: str = "add_rectangle") -> Shapes | None:
    """Have shapes drawn on the layer of regions of the selected cube; None without a cube.

    *tool* is napari's name of a mode.
    """
    cube_layer = active_cube_layer(viewer)
    if cube_layer is None:
        return None
    shapes = [layer for layer in region_layers(viewer) if isinstance(layer, Shapes)]
    layer = shapes[-1] if shapes else add_regions(viewer, cube_layer)
    viewer.layers.selection.active = layer
    layer.mode = tool
    return layer


def add_regions(viewer: ViewerModel, cube_layer: Image) -> Shapes:
    """Add a layer to draw regions on, where *cube_layer* lies; it becomes the selected one."""
    longer_side = max(cube_layer.data.shape[-2:])
    return viewer.add_shapes(
        # Without an axis for wavelengths, a region lies on every band.
        ndim=2,
        **Placement.of(cube_layer).image_kwargs(),
        name="Regions",
        face_color=WHITE,
        edge_width=max(1.0, RELATIVE_WIDTH * longer_side),
        edge_color=PALETTE[0],
    )
