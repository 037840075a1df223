"""The menu Known of the spectra dock: what it offers makes picks known, on another thread."""

import gc
from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from qtpy.QtWidgets import QApplication, QFileDialog, QInputDialog
from tests.plugin.in_viewer import cube_in
from tests.plugin.spectra.probe import choose, entries
from tests.plugin.spectra.reference_scene import SPOTS, WAVELENGTHS, marks_in, with_scene

from napari_mst.analysis.library import colour_checker, write_spectra
from napari_mst.plugin.dock import UNDO
from napari_mst.plugin.pictures.composing import Colours, Composer
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.refiner import KnownLayers
from napari_mst.plugin.viewer.layers import composite_of


@pytest.fixture
def scene() -> ViewerModel:
    return with_scene()


@pytest.fixture
def dock(scene: ViewerModel, qtbot: QtBot) -> SpectraDock:
    """The dock, with a row that is selected."""
    dock = SpectraDock(scene)
    qtbot.addWidget(dock)
    dock.show()
    dock.model.pin((550, *SPOTS[0]))
    qtbot.waitUntil(lambda: len(dock.model.entries) == 1)
    dock.model.choose([0])
    return dock


def trigger(dock: SpectraDock, title: str) -> None:
    choose(dock.references.button, title)


def undo(dock: SpectraDock) -> None:
    choose(dock.menus.pick, f"Undo\t{UNDO.text}")


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


def mark_grey(dock: SpectraDock, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.setattr(QInputDialog, "getDouble", lambda *_: (18.0, True))
    trigger(dock, "A grey ...")


WAYS = {
    "18 % grey": mark_grey,
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
    (key,) = marks_in(scene)
    assert key == title or title == "orange"
    # Nothing outlives the viewer.
    qtbot.waitUntil(lambda: not dock.model.finish().references.is_busy, timeout=60_000)


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
    after = {name.replace("estimate", "estimate refined") for name in before}

    trigger(dock, "As in: truth")
    qtbot.waitUntil(lambda: dock.model.snapshot.text.startswith("Refined to"), timeout=60_000)
    layer = scene.layers["estimate refined"]
    cube = cube_in(layer)

    def is_painted() -> bool:
        picture = composite_of(scene, layer)
        return picture is not None and np.array_equal(picture.data, cube.composite(colours))

    qtbot.waitUntil(is_painted)
    assert cubes_seen(scene) == after
    for expected in (before, after):
        dock.references.after.click()
        waits_to_see(qtbot, scene, expected)
    # A selected picture stands for its cube.
    scene.layers.selection.active = composite_of(scene, layer)
    undo(dock)
    qtbot.waitUntil(lambda: composite_of(scene, layer) is None)
    assert cubes_seen(scene) == before
    assert scene.layers.selection.active is estimate


def test_what_cannot_become_known_is_grey(dock: SpectraDock, scene: ViewerModel) -> None:
    dock.model.delete(dock.model.entries)
    dock.model.finish()
    menu = entries(dock.references.button)
    assert not menu["A grey ..."].isEnabled()
    assert menu["A grey ..."].toolTip().startswith("Click on the image")
    assert menu["From a file ..."].isEnabled()
    scene.layers.clear()
    menu = entries(dock.references.button)
    assert not any(action.isEnabled() for action in menu.values())


def test_hidden_dock_ends_no_refinement_and_a_closed_viewer_is_no_error(
    dock: SpectraDock, scene: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_grey(dock, monkeypatch, Path())
    dock.model.references.insist(dock.model.entries)
    qtbot.waitUntil(lambda: "estimate refined" in scene.layers, timeout=60_000)
    dock.hide()
    layer = scene.layers["estimate refined"]
    qtbot.waitUntil(lambda: isinstance(layer.data, np.ndarray), timeout=60_000)


def test_a_refinement_may_end_after_its_viewer() -> None:
    layers = KnownLayers(ViewerModel())
    gc.collect()
    layers.end()
    assert not layers.is_after
