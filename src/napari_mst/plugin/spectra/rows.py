"""What the spectra dock lists and draws: an entry for each pick, each region, and each spectrum from a file."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Points, Shapes

from napari_mst.plugin.spectra.reader import RegionReader
from napari_mst.plugin.spectra.region_layers import Looks
from napari_mst.plugin.spectra.region_tasks import Reading, Task, tasks_of
from napari_mst.spectra.compare import Comparison
from napari_mst.spectra.labels import Labelled
from napari_mst.spectra.spectrum import Spectrum, Values

MOST_CURVES = 500
"""Labels of a layer beyond which their median and range are drawn, and the curves only of those that are selected."""
RANGE = (5.0, 50.0, 95.0)
"""Percentiles of the curves of many labels that are drawn."""

Spectra = tuple[Spectrum | None, ...]


@dataclass(eq=False)
class Entry:
    """A pick or a region; its spectra are looked up when they are needed, as there may be many thousands.

    Attributes
    ----------
    layer, index
        The Points, Shapes or Labels layer that it is on, and which of its points, shapes or labels; no layer if it
        is from a file.
    is_shown
        Whether its curves are drawn.
    is_of_many
        Whether its curve is only drawn when it is selected.
    """

    layer: Layer | None
    index: int
    spectra_of: Callable[[int], Spectra]
    comparison_of: Callable[[int], Comparison | None] = lambda _: None
    is_shown: bool = True
    is_of_many: bool = False

    @cached_property
    def spectra(self) -> Spectra:
        """On each of the cubes that are shown, in their order; None where it is off the image, or not read yet."""
        return self.spectra_of(self.index)

    @cached_property
    def comparison(self) -> Comparison | None:
        """How far the first cube is from the reference here; None where there is none, or it is not read yet."""
        return self.comparison_of(self.index)

    @property
    def first(self) -> Spectrum:
        """Its spectrum on the first cube that it is on."""
        return next(spectrum for spectrum in self.spectra if spectrum is not None)

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from other entries."""
        return id(self.layer), self.index

    @property
    def is_pick(self) -> bool:
        """Whether it is a pick."""
        return isinstance(self.layer, Points)

    @property
    def place(self) -> str:
        """Where it is, in words."""
        origin = self.first.origin
        if origin.row is None:
            return self.layer.name if self.layer is not None else origin.cube or "file"
        return f"{origin.row}, {origin.column}"


class Group:
    """The regions of one layer: what was *found* by their numbers on each of some *cubes*, and last, the errors.

    *looks* tells one state of their names and colours from another.
    """

    def __init__(
        self,
        layer: Shapes | Labels,
        found: Sequence[Mapping[int, Any]],
        cubes: int,
        hidden: set[int],
        looks: int,
    ) -> None:
        self.name, self._state = layer.name, (cubes, looks)
        self._all, self._found = found, found[:cubes]
        self._errors: Mapping[int, Comparison] = found[cubes] if len(found) > cubes else {}
        numbers = sorted(set[int]().union(*self._found))
        self._looks, self._hidden = Looks(layer, numbers), np.array(sorted(hidden), dtype=int)
        self.is_large = isinstance(layer, Labels) and len(numbers) > MOST_CURVES
        of = (self.spectra, self._errors.get)
        self.entries = [
            Entry(layer, number, *of, number not in hidden, self.is_large) for number in numbers
        ]

    def is_of(self, found: Sequence[Mapping[int, Any]], cubes: int, looks: int) -> bool:
        """Whether this is still what was *found*; shapes, which are few, are always looked at anew."""
        is_same = len(found) == len(self._all) and all(
            one is two for one, two in zip(found, self._all, strict=True)
        )
        return is_same and self._state == (cubes, looks)

    def spectra(self, number: int) -> Spectra:
        """Of one region, on each cube."""
        every = (one.get(number) for one in self._found)
        return tuple(spectrum and self._looks.named(spectrum, number) for spectrum in every)

    @cached_property
    def summary(self) -> Spectra:
        """Median of the curves of many labels, and the range of 90 % of them, on each cube."""
        return tuple(self._summed_up(one) for one in self._found)

    @cached_property
    def error_summary(self) -> Spectrum | None:
        """The same of their errors."""
        return self._summed_up(self._errors)

    def _summed_up(self, found: Mapping[int, Any]) -> Spectrum | None:
        if not isinstance(found, Labelled) or not len(found):
            return None
        first = found[int(found.numbers[0])]
        curve: Spectrum = first.error if isinstance(first, Comparison) else first
        values = found.curves[~np.isin(found.numbers, self._hidden)]
        lower, median, upper = _percentiles(values)
        name = f"{self.name}: median of {len(values):,}"
        return Spectrum(
            curve.wavelengths, median, curve.unit, name, "", lower, upper, "90 % of the labels"
        )


def _percentiles(values: Values) -> Values:
    """(3, B) `RANGE` of (N, B), without what is not a number."""
    found = np.full((len(RANGE), values.shape[1]), np.nan)
    for band, column in enumerate(values.T):
        finite = column[np.isfinite(column)]
        if finite.size:
            found[:, band] = np.percentile(finite, RANGE)
    return found


class RegionEntries:
    """Has regions read, and makes their entries; those of labels anew only when something about them has changed."""

    def __init__(self, reader: RegionReader) -> None:
        self.reader = reader
        self._hidden: weakref.WeakKeyDictionary[Layer, set[int]] = weakref.WeakKeyDictionary()
        self._pixels: weakref.WeakKeyDictionary[Layer, int] = weakref.WeakKeyDictionary()
        self._looks: weakref.WeakKeyDictionary[Layer, int] = weakref.WeakKeyDictionary()
        self._undone: weakref.WeakKeyDictionary[Layer, int] = weakref.WeakKeyDictionary()
        self._made = dict[int, Group]()

    @property
    def groups(self) -> list[Group]:
        """The regions of each layer."""
        return list(self._made.values())

    def changed(self, layer: Layer, *, has_other_pixels: bool) -> None:
        """The names or colours of *layer* are others, or the pixels of its labels."""
        for versions in (self._looks, self._pixels) if has_other_pixels else (self._looks,):
            versions[layer] = versions.get(layer, 0) + 1

    def forget(self) -> None:
        """Let go of everything that was read."""
        self._made = {}

    def tasks(
        self,
        layers: Iterable[Shapes | Labels],
        readings: Sequence[tuple[Image, Reading]],
        viewer: ViewerModel,
    ) -> dict[Shapes | Labels, list[list[Task]]]:
        """What is to be read of each layer: a list for each of the *readings*."""
        found = dict[Shapes | Labels, list[list[Task]]]()
        for layer in layers:
            version = self._pixels.get(layer, 0), _undone(layer)
            found[layer] = [
                tasks_of(layer, on, version, viewer, reading) for on, reading in readings
            ]
        self._undone = weakref.WeakKeyDictionary({layer: _undone(layer) for layer in found})
        return found

    def is_undone(self, layer: Labels) -> bool:
        """Whether paint on *layer* was undone since; napari tells of it as of any other redrawing."""
        return self._undone.get(layer, 0) != _undone(layer)

    def gather(
        self, tasks: Mapping[Shapes | Labels, Sequence[Sequence[Task]]], cubes: int
    ) -> Iterator[Entry]:
        """The entries of the regions that are read already on the *cubes*; the others come later."""
        before, self._made = self._made, {}
        for layer, columns in tasks.items():
            found = [self._found(layer, column) for column in columns]
            made, looks = before.get(id(layer)), self._looks.get(layer, 0)
            if made is None or not made.is_of(found, cubes, looks):
                made = Group(layer, found, cubes, self._hidden.get(layer, set()), looks)
            self._made[id(layer)] = made
            yield from made.entries

    def _found(self, layer: Layer, tasks: Sequence[Task]) -> Mapping[int, Any]:
        """What was read by the index of its shape, or by its label."""
        every = [self.reader.latest.get(task.slot) for task in tasks]
        if isinstance(layer, Labels):
            return next((one for one in every if one is not None), {})
        return {index: one for index, one in enumerate(every) if one is not None}

    def removed(self, layer: Shapes, indices: set[int]) -> None:
        """Shapes with these indices are gone: those after them move up, hidden or not."""
        if layer in self._hidden:
            self._hidden[layer] = moved_up(self._hidden[layer], indices)

    def show(self, layer: Layer, numbers: set[int], is_shown: bool) -> None:
        """Draw the curves of some regions of *layer*, or not."""
        hidden = self._hidden.setdefault(layer, set())
        hidden.difference_update(numbers) if is_shown else hidden.update(numbers)
        self.changed(layer, has_other_pixels=False)


def _undone(layer: Layer) -> int:
    """How many changes of labels can be made again."""
    return len(getattr(layer, "_redo_history", ()))


def moved_up(hidden: set[int], removed: set[int]) -> set[int]:
    """The indices in *hidden*, as they are when those *removed* are gone."""
    return {
        index - sum(gone < index for gone in removed) for index in hidden if index not in removed
    }
