"""Looks at the layers of a viewer: which spectra are there, and which band is shown."""

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from napari.components import ViewerModel
from napari.layers import Image, Labels, Points

from napari_mst.plugin.spectra import region_layers
from napari_mst.plugin.spectra.collection import Collection
from napari_mst.plugin.spectra.layer_events import LayerEvents, tell_apart
from napari_mst.plugin.spectra.reader import Reader
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.snapshot import Bands, Intent
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of
from napari_mst.plugin.viewer.picks import Position
from napari_mst.spectra.spectrum import Spectrum


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
        for layer in region_layers.region_layers(self.viewer):
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
