"""Few curves are drawn one by one, thousands by their colour; every number is drawn."""

import numpy as np
import pytest
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor, QPainterPath
from qtpy.QtWidgets import QApplication

from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.spectra.drawn_curves import MOST_SMOOTH, CurvesItem, pen
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.resolve import DrawnCurve

COLOURS = ("#e6194b", "#f58231", "#3cb44b")
WAVELENGTHS = np.linspace(400, 700, 5)


class Painter:
    """Keeps the paths that are drawn."""

    def __init__(self) -> None:
        self.paths: list[QPainterPath] = []

    def setRenderHint(self, *_: object) -> None: ...

    def setPen(self, *_: object) -> None: ...

    def drawPath(self, path: QPainterPath) -> None:
        self.paths.append(path)


@pytest.mark.parametrize(
    ("lines", "strokes"), [(MOST_SMOOTH, MOST_SMOOTH), (MOST_SMOOTH + 1, len(COLOURS))]
)
def test_many_curves_are_drawn_by_colour(qapp: QApplication, lines: int, strokes: int) -> None:
    item, painter = CurvesItem(), Painter()
    item.set_lines(
        [
            DrawnCurve(Spectrum(WAVELENGTHS, np.full(5, float(row)), colour=COLOURS[row % 3]))
            for row in range(lines)
        ]
    )
    item.paint(painter)
    assert len(painter.paths) == strokes
    drawn = {
        (at.x, at.y)
        for path in painter.paths
        for at in map(path.elementAt, range(path.elementCount()))
        if np.isfinite(at.y)
    }
    assert drawn == {(x, float(row)) for x in WAVELENGTHS for row in range(lines)}


def test_curves_keep_half_of_the_axis_where_their_bounds_are_wide() -> None:
    values = np.linspace(0.2, 0.6, 5)
    item = CurvesItem()
    near = Spectrum(WAVELENGTHS, values, lower=values - 0.1, upper=values + 0.1)
    item.set_lines([DrawnCurve(near)])
    assert item.values == pytest.approx((0.1, 0.7))
    far = Spectrum(WAVELENGTHS, values, lower=values - 0.1, upper=values + 5)
    item.set_lines([DrawnCurve(near), DrawnCurve(far)])
    assert item.values == pytest.approx((0.1, 1.2))


def test_the_name_of_an_axis_stands_in_its_middle(qtbot: QtBot) -> None:
    plot = SpectraPlot()
    qtbot.addWidget(plot)
    plot.show()
    qtbot.waitExposed(plot)
    plot.set_axes(WAVELENGTHS.tolist(), "nm", "continuum removed")
    for axis, side in ((plot.left, "height"), (plot.bottom, "width")):
        name = axis.label.mapRectToParent(axis.label.boundingRect())
        beside = getattr(name, side)() / 2 + (name.top() if side == "height" else name.left())
        assert abs(beside - getattr(axis.size(), side)() / 2) <= 1


def test_the_first_cube_is_drawn_solid_and_each_other_with_dashes_of_its_own() -> None:
    first, *others = (pen(QColor("red"), style, 2) for style in range(4))
    assert first.style() == Qt.PenStyle.SolidLine
    assert {one.style() for one in others} == {Qt.PenStyle.CustomDashLine}
    assert len({tuple(one.dashPattern()) for one in others}) == 3
