"""A cube is saved whole, on another thread; where napari saves less, the user is told."""

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from napari.components import ViewerModel
from napari.layers import Image, Layer
from npe2 import PluginManager
from numpy.testing import assert_array_equal
from pytestqt.qtbot import QtBot
from qtpy.QtCore import Qt, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QDialog,
    QFileDialog,
    QMainWindow,
    QMessageBox,
    QProgressDialog,
    QPushButton,
    QWidget,
)
from tests.plugin.conftest import WAVELENGTHS, Told, make_cube
from tests.plugin.in_viewer import add_cube, cube_in

from napari_mst.analysis.maps import MAPS
from napari_mst.analysis.regions import point_spectrum
from napari_mst.base.errors import Cancelled, SaveError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.formats import read_cube, write_cube
from napari_mst.plugin.files import opening, recognising, saving
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.files.saving import Save, ask_to_save, write_layer
from napari_mst.plugin.spectra.map_maker import CubeLayer, make_map
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.placement import Placement

Choose = Callable[[Path], None]


@pytest.fixture
def viewer(
    manifests: None, cube_viewer: ViewerModel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ViewerModel]:
    """The current viewer, which shows a cube, and a window to ask over.

    A window of napari's own would take seconds.
    """
    desk = QMainWindow()
    qtbot.addWidget(desk)
    desk.show()
    qtbot.waitExposed(desk)
    for module in (saving, recognising, opening):
        monkeypatch.setattr(module, "current_viewer", lambda: cube_viewer)
    attend(cube_viewer)
    yield cube_viewer
    for box in boxes():
        box.close()


def shown(kind: type[QDialog]) -> list[Any]:
    """The dialogs of a *kind* that are seen."""
    dialogs = filter(QWidget.isVisible, QApplication.topLevelWidgets())
    return [dialog for dialog in dialogs if isinstance(dialog, kind)]


def boxes() -> list[QMessageBox]:
    return shown(QMessageBox)


def press(box: QMessageBox, text: str, qtbot: QtBot) -> None:
    (button,) = (one for one in box.buttons() if one.text().replace("&", "") == text)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Has the user choose a file in the next dialogs."""

    def to(path: Path) -> None:
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: (str(path), ""))

    return to


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Holds a save up in its middle until it is set."""
    event = threading.Event()

    def held(*arguments: Any, progress: Progress, **options: Any) -> Path:
        progress.reach(0.5)
        event.wait(30)
        return write_cube(*arguments, progress=progress, **options)

    monkeypatch.setattr(saving, "write_cube", held)
    yield event
    event.set()


def test_a_cube_is_saved_with_everything_from_the_menu(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path, choose: Choose
) -> None:
    picks.pin(viewer, (550, 4, 7))
    path = tmp_path / "saved.hdr"
    choose(path)
    PluginManager.instance().commands.execute("napari-mst.save")
    qtbot.waitUntil(lambda: path.exists() and not Save.running)
    cube = read_cube(path)
    assert_array_equal(cube.data, make_cube().data)
    assert_array_equal(cube.wavelengths, WAVELENGTHS)
    assert cube.provenance == make_cube().provenance
    assert cube.metadata["picks"].startswith("4 7 1 ")


def test_a_save_can_be_cancelled_and_leaves_what_was_there(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path, gate: threading.Event
) -> None:
    old = write_cube(tmp_path / "cube.hdr", make_cube(3, 4))
    save = Save({old: make_cube()}, may_replace=True)
    qtbot.waitUntil(lambda: bool(shown(QProgressDialog)))
    (dialog,) = shown(QProgressDialog)
    assert not dialog.isModal()
    qtbot.mouseClick(dialog.findChild(QPushButton), Qt.MouseButton.LeftButton)
    gate.set()
    qtbot.waitUntil(lambda: save.has_ended)
    assert save.outcome is None
    assert read_cube(old).shape == (31, 3, 4)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cube.hdr", "cube.img"]


def test_the_window_lives_while_naparis_dialog_waits_for_our_writer(
    viewer: ViewerModel, tmp_path: Path, gate: threading.Event
) -> None:
    lived = list[bool]()

    def look() -> None:
        lived.append((tmp_path / "cube.zarr").exists())
        gate.set()

    QTimer.singleShot(50, look)
    (written,) = viewer.layers.save(str(tmp_path / "cube.zarr"), plugin="napari-mst")
    assert lived == [False]
    assert_array_equal(read_cube(written).wavelengths, WAVELENGTHS)


def test_a_cancelled_save_of_naparis_dialog_says_so(
    viewer: ViewerModel, tmp_path: Path, gate: threading.Event
) -> None:
    def cancel() -> None:
        for save in list(Save.running):
            save.cancel()
        gate.set()

    QTimer.singleShot(50, cancel)
    layer = viewer.layers["cube"]
    with pytest.raises(Cancelled, match="what was there before is intact"):
        write_layer(str(tmp_path / "cube.tif"), *layer.as_layer_data_tuple()[:2])
    assert not list(tmp_path.iterdir())


def test_what_goes_wrong_is_said_and_raised(
    viewer: ViewerModel,
    tmp_path: Path,
    choose: Choose,
    told: Told,
) -> None:
    choose(tmp_path / "none" / "cube.tif")
    assert ask_to_save(viewer) is None
    assert ["an existing folder" in sentence for sentence in told()] == [True]
    data, attributes, _ = viewer.layers["cube"].as_layer_data_tuple()
    with pytest.raises(SaveError, match="an existing folder"):
        write_layer(str(tmp_path / "none" / "cube.tif"), data, attributes)
    assert ask_to_save(ViewerModel()) is None
    assert told()[1:] == ["This needs a cube to save, but found none. Select its layer."]


@pytest.mark.parametrize("yes", [True, False])
def test_files_are_replaced_only_if_the_user_says_so(
    viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    choose: Choose,
    monkeypatch: pytest.MonkeyPatch,
    yes: bool,
) -> None:
    (tmp_path / "cube.img").write_bytes(b"precious")
    asked = list[str]()

    def question(_: object, __: str, text: str, *___: object) -> QMessageBox.StandardButton:
        asked.append(text)
        return QMessageBox.StandardButton.Yes if yes else QMessageBox.StandardButton.No

    monkeypatch.setattr(QMessageBox, "question", question)
    choose(tmp_path / "cube")
    save = ask_to_save(viewer)
    assert asked == ["cube.img is already there. Replace?"]
    if yes:
        assert save is not None
        qtbot.waitUntil(partial(getattr, save, "has_ended"))
        assert read_cube(tmp_path / "cube.hdr").shape == (31, 20, 30)
    else:
        assert save is None
        assert (tmp_path / "cube.img").read_bytes() == b"precious"


@pytest.mark.parametrize("suffix", [".tif", ".npz"])
def test_when_napari_has_saved_a_cube_it_is_said_what_is_lost_and_ours_is_offered(
    viewer: ViewerModel,
    qtbot: QtBot,
    tmp_path: Path,
    suffix: str,
    choose: Choose,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / f"cube{suffix}"
    viewer.layers.save(str(path), plugin="napari")
    assert not read_cube(path, band_axis=0).has_wavelengths
    (box,) = boxes()
    assert not box.isModal()
    assert f"saved 'cube' as {path.name} without its wavelengths, history and picks" in box.text()
    monkeypatch.setattr(QMessageBox, "question", lambda *_, **__: QMessageBox.StandardButton.Yes)
    choose(path)
    press(box, "Save cube ...", qtbot)
    qtbot.waitUntil(lambda: read_cube(path, band_axis=0).has_wavelengths)
    qtbot.waitUntil(lambda: not Save.running and not boxes())


PLACE = {"crs": "EPSG:32632", "transform": rasterio.Affine(30, 0, 5e5, 0, -30, 4e6)}


@pytest.fixture
def field(viewer: ViewerModel, tmp_path: Path) -> Image:
    """A cube with a place on earth."""
    path, numbers = tmp_path / "field.tif", make_cube(6, 8).data[:5]
    options = {"driver": "GTiff", "count": 5, "height": 6, "width": 8, "dtype": "float32"}
    with rasterio.open(path, "w", **options, **PLACE) as judge:
        judge.write(numbers)
    cube = read_cube(path, wavelengths=[450, 550, 650, 750, 850])
    return add_cube(viewer, cube, "field")


def select_map(viewer: ViewerModel, field: Image, title: str) -> None:
    """Add the map *title* of the cube *field*, and select its layer."""
    kind, cube = MAPS[title], cube_in(field)
    asked = {"classes": {"spectra": [point_spectrum(cube, 1, 2, name="leaf")]}}
    on = CubeLayer("field", Placement.of(field), weakref.ref(field))
    (made,), _ = make_map(kind, cube, asked.get(title, {"expression": "NDVI"}), on, NO_PROGRESS)
    viewer.layers.selection = {viewer.add_layer(Layer.create(*made))}


def on_earth(path: Path) -> dict[str, Any]:
    """The place of a file, as GDAL reads it."""
    with rasterio.open(path) as judge:
        return {"crs": judge.crs.to_string(), "transform": judge.transform}


@pytest.mark.parametrize(("title", "name"), [("formula", "NDVI"), ("classes", "Classes")])
@pytest.mark.parametrize("suffix", [".hdr", ".tif"])
def test_a_map_is_saved_with_the_place_of_its_cube_from_naparis_dialog(
    viewer: ViewerModel, field: Image, tmp_path: Path, title: str, name: str, suffix: str
) -> None:
    select_map(viewer, field, title)
    layer = viewer.layers.selection.active
    path = tmp_path / f"map{suffix}"
    (writer,) = (
        each
        for each in PluginManager.instance().iter_compatible_writers([layer._type_string])
        if each.command.startswith("napari-mst.") and suffix in each.filename_extensions
    )
    # As napari does for the type of file that is chosen in its dialog.
    viewer.layers.save(str(path), selected=True, _writer=writer)
    assert on_earth(tmp_path / path.name.replace(".hdr", ".img")) == PLACE
    cube = read_cube(path)
    assert_array_equal(cube.data[0], layer.data)
    assert name.lower() in str(cube.metadata["band names"]).lower()
    assert not boxes()


@pytest.mark.parametrize("title", ["formula", "classes", None])
def test_coordinates_that_naparis_writer_has_lost_are_told_and_saved_on_request(
    viewer: ViewerModel,
    field: Image,
    tmp_path: Path,
    qtbot: QtBot,
    title: str | None,
    told: Told,
    choose: Choose,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    viewer.layers.selection = {field}
    if title is not None:
        select_map(viewer, field, title)
    path = tmp_path / "saved.tif"
    viewer.layers.save(str(path), selected=True)
    (box,) = boxes()
    assert "without its coordinates" in box.text()
    monkeypatch.setattr(QMessageBox, "question", lambda *_, **__: QMessageBox.StandardButton.Yes)
    choose(path)
    press(box, "Save cube ..." if title is None else "Save map ...", qtbot)
    qtbot.waitUntil(lambda: "saved as saved.tif" in "".join(told()) and not Save.running)
    assert on_earth(path) == PLACE


def test_the_menu_saves_the_map_that_is_selected(
    viewer: ViewerModel, field: Image, tmp_path: Path, qtbot: QtBot, choose: Choose, told: Told
) -> None:
    select_map(viewer, field, "formula")
    choose(tmp_path / "ndvi.hdr")
    PluginManager.instance().commands.execute("napari-mst.save")
    qtbot.waitUntil(lambda: bool(told()) and not Save.running)
    assert told() == ["The map was saved as ndvi.hdr."]
    assert read_cube(tmp_path / "ndvi.hdr").shape == (1, 6, 8)


def test_naparis_writer_saves_other_layers_as_without_us(
    viewer: ViewerModel, tmp_path: Path
) -> None:
    photo = viewer.add_image(np.zeros((40, 50, 3), np.uint8), rgb=True)
    viewer.layers.selection = {photo}
    viewer.layers.save(str(tmp_path / "photo.tif"), selected=True, plugin="napari")
    assert (tmp_path / "photo.tif").exists()
    assert not boxes()


@pytest.mark.parametrize("command", [recognising.READER, *recognising.WRITERS])
def test_naparis_own_reader_and_writer_are_watched_once(viewer: ViewerModel, command: str) -> None:
    watched = PluginManager.instance().commands.get(command)
    recognising.watch_napari()
    assert PluginManager.instance().commands.get(command) is watched


@pytest.mark.parametrize("name", ["field.hdr", "field.tif"])
def test_an_error_about_a_damaged_cube_is_told_once_and_no_other_reader_is_tried(
    viewer: ViewerModel, tmp_path: Path, told: Told, name: str
) -> None:
    path = write_cube(tmp_path / name, make_cube())
    whole = path.with_suffix(".img") if path.suffix == ".hdr" else path
    whole.write_bytes(whole.read_bytes()[:2000])
    before = list(viewer.layers)
    assert viewer.open(str(path), plugin="napari-mst") == []
    (sentence,) = told()
    assert "field." in sentence
    assert list(viewer.layers) == before
    assert not boxes()


def test_our_reader_is_offered_where_naparis_own_fails_on_a_file_of_ours(
    viewer: ViewerModel, qtbot: QtBot, tmp_path: Path
) -> None:
    def fails(_: str) -> list[Any]:
        raise OSError("napari knows no such file")

    read = recognising.reader_of_napari(lambda _: fails, "any")
    assert read is not None
    other = tmp_path / "other.hdr"
    other.write_text("no header of ours")
    with pytest.raises(OSError, match="no such file"):
        read(str(other))
    assert not boxes()
    assert read(str(write_cube(tmp_path / "field.hdr", make_cube()))) == opening.NO_LAYERS
    assert "cannot open field.hdr" in boxes()[0].text()
    press(boxes()[0], "Open it", qtbot)
    qtbot.waitUntil(lambda: "field" in viewer.layers)
    assert_array_equal(cube_in(viewer.layers["field"]).wavelengths, WAVELENGTHS)
