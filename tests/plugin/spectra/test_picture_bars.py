"""The bars in the plot choose the bands of the picture."""

import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import picture_in

from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.spectra.dock import SpectraDock


@pytest.mark.usefixtures("as_pictures")
def test_bars_are_there_while_the_picture_is_and_a_dragged_one_changes_it(
    spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    plot, composer = spectra_dock.plot, Composer.of(cube_viewer)
    qtbot.waitUntil(lambda: len(plot.handles) == 3)
    composer.toggle()
    qtbot.waitUntil(lambda: not plot.handles)
    composer.toggle()
    qtbot.waitUntil(lambda: len(plot.handles) == 3)
    red, green, blue = plot.handles
    assert (red.value(), green.value(), blue.value()) == (640, 540, 460)
    red.setValue(900)
    red.sigDragged.emit(red)
    red.sigPositionChangeFinished.emit(red)
    expected = make_cube().composite((700, 540, 460))
    qtbot.waitUntil(lambda: np.array_equal(picture_in(cube_viewer).data, expected))
    # It reached beyond the wavelengths of the cube, and now stands at the last one.
    assert [one.value() for one in plot.handles] == [700, 540, 460]
