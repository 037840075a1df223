"""The rows of the table of spectra: their kinds, and what is known of a pick.

The feature "known" of a pick names its mark, or is "". So a mark moves with its pick, and an undo
of the picks brings it back. The marks themselves lie in the metadata of the layer.
"""

import weakref
from collections.abc import Callable, ItemsView, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from napari.layers import Image, Points

from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import MODEL_ERROR, Spectrum
from napari_mst.plugin.jobs.job import ignore
from napari_mst.plugin.spectra.reader import Identity, Task, compared, error_band_of, placed
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_at
from napari_mst.plugin.viewer.picks import KNOWN
from napari_mst.spectra.compare import Comparison, compare_spectra
from napari_mst.spectra.regions import point_spectrum

SPOT = "spot "
"""Begins the names of the picks where a measurement would help."""
Spectra = tuple[Spectrum | None, ...]
"""One spectrum for each cube that is shown; None off the image."""
Read = dict[tuple[Any, ...], Spectrum]
"""Spectra by all that they depend on: cube, row, column, window, and look."""


def marks_of(points: Points) -> list[KnownSpectrum | None]:
    """Return what is known of each pick, or was where it was marked; None if nothing is."""
    return [picks.marks(points).get(key) for key in picks.keys_of(points)]


def curve_of(mark: KnownSpectrum) -> Spectrum:
    """Return the known spectrum, which has wavelengths and a name on every pick."""
    return cast(Spectrum, mark.spectrum)


def put_marks(points: Points, marks: Mapping[int, KnownSpectrum | None]) -> None:
    """Mark the picks at these indices; None takes a mark away."""
    keys = picks.keys_of(points)
    store = picks.marks(points)
    for index, mark in marks.items():
        keys[index] = ""
        if mark is not None:
            # Marks are kept for an undo, so that keys are not used again.
            title = curve_of(mark).name
            more = (f"{title} ({number})" for number in range(2, len(store) + 3))
            keys[index] = next(key for key in (title, *more) if key not in store)
            store[keys[index]] = mark
    picks.set_feature(points, KNOWN, keys)


def tidy_marks(points: Points) -> None:
    """Take the marks off picks that were copied, and show by the symbols what is known.

    The copy of a pick lies elsewhere, where the spectrum may be another one.
    """
    keys = picks.keys_of(points)
    kept = [key if key not in keys[:index] else "" for index, key in enumerate(keys)]
    if kept != keys:
        picks.set_feature(points, KNOWN, kept)
    symbols = ["diamond" if key else "disc" for key in kept]
    if symbols and symbols != [str(symbol) for symbol in points.symbol]:
        points.symbol = symbols
    _number_spots(points, kept)


def _number_spots(points: Points, keys: list[str]) -> None:
    """Write the numbers of spots that are to be measured yet beside their picks."""
    names = picks.names(points)
    pairs = zip(names, keys, strict=True)
    numbers = [name.removeprefix(SPOT) if is_spot(name) and not key else "" for name, key in pairs]
    shown = np.asarray(points.text.values).ravel().tolist()
    if numbers != shown and any([*numbers, *shown]):
        points.text = {
            "string": {"array": numbers, "default": ""},
            "color": "white",
            "size": 14,
            "translation": [-float(points.size.max()), 0.0],  # above the pick, not on it
        }


def is_spot(name: str) -> bool:
    """True for the name of a pick where a measurement would help, such as "spot 3"."""
    return name.startswith(SPOT) and name.removeprefix(SPOT).isdecimal()


class Rows:
    """The rows of one layer, or of files; each kind of rows is a class.

    Attributes
    ----------
    are_pixels
        Whether they are pixels of an image, which stay, in the colours of its layer.
    is_measured
        Whether they are spectra, by which pixels can be classified.
    hidden
        The rows whose curves are not drawn.
    """

    are_pixels = False
    is_measured = True

    def __init__(self, layer: Any = None) -> None:
        self.hidden = set[int]()
        # Weak, so that a layer that a person deletes is freed.
        self._layer_ref = None if layer is None else weakref.ref(layer)

    @property
    def layer(self) -> Any:
        """The layer that they are on; None for spectra from files."""
        return None if self._layer_ref is None else self._layer_ref()

    def rename(self, index: int, name: str) -> None:
        """Give a row another name."""

    def show(self, indices: set[int], is_shown: bool) -> None:
        """Draw the curves of some rows, or hide them."""
        self.hidden = self.hidden - indices if is_shown else self.hidden | indices

    def recolour(self, index: int, colour: str) -> None:
        """Give a row another colour ("#rrggbb"), if this kind can have one."""

    def delete(self, indices: set[int]) -> None:
        """Take some rows away, if this kind can be."""

    def removed(self, indices: set[int]) -> None:
        """Take notice that some rows are gone: those behind them move up."""

        def moved(index: int) -> int:
            return index - sum(gone < index for gone in indices)

        self.hidden = {moved(index) for index in self.hidden - indices}

    def forget(self) -> None:
        """Let go of everything that was read."""


@dataclass(eq=False)
class Entry:
    """A pick, a region or a spectrum from a file.

    There may be many thousands, of which the table shows a few: spectra are looked up when they are
    needed.

    Attributes
    ----------
    rows, index
        The rows of its kind, and the number of its point, shape, label or spectrum.
    layer
        The layer that it is on; None if it is from a file.
    spectra_of, comparison_of
        Look up its spectra and its comparison with the reference by its index.
    is_shown
        Whether its curves are drawn.
    is_of_many
        Whether its curve is only drawn while it is selected.
    mark
        The true spectrum of its place; None where it is not known.
    """

    rows: Rows
    index: int
    spectra_of: Callable[[int], Spectra]
    comparison_of: Callable[[int], Comparison | None] = ignore
    is_shown: bool = True
    is_of_many: bool = False
    mark: KnownSpectrum | None = None

    def __post_init__(self) -> None:
        # Strong, so that an entry can still be changed just after its layer was deleted.
        self.layer = self.rows.layer

    # Remembered, as there is a new entry when anything about it has changed.

    @cached_property
    def spectra(self) -> Spectra:
        """Its spectra on the cubes that are shown; None off the image, or when not read yet."""
        return self.spectra_of(self.index)

    @cached_property
    def comparison(self) -> Comparison | None:
        """Its errors on the first cube; None without a reference, or when not read yet."""
        return self.comparison_of(self.index)

    @property
    def first(self) -> Spectrum:
        """Its spectrum on the first cube that it lies on."""
        return next(spectrum for spectrum in self.spectra if spectrum is not None)

    @property
    def place(self) -> str:
        """Its place in words: row and column, or the layer or cube that it is on."""
        origin = self.first.origin
        if origin.row is not None:
            return f"{origin.row}, {origin.column}"
        if self.layer is not None:
            return str(self.layer.name)
        return origin.cube or origin.region or "file"


def by_rows(entries: Iterable[Entry]) -> ItemsView[Rows, set[int]]:
    """Return the indices of *entries*, for the rows of each kind."""
    indices = dict[Rows, set[int]]()
    for entry in entries:
        indices.setdefault(entry.rows, set()).add(entry.index)
    return indices.items()


def spectra_of(entries: Sequence[Entry]) -> list[Spectrum]:
    """Return the spectra of *entries* as they were measured; may be called on any thread."""
    return [spectrum for entry in entries for spectrum in entry.spectra if spectrum is not None]


class PickRows(Rows):
    """The picks; after one of a thousand has moved, the others are not read again."""

    def __init__(self, layer: Points) -> None:
        super().__init__(layer)
        self._read = Read()

    def forget(self) -> None:
        """See `Rows`."""
        self._read = Read()

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

    def gather(
        self, layers: Sequence[Image], truth: Image | None, read: Callable[[Task], Any]
    ) -> list[Entry]:
        """The entries of picks on the cube *layers*, compared with *truth*, one of these layers.

        *read* takes a task that reads an error band, and returns its result if there is one by now.
        """
        points: Points = self.layer
        # Only keys of this time are kept: a point that is dragged has had one at every pixel.
        before, self._read = self._read, Read()
        if not points.visible:
            return []
        columns = [self._column(layer, before, read) for layer in layers]
        rows: list[Spectra] = list(zip(*columns, strict=True))
        reference = layers.index(truth) if truth in layers else None

        def comparison_of(index: int) -> Comparison | None:
            there = None if reference is None else rows[index][reference]
            return compared(compare_spectra, rows[index][0], there)

        shown = points.shown.tolist()
        marks = marks_of(points)
        # Off all images there is nothing to list; the point stays on its layer.
        return [
            Entry(self, index, rows.__getitem__, comparison_of, shown[index], mark=marks[index])
            for index, row in enumerate(rows)
            if any(row)
        ]

    def _column(
        self, layer: Image, before: Read, read: Callable[[Task], Any]
    ) -> list[Spectrum | None]:
        """Return the spectra of all points on one cube layer; None for those off the image."""
        points, cube = self.layer, cube_at(layer)
        data = Identity(cube.data)
        spectra = list[Spectrum | None]()
        pixels, inside = picks.pixels_of(points, layer)
        looks = (picks.windows(points).tolist(), picks.names(points), picks.colours(points))
        for (row, column), is_inside, *look in zip(pixels.tolist(), inside, *looks, strict=True):
            key = (data, row, column, *look, layer.name)
            if is_inside and key not in before:
                window, name, colour = look
                facts = {"name": name, "colour": colour, "cube_name": layer.name}
                before[key] = placed(point_spectrum(cube, row, column, window, **facts), cube)
            if is_inside:
                # A band that was missing so far may have been read meanwhile.
                self._read[key] = _with_band(before[key], cube, read)
            spectra.append(self._read.get(key))
        return spectra


def _with_band(spectrum: Spectrum, cube: SpectralCube, read: Callable[[Task], Any]) -> Spectrum:
    """*spectrum* of a pixel of *cube* with its error band, if that was read already."""
    row, column = spectrum.origin.row, spectrum.origin.column
    past = cube.provenance
    may_have_band = cube.has_wavelengths and bool(past.error_band or past.adaptation)
    if not may_have_band or spectrum.spread or row is None or column is None:
        return spectrum
    band = read(error_band_of(cube, row, column))
    if band is None:
        return spectrum
    spread = f"{MODEL_ERROR}, {past.calibration}"
    return replace(spectrum, lower=band[0], upper=band[1], spread=spread)
