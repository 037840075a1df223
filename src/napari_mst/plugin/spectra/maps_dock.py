"""The dock "Maps": maps of a cube, made from the kept spectra and from bands."""

from napari.components import ViewerModel
from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtWidgets import (
    QComboBox,
    QCompleter,
    QDoubleSpinBox,
    QFileDialog,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
)
from superqt import QLabeledDoubleSlider

from napari_mst.plugin.dock import STEPS
from napari_mst.plugin.spectra.bench_dock import BenchDock
from napari_mst.plugin.spectra.snapshot import Snapshot
from napari_mst.plugin.viewer.widgets import ChoiceBox, Paragraph, fill, let_shrink
from napari_mst.spectra.map_kind import MapKind
from napari_mst.spectra.maps import MAPS

MEASURE = (
    "Area, centre, mean and deviation of each band, and indices of each label; up to 20 also how\n"
    "well they can be told apart (Jeffries-Matusita, 0 to 2): into the features of their layer."
)
MEASURED = "Save a table of labels (Cancel: only into their features)"
LEAST = "Numbers the regions of the selected map from this value on, as a layer of labels."
RUN_HINT = "Make this map of the selected cube as a new layer; press again to cancel."


class MapsDock(BenchDock):
    """Shows which map is made, and below it the plot with the lines that a map is made at."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.maps = self.bench.maps
        self.kinds = ChoiceBox()
        self.number = QDoubleSpinBox()
        never = QComboBox.InsertPolicy.NoInsert
        self.text = QComboBox(insertPolicy=never, toolTip="The formula of the map, or its index.")
        let_shrink(self.text, 12)
        self.run_button = QPushButton("Run", toolTip=RUN_HINT)
        self.least = QLabeledDoubleSlider(Qt.Orientation.Horizontal)
        self.least.setToolTip(LEAST)
        self.measure = QPushButton("Measure labels ...", toolTip=MEASURE)
        self.bar = QProgressBar(maximum=STEPS, textVisible=False)
        self.about = Paragraph()
        self._lay_out()
        self.kinds.currentIndexChanged.connect(self._on_kind)
        self.number.valueChanged.connect(self._on_number)
        self.text.currentTextChanged.connect(self._on_text)
        self.run_button.clicked.connect(self._on_button)
        self.measure.clicked.connect(self._on_measure)
        self.least.valueChanged.connect(self.maps.number_above)
        self.plot.handle_dragged.connect(self._on_marker)
        self._draw_kind()

    def _lay_out(self) -> None:
        for kind in MAPS.values():
            self.kinds.add(kind.title, kind.name, _tip(kind))
        self.kinds.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.kinds.setMinimumContentsLength(12)
        self.bar.setFixedHeight(4)
        self.bar.hide()
        choice = (self.kinds, self.number, self.run_button)
        row = fill(QHBoxLayout(), *choice, stretched=self.kinds)
        above = (row, self.text, self.least, self.measure, self.bar)
        self.stack(*above, self.about, self.problem, self.plot)

    # ------------------------------------------------------------ forwarding

    def _on_kind(self) -> None:
        self.maps.choose(self.kinds.currentData())

    def _on_number(self, number: float) -> None:
        self.maps.number = number

    def _on_text(self, text: str) -> None:
        self.maps.text = text

    def _on_button(self) -> None:
        self.maps.cancel() if self.maps.is_busy else self.run()

    def _on_measure(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, MEASURED, "labels.csv", "Table (*.csv)")
        with self.bench.reported():
            self.bench.measure_labels(path)

    def _on_marker(self, number: int, wavelength: float) -> None:
        with self.bench.reported():
            self.maps.move_line(number, wavelength)

    def run(self) -> None:
        """Make the map that is chosen, as a new layer, or report what it lacks."""
        with self.bench.reported():
            self.maps.run()

    # ------------------------------------------------------------ drawing

    def _draw_rows(self, *_: Snapshot) -> None:
        self._draw_kind()
        self._draw_busy()
        markers, text = self.maps.markers, self.maps.kind.text
        is_span = text is not None and text.is_span
        self.plot.set_handles(() if is_span else markers)
        self.plot.set_span([marker.wavelength for marker in markers] if is_span else ())
        self.measure.setVisible(self.bench.labels is not None)
        image = self.maps.measured
        self.least.setVisible(image is not None)
        if image is not None:
            with QSignalBlocker(self.least):
                self.least.setRange(*image.contrast_limits_range)

    def _draw_kind(self) -> None:
        kind = self.maps.kind
        # What is only shown here was chosen already, perhaps by a script.
        with QSignalBlocker(self.kinds):
            self.kinds.show_value(kind.name)
        self.kinds.setToolTip(_tip(kind))
        self._draw_text()
        number = kind.number
        self.number.setVisible(number is not None)
        if number is None:
            return
        # Qt would cut the old number to the new range, and report that as a choice.
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
        with QSignalBlocker(self.text):
            if [self.text.itemText(row) for row in range(self.text.count())] != [*presets]:
                self.text.clear()
                for row, (preset, about) in enumerate(presets.items()):
                    self.text.addItem(preset)
                    self.text.setItemData(row, about, Qt.ItemDataRole.ToolTipRole)
            self._let_type(asked.bands is not None)
            # The cursor of a person who types stays where it is.
            if self.text.currentText() != text:
                self.text.setCurrentText(text)
        self.text.setToolTip(presets.get(text, asked.label))

    def _let_type(self, can_type: bool) -> None:
        if self.text.isEditable() == can_type:
            return
        self.text.setEditable(can_type)
        if can_type:
            self.text.lineEdit().returnPressed.connect(self.run)
            # A list below the line: what Qt completes in the line would change a formula.
            self.text.completer().setCompletionMode(QCompleter.CompletionMode.PopupCompletion)
            self.text.completer().setFilterMode(Qt.MatchFlag.MatchContains)

    def _draw_busy(self) -> None:
        # A map that follows its lines is made many times in a second: no bar flickers for that.
        is_shown = self.maps.is_busy and not self.maps.is_live
        lacks = self.maps.lacks
        self.run_button.setText("Cancel" if is_shown else "Run")
        self.run_button.setToolTip(lacks or RUN_HINT)
        self.about.setText(" ".join(filter(None, (_tip(self.maps.kind), self.maps.about, lacks))))
        self.run_button.setEnabled(is_shown or not lacks)
        self.bar.setVisible(is_shown)
        self.bar.setValue(round(STEPS * self.maps.progress))


def _tip(kind: MapKind) -> str:
    """Return the tooltip of a map, with how its bands are moved."""
    has_bands = kind.text is not None and kind.text.bands is not None
    return f"{kind.tip} Drag its bands in the plot." if has_bands else kind.tip
