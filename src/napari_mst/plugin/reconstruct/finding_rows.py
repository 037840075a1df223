"""The rows that ask the photo itself: its light, a grey patch, a ColorChecker; and what it told."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from napari.components import ViewerModel
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QGridLayout,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.photo.chart_kinds import CHARTS
from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.reconstruct.finding import Finding
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.viewer.light_layer import LightViews
from napari_mst.plugin.viewer.slots import calling
from napari_mst.plugin.viewer.widgets import Paragraph, let_shrink

if TYPE_CHECKING:
    from napari_mst.light.estimate import LightCandidate, LightEstimate

LETTERS = 18
"""Letters of the name of a light that a button shows."""


class FindingRows(QWidget):
    """Buttons that ask the photo, and below them what it told."""

    forget = Signal()

    def __init__(self, layout: QFormLayout, viewer: ViewerModel) -> None:
        super().__init__()
        self._layout = layout
        self.light = QPushButton("Light", toolTip=texts.FIND_LIGHT_HINT)
        self.patch = QPushButton("Grey patch", toolTip=texts.FIND_PATCH_HINT)
        self.chart = QPushButton("ColorChecker", toolTip=texts.FIND_CHART_HINT)
        self.search = QPushButton("Find it", toolTip=texts.SEARCH_CHART_HINT)
        self.kind = QComboBox(toolTip=texts.CHART_KIND_HINT)
        let_shrink(self.kind, 6)
        for name, kind in CHARTS.items():
            self.kind.addItem(kind.title.removeprefix("ColorChecker "), name)
        self.grey = QDoubleSpinBox(
            minimum=1, maximum=150, value=100, decimals=0, suffix=" %", toolTip=texts.GREY_HINT
        )
        self.text = Paragraph()
        self.correct_white = QCheckBox(
            "correct the white balance", toolTip=texts.CORRECT_WHITE_HINT
        )
        self.bars = LightBars()
        self._light: LightEstimate | None = None
        self.attention = LightViews(viewer)
        self.bars.hide()
        self.forget_button = QPushButton("Forget", toolTip=texts.FORGET_HINT)
        self.forget_button.clicked.connect(self.forget)
        self._buttons = QHBoxLayout()
        for widget in (self.light, self.patch, self.grey):
            self._buttons.addWidget(widget)
        self._chart_row = QHBoxLayout()
        for widget in (self.chart, self.search, self.kind):
            self._chart_row.addWidget(widget)
        below = QVBoxLayout(self)
        below.setContentsMargins(0, 0, 0, 0)
        for widget in (self.text, self.correct_white, self.bars, self.attention):
            below.addWidget(widget)
        below.addWidget(self.forget_button, alignment=Qt.AlignmentFlag.AlignRight)
        layout.addRow("Ask", self._buttons)
        # Beside a label it would make the dock wider than 320 pixels.
        layout.addRow(self._chart_row)
        layout.addRow(self)

    def draw(self, form: ReconstructionForm) -> None:
        """Show what can be asked of the photo of *form*, and what it told."""
        finding = form.finding
        self._layout.setRowVisible(self._buttons, form.layer is not None)
        self._layout.setRowVisible(self._chart_row, form.layer is not None)
        self.kind.setCurrentIndex(self.kind.findData(form.chart))
        # The patch of an sRGB photo shows its white, but not how bright white is.
        self.grey.setVisible(form.needs_camera)
        self.grey.setValue(form.grey)
        self._layout.setRowVisible(self, finding is not None)
        if finding is not None:
            self.text.setText(finding.text)
            self.text.setToolTip(finding.details)
            self._draw_white(finding)
        self._draw_light(finding.light if finding is not None else None)
        self.attention.list_views(finding)

    def _draw_white(self, finding: Finding) -> None:
        balance = finding.balance
        self.correct_white.setVisible(balance is not None and balance.is_far)
        self.correct_white.setChecked(finding.corrects_white)

    def _draw_light(self, light: "LightEstimate | None") -> None:
        if light is self._light:
            return
        self._light = light
        self.bars.show_lights(light.candidates if light is not None else ())
        self.bars.setVisible(light is not None)


class LightBars(QWidget):
    """The likely lights of a photo, each a button beside a bar of its probability."""

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.buttons: list[QPushButton] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(1, 1)

    def show_lights(self, candidates: "Sequence[LightCandidate]") -> None:
        """List *candidates*, the likeliest first."""
        self._clear()
        for row, candidate in enumerate(candidates):
            self._add(row, candidate)

    def _add(self, row: int, candidate: "LightCandidate") -> None:
        name = candidate.name
        short = name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
        tip = f"{texts.TAKE_LIGHT_HINT}\n{name}: {candidate.family}"
        button = QPushButton(short, toolTip=tip)
        button.clicked.connect(calling(self._choose, name))
        bar = QProgressBar(maximum=100, value=round(100 * candidate.probability), toolTip=tip)
        self.buttons.append(button)
        self._grid.addWidget(button, row, 0)
        self._grid.addWidget(bar, row, 1)

    def _clear(self) -> None:
        self.buttons = []
        while self._grid.count():
            widget = self._grid.takeAt(0).widget()
            widget.setParent(None)
            widget.deleteLater()

    def _choose(self, name: str) -> None:
        self.chosen.emit(name)
