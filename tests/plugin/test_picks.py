"""Pinned spectra on a viewer without a window."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.plugin import picks
from napari_mst.plugin.layers import Placement, cube_layer, cube_of
from napari_mst.plugin.picks import pin, pinned, spectrum_at


def places(viewer: ViewerModel) -> list[tuple[int, int]]:
    return [(spectrum.row, spectrum.column) for spectrum in pinned(viewer)]


def test_a_pin_is_a_point_on_the_centre_of_its_pixel_and_a_curve_of_its_colour(cube_viewer: ViewerModel) -> None:
    assert pin(cube_viewer, (550, 4.3, 6.8))
    points, (spectrum,) = picks.picks_layer(cube_viewer), pinned(cube_viewer)
    np.testing.assert_array_equal(points.data, [[4, 7]])
    np.testing.assert_array_equal(spectrum.values, cube_of(cube_viewer.layers[0]).data[:, 4, 7])
    assert spectrum.colour == tuple(points.face_color[0])


def test_a_pixel_is_pinned_once(cube_viewer: ViewerModel) -> None:
    assert [pin(cube_viewer, (550, 4, 7)), pin(cube_viewer, (450, 4.4, 6.6))] == [True, False]
    assert places(cube_viewer) == [(4, 7)]


def test_pinning_leaves_the_cube_selected(cube_viewer: ViewerModel) -> None:
    cube = cube_viewer.layers.selection.active
    pin(cube_viewer, (550, 4, 7))
    assert cube_viewer.layers.selection.active is cube


def test_moved_and_deleted_points_move_and_delete_their_spectra(cube_viewer: ViewerModel) -> None:
    for column in (1, 2, 3):
        pin(cube_viewer, (550, 5, column))
    points = picks.picks_layer(cube_viewer)
    points.data = [[5, 1], [9, 9], [5, 3]]
    assert places(cube_viewer) == [(5, 1), (9, 9), (5, 3)]
    points.selected_data = {0}
    points.remove_selected()
    assert places(cube_viewer) == [(9, 9), (5, 3)]


def test_points_off_the_image_have_no_spectrum_and_the_others_keep_their_colours(cube_viewer: ViewerModel) -> None:
    for column in (1, 2):
        pin(cube_viewer, (550, 5, column))
    points = picks.picks_layer(cube_viewer)
    points.data = [[-1, 1], [5, 2]]
    (spectrum,) = pinned(cube_viewer)
    assert spectrum.colour == tuple(points.face_color[1])


def test_points_keep_their_pixels_under_a_transform(cube_viewer: ViewerModel) -> None:
    viewer = ViewerModel()
    photo = Image(np.zeros((20, 30)), scale=(0.5, 2), rotate=25, translate=(100, -7), units=("um", "um"))
    data, arguments, _ = cube_layer(cube_of(cube_viewer.layers[0]), "cube", Placement.of(photo))
    layer = viewer.add_image(data, **arguments)
    assert pin(viewer, layer.data_to_world((3, 17, 29)))
    np.testing.assert_allclose(picks.picks_layer(viewer).data, [[17, 29]], atol=1e-9)
    assert places(viewer) == [(17, 29)]


@pytest.mark.parametrize("column", [-1, 30], ids=["left", "right"])
def test_nothing_is_pinned_outside_the_image(cube_viewer: ViewerModel, column: int) -> None:
    assert not pin(cube_viewer, (550, 4, column))
    assert spectrum_at(cube_viewer, (550, 4, column)) is None
    assert len(cube_viewer.layers) == 1


def test_new_points_get_the_colour_that_is_used_least() -> None:
    viewer = ViewerModel()
    points = viewer.add_points([[0, 0], [1, 1]], face_color=[picks.PALETTE[0]] * 2)
    picks.tell_apart(points, [-1])
    np.testing.assert_allclose(points.face_color, picks.COLOURS[:2])


def test_hidden_points_have_no_curves(cube_viewer: ViewerModel) -> None:
    pin(cube_viewer, (550, 4, 7))
    picks.picks_layer(cube_viewer).visible = False
    assert pinned(cube_viewer) == []
