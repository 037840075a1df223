"""The rows of the table of spectra: their kinds, and the marks of picks.

The mark of a pick is its feature "references", a `ReferenceSpectrum`. A mark therefore moves with
its pick, and undoing a change of the picks restores it.
"""

from collections.abc import Callable, ItemsView, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from napari.layers import Image, Points

from napari_mst.analysis.comparison import Comparison
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.jobs.task import ignore
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_at, weak
from napari_mst.plugin.viewer.picks import REFERENCE, marks_of
from napari_mst.references.reference_spectrum import ReferenceSpectrum

SPOT = "spot "
"""Begins the names of the picks where a measurement would help."""
Spectra = tuple[Spectrum | None, ...]
"""One spectrum for each shown cube; None off the image."""


def curve_of(mark: ReferenceSpectrum) -> Spectrum:
    """Return the reference spectrum of a mark, which always has wavelengths and a name."""
    return cast(Spectrum, mark.spectrum)


def put_marks(points: Points, marks: Mapping[int, ReferenceSpectrum | None]) -> None:
    """Mark the picks at these indices; None removes a mark."""
    every = [marks.get(index, mark) for index, mark in enumerate(marks_of(points))]
    picks.set_feature(points, REFERENCE, every)


def tidy_marks(points: Points) -> None:
    """Take the marks off copied picks, and show marks by the symbols of the picks.

    The copy of a pick lies elsewhere, where the spectrum may differ.
    """
    marks = marks_of(points)
    copies = [at for at, mark in enumerate(marks) if mark is not None and mark in marks[:at]]
    if copies:
        put_marks(points, dict.fromkeys(copies))
    symbols = ["disc" if mark is None else "diamond" for mark in marks_of(points)]
    if symbols and symbols != [str(symbol) for symbol in points.symbol]:
        points.symbol = symbols
    numbers = spot_numbers(points)
    shown = np.ravel(points.text.values).tolist()
    if numbers != shown and any([*numbers, *shown]):
        points.text = {
            "string": {"array": numbers, "default": ""},
            "color": "white",
            "size": 14,
            "translation": [-float(points.size.max()), 0.0],  # above the pick, not on it
        }


def spot_numbers(points: Points) -> list[str]:
    """Return the number of each pick "spot 3" that is still to be measured; "" for all others."""
    numbers = []
    for name, mark in zip(picks.names(points), marks_of(points), strict=True):
        before, _, number = name.partition(SPOT)
        is_open = not before and number.isdecimal() and mark is None
        numbers.append(number if is_open else "")
    return numbers


class Rows:
    """The rows of one layer or of files; each kind of rows is a class.

    Attributes
    ----------
    are_pixels
        True for labels, which cannot be deleted or recoloured here.
    hidden
        The rows whose curves are not drawn.
    """

    are_pixels = False

    def __init__(self, layer: Any = None) -> None:
        self.hidden = set[int]()
        self._layer_ref = weak(layer)

    @property
    def layer(self) -> Any:
        """The layer of the rows; None for spectra from files."""
        return self._layer_ref()

    def rename(self, index: int, name: str) -> None:
        """Give a row another name."""

    def show(self, indices: set[int], is_shown: bool) -> None:
        """Draw the curves of some rows, or hide them."""
        self.hidden = self.hidden - indices if is_shown else self.hidden | indices

    def recolour(self, index: int, colour: str) -> None:
        """Give a row another colour ("#rrggbb"), if this kind of rows allows it."""

    def delete(self, indices: set[int]) -> None:
        """Delete some rows, if this kind of rows allows it."""

    def removed(self, indices: set[int]) -> None:
        """Note that some rows are gone, and that the rows behind them move up."""

        def moved(index: int) -> int:
            return index - sum(gone < index for gone in indices)

        self.hidden = {moved(index) for index in self.hidden - indices}


@dataclass(eq=False)
class Entry:
    """A pick, a region or a spectrum from a file.

    There may be many thousands, of which the table shows a few, so spectra are looked up on demand.

    Attributes
    ----------
    rows, index
        The rows of its kind, and the number of its point, shape, label or spectrum.
    layer
        Its layer; None if it is from a file.
    spectra_of, comparison_of
        Look up its spectra and its comparison with the reference by its index.
    is_shown
        Whether its curves are drawn.
    mark
        The reference spectrum of its place; None if there is none.
    """

    rows: Rows
    index: int
    spectra_of: Callable[[int], Spectra]
    comparison_of: Callable[[int], Comparison | None] = ignore
    is_shown: bool = True
    mark: ReferenceSpectrum | None = None

    def __post_init__(self) -> None:
        # Strong, so that an entry can still be changed just after its layer was deleted.
        self.layer = self.rows.layer

    # Cached, as any change makes a new entry.

    @cached_property
    def spectra(self) -> Spectra:
        """Its spectra on the shown cubes; None off the image, or if not read yet."""
        return self.spectra_of(self.index)

    @cached_property
    def comparison(self) -> Comparison | None:
        """Its errors on the first cube; None without a reference, or if not read yet."""
        return self.comparison_of(self.index)

    @property
    def first(self) -> Spectrum:
        """Its spectrum on the first cube that it lies on."""
        return next(spectrum for spectrum in self.spectra if spectrum is not None)

    @property
    def place(self) -> str:
        """Its place in words: row and column, or its layer or cube."""
        origin = self.first.origin
        if origin.row is not None:
            return f"{origin.row}, {origin.column}"
        if self.layer is not None:
            return str(self.layer.name)
        return origin.cube or origin.region or "file"


def by_rows(entries: Iterable[Entry]) -> ItemsView[Rows, set[int]]:
    """Return the indices of *entries*, grouped by rows."""
    indices = dict[Rows, set[int]]()
    for entry in entries:
        indices.setdefault(entry.rows, set()).add(entry.index)
    return indices.items()


def spectra_of(entries: Sequence[Entry]) -> list[Spectrum]:
    """Return the spectra of *entries* as they were measured; may be called on any thread."""
    return [spectrum for entry in entries for spectrum in entry.spectra if spectrum is not None]


class FileRows(Rows):
    """The *kept* spectra without a place on the image, such as spectra from files."""

    def __init__(self) -> None:
        super().__init__()
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
        """Return entries of the spectra in the unit of the cube *layers*; of all without a cube."""
        unit = cube_at(layers[0]).unit if layers else None
        # A spectrum from a file belongs to no cube; it is listed in the first cube's column.
        blank = (None,) * max(0, len(layers) - 1)
        spectra: list[Spectra] = [(spectrum, *blank) for spectrum in self.kept]
        return [
            Entry(self, index, spectra.__getitem__, is_shown=index not in self.hidden)
            for index, spectrum in enumerate(self.kept)
            if unit is None or spectrum.unit == unit
        ]
