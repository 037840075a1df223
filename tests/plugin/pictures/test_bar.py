"""The bar on the image shows how a cube is seen, and changes it."""

from collections.abc import Callable

import napari
import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_array_equal
from pytestqt.qtbot import QtBot
from qtpy.QtWidgets import QLineEdit, QPushButton, QWidget
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube, picture_in

from napari_mst.analysis import maps
from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.pictures.bar import PictureBar
from napari_mst.plugin.pictures.comparing import SideBySideView, Wiper
from napari_mst.plugin.pictures.composing import Colours, Composer
from napari_mst.plugin.viewer.bands import Bands
from napari_mst.plugin.viewer.layers import put_cube
from napari_mst.plugin.viewer.sharing import picture_choices

pytestmark = pytest.mark.usefixtures("as_pictures")


@pytest.fixture
def host(qtbot: QtBot) -> QWidget:
    """Stands for the image, which the bar lies on."""
    host = QWidget()
    qtbot.addWidget(host)
    return host


@pytest.fixture
def bar(cube_viewer: ViewerModel, layer: Image, host: QWidget) -> PictureBar:
    return PictureBar(cube_viewer, host)


def pressed(bar: PictureBar) -> list[str]:
    """The titles of the buttons of *bar* that are down."""
    return [button.text() for button in bar.findChildren(QPushButton) if button.isChecked()]


def test_picture_or_band_is_down_and_a_click_changes_it(
    bar: PictureBar, cube_viewer: ViewerModel
) -> None:
    picture = picture_in(cube_viewer)
    assert pressed(bar) == ["Picture"]
    cube_viewer.dims.set_point(0, 500)
    assert pressed(bar) == ["Band (H)"]
    bar.picture.click()
    assert (picture.visible, pressed(bar)) == (True, ["Picture"])
    for _ in range(2):  # the second click changes nothing
        bar.band.click()
        assert (picture.visible, pressed(bar)) == (False, ["Band (H)"])
    picture.visible = True  # its eye in the list of layers
    assert pressed(bar) == ["Picture"]
    cube_viewer.layers.clear()
    assert bar.isHidden()


@pytest.mark.parametrize(
    ("title", "of"), [("Wiper", Wiper.of), ("Side by side", SideBySideView.of)]
)
def test_a_comparison_is_opened_and_closed(
    bar: PictureBar,
    cube_viewer: ViewerModel,
    title: str,
    of: Callable[[ViewerModel], Wiper | SideBySideView],
) -> None:
    (button,) = [each for each in bar.findChildren(QPushButton) if each.text() == title]
    for is_open in (True, False):
        button.click()
        assert (of(cube_viewer).is_open, title in pressed(bar)) == (is_open, is_open)


def test_the_picture_is_rendered_under_a_light_and_back(
    bar: PictureBar, cube_viewer: ViewerModel
) -> None:
    picture = picture_in(cube_viewer)
    titles = [action.text() for action in bar.lights.actions()]
    assert titles[1:] == ["D65", "A", "LED-B3", "More", titles[-1]]
    bar.band.click()
    bar.render_under("A")
    assert picture.visible
    assert_array_equal(picture.data, make_cube().render("A"))
    assert bar.picture.toolTip().endswith("\nCIE colour, A")
    bar.lights.actions()[0].trigger()
    assert_array_equal(picture.data, make_cube().composite())


@pytest.mark.parametrize(
    ("cube", "reason"),
    [
        (maps.transformed(make_cube(), "continuum removed").to_cube(), "holds continuum removed."),
        (make_cube().sel(wavelength=slice(500, 600)), "covers 450-650 nm. Select one"),
    ],
    ids=["no-reflectance", "few-bands"],
)
def test_a_cube_that_no_light_suits_offers_none_and_says_why(
    bar: PictureBar, cube_viewer: ViewerModel, layer: Image, cube: SpectralCube, reason: str
) -> None:
    best, *lights = bar.lights.actions()
    cube_viewer.layers.selection.active = add_cube(cube_viewer, cube, "other")
    assert not any(entry.isEnabled() for entry in lights)
    assert all(reason in entry.toolTip() for entry in lights)
    assert best.isEnabled()
    cube_viewer.layers.selection.active = layer
    assert all(entry.isEnabled() and reason not in entry.toolTip() for entry in lights)


def test_the_choices_for_a_cube_are_said_and_stay_with_it(
    bar: PictureBar, cube_viewer: ViewerModel, layer: Image
) -> None:
    composer, light = Composer.of(cube_viewer), bar.lights.parentWidget()
    bar.render_under("A")
    assert light.text() == "Light: A"
    composer.show(layer, Colours((700.0, 600.0, 500.0)))
    assert (light.text(), bar.picture.text()) == ("Light", "Picture: 700, 600, 500 nm")
    composer.show_picture(layer, is_shown=False)
    second = add_cube(cube_viewer, make_cube(), "second")
    composer.look_at(second)
    bar.refresh()
    assert (bar.picture.text(), pressed(bar)) == ("Picture", ["Picture"])
    assert_array_equal(picture_in(cube_viewer, second).data, make_cube().composite())


def test_the_light_of_the_preferences_and_the_contrast_hold_in_the_next_session(
    bar: PictureBar, cube_viewer: ViewerModel
) -> None:
    contrast, tint = bar.more.actions()
    assert (contrast.isChecked(), tint.isChecked()) == (True, False)
    contrast.trigger()
    Bands.of(cube_viewer).is_tinted = True
    bar.refresh()
    assert (contrast.isChecked(), tint.isChecked()) == (False, True)
    picture_choices().light = "A"
    later = ViewerModel()
    assert not Bands.of(later).is_own
    composer = Composer.of(later)
    composer.look_at(add_cube(later, make_cube()))
    assert_array_equal(picture_in(later).data, make_cube().render("A"))
    # A cube without wavelengths has no colours under a light: it gets the best ones it has.
    bands = SpectralCube(make_cube().data, np.arange(31.0), unit=BAND_INDEX)
    layer = add_cube(later, bands, "bands")
    composer.look_at(layer)
    later.layers.selection.active = layer
    assert_array_equal(picture_in(later).data, bands.composite())


def test_the_bar_lies_on_the_image_of_a_window_whose_slider_shows_the_whole_wavelength(
    make_napari_viewer: Callable[..., napari.Viewer], qtbot: QtBot
) -> None:
    viewer = make_napari_viewer(show=True, strict_qt="raise")
    attend(viewer)
    main = viewer.window.main_menu.parentWidget()
    bar = main.findChild(PictureBar)
    # As a TIFF: a plain stack, which is known to be a cube when its sliders are there.
    layer = viewer.add_image(make_cube().data)
    (label,) = [one for one in main.findChildren(QLineEdit, "axis_label") if one.isVisible()]
    qtbot.waitUntil(lambda: label.width() > 0)
    assert bar.isHidden()
    put_cube(layer, make_cube().data, make_cube().to_layer_data("cube")[1])
    viewer.dims.set_point(0, 550)
    needed = label.fontMetrics().horizontalAdvance("550 nm")
    qtbot.waitUntil(lambda: label.text() == "550 nm" and label.width() > needed)
    viewer.layers.clear()
    add_cube(viewer, make_cube())
    qtbot.waitUntil(bar.isVisible)
    qtbot.waitUntil(bar.picture.isChecked)
    viewer.dims.set_current_step(0, 3)  # as a slider does
    assert bar.band.isChecked()
    bar.picture.click()
    assert bar.width() >= bar.sizeHint().width()
