"""A row of the table of spectra: a pick, a region, or a spectrum from a file."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from napari.layers import Layer

from napari_mst.adaptation.known import KnownSpectrum
from napari_mst.spectra.compare import Comparison
from napari_mst.spectra.spectrum import Spectrum

LEAST_WINDOW = 3
"""Side in pixels of the spot that is known under a pick of a single pixel."""

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


def _no_comparison(_: int) -> Comparison | None:
    return None


@dataclass(eq=False)
class Entry:
    """A pick, a region or a spectrum from a file.

    There may be many thousands, of which the table shows a few: spectra are looked up when somebody
    needs them.

    Attributes
    ----------
    layer, index
        The Points, Shapes or Labels layer that it is on, and the number of its point, shape or
        label. No layer if it is from a file.
    spectra_of, comparison_of
        Look up its spectra and its comparison with the reference by its index.
    is_shown
        Whether its curves are drawn.
    is_of_many
        Whether its curve is only drawn while it is selected.
    mark
        The true spectrum of its place; None where nobody knows it.
    """

    layer: Layer | None
    index: int
    spectra_of: Callable[[int], Spectra]
    comparison_of: Callable[[int], Comparison | None] = _no_comparison
    is_shown: bool = True
    is_of_many: bool = False
    mark: Mark | None = None

    # Remembered, as an entry is made anew when anything about it has changed.

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
    def key(self) -> tuple[int, int]:
        """Tells it from other entries."""
        return id(self.layer), self.index

    @property
    def place(self) -> str:
        """Its place in words: row and column, or the layer or cube that it is on."""
        origin = self.first.origin
        if origin.row is not None:
            return f"{origin.row}, {origin.column}"
        if self.layer is not None:
            return str(self.layer.name)
        return origin.cube or "file"


def moved_up(hidden: set[int], removed: set[int]) -> set[int]:
    """The indices in *hidden* after those *removed* are gone, and others have moved up."""
    kept = hidden - removed
    return {index - sum(gone < index for gone in removed) for index in kept}
