"""The rows of regions: shapes and labels that were read from the cubes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Shapes

from napari_mst.plugin.spectra.reader import Reader
from napari_mst.plugin.spectra.region_layers import Looks
from napari_mst.plugin.spectra.region_tasks import Reading, Task, tasks_of
from napari_mst.plugin.spectra.rows import Entry, Spectra, moved_up
from napari_mst.spectra.compare import Comparison
from napari_mst.spectra.labels import Labelled
from napari_mst.spectra.spectrum import Spectrum, Values

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
