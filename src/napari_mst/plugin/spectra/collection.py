"""Gathers what the spectra dock lists and draws, and what is chosen for that: reference, window, spread."""

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Points
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin.spectra import region_layers
from napari_mst.plugin.spectra.reader import RegionReader
from napari_mst.plugin.spectra.region_tasks import Task, error_band_of, errors_of, spectra_of
from napari_mst.plugin.spectra.rows import Entry, RegionEntries, Spectra, moved_up
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_of, shown_cube_layers
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.spectra.compare import Comparison, compare_spectra
from napari_mst.spectra.incremental_means import MovingMeans
from napari_mst.spectra.regions import Spread, point_spectrum
from napari_mst.spectra.spectrum import MODEL_ERROR, STD, Spectrum
from napari_mst.watch import UNWATCHED

Picked = dict[tuple[int, int, int, str, str, str], Spectrum]
"""Spectra by row, column, window, name of the cube, name and colour."""
AT_ONCE = 5
"""Error bands that are computed while the picks are gathered, once torch is there; each takes half a millisecond."""


class Collection:
    """Gathers the entries of a viewer; what was read of a cube is kept while the cube is shown."""

    def __init__(self, reader: RegionReader) -> None:
        self.reader = reader
        self.regions = RegionEntries(reader)
        self.has_regions = self.has_error_bands = True
        self.spread: Spread = STD
        self.window = 1
        self.loaded: list[Spectrum] = []
        self.reference: weakref.ref[Image] | None = None
        self._hidden_loaded = set[int]()
        self._points = dict[int, tuple[Any, Picked]]()
        self._bands: list[Task] = []
        self._moving = MovingMeans()
        self._has_torch = False

    def show_error_bands(self, is_on: bool) -> None:
        """Give the picks of one pixel their error bands, or not."""
        self.has_error_bands = is_on
        self._points = {}

    def cubes(self, viewer: ViewerModel) -> list[Image]:
        """The cube layers whose spectra are drawn; and last the reference, where it is none of them."""
        shown = shown_cube_layers(viewer)
        reference = self.reference_layer(viewer)
        return (
            [*shown, reference]
            if shown and reference is not None and reference not in shown
            else shown
        )

    def reference_layer(self, viewer: ViewerModel) -> Image | None:
        """The cube layer that the others are compared with, if it is still there."""
        layer = None if self.reference is None else self.reference()
        return layer if layer in viewer.layers and cube_of(layer) is not None else None

    def live(self, viewer: ViewerModel, position: picks.Position) -> list[Spectrum | None]:
        """The spectra under the world *position* on the cubes that are shown."""
        layers = shown_cube_layers(viewer)
        if viewer.dims.ndisplay != 2:
            return [None] * len(layers)
        pixels = [pixel_at(layer, position) for layer in layers]
        return [
            None
            if pixel is None
            else point_spectrum(_cube(layer), *pixel, self.window, cube_name=layer.name)
            for layer, pixel in zip(layers, pixels, strict=True)
        ]

    def gather(self, viewer: ViewerModel) -> list[Entry]:
        """The entries now; regions that are still to be read are asked for, and come later."""
        layers = self.cubes(viewer)
        self._points = {id(cube.data): self._read(cube) for cube in map(_cube, layers)}
        self._bands = []
        return [
            *self._picked(viewer, layers),
            *self._drawn(viewer, layers),
            *self._from_files(layers),
        ]

    def forget(self) -> None:
        """Let go of everything that was read."""
        self.reader.stop()
        self.regions.forget()
        self._moving.forget()
        self._points = {}

    def _read(self, cube: SpectralCube) -> tuple[Any, Picked]:
        return self._points.get(id(cube.data)) or (cube.data, Picked())

    def _picked(self, viewer: ViewerModel, layers: Sequence[Image]) -> list[Entry]:
        points = picks.picks_layer(viewer)
        if points is None or not points.visible:
            return []
        looks = list(zip(picks.names(points), picks.colours(points), strict=True))
        windows = picks.windows(points).tolist()
        columns = [
            self._pixels(layer, *picks.pixels_of(points, layer), windows, looks) for layer in layers
        ]
        shown = points.shown.tolist()
        reference = self.reference_layer(viewer)
        truth = None if reference is None or reference not in layers else layers.index(reference)
        rows: list[Spectra] = list(zip(*columns, strict=True))
        of = (rows.__getitem__, lambda index: _compared(rows[index], truth))
        return [
            Entry(points, index, *of, shown[index])
            for index, row in enumerate(rows)
            if _is_anywhere(row)
        ]

    def _pixels(
        self,
        layer: Image,
        pixels: NDArray[np.int_],
        inside: NDArray[np.bool_],
        windows: Sequence[int],
        looks: Sequence[tuple[str, str]],
    ) -> list[Spectrum | None]:
        """The spectra of the *pixels* (n, 2) of a cube layer; those that were read before are taken from there."""
        cube = _cube(layer)
        before, now = self._points[id(cube.data)][1], Picked()
        spectra = list[Spectrum | None]()
        for (row, column), is_inside, window, look in zip(
            pixels.tolist(), inside, windows, looks, strict=True
        ):
            key = (row, column, window, layer.name, *look)
            if is_inside:
                now[key] = self._with_band(cube, before.get(key) or _picked(cube, *key))
            spectra.append(now[key] if is_inside else None)
        self._points[id(cube.data)] = (cube.data, now)
        return spectra

    def _with_band(self, cube: SpectralCube, spectrum: Spectrum) -> Spectrum:
        """*spectrum* of one pixel with its error band, if that is read already; else it is asked for."""
        is_wanted = (
            self.has_error_bands and cube.has_wavelengths and cube.provenance.error_factor > 0
        )
        row, column = spectrum.origin.row, spectrum.origin.column
        if not is_wanted or spectrum.spread or row is None or column is None:
            return spectrum
        task = error_band_of(cube, row, column)
        read = self.reader.found.get(task.key)
        if task.key not in self.reader.found and self._has_torch and len(self._bands) < AT_ONCE:
            read = task.run(UNWATCHED)
        if read is None:
            self._bands.append(task)
            return spectrum
        self._has_torch = True
        lower, upper = read
        return replace(spectrum, lower=lower, upper=upper, spread=MODEL_ERROR)

    def _drawn(self, viewer: ViewerModel, layers: Sequence[Image]) -> list[Entry]:
        """Entries of the regions that are read already."""
        drawn = region_layers.region_layers(viewer) if self.has_regions and layers else []
        readings = [(on, spectra_of(on, self.spread, self._moving)) for on in layers]
        reference = self.reference_layer(viewer)
        if reference is not None and layers:
            readings.append((layers[0], errors_of(layers[0], reference)))
        tasks = self.regions.tasks(drawn, readings, viewer)
        self.reader.ask(
            [
                *(task for columns in tasks.values() for column in columns for task in column),
                *self._bands,
            ]
        )
        return list(self.regions.gather(tasks, len(layers)))

    def _from_files(self, layers: Sequence[Image]) -> list[Entry]:
        unit = _cube(layers[0]).unit if layers else None
        fits = [unit is None or spectrum.unit == unit for spectrum in self.loaded]
        blank = (None,) * max(0, len(layers) - 1)
        rows: list[Spectra] = [(spectrum, *blank) for spectrum in self.loaded]
        shown = [(index, index not in self._hidden_loaded) for index, fit in enumerate(fits) if fit]
        return [
            Entry(None, index, rows.__getitem__, is_shown=is_shown) for index, is_shown in shown
        ]

    def unload(self, removed: set[int]) -> None:
        """Take spectra from files away."""
        self.loaded = [
            spectrum for index, spectrum in enumerate(self.loaded) if index not in removed
        ]
        self._hidden_loaded = moved_up(self._hidden_loaded, removed)

    def show(self, entries: Sequence[Entry], is_shown: bool) -> None:
        """Draw the curves of *entries*, or not."""
        for layer in {entry.layer for entry in entries}:
            chosen = {entry.index for entry in entries if entry.layer is layer}
            if isinstance(layer, Points):
                mask = np.array(layer.shown)
                mask[list(chosen)] = is_shown
                layer.shown = mask
            elif layer is not None:
                self.regions.show(layer, chosen, is_shown)
            elif is_shown:
                self._hidden_loaded -= chosen
            else:
                self._hidden_loaded |= chosen


def _is_anywhere(spectra: Spectra) -> bool:
    return any(spectrum is not None for spectrum in spectra)


def _cube(layer: Image) -> SpectralCube:
    """The cube of a cube layer."""
    cube = cube_of(layer)
    if cube is None:
        raise TypeError(f"Expected a cube layer, got {layer.name!r}.")
    return cube


def _picked(
    cube: SpectralCube, row: int, column: int, window: int, of: str, name: str, colour: str
) -> Spectrum:
    return point_spectrum(cube, row, column, window, cube_name=of, name=name, colour=colour)


def _compared(spectra: Sequence[Spectrum | None], truth: int | None) -> Comparison | None:
    """The first of *spectra* against that with number *truth*."""
    estimate, reference = spectra[0], None if truth is None else spectra[truth]
    if estimate is None or reference is None:
        return None
    try:
        return compare_spectra(estimate, reference)
    except SpectrumError:
        return None
