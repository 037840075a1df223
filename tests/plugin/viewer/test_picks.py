"""Picks on a viewer without a window."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_allclose, assert_array_equal
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube, picks_in

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.picks import pin, pixel_under, pixels_of
from napari_mst.plugin.viewer.placement import Placement


def places(viewer: ViewerModel, layer: Image | None = None) -> list[list[int]]:
    pixels, inside = pixels_of(picks_in(viewer), layer or viewer.layers[0])
    return pixels[inside].tolist()


def test_a_pin_is_a_point_on_the_centre_of_its_pixel_beside_the_selected_cube(
    cube_viewer: ViewerModel,
) -> None:
    cube = cube_viewer.layers.selection.active
    assert pin(cube_viewer, (550, 4.3, 6.8))
    assert cube_viewer.layers.selection.active is cube
    assert_array_equal(picks_in(cube_viewer).data, [[4, 7]])
    assert places(cube_viewer) == [[4, 7]]
    # A pixel is the square around its centre.
    corners = ((2.49, 3.5), (2.5, 4.5), (-0.5, 0))
    found = [pixel_under(cube_viewer, (500, *corner)) for corner in corners]
    assert found == [(cube, 2, 4), (cube, 3, 5), (cube, 0, 0)]


def test_a_pixel_is_pinned_once_with_each_window(cube_viewer: ViewerModel) -> None:
    assert [pin(cube_viewer, (550, 4, 7)), pin(cube_viewer, (450, 4.4, 6.6))] == [True, False]
    assert pin(cube_viewer, (550, 4, 7), window=3)
    assert picks.windows(picks_in(cube_viewer)).tolist() == [1, 3]


def test_names_are_given_once_and_the_first_free_number_is_taken(cube_viewer: ViewerModel) -> None:
    for column in range(3):
        pin(cube_viewer, (550, 5, column))
        picks.name_all(picks_in(cube_viewer))
    points = picks_in(cube_viewer)
    assert picks.names(points) == ["pick 1", "pick 2", "pick 3"]
    picks.remove(points, [1])
    points.add([9, 9])
    picks.name_all(points)
    assert picks.names(points) == ["pick 1", "pick 3", "pick 2"]


@pytest.mark.parametrize("rotate", [0, 25])
def test_points_keep_their_pixels_under_every_transform(rotate: float) -> None:
    viewer = ViewerModel()
    affine = [[1.1, 0.2, 3], [-0.1, 0.9, 5], [0, 0, 1]]
    photo = Image(
        np.zeros((20, 30)),
        scale=(0.5, 2),
        rotate=rotate,
        translate=(100, -7),
        affine=affine,
        shear=[0.3],
        units="um",
    )
    layer = add_cube(viewer, make_cube(), "cube", Placement.of(photo))
    every = [[row, column] for row in (0, 7, 19) for column in (0, 13, 29)]
    for row, column in every:
        assert pin(viewer, layer.data_to_world((3, row, column)))
    assert_allclose(picks_in(viewer).data, every, atol=1e-9)
    assert places(viewer) == every
    layer.translate = layer.translate + np.array([0, 0, 2])
    assert all(not pin(viewer, layer.data_to_world((3, 7, column))) for column in (-1, 30))


def hide(layer: Image, _: ViewerModel) -> None:
    layer.visible = False


def show_in_three_dimensions(_: Image, viewer: ViewerModel) -> None:
    viewer.dims.ndisplay = 3


def take_the_cube_away(layer: Image, _: ViewerModel) -> None:
    del layer.metadata["napari_mst"]


def mix_bands_and_rows(layer: Image, _: ViewerModel) -> None:
    layer.affine = [[1, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("position", "change"),
    [
        pytest.param((4, -0.51), None, id="077-left"),
        pytest.param((4, 29.51), None, id="077-right"),
        pytest.param((-0.51, 7), None, id="077-above"),
        pytest.param((19.51, 7), None, id="077-below"),
        pytest.param((np.nan, 7), None, id="077-nan"),
        pytest.param((4, 7), hide, id="077-hidden"),
        pytest.param((4, 7), show_in_three_dimensions, id="077-3-D"),
        pytest.param((4, 7), take_the_cube_away, id="077-no-cube"),
        pytest.param((4, 7), mix_bands_and_rows, id="077-mixed"),
    ],
)
def test_bad_input(
    cube_viewer: ViewerModel,
    position: tuple[float, float],
    change: Callable[[Image, ViewerModel], None] | None,
) -> None:
    if change is not None:
        change(cube_viewer.layers[0], cube_viewer)
    assert pixel_under(cube_viewer, (550, *position)) is None
    assert not pin(cube_viewer, (550, *position))
    assert len(cube_viewer.layers) == 1


def test_points_are_read_on_any_cube_and_have_no_pixel_off_it(cube_viewer: ViewerModel) -> None:
    cube = cube_viewer.layers["cube"]
    placed: dict[str, Any] = {"scale": (10, 2, 2), "translate": (400, 0.5, 0.5)}
    coarse = add_cube(cube_viewer, make_cube(10, 15), "coarse", **placed)
    cube_viewer.layers.selection.active = cube
    pin(cube_viewer, (550, 7, 12))
    assert (places(cube_viewer, cube), places(cube_viewer, coarse)) == ([[7, 12]], [[3, 6]])
    points = picks_in(cube_viewer)
    points.data = [[-1, 1], [5, 2], [5, 30], [20, 3]]
    assert pixels_of(points, cube)[1].tolist() == [False, True, False, False]
    # Between two pixels a point lies in the next one; -0.5 is the outer border of the first.
    points.data = [[2.5, 3.5], [4.49, -0.5], [19.49, 29.49], [19.5, 29.5]]
    assert pixels_of(points, cube)[0].tolist() == [[3, 4], [4, 0], [19, 29], [-1, -1]]


def test_new_points_get_the_colour_that_is_used_least_and_a_name() -> None:
    look: dict[str, Any] = {"face_color": [picks.PALETTE[0]] * 2}
    points = ViewerModel().add_points([[0, 0], [1, 1]], **look, metadata={METADATA_KEY: picks.ROLE})
    picks.tell_apart(points, [-1])
    assert_allclose(points.face_color, picks.COLOURS[:2])
    picks.name_all(points)
    assert picks.names(points) == ["pick 1", "pick 2"]


def test_undo_goes_back_and_redo_forth_through_all_that_can_be_changed(
    cube_viewer: ViewerModel,
) -> None:
    history = picks.History()
    history.step(picks.picks_layer(cube_viewer), -1)
    assert not history.can_undo
    pin(cube_viewer, (550, 5, 1))
    points = picks_in(cube_viewer)
    states = list[picks.PicksState]()
    changes: tuple[Callable[[], object], ...] = (
        lambda: picks.name_all(points),
        lambda: points.add([7, 7]),
        lambda: picks.name_all(points),
        lambda: setattr(points, "data", [[5, 1], [8, 8]]),
        lambda: picks.recolour(points, 1, "#102030"),
        lambda: picks.set_feature(points, "name", ["leaf", "soil"]),
        lambda: setattr(points, "shown", [False, True]),
        lambda: picks.remove(points, [0]),
    )
    for change in changes:
        change()
        history.record(points)
        history.record(points)  # nothing has changed since
        states.append(picks.PicksState.of(points))
    for state in states[-2::-1]:
        history.step(points, -1)
        assert picks.PicksState.of(points).equals(state)
    assert not history.can_undo
    for state in states[1:]:
        history.step(points, 1)
        assert picks.PicksState.of(points).equals(state)
    assert not history.can_redo
    history.step(points, -1)
    picks.recolour(points, 0, "#405060")
    history.step(points, 1)
    assert picks.colours(points)[0] == "#405060"
