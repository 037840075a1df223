"""The base of every dock that shows the bench: it has a plot, and the keys of bands and picks."""

import weakref

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_info
from napari.utils.theme import get_theme
from qtpy.QtGui import QHideEvent
from qtpy.QtWidgets import QSizePolicy

from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.keys import BEFORE_AFTER, KEEP, NEXT_BAND, PREVIOUS_BAND, Act, Key
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.shared_bench import bench_of
from napari_mst.plugin.spectra.snapshot import Curves, Live, Snapshot
from napari_mst.plugin.viewer.composites import composites_of
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of, go_to
from napari_mst.plugin.viewer.photos import photo_layers

LOWEST_PLOT = 180
"""Pixels; a plot that is lower cannot be read."""


class BenchDock(Dock):
    """Forwards what a person does in its plot to `bench`, and draws what its snapshots say."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.shared = bench_of(self.viewer)
        self.bench = self.shared.bench
        self.pace = self.shared.pace
        self.plot = SpectraPlot()
        self.plot.setMinimumHeight(LOWEST_PLOT)
        # Its own hint is as large as its scene: a page that scrolls would give it all of that.
        self.plot.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self._drawn = _nothing()
        self.plot.band_dragged.connect(self.bench.go_to)
        self.plot.cursor_moved.connect(self.bench.point_at_wavelength)
        self.plot.line_clicked.connect(self._on_line)

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [(self.bench.changed, self._draw), (self.viewer.events.theme, self._dress)]

    def acts(self) -> list[tuple[Key, Act]]:
        """See `Dock`."""
        return [
            (KEEP, self._keep),
            (NEXT_BAND, self._next_band),
            (PREVIOUS_BAND, self._previous_band),
            (BEFORE_AFTER, self._flip),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        self._dress()
        self.shared.join()
        # Another dock may have been seen before: what it shows is drawn here at once.
        self._draw(self.bench.snapshot)

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Leave the bench as well."""
        was_shown = bool(self._connected)
        super().hideEvent(event)
        if was_shown:
            self.shared.leave()
        # The snapshot that was drawn last holds a cube.
        self._drawn = _nothing()

    @property
    def is_drawing(self) -> bool:
        """True while a redraw is due, or a cube is being read."""
        return self.shared.is_drawing

    def _draw(self, new: Snapshot) -> None:
        """Draw everything in which *new* differs from what was drawn last."""
        # Noted before anything is drawn: a menu that is checked here has the bench publish again.
        old, self._drawn = self._drawn, new
        self._draw_plot(old, new)
        self._draw_rows(old, new)

    def _draw_rows(self, old: Snapshot, new: Snapshot) -> None:
        """Draw what lies around the plot and on it, once its axes are those of the cube."""

    def _draw_plot(self, old: Snapshot, new: Snapshot) -> None:
        plot = self.plot
        if new.axes is not None and new.axes is not old.axes:
            plot.set_axes(*new.axes)
        # Also when the band is the same: the mouse may have left its line between two bands.
        plot.set_band(new.band)
        plot.set_cursor(new.cursor)
        if new.settings.value_range != plot.value_range:
            plot.set_value_range(new.settings.value_range)
        is_legend_shown = new.settings.is_legend_shown
        if new.curves is not old.curves:
            plot.set_lines(new.curves.lines)
        if new.curves is not old.curves or is_legend_shown != old.settings.is_legend_shown:
            plot.set_legend(new.curves.keys, is_legend_shown)
        if new.live is not old.live:
            plot.set_live(new.live.spectra)

    def _dress(self) -> None:
        """Take on the colours of napari."""
        self.plot.set_theme(get_theme(self.viewer.theme))

    # ------------------------------------------------------------ forwarding

    def _on_line(self, row: int) -> None:
        self.bench.choose([] if row < 0 else [row])

    def _keep(self) -> None:
        self.bench.pin_here()

    def _next_band(self) -> None:
        step_band(self.viewer, 1)

    def _previous_band(self) -> None:
        step_band(self.viewer, -1)

    def _flip(self) -> None:
        flip_to_photo(self.viewer)


def _nothing() -> Snapshot:
    """A snapshot from which every other one differs, so that all of that is drawn."""
    return Snapshot(curves=Curves(), live=Live())


NO_PHOTO = "There is no photo below the cube to compare with. Open it: File > Open."

_opacities: "weakref.WeakKeyDictionary[Image, float]" = weakref.WeakKeyDictionary()


def step_band(viewer: ViewerModel, step: int) -> None:
    """Show the band of the selected cube that is *step* bands on; the first and last are ends."""
    layer = active_cube_layer(viewer)
    cube = cube_of(layer)
    if layer is None or cube is None:
        return
    band = band_of(layer, viewer.dims.point) + step
    if 0 <= band < len(cube.wavelengths):
        go_to(viewer, layer, float(cube.wavelengths[band]))


def flip_to_photo(viewer: ViewerModel) -> None:
    """Show what lies below the selected cube, or the cube again.

    The cube and its picture only become transparent: it stays the one under the mouse, and its
    curves stay.
    """
    layer = active_cube_layer(viewer)
    if layer is None:
        return
    both = (layer, *composites_of(viewer, layer))
    if layer.opacity == 0:
        for one in both:
            # A picture may have been painted meanwhile.
            one.opacity = _opacities.pop(one, one.opacity or 1.0)
    elif any(photo.visible for photo in photo_layers(viewer)):
        for one in both:
            _opacities[one] = one.opacity
            one.opacity = 0
    else:
        show_info(NO_PHOTO)
