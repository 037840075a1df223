"""Reference spectra of one viewer: marks picks with them, and keeps the cube refined to them.

model.references.mark(model.entries, grey(99, wavelengths))
model.references.suggest(4)
model.references.show_after(False)
"""

import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from napari.layers import Image, Layer, Points

from napari_mst.analysis import library
from napari_mst.analysis.regions import point_spectrum
from napari_mst.base.arrays import Doubles, Pixel
from napari_mst.base.errors import CubeError, SpectrumError
from napari_mst.base.progress import Progress
from napari_mst.cube import NANOMETRES, SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.jobs.task import Start
from napari_mst.plugin.spectra import rows
from napari_mst.plugin.spectra.refiner import Refiner
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.shown_spectra import ShownSpectra
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at, shown_cube_layers
from napari_mst.references.reference_spectrum import ReferenceSpectrum, reference_values
from napari_mst.references.refinement_record import reference_spectra
from napari_mst.references.refining import check_cube
from napari_mst.references.suggestions import suggest_measurements

NO_PICK = "No pick is selected. Click on the image, or select rows of picks in the table."
STAYS = "The cube was saved refined to this spectrum, and stays so. Reconstruct it to start again."
NO_CUBE = "There is no cube to refine. Show and select the layer of a reconstruction."
CLIPBOARD = "the clipboard"
"""Name of copied text in messages."""

LEAST_WINDOW = 3
"""Side in pixels of the square that a reference spectrum at a single-pixel pick stands for."""
UNNAMED = "reference spectrum"
"""Name of a reference spectrum without a name."""
PASTED = "pasted"
"""Name of a copied spectrum without a name."""


_SEPARATORS = re.compile(r"[\s,;]+")


class ReferenceSpectra(Refiner):
    """Marks picks with reference spectra, and keeps the cube refined to them."""

    def __init__(self, model: ShownSpectra, start: Start) -> None:
        super().__init__(model, start)
        # Cubes whose saved reference spectra are already restored as marks, or need not be.
        self._seen = weakref.WeakSet[Image]()

    @property
    def cube(self) -> SpectralCube:
        """The cube to refine: the selected one, or the cube from which it was refined.

        Raises
        ------
        CubeError
            If there is no cube, or it cannot be refined.
        """
        return _cube_of(self._base())

    def is_ours(self, layer: Layer) -> bool:
        """True for the layers of the cube to refine and of the refined cube."""
        base = active_cube_layer(self._model.viewer)
        return layer in (base, self._layers.base, self._layers.refined)

    # ------------------------------------------------------------ marking

    def mark(self, entries: Sequence[Entry], true: Spectrum | Image) -> None:
        """Mark the picks of *entries* with the reflectance *true*.

        If *true* is the layer of a cube, each pick is marked with its spectrum on that cube.

        Raises
        ------
        CubeError
            If the selected cube cannot be refined, or there is none.
        SpectrumError
            If there are no picks on the cubes, or *true* is no reflectance that fits the cube.
        """
        base = self._base()
        spots = list[ReferenceSpectrum]()
        for pick in self._picked(entries):
            row, column, window = self._place_of(pick, base)
            spectrum = true
            if isinstance(true, Image):
                there = self._place_of(pick, true)
                spectrum = point_spectrum(_cube_of(true), *there, name=f"as in {true.name}")
            spots.append(ReferenceSpectrum(row, column, spectrum, window))
        self._put(base, spots)

    def open(self, spectra: Sequence[Spectrum]) -> None:
        """Mark new picks with *spectra*, at the rows and columns where they were measured.

        Raises the errors of `mark`, and `SpectrumError` if a spectrum has no place.
        """
        spots = list[ReferenceSpectrum]()
        for spectrum in spectra:
            row, column = spectrum.origin.row, spectrum.origin.column
            if row is None or column is None:
                raise SpectrumError(
                    f"The file does not say where {spectrum.name or 'a spectrum'!r} was measured. "
                    "Select the picks that it belongs to, or open a file with rows and columns."
                )
            spots.append(ReferenceSpectrum(row, column, spectrum))
        self._put(self._base(), spots)

    def insist(self, entries: Sequence[Entry]) -> None:
        """Use the reference spectra of *entries* even if the photo contradicts them."""
        points = self._points()
        marks = picks.marks_of(points)
        picked = {pick: marks[pick] for pick in self._picked(entries)}
        certain = {at: mark and replace(mark, is_certain=True) for at, mark in picked.items()}
        rows.put_marks(points, certain)
        self._model.end_action()

    def unmark(self, entries: Sequence[Entry]) -> None:
        """Take the marks off the picks of *entries*."""
        points = self._points()
        picked = self._picked(entries)
        rows.put_marks(points, dict.fromkeys(picked))
        self._model.end_action()
        layer = self._layers.base
        if layer is not None:
            pixels, _ = picks.pixels_of(points, layer)
            former = _former(cube_at(layer))
            # The cube had been refined to the spectrum before it was opened.
            if any(tuple(pixels[pick].tolist()) in former for pick in picked):
                self._model.say(STAYS)

    def _put(self, layer: Image, spots: Sequence[ReferenceSpectrum]) -> None:
        """Check *spots*, and mark picks on *layer* with them."""
        cube = _cube_of(layer)
        reference_values(cube, spots)
        self._layers.set_base(layer)
        marks = dict[int, ReferenceSpectrum | None]()
        for spot in spots:
            curve = spot.spectrum
            if not isinstance(curve, Spectrum):
                curve = Spectrum(cube.wavelengths, spot.values)
            named = replace(curve, name=curve.name or UNNAMED)
            pick = self._pick_at(layer, spot.row, spot.column)
            marks[pick] = replace(spot, spectrum=named)
        points = self._points()
        points.metadata[picks.SOURCE] = cube.provenance.source
        rows.put_marks(points, marks)
        self._model.end_action()

    # ------------------------------------------------------------ where to measure

    def suggest(self, count: int) -> None:
        """Put picks "spot 1", "spot 2", ... where a measurement would help most, and select them.

        Earlier suggestions that were not measured are removed. Raises `CubeError` if the selected
        cube cannot be refined, or there is none.
        """
        layer = self._base()
        cube = _cube_of(layer)
        self._layers.set_base(layer)
        references = _former(cube)
        references |= {(spot.row, spot.column): spot for spot in self._references(layer).values()}
        ground = self.ground_of(cube)

        def run(progress: Progress) -> list[Pixel]:
            # Reads the photo here, on the thread of the job.
            return suggest_measurements(
                cube, ground.photo, tuple(references.values()), count, progress=progress
            )

        self.run("Looking for spots to measure", run, self._put_spots)

    def _put_spots(self, places: Sequence[Pixel]) -> None:
        if self._model.is_closed:  # the search may outlive the viewer
            return
        layer = self._base()
        points = self._model.points or picks.add_picks(self._model.viewer, layer)
        numbers = enumerate(rows.spot_numbers(points))
        picks.remove(points, [at for at, number in numbers if number])
        added = [self._pick_at(layer, *place) for place in places]
        names = picks.names(points)
        for number, pick in enumerate(added, 1):
            names[pick] = f"{rows.SPOT}{number}"
        picks.set_feature(points, "name", names)
        points.selected_data = set(added)
        # Restart the refinement that the search has stopped.
        self._asked = []
        self._model.end_action()
        self._model.say(f"Measure {len(added)} numbered spots, then say what they are.")

    # ------------------------------------------------------------ before and after

    def show_after(self, is_after: bool) -> None:
        """Show the refined cube, or the cube before, to compare them."""
        # The user may have deleted the refined layer: it is made again.
        if is_after and self._layers.refined is None:
            self._asked = []
        self._layers.show_after(is_after)
        self._model.touch()

    def show_width(self) -> None:
        """See `Refiner`."""
        self._layers.set_base(self._base())
        super().show_width()

    # ------------------------------------------------------------ following

    def follow(self) -> None:
        """Refine the cube again if its references have changed. Called after changes of picks."""
        self._layers.notice_deletion()
        self._restore()
        if self._model.points is not None:
            rows.tidy_marks(self._model.points)
        layer = self._layers.base
        if layer is None:
            return
        cube = cube_at(layer)
        references = self._references(layer)
        if not _is_news(references.values(), _former(cube)):
            references = {}
        self.refine_to(cube, references)

    def _restore(self) -> None:
        """Mark picks with the reference spectra that were saved with an opened cube."""
        for layer in shown_cube_layers(self._model.viewer):
            past = cube_at(layer).provenance
            if layer in self._seen:
                continue
            self._seen.add(layer)
            if layer is self._layers.refined or not past.refinement:
                continue
            points = self._model.points
            if points is not None and any(picks.marks_of(points)):
                self._model.say(
                    f"The reference spectra of {layer.name} were left out: picks have other ones."
                )
                continue
            try:
                self._put(layer, reference_spectra(past))
            except CubeError as error:
                self._model.fail(error)

    # ------------------------------------------------------------ layers and picks

    def _base(self) -> Image:
        """Return the layer of the cube to refine: the selected one, or its original."""
        active, base = active_cube_layer(self._model.viewer), self._layers.base
        # One of the two is hidden, and may be selected nevertheless.
        if base is not None and (self._layers.is_selected or active is self._layers.refined):
            return base
        if active is None:
            raise CubeError(NO_CUBE)
        return active

    def _points(self) -> Points:
        points = self._model.points
        if points is None:
            raise SpectrumError(NO_PICK)
        return points

    def _picked(self, entries: Sequence[Entry]) -> list[int]:
        """Return the indices of the picks in *entries*. Raises `SpectrumError` without a pick."""
        points = self._points()
        mine = [entry.index for entry in entries if entry.layer is points]
        # Rows that are not redrawn yet may refer to deleted picks.
        picked = [index for index in mine if index < len(points.data)]
        if not picked:
            raise SpectrumError(NO_PICK)
        return picked

    def _place_of(self, pick: int, layer: Image) -> tuple[int, int, int]:
        """Return row, column and window of a pick on *layer*. Raises `SpectrumError` beside it."""
        points = self._points()
        pixels, inside = picks.pixels_of(points, layer)
        if not inside[pick]:
            raise SpectrumError(f"A pick lies beside {layer.name!r}. Select picks that lie on it.")
        row, column = pixels[pick].tolist()
        return row, column, max(LEAST_WINDOW, int(picks.windows(points)[pick]))

    def _references(self, layer: Image) -> dict[ReferenceSpectrum, ReferenceSpectrum]:
        """Return the reference spectra on *layer*, by the marks that they come from."""
        points = self._model.points
        return {} if points is None else picks.references_on(points, layer)

    def _pick_at(self, layer: Image, row: int, column: int) -> int:
        """Return the index of the pick at a pixel of *layer*, which is added if there is none."""
        points = self._model.points or picks.add_picks(self._model.viewer, layer)
        at, _ = picks.pixels_of(points, layer)
        there = np.flatnonzero((at == (row, column)).all(axis=1))
        if there.size:
            return int(there[0])
        if not picks.add(points, layer, (row, column)):
            raise SpectrumError("The picks lie in another plane than the cube. Delete their layer.")
        return len(points.data) - 1


def _cube_of(layer: Image) -> SpectralCube:
    """Return the cube of *layer*. Raises `CubeError` if it cannot be refined."""
    cube = cube_at(layer)
    check_cube(cube)
    return cube


def _former(cube: SpectralCube) -> dict[Pixel, ReferenceSpectrum]:
    """Return the spectra that *cube* is already refined to, by row and column."""
    return {(spot.row, spot.column): spot for spot in reference_spectra(cube.provenance)}


def _is_news(
    references: Iterable[ReferenceSpectrum], former: Mapping[Pixel, ReferenceSpectrum]
) -> bool:
    """True if the cube is not yet refined to all of *references*."""
    for spot in references:
        before = former.get((spot.row, spot.column))
        if before is None or before.values.shape != spot.values.shape:
            return True
        if not np.allclose(before.values, spot.values, rtol=1e-5, equal_nan=True):
            return True
    return False


def grey(percent: float, wavelengths: Doubles) -> Spectrum:
    """The flat spectrum of a tile that reflects *percent* of the light, at *wavelengths* (B,).

    Raises
    ------
    SpectrumError
        If *percent* is not above 0 and at most 100.
    """
    if not 0 < percent <= 100:
        raise SpectrumError(
            f"A tile reflects more than 0 and up to 100 % of the light, not {percent:g} %. "
            "Read it off the tile or its certificate."
        )
    values = np.full(len(wavelengths), percent / 100)
    return Spectrum(wavelengths, values, name=f"{percent:g} % grey")


def pasted(text: str, wavelengths: Doubles) -> list[Spectrum]:
    """Return the spectra in the copied *text*.

    The text holds one value for each of *wavelengths* (B,), in a row or a column; or lines of a
    wavelength in nm and a value; or a table of a wavelength and one column per spectrum.

    Raises
    ------
    SpectrumError
        If the text is none of these.
    CubeFileError
        If a row of the table is damaged; the message names the row.
    """
    rows = [_SEPARATORS.split(line.strip(" \t,;")) for line in text.splitlines() if line.strip()]
    if len(rows) < 2 or all(len(row) == 1 for row in rows):
        cells = [cell for row in rows for cell in row]
        if len(cells) != len(wavelengths):
            raise SpectrumError(
                f"The cube has {len(wavelengths)} bands, but {len(cells) or 'no'} values were "
                "copied. Copy one for each band, or lines of a wavelength and a value."
            )
        with suppress(ValueError):
            return [Spectrum(wavelengths, np.array(cells, np.float64), name=PASTED)]
    spectra = library.spectra_of(library.parse(text, CLIPBOARD, NANOMETRES), as_reflectance=True)
    return [
        replace(spectrum, name=PASTED) if spectrum.name.startswith("column ") else spectrum
        for spectrum in spectra
    ]
