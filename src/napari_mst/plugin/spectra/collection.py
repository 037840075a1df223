"""Gathers the entries that the workbench lists: picks, regions, and spectra from files."""

import weakref
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Points

from napari_mst.plugin.spectra import region_layers
from napari_mst.plugin.spectra.pick_rows import PickRows, cube_at
from napari_mst.plugin.spectra.reader import Reader
from napari_mst.plugin.spectra.region_rows import RegionRows
from napari_mst.plugin.spectra.region_tasks import errors_of, spectra_of
from napari_mst.plugin.spectra.rows import Entry, Spectra, moved_up
from napari_mst.plugin.spectra.settings import Settings
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_of, shown_cube_layers
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.spectra.incremental_means import MovingMeans
from napari_mst.spectra.regions import point_spectrum
from napari_mst.spectra.spectrum import Spectrum


class FileRows:
    """The spectra that were opened from files and belong to no place on the image."""

    def __init__(self) -> None:
        self.spectra: list[Spectrum] = []
        self._hidden = set[int]()

    def remove(self, indices: set[int]) -> None:
        """Take some of the spectra away."""
        kept = [one for index, one in enumerate(self.spectra) if index not in indices]
        self.spectra = kept
        self._hidden = moved_up(self._hidden, indices)

    def clear(self) -> None:
        """Take all spectra away."""
        self.spectra = []
        self._hidden = set()

    def rename(self, index: int, name: str) -> None:
        """Give one of the spectra another name."""
        self.spectra[index] = replace(self.spectra[index], name=name)

    def show(self, indices: set[int], is_shown: bool) -> None:
        """Draw the curves of some of the spectra, or hide them."""
        if is_shown:
            self._hidden -= indices
        else:
            self._hidden |= indices

    def gather(self, layers: Sequence[Image]) -> list[Entry]:
        """The entries of the spectra in the unit of the cube *layers*; of all without a cube."""
        unit = cube_at(layers[0]).unit if layers else None
        # A spectrum from a file lies on no cube: it stands in the column of the first.
        blank = (None,) * max(0, len(layers) - 1)
        rows: list[Spectra] = [(spectrum, *blank) for spectrum in self.spectra]
        return [
            Entry(None, index, rows.__getitem__, is_shown=index not in self._hidden)
            for index, spectrum in enumerate(self.spectra)
            if unit is None or spectrum.unit == unit
        ]


class Collection:
    """Gathers the entries of a viewer; what was read of a cube is kept while it is shown."""

    def __init__(self, reader: Reader) -> None:
        self.picks = PickRows(reader)
        self.regions = RegionRows(reader)
        self.files = FileRows()
        self._reader = reader
        # Weak, so that a reference cube that a person deletes is freed.
        self._reference: weakref.ref[Image] | None = None
        # Only one thread at a time may use it: the reader reads one batch at a time.
        self._moving = MovingMeans()

    def set_reference(self, layer: Image | None) -> None:
        """Compare with the cube *layer* from now on, or with none."""
        self._reference = None if layer is None else weakref.ref(layer)

    def reference(self, viewer: ViewerModel) -> Image | None:
        """The cube layer that the others are compared with, if it is still there."""
        layer = None if self._reference is None else self._reference()
        # A layer that was removed lives on until it is collected: the weak reference is not enough.
        return layer if layer in viewer.layers and cube_of(layer) is not None else None

    def cubes(self, viewer: ViewerModel) -> list[Image]:
        """The cube layers whose spectra are drawn; a reference that is hidden comes last."""
        shown = shown_cube_layers(viewer)
        reference = self.reference(viewer)
        if shown and reference is not None and reference not in shown:
            return [*shown, reference]
        return shown

    def live(
        self, viewer: ViewerModel, position: picks.Position, window: int
    ) -> list[Spectrum | None]:
        """The spectra under the world *position* on each cube; None off the image, and in 3-D."""
        layers = shown_cube_layers(viewer)
        if viewer.dims.ndisplay != 2:
            return [None] * len(layers)
        return [_live(layer, position, window) for layer in layers]

    def gather(self, viewer: ViewerModel, settings: Settings) -> list[Entry]:
        """The entries now; regions that are still to be read are asked for, and come later."""
        layers = self.cubes(viewer)
        reference = self.reference(viewer)
        self.picks.bands.is_on = settings.has_error_bands
        # The picks come first: they tell which error bands are to be read with the regions.
        picked = self.picks.gather(picks.picks_layer(viewer), layers, reference)
        drawn = self._regions(viewer, layers, settings)
        return [*picked, *drawn, *self.files.gather(layers)]

    def _regions(
        self, viewer: ViewerModel, layers: Sequence[Image], settings: Settings
    ) -> list[Entry]:
        """The entries of the regions that are read already."""
        is_reading = settings.has_regions and bool(layers)
        drawn = region_layers.region_layers(viewer) if is_reading else []
        readings = [(on, spectra_of(on, settings.spread, self._moving)) for on in layers]
        reference = self.reference(viewer)
        if reference is not None and layers:
            # The errors come last: `Read` looks for them behind the cubes.
            readings.append((layers[0], errors_of(layers[0], reference)))
        tasks = self.regions.tasks(drawn, readings, viewer)
        wanted = [task for columns in tasks.values() for column in columns for task in column]
        # One list for all: what is not asked for any more is forgotten.
        self._reader.ask([*wanted, *self.picks.bands.tasks])
        return list(self.regions.gather(tasks, len(layers)))

    def forget(self) -> None:
        """Let go of everything that was read."""
        self._reader.forget()
        self.regions.forget()
        self.picks.forget()
        self._moving.forget()

    def show(self, entries: Sequence[Entry], is_shown: bool) -> None:
        """Draw the curves of *entries*, or hide them."""
        for layer in {entry.layer for entry in entries}:
            chosen = {entry.index for entry in entries if entry.layer is layer}
            if isinstance(layer, Points):
                # A copy: napari draws the points again only when `shown` is assigned.
                mask = np.array(layer.shown)
                mask[list(chosen)] = is_shown
                layer.shown = mask
            elif layer is not None:
                self.regions.show(layer, chosen, is_shown)
            else:
                self.files.show(chosen, is_shown)


def _live(layer: Image, position: picks.Position, window: int) -> Spectrum | None:
    pixel = pixel_at(layer, position)
    if pixel is None:
        return None
    row, column = pixel
    return point_spectrum(cube_at(layer), row, column, window, cube_name=layer.name)
