"""The bar of the spectra dock that makes maps: which one, its number or its lines in the plot, run, cancel."""

import weakref
from collections.abc import Callable
from typing import Any

from napari.layers import Image, Layer
from napari.qt.threading import create_worker
from napari.utils.notifications import show_error
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

from napari_mst.plugin.jobs.worker import JobWorker
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.maps import (
    MAPS,
    MOST_CLASSES,
    MapKind,
    Order,
    fitting_photo,
    make_map,
)
from napari_mst.plugin.spectra.plot import Marker, SpectraPlot
from napari_mst.plugin.viewer.layers import (
    LayerTuple,
    Placement,
    active_cube_layer,
    cube_of,
    photo_layers,
    put_on_top,
)

STEPS = 1000
"""Steps of the progress bar."""


class MapsBar(QWidget):
    """Makes the map that is chosen; dragging a line of its wavelengths makes it anew in the same layer."""

    def __init__(self, bench: Bench, plot: SpectraPlot) -> None:
        super().__init__()
        self._bench = bench
        self._plot = plot
        self.kinds = QComboBox()
        self.number = QDoubleSpinBox()
        self.run_button = QPushButton("Run")
        self.bar = QProgressBar(maximum=STEPS, textVisible=False)
        self._worker: JobWorker | None = None
        self._places: dict[str, list[float]] = {}
        self._drawn: weakref.ref[Layer] | None = None
        self._is_again = False
        self._lay_out()
        self.kinds.currentIndexChanged.connect(self._show_kind)
        self.run_button.clicked.connect(self._on_button)
        plot.marker_dragged.connect(self._on_marker)
        self._show_kind()

    def _lay_out(self) -> None:
        for number, kind in enumerate(MAPS.values()):
            self.kinds.addItem(kind.title)
            self.kinds.setItemData(number, _tip(kind), 3)
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

    @property
    def kind(self) -> MapKind:
        """The map that is chosen."""
        return list(MAPS.values())[self.kinds.currentIndex()]

    @property
    def is_busy(self) -> bool:
        """Whether a map is being made."""
        return self._worker is not None

    def showEvent(self, event: object) -> None:
        """Qt calls this when the bar appears: its lines appear in the plot."""
        super().showEvent(event)
        self._show_lines()

    def hideEvent(self, event: object) -> None:
        """Qt calls this when the bar goes: its lines go, and a run is cancelled."""
        super().hideEvent(event)
        self._plot.set_markers(())
        self._drawn = None
        if self._worker is not None:
            self._worker.quit()

    def run(self) -> None:
        """Make the map that is chosen, as a new layer."""
        self._drawn = None
        self._start()

    def _on_button(self) -> None:
        if self._worker is None:
            self.run()
        else:
            self._worker.quit()

    def _start(self) -> None:
        order = self._order()
        if order is None:
            show_error("Expected a cube layer to make a map of, got none. Select one.")
            return
        self._worker = create_worker(make_map, order, _worker_class=JobWorker, _ignore_errors=True)
        self._worker.reports.progressed.connect(self._on_progress)
        self._worker.returned.connect(self._on_returned)
        self._worker.reports.failed.connect(self._on_error)
        self._worker.finished.connect(self._on_finished)
        self._show_busy()
        self._worker.start()

    def _order(self) -> Order | None:
        viewer = self._bench.viewer
        layer = active_cube_layer(viewer)
        cube = cube_of(layer)
        if layer is None or cube is None:
            return None
        reference = self._bench.reference
        shown = self._bench.shown if self.kind.needs == "spectra" else []
        spectra = [
            entry.first for entry in shown[: MOST_CLASSES + 1] if entry.spectra[0] is not None
        ]
        inputs = MapInputs(
            cube,
            number=self.number.value(),
            wavelengths=tuple(self._wavelengths()),
            spectra=tuple(spectra),
            reference=None if reference is None else cube_of(reference),
        )
        photo = fitting_photo(photo_layers(viewer), cube.shape[1:], viewer.dims.point)
        return Order(self.kind, inputs, layer.name, Placement.of(layer), photo)

    def _wavelengths(self) -> list[float]:
        """Where the lines of the chosen map are."""
        cube = cube_of(active_cube_layer(self._bench.viewer))
        if cube is None or not self.kind.lines:
            return []
        low, high = float(cube.wavelengths.min()), float(cube.wavelengths.max())
        first = list(self.kind.first_wavelengths(cube))
        places = self._places.setdefault(self.kind.title, first)
        return [min(max(place, low), high) for place in places]

    def _show_kind(self) -> None:
        number = self.kind.number
        self.kinds.setToolTip(_tip(self.kind))
        self.number.setVisible(number is not None)
        if number is not None:
            self.number.setDecimals(number.decimals)
            self.number.setRange(number.low, number.high)
            self.number.setValue(number.default)
            self.number.setToolTip(number.label)
            self.number.setSuffix("\N{DEGREE SIGN}" if number.unit == "deg" else "")
        self._drawn = None
        if self.isVisible():
            self._show_lines()

    def _show_lines(self) -> None:
        places = self._wavelengths()
        self._plot.set_markers(
            [
                Marker(name, tint, place)
                for (name, tint, _), place in zip(self.kind.lines, places, strict=False)
            ]
        )

    def _on_marker(self, number: int, wavelength: float) -> None:
        self._places[self.kind.title][number] = wavelength
        if self._drawn is None or self._drawn() not in self._bench.viewer.layers:
            return
        if self._worker is None:
            self._start()
        else:
            self._is_again = True

    def _on_progress(self, share: float) -> None:
        self.bar.setValue(round(STEPS * share))

    def _on_returned(self, found: list[LayerTuple] | None) -> None:
        if found is None or self._worker is None:
            return
        viewer, drawn = self._bench.viewer, None if self._drawn is None else self._drawn()
        data, *_ = found[-1]
        if drawn in viewer.layers and isinstance(drawn, Image) and drawn.data.shape == data.shape:
            drawn.data = data
            return
        active = viewer.layers.selection.active
        layers = [self._added(*one) for one in found]
        viewer.layers.selection.active = active
        if self.kind.lines:
            self._drawn = weakref.ref(layers[-1])

    def _added(self, data: Any, arguments: dict[str, Any], layer_type: str) -> Layer:
        """A new layer on top of all images."""
        viewer = self._bench.viewer
        add: dict[str, Callable[..., Layer]] = {
            "image": viewer.add_image,
            "labels": viewer.add_labels,
        }
        layer = add[layer_type](data, **arguments)
        put_on_top(viewer, layer)
        layer.visible = arguments["visible"]
        return layer

    def _on_error(self, error: Exception) -> None:
        show_error(str(error))

    def _on_finished(self, _: None = None) -> None:
        self._worker = None
        self._show_busy()
        if self._is_again and self.isVisible():
            self._is_again = False
            self._start()

    def _show_busy(self) -> None:
        is_live = self._drawn is not None
        self.run_button.setText("Cancel" if self.is_busy and not is_live else "Run")
        self.bar.setVisible(self.is_busy and not is_live)
        self.bar.setValue(0)


def _tip(kind: MapKind) -> str:
    """The tooltip of a map, with how its lines are moved."""
    if not kind.lines:
        return kind.tip
    return f"{kind.tip} Drag the lines in the plot."
