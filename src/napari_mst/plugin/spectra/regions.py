"""The rows of regions that a person has drawn, and of spectra of no place."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Shapes
from napari.utils.colormaps.standardize_color import transform_color
from numpy.typing import ArrayLike

from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.spectra.reader import RegionReading, Task, label_tasks, shape_tasks
from napari_mst.plugin.spectra.rows import Entry, Rows, Spectra
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at
from napari_mst.plugin.viewer.photos import is_made
from napari_mst.plugin.viewer.picks import PALETTE, hexes, unused_colour
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.spectra.cells import Table
from napari_mst.spectra.compare import Comparison
from napari_mst.spectra.regions import Labelled

WHITE = [1.0, 1.0, 1.0, 0.15]
"""RGBA of the faces of new shapes: one sees the image through them. napari takes no tuple."""
RELATIVE_WIDTH = 0.004
"""Width of the edges of new shapes as a share of the longer side of the image."""
MOST_CURVES = 500
"""Labels of a layer beyond which only selected curves are drawn, and the median of all."""
RANGE = (5.0, 50.0, 95.0)
"""Percentiles of the curves of many labels that are drawn."""


def region_layers(viewer: ViewerModel) -> list[Shapes | Labels]:
    """Return the visible layers with regions; classes are regions, too, but no frame of a chart."""
    visible = [layer for layer in viewer.layers if layer.visible]
    return [
        layer
        for layer in visible
        if isinstance(layer, Labels) or (isinstance(layer, Shapes) and not is_made(layer))
    ]


class FileRows(Rows):
    """The *kept* spectra, which belong to no place on the image: those of files, for example."""

    def __init__(self, *, is_measured: bool = True) -> None:
        super().__init__()
        self.is_measured = is_measured
        self.kept: list[Spectrum] = []

    def delete(self, indices: set[int]) -> None:
        """See `Rows`."""
        self.kept = [each for index, each in enumerate(self.kept) if index not in indices]
        self.removed(indices)

    def rename(self, index: int, name: str) -> None:
        """See `Rows`."""
        self.kept[index] = replace(self.kept[index], name=name)

    def recolour(self, index: int, colour: str) -> None:
        """See `Rows`."""
        self.kept[index] = replace(self.kept[index], colour=colour)

    def gather(self, layers: Sequence[Image]) -> list[Entry]:
        """The entries of the spectra in the unit of the cube *layers*; of all without a cube."""
        unit = cube_at(layers[0]).unit if layers else None
        # A spectrum from a file lies on no cube: it stands in the column of the first.
        blank = (None,) * max(0, len(layers) - 1)
        spectra: list[Spectra] = [(spectrum, *blank) for spectrum in self.kept]
        return [
            Entry(self, index, spectra.__getitem__, is_shown=index not in self.hidden)
            for index, spectrum in enumerate(self.kept)
            if unit is None or spectrum.unit == unit
        ]


class RegionRows(Rows, ABC):
    """The regions of one layer.

    Attributes
    ----------
    first
        The number by which a person calls the first region.
    most
        The most regions that all have their curves drawn; None for any number.
    version
        Changes when names or colours do, where regions may be many.
    """

    first = 0
    most: int | None = None
    version = 0

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer)
        self.forget()

    def forget(self) -> None:
        """See `Rows`."""
        self._made_from: tuple[int, ...] = ()
        self._group: Group | None = None

    def group(self, read: Sequence[Mapping[int, Any]], cubes: int) -> "Group":
        """The regions of which *read* holds the results, see `Group`; the last if it is the same.

        Shapes have other results each time.
        """
        made_from = (self.version, cubes, id(self.hidden), *map(id, read))
        if self._group is None or made_from != self._made_from:
            self._made_from, self._group = made_from, Group(self, read, cubes)
        return self._group

    @abstractmethod
    def tasks(self, reading: RegionReading, viewer: ViewerModel) -> list[Task]:
        """Return the tasks that read these regions."""

    @abstractmethod
    def read(self, latest: Mapping[Hashable, Any], tasks: Sequence[Task]) -> Mapping[int, Any]:
        """Return the results of *tasks* among the *latest*, by the numbers of the regions."""

    @abstractmethod
    def rgba(self, numbers: Any) -> Any:
        """(n, 4) colours of these regions."""

    def names(self) -> dict[int, str]:
        """Return the names that a person has given, by the numbers of the regions."""
        names = self.features.get("name", {}).items()
        return {number: name for number, name in names if isinstance(name, str)}

    def rename(self, index: int, name: str) -> None:
        """Give a region another name, in the feature "name"; other features stay."""
        features = self.features
        # A label has a row of its own only when it has been described.
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


class ShapeRows(RegionRows):
    """The shapes of a layer."""

    first = 1

    def tasks(self, reading: RegionReading, _: ViewerModel) -> list[Task]:
        """See `RegionRows`."""
        return shape_tasks(self.layer, reading)

    def read(self, latest: Mapping[Hashable, Any], tasks: Sequence[Task]) -> Mapping[int, Any]:
        """See `RegionRows`."""
        results = enumerate(latest.get(task.slot) for task in tasks)
        return {index: result for index, result in results if result is not None}

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
        """Give shapes colours that are neither *taken* (n, 4) nor those of earlier ones."""
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


class LabelRows(RegionRows):
    """The labels of a layer: pixels of an image, which stay, in the colours of that layer."""

    are_pixels = True
    most = MOST_CURVES

    def __init__(self, layer: Labels) -> None:
        super().__init__(layer)
        self._pixel_version = 0

    def tasks(self, reading: RegionReading, viewer: ViewerModel) -> list[Task]:
        """See `RegionRows`."""
        # The second number is for undone paint, which `changed` does not hear of. The list is
        # napari's private one, as nothing public reports an undo.
        version = (self._pixel_version, len(self.layer._redo_history))
        return label_tasks(self.layer, reading, version, viewer)

    def read(self, latest: Mapping[Hashable, Any], tasks: Sequence[Task]) -> Mapping[int, Any]:
        """See `RegionRows`."""
        return latest.get(tasks[0].slot, {}) if tasks else {}

    def rgba(self, numbers: Any) -> Any:
        """See `RegionRows`."""
        return self.layer.colormap.map(numbers)

    def describe(self, table: Table) -> None:
        """Put the columns of *table* into the features, beside those that are there."""
        # Here, for that takes long; napari has it.
        import pandas as pd

        kept = self.features.drop(columns=[*table], errors="ignore")
        self.features = kept.join(pd.DataFrame(table, index=table["label"]), how="outer")

    def changed(self, *, has_other_pixels: bool) -> None:
        """Take notice that names or colours have changed, and perhaps pixels."""
        self.version += 1
        self._pixel_version += has_other_pixels


class Group:
    """The regions of one layer that were read: entries, and one curve for all if there are many.

    *read* has a mapping by the numbers of the regions for each of the *cubes*, and one more with
    the errors if there is a reference.
    """

    def __init__(self, rows: RegionRows, read: Sequence[Mapping[int, Any]], cubes: int) -> None:
        self.name = rows.layer.name
        self._spectra = read[:cubes]
        self._errors: Mapping[int, Comparison] = read[cubes] if len(read) > cubes else {}
        self._hidden = rows.hidden
        numbers = sorted(set[int]().union(*self._spectra))
        given = rows.names()
        rgba = np.asarray(rows.rgba(np.array(numbers, dtype=int)), dtype=float).reshape(-1, 4)
        self._looks = {
            number: (given.get(number) or f"{self.name} {number + rows.first}", colour)
            for number, colour in zip(numbers, hexes(rgba), strict=True)
        }
        self.is_large = rows.most is not None and len(numbers) > rows.most
        self.entries = [
            Entry(
                rows,
                number,
                self.spectra,
                self._errors.get,
                is_shown=number not in self._hidden,
                is_of_many=self.is_large,
            )
            for number in numbers
        ]

    def spectra(self, number: int) -> Spectra:
        """Return the spectra of one region, on each cube, with its name and colour.

        The name is its feature "name", or else that of the layer and its number.
        """
        name, colour = self._looks[number]
        return tuple(
            spectrum
            and replace(
                spectrum, name=name, colour=colour, origin=replace(spectrum.origin, region=name)
            )
            for spectrum in (read.get(number) for read in self._spectra)
        )

    # Remembered, as other labels, other looks or other hidden ones make another group.
    @cached_property
    def summary(self) -> Spectra:
        """On each cube, the median of the curves of many labels and the range of 90 % of them."""
        return tuple(map(self._summed_up, self._spectra))

    def _summed_up(self, read: Mapping[int, Any]) -> Spectrum | None:
        if not isinstance(read, Labelled) or not len(read):
            return None
        curve: Spectrum = read[int(read.numbers[0])]
        values = read.curves[~np.isin(read.numbers, sorted(self._hidden))]
        with warnings.catch_warnings(action="ignore"):  # a band without numbers has none
            found = np.nanpercentile(np.where(np.isfinite(values), values, np.nan), RANGE, axis=0)
        lower, median, upper = found
        return Spectrum(
            curve.wavelengths,
            median,
            curve.unit,
            name=f"{self.name}: median of {len(values):,}",
            lower=lower,
            upper=upper,
            spread="90 % of the labels",
        )


def draw(viewer: ViewerModel) -> Shapes | None:
    """Have rectangles drawn on the layer of regions of the selected cube; None without a cube."""
    cube_layer = active_cube_layer(viewer)
    if cube_layer is None:
        return None
    shapes = [layer for layer in region_layers(viewer) if isinstance(layer, Shapes)]
    layer = shapes[-1] if shapes else add_regions(viewer, cube_layer)
    viewer.layers.selection.active = layer
    layer.mode = "add_rectangle"
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
