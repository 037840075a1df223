"""What the spectra dock lists and draws: an entry for each pick and each region, with its spectra on all cubes."""

import weakref
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Points, Shapes
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.plugin import picks, regions
from napari_mst.plugin.layers import cube_of, pixel_at, shown_cube_layers
from napari_mst.plugin.reader import RegionReader
from napari_mst.spectra.compare import Comparison, compare_spectra
from napari_mst.spectra.regions import Spread, point_spectrum
from napari_mst.spectra.spectrum import MODEL_ERROR, STD, Spectrum

Picked = dict[tuple[int, int, int, str, str, str], Spectrum]
"""Spectra by row, column, window, name of the cube, name and colour."""
AT_ONCE = 5
"""Error bands that are computed while the picks are gathered, once torch is there; each takes half a millisecond."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A pick or a region.

    Attributes
    ----------
    layer, index
        The Points, Shapes or Labels layer that it is on, and which of its points, shapes or labels; no layer if it
        is from a file.
    spectra
        On each of the cubes that are shown, in their order; None where it is off the image, or not read yet.
    is_shown
        Whether its curves are drawn.
    comparison
        How far the spectrum on the first cube is from the reference; None where there is none, or it is not read yet.
    """

    layer: Layer | None
    index: int
    spectra: tuple[Spectrum | None, ...]
    is_shown: bool = True
    comparison: Comparison | None = None

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


class Collection:
    """Gathers the entries of a viewer; what was read of a cube is kept while the cube is shown."""

    def __init__(self, reader: RegionReader) -> None:
        self.reader = reader
        self.has_regions = self.has_error_bands = True
        self.left_out = dict[str, int]()
        """How many labels of a layer there are, where not all are read."""
        self.spread: Spread = STD
        self.window = 1
        self.loaded: list[Spectrum] = []
        self.reference: weakref.ref[Image] | None = None
        self._hidden: weakref.WeakKeyDictionary[Layer, set[int]] = weakref.WeakKeyDictionary()
        self._hidden_loaded = set[int]()
        self._versions: weakref.WeakKeyDictionary[Layer, int] = weakref.WeakKeyDictionary()
        self._before = dict[tuple[int, int, int], dict[int, Any]]()
        self._points = dict[int, tuple[Any, Picked]]()
        self._bands: list[regions.Task] = []
        self._has_torch = False

    def show_error_bands(self, is_on: bool) -> None:
        """Give the picks of one pixel their error bands, or not."""
        self.has_error_bands = is_on
        self._points = {}

    def cubes(self, viewer: ViewerModel) -> list[Image]:
        """The cube layers whose spectra are drawn; and last the reference, where it is none of them."""
        shown = shown_cube_layers(viewer)
        reference = self.reference_layer(viewer)
        return [*shown, reference] if shown and reference is not None and reference not in shown else shown

    def reference_layer(self, viewer: ViewerModel) -> Image | None:
        """The cube layer that the others are compared with, if it is still there."""
        layer = None if self.reference is None else self.reference()
        return layer if layer in viewer.layers and cube_of(layer) is not None else None

    def changed(self, layer: Layer) -> None:
        """The labels of *layer* are others."""
        self._versions[layer] = self._versions.get(layer, 0) + 1

    def live(self, viewer: ViewerModel, position: picks.Position) -> list[Spectrum | None]:
        """The spectra under the world *position* on the cubes that are shown."""
        layers = shown_cube_layers(viewer)
        if viewer.dims.ndisplay != 2:
            return [None] * len(layers)
        pixels = [pixel_at(layer, position) for layer in layers]
        return [
            None if pixel is None else point_spectrum(_cube(layer), *pixel, self.window, cube_name=layer.name)
            for layer, pixel in zip(layers, pixels, strict=True)
        ]

    def gather(self, viewer: ViewerModel) -> list[Entry]:
        """The entries now; regions that are still to be read are asked for, and come later."""
        layers = self.cubes(viewer)
        self._points = {id(cube.data): self._read(cube) for cube in map(_cube, layers)}
        self._bands, self.left_out = [], {}
        entries = [*self._picked(viewer, layers), *self._drawn(viewer, layers), *self._from_files(layers)]
        return [entry for entry in entries if any(spectrum is not None for spectrum in entry.spectra)]

    def forget(self) -> None:
        """Let go of everything that was read."""
        self.reader.stop()
        self._points, self._before = {}, {}

    def _read(self, cube: SpectralCube) -> tuple[Any, Picked]:
        return self._points.get(id(cube.data)) or (cube.data, Picked())

    def _picked(self, viewer: ViewerModel, layers: Sequence[Image]) -> list[Entry]:
        points = picks.picks_layer(viewer)
        if points is None or not points.visible:
            return []
        looks = list(zip(picks.names(points), picks.colours(points), strict=True))
        windows = picks.windows(points).tolist()
        columns = [self._pixels(layer, *picks.pixels_of(points, layer), windows, looks) for layer in layers]
        shown = points.shown.tolist()
        reference = self.reference_layer(viewer)
        truth = None if reference is None or reference not in layers else layers.index(reference)
        rows = enumerate(zip(*columns, strict=True))
        return [Entry(points, index, spectra, shown[index], _compared(spectra, truth)) for index, spectra in rows]

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
        for (row, column), is_inside, window, look in zip(pixels.tolist(), inside, windows, looks, strict=True):
            key = (row, column, window, layer.name, *look)
            if is_inside:
                now[key] = self._with_band(cube, before.get(key) or _picked(cube, *key))
            spectra.append(now[key] if is_inside else None)
        self._points[id(cube.data)] = (cube.data, now)
        return spectra

    def _with_band(self, cube: SpectralCube, spectrum: Spectrum) -> Spectrum:
        """*spectrum* of one pixel with its error band, if that is read already; else it is asked for."""
        is_wanted = self.has_error_bands and cube.has_wavelengths and cube.provenance.error_factor > 0
        row, column = spectrum.origin.row, spectrum.origin.column
        if not is_wanted or spectrum.spread or row is None or column is None:
            return spectrum
        task = regions.error_band_of(cube, row, column)
        read = self.reader.found.get(task.key)
        if read is None and self._has_torch and len(self._bands) < AT_ONCE:
            read = task.run()
        if read is None or read.get(0) is None:
            self._bands.append(task)
            return spectrum
        self._has_torch = True
        lower, upper = read[0]
        return replace(spectrum, lower=lower, upper=upper, spread=MODEL_ERROR)

    def _drawn(self, viewer: ViewerModel, layers: Sequence[Image]) -> Iterator[Entry]:
        """Entries of the regions that are read already."""
        drawn = regions.region_layers(viewer) if self.has_regions and layers else []
        reads = [(on, regions.spectra_of(on, self.spread)) for on in layers]
        reference = self.reference_layer(viewer)
        if reference is not None and layers:
            reads.append((layers[0], regions.errors_of(layers[0], reference)))
        grid = {layer: [self._tasks(layer, on, viewer, read) for on, read in reads] for layer in drawn}
        self.reader.ask([*(task for columns in grid.values() for column in columns for task in column), *self._bands])
        for layer, columns in grid.items():
            yield from self._regions_of(layer, [self._found(layer, *one) for one in enumerate(columns)], len(layers))

    def _tasks(self, layer: Any, on: Image, viewer: ViewerModel, reads: regions.Reads) -> list[regions.Task]:
        return regions.tasks_of(layer, on, self._versions.get(layer, 0), viewer, reads)

    def _regions_of(self, layer: Any, found: Sequence[dict[int, Any]], cubes: int) -> Iterator[Entry]:
        """The entries of one layer; what was *found* on each cube, and last, perhaps, how far it is from the truth."""
        hidden = self._hidden.get(layer, set())
        for index in sorted(set().union(*found[:cubes])):
            spectra = [one.get(index) for one in found[:cubes]]
            named = tuple(s and regions.named(layer, index, s) for s in spectra)
            errors = found[cubes].get(index) if len(found) > cubes else None
            yield Entry(layer, index, named, index not in hidden, errors)

    def _found(self, layer: Layer, number: int, tasks: Sequence[regions.Task]) -> dict[int, Any]:
        """What was read by the index of its shape, or by its label; what is being read stays as it was before."""
        key = (id(layer), number, len(tasks))
        before = self._before.get(key, {})
        every = [self.reader.found.get(task.key) for task in tasks]
        if isinstance(layer, Labels):
            found = next((one for one in every if one is not None), before)
            if isinstance(found, regions.Readings) and found.total > len(found):
                self.left_out[layer.name] = found.total
        else:
            now = [before.get(index) if one is None else one.get(0) for index, one in enumerate(every)]
            found = {index: one for index, one in enumerate(now) if one is not None}
        self._before[key] = found
        return found

    def _from_files(self, layers: Sequence[Image]) -> list[Entry]:
        unit = _cube(layers[0]).unit if layers else None
        fits = [unit is None or spectrum.unit == unit for spectrum in self.loaded]
        blank = [None] * max(0, len(layers) - 1)
        return [
            Entry(None, index, (spectrum, *blank), index not in self._hidden_loaded)
            for index, (spectrum, fit) in enumerate(zip(self.loaded, fits, strict=True))
            if fit
        ]

    def forget_regions(self, layer: Shapes, removed: Set[int]) -> None:
        """Shapes with these indices are gone: those after them move up, hidden or not."""
        if layer in self._hidden:
            self._hidden[layer] = _moved_up(self._hidden[layer], removed)

    def unload(self, removed: Set[int]) -> None:
        """Take spectra from files away."""
        self.loaded = [spectrum for index, spectrum in enumerate(self.loaded) if index not in removed]
        self._hidden_loaded = _moved_up(self._hidden_loaded, removed)

    def show(self, entries: Sequence[Entry], is_shown: bool) -> None:
        """Draw the curves of *entries*, or not."""
        for layer in {entry.layer for entry in entries}:
            chosen = {entry.index for entry in entries if entry.layer is layer}
            if isinstance(layer, Points):
                mask = np.array(layer.shown)
                mask[list(chosen)] = is_shown
                layer.shown = mask
            else:
                hidden = self._hidden_loaded if layer is None else self._hidden.setdefault(layer, set())
                hidden.difference_update(chosen) if is_shown else hidden.update(chosen)


def _moved_up(hidden: set[int], removed: Set[int]) -> set[int]:
    """The indices in *hidden*, as they are when those *removed* are gone."""
    return {index - sum(gone < index for gone in removed) for index in hidden if index not in removed}


def _cube(layer: Image) -> SpectralCube:
    """The cube of a cube layer."""
    cube = cube_of(layer)
    if cube is None:
        raise TypeError(f"Expected a cube layer, got {layer.name!r}.")
    return cube


def _picked(cube: SpectralCube, row: int, column: int, window: int, of: str, name: str, colour: str) -> Spectrum:
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
