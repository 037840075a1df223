"""Known spectra of one viewer: marks them on picks, and keeps the cube adapted to them.

bench.known.mark(bench.entries, grey(99, wavelengths))
bench.known.suggest(4)
bench.known.is_after = False
"""

import re
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from napari.layers import Image, Layer, Points
from numpy.typing import NDArray

from napari_mst.adaptation.adapting import check_colours, check_cube
from napari_mst.adaptation.known import KnownSpectrum, known_values
from napari_mst.adaptation.memory import known_spectra
from napari_mst.adaptation.parts import Part
from napari_mst.adaptation.suggesting import suggest_spots
from napari_mst.cube import NANOMETRES, SpectralCube
from napari_mst.errors import CubeError, SpectrumError
from napari_mst.plugin.jobs.job import Start
from napari_mst.plugin.spectra import pick_rows
from napari_mst.plugin.spectra.known.adapter import (
    Adapter,
    Ground,
    Listener,
    Request,
    ground_of,
    photos_for,
)
from napari_mst.plugin.spectra.known.layers import KnownLayers
from napari_mst.plugin.spectra.rows import LEAST_WINDOW, Entry, Mark
from napari_mst.plugin.spectra.scene import Scene
from napari_mst.plugin.spectra.snapshot import KnownState
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of, shown_cube_layers
from napari_mst.plugin.viewer.placement import to_pixels
from napari_mst.spectra import table
from napari_mst.spectra.regions import point_spectrum
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import Watch

NO_PICK = "Expected picks to make known, got none. Click on the image, or select rows of picks."
STAYS = "The cube was saved adapted to this spectrum, and stays so. Reconstruct it to start anew."
NO_CUBE = "Expected a cube layer to adapt, got none. Select the layer of a reconstruction."


class Spots(NamedTuple):
    """The spots where a measurement would help, and all that was prepared to find them."""

    ground: Ground
    places: list[tuple[int, int]]


class KnownSpectra:
    """Marks picks as known, and keeps the cube adapted to them."""

    def __init__(self, scene: Scene, start: Start, listener: Listener) -> None:
        self._scene = scene
        self._listener = listener
        self._layers = KnownLayers(scene.viewer)
        self._adapter = Adapter(self._layers, start, listener)
        # Cubes whose own known spectra were put back as marks, or need not be.
        self._seen: weakref.WeakSet[Image] = weakref.WeakSet()

    @property
    def state(self) -> KnownState:
        """The state of the adaptation."""
        return self._adapter.state

    @property
    def cube(self) -> SpectralCube:
        """The cube that is adapted: the selected one, or the one that it was adapted from.

        Raises
        ------
        CubeError
            If there is none, or none that can be adapted.
        """
        return self._cube_of(self._base())

    def is_ours(self, layer: Layer) -> bool:
        """True for the cube layer that is adapted, and for the one made of it."""
        base = active_cube_layer(self._scene.viewer)
        return layer in (base, self._layers.base, self._layers.adapted)

    # ------------------------------------------------------------ marking

    def mark(self, entries: Sequence[Entry], spectrum: Spectrum) -> None:
        """Make the picks of *entries* known: *spectrum* is the true reflectance of each.

        Raises
        ------
        CubeError
            If no cube is selected that can be adapted.
        SpectrumError
            If there are no picks on it, or *spectrum* is no reflectance that fits the cube.
        """
        self._mark(dict.fromkeys(self._picked(entries), spectrum))

    def mark_from(self, entries: Sequence[Entry], layer: Image) -> None:
        """Make the picks of *entries* known: each as it is on the cube of *layer*.

        Raises as `mark`, and `SpectrumError` if a pick does not lie on that cube.
        """
        truth, points = self._cube_of(layer), self._points()
        pixels, inside = picks.pixels_of(points, layer)
        windows = picks.windows(points)
        found = dict[int, Spectrum]()
        for pick in self._picked(entries):
            if not inside[pick]:
                raise SpectrumError(
                    f"Expected picks on {layer.name!r}, got one beside it. Choose others."
                )
            window = max(LEAST_WINDOW, int(windows[pick]))
            row, column = pixels[pick].tolist()
            found[pick] = point_spectrum(truth, row, column, window, name=f"as in {layer.name}")
        self._mark(found)

    def open(self, spectra: Sequence[Spectrum]) -> None:
        """Make *spectra* known at the rows and columns where they were measured, by new picks.

        Raises as `mark`, and `SpectrumError` if one of them has no place.
        """
        layer = self._base()
        cube = self._cube_of(layer)
        for spectrum in spectra:
            origin = spectrum.origin
            if origin.row is None or origin.column is None:
                raise SpectrumError(
                    "Expected spectra with rows and columns, as Save spectra writes them, got "
                    f"{spectrum.name or 'one'!r} without. Select the picks that they belong to."
                )
            _check(cube, Mark(spectrum).at(origin.row, origin.column))
        found = dict[int, Spectrum]()
        for spectrum in spectra:
            row, column = spectrum.origin.row, spectrum.origin.column
            if row is not None and column is not None:
                found[self._pick_at(layer, row, column)] = spectrum
        self._mark(found)

    def unmark(self, entries: Sequence[Entry]) -> None:
        """Nothing is known any more of the picks of *entries*."""
        points, picked = self._points(), self._picked(entries)
        pick_rows.put_marks(points, dict.fromkeys(picked))
        self._listener.acted()
        if self._stays(points, picked):
            self._listener.said(STAYS)

    def _stays(self, points: Points, picked: Sequence[int]) -> bool:
        """True if the cube was adapted to one of these picks before it was opened."""
        layer, cube = self._layers.base, self._layers.cube()
        if layer is None or cube is None:
            return False
        former = {(one.row, one.column) for one in known_spectra(cube.provenance)}
        pixels, _ = picks.pixels_of(points, layer)
        return any(tuple(pixels[pick].tolist()) in former for pick in picked)

    def _mark(self, spectra: dict[int, Spectrum]) -> None:
        """Make picks known by their indices, once all of it is checked."""
        layer, points = self._base(), self._points()
        cube = self._cube_of(layer)
        pixels, inside = picks.pixels_of(points, layer)
        windows = picks.windows(points)
        new = dict[int, Mark | None]()
        for pick, spectrum in spectra.items():
            if not inside[pick]:
                raise SpectrumError(
                    f"Expected picks on {layer.name!r}, got one beside it. Choose others."
                )
            mark = Mark(spectrum, max(LEAST_WINDOW, int(windows[pick])))
            _check(cube, mark.at(*pixels[pick].tolist()))
            new[pick] = mark
        self._layers.set_base(layer)
        pick_rows.put_marks(points, new)
        self._listener.acted()

    # ------------------------------------------------------------ where to measure

    def suggest(self, count: int) -> None:
        """Put picks "spot 1", "spot 2", ... where a measurement would help most, and select them.

        Spots that were suggested before and not measured are taken away. Raises `CubeError` if no
        cube is selected that can be adapted.
        """
        layer = self._base()
        cube = self._cube_of(layer)
        self._layers.set_base(layer)
        known = (*known_spectra(cube.provenance), *self._known(layer)[0])
        by_place = {(one.row, one.column): one for one in known}
        photos = photos_for(self._scene.viewer, layer, cube)
        whole = Part.whole(cube.shape[1:])
        ground = self._adapter.ground
        request = Request(cube, tuple(by_place.values()), photos, whole, ground)
        self._adapter.run(
            "Looking for spots to measure", partial(_spots, request, count), self._put_spots
        )

    def _put_spots(self, found: Spots) -> None:
        self._adapter.keep(found.ground)
        layer = self._base()
        points = picks.picks_layer(self._scene.viewer) or picks.add_picks(self._scene.viewer, layer)
        pairs = zip(picks.names(points), pick_rows.keys_of(points), strict=True)
        old = [
            index for index, (name, key) in enumerate(pairs) if pick_rows.is_spot(name) and not key
        ]
        picks.remove(points, old)
        added = [self._pick_at(layer, row, column) for row, column in found.places]
        names = picks.names(points)
        for number, pick in enumerate(added, 1):
            names[pick] = f"{pick_rows.SPOT}{number}"
        picks.set_feature(points, "name", names)
        points.selected_data = set(added)
        # An adaptation that the search has stopped begins again.
        self._adapter.again()
        self._listener.acted()
        self._listener.said(f"Measure {len(added)} numbered spots, then say what they are.")

    # ------------------------------------------------------------ before and after

    @property
    def is_after(self) -> bool:
        """True while the adapted cube is shown; set it to compare with the cube before."""
        return self._layers.is_after

    @is_after.setter
    def is_after(self, is_after: bool) -> None:
        # A person may have deleted the adapted layer: it is made again.
        if is_after and self._layers.adapted is None:
            self._adapter.again()
        self._layers.show_after(is_after)
        self._listener.touched()

    def show_width(self, is_shown: bool) -> None:
        """Show the width of the error band as a layer, or take that away."""
        if is_shown:
            self._layers.set_base(self._base())
        self._adapter.want_width(is_shown)

    def stop(self) -> None:
        """Stop what is being computed."""
        self._adapter.stop()

    # ------------------------------------------------------------ following

    def follow(self) -> None:
        """Adapt the cube if something else is known than before. Called when picks have changed."""
        self._layers.notice_deletion()
        self._restore()
        points = picks.picks_layer(self._scene.viewer)
        if points is not None:
            pick_rows.tidy_marks(points)
        layer, cube = self._layers.base, self._layers.cube()
        if layer is None or cube is None:
            return
        known, keys = self._known(layer)
        former = {(one.row, one.column): one for one in known_spectra(cube.provenance)}
        if not _is_news(known, former):
            known, keys = [], []
        self._adapter.follow(known, keys, photos_for(self._scene.viewer, layer, cube))

    def _restore(self) -> None:
        """Mark the known spectra that were saved with a cube which was opened."""
        for layer in shown_cube_layers(self._scene.viewer):
            cube = cube_of(layer)
            if layer in self._seen or cube is None:
                continue
            self._seen.add(layer)
            if layer is self._layers.adapted or not cube.provenance.adaptation:
                continue
            try:
                self._put_back(layer, known_spectra(cube.provenance))
            except CubeError as error:
                self._listener.failed(error)

    def _put_back(self, layer: Image, known: Sequence[KnownSpectrum]) -> None:
        points = picks.picks_layer(self._scene.viewer)
        if points is not None and any(pick_rows.keys_of(points)):
            self._listener.said(f"The known spectra of {layer.name} were left out: there are some.")
            return
        cube = self._cube_of(layer)
        new = dict[int, Mark | None]()
        for one in known:
            spectrum = one.spectrum
            if not isinstance(spectrum, Spectrum):
                spectrum = Spectrum(cube.wavelengths, one.values, name="known spectrum")
            pick = self._pick_at(layer, one.row, one.column)
            new[pick] = Mark(spectrum, one.window, one.uncertainty, one.hidden)
        if new:
            self._layers.set_base(layer)
            pick_rows.put_marks(self._points(), new)
            self._listener.acted()

    # ------------------------------------------------------------ what is there

    def _base(self) -> Image:
        """The layer of the cube to adapt: of an adapted one, the one before."""
        active = active_cube_layer(self._scene.viewer)
        if active is not None and active is self._layers.adapted:
            return self._layers.base or active
        if active is None:
            raise CubeError(NO_CUBE)
        return active

    def _cube_of(self, layer: Image) -> SpectralCube:
        cube = cube_of(layer)
        if cube is None:
            raise CubeError(NO_CUBE)
        check_cube(cube)
        check_colours(cube)
        return cube

    def _points(self) -> Points:
        points = picks.picks_layer(self._scene.viewer)
        if points is None:
            raise SpectrumError(NO_PICK)
        return points

    def _picked(self, entries: Sequence[Entry]) -> list[int]:
        """The indices of the picks among *entries*. Raises `SpectrumError` if there are none."""
        points = self._points()
        mine = [entry.index for entry in entries if entry.rows.layer is points]
        # The picks of rows that are not drawn anew yet may be gone.
        found = [index for index in mine if index < len(points.data)]
        if not found:
            raise SpectrumError(NO_PICK)
        return found

    def _known(self, layer: Image) -> tuple[list[KnownSpectrum], list[str]]:
        """The known spectra of the pixels of *layer*, and the keys of their marks."""
        points = picks.picks_layer(self._scene.viewer)
        if points is None:
            return [], []
        pixels, inside = picks.pixels_of(points, layer)
        every = zip(
            pick_rows.marks_of(points), pick_rows.keys_of(points), pixels.tolist(), strict=True
        )
        on_it = [each for each, is_inside in zip(every, inside, strict=True) if is_inside]
        known = [(mark.at(*pixel), key) for mark, key, pixel in on_it if mark is not None]
        return [one for one, _ in known], [key for _, key in known]

    def _pick_at(self, layer: Image, row: int, column: int) -> int:
        """The index of the pick at a pixel of *layer*; a new one if there is none."""
        viewer = self._scene.viewer
        points = picks.picks_layer(viewer) or picks.add_picks(viewer, layer)
        at, _ = picks.pixels_of(points, layer)
        there = np.flatnonzero((at == (row, column)).all(axis=1))
        if there.size:
            return int(there[0])
        matrix = to_pixels(layer, points)
        if matrix is None:
            raise SpectrumError("Expected picks on the plane of the cube, got others. Delete them.")
        picks.set_next(points, 1)
        points.add((matrix @ (row, column, 1))[:2])
        # As for a pick that is clicked: napari selects a point that it adds.
        points.selected_data = set()
        return len(points.data) - 1


def _check(cube: SpectralCube, known: KnownSpectrum) -> None:
    """Refuse a known spectrum that does not fit *cube*. Raises `SpectrumError`."""
    known_values(cube, [known])


def _is_news(known: Sequence[KnownSpectrum], former: dict[tuple[int, int], KnownSpectrum]) -> bool:
    """True if any of *known* is not what the cube was adapted to before."""
    for one in known:
        before = former.get((one.row, one.column))
        is_same = before is not None and before.values.shape == one.values.shape
        if before is None or not is_same:
            return True
        if not np.allclose(before.values, one.values, rtol=1e-5, equal_nan=True):
            return True
    return False


def _spots(request: Request, count: int, watch: Watch) -> Spots:
    ground = ground_of(request)
    places = suggest_spots(request.cube, ground.photo, request.known, count, watch=watch)
    return Spots(ground, places)


CLIPBOARD = "the clipboard"
"""The name of copied text in messages."""

PASTED = "pasted"
"""The name of a copied spectrum that has none."""

_SEPARATORS = re.compile(r"[\s,;]+")


def grey(percent: float, wavelengths: NDArray[np.float64]) -> Spectrum:
    """The flat spectrum of a tile that reflects *percent* of the light, at *wavelengths* (B,).

    Raises
    ------
    SpectrumError
        If *percent* is not above 0 and at most 100.
    """
    if not 0 < percent <= 100:
        raise SpectrumError(
            f"Expected a grey above 0 and up to 100 %, got {percent:g} %. "
            "Read it off the tile or its certificate."
        )
    values = np.full(len(wavelengths), percent / 100)
    return Spectrum(wavelengths, values, name=f"{percent:g} % grey")


def pasted(text: str, wavelengths: NDArray[np.float64]) -> list[Spectrum]:
    """The spectra in *text* that a person has copied.

    It is one value for each of *wavelengths* (B,), in a row or a column; or lines of a wavelength
    in nm and a value; or a table with a wavelength first and a column for each spectrum.

    Raises
    ------
    SpectrumError
        If it is none of these.
    CubeFileError
        If it is a table with a damaged row, which is named.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    values = _numbers(lines)
    if values is not None and len(values) == len(wavelengths):
        return [Spectrum(wavelengths, np.array(values), name=PASTED)]
    if values is not None or not lines:
        found = "nothing" if not lines else f"{len(values or ())} numbers"
        raise SpectrumError(
            f"Expected {len(wavelengths)} values, one a band, or lines of a wavelength and a "
            f"value, got {found}. Copy them again."
        )
    curves = table.parse("\n".join(lines), CLIPBOARD, NANOMETRES)
    spectra = table.spectra_of(curves, as_reflectance=True)
    return [
        one if not one.name.startswith("column ") else replace(one, name=PASTED) for one in spectra
    ]


def _numbers(lines: Sequence[str]) -> list[float] | None:
    """The numbers of *lines*, if these are one line or have one each; None for a table."""
    cells = [[cell for cell in _SEPARATORS.split(line) if cell] for line in lines]
    if len(lines) > 1 and any(len(row) > 1 for row in cells):
        return None
    try:
        return [float(cell) for row in cells for cell in row]
    except ValueError:
        return None
