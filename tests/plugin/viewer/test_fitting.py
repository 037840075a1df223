"""A fitted view stays fitted while the canvas gets other sizes; a view that was moved stays."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_mst.plugin.viewer.bands import FittedView


@pytest.fixture
def viewer() -> ViewerModel:
    viewer = ViewerModel()
    viewer.add_image(np.zeros((40, 60)))
    return viewer


def test_the_view_is_fitted_again_when_a_dock_takes_room(viewer: ViewerModel) -> None:
    viewer.canvas.size = (600, 800)
    viewer.reset_view()
    wide = viewer.scene.camera.zoom
    viewer.canvas.size = (600, 760)  # as of a slider that appears, before a dock of ours
    FittedView.of(viewer)
    for size, share in (((600, 400), 1 / 2), ((600, 200), 1 / 4)):
        viewer.canvas.size = size
        assert viewer.scene.camera.zoom == pytest.approx(share * wide)


@pytest.mark.parametrize("is_moved_first", [True, False])
def test_a_view_that_was_moved_stays_until_napari_fits_it(
    viewer: ViewerModel, is_moved_first: bool
) -> None:
    viewer.canvas.size = (600, 800)
    viewer.reset_view()
    if not is_moved_first:
        FittedView.of(viewer)
    viewer.scene.camera.zoom = moved = 3.5
    FittedView.of(viewer)
    viewer.canvas.size = (600, 400)
    assert viewer.scene.camera.zoom == moved
    viewer.reset_view()
    fitted = viewer.scene.camera.zoom
    viewer.canvas.size = (600, 200)
    assert viewer.scene.camera.zoom == pytest.approx(fitted / 2)
