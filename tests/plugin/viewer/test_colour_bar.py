"""The colour bar is that of the band or map that is seen, with its unit, and never of a picture."""

from dataclasses import replace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import make_cube

from napari_mst.plugin.viewer.colour_bar import OVERLAY, ColourBar
from napari_mst.plugin.viewer.layers import UNIT_KEY, cube_layer


def add_map(viewer: ViewerModel, unit: str = "spectral angle, deg") -> Image:
    return viewer.add_image(np.ones((20, 30)), metadata={UNIT_KEY: unit}, name="map")


def text_beside(viewer: ViewerModel) -> str:
    """The text beside the bar; "" where there is none."""
    overlays = viewer.canvas.overlays
    is_shown = OVERLAY in overlays and overlays[OVERLAY].visible
    return str(overlays[OVERLAY].text) if is_shown else ""


def test_a_band_has_a_bar_with_its_unit(cube_viewer: ViewerModel) -> None:
    bar = ColourBar.of(cube_viewer)
    assert bar.measured is cube_viewer.layers["cube"]
    assert text_beside(cube_viewer) == "reflectance"


@pytest.mark.parametrize(
    ("quantity", "unit", "text"),
    [
        ("radiance", "W m-2 sr-1 nm-1", "radiance, W m-2 sr-1 nm-1"),
        ("", "", "value"),
        ("relative radiance", "", "relative radiance"),
    ],
)
def test_the_unit_is_that_of_the_file(quantity: str, unit: str, text: str) -> None:
    cube = replace(make_cube(), quantity=quantity, metadata={"data units": unit})
    viewer = ViewerModel()
    data, arguments, _ = cube_layer(cube, "cube")
    viewer.add_image(data, **arguments)
    ColourBar(viewer)
    assert text_beside(viewer) == text


def test_many_changes_update_the_bar_once_a_moment_later(
    cube_viewer: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = ColourBar.of(cube_viewer)
    updates: list[int] = []
    monkeypatch.setattr(ColourBar, "update", lambda _: updates.append(1))
    add_map(cube_viewer)
    bar.request_update()
    assert not updates
    qtbot.waitUntil(lambda: bool(updates))
    assert updates == [1]
    bar.request_update()
    qtbot.waitUntil(lambda: updates == [1, 1])


def test_a_picture_on_top_has_no_bar_and_the_band_below_has_none_either(
    cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    bar = ColourBar.of(cube_viewer)
    picture = cube_viewer.add_image(np.zeros((20, 30, 3), np.uint8), rgb=True)
    qtbot.waitUntil(lambda: bar.measured is None)
    assert not cube_viewer.layers["cube"].colorbar.visible
    assert text_beside(cube_viewer) == ""
    picture.visible = False
    qtbot.waitUntil(lambda: text_beside(cube_viewer) == "reflectance")


def test_many_changes_at_once_move_the_bar_once(cube_viewer: ViewerModel, qtbot: QtBot) -> None:
    bar = ColourBar.of(cube_viewer)
    seen = list[bool]()
    cube_viewer.layers["cube"].colorbar.events.visible.connect(seen.append)
    maps = [add_map(cube_viewer) for _ in range(3)]
    assert bar.measured is cube_viewer.layers["cube"]
    qtbot.waitUntil(lambda: bar.measured is maps[-1])
    assert seen == [False]
    assert not any(made.colorbar.visible for made in maps[:-1])


def test_the_bar_goes_to_the_map_on_top_and_comes_back(
    cube_viewer: ViewerModel, qtbot: QtBot
) -> None:
    bar = ColourBar.of(cube_viewer)
    made = add_map(cube_viewer)
    qtbot.waitUntil(lambda: bar.measured is made)
    assert not cube_viewer.layers["cube"].colorbar.visible
    assert text_beside(cube_viewer) == "spectral angle, deg"
    cube_viewer.layers.remove(made)
    qtbot.waitUntil(lambda: text_beside(cube_viewer) == "reflectance")


def test_the_image_of_another_plugin_is_left_alone(cube_viewer: ViewerModel, qtbot: QtBot) -> None:
    bar = ColourBar.of(cube_viewer)
    other = cube_viewer.add_image(np.ones((20, 30)), name="of another plugin")
    qtbot.waitUntil(lambda: bar.measured is None)
    assert not other.colorbar.visible


def test_a_bar_that_a_person_hides_stays_hidden_with_its_unit(cube_viewer: ViewerModel) -> None:
    bar = ColourBar.of(cube_viewer)
    layer = cube_viewer.layers["cube"]
    layer.colorbar.visible = False
    cube_viewer.add_points([[4, 7]])
    bar.update()
    assert not layer.colorbar.visible
    assert text_beside(cube_viewer) == ""
    bar.is_on = True
    assert text_beside(cube_viewer) == "reflectance"


def test_a_grid_has_the_bar_in_its_cell_and_no_unit_far_from_it(cube_viewer: ViewerModel) -> None:
    bar = ColourBar.of(cube_viewer)
    cube_viewer.canvas.grid.enabled = True
    assert bar.measured is cube_viewer.layers["cube"]
    assert text_beside(cube_viewer) == ""
    cube_viewer.canvas.grid.enabled = False
    assert text_beside(cube_viewer) == "reflectance"


def test_the_switch_takes_all_bars_away(cube_viewer: ViewerModel) -> None:
    bar = ColourBar.of(cube_viewer)
    bar.is_on = False
    made = add_map(cube_viewer)
    bar.update()
    assert not made.colorbar.visible
    assert not cube_viewer.layers["cube"].colorbar.visible
    assert text_beside(cube_viewer) == ""


def test_a_band_that_waits_for_its_first_picture_gets_no_bar(cube_viewer: ViewerModel) -> None:
    bar = ColourBar.of(cube_viewer)
    bar.is_awaiting_picture = lambda layer: layer.name == "cube"
    bar.update()
    assert bar.measured is None
    bar.is_awaiting_picture = lambda _: False
    bar.update()
    assert bar.measured is cube_viewer.layers["cube"]
