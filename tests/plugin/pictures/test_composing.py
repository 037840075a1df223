"""The picture of a cube lies above it, stands for it, and follows it."""

from dataclasses import replace

import numpy as np
import pytest
from napari.components import ViewerModel
from numpy.testing import assert_array_equal
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import Told, make_cube
from tests.plugin.in_viewer import active_in, add_cube, picture_in

from napari_mst.base.errors import CubeError
from napari_mst.plugin.files.saving import cube_to_save, layer_to_save
from napari_mst.plugin.pictures import composing
from napari_mst.plugin.pictures.composing import BEST, Colours, Composer
from napari_mst.plugin.viewer.layer_photos import photo_layers
from napari_mst.plugin.viewer.layers import (
    active_cube_layer,
    composite_of,
    cube_of,
    is_composite,
    put_on_top,
)
from napari_mst.plugin.viewer.picks import pixel_under

pytestmark = pytest.mark.usefixtures("as_pictures")


@pytest.fixture(autouse=True)
def composer(cube_viewer: ViewerModel) -> Composer:
    return Composer.of(cube_viewer)


def waits_for_pictures(qtbot: QtBot, viewer: ViewerModel, count: int) -> None:
    qtbot.waitUntil(lambda: sum(map(is_composite, viewer.layers)) == count)


def test_any_cube_gets_its_picture_right_above_it(cube_viewer: ViewerModel, qtbot: QtBot) -> None:
    second = add_cube(cube_viewer, make_cube(), "second")
    waits_for_pictures(qtbot, cube_viewer, 2)
    names = [layer.name for layer in cube_viewer.layers]
    assert names == ["cube", "cube (picture)", "second", "second (picture)"]
    cube_viewer.add_image(np.zeros((20, 30)), name="no cube")
    put_on_top(cube_viewer, second)
    assert [layer.name for layer in cube_viewer.layers] == [*names[:2], "no cube", *names[2:]]
    picture = picture_in(cube_viewer, second)
    assert_array_equal(picture.data, make_cube().composite())


def test_a_large_cube_is_painted_on_another_thread_and_a_removed_one_takes_its_picture_along(
    cube_viewer: ViewerModel, composer: Composer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube_viewer.layers.remove("cube")
    qtbot.waitUntil(lambda: not cube_viewer.layers)
    monkeypatch.setattr(composing, "AT_ONCE", 0)
    for is_painted in (True, False):
        layer = add_cube(cube_viewer, make_cube(), "large")
        composer.look_at(layer)
        assert composer.is_busy
        assert composite_of(cube_viewer, layer) is None
        if is_painted:
            waits_for_pictures(qtbot, cube_viewer, 1)
            qtbot.waitUntil(lambda: not composer.is_busy)
            assert_array_equal(picture_in(cube_viewer).data, make_cube().composite())
        cube_viewer.layers.remove(layer)
        qtbot.waitUntil(lambda: not cube_viewer.layers and not composer.is_busy)


def test_a_selected_picture_is_its_cube(cube_viewer: ViewerModel) -> None:
    layer = active_in(cube_viewer)
    cube_viewer.layers.selection.active = picture_in(cube_viewer)
    assert [active_cube_layer(cube_viewer)] == [layer]
    assert pixel_under(cube_viewer, (550, 4, 7)) == (layer, 4, 7)
    layer.visible = False  # the picture is still seen
    assert pixel_under(cube_viewer, (550, 4, 7)) == (layer, 4, 7)
    picture_in(cube_viewer).visible = False
    assert active_cube_layer(cube_viewer) is None
    assert photo_layers(cube_viewer) == []


def test_saving_the_picture_saves_the_cube(cube_viewer: ViewerModel) -> None:
    picture = picture_in(cube_viewer)
    data, attributes, _ = picture.as_layer_data_tuple()
    saved = cube_to_save(data, attributes)
    assert_array_equal(saved.data, make_cube().data)
    assert_array_equal(saved.wavelengths, make_cube().wavelengths)
    cube_viewer.layers.selection.active = picture
    assert layer_to_save(cube_viewer) is active_in(cube_viewer)


def test_picture_follows_place_name_and_numbers_of_its_cube(cube_viewer: ViewerModel) -> None:
    layer, picture = active_in(cube_viewer), picture_in(cube_viewer)
    layer.scale = (10, 2, 3)
    layer.translate = (400, 5, 6)
    layer.units = ("nm", "um", "um")
    layer.name = "other"
    assert (picture.scale.tolist(), picture.translate.tolist()) == ([2, 3], [5, 6])
    assert [str(unit) for unit in picture.units] == ["micrometer", "micrometer"]
    assert picture.name == "other (picture)"
    cube = make_cube(7, 9)
    layer.metadata = {"napari_mst": cube}
    layer.data = cube.data
    assert_array_equal(picture.data, cube.composite())
    picture.name = "mine"
    layer.name = "third"
    assert picture.name == "mine"


def test_the_first_move_of_the_slider_shows_the_band_and_the_key_the_picture_again(
    cube_viewer: ViewerModel,
) -> None:
    picture = picture_in(cube_viewer)
    cube_viewer.dims.set_point(0, 500)
    assert not picture.visible
    (toggle,) = [call for key, call in cube_viewer.keymap.items() if str(key) == "H"]
    toggle(cube_viewer)
    assert picture.visible
    active_in(cube_viewer).visible = False
    cube_viewer.dims.set_point(0, 600)
    assert (picture.visible, active_in(cube_viewer).visible) == (False, True)
    cube_viewer.layers.remove(picture)
    toggle(cube_viewer)
    assert picture_in(cube_viewer).visible


def test_another_cube_does_not_hide_a_picture(cube_viewer: ViewerModel, qtbot: QtBot) -> None:
    first, picture = active_in(cube_viewer), picture_in(cube_viewer)
    cube = replace(make_cube(), wavelengths=make_cube().wavelengths + 1000)
    infrared = add_cube(cube_viewer, cube, "infrared")
    waits_for_pictures(qtbot, cube_viewer, 2)
    assert all(layer.visible for layer in cube_viewer.layers)
    # The slider shows the bands of the cube that is selected, from its first move.
    cube_viewer.layers.selection.active = first
    cube_viewer.dims.set_point(0, 600)
    assert not picture.visible
    picture.visible = True
    cube_viewer.layers.remove(infrared)
    assert picture.visible


def test_dragged_colours_are_those_of_the_bands(
    cube_viewer: ViewerModel, composer: Composer, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, picture = active_in(cube_viewer), picture_in(cube_viewer)
    layer.corner_pixels = np.array([[0, 0, 0], [30, 19, 29]])
    wavelengths = (700.0, 600.0, 500.0)
    composer.drag(layer, wavelengths)
    expected = make_cube().composite(wavelengths)
    assert_array_equal(picture.data, expected)
    monkeypatch.setattr(composing, "LIVE_PIXELS", 150)
    composer.drag(layer, wavelengths)
    assert_array_equal(picture.data, expected[::2, ::2])
    # The square of four pixels stays where the four were.
    assert (picture.scale.tolist(), picture.translate.tolist()) == ([2, 2], [0.5, 0.5])
    composer.show(layer, Colours(wavelengths))
    assert_array_equal(picture.data, expected)
    assert (picture.scale.tolist(), picture.translate.tolist()) == ([1, 1], [0, 0])
    assert composer.sitter_of(layer).title == "700, 600, 500 nm"


def test_cube_is_rendered_under_a_light(cube_viewer: ViewerModel, composer: Composer) -> None:
    layer, picture = active_in(cube_viewer), picture_in(cube_viewer)
    composer.show(layer, Colours(light="A"))
    assert_array_equal(picture.data, make_cube().render("A"))
    unknown = replace(make_cube(), quantity="")
    layer.metadata = {"napari_mst": unknown}
    with pytest.raises(CubeError, match="a cube of reflectance"):
        composer.show(layer, Colours(light="D65"))
    composer.show(layer, BEST)
    assert_array_equal(picture.data, unknown.composite())


def test_a_light_that_no_longer_fits_is_told_and_left(
    cube_viewer: ViewerModel, composer: Composer, told: Told
) -> None:
    layer, picture = active_in(cube_viewer), picture_in(cube_viewer)
    composer.show(layer, Colours(light="A"))
    unknown = replace(make_cube(), quantity="")
    layer.metadata = {"napari_mst": unknown}
    layer.data = unknown.data.copy()
    assert_array_equal(picture.data, unknown.composite())
    assert composer.colours(layer) == BEST
    assert cube_of(layer) is not None
    assert "a cube of reflectance" in told()[-1]
