"""The rows of picks, drawn regions and labels: how they are read and changed."""

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
"""Number of corners of the polygon that approximates an ellipse."""
OPEN_SHAPES = frozenset(["line", "path"])
"""napari's names of shapes without an inside, whose pixels under the line are read."""
WHITE = [1.0, 1.0, 1.0, 0.15]
"""RGBA of the faces of new shapes, through which the image shows. napari takes no tuple."""
RELATIVE_WIDTH = 0.004
"""Width of the edges of new shapes as a share of the longer side of the image."""

Tasks = dict[Hashable, ReadTask]
"""Reading tasks by row number."""
FoundSpectra = Mapping[int, Any]
"""Results by row number."""


def region_layers(viewer: ViewerModel) -> list[Shapes | Labels]:
    """Return the visible layers of regions; classes count as regions, the frame of a chart not."""
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
        The number of the first row, as users count.
    version
        Changes with the names and colours of labels, of which there may be many.
    """

    first = 1
    version = 0

    @abstractmethod
    def tasks(self, reading: Reading, viewer: ViewerModel) -> Tasks:
        """Return the tasks that read these rows; none if they lie in another plane."""

    def found(self, results: Mapping[Hashable, Any], tasks: Tasks) -> FoundSpectra:
        """Look up the results of *tasks* in *results*, by their slots."""
        read: dict[Any, Any] = {number: results.get(task.slot) for number, task in tasks.items()}
        return {number: each for number, each in read.items() if each is not None}

    @abstractmethod
    def rgba(self, numbers: Any) -> Any:
        """(n, 4) colours of these rows."""

    def marks(self) -> Mapping[int, ReferenceSpectrum | None]:
        """Return the reference spectra of the rows."""
        return {}

    def names(self) -> dict[int, str]:
        """Return the names that the user has given, by row number."""
        names = self.features.get("name", {}).items()
        return {number: name for number, name in names if isinstance(name, str)}

    def rename(self, index: int, name: str) -> None:
        """Rename a row, in the feature "name"; other features stay."""
        features = self.features
        # A label has a row of features only once it has been described.
        features.loc[index, "name"] = name
        self.features = features

    @property
    def features(self) -> Any:
        """A copy of the features, indexed by the numbers of the regions."""
        features = self.layer.features.copy()
        # Shapes are numbered by position, which changes when one is deleted.
        has_numbers = self.are_pixels and "index" in features
        return features.set_index("index") if has_numbers else features

    @features.setter
    def features(self, features: Any) -> None:
        numbers = {"index": features.index} if self.are_pixels else {}
        self.layer.features = features.assign(**numbers)


class PickRows(LayerRows):
    """The picks, whose curves are read at once and whose prediction intervals follow."""

    def tasks(self, reading: Reading, _: ViewerModel) -> Tasks:
        """See `LayerRows`; tasks of prediction intervals are under ("band", number)."""
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
                # The place is the slot, so that no interval stays where a pick has moved away.
                key = ("band", row, column, reading.what)
                tasks["band", index] = ReadTask(key, key, partial(reading.of_band, row, column))
        return tasks

    def found(self, results: Mapping[Hashable, Any], tasks: Tasks) -> FoundSpectra:
        """See `LayerRows`; spectra get their prediction intervals once these are read."""
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
        # A copy: napari redraws the points only when `shown` is assigned.
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
            # The count is part of the slot, as a deleted shape leaves its index to another.
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
        """Give edges and translucent faces other RGB colours (0-1)."""
        layer = self.layer
        edges = np.array(layer.edge_color)
        faces = np.array(layer.face_color)
        for index, colour in colours.items():
            edges[index, :3] = colour
            # The user has made an opaque face on purpose: it stays.
            if faces[index, 3] < 1:
                faces[index, :3] = colour
        layer.edge_color = edges
        layer.face_color = faces


def _ellipse(corners: Doubles) -> Doubles:
    """Return the outline of the ellipse whose frame has the *corners* (4, 2)."""
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
    """The labels of a layer, whose pixels and colours belong to the layer."""

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
        # Comparing the pixels would take as long as reading them again. The second number reflects
        # undone paint, which does not reach `changed`. The list is private to napari, as nothing
        # public reports an undo.
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
        # For an array napari compiles code first, which takes seconds; it looks up single numbers.
        return np.reshape([colormap.map(int(number)) for number in numbers], (-1, 4))

    def describe(self, table: Table) -> None:
        """Add the columns of *table* to the present features."""
        # Imported here, as it takes long; napari brings it.
        import pandas as pd

        kept = self.features.drop(columns=[*table], errors="ignore")
        self.features = kept.join(pd.DataFrame(table, index=table["label"]), how="outer")

    def changed(self, *, has_other_pixels: bool) -> None:
        """Note that names or colours have changed, and perhaps pixels."""
        self.version += 1
        self._pixel_version += has_other_pixels


class Group:
    """The entries of one layer, from the results of its rows.

    *read* holds a mapping by row number for each of the *cubes*, and a last one with the errors if
    there is a reference.
    """

    def __init__(self, rows: LayerRows, read: Sequence[FoundSpectra], cubes: int) -> None:
        self.made_from = _origin(rows, read, cubes)
        self._spectra = read[:cubes]
        errors: Mapping[int, Comparison] = read[cubes] if len(read) > cubes else {}
        numbers = sorted(set[int]().union(*self._spectra))
        given, marks, name = rows.names(), rows.marks(), rows.layer.name
        rgba = np.asarray(rows.rgba(np.array(numbers, dtype=int)), dtype=float).reshape(-1, 4)
        # The name is the feature "name", or else the layer and the number.
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
            # Row and column identify a pick.
            place = origin if origin.row is not None else replace(origin, region=name)
            return replace(spectrum, name=name, colour=colour, origin=place)

        return tuple(named(read.get(number)) for read in self._spectra)


def _origin(rows: LayerRows, read: Sequence[FoundSpectra], cubes: int) -> tuple[Hashable, ...]:
    """Return a key that identifies a group as long as the group holds the objects in *read*."""
    return (rows, rows.version, cubes, id(rows.hidden), *map(id, read))


def group_of(
    rows: LayerRows, read: Sequence[FoundSpectra], cubes: int, last: Sequence[Group]
) -> Group:
    """Return the group of *rows*, taken from the *last* ones if nothing has changed.

    This saves thousands of labels from being rebuilt; picks and shapes are new each time.
    """
    made_from = _origin(rows, read, cubes)
    same = (group for group in last if group.made_from == made_from)
    return next(same, None) or Group(rows, read, cubes)


def draw(viewer: ViewerModel, tool: str = "add_rectangle") -> Shapes | None:
    """Let the user draw on the layer of regions of the selected cube; None without a cube.

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
    """Add a layer to draw regions on, in the place of *cube_layer*, and select it."""
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
