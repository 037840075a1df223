"""The bars in the plot choose the bands of the picture, and the menu its light and its file."""

from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from PIL import Image as PILImage
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import make_cube

from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.plugin.jobs.composing import Composer
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.pictures import OF_THE_EYE
from napari_mst.plugin.viewer.band_contrast import BandContrast
from napari_mst.plugin.viewer.colour_bar import ColourBar
from napari_mst.plugin.viewer.composites import composite_of
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_layer

pytestmark = pytest.mark.usefixtures("as_pictures")


@pytest.fixture
def dock(spectra_dock: SpectraDock, qtbot: QtBot) -> SpectraDock:
    qtbot.waitUntil(lambda: len(spectra_dock.plot.bars) == 3)
    return spectra_dock


def picture_of(viewer: ViewerModel) -> np.ndarray:
    layer = active_cube_layer(viewer)
    assert layer is not None
    picture = composite_of(viewer, layer)
    assert picture is not None
    return np.asarray(picture.data)


def test_bars_are_there_while_the_picture_is(
    dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    assert tuple(bar.value() for bar in dock.plot.bars) == OF_THE_EYE
    Composer.of(cube_viewer).toggle()
    qtbot.waitUntil(lambda: not dock.plot.bars)
    Composer.of(cube_viewer).toggle()
    qtbot.waitUntil(lambda: len(dock.plot.bars) == 3)


def test_a_dragged_bar_changes_the_picture(
    dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    _, green, blue = OF_THE_EYE
    bar = dock.plot.bars[0]
    bar.setValue(900)
    bar.sigDragged.emit(bar)
    bar.sigPositionChangeFinished.emit(bar)
    expected = make_cube().composite((700, green, blue))
    qtbot.waitUntil(lambda: np.array_equal(picture_of(cube_viewer), expected))
    # It reached beyond the wavelengths of the cube, and now stands at the last one.
    assert [one.value() for one in dock.plot.bars] == [700, green, blue]


def test_the_menu_renders_under_a_light_and_back(
    dock: SpectraDock, cube_viewer: ViewerModel
) -> None:
    dock.picture.render("A")
    np.testing.assert_array_equal(picture_of(cube_viewer), make_cube().render("A"))
    dock.picture.adapted.trigger()
    expected = make_cube().render("A", adapted=False)
    np.testing.assert_array_equal(picture_of(cube_viewer), expected)
    dock.picture.refresh()
    assert dock.picture.is_shown.text() == "Picture (CIE colour, A)"
    dock.picture.best.trigger()
    np.testing.assert_array_equal(picture_of(cube_viewer), make_cube().composite())


def test_the_choices_of_the_menu_are_remembered_by_the_next_session(
    dock: SpectraDock, cube_viewer: ViewerModel
) -> None:
    menu = dock.picture
    menu.refresh()
    menu.render("A")
    for switch in (menu.own, menu.coloured):
        switch.trigger()
    later = ViewerModel()
    contrast = BandContrast.of(later)
    assert (contrast.is_own, contrast.is_coloured) == (False, True)
    composer = Composer.of(later)
    data, arguments, _ = cube_layer(make_cube(), "cube")
    composer.look_at(later.add_image(data, **arguments))
    np.testing.assert_array_equal(picture_of(later), make_cube().render("A"))
    # A cube without wavelengths has no colours under a light: it gets the best ones it has.
    bands = SpectralCube(make_cube().data, np.arange(31.0), unit=BAND_INDEX)
    data, arguments, _ = cube_layer(bands, "bands")
    layer = later.add_image(data, **arguments)
    composer.look_at(layer)
    later.layers.selection.active = layer
    np.testing.assert_array_equal(picture_of(later), bands.composite())
    menu.always.trigger()
    assert not Composer.of(ViewerModel()).is_on


def test_the_picture_is_saved_as_it_is_shown(
    dock: SpectraDock, qtbot: QtBot, tmp_path: Path
) -> None:
    dock.picture.render("LED-B3")
    path = tmp_path / "led.png"
    dock.picture.save_as(path)
    qtbot.waitUntil(path.exists)
    with PILImage.open(path) as image:
        np.testing.assert_array_equal(np.asarray(image), make_cube().render("LED-B3"))
        assert image.info["Title"] == "CIE colour, LED-B3"
        assert image.info["icc_profile"]


def test_the_switches_of_the_bands_are_those_of_the_viewer(
    dock: SpectraDock, cube_viewer: ViewerModel
) -> None:
    layer = active_cube_layer(cube_viewer)
    assert layer is not None
    dock.picture.refresh()
    assert dock.picture.own.isChecked()
    assert dock.picture.bar.isChecked()
    dock.picture.bar.trigger()
    assert not ColourBar.of(cube_viewer).is_on
    dock.picture.coloured.trigger()
    dock.picture.refresh()
    assert dock.picture.coloured.isChecked()
    assert layer.colormap.name.endswith("nm")
