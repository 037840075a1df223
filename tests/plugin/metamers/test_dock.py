"""The dock "Metamers": what a person does reaches its model, and its page is drawn."""

from functools import partial

import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QWidget
from tests.plugin.conftest import Told

from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.metamers import dock as metamers_dock
from napari_mst.plugin.metamers.dock import METAMER, TWO, MetamersDock
from napari_mst.plugin.metamers.metamer_model import ColourCodes


def halved(codes: ColourCodes) -> Spectrum:
    """Stands for the network, whose torch takes seconds to import."""
    return Spectrum(np.arange(400, 701, 10.0), np.linspace(0.1, sum(codes) / 765, 31))


@pytest.fixture
def dock(cube_viewer: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> MetamersDock:
    monkeypatch.setattr(metamers_dock, "estimated", halved)
    metamers_dock.estimator.cache_clear()
    dock = MetamersDock(cube_viewer)
    qtbot.addWidget(dock)
    dock.show()
    return dock


def drawn(dock: MetamersDock, colour: str) -> Spectrum:
    (line,) = [one for one in dock.plot.curves.lines if one.spectrum.colour == colour]
    return line.spectrum


def test_the_slider_moves_the_curve_and_not_the_colour_in_the_photo(
    dock: MetamersDock, qtbot: QtBot
) -> None:
    before = drawn(dock, METAMER).values
    dock.slider.setValue(90)
    dock.answers[1].click()
    assert np.abs(drawn(dock, METAMER).values - before).max() > 0.01
    # The estimate comes from another thread.
    _, photo, second = zip(*dock.colours.rows, strict=True)
    qtbot.waitUntil(lambda: photo[0].text() == photo[2].text() != "")
    assert photo[0].styleSheet() == photo[2].styleSheet()
    assert second[0].styleSheet() != second[2].styleSheet()
    before_light = second[2].text()
    dock.colours.lights.setCurrentIndex(dock.colours.lights.findData("F11"))
    assert dock.model.light == "F11"
    assert second[2].text() != before_light
    dock.slider.setValue(0)
    np.testing.assert_array_equal(drawn(dock, METAMER).values, dock.model.subject.spectrum.values)


def test_a_patch_is_chosen_by_a_click_or_an_arrow_key_and_estimated(
    dock: MetamersDock, qtbot: QtBot
) -> None:
    dock.chart.buttons[0].click()
    assert [line.spectrum.name for line in dock.plot.curves.lines] == list(TWO)
    dock.answers[0].click()
    qtbot.waitUntil(lambda: len(dock.plot.curves.lines) == 3)
    # Qt asks who has the focus before it moves it.
    qtbot.waitUntil(lambda: dock.activateWindow() or dock.isActiveWindow())
    dock.chart.buttons[0].setFocus()
    qtbot.keyClick(dock.chart.buttons[0], Qt.Key.Key_Down)
    assert dock.model.patch == 1
    assert dock.chart.buttons[1].isChecked()
    assert not dock.chart.buttons[0].isChecked()
    qtbot.waitUntil(lambda: dock.model.estimate is not None)
    assert dock.model.estimate is not None
    assert dock.model.estimate.values[-1] == pytest.approx(sum(dock.model.codes) / 765)


def test_a_network_that_fails_says_so_and_the_rest_goes_on(
    dock: MetamersDock, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: ColourCodes) -> Spectrum:
        raise OSError("no weights")

    qtbot.waitUntil(lambda: dock.model.estimate is not None)
    monkeypatch.setattr(metamers_dock, "estimated", fails)
    dock.chart.buttons[5].click()
    qtbot.waitUntil(lambda: "There is no estimate." in dock.text.text())
    dock.slider.setValue(10)
    assert len(dock.plot.curves.lines) == 2


def test_a_click_on_a_cube_shows_its_pixel(dock: MetamersDock, told: Told) -> None:
    dock.look_at((550.0, 3.0, 4.0))
    assert dock.title.text() == "cube, row 3, column 4"
    assert not any(button.isChecked() for button in dock.chart.buttons)
    assert told() == []


def is_active(window: QWidget) -> bool:
    window.activateWindow()
    return bool(window.isActiveWindow())


def test_the_lesson_fills_the_screen_until_escape_and_goes_with_its_dock(
    dock: MetamersDock, qtbot: QtBot
) -> None:
    for end in (lambda: qtbot.keyClick(dock.content.window(), Qt.Key.Key_Escape), dock.hide):
        dock.full_button.click()
        full = dock.content.window()
        assert full is not dock
        assert full.isFullScreen()
        dock.slider.setValue(40)
        assert dock.model.amount == 0.4
        qtbot.waitUntil(partial(is_active, full))
        with qtbot.waitSignal(full.destroyed):
            end()
        assert dock.content.parentWidget() is dock


def test_the_dock_is_narrow_and_low_enough(dock: MetamersDock) -> None:
    dock.model.choose_patch(0)
    assert dock.minimumSizeHint().width() <= 320
    assert dock.minimumSizeHint().height() <= 200
    buttons = (dock.help_button, dock.full_button, *dock.answers)
    for widget in (dock.slider, dock.waves, *buttons, dock.colours.lights):
        assert widget.toolTip()
