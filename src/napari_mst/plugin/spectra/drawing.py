"""What of the entries the spectra dock draws: which curves, shown in which way, and what is said about the others."""

from collections.abc import Sequence, Set
from dataclasses import replace

from napari_mst.errors import SpectrumError
from napari_mst.plugin.spectra.curves import NO_COLOUR, Line
from napari_mst.plugin.spectra.rows import MOST_CURVES, Entry, Group
from napari_mst.plugin.spectra.views import AS_IS, View
from napari_mst.spectra.spectrum import MODEL_ERROR, Spectrum

Key = tuple[str, str, int]
"""A line of the legend: colour, name, and number of the cube."""


class Drawing:
    """Makes the lines of the plot: of the spectra, or of their errors to the reference, shown as `view` says."""

    def __init__(self) -> None:
        self.view: View = AS_IS
        self.is_error_shown = False
        self.wavelength = 0.0
        """That of the band that is shown."""
        self._drawn: list[Entry] = []
        self._groups: list[Group] = []
        self._left_out = 0
        self._refused, self._refused_live = set[str](), set[str]()

    @property
    def label(self) -> str:
        """What the values are; "" as in the cube."""
        return "error" if self.is_error_shown else self.view.label

    def live(self, spectra: Sequence[Spectrum | None]) -> list[Spectrum | None]:
        """The *spectra* under the mouse, as they are shown; none among errors."""
        self._refused_live = set()
        if self.is_error_shown:
            return []
        return [one and self._viewed(one, self._refused_live) for one in spectra]

    def lines(
        self, entries: Sequence[Entry], groups: Sequence[Group], chosen: Set[int]
    ) -> list[Line]:
        """The curves of *entries*, of which those in the rows *chosen* stand out; many labels are summed up."""
        self._refused, self._groups = set(), [group for group in groups if group.is_large]
        few = [
            row
            for row, entry in enumerate(entries)
            if entry.is_shown and (not entry.is_of_many or row in chosen)
        ]
        many = [row for row in few if entries[row].is_of_many]
        self._left_out = max(0, len(many) - MOST_CURVES)
        without = set(many[MOST_CURVES:])
        drawn = [(row, entries[row]) for row in few if row not in without]
        self._drawn = [entry for _, entry in drawn]
        lines = [
            line for group in self._groups for line in self._summary(group, is_faded=bool(chosen))
        ]
        for row, entry in drawn:
            is_faded = bool(chosen) and row not in chosen
            is_banded = row in chosen or (not chosen and len(entries) == 1)
            for spectrum, style in self._curves(entry):
                curve = spectrum if is_banded else _without_error(spectrum)
                lines.append(Line(self._viewed(curve, self._refused), style, row, is_faded))
        return lines

    def line(self, spectrum: Spectrum, style: int) -> Line:
        """A curve of no entry."""
        return Line(self._viewed(spectrum, self._refused), style, -1)

    def keys(self, cubes: Sequence[str]) -> list[Key]:
        """What the legend says of the lines; the names of the *cubes*, if they are several."""
        curves = [entry.first for entry in self._drawn]
        summaries = [group.summary[0] for group in self._groups]
        spectra = [*curves, *(one for one in summaries if one is not None)]
        named = (
            [(NO_COLOUR, name, style) for style, name in enumerate(cubes)] if len(cubes) > 1 else []
        )
        return [*((spectrum.colour or NO_COLOUR, spectrum.name, 0) for spectrum in spectra), *named]

    def notes(self) -> list[str]:
        """What the plot does not show."""
        notes = [
            f"{group.name}: {len(group.entries):,} labels, drawn as their median and the range of 90 % of them. "
            "Select some to see their curves."
            for group in self._groups
        ]
        if self._left_out:
            notes.append(f"Of the selected curves, {self._left_out:,} are not drawn.")
        return notes + [
            f"Drawn as measured: {reason}" for reason in sorted(self._refused | self._refused_live)
        ]

    def _curves(self, entry: Entry) -> list[tuple[Spectrum, int]]:
        """The spectra of *entry* that the plot draws, and the numbers of their cubes."""
        if self.is_error_shown:
            return (
                []
                if entry.comparison is None
                else [(_like(entry.comparison.error, entry.first), 0)]
            )
        return [
            (spectrum, number)
            for number, spectrum in enumerate(entry.spectra)
            if spectrum is not None
        ]

    def _summary(self, group: Group, *, is_faded: bool) -> list[Line]:
        spectra = (group.error_summary,) if self.is_error_shown else group.summary
        shown = [
            (number, spectrum) for number, spectrum in enumerate(spectra) if spectrum is not None
        ]
        return [
            Line(self._viewed(one, self._refused), number, -1, is_faded) for number, one in shown
        ]

    def _viewed(self, spectrum: Spectrum, refused: set[str]) -> Spectrum:
        """*spectrum* as the plot shows it; as it is, if it cannot be shown so, and the reason is added to *refused*."""
        try:
            return self.view.change(spectrum, self.wavelength)
        except SpectrumError as error:
            refused.add(str(error))
            return spectrum


def _like(curve: Spectrum, spectrum: Spectrum) -> Spectrum:
    return replace(curve, name=spectrum.name, colour=spectrum.colour)


def _without_error(spectrum: Spectrum) -> Spectrum:
    """*spectrum*, but the error band of its model."""
    return spectrum.with_values(spectrum.values) if spectrum.spread == MODEL_ERROR else spectrum
