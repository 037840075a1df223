"""Single bands: their contrast, and the colour bar of the band or map that is seen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import active_in, add_cube

from napari_mst.cube.layer import contrast_limits
from napari_mst.plugin.viewer.bands import DARKEST, OVERLAY, Bands, ColourBar
from napari_mst.plugin.viewer.layers import UNIT_KEY


@pytest.fixture
def layer(cube_viewer: ViewerModel) -> Image:
    return active_in(cube_viewer)


def test_each_band_has_its_own_contrast_unless_a_person_says_otherwise(
    cube_viewer: ViewerModel, layer: Image
) -> None:
    contrast = Bands(cube_viewer)
    for band in (3, 28):
        cube_viewer.dims.set_point(0, 400 + 10 * band)
        of_band = contrast_limits(layer.data[band : band + 1], DARKEST)
        assert tuple(layer.contrast_limits) == of_band
        assert of_band == pytest.approx(np.percentile(layer.data[band], (DARKEST, 99.9)))
    contrast.is_own = False
    for wavelength in (680, 450):
        cube_viewer.dims.set_point(0, wavelength)
        assert tuple(layer.contrast_limits) == contrast_limits(layer.data)
    contrast.is_own = True
    layer.contrast_limits = (0.1, 0.2)
    cube_viewer.dims.set_point(0, 460)
    assert tuple(layer.contrast_limits) == (0.1, 0.2)
    contrast.is_own = True
    assert tuple(layer.contrast_limits) == contrast_limits(layer.data[6:7], DARKEST)


def test_a_band_is_grey_or_has_the_colour_of_its_wavelength(
    cube_viewer: ViewerModel, layer: Image
) -> None:
    contrast = Bands(cube_viewer)
    assert layer.colormap.name == "gray"
    contrast.is_tinted = True
    for wavelength, brightest in ((450, 2), (530, 1), (640, 0)):
        cube_viewer.dims.set_point(0, wavelength)
        assert np.argmax(layer.colormap.colors[-1][:3]) == brightest
        assert layer.colormap.colors[0].tolist() == [0, 0, 0, 1]
    contrast.is_tinted = False
    assert layer.colormap.name == "gray"


def text_beside(viewer: ViewerModel) -> str:
    """The text beside the bar; "" where there is none."""
    overlays = viewer.canvas.overlays
    is_shown = OVERLAY in overlays and overlays[OVERLAY].visible
    return str(overlays[OVERLAY].text) if is_shown else ""


@pytest.mark.parametrize(
    ("quantity", "unit", "text"),
    [
        ("reflectance", "", "reflectance"),
        ("radiance", "W m-2 sr-1 nm-1", "radiance, W m-2 sr-1 nm-1"),
        ("", "", "value"),
        ("relative radiance", "", "relative radiance"),
    ],
)
def test_a_band_has_a_bar_with_the_unit_of_its_file(quantity: str, unit: str, text: str) -> None:
    cube = replace(make_cube(), quantity=quantity, metadata={"data units": unit})
    viewer = ViewerModel()
    layer = add_cube(viewer, cube)
    assert ColourBar.of(viewer).measured is layer
    assert text_beside(viewer) == text


@pytest.mark.parametrize(
    ("data", "arguments", "text"),
    [
        pytest.param(np.zeros((20, 30, 3), np.uint8), {"rgb": True}, "", id="picture"),
        pytest.param(np.ones((20, 30)), {"metadata": {UNIT_KEY: "angle, deg"}}, "angle, deg"),
        pytest.param(np.ones((20, 30)), {}, "", id="of another plugin"),
    ],
)
def test_the_bar_is_that_of_the_image_on_top_alone_and_comes_back(
    cube_viewer: ViewerModel, qtbot: QtBot, data: Any, arguments: dict[str, Any], text: str
) -> None:
    bar = ColourBar.of(cube_viewer)
    top = cube_viewer.add_image(data, **arguments)
    qtbot.waitUntil(lambda: bar.measured is (top if text else None))
    assert text_beside(cube_viewer) == text
    bars = [layer.colorbar.visible for layer in (cube_viewer.layers["cube"], top)]
    assert bars == [False, bool(text)]
    top.visible = False
    qtbot.waitUntil(lambda: text_beside(cube_viewer) == "reflectance")
    top.visible = True
    qtbot.waitUntil(lambda: text_beside(cube_viewer) == text)
    cube_viewer.layers.remove(top)
    qtbot.waitUntil(lambda: text_beside(cube_viewer) == "reflectance")


def test_many_changes_at_once_move_the_bar_once(cube_viewer: ViewerModel, qtbot: QtBot) -> None:
    bar = ColourBar.of(cube_viewer)
    seen = list[bool]()
    cube_viewer.layers["cube"].colorbar.events.visible.connect(seen.append)
    maps = [
        cube_viewer.add_image(np.ones((20, 30)), metadata={UNIT_KEY: "angle, deg"})
        for _ in range(3)
    ]
    assert bar.measured is cube_viewer.layers["cube"]
    qtbot.waitUntil(lambda: bar.measured is maps[-1])
    assert seen == [False]
    assert not any(made.colorbar.visible for made in maps[:-1])


def test_a_bar_gives_way_to_a_grid_a_first_picture_and_a_person(cube_viewer: ViewerModel) -> None:
    bar, layer = ColourBar.of(cube_viewer), cube_viewer.layers["cube"]
    # In a grid, the bar is in its cell, and the unit would be far from it.
    cube_viewer.canvas.grid.enabled = True
    assert (bar.measured, text_beside(cube_viewer)) == (layer, "")
    cube_viewer.canvas.grid.enabled = False
    assert text_beside(cube_viewer) == "reflectance"
    for is_awaiting in (True, False):
        bar.is_awaiting_picture = (lambda _: True) if is_awaiting else (lambda _: False)
        bar.update()
        assert bar.measured is (None if is_awaiting else layer)
    layer.colorbar.visible = False
    cube_viewer.add_points([[4, 7]])
    bar.update()
    assert (layer.colorbar.visible, text_beside(cube_viewer)) == (False, "")
