"""The dock "Metamers": the spectrum moves, the colour in the photo does not.

Its state is a `MetamerModel`: the dock forwards user actions to it, and draws it.
"""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.theme import Theme
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from napari_mst.base.errors import NapariMstError, SpectrumError, plain, shown
from napari_mst.cube.gaps import good_bands
from napari_mst.cube.spectrum import Origin, Spectrum
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.jobs.worker import Inquirer
from napari_mst.plugin.metamers.colour_widgets import ChartGrid, ColourTable
from napari_mst.plugin.metamers.metamer_model import (
    FIRST_AMOUNT,
    TO_ESTIMATE,
    ColourCodes,
    MetamerModel,
    Seen,
    Subject,
)
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.resolve import DrawnCurve
from napari_mst.plugin.viewer.bands import VISIBLE
from napari_mst.plugin.viewer.canvas_mouse import CanvasMouse
from napari_mst.plugin.viewer.full_screen import FullScreenButton
from napari_mst.plugin.viewer.layers import cube_at, shown_cube_layers
from napari_mst.plugin.viewer.picks import Position
from napari_mst.plugin.viewer.placement import pixel_at
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import HelpButton, Paragraph, ScrolledPage, fill

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor


MODEL = "pixelwise-srgb"
"""A network that sees one pixel at a time, as a single colour has no neighbours."""


def estimated(codes: ColourCodes) -> Spectrum:
    """Reconstruct a photo of one pixel. The first call is slow, as it imports torch."""
    cube = _reconstructor().reconstruct(np.array(codes, dtype=np.uint8)[None, None])
    return replace(cube.spectrum(0, 0), name=f"estimated by {MODEL}", origin=Origin())


@cache
def _reconstructor() -> "Reconstructor":
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    return Reconstructor(load_model(MODEL), "cpu")


@cache
def estimator() -> Inquirer:
    """Return the estimator of spectra, which all docks share."""
    # A dock asks first, on the main thread, so Qt delivers `ready` there.
    return Inquirer(lambda codes: estimated(codes))


REFLECTANCE = "reflectance"


def subject_at(viewer: ViewerModel, position: Position) -> Subject | None:
    """Return the spectrum of the cubes of *viewer* at a world *position*; None outside them.

    Measured cubes come before reconstructed ones, which then give the estimate.

    Raises
    ------
    SpectrumError
        If the clicked cube holds no reflectance.
    """
    if viewer.dims.ndisplay != 2:
        return None
    there = [layer for layer in shown_cube_layers(viewer) if pixel_at(layer, position)]
    estimates = [layer for layer in there if cube_at(layer).provenance.model]
    truths = [layer for layer in there if layer not in estimates]
    seen = [_spectrum(layers[0], position) for layers in (truths, estimates) if layers]
    if not seen:
        return None
    return Subject(seen[0], seen[1] if len(seen) > 1 else None, has_truth=bool(truths))


def _spectrum(layer: Image, position: Position) -> Spectrum:
    """The visible bands of the pixel of *layer* at *position*, which lies on it."""
    cube = cube_at(layer)
    if cube.quantity != REFLECTANCE:
        raise SpectrumError(
            f"Expected a cube of reflectance, got "
            f"{shown(cube.quantity, 40) or 'numbers of unknown meaning'} in "
            f"'{shown(layer.name, 40)}'. Metamers are spectra of things in a light."
        )
    row, column = pixel_at(layer, position) or (0, 0)
    at, used = cube.wavelengths, good_bands(cube)
    if cube.has_wavelengths:
        # The smoothest waves would otherwise lie where no eye sees them.
        used = used[(at[used] >= VISIBLE[0]) & (at[used] <= VISIBLE[1])]
    values = cube.spectrum(row, column).values
    name = f"{layer.name}, row {row}, column {column}"
    return Spectrum(at[used], values[used], unit=cube.unit, name=name)


TWO = ("this one", "that one")
"""Names of the spectra while the user is asked which one was photographed."""
ANSWER_TIP = "Say that it was this one that the camera saw."
LARGE = "QLabel, QComboBox, QPushButton, QToolButton { font-size: 20px; }"
STEPS = 100
"""Steps of the slider on each side."""
METAMER, ESTIMATE = "#4d8fea", "#f58231"
"""Colours of the curves; the first spectrum takes the text colour. The estimate is dashed."""
HELP_TIP = "Read about metamers in the documentation, in your browser."
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

    SIZE = (400, 600)

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.model = MetamerModel()
        self.chart = ChartGrid(self.model.chart)
        self.title = QLabel()
        # A long name is cut instead of widening the dock.
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.full_button = FullScreenButton(LARGE)
        self.help_button = HelpButton("metamers.md", HELP_TIP)
        self.plot = SpectraPlot()
        self.waves = QComboBox(toolTip=WAVE_TIP)
        self.slider = QSlider(
            Qt.Orientation.Horizontal,
            toolTip=SLIDER_TIP,
            minimum=-STEPS,
            maximum=STEPS,
            pageStep=STEPS // 10,
            tickInterval=STEPS,
            tickPosition=QSlider.TickPosition.TicksBelow,
            value=round(FIRST_AMOUNT * STEPS),
        )
        self.colours = ColourTable()
        self.text = Paragraph()
        self.answers = [QPushButton(name.capitalize(), toolTip=ANSWER_TIP) for name in TWO]
        others = [f"Wave {number}" for number in range(2, TO_ESTIMATE + 1)]
        self.waves.addItems(["Wave 1, the smoothest", *others, "Towards the estimate"])
        self._lay_out()
        self.chart.chosen.connect(self.model.choose_patch)
        self.waves.currentIndexChanged.connect(self.model.choose_direction)
        self.slider.valueChanged.connect(self._slide)
        self.colours.light_chosen.connect(self.model.choose_light)
        for button in self.answers:
            button.clicked.connect(calling(self.model.answer))

    def _lay_out(self) -> None:
        content = QWidget()
        head = (self.title, self.full_button, self.help_button)
        layout = fill(
            QVBoxLayout(content),
            self.chart,
            fill(QHBoxLayout(), *head, stretched=self.title),
            self.plot,
            self.waves,
            self.slider,
            self.colours,
            self.text,
            fill(QHBoxLayout(), *self.answers),
            stretched=self.plot,
        )
        layout.setContentsMargins(4, 4, 4, 4)
        layout.setSpacing(6)
        self.content = self.full_button.page = ScrolledPage(content)
        fill(QVBoxLayout(self), self.content)

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [
            (self.model.subject_changed, self._ask),
            (self.model.changed, self._draw),
            (estimator().ready, self.model.take_estimate),
            (estimator().failed, self._on_failed),
            (CanvasMouse(self.viewer), self.look_at),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        self._ask()

    # ------------------------------------------------------------------------ what the user does

    def look_at(self, position: Position) -> None:
        """Show the pixel of a cube at a world *position*; outside all cubes nothing happens.

        If the pixel has no metamers, the dock says so.
        """
        try:
            subject = subject_at(self.viewer, position)
            if subject is not None:
                self.model.choose(subject)
        except NapariMstError as error:
            self.text.setText(plain(error))

    def release(self) -> None:
        """See `Dock`; a page that fills the screen goes with the dock."""
        self.full_button.end()

    def _slide(self, step: int) -> None:
        self.model.slide(step / STEPS)

    # ------------------------------------------------------------------------ the estimate

    def _ask(self) -> None:
        """Ask the network to estimate a spectrum of the colour, unless there is an estimate."""
        if self.model.estimate is None and self.model.subject.has_truth:
            codes = self.model.codes
            estimate = estimator().ask(codes)
            if estimate is not None:
                self.model.take_estimate(codes, estimate)

    def _on_failed(self, reason: str) -> None:
        self.text.setText(f"There is no estimate. {reason}")

    # ------------------------------------------------------------------------ what is drawn

    def _draw(self) -> None:
        model, rows = self.model, self._rows()
        first = model.first.spectrum
        self.chart.show_chosen(model.patch)
        self.title.setText(first.name if model.patch is None else f"{first.name}{CHART_HINT}")
        self.title.setToolTip(first.name)
        # The axis is fixed, so that only the curve moves with the slider.
        self.plot.set_axes(tuple(first.wavelengths), first.unit, REFLECTANCE, 1.0)
        # Dashed curves come last: a curve below them shows through.
        lines = [DrawnCurve(row.spectrum, int(row.spectrum.colour == ESTIMATE)) for row in rows]
        self.plot.set_lines(sorted(lines, key=lambda line: line.style))
        self.colours.show_rows(rows)
        self.text.setText(model.sentence)
        for button in self.answers:
            button.setVisible(model.is_asking)

    def _rows(self) -> list[Seen]:
        """The rows of the table, whose spectra have the names and colours of their curves."""
        model = self.model
        if model.is_asking:
            names = TWO
        else:
            names = ("true" if model.subject.has_truth else "estimated", "metamer")
        rows = [_named(model.first, names[0], self._ink), _named(model.metamer, names[1], METAMER)]
        if model.estimated is not None and not model.is_asking:
            rows.insert(1, _named(model.estimated, "estimated", ESTIMATE))
        return rows

    def set_theme(self, theme: Theme) -> None:
        """See `Dock`."""
        self.plot.set_theme(theme)
        self._ink = theme.text.as_hex()
        self.chart.set_frame(self._ink)
        self._draw()


def _named(seen: Seen, name: str, colour: str) -> Seen:
    return seen._replace(spectrum=replace(seen.spectrum, name=name, colour=colour))
