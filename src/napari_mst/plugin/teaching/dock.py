"""The dock "Metamers": the spectrum moves, the colour in the photo does not.

Its state is a `Lesson`; the dock forwards what a person does to it, and draws its page.
"""

from napari.components import ViewerModel
from napari.utils.theme import get_theme
from qtpy.QtCore import QSize, Qt, QUrl
from qtpy.QtGui import QDesktopServices
from qtpy.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSizePolicy,
    QSlider,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.plugin.dock import Dock, Link, reported
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.snapshot import Line, ValueRange
from napari_mst.plugin.teaching.chart import ChartGrid
from napari_mst.plugin.teaching.colours import ColourTable, Row
from napari_mst.plugin.teaching.estimating import estimator
from napari_mst.plugin.teaching.lesson import FIRST_AMOUNT, TO_ESTIMATE, Codes, Lesson, Page
from napari_mst.plugin.teaching.pixels import subject_at
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.paragraph import Paragraph
from napari_mst.plugin.viewer.picks import Position
from napari_mst.spectra.spectrum import Spectrum

DOCUMENTATION = "https://github.com/napari-mst/napari-mst/blob/main/docs/metamers.md"
SIZE = (400, 600)
"""Width and height, in pixels, that the dock asks for."""
LOWEST = 120
"""Pixels; a dock that is lower scrolls."""
PLOT_HEIGHT = 180
"""Pixels of the plot at least."""
STEPS = 100
"""Steps of the slider to each side."""
ROOM = 1.05
"""The axis reaches so far above the highest curve."""
METAMER, ESTIMATE = "#4d8fea", "#f58231"
"""Colours of the curves; the first spectrum has that of the text."""
DASHED = 1
CHART_HINT = " (or click on a cube)"
SLIDER_TIP = (
    "Adds more or less of a spectrum that has no colour in the photo. "
    "At the ends a reflectance would become less than 0 or more than 1."
)
WAVE_TIP = (
    "The metameric black that is added: the smoothest waves that the photo does not see, or what "
    "the estimate differs by from the true spectrum."
)


class MetamersDock(Dock):
    """Shows a spectrum, its estimate, and a metamer that a slider makes."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.lesson = Lesson()
        self.chart = ChartGrid(self.lesson.chart)
        self.title = QLabel()
        # A long name is cut, and does not make the dock wider.
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.help_button = QToolButton(text="?", autoRaise=True)
        self.plot = SpectraPlot()
        self.waves = QComboBox(toolTip=WAVE_TIP)
        self.slider = QSlider(Qt.Orientation.Horizontal, toolTip=SLIDER_TIP)
        self.zero_button = QToolButton(text="0", toolTip="Back to the spectrum itself.")
        self.colours = ColourTable()
        self.text = Paragraph()
        self._fill()
        self._lay_out()
        self._wire()

    def _fill(self) -> None:
        self.help_button.setToolTip("Read about metamers in the documentation, in your browser.")
        self.plot.setMinimumHeight(PLOT_HEIGHT)
        # Else a dock that scrolls makes the plot as high as it would like to be.
        self.plot.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self.waves.addItem("Wave 1, the smoothest")
        self.waves.addItems([f"Wave {number}" for number in range(2, TO_ESTIMATE + 1)])
        self.waves.addItem("Towards the estimate")
        self.slider.setRange(-STEPS, STEPS)
        self.slider.setPageStep(STEPS // 10)
        self.slider.setTickInterval(STEPS)
        self.slider.setTickPosition(QSlider.TickPosition.TicksBelow)
        self.slider.setValue(round(FIRST_AMOUNT * STEPS))

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.title, stretch=1)
        head.addWidget(self.help_button)
        moves = QHBoxLayout()
        moves.addWidget(self.waves, stretch=1)
        moves.addWidget(self.zero_button)
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(4, 4, 4, 4)
        layout.setSpacing(6)
        layout.addWidget(self.chart)
        layout.addLayout(head)
        layout.addWidget(self.plot, stretch=1)
        layout.addLayout(moves)
        layout.addWidget(self.slider)
        layout.addWidget(self.colours)
        layout.addWidget(self.text)
        self._scroll(content)

    def _scroll(self, content: QWidget) -> None:
        """Show *content* at its own width at least; beside other docks it may be too high."""
        area = QScrollArea(widgetResizable=True, frameShape=QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Tab goes to the controls, not to the area that they scroll in.
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(content)
        bar = area.verticalScrollBar().sizeHint().width()
        area.setMinimumSize(content.minimumSizeHint().width() + bar, LOWEST)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)

    def _wire(self) -> None:
        self.chart.chosen.connect(self.lesson.choose_patch)
        self.help_button.clicked.connect(self._open_help)
        self.waves.currentIndexChanged.connect(self.lesson.choose_direction)
        self.slider.valueChanged.connect(self._slide)
        self.zero_button.clicked.connect(self._back)
        self.colours.light_chosen.connect(self.lesson.choose_light)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(*SIZE)

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [
            (self.lesson.subject_changed, self._ask),
            (self.lesson.changed, self._draw),
            (estimator().known, self._take),
            (estimator().failed, self.text.setText),
            (CanvasMouse(self.viewer), self.look_at),
            (self.viewer.events.theme, self._on_theme),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        self._ask()
        self._on_theme()

    # ------------------------------------------------------------------------ what the user does

    def look_at(self, position: Position) -> None:
        """Look at the pixel of a cube at a world *position*; nothing happens where there is none.

        The user is told if it has no metamers.
        """
        with reported():
            subject = subject_at(self.viewer, position)
            if subject is not None:
                self.lesson.choose(subject)

    def _slide(self, step: int) -> None:
        self.lesson.slide(step / STEPS)

    def _back(self) -> None:
        self.slider.setValue(0)

    def _open_help(self) -> None:
        QDesktopServices.openUrl(QUrl(DOCUMENTATION))

    # ------------------------------------------------------------------------ the estimate

    def _ask(self) -> None:
        """Ask the network for what it makes of the colour, unless an estimate is there."""
        if self.lesson.estimate is None and self.lesson.subject.has_truth:
            codes = self.lesson.codes
            found = estimator().ask(codes)
            if found is not None:
                self._take(codes, found)

    def _take(self, codes: Codes, estimate: Spectrum) -> None:
        self.lesson.take_estimate(codes, estimate)

    # ------------------------------------------------------------------------ what is drawn

    def _draw(self) -> None:
        page = self.lesson.page
        rows = self._rows(page)
        self.chart.show_chosen(self.lesson.patch)
        name = page.first.spectrum.name
        self.title.setText(name if self.lesson.patch is None else f"{name}{CHART_HINT}")
        self.title.setToolTip(name)
        self._draw_curves(page, rows)
        self.colours.show_rows(rows)
        self.text.setText(page.sentence)

    def _rows(self, page: Page) -> list[Row]:
        """The rows of the table, in the order in which their curves are drawn."""
        text = get_theme(self.viewer.theme).text.as_hex()
        rows = [Row("true" if page.has_truth else "estimated", text, page.first)]
        if page.estimate is not None:
            rows.append(Row("estimated", ESTIMATE, page.estimate))
        return [*rows, Row("metamer", METAMER, page.metamer)]

    def _draw_curves(self, page: Page, rows: list[Row]) -> None:
        first = page.first.spectrum
        self.plot.set_axes(first.wavelengths, first.unit, "reflectance")
        # The axis rests while the slider moves, so that only the curve does.
        self.plot.set_value_range(ValueRange("", (0.0, ROOM * page.highest)))
        # The dashes come last: they let a curve below them be seen.
        self.plot.set_lines(sorted(map(_line, rows), key=lambda line: line.style))

    def _on_theme(self) -> None:
        theme = get_theme(self.viewer.theme)
        self.plot.set_theme(theme)
        self.chart.set_frame(theme.text.as_hex())
        self._draw()


def _line(row: Row) -> Line:
    spectrum = row.seen.spectrum
    coloured = Spectrum(spectrum.wavelengths, spectrum.values, spectrum.unit, row.name, row.colour)
    return Line(coloured, style=DASHED if row.colour == ESTIMATE else 0)
