"""The content of the spectra docks of a viewer: one frozen `Snapshot` after another."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from napari.components import ViewerModel
from napari.layers import Image, Points
from psygnal import Signal

from napari_mst.base.errors import plain
from napari_mst.plugin.jobs.task import Start
from napari_mst.plugin.spectra.resolve import CubeBands, Snapshot, resolve
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.viewer_layers import ViewerLayers
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_at, cube_of, weak
from napari_mst.plugin.viewer.sharing import ViewerHelper


class ShownSpectra(ViewerHelper):
    """Shows the spectra of the layers of one viewer, snapshot by snapshot.

    Attributes
    ----------
    layers
        The layers of the viewer, and everything read from them.
    snapshot
        The present content, since the last `changed`.
    changed
        Emitted with the new snapshot.
    """

    changed = Signal(Snapshot)

    def __init__(self, viewer: ViewerModel, start_reading: Start) -> None:
        super().__init__(viewer)
        self.layers = ViewerLayers(viewer, start_reading)
        self.layers.reader.read_more.connect(self.touch)
        self.snapshot = self._next = Snapshot()  # `publish` turns the next into the snapshot
        self._reference_ref = weak(None)
        self._is_stale = True

    @property
    def is_closed(self) -> bool:
        """True when the viewer is gone."""
        return self._viewer_ref() is None

    @property
    def points(self) -> Points | None:
        """The layer of the picks, if there is one."""
        return self.layers.points

    @property
    def reference(self) -> Image | None:
        """The cube layer to which the others are compared, if it is still there."""
        layer: Image | None = self._reference_ref()
        # A removed layer lives on until it is garbage-collected.
        return layer if self.has(layer) and cube_of(layer) is not None else None

    @reference.setter
    def reference(self, layer: Image | None) -> None:
        self._reference_ref = weak(layer)
        self.touch()

    @property
    def entries(self) -> Sequence[Entry]:
        """The rows: picks, regions, and spectra from files."""
        return self._next.entries

    @property
    def shown(self) -> list[Entry]:
        """The rows whose curves are drawn."""
        return [entry for entry in self.entries if entry.is_shown]

    @property
    def chosen(self) -> list[Entry]:
        """The rows that are selected."""
        return [self.entries[row] for row in self._next.chosen]

    def rows_of_points(self) -> list[int] | None:
        """Return the rows of the points selected on the image; None if already chosen."""
        points = self.points
        if points is None:
            return None
        rows = {row: each.index for row, each in enumerate(self.entries) if each.layer is points}
        selected = {row for row, index in rows.items() if index in points.selected_data}
        chosen = set(self._next.chosen)
        if selected == chosen.intersection(rows):
            return None
        # If no point is selected, selected regions stay selected.
        return sorted(selected or chosen.difference(rows))

    def touch(self) -> None:
        """Mark everything as stale, to be gathered again at the next `update`."""
        self._is_stale = True

    def intend(self, **changes: Any) -> None:
        """Change parts of the next snapshot."""
        self._next = replace(self._next, **changes)

    def publish(self, **changes: Any) -> None:
        """Show the next snapshot, with these *changes* to it."""
        if self.is_closed:  # closed while a file was being written
            return
        layer = active_cube_layer(self.viewer)
        bands = None
        if layer is not None:
            cube = cube_at(layer)
            shown = float(cube.wavelengths[band_of(layer, self.viewer.dims.point)])
            bands = CubeBands(tuple(cube.wavelengths), cube.unit, cube.quantity, shown)
        self.intend(**changes, bands=bands)
        self.snapshot = self._next = resolve(self._next, self.snapshot)
        self.changed.emit(self.snapshot)

    def end_action(self) -> None:
        """Close an action of the user, which can be undone in one step."""
        self.intend(problem="")
        self.layers.record()
        self.touch()

    def say(self, text: str) -> None:
        """Show *text* until the mouse moves over the image."""
        # Otherwise the place of the spectrum under the mouse would be shown instead.
        self.layers.position = None
        self.publish(hint=text, pointed=())

    def fail(self, error: Exception) -> None:
        """Show the sentence of *error* until the next action."""
        self.publish(problem=plain(error))
