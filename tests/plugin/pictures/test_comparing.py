"""A cube is compared with what lies below it: beside it in napari's grid, or cut at a line."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_array_equal
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube, picture_in

from napari_mst.plugin.pictures.comparing import NAME, SideBySideView, Wiper, stride_of
from napari_mst.plugin.pictures.composing import Colours, Composer
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layer_photos import photo_layers
from napari_mst.plugin.viewer.layers import active_cube_layer

pytestmark = pytest.mark.usefixtures("as_pictures")
Change = Callable[[ViewerModel], object]


@pytest.fixture
def sides(cube_viewer: ViewerModel, layer: Image) -> SideBySideView:
    sides = SideBySideView.of(cube_viewer)
    sides.open()
    return sides


@pytest.fixture
def wiper(cube_viewer: ViewerModel, layer: Image) -> Wiper:
    wiper = Wiper.of(cube_viewer)
    wiper.open()
    return wiper


def cells(viewer: ViewerModel) -> list[set[str]]:
    """The names of the layers that each cell of the grid shows."""
    views = viewer.canvas.grid.iter_viewboxes(viewer.layers)
    return [
        {viewer.layers[at].name for at in places if viewer.layers[at].visible}
        for _, places in views
    ]


@pytest.mark.parametrize("layers", [2, 3, 4, 7])
def test_a_stride_makes_two_groups_wherever_the_border_is(layers: int) -> None:
    for lower in range(1, layers):
        stride = stride_of(lower, layers)
        at = np.arange(layers)
        groups = (at if stride > 0 else at[::-1]) // abs(stride)
        assert len(set(groups[:lower])) == len(set(groups[lower:])) == 1
        assert groups[0] != groups[-1]


def test_photo_and_cube_lie_in_two_cells_whatever_comes_and_goes(
    cube_viewer: ViewerModel, sides: SideBySideView
) -> None:
    changes: list[tuple[Change, set[str]]] = [
        (lambda _: None, {"cube", "cube (picture)"}),
        (lambda viewer: picks.pin(viewer, (550, 4, 7)), {"cube", "cube (picture)", "Picks"}),
        (lambda viewer: viewer.layers.remove("cube (picture)"), {"cube", "Picks"}),
    ]
    for change, upper in changes:
        change(cube_viewer)
        shown = cells(cube_viewer)
        assert len(shown) == 2
        assert all(cell in shown for cell in ({"photo"}, upper))
    # So do two cubes.
    cube_viewer.layers.remove("photo")
    add_cube(cube_viewer, make_cube(), "other")
    sides.open()
    assert cells(cube_viewer) in ([{"cube"}, {"other", "Picks"}], [{"other", "Picks"}, {"cube"}])


def test_the_grid_is_as_before_when_it_is_closed(cube_viewer: ViewerModel, layer: Image) -> None:
    grid = cube_viewer.canvas.grid
    grid.stride, grid.shape = 3, (2, 2)
    sides = SideBySideView.of(cube_viewer)
    sides.open()
    grid.enabled = False  # napari's own button
    assert not sides.is_open
    assert (grid.stride, grid.shape) == (3, (2, 2))


def test_the_wiper_and_the_sides_take_turns_and_end_with_the_cube(
    cube_viewer: ViewerModel, sides: SideBySideView, layer: Image
) -> None:
    Wiper.of(cube_viewer).open()
    assert not sides.is_open
    sides.open()
    assert not Wiper.of(cube_viewer).is_open
    cube_viewer.layers.remove(layer)
    assert not sides.is_open
    assert not cube_viewer.canvas.grid.enabled


def test_picture_is_cut_above_the_photo_and_the_cube_stays(
    cube_viewer: ViewerModel, wiper: Wiper, layer: Image
) -> None:
    assert [each.name for each in cube_viewer.layers] == ["photo", "cube", "cube (picture)", NAME]
    picture = picture_in(cube_viewer, layer)
    Composer.of(cube_viewer).show(layer, Colours(light="A"))
    whole = make_cube().render("A")
    for column in (15, 24):
        assert_array_equal(picture.data, whole[:, column:])
        assert picture.translate.tolist() == [0, column]
        wiper.move_to(0.8)
    assert layer.data.shape == (31, 20, 30)
    assert [active_cube_layer(cube_viewer)] == [layer]
    assert not layer.visible
    wiper.close()
    assert_array_equal(picture.data, whole)
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
    cube_viewer: ViewerModel, wiper: Wiper
) -> None:
    drag(cube_viewer, [14.5, 20, 22.5])
    assert wiper.share == pytest.approx(23 / 30)
    line = cube_viewer.layers[NAME]
    assert line not in photo_layers(cube_viewer)
    assert line.data_to_world((0, 0)) == pytest.approx((9.5, 22.5))
    assert cube_viewer.scene.camera.mouse_pan
    cube_viewer.scene.camera.zoom = 10
    drag(cube_viewer, [3, 9])
    assert wiper.share == pytest.approx(23 / 30)
    drag(cube_viewer, [22.5, 99])
    assert wiper.share == pytest.approx(29 / 30)  # one column is left


@pytest.mark.parametrize(
    ("close", "seen"),
    [
        pytest.param(lambda viewer: viewer.layers.remove(NAME), (True, True), id="line"),
        pytest.param(lambda viewer: viewer.dims.set_point(0, 500), (True, False), id="slider"),
        pytest.param(lambda viewer: viewer.layers.clear(), None, id="everything"),
    ],
)
def test_the_wiper_is_closed_by_what_leaves_nothing_to_wipe(
    cube_viewer: ViewerModel,
    wiper: Wiper,
    layer: Image,
    close: Change,
    seen: tuple[bool, bool] | None,
) -> None:
    close(cube_viewer)
    assert not wiper.is_open
    if seen is not None:  # the cube, and its whole picture
        picture = picture_in(cube_viewer, layer)
        assert (layer.visible, picture.visible) == seen
        assert picture.data.shape == (20, 30, 3)


def test_with_nothing_to_compare_nothing_changes(cube_viewer: ViewerModel) -> None:
    empty = ViewerModel()
    for comparison in (Wiper.of(empty), SideBySideView.of(cube_viewer)):
        comparison.toggle()
        assert not comparison.is_open
    assert not cube_viewer.canvas.grid.enabled
