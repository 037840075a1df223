"""Hands the spectra that are shown to a file or the clipboard, and puts those of a file back."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin.jobs.job import Job, Start
from napari_mst.plugin.spectra import regions
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at
from napari_mst.plugin.viewer.placement import to_pixels
from napari_mst.spectra.library import write_spectra
from napari_mst.spectra.regions import Region, point_spectrum, region_spectrum
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import Watch

SAME = 1e-5
"""Largest relative difference at which two spectra are the same; text files and float32 round."""
Use = Callable[[list[Spectrum]], Any]
"""Does something with spectra; thousands take seconds: a dock has it called on a thread."""


class Saver:
    """Has spectra used: *say* is called with what was done, *on_failed* with what went wrong."""

    def __init__(
        self, start: Start, say: Callable[[str], None], on_failed: Callable[[Exception], Any]
    ) -> None:
        self._start = start
        self._say = say
        self._on_failed = on_failed
        # A count, as one save may begin before another has ended.
        self._running = 0

    @property
    def is_busy(self) -> bool:
        """True while spectra are being written."""
        return self._running > 0

    def save(self, entries: Sequence[Entry], path: str | PathLike[str]) -> None:
        """Write the spectra of *entries* to `.csv` or `.sli`, as they were measured."""
        name = Path(path).name
        self.use(
            entries, partial(_write, path), lambda count: f"{count:,} spectra saved as {name}."
        )

    def use(self, entries: Sequence[Entry], use: Use, said: Callable[[Any], str]) -> None:
        """Have *use* called with the spectra of *entries*; *said* words its result."""
        # The slot must not hold the entries: some workers outlive their work, and keep their slots.
        say = self._say
        self._running += 1
        run = partial(_used, use, entries)
        self._start(Job(run, lambda result: say(said(result)), self._on_failed, self._on_end))

    def _on_end(self) -> None:
        self._running -= 1


def spectra_of(entries: Sequence[Entry]) -> list[Spectrum]:
    """The spectra of *entries* as they were measured; may be called on any thread."""
    return [spectrum for entry in entries for spectrum in entry.spectra if spectrum is not None]


def _used(use: Use, entries: Sequence[Entry], _: Watch) -> Any:
    return use(spectra_of(entries))


def _write(path: str | PathLike[str], spectra: list[Spectrum]) -> int:
    write_spectra(path, spectra, overwrite=True)
    return len(spectra)


def restore(viewer: ViewerModel, spectra: Sequence[Spectrum]) -> list[Spectrum]:
    """Put *spectra* of the active cube back as picks and polygons; returns the others.

    A spectrum is put back only where the cube has its values, so that the plot shows exactly what
    was saved.
    """
    layer = active_cube_layer(viewer)
    if layer is None:
        return list(spectra)
    cube = cube_at(layer)
    pinned = list[Spectrum]()
    drawn = list[Spectrum]()
    others = list[Spectrum]()
    for spectrum in spectra:
        kind = others
        if _is_of(cube, spectrum):
            kind = drawn if spectrum.origin.row is None else pinned
        kind.append(spectrum)
    if pinned:
        _pin(viewer, layer, pinned)
    if drawn:
        _draw(viewer, layer, drawn)
    return others


def _is_of(cube: SpectralCube, spectrum: Spectrum) -> bool:
    """True if *cube* has the values of *spectrum* where that was taken."""
    origin = spectrum.origin
    if not np.array_equal(cube.wavelengths, spectrum.wavelengths):
        return False
    try:
        if origin.row is not None and origin.column is not None:
            there = point_spectrum(cube, origin.row, origin.column, origin.window)
        elif origin.vertices:
            region = Region.of_polygon(origin.vertices, cube.shape[1:])
            there = region_spectrum(cube, region, spread="")
        else:
            return False
    except SpectrumError:  # off the image
        return False
    return np.allclose(there.values, spectrum.values, rtol=SAME, atol=SAME, equal_nan=True)


def _pin(viewer: ViewerModel, layer: Image, spectra: Sequence[Spectrum]) -> None:
    points = picks.picks_layer(viewer) or picks.add_picks(viewer, layer)
    pixels, _ = picks.pixels_of(points, layer)
    pairs = zip(pixels.tolist(), picks.windows(points).tolist(), strict=True)
    taken = {(*pixel, window) for pixel, window in pairs}
    for spectrum in spectra:
        window = spectrum.origin.window
        pixel: Any = (spectrum.origin.row, spectrum.origin.column)
        # The same file may be opened twice.
        if (*pixel, window) not in taken:
            taken.add((*pixel, window))
            is_added = picks.add(points, layer, pixel, window, spectrum.name)
            if is_added and spectrum.colour:
                picks.recolour(points, len(points.data) - 1, spectrum.colour)
    picks.set_next(points, 1)


def _draw(viewer: ViewerModel, layer: Image, spectra: Sequence[Spectrum]) -> None:
    # A new layer would be selected; what the user has selected stays so.
    active = viewer.layers.selection.active
    shapes = regions.add_regions(viewer, layer)
    matrix = to_pixels(layer, shapes)
    viewer.layers.selection.active = active
    if matrix is not None:
        corners = [np.array(spectrum.origin.vertices) for spectrum in spectra]
        outlines = [one @ matrix[:2, :2].T + matrix[:2, 2] for one in corners]
        tints = [spectrum.colour or picks.PALETTE[0] for spectrum in spectra]
        shapes.add_polygons(outlines, edge_color=tints)
        shapes.features = {"name": [spectrum.name for spectrum in spectra]}
