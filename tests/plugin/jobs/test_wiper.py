"""The wiper cuts the picture of a cube at a line that is dragged, and never the cube."""

from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Vectors
from tests.plugin.conftest import make_cube

from napari_mst.plugin.jobs.comparing import NAME, Wiper
from napari_mst.plugin.jobs.composing import Colours, Composer
from napari_mst.plugin.viewer.composites import composite_of
from napari_mst.plugin.viewer.layers import active_cube_layer

pytestmark = pytest.mark.usefixtures("as_pictures")


@pytest.fixture
def wiper(cube_viewer: ViewerModel, layer: Image) -> Wiper:
    wiper = Wiper.of(cube_viewer)
    wiper.open()
    return wiper


def picture_of(viewer: ViewerModel, layer: Image) -> Image:
    picture = composite_of(viewer, layer)
    assert picture is not None
    return picture


def test_picture_is_cut_above_the_photo_and_the_cube_stays(
    cube_viewer: ViewerModel, wiper: Wiper, layer: Image
) -> None:
    names = [one.name for one in cube_viewer.layers]
    assert names == ["photo", "cube", "cube (picture)", NAME]
    picture = picture_of(cube_viewer, layer)
    whole = make_cube().composite()
    np.testing.assert_array_equal(picture.data, whole[:, 15:])
    assert picture.translate.tolist() == [0, 15]
    wiper.move_to(0.8)
    np.testing.assert_array_equal(picture.data, whole[:, 24:])
    assert picture.translate.tolist() == [0, 24]
    assert layer.data.shape == (31, 20, 30)
    assert [active_cube_layer(cube_viewer)] == [layer]
    assert not layer.visible
    wiper.close()
    np.testing.assert_array_equal(picture.data, whole)
    assert picture.translate.tolist() == [0, 0]
    assert layer.visible
    assert NAME not in cube_viewer.layers


def drag(viewer: ViewerModel, columns: list[float]) -> None:
    """Press at the first of *columns*, move over the others, and release."""
    event = SimpleNamespace(type="mouse_press", button=1, position=(550, 3, columns[0]))
    (press,) = [call for call in viewer.mouse_drag_callbacks if call.__name__ == "_press"]
    steps = press(viewer, event)
    if next(steps, "left") == "left":
        return
    event.type = "mouse_move"
    for column in columns[1:]:
        event.position = (550, 3, column)
        next(steps)
    event.type = "mouse_release"
    assert next(steps, "left") == "left"


def test_the_line_is_dragged_and_a_press_elsewhere_pans(
    cube_viewer: ViewerModel, wiper: Wiper, layer: Image
) -> None:
    drag(cube_viewer, [14.5, 20, 22.5])
    assert wiper.share == pytest.approx(23 / 30)
    line = cube_viewer.layers[NAME]
    assert isinstance(line, Vectors)
    assert line.data[0, 0, 1] == pytest.approx(22.5)
    assert cube_viewer.scene.camera.mouse_pan
    cube_viewer.scene.camera.zoom = 10
    drag(cube_viewer, [3, 9])
    assert wiper.share == pytest.approx(23 / 30)
    drag(cube_viewer, [22.5, 99])
    assert wiper.share == pytest.approx(29 / 30)  # one column is left


def test_new_colours_are_cut_as_well(cube_viewer: ViewerModel, wiper: Wiper, layer: Image) -> None:
    Composer.of(cube_viewer).show(layer, Colours(light="A"))
    picture = picture_of(cube_viewer, layer)
    np.testing.assert_array_equal(picture.data, make_cube().render("A")[:, 15:])


def test_removing_the_line_closes_the_wiper(
    cube_viewer: ViewerModel, wiper: Wiper, layer: Image
) -> None:
    cube_viewer.layers.remove(NAME)
    assert not wiper.is_open
    assert picture_of(cube_viewer, layer).data.shape == (20, 30, 3)


def test_removing_everything_closes_the_wiper(cube_viewer: ViewerModel, wiper: Wiper) -> None:
    cube_viewer.layers.clear()
    assert not wiper.is_open


def test_without_a_cube_there_is_nothing_to_wipe() -> None:
    viewer = ViewerModel()
    wiper = Wiper.of(viewer)
    wiper.toggle()
    assert not wiper.is_open
