"""The spectra model that the docks of a viewer share, the base of these docks, and "Maps"."""

import time
import weakref
from functools import partial

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_info
from napari.utils.theme import Theme
from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtWidgets import (
    QApplication,
    QBoxLayout,
    QDoubleSpinBox,
    QFileDialog,
    QHBoxLayout,
    QLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)
from superqt import QLabeledDoubleSlider
from superqt.utils import QSignalThrottler

from napari_mst.analysis.library import read_spectra
from napari_mst.analysis.map_kind import MapKind
from napari_mst.analysis.maps import MAPS
from napari_mst.plugin.dock import (
    BEFORE_AFTER,
    KEEP,
    NEXT_BAND,
    PREVIOUS_BAND,
    REDO,
    STEPS,
    UNDO,
    Act,
    Dock,
    Key,
    Link,
)
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.spectra.boxes import SourceBox, TextBox
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.resolve import Snapshot
from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.viewer.bands import unit_of
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.layer_photos import photo_layers
from napari_mst.plugin.viewer.layers import (
    active_cube_layer,
    band_of,
    composites_of,
    cube_at,
    go_to,
)
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.sharing import calling, report
from napari_mst.plugin.viewer.themed_plot import ThemedPlot
from napari_mst.plugin.viewer.widgets import ChoiceBox, Paragraph, fill

INTERVAL = 25
"""Least time between two drawings in milliseconds."""
REST = 3
"""Pause after a drawing, in multiples of its duration, as some cubes are slow to read."""
PROBLEM = "border-left: 3px solid {}; padding-left: 5px;"
NO_PHOTO = "There is no photo below the cube to compare with. Open it: File > Open."
_opacities = weakref.WeakKeyDictionary[Image, float]()


class SharedSpectraModel(SpectraModel):
    """The spectra model of all docks of a viewer, made by `SharedSpectraModel.of(viewer)`.

    It follows the viewer and the mouse once the first dock attaches it. When the last dock detaches
    it, everything that was read is released.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        # Owned by Qt, as Python may collect this object on a thread other than the timer's.
        policy = QSignalThrottler.EmissionPolicy.Trailing
        self._pace = QSignalThrottler(policy, QApplication.instance())
        self._pace.setTimeout(INTERVAL)
        self._pace.triggered.connect(calling(self.draw))
        weakref.finalize(self, self._pace.deleteLater).atexit = False
        self._is_due = False
        super().__init__(viewer, partial(start, is_listed=False), start)
        self._mouse = CanvasMouse(viewer, self._on_move, self.click)
        self._docks = 0

    @property
    def is_drawing(self) -> bool:
        """True while a drawing is due, or a cube is being read."""
        return self._is_due or self.layers.reader.is_busy

    def attach(self) -> None:
        """Start listening: a dock has been shown."""
        self._docks += 1
        self._mouse.connect()
        super().attach()

    def detach(self) -> None:
        """Stop listening when the last dock has closed, perhaps with its viewer."""
        self._docks -= 1
        if not self._docks:
            self.maps.cancel()
        # A page that knew the cancelled map may be shown by now.
        if self._docks:
            return
        # A pending drawing would read everything again, perhaps from a closed viewer.
        self._pace.cancel()
        self._is_due = False
        super().detach()
        self._mouse.disconnect()

    def touch(self) -> None:
        """See `ShownSpectra`."""
        super().touch()
        self.draw_soon()

    def fail(self, error: Exception) -> None:
        """Show an error in the docks, or in napari if none is visible, as after a slow save."""
        super().fail(error)
        if not self._docks:
            report(error)

    def draw_soon(self) -> None:
        """Draw after the pause, together with all changes until then."""
        self._is_due = True
        self._pace.throttle()

    def draw(self) -> None:
        """Draw now, then pause."""
        begun = time.perf_counter()
        # First, as a drawing may ask for another one: it names new picks.
        self._is_due = False
        # While a button is down, points may be being dragged.
        is_dragging = QApplication.mouseButtons() != Qt.MouseButton.NoButton
        self.update(is_recording=not is_dragging)
        # The window handles mouse events during the pause.
        milliseconds = 1000 * (time.perf_counter() - begun)
        self._pace.setTimeout(max(INTERVAL, round(REST * milliseconds)))

    def _on_move(self, position: Position) -> None:
        self.point_at(position)
        self.draw_soon()


class ModelDock(Dock):
    """Forwards user actions in its plot to `model`, and draws the snapshots of the model."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.model = SharedSpectraModel.of(self.viewer)
        self.plot = SpectraPlot()
        self.problem = Paragraph()
        self.problem.hide()
        self.plots: list[ThemedPlot] = [self.plot]
        self.plot.band_dragged.connect(self.model.go_to)
        self.plot.cursor_moved.connect(self.model.point_at_wavelength)
        self.plot.rows_clicked.connect(self.model.choose)
        self.plot.file_dropped.connect(self._on_file)

    def stack(self, *parts: QWidget | QLayout) -> QBoxLayout:
        """Stack *parts* vertically; the plot among them takes the remaining room."""
        layout = fill(QVBoxLayout(self), *parts, stretched=self.plot)
        layout.setContentsMargins(3, 4, 3, 4)
        layout.setSpacing(4)
        return layout

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [(self.model.changed, self._draw)]

    def acts(self) -> list[tuple[Key, Act]]:
        """See `Dock`."""
        return [
            (KEEP, self.model.pin_here),
            (NEXT_BAND, calling(self._step, 1)),
            (PREVIOUS_BAND, calling(self._step, -1)),
            (BEFORE_AFTER, self._flip),
            (UNDO, self.model.undo),
            (REDO, self.model.redo),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        self.model.attach()
        # Another dock may have been shown before: draw its content here at once.
        self._draw(self.model.snapshot)

    def release(self) -> None:
        """See `Dock`."""
        self.model.detach()

    def _draw(self, new: Snapshot) -> None:
        """Draw *new*; the plot redraws only its changes."""
        self.problem.setText(new.problem)
        self.problem.setVisible(bool(new.problem))
        plot = self.plot
        if new.axes is not None:
            plot.set_axes(*new.axes)
        # Even if the band is the same, as the mouse may have left the line between two bands.
        plot.set_guides(new.bands and new.bands.shown, new.bands and new.cursor)
        plot.set_lines(new.curves.lines)
        plot.set_legend(new.curves.keys)
        plot.set_live(new.live)
        self._draw_rows(new)

    def _draw_rows(self, new: Snapshot) -> None:
        """Draw the rest of the dock, once the axes of the plot fit the cube."""

    def set_theme(self, theme: Theme) -> None:
        """See `Dock`."""
        for plot in self.plots:
            plot.set_theme(theme)
        # A bar at the side, as coloured text is hard to read on some themes.
        self.problem.setStyleSheet(PROBLEM.format(theme.warning.as_hex()))

    # ------------------------------------------------------------ forwarding

    def _step(self, step: int) -> None:
        """Move the slider of the selected cube by *step* bands, up to its ends."""
        layer = active_cube_layer(self.viewer)
        if layer is not None:
            wavelengths = cube_at(layer).wavelengths
            band = band_of(layer, self.viewer.dims.point) + step
            if 0 <= band < len(wavelengths):
                go_to(self.viewer, layer, float(wavelengths[band]))

    def _on_file(self, path: str) -> None:
        with self.model.reported():
            self.model.open_spectra(read_spectra(path))

    def _flip(self) -> None:
        flip_to_photo(self.viewer)


def flip_to_photo(viewer: ViewerModel) -> None:
    """Show the image below the selected cube, or the cube again.

    The cube and its picture only become transparent, so the mouse still reads the cube, and its
    curves stay.
    """
    layer = active_cube_layer(viewer)
    if layer is None:
        return
    both = (layer, *composites_of(viewer, layer))
    if layer.opacity == 0:
        for image in both:
            # A picture that was painted meanwhile has no stored opacity.
            image.opacity = _opacities.pop(image, image.opacity or 1.0)
    elif any(photo.visible for photo in photo_layers(viewer)):
        for image in both:
            _opacities[image] = image.opacity
            image.opacity = 0
    else:
        show_info(NO_PHOTO)


MEASURE = (
    "Area, centre, mean and deviation of each band, and indices of each label; up to 20 also how\n"
    "well they can be told apart (Jeffries-Matusita, 0 to 2): into the features of their layer."
)
MEASURED = "Save a table of labels (Cancel: only into their features)"
LEAST = "Numbers the regions of the selected map from this value on, as a layer of labels."
RUN_HINT = "Make this map of the cube above as a new layer; press again to cancel."


class MapsDock(ModelDock):
    """Chooses and runs maps, above the plot with the lines at the bands of the map."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.maps = self.model.maps
        self.source = SourceBox(self.model)
        self.kinds = ChoiceBox()
        self.number = QDoubleSpinBox(toolTip="The number that the map asks for.")
        self.text = TextBox("")
        self.run_button = QPushButton("Run", toolTip=RUN_HINT)
        self.least = QLabeledDoubleSlider(Qt.Orientation.Horizontal)
        self.least.setToolTip(LEAST)
        self.least_text = Paragraph()
        self.measure = QPushButton("Measure labels ...", toolTip=MEASURE)
        self.bar = QProgressBar(maximum=STEPS, textVisible=False)
        self.about = Paragraph()
        for kind in MAPS.values():
            self.kinds.add(kind.title, kind.name, _tip(kind))
        self.kinds.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.kinds.setMinimumContentsLength(12)
        self.bar.setFixedHeight(4)
        self.bar.hide()
        choice = (self.kinds, self.number, self.run_button)
        row = fill(QHBoxLayout(), *choice, stretched=self.kinds)
        above = (self.source.row, row, self.text, self.least_text, self.least)
        self.stack(*above, self.measure, self.bar, self.about, self.problem, self.plot)
        self.kinds.currentIndexChanged.connect(self._on_kind)
        self.number.valueChanged.connect(partial(setattr, self.maps, "number"))
        self.text.currentTextChanged.connect(partial(setattr, self.maps, "text"))
        self.text.lineEdit().returnPressed.connect(self.run)
        self.run_button.clicked.connect(self._on_button)
        self.measure.clicked.connect(self._on_measure)
        self.least.valueChanged.connect(self.maps.number_above)
        self.plot.handle_dragged.connect(self._on_marker)
        self._draw_kind()

    # ------------------------------------------------------------ forwarding

    def _on_kind(self) -> None:
        self.maps.choose(self.kinds.currentData())

    def _on_button(self) -> None:
        self.maps.cancel() if self.maps.is_busy else self.run()

    def _on_measure(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, MEASURED, "labels.csv", "Table (*.csv)")
        with self.model.reported():
            self.model.measure_labels(path)

    def _on_marker(self, number: int, wavelength: float) -> None:
        with self.model.reported():
            self.maps.move_line(number, wavelength)

    def run(self) -> None:
        """Make the chosen map as a new layer, or report what it lacks."""
        with self.model.reported():
            self.maps.run()

    # ------------------------------------------------------------ drawing

    def _draw_rows(self, _: Snapshot) -> None:
        self.source.draw()
        self._draw_kind()
        self._draw_busy()
        markers, text = self.maps.markers, self.maps.kind.text
        is_span = text is not None and text.is_span
        self.plot.set_handles(() if is_span else markers)
        self.plot.set_span([marker.wavelength for marker in markers] if is_span else ())
        self.measure.setVisible(self.model.labels is not None)
        image = self.maps.measured
        self.least.setVisible(image is not None)
        self.least_text.setVisible(image is not None)
        if image is not None:
            self.least_text.setText(
                f"Number regions of the selected map of at least ({unit_of(image) or image.name}):"
            )
            with QSignalBlocker(self.least):
                self.least.setRange(*image.contrast_limits_range)

    def _draw_kind(self) -> None:
        kind = self.maps.kind
        # Showing a choice, perhaps of a script, must not choose again.
        with QSignalBlocker(self.kinds):
            self.kinds.show_value(kind.name)
        has_reference = self.model.reference is not None
        for row, each in enumerate(MAPS.values()):
            is_there = each.needs != "reference" or has_reference or each is kind
            self.kinds.view().setRowHidden(row, not is_there)
            self.kinds.model().item(row).setEnabled(is_there)
        self.kinds.setToolTip(_tip(kind))
        self._draw_text()
        number = kind.number
        self.number.setVisible(number is not None)
        if number is None:
            return
        # Qt would clip the old number to the new range, and report that as a choice.
        with QSignalBlocker(self.number):
            self.number.setDecimals(number.decimals)
            self.number.setRange(number.low, number.high)
            self.number.setValue(self.maps.number)
        self.number.setToolTip(number.label)
        self.number.setSuffix("\N{DEGREE SIGN}" if number.unit == "deg" else "")

    def _draw_text(self) -> None:
        asked, presets, text = self.maps.kind.text, self.maps.presets, self.maps.text
        self.text.setVisible(asked is not None)
        if asked is None:
            return
        self.text.lineEdit().setReadOnly(asked.bands is None)
        self.text.draw(presets, text)
        self.text.setToolTip(presets.get(text, asked.label))

    def _draw_busy(self) -> None:
        # A map that follows its lines is made many times a second: the bar would flicker.
        is_shown = self.maps.is_busy and not self.maps.is_live
        lacks = self.maps.lacks
        self.run_button.setText("Cancel" if is_shown else "Run")
        self.run_button.setToolTip(lacks or RUN_HINT)
        self.about.setText(" ".join(filter(None, (_tip(self.maps.kind), self.maps.about, lacks))))
        self.run_button.setEnabled(is_shown or not lacks)
        self.bar.setVisible(is_shown)
        self.bar.setValue(round(STEPS * self.maps.progress))


def _tip(kind: MapKind) -> str:
    """Return the tooltip of a map, which says how to move its bands."""
    has_bands = kind.text is not None and kind.text.bands is not None
    return f"{kind.tip} Drag its bands in the plot." if has_bands else kind.tip
