"""Looks at the layers of a viewer: which spectra are there, and which band is shown."""

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Points, Shapes

from napari_mst.plugin.jobs.job import Start
from napari_mst.plugin.spectra.pick_rows import ErrorBands, PickRows
from napari_mst.plugin.spectra.reader import Reader, Task
from napari_mst.plugin.spectra.region_tasks import errors_of, spectra_of
from napari_mst.plugin.spectra.regions import (
    Group,
    LabelRows,
    RegionRows,
    ShapeRows,
    region_layers,
)
from napari_mst.plugin.spectra.rows import Entry, FileRows, Rows
from napari_mst.plugin.spectra.snapshot import Bands, Intent, Settings
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import (
    active_cube_layer,
    band_of,
    cube_at,
    cube_of,
    shown_cube_layers,
)
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.plugin.viewer.sharing import ViewerHelper
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
KINDS: dict[type[Layer], type[Rows]] = {Points: PickRows, Shapes: ShapeRows, Labels: LabelRows}
"""The kinds of rows by their layers."""


class Scene(ViewerHelper):
    """The layers of one viewer, and everything read of them.

    It gives new picks and regions names and colours. What was read of a cube is kept while that is
    shown.

    Attributes
    ----------
    reader
        Reads regions and error bands.
    history
        Remembers the picks.
    files
        The rows of spectra from files.
    """

    def __init__(self, viewer: ViewerModel, start_reading: Start) -> None:
        super().__init__(viewer)
        self.reader = Reader(start_reading)
        self.history = picks.History()
        self.files = FileRows()
        self._bands = ErrorBands(self.reader)
        self._rows = WeakKeyDictionary[Layer, Rows]()
        self._groups = dict[RegionRows, Group]()
        # Weak, so that a reference cube that a person deletes is freed.
        self._reference_ref: weakref.ref[Image] | None = None
        # Only one thread at a time may use it: the reader reads one batch at a time.
        self._moving = MovingMeans()

    @property
    def is_closed(self) -> bool:
        """True when the viewer is gone."""
        return self._viewer_ref() is None

    @property
    def points(self) -> Points | None:
        """The layer of the picks, if there is one."""
        return picks.picks_layer(self.viewer)

    @property
    def reference(self) -> Image | None:
        """The cube layer that the others are compared with, if it is still there."""
        layer = None if self._reference_ref is None else self._reference_ref()
        # A layer that was removed lives on until it is collected: the weak reference is not enough.
        return layer if layer in self.viewer.layers and cube_of(layer) is not None else None

    @reference.setter
    def reference(self, layer: Image | None) -> None:
        self._reference_ref = None if layer is None else weakref.ref(layer)

    @property
    def has_pages(self) -> bool:
        """True if there are stacked labels, which show another page when the slider moves."""
        return any(rows.has_pages for rows in map(self._rows_of, self.viewer.layers) if rows)

    def forget(self) -> None:
        """Let go of everything that was read."""
        self.reader.forget()
        self._groups = {}
        self.forget_picks()
        self._moving.forget()

    def forget_picks(self) -> None:
        """Read the picks again at the next time."""
        for rows in self._rows.values():
            rows.forget()

    def _rows_of(self, layer: Layer | None) -> Any:
        """The rows of *layer*; None if it can have none."""
        kind = next((KINDS[base] for base in KINDS if isinstance(layer, base)), None)
        if layer is None or kind is None:
            return None
        if layer not in self._rows:
            self._rows[layer] = kind(layer)
        return self._rows[layer]

    # ------------------------------------------------------------ listening

    def layer_of(self, event: Any) -> Layer | None:
        """The layer that an event of the layers is about; None if it is about their list."""
        # The list of layers passes on the events of each layer, with the index of that layer.
        index = getattr(event, "index", None)
        is_one = isinstance(index, int) and 0 <= index < len(self.viewer.layers)
        # A layer that was removed had the index that another one has by now.
        return self.viewer.layers[index] if is_one and event.type != "removed" else None

    def is_stale_after(self, event: Any, *, has_regions: bool) -> bool:
        """True if curves may be others after *event*; new picks and regions get their looks."""
        layer = self.layer_of(event)
        rows = self._rows_of(layer)
        # It comes with every redrawing, and counts where napari has no other event for a change.
        if event.type == "set_data":
            return rows is not None and bool(rows.is_redrawn_otherwise)
        if event.type not in CHANGES:
            return False
        if rows is not None:
            rows.changed(has_other_pixels=event.type in PAINTED)
        if event.type == "data" and rows is not None:
            self._on_data(event, rows, has_regions)
        if event.type == "inserted":
            if has_regions:
                self._tell_apart(event.value)
            # If these are picks from a file, the first undo goes back to what they are now.
            self.history.record(self.points)
        return True

    def _on_data(self, event: Any, rows: Rows, has_regions: bool) -> None:
        action = getattr(event, "action", None)
        if action == "removed":
            rows.removed(set(event.data_indices))
        # What an undo brings back has its names and colours already.
        if action != "added" or self.history.is_undoing:
            return
        # napari gives a new point the colour and the name of the one before.
        if rows.layer is self.points:
            picks.tell_apart(rows.layer, event.data_indices)
            picks.name_all(rows.layer, event.data_indices)
        elif has_regions:
            self._tell_apart(rows.layer)

    def _tell_apart(self, layer: Layer) -> None:
        """Give the regions of *layer* colours that no pick has, and no two of them share."""
        rows = self._rows_of(layer)
        if rows is not None:
            rows.tell_apart(np.empty((0, 4)) if self.points is None else self.points.face_color)

    def tell_regions_apart(self) -> None:
        """Give all regions colours of their own."""
        for layer in region_layers(self.viewer):
            self._tell_apart(layer)

    def record(self) -> None:
        """Name the picks that have no name, and remember all of them as a step to undo."""
        points = self.points
        if points is not None:
            picks.name_all(points)
            self.history.record(points)

    # ------------------------------------------------------------ gathering

    def gathered(self, intent: Intent) -> Intent:
        """*intent* with the entries that are there now; regions are asked for, and come later."""
        layers = shown_cube_layers(self.viewer)
        reference = self.reference
        # A reference that is hidden comes last.
        if layers and reference is not None and reference not in layers:
            layers = [*layers, reference]
        entries = [
            *self._picks(layers, intent.settings),
            *self._regions(layers, intent.settings),
            *self.files.gather(layers),
        ]
        # A table of another size is built from scratch, with nothing selected: rows have moved.
        is_same_table = len(entries) == len(intent.entries)
        is_same_table &= (reference is not None) == intent.has_reference
        return replace(
            intent,
            entries=entries,
            groups=list(self._groups.values()),
            chosen=intent.chosen if is_same_table else (),
            cube_names=tuple(layer.name for layer in layers),
            has_reference=reference is not None,
        )

    def _picks(self, layers: Sequence[Image], settings: Settings) -> list[Entry]:
        """The entries of the picks; they come first, as they say which error bands are missing."""
        self._bands.is_on = settings.has_error_bands
        self._bands.begin()
        rows = self._rows_of(self.points)
        return [] if rows is None else list(rows.gather(self._bands, layers, self.reference))

    def _regions(self, layers: Sequence[Image], settings: Settings) -> list[Entry]:
        """The entries of the regions that are read already."""
        is_reading = settings.has_regions and bool(layers)
        every = map(self._rows_of, region_layers(self.viewer) if is_reading else [])
        readings = [spectra_of(on, settings.spread, self._moving) for on in layers]
        if self.reference is not None and layers:
            # The errors come last: `Group` looks for them behind the cubes.
            readings.append(errors_of(layers[0], self.reference))
        tasks: dict[RegionRows, list[list[Task]]] = {
            rows: [rows.tasks(reading, self.viewer) for reading in readings] for rows in every
        }
        wanted = [task for columns in tasks.values() for column in columns for task in column]
        # One list for all: what is not asked for any more is forgotten.
        self.reader.ask([*wanted, *self._bands.tasks])
        before, self._groups = self._groups, {}
        for rows, columns in tasks.items():
            read = [rows.read(self.reader.latest, column) for column in columns]
            group = before.get(rows)
            # To hide or show a curve makes another version, too: it stands for all of the looks.
            if group is None or not group.is_of(rows, read, len(layers)):
                group = Group(rows, read, len(layers))
            self._groups[rows] = group
        return [entry for group in self._groups.values() for entry in group.entries]

    def with_live(self, intent: Intent, position: Position | None) -> Intent:
        """*intent* with the spectra under the world *position* of the mouse, outside 3-D."""
        if position is None:
            return replace(intent, live=())
        layers = shown_cube_layers(self.viewer)
        is_flat = self.viewer.dims.ndisplay == 2
        window = intent.settings.window
        live = (_live(layer, position, window) if is_flat else None for layer in layers)
        return replace(intent, live=tuple(live))

    def with_bands(self, intent: Intent) -> Intent:
        """*intent* with the bands of the selected cube."""
        layer = active_cube_layer(self.viewer)
        if layer is None:
            return replace(intent, bands=None)
        cube = cube_at(layer)
        shown = float(cube.wavelengths[band_of(layer, self.viewer.dims.point)])
        bands = Bands(cube.wavelengths, cube.unit, cube.quantity, shown)
        return replace(intent, bands=bands, wavelength=shown)

    def rows_of_points(self, entries: Sequence[Entry], chosen: Sequence[int]) -> list[int] | None:
        """The rows of the points selected on the image; None if just these are *chosen* already."""
        picked = self._rows_of(self.points)
        if picked is None:
            return None
        rows = {row for row, entry in enumerate(entries) if entry.rows is picked}
        indices = picked.layer.selected_data
        selected = {row for row in rows if entries[row].index in indices}
        if selected == rows.intersection(chosen):
            return None
        # Where no point is selected, regions that are selected stay so.
        return sorted(selected or set(chosen) - rows)


def _live(layer: Image, position: Position, window: int) -> Spectrum | None:
    pixel = pixel_at(layer, position)
    if pixel is None:
        return None
    return point_spectrum(cube_at(layer), *pixel, window, cube_name=layer.name)
