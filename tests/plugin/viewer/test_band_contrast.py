"""Single bands: each in its own contrast, or in that of the cube, or in its colour."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_mst.cube.layer import COLORMAP, contrast_limits
from napari_mst.plugin.viewer.band_contrast import BandContrast, colormap_of
from napari_mst.plugin.viewer.layers import active_cube_layer


@pytest.fixture
def contrast(cube_viewer: ViewerModel) -> BandContrast:
    return BandContrast(cube_viewer)


@pytest.fixture
def layer(cube_viewer: ViewerModel) -> Image:
    layer = active_cube_layer(cube_viewer)
    assert layer is not None
    return layer


def test_each_band_has_its_own_contrast_until_it_is_switched_off(
    cube_viewer: ViewerModel, contrast: BandContrast, layer: Image
) -> None:
    for band in (3, 28):
        cube_viewer.dims.set_point(0, 400 + 10 * band)
        assert tuple(layer.contrast_limits) == contrast_limits(layer.data[band : band + 1])
    contrast.is_own = False
    assert tuple(layer.contrast_limits) == contrast_limits(layer.data)
    cube_viewer.dims.set_point(0, 450)
    assert tuple(layer.contrast_limits) == contrast_limits(layer.data)


def test_limits_of_the_user_stay_until_the_switch_is_turned(
    cube_viewer: ViewerModel, contrast: BandContrast, layer: Image
) -> None:
    layer.contrast_limits = (0.1, 0.2)
    cube_viewer.dims.set_point(0, 450)
    assert tuple(layer.contrast_limits) == (0.1, 0.2)
    contrast.is_own = True
    assert tuple(layer.contrast_limits) == contrast_limits(layer.data[5:6])


def test_bands_have_the_colour_of_their_wavelength_while_asked_to(
    cube_viewer: ViewerModel, contrast: BandContrast, layer: Image
) -> None:
    contrast.is_coloured = True
    for wavelength, channel in ((450, 2), (530, 1), (650, 0)):
        cube_viewer.dims.set_point(0, wavelength)
        assert layer.colormap.name == f"{wavelength} nm"
        assert int(layer.colormap.map(np.array([0.8]))[0, :3].argmax()) == channel
    contrast.is_coloured = False
    assert layer.colormap.name == COLORMAP


def test_what_the_eye_does_not_see_is_grey() -> None:
    assert colormap_of(900.0) == "gray"
    assert colormap_of(np.inf) == COLORMAP
