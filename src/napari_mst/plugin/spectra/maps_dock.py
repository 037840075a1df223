"""The dock "Maps": maps of a cube, made from the kept spectra and from bands."""

from napari.components import ViewerModel
from qtpy.QtGui import QHideEvent
from qtpy.QtWidgets import QVBoxLayout

from napari_mst.plugin.dock import Link, reported
from napari_mst.plugin.spectra.bench_dock import BenchDock
from napari_mst.plugin.spectra.maps_bar import MapsBar
from napari_mst.plugin.spectra.snapshot import Snapshot


class MapsDock(BenchDock):
    """Shows the bar of the maps, and below it the plot with the lines that a map is made at."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.maps = MapsBar(self.bench.maps)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(3, 4, 3, 4)
        layout.setSpacing(4)
        layout.addWidget(self.maps)
        layout.addWidget(self.plot, stretch=1)
        self.plot.marker_dragged.connect(self._on_marker)

    def links(self) -> list[Link]:
        """See `Dock`."""
        lines_changed = (self.bench.maps.lines_changed, self._draw_markers)
        return [*super().links(), *self.maps.links(), lines_changed]

    def refresh(self) -> None:
        """See `Dock`."""
        self.maps.refresh()
        self.bench.maps.open()
        super().refresh()

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Take the lines off the plot as well."""
        was_shown = bool(self._connected)
        super().hideEvent(event)
        if was_shown:
            self.bench.maps.close()
            self.plot.set_markers(())

    def _draw_rows(self, old: Snapshot, new: Snapshot) -> None:
        # With another cube, the lines may have other wavelengths to stand at.
        if new.axes is not old.axes:
            self._draw_markers()

    def _draw_markers(self) -> None:
        self.plot.set_markers(self.bench.maps.markers)

    def _on_marker(self, number: int, wavelength: float) -> None:
        with reported():
            self.bench.maps.move_line(number, wavelength)
