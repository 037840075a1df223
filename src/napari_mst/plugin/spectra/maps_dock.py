"""The dock "Maps": maps of a cube, made from the kept spectra and from bands."""

from napari.components import ViewerModel
from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtGui import QHideEvent
from qtpy.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from napari_mst.plugin.dock import Link, reported
from napari_mst.plugin.spectra.bench_dock import BenchDock
from napari_mst.plugin.spectra.maps import MapMaker
from napari_mst.plugin.spectra.snapshot import Snapshot
from napari_mst.plugin.viewer.paragraph import Paragraph
from napari_mst.spectra.map_kind import MapKind
from napari_mst.spectra.maps import MAPS

RUN_HINT = "Make this map of the selected cube as a new layer; press again to cancel."
STEPS = 1000
"""Steps of the progress bar."""


class MapsBar(QWidget):
    """Forwards the choice of a map to *maps*, and shows what they say."""

    def __init__(self, maps: MapMaker) -> None:
        super().__init__()
        self._maps = maps
        self.kinds = QComboBox()
        self.number = QDoubleSpinBox()
        self.run_button = QPushButton("Run", toolTip=RUN_HINT)
        self.bar = QProgressBar(maximum=STEPS, textVisible=False)
        self.about = Paragraph()
        self._lay_out()
        self.kinds.currentIndexChanged.connect(self._on_kind)
        self.number.valueChanged.connect(self._on_number)
        self.run_button.clicked.connect(self._on_button)
        self.show_kind()

    def _lay_out(self) -> None:
        for kind in MAPS.values():
            self.kinds.addItem(kind.title, kind.name)
            self.kinds.setItemData(self.kinds.count() - 1, _tip(kind), Qt.ItemDataRole.ToolTipRole)
        self.kinds.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.kinds.setMinimumContentsLength(12)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.kinds, stretch=1)
        row.addWidget(self.number)
        row.addWidget(self.run_button)
        self.bar.setFixedHeight(4)
        self.bar.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addLayout(row)
        layout.addWidget(self.bar)
        layout.addWidget(self.about)

    def links(self) -> list[Link]:
        """See `Dock`."""
        maps = self._maps
        return [
            (maps.lines_changed, self.show_kind),
            (maps.busy_changed, self._show_busy),
            (maps.progressed, self._show_progress),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        self.show_kind()
        self._show_busy()

    @property
    def is_busy(self) -> bool:
        """True while a map is being made."""
        return self._maps.is_busy

    # ------------------------------------------------------------ forwarding

    def _on_kind(self) -> None:
        self._maps.choose(self.kinds.currentData())

    def _on_number(self, number: float) -> None:
        self._maps.number = number

    def _on_button(self) -> None:
        if self._maps.is_busy:
            self._maps.cancel()
        else:
            self.run()

    def run(self) -> None:
        """Make the map that is chosen, as a new layer; a person is told what it lacks."""
        with reported():
            self._maps.run()

    # ------------------------------------------------------------ drawing

    def show_kind(self) -> None:
        """Show which map is chosen."""
        kind = self._maps.kind
        # What is only shown here was chosen already, perhaps by a script.
        with QSignalBlocker(self.kinds):
            self.kinds.setCurrentIndex(self.kinds.findData(kind.name))
        self.kinds.setToolTip(_tip(kind))
        self.about.setText(_tip(kind))
        self._show_number(kind)

    def _show_number(self, kind: MapKind) -> None:
        number = kind.number
        self.number.setVisible(number is not None)
        if number is None:
            return
        # Qt would cut the old number to the new range, and tell that as a choice.
        with QSignalBlocker(self.number):
            self.number.setDecimals(number.decimals)
            self.number.setRange(number.low, number.high)
            self.number.setValue(self._maps.number)
        self.number.setToolTip(number.label)
        self.number.setSuffix("\N{DEGREE SIGN}" if number.unit == "deg" else "")

    def _show_busy(self) -> None:
        # A map that follows its lines is made many times in a second: no bar flickers for that.
        is_shown = self._maps.is_busy and not self._maps.is_live
        self.run_button.setText("Cancel" if is_shown else "Run")
        self.bar.setVisible(is_shown)
        self.bar.setValue(0)

    def _show_progress(self, share: float) -> None:
        self.bar.setValue(round(STEPS * share))


def _tip(kind: MapKind) -> str:
    """The tooltip of a map, with how its lines are moved."""
    if not kind.lines:
        return kind.tip
    return f"{kind.tip} Drag the lines in the plot."


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
