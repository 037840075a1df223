"""Looks at the layers of a viewer: which spectra are there, and which band is shown."""

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Points, Shapes

from napari_mst.plugin.spectra import regions
from napari_mst.plugin.spectra.pick_rows import PickRows, cube_at
from napari_mst.plugin.spectra.reader import Reader
from napari_mst.plugin.spectra.region_tasks import errors_of, spectra_of
from napari_mst.plugin.spectra.regions import RegionRows
from napari_mst.plugin.spectra.rows import Entry, Spectra, moved_up
from napari_mst.plugin.spectra.snapshot import Bands, Intent, Settings
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of, shown_cube_layers
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.spectra.incremental_means import MovingMeans
from napari_mst.spectra.regions import point_spectrum
from napari_mst.spectra.spectrum import Spectrum

CHANGES = frozenset(
    [
        # the list of layers
        "inserted",
        "removed",
        "reordered",
        # one layer
        "visible",
        "name",
        "data",
        "features",
        # its colours
        "face_color",
        "current_face_color",
        "edge_color",
        "current_edge_color",
        "colormap",
        # its place
        "scale",
        "translate",
        "rotate",
        "shear",
        "affine",
        # the pixels of labels
        "paint",
        "labels_update",
    ]
)
"""napari's names of the events after which curves may be others."""
PAINTED = frozenset(["data", "paint", "labels_update"])
"""The events after which the pixels of labels may be others."""


def layer_of(event: Any, viewer: ViewerModel) -> Layer | None:
    """The layer that an event of the layers is about; None if it is about their list."""
    # The list of layers passes on the events of each layer, with the index of that layer.
    index = getattr(event, "index", None)
    is_one = isinstance(index, int) and 0 <= index < len(viewer.layers)
    # A layer that was removed had the index that another one has by now.
    return viewer.layers[index] if is_one and event.type != "removed" else None


def tell_apart(viewer: ViewerModel, layer: Layer) -> None:
    """Give the shapes of *layer* colours that no pick has, and no two of them share."""
    if isinstance(layer, Shapes):
        points = picks.picks_layer(viewer)
        picked = np.empty((0, 4)) if points is None else points.face_color
        regions.tell_apart(layer, picked)


class LayerEvents:
    """Gives new picks and regions names and colours, and tells after which events curves differ."""

    def __init__(self, regions: RegionRows, history: picks.History) -> None:
        self._regions = regions
        self._history = history

    def hear(self, event: Any, viewer: ViewerModel, *, has_regions: bool) -> bool:
        """True if curves may be others after *event*; shapes get colours if there are regions."""
        layer = layer_of(event, viewer)
        # It comes with every redrawing, and counts where napari has no other event for a change.
        if event.type == "set_data":
            return self._is_reshaped(layer)
        if event.type not in CHANGES:
            return False
        if isinstance(layer, Labels):
            self._regions.changed(layer, has_other_pixels=event.type in PAINTED)
        if event.type == "data":
            self._on_data(event, layer, viewer, has_regions)
        if event.type == "inserted":
            if has_regions:
                tell_apart(viewer, event.value)
            # If these are picks from a file, the first undo goes back to what they are now.
            self._history.record(picks.picks_layer(viewer))
        return True

    def _is_reshaped(self, layer: Layer | None) -> bool:
        """True if a redrawing was a shape that is being dragged, or paint that was undone."""
        if isinstance(layer, Labels):
            return self._regions.is_undone(layer)
        return isinstance(layer, Shapes)

    def _on_data(
        self, event: Any, layer: Layer | None, viewer: ViewerModel, has_regions: bool
    ) -> None:
        action = getattr(event, "action", None)
        if action == "removed" and isinstance(layer, Shapes):
            self._regions.removed(layer, set(event.data_indices))
        # What an undo brings back has its names and colours already.
        if action == "added" and layer is not None and not self._history.is_undoing:
            self._on_added(layer, event.data_indices, viewer, has_regions)

    def _on_added(
        self, layer: Layer, added: Sequence[int], viewer: ViewerModel, has_regions: bool
    ) -> None:
        # napari gives a new point the colour and the name of the one before.
        if layer is picks.picks_layer(viewer):
            picks.tell_apart(layer, added)
            picks.name_all(layer, added)
        elif has_regions:
            tell_apart(viewer, layer)


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
        drawn = regions.region_layers(viewer) if is_reading else []
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


class Scene:
    """The layers of one viewer, which it does not keep alive, and everything read of them."""

    def __init__(self, viewer: ViewerModel, reader: Reader) -> None:
        self.reader = reader
        self.collection = Collection(reader)
        self.history = picks.History()
        self._viewer_ref = weakref.ref(viewer)
        self._events = LayerEvents(self.collection.regions, self.history)

    @property
    def is_closed(self) -> bool:
        """True when the viewer is gone."""
        return self._viewer_ref() is None

    @property
    def viewer(self) -> ViewerModel:
        """The viewer whose layers hold picks and regions."""
        viewer = self._viewer_ref()
        if viewer is None:
            raise RuntimeError("Expected an open viewer, got one that is closed. Make a new bench.")
        return viewer

    @property
    def picks(self) -> Points | None:
        """The layer of the picks, if there is one."""
        return picks.picks_layer(self.viewer)

    @property
    def reference(self) -> Image | None:
        """The cube layer that the others are compared with, if it is still there."""
        return self.collection.reference(self.viewer)

    @property
    def has_pages(self) -> bool:
        """True if there are stacked labels, which show another page when the slider moves."""
        layers = self.viewer.layers
        return any(isinstance(layer, Labels) and layer.ndim > 2 for layer in layers)

    def is_stale_after(self, event: Any, *, has_regions: bool) -> bool:
        """True if curves may be others after *event*; new picks and regions get their looks."""
        return self._events.hear(event, self.viewer, has_regions=has_regions)

    def record(self) -> None:
        """Name the picks that have no name, and remember all of them as a step to undo."""
        points = self.picks
        if points is not None:
            picks.name_all(points)
            self.history.record(points)

    def tell_regions_apart(self) -> None:
        """Give all regions colours of their own."""
        for layer in regions.region_layers(self.viewer):
            tell_apart(self.viewer, layer)

    def gathered(self, intent: Intent) -> Intent:
        """*intent* with the entries that are there now."""
        entries = self.collection.gather(self.viewer, intent.settings)
        has_reference = self.reference is not None
        # A table of another size is built anew, and then nothing is selected: rows have moved.
        is_same_table = len(entries) == len(intent.entries)
        is_same_table &= has_reference == intent.has_reference
        return replace(
            intent,
            entries=entries,
            groups=self.collection.regions.groups,
            chosen=intent.chosen if is_same_table else (),
            cube_names=tuple(layer.name for layer in self.collection.cubes(self.viewer)),
            has_reference=has_reference,
        )

    def with_live(self, intent: Intent, position: Position | None) -> Intent:
        """*intent* with the spectra under the world *position* of the mouse."""
        live: list[Spectrum | None] = []
        if position is not None:
            live = self.collection.live(self.viewer, position, intent.settings.window)
        return replace(intent, live=tuple(live))

    def with_bands(self, intent: Intent) -> Intent:
        """*intent* with the bands of the selected cube."""
        layer = active_cube_layer(self.viewer)
        cube = cube_of(layer)
        if layer is None or cube is None:
            return replace(intent, bands=None)
        shown = float(cube.wavelengths[band_of(layer, self.viewer.dims.point)])
        bands = Bands(cube.wavelengths, cube.unit, cube.quantity, shown)
        return replace(intent, bands=bands, wavelength=shown)

    def rows_of_points(self, entries: Sequence[Entry], chosen: Sequence[int]) -> list[int] | None:
        """The rows of the points selected on the image; None if just these are *chosen* already."""
        points = self.picks
        if points is None:
            return None
        selected = points.selected_data
        rows = {row for row, entry in enumerate(entries) if entry.layer is points}
        wanted = {row for row in rows if entries[row].index in selected}
        if wanted == rows.intersection(chosen):
            return None
        # Where no point is selected, regions that are selected stay so.
        return sorted(wanted or set(chosen) - rows)

    def forget(self) -> None:
        """Let go of everything that was read."""
        self.collection.forget()
