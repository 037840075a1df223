"""The bars in the plot choose the bands of the picture."""

import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import picture_in

from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.spectra.dock import OF_THE_EYE, SpectraDock

pytestmark = pytest.mark.usefixtures("as_pictures")


@pytest.fixture
def dock(spectra_dock: SpectraDock, qtbot: QtBot) -> SpectraDock:
    qtbot.waitUntil(lambda: len(spectra_dock.plot.handles) == 3)
    return spectra_dock


def test_bars_are_there_while_the_picture_is(
    dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    assert tuple(bar.value() for bar in dock.plot.handles) == OF_THE_EYE
    Composer.of(cube_viewer).toggle()
    qtbot.waitUntil(lambda: not dock.plot.handles)
    Composer.of(cube_viewer).toggle()
    qtbot.waitUntil(lambda: len(dock.plot.handles) == 3)


def test_a_dragged_bar_changes_the_picture(
    dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    _, green, blue = OF_THE_EYE
    bar = dock.plot.handles[0]
    bar.setValue(900)
    bar.sigDragged.emit(bar)
    bar.sigPositionChangeFinished.emit(bar)
    expected = make_cube().composite((700, green, blue))
    qtbot.waitUntil(lambda: np.array_equal(picture_in(cube_viewer).data, expected))
    # It reached beyond the wavelengths of the cube, and now stands at the last one.
    assert [one.value() for one in dock.plot.handles] == [700, green, blue]
