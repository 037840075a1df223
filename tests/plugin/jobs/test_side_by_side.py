"""A cube and what lies below it are shown in two cells of napari's grid, whatever else is there."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from tests.plugin.conftest import make_cube

from napari_mst.plugin.jobs.comparing import SideBySide, Wiper, stride_of
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_layer

pytestmark = pytest.mark.usefixtures("as_pictures")


@pytest.fixture
def sides(cube_viewer: ViewerModel, layer: Image) -> SideBySide:
    sides = SideBySide.of(cube_viewer)
    sides.open()
    return sides


def cells(viewer: ViewerModel) -> list[set[str]]:
    """The names of the layers that each cell of the grid shows."""
    views = viewer.canvas.grid.iter_viewboxes(viewer.layers)
    return [
        {viewer.layers[at].name for at in found if viewer.layers[at].visible} for _, found in views
    ]


@pytest.mark.parametrize("layers", [2, 3, 4, 7])
def test_a_stride_makes_two_groups_wherever_the_border_is(layers: int) -> None:
    for lower in range(1, layers):
        stride = stride_of(lower, layers)
        at = np.arange(layers)
        groups = (at if stride > 0 else at[::-1]) // abs(stride)
        assert len(set(groups[:lower])) == len(set(groups[lower:])) == 1
        assert groups[0] != groups[-1]


def test_the_photo_and_the_cube_lie_in_two_cells(
    cube_viewer: ViewerModel, sides: SideBySide
) -> None:
    assert sides.is_open
    found = cells(cube_viewer)
    assert len(found) == 2
    assert {"photo"} in found
    assert {"cube", "cube (picture)"} in found


def test_layers_that_come_and_go_do_not_make_a_third_cell(
    cube_viewer: ViewerModel, sides: SideBySide
) -> None:
    picks.pin(cube_viewer, (550, 4, 7))
    assert {"cube", "cube (picture)", "Picks"} in cells(cube_viewer)
    cube_viewer.layers.remove("cube (picture)")
    assert {"cube", "Picks"} in cells(cube_viewer)
    assert {"photo"} in cells(cube_viewer)


def test_two_cubes_are_compared(cube_viewer: ViewerModel, layer: Image) -> None:
    data, arguments, _ = cube_layer(make_cube(), "other")
    cube_viewer.add_image(data, **arguments)
    SideBySide.of(cube_viewer).open()
    found = cells(cube_viewer)
    assert len(found) == 2
    assert {"other", "other (picture)"} in found


def test_the_grid_is_as_before_when_it_is_closed(cube_viewer: ViewerModel, layer: Image) -> None:
    grid = cube_viewer.canvas.grid
    grid.stride, grid.shape = 3, (2, 2)
    sides = SideBySide.of(cube_viewer)
    sides.open()
    grid.enabled = False  # napari's own button
    assert not sides.is_open
    assert (grid.stride, grid.shape) == (3, (2, 2))


def test_a_cube_that_is_removed_ends_it(
    cube_viewer: ViewerModel, sides: SideBySide, layer: Image
) -> None:
    cube_viewer.layers.remove(layer)
    assert not sides.is_open
    assert not cube_viewer.canvas.grid.enabled


def test_the_wiper_and_the_sides_take_turns(cube_viewer: ViewerModel, sides: SideBySide) -> None:
    Wiper.of(cube_viewer).open()
    assert not sides.is_open
    sides.open()
    assert not Wiper.of(cube_viewer).is_open


def test_with_nothing_below_the_cube_nothing_changes(cube_viewer: ViewerModel) -> None:
    sides = SideBySide.of(cube_viewer)
    sides.toggle()
    assert not sides.is_open
    assert not cube_viewer.canvas.grid.enabled
