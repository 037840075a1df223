"""The menu Known of the spectra dock: what it offers makes picks known, on another thread."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from qtpy.QtGui import QAction
from qtpy.QtWidgets import QApplication, QFileDialog, QInputDialog, QMenu
from tests.plugin.in_viewer import picks_in
from tests.plugin.spectra.known_scene import SPOTS, WAVELENGTHS, with_scene

from napari_mst.adaptation.adapting import adapt
from napari_mst.plugin.jobs.composing import Colours, Composer
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.pick_rows import keys_of
from napari_mst.plugin.viewer.composites import composite_of
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.spectra.library import colour_checker, write_spectra


@pytest.fixture
def scene() -> ViewerModel:
    return with_scene()


@pytest.fixture
def dock(scene: ViewerModel, qtbot: QtBot) -> SpectraDock:
    """The dock, with a row that is selected."""
    dock = SpectraDock(scene)
    qtbot.addWidget(dock)
    dock.show()
    dock.bench.pin((550, *SPOTS[0]))
    qtbot.waitUntil(lambda: len(dock.bench.entries) == 1)
    dock.bench.choose([0])
    return dock


def actions(menu: QMenu) -> dict[str, QAction]:
    return {action.text(): action for action in menu.actions() if action.text()}


def trigger(dock: SpectraDock, title: str) -> None:
    menu = dock.menus.known
    menu.fill()
    actions(menu.button.menu())[title].trigger()


def mark_as_pasted(dock: SpectraDock, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    QApplication.clipboard().setText(" ".join(["0.4"] * len(WAVELENGTHS)))
    trigger(dock, "From the clipboard")


def mark_from_file(dock: SpectraDock, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    path = write_spectra(folder / "known.csv", colour_checker()[:1])
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    trigger(dock, "From a file ...")


def mark_from_chart(dock: SpectraDock, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.setattr(QInputDialog, "getItem", lambda *given: (given[3][0], True))
    trigger(dock, "From the ColorChecker ...")


def mark_other_grey(dock: SpectraDock, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.setattr(QInputDialog, "getDouble", lambda *_: (18.0, True))
    trigger(dock, "A grey of ...")


WAYS = {
    "50 % grey": lambda dock, *_: trigger(dock, "A 50 % grey"),
    "18 % grey": mark_other_grey,
    "pasted": mark_as_pasted,
    "dark skin": mark_from_file,
    "as in truth": lambda dock, *_: trigger(dock, "As in: truth"),
    # The list begins with the patch that is most like the pick: the very one.
    "orange": mark_from_chart,
}


@pytest.mark.parametrize("title", WAYS)
def test_every_way_makes_the_selected_pick_known(
    dock: SpectraDock,
    scene: ViewerModel,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    title: str,
) -> None:
    WAYS[title](dock, monkeypatch, tmp_path)
    (key,) = keys_of(picks_in(scene))
    if title != "orange":
        assert key == title
    assert key
    qtbot.waitUntil(lambda: dock.bench.snapshot.text.startswith("Adapted to"), timeout=60_000)
    layer = scene.layers["estimate adapted"]
    (entry,) = dock.bench.entries
    assert entry.mark is not None
    estimate = cube_of(scene.layers["estimate"])
    assert estimate is not None
    expected = adapt(estimate, scene.layers["photo"].data, [entry.mark.at(*SPOTS[0])])
    np.testing.assert_array_equal(layer.data, expected.data)
    assert dock.menus.known.after.isChecked()
    dock.menus.known.after.click()
    qtbot.waitUntil(lambda: not dock.menus.known.after.isChecked())
    assert scene.layers["estimate"].visible


def cubes_seen(viewer: ViewerModel) -> set[str]:
    """The names of the layers of cubes, and of their pictures, that are visible."""
    shown = (layer.name for layer in viewer.layers if layer.visible)
    return {name for name in shown if name.startswith(("estimate", "truth"))}


def waits_to_see(qtbot: QtBot, viewer: ViewerModel, names: set[str]) -> None:
    qtbot.waitUntil(lambda: cubes_seen(viewer) == names)


@pytest.mark.usefixtures("as_pictures")
@pytest.mark.parametrize("is_picture", [True, False])
def test_before_and_after_are_pictures_of_the_same_look_or_bands(
    dock: SpectraDock, scene: ViewerModel, qtbot: QtBot, is_picture: bool
) -> None:
    estimate = scene.layers["estimate"]
    composer = Composer.of(scene)
    colours = (650.0, 550.0, 450.0)
    composer.show(estimate, Colours(colours))
    if not is_picture:
        composer.toggle(estimate)
    before = cubes_seen(scene)
    assert before == ({"estimate", "estimate (picture)"} if is_picture else {"estimate"})
    after = {name.replace("estimate", "estimate adapted") for name in before}

    trigger(dock, "As in: truth")
    qtbot.waitUntil(lambda: dock.bench.snapshot.text.startswith("Adapted to"), timeout=60_000)
    layer = scene.layers["estimate adapted"]
    cube = cube_of(layer)
    assert cube is not None

    def is_painted() -> bool:
        picture = composite_of(scene, layer)
        return picture is not None and np.array_equal(picture.data, cube.composite(colours))

    qtbot.waitUntil(is_painted)
    assert cubes_seen(scene) == after
    for expected in (before, after):
        dock.menus.known.after.click()
        waits_to_see(qtbot, scene, expected)
    # A selected picture stands for its cube.
    scene.layers.selection.active = composite_of(scene, layer)
    dock.menus.undo.trigger()
    qtbot.waitUntil(lambda: composite_of(scene, layer) is None)
    assert cubes_seen(scene) == before
    assert scene.layers.selection.active is estimate


def test_spots_are_suggested_and_undone(
    dock: SpectraDock, scene: ViewerModel, qtbot: QtBot
) -> None:
    menu = dock.menus.known
    menu.fill()
    # PySide6 ends a menu that only a dropped action knows.
    all_of_it = actions(menu.button.menu())
    suggest = all_of_it["Suggest where to measure"].menu()
    actions(suggest)["4 spots"].trigger()
    # Something else that is drawn anew meanwhile does not stop the search.
    dock.bench.rename(dock.bench.entries[0], "leaf")
    qtbot.waitUntil(lambda: len(dock.bench.chosen) == 4, timeout=60_000)
    trigger(dock, "As in: truth")
    qtbot.waitUntil(lambda: "estimate adapted" in scene.layers, timeout=60_000)
    dock.menus.undo.trigger()
    qtbot.waitUntil(lambda: "estimate adapted" not in scene.layers, timeout=60_000)
    dock.menus.undo.trigger()
    qtbot.waitUntil(lambda: len(dock.bench.entries) == 1)
    assert menu.after.isHidden()


def test_a_menu_without_a_pick_says_so(
    dock: SpectraDock, scene: ViewerModel, told: Callable[[], list[str]]
) -> None:
    dock.bench.clear()
    trigger(dock, "A 99 % grey")
    assert "Expected picks to make known, got none" in told()[-1]


def test_hidden_dock_ends_no_adaptation_and_a_closed_viewer_is_no_error(
    dock: SpectraDock, scene: ViewerModel, qtbot: QtBot
) -> None:
    trigger(dock, "A 50 % grey")
    qtbot.waitUntil(lambda: "estimate adapted" in scene.layers, timeout=60_000)
    dock.hide()
    layer = scene.layers["estimate adapted"]
    qtbot.waitUntil(lambda: isinstance(layer.data, np.ndarray), timeout=60_000)
