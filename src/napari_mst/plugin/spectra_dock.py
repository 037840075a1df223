"""The dock "Spectra": the live spectrum under the mouse, and pinned ones, of the active cube layer."""

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.theme import get_theme
from qtpy.QtCore import QSize, Qt, QTimer
from qtpy.QtGui import QHideEvent, QShowEvent
from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout

from napari_mst.cube import SpectralCube
from napari_mst.plugin import picks
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.layers import active_cube_layer, band_of, cube_of, go_to, show_wavelength
from napari_mst.plugin.picks import Position, Spectrum
from napari_mst.plugin.plot import SpectraPlot

INTERVAL = 25
"""ms between two redraws, at least."""
CLICK_RADIUS = 4.0
"""Canvas pixels; a press that moves further is a drag, which pans."""
CHANGES = frozenset(
    [
        "inserted",
        "removed",
        "reordered",
        "visible",
        "data",
        "face_color",
        "current_face_color",
        "scale",
        "translate",
        "rotate",
        "shear",
        "affine",
    ]
)
"""Events of the layers after which the curves may be others."""
MOST_VALUES = 12
"""Largest number of spectra that the read-out lists."""
SIZE = (420, 380)
"""Pixels; what the dock asks for."""
HINT = "Move over a cube layer to see its spectrum; click to pin it."


class SpectraDock(Dock):
    """Shows what lies under mouse and points; pinning and clearing go through `picks`."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.plot = SpectraPlot()
        self.text = QLabel(HINT)
        self.values = QLabel(wordWrap=True, textFormat=Qt.TextFormat.RichText)
        self.values.setToolTip("The pinned pixels (row, column), and their values at the band or under the mouse.")
        self.pick_button = QPushButton("Pick", checkable=True, checked=True)
        self.pick_button.setToolTip("A click on the image pins the spectrum of that pixel. Dragging still pans.")
        self.clear_button = QPushButton("Clear", toolTip="Take all picks off the image.")
        self._position: Position | None = None
        self._cursor: float | None = None
        self._is_stale = True
        self._timer = QTimer(self, singleShot=True, interval=INTERVAL)
        self._lay_out()
        self._timer.timeout.connect(self.draw)
        self.clear_button.clicked.connect(self._clear)
        self.plot.band_dragged.connect(self._go_to)
        self.plot.cursor_moved.connect(self._on_cursor)

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.addWidget(self.pick_button)
        row.addWidget(self.clear_button)
        row.addWidget(self.text, stretch=1)
        layout = QVBoxLayout(self)
        layout.addLayout(row)
        layout.addWidget(self.plot, stretch=1)
        layout.addWidget(self.values)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        viewer = self.viewer
        redraw = (viewer.layers.selection.events.active, viewer.dims.events.current_step, viewer.dims.events.ndisplay)
        return [
            (viewer.layers.events, self._on_layers),
            *((emitter, self.draw_soon) for emitter in redraw),
            (viewer.events.theme, self._on_theme),
        ]

    def showEvent(self, event: QShowEvent | None) -> None:
        """Listen to the mouse as well."""
        super().showEvent(event)
        if self._on_move not in self.viewer.mouse_move_callbacks:
            self.viewer.mouse_move_callbacks.append(self._on_move)
            self.viewer.mouse_drag_callbacks.append(self._on_press)

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Let go of the mouse as well."""
        super().hideEvent(event)
        self._timer.stop()
        viewer = self._viewer_ref()
        if viewer is not None and self._on_move in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.remove(self._on_move)
            viewer.mouse_drag_callbacks.remove(self._on_press)

    def refresh(self) -> None:
        """See `Dock`."""
        self._on_theme()
        if active_cube_layer(self.viewer) is not None:
            show_wavelength(self.viewer)
        self.draw_soon()

    def pin(self, position: Position) -> bool:
        """Pin the pixel under the world *position*; False if there is none to pin."""
        return picks.pin(self.viewer, position)

    def draw_soon(self) -> None:
        """Redraw everything within `INTERVAL`, however often this is called."""
        self._is_stale = True
        self._start_timer()

    def _start_timer(self) -> None:
        if not self._timer.isActive():
            self._timer.start()

    @property
    def is_drawing(self) -> bool:
        """Whether a redraw is due."""
        return self._timer.isActive()

    def draw(self) -> None:
        """Redraw the live curve; and all the rest, if anything but the mouse has changed."""
        layer = active_cube_layer(self.viewer)
        cube = cube_of(layer)
        if self._is_stale:
            self._is_stale = False
            self._draw_pinned(layer, cube)
        live = None if self._position is None else picks.spectrum_at(self.viewer, self._position)
        self.plot.set_live(cube, live)
        self.text.setText(f"row {live.row}, column {live.column}" if live else HINT)

    def _draw_pinned(self, layer: Image | None, cube: SpectralCube | None) -> None:
        pinned = picks.pinned(self.viewer)
        self.plot.set_cube(cube)
        self.plot.set_pinned(cube, pinned)
        if layer is not None and cube is not None:
            self.plot.set_band(cube.wavelengths[band_of(layer, self.viewer.dims.point)])
        self._read_out(cube, pinned)

    def _read_out(self, cube: SpectralCube | None, pinned: Sequence[Spectrum]) -> None:
        """List the pinned spectra with their values at the mouse in the plot, or at the band that is shown."""
        self.plot.set_cursor(None if cube is None else self._cursor)
        if cube is None or not pinned:
            self.values.clear()
            return
        band = cube.nearest_band(self.plot.band.value() if self._cursor is None else self._cursor)
        values = (_value(spectrum, band) for spectrum in pinned[:MOST_VALUES])
        more = f"and {len(pinned) - MOST_VALUES} more" if len(pinned) > MOST_VALUES else ""
        self.values.setText(" &nbsp; ".join([f"<b>{cube.wavelengths[band]:g} {cube.unit}</b>", *values, more]))

    def _on_layers(self, event: Any) -> None:
        if event.type not in CHANGES:
            return
        points = picks.picks_layer(self.viewer)
        is_added = event.type == "data" and getattr(event, "action", None) == "added"
        if is_added and points is self.viewer.layers[event.index]:
            picks.tell_apart(points, event.data_indices)
        self.draw_soon()

    def _on_theme(self) -> None:
        self.plot.set_theme(get_theme(self.viewer.theme))

    def _on_move(self, _: ViewerModel, event: Any) -> None:
        self._position = event.position
        self._start_timer()

    def _on_press(self, viewer: ViewerModel, event: Any) -> Generator[None, None, None]:
        start, position = np.array(event.pos), event.position
        is_click = self.pick_button.isChecked() and event.button == 1 and not event.modifiers and _pans(viewer)
        yield
        while event.type == "mouse_move":
            is_click &= bool(np.linalg.norm(np.array(event.pos) - start) <= CLICK_RADIUS)
            yield
        if is_click:
            self.pin(position)

    def _on_cursor(self, wavelength: float | None) -> None:
        self._cursor = wavelength
        self.draw_soon()

    def _go_to(self, wavelength: float) -> None:
        layer = active_cube_layer(self.viewer)
        if layer is not None:
            go_to(self.viewer, layer, wavelength)

    def _clear(self) -> None:
        picks.clear(self.viewer)


def _pans(viewer: ViewerModel) -> bool:
    """Whether a click on the canvas is free, as no layer is being drawn on or edited."""
    active = viewer.layers.selection.active
    return active is None or active.mode == "pan_zoom"


def _value(spectrum: Spectrum, band: int) -> str:
    red, green, blue = (round(255 * part) for part in spectrum.colour[:3])
    square = f'<span style="color: rgb({red}, {green}, {blue})">&#9632;</span>'
    return f"{square}&nbsp;({spectrum.row},&nbsp;{spectrum.column})&nbsp;{spectrum.values[band]:.3f}"
