"""A row of the table of spectra, the kinds of rows there are, and what is known of a pick."""

import weakref
from collections.abc import Callable, ItemsView, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

from napari.layers import Image

from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.plugin.viewer.layers import cube_at
from napari_mst.spectra.compare import Comparison
from napari_mst.spectra.library import write_spectra
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import Watch

LEAST_WINDOW = 3
"""Side in pixels of the spot that is known under a pick of a single pixel."""

Use = Callable[[list[Spectrum]], Any]
"""Does something with spectra; thousands take seconds: a dock has it called on a thread."""
Spectra = tuple[Spectrum | None, ...]
"""One spectrum for each cube that is shown; None off the image."""


@dataclass(frozen=True, eq=False)
class Mark:
    """The true reflectance under a pick.

    Attributes
    ----------
    spectrum
        Its name says where it is from.
    window
        Side in pixels of the square that it is the mean of.
    uncertainty
        Standard deviation of the measurement, as a share of its values.
    hidden
        The error that a calibration with this very spectrum hides: see `KnownSpectrum`.
    """

    spectrum: Spectrum
    window: int = LEAST_WINDOW
    uncertainty: float = 0.0
    hidden: float = 0.0

    @property
    def title(self) -> str:
        """The name of its spectrum."""
        return self.spectrum.name or "known spectrum"

    def at(self, row: int, column: int) -> KnownSpectrum:
        """The mark at a pixel. Raises `SpectrumError` if its spectrum is no reflectance."""
        return KnownSpectrum(row, column, self.spectrum, self.window, self.uncertainty, self.hidden)


class Rows:
    """The rows of one layer, or of files; each kind of rows is a class.

    Attributes
    ----------
    can_recolour, can_delete
        Whether the rows of this kind can be given a colour, and be taken away.
    hidden
        The rows whose curves are not drawn.
    """

    can_recolour = True
    can_delete = True

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
        kept = self.hidden - indices
        self.hidden = {index - sum(gone < index for gone in indices) for index in kept}

    def forget(self) -> None:
        """Let go of everything that was read."""


def _no_comparison(_: int) -> Comparison | None:
    return None


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
    comparison_of: Callable[[int], Comparison | None] = _no_comparison
    is_shown: bool = True
    is_of_many: bool = False
    mark: Mark | None = None

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
        return (origin.cube or "file") if self.layer is None else str(self.layer.name)


def by_rows(entries: Iterable[Entry]) -> ItemsView[Rows, set[int]]:
    """The indices of *entries*, for the rows of each kind."""
    indices = dict[Rows, set[int]]()
    for entry in entries:
        indices.setdefault(entry.rows, set()).add(entry.index)
    return indices.items()


def spectra_of(entries: Sequence[Entry]) -> list[Spectrum]:
    """The spectra of *entries* as they were measured; may be called on any thread."""
    return [spectrum for entry in entries for spectrum in entry.spectra if spectrum is not None]


def used(use: Use, entries: Sequence[Entry], _: Watch) -> Any:
    """The job: *use* the spectra of *entries*."""
    return use(spectra_of(entries))


def written(path: str | PathLike[str], spectra: list[Spectrum]) -> int:
    """Write *spectra* to the file *path*; returns their number."""
    write_spectra(path, spectra, overwrite=True)
    return len(spectra)


class FileRows(Rows):
    """The spectra that were opened from files and belong to no place on the image."""

    can_recolour = False

    def __init__(self) -> None:
        super().__init__()
        self.spectra: list[Spectrum] = []

    def delete(self, indices: set[int]) -> None:
        """Take some of the spectra away."""
        self.spectra = [one for index, one in enumerate(self.spectra) if index not in indices]
        self.removed(indices)

    def rename(self, index: int, name: str) -> None:
        """See `Rows`."""
        self.spectra[index] = replace(self.spectra[index], name=name)

    def gather(self, layers: Sequence[Image]) -> list[Entry]:
        """The entries of the spectra in the unit of the cube *layers*; of all without a cube."""
        unit = cube_at(layers[0]).unit if layers else None
        # A spectrum from a file lies on no cube: it stands in the column of the first.
        blank = (None,) * max(0, len(layers) - 1)
        spectra: list[Spectra] = [(spectrum, *blank) for spectrum in self.spectra]
        return [
            Entry(self, index, spectra.__getitem__, is_shown=index not in self.hidden)
            for index, spectrum in enumerate(self.spectra)
            if unit is None or spectrum.unit == unit
        ]
