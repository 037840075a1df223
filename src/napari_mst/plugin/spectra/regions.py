"""The regions that a person has drawn: layers of shapes and labels, their looks, and their rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Shapes
from napari.utils.colormaps.standardize_color import rgb_to_hex
from numpy.typing import ArrayLike, NDArray

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.spectra.reader import Reader, Task
from napari_mst.plugin.spectra.region_tasks import Reading, tasks_of
from napari_mst.plugin.spectra.rows import Entry, Spectra, moved_up
from napari_mst.plugin.viewer.layers import active_cube_layer
from napari_mst.plugin.viewer.picks import PALETTE, unused_colour
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.spectra.compare import Comparison
from napari_mst.spectra.labels import Labelled
from napari_mst.spectra.spectrum import Spectrum, Values

ROLE = "map"
"""Marks our maps in their metadata: labels with this mark are no regions."""
WHITE = [1.0, 1.0, 1.0, 0.15]
"""RGBA of the faces of new shapes: one sees the image through them. napari takes no tuple."""
RELATIVE_WIDTH = 0.004
"""Width of the edges of new shapes as a share of the longer side of the image."""


def region_layers(viewer: ViewerModel) -> list[Shapes | Labels]:
    """The visible layers with regions, without the maps that we made."""
    return [layer for layer in viewer.layers if _has_regions(layer)]


def _has_regions(layer: Layer) -> bool:
    is_drawn = isinstance(layer, Shapes | Labels) and layer.visible
    return is_drawn and layer.metadata.get(METADATA_KEY) != ROLE


class Looks:
    """Names and colours that the regions of a layer have right now."""

    def __init__(self, layer: Shapes | Labels, indices: Sequence[int]) -> None:
        self._layer = layer.name
        # A person counts shapes from 1; labels have the numbers that they are painted with.
        self._first = 1 if isinstance(layer, Shapes) else 0
        self._names = _names(layer)
        wanted = np.array(indices, dtype=int)
        if isinstance(layer, Shapes):
            found = layer.edge_color[wanted]
        else:
            found = layer.colormap.map(wanted)
        rgba = np.asarray(found, dtype=float).reshape(-1, 4)
        self._colours = dict(zip(indices, rgba, strict=True))

    def name(self, index: int) -> str:
        """Name of a region: its feature "name", or else the layer's name and its number."""
        return self._names.get(index) or f"{self._layer} {index + self._first}"

    def colour(self, index: int) -> str:
        """Colour of a region as "#rrggbb": the edge of a shape."""
        return str(rgb_to_hex(self._colours[index][None])[0])[:7].lower()

    def named(self, spectrum: Spectrum, index: int) -> Spectrum:
        """*spectrum* with the name and the colour of its region."""
        name = self.name(index)
        return replace(
            spectrum,
            name=name,
            colour=self.colour(index),
            origin=replace(spectrum.origin, region=name),
        )


def _numbers(layer: Shapes | Labels) -> list[int]:
    """The index of the shape, or the label, that each row of the features describes."""
    features = layer.features
    if isinstance(layer, Labels) and "index" in features:
        return [int(number) for number in features["index"]]
    return list(range(len(features)))


def _names(layer: Shapes | Labels) -> dict[int, str]:
    """The names that a person has given, by the index of the shape, or by the label."""
    told = layer.features.get("name", ())
    return {
        number: name
        for number, name in zip(_numbers(layer), told, strict=False)
        if isinstance(name, str)
    }


def rename(layer: Shapes | Labels, index: int, name: str) -> None:
    """Give a region another name, in the feature "name"; other features stay."""
    # A copy: napari tells of other features only when they are assigned.
    features = layer.features.copy()
    numbers = _numbers(layer)
    # A label has a row of its own only when somebody has said something about it.
    if index not in numbers:
        numbers.append(index)
        features = features.reindex(range(len(numbers)))
    if isinstance(layer, Labels):
        features["index"] = numbers
    told = _names(layer) | {index: name}
    features["name"] = [told.get(number, "") for number in numbers]
    layer.features = features


def recolour(layer: Shapes, colours: Mapping[int, ArrayLike]) -> None:
    """Give the edges of shapes other RGB colours (0-1), and also faces that one sees through."""
    edges, faces = np.array(layer.edge_color), np.array(layer.face_color)
    for index, colour in colours.items():
        edges[index, :3] = colour
        # A face that hides the image was made so by a person: it stays.
        if faces[index, 3] < 1:
            faces[index, :3] = colour
    layer.edge_color = edges
    layer.face_color = faces


def tell_apart(layer: Shapes, picked: NDArray[np.floating]) -> None:
    """Give each shape another colour if an earlier one has it, or a pick, with RGBA (n, 4)."""
    edges = np.array(layer.edge_color)
    changes = dict[int, ArrayLike]()
    for index, colour in enumerate(edges):
        taken = np.concatenate([picked.reshape(-1, 4), edges[:index]])
        is_taken = np.isclose(taken[:, :3], colour[:3], atol=1e-2).all(axis=1).any()
        if is_taken:
            edges[index] = unused_colour(taken)
            changes[index] = edges[index, :3]
    if changes:
        recolour(layer, changes)


def draw(viewer: ViewerModel, mode: str) -> Shapes | None:
    """Have the layer of regions on the selected cube drawn on with the napari tool *mode*.

    None without a cube.
    """
    cube_layer = active_cube_layer(viewer)
    if cube_layer is None:
        return None
    shapes = [layer for layer in region_layers(viewer) if isinstance(layer, Shapes)]
    layer = shapes[-1] if shapes else add_regions(viewer, cube_layer)
    viewer.layers.selection.active = layer
    layer.mode = mode
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


MOST_CURVES = 500
"""Labels of a layer beyond which only selected curves are drawn, and the median of all."""
RANGE = (5.0, 50.0, 95.0)
"""Percentiles of the curves of many labels that are drawn."""


class Read(NamedTuple):
    """Everything that was read of the regions of one layer, by their numbers.

    *found* has one mapping for each of the *cubes*, and one more with the errors if there is a
    reference.
    """

    found: Sequence[Mapping[int, Any]]
    cubes: int

    @property
    def spectra(self) -> Sequence[Mapping[int, Spectrum]]:
        """The spectra on each cube."""
        return self.found[: self.cubes]

    @property
    def errors(self) -> Mapping[int, Comparison]:
        """The comparisons with the reference; empty without one."""
        return self.found[self.cubes] if len(self.found) > self.cubes else {}

    def is_same(self, other: "Read") -> bool:
        """True if *other* holds the very same mappings; shapes get new ones each time."""
        if self.cubes != other.cubes or len(self.found) != len(other.found):
            return False
        return all(one is two for one, two in zip(self.found, other.found, strict=True))


class State(NamedTuple):
    """The look of the regions of one layer: a version of names and colours, and hidden ones."""

    version: int
    hidden: frozenset[int]


class Group:
    """The regions of one layer: their entries, and one curve for all where there are too many."""

    def __init__(self, layer: Shapes | Labels, read: Read, state: State) -> None:
        self.name = layer.name
        self.read, self.state = read, state
        numbers = sorted(set[int]().union(*read.spectra))
        self._looks = Looks(layer, numbers)
        self.is_large = isinstance(layer, Labels) and len(numbers) > MOST_CURVES
        self.entries = [self._entry(layer, number) for number in numbers]

    def _entry(self, layer: Shapes | Labels, number: int) -> Entry:
        return Entry(
            layer,
            number,
            self.spectra,
            self.read.errors.get,
            is_shown=number not in self.state.hidden,
            is_of_many=self.is_large,
        )

    def spectra(self, number: int) -> Spectra:
        """The spectra of one region, on each cube."""
        found = (one.get(number) for one in self.read.spectra)
        return tuple(spectrum and self._looks.named(spectrum, number) for spectrum in found)

    # Remembered, as other labels, other looks or other hidden ones make another group.
    @cached_property
    def summary(self) -> Spectra:
        """On each cube, the median of the curves of many labels and the range of 90 % of them."""
        return tuple(self._summed_up(one) for one in self.read.spectra)

    @cached_property
    def error_summary(self) -> Spectrum | None:
        """The median of their errors, and the range of 90 % of them."""
        return self._summed_up(self.read.errors)

    def _summed_up(self, found: Mapping[int, Any]) -> Spectrum | None:
        if not isinstance(found, Labelled) or not len(found):
            return None
        first = found[int(found.numbers[0])]
        curve: Spectrum = first.error if isinstance(first, Comparison) else first
        hidden = np.array(sorted(self.state.hidden), dtype=int)
        values = found.curves[~np.isin(found.numbers, hidden)]
        lower, median, upper = _percentiles(values)
        return Spectrum(
            curve.wavelengths,
            median,
            curve.unit,
            name=f"{self.name}: median of {len(values):,}",
            lower=lower,
            upper=upper,
            spread="90 % of the labels",
        )


def _percentiles(values: Values) -> Values:
    """(3, B) percentiles `RANGE` of (N, B) values; those that are not numbers are left out."""
    found = np.full((len(RANGE), values.shape[1]), np.nan)
    for band, column in enumerate(values.T):
        finite = column[np.isfinite(column)]
        if finite.size:
            found[:, band] = np.percentile(finite, RANGE)
    return found


class RegionRows:
    """Has regions read, and makes their entries; for labels only if something has changed."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        # Weak, so that a layer that a person deletes is freed.
        self._hidden = WeakKeyDictionary[Layer, set[int]]()
        self._pixel_versions = WeakKeyDictionary[Layer, int]()
        self._look_versions = WeakKeyDictionary[Layer, int]()
        self._undone = WeakKeyDictionary[Layer, int]()
        self._made = dict[int, Group]()

    @property
    def groups(self) -> list[Group]:
        """The regions of each layer."""
        return list(self._made.values())

    def changed(self, layer: Layer, *, has_other_pixels: bool) -> None:
        """Take notice that names or colours of *layer* have changed, and perhaps its pixels."""
        self._look_versions[layer] = self._look_versions.get(layer, 0) + 1
        if has_other_pixels:
            self._pixel_versions[layer] = self._pixel_versions.get(layer, 0) + 1

    def forget(self) -> None:
        """Let go of everything that was read."""
        self._made = {}

    def tasks(
        self,
        layers: Iterable[Shapes | Labels],
        readings: Sequence[tuple[Image, Reading]],
        viewer: ViewerModel,
    ) -> dict[Shapes | Labels, list[list[Task]]]:
        """The tasks that read each layer: a list for each of the *readings*."""
        found = dict[Shapes | Labels, list[list[Task]]]()
        for layer in layers:
            # The second number is for undone paint, of which no event tells `changed`.
            version = (self._pixel_versions.get(layer, 0), _undone(layer))
            found[layer] = [
                tasks_of(layer, on, version, viewer, reading) for on, reading in readings
            ]
        self._undone = WeakKeyDictionary({layer: _undone(layer) for layer in found})
        return found

    def is_undone(self, layer: Labels) -> bool:
        """True if paint was undone since *layer* was read; napari only tells of a redrawing."""
        return self._undone.get(layer, 0) != _undone(layer)

    def gather(
        self, tasks: Mapping[Shapes | Labels, Sequence[Sequence[Task]]], cubes: int
    ) -> Iterator[Entry]:
        """The entries of the regions that are read already on the *cubes*; others come later."""
        before, self._made = self._made, {}
        for layer, columns in tasks.items():
            read = Read([self._found(layer, column) for column in columns], cubes)
            hidden = frozenset(self._hidden.get(layer, ()))
            state = State(self._look_versions.get(layer, 0), hidden)
            made = before.get(id(layer))
            # To hide or show a curve makes another version, too: it stands for all of the state.
            if made is None or not made.read.is_same(read) or made.state.version != state.version:
                made = Group(layer, read, state)
            self._made[id(layer)] = made
            yield from made.entries

    def _found(self, layer: Layer, tasks: Sequence[Task]) -> Mapping[int, Any]:
        """Everything that was read, by the index of its shape, or by its label."""
        every = [self._reader.latest.get(task.slot) for task in tasks]
        if isinstance(layer, Labels):
            return next((one for one in every if one is not None), {})
        return {index: one for index, one in enumerate(every) if one is not None}

    def removed(self, layer: Shapes, indices: set[int]) -> None:
        """Take notice that the shapes with these indices are gone: those behind them move up."""
        if layer in self._hidden:
            self._hidden[layer] = moved_up(self._hidden[layer], indices)

    def show(self, layer: Layer, numbers: set[int], is_shown: bool) -> None:
        """Draw the curves of some regions of *layer*, or hide them."""
        hidden = self._hidden.setdefault(layer, set())
        if is_shown:
            hidden.difference_update(numbers)
        else:
            hidden.update(numbers)
        self.changed(layer, has_other_pixels=False)


def _undone(layer: Layer) -> int:
    """Number of changes of labels that were undone and can be made again."""
    # napari's private list, as nothing public tells of an undo; shapes have none.
    return len(getattr(layer, "_redo_history", ()))
