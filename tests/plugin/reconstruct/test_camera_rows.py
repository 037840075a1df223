"""The rows that tell the camera: shown where needed, searchable, and no silent guess."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
from napari.components import ViewerModel
from napari.layers._source import layer_source
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import GatedJob

from napari_mst.models.cards import PUBLISHED
from napari_mst.photo.cameras import CAMERA_RGB, OF_SENSOR, Capture
from napari_mst.plugin.reconstruct import form as module
from napari_mst.plugin.reconstruct.dock import BUSY, ReconstructDock


@pytest.fixture
def dock(reconstruct_dock: ReconstructDock, viewer: ViewerModel) -> ReconstructDock:
    """The dock with a model that has to be told the camera, which is chosen.

    A 16-bit photo is beside the 8-bit one, and is chosen as well.
    """
    card = replace(
        PUBLISHED, name="told", title="Told", file="told.safetensors", rendering=CAMERA_RGB
    )
    models = dict(reconstruct_dock.form.cards) | {card.name: card}
    reconstruct_dock.form.cards = models
    viewer.add_image(np.full((20, 30, 3), 900, np.uint16), rgb=True, name="raw")
    reconstruct_dock.rows.widgets["card"].addItem(card.title, card.name)
    reconstruct_dock.rows.widgets["card"].setCurrentIndex(
        reconstruct_dock.rows.widgets["card"].findData("told")
    )
    reconstruct_dock.rows.widgets["photo"].setCurrentText("raw")
    return reconstruct_dock


def choose(dock: ReconstructDock, camera: str = "nikon d5100", illuminant: str = "A") -> None:
    dock.rows.widgets["camera"].setEditText(camera)
    dock.rows.widgets["illuminant"].setEditText(illuminant)


def test_rows_are_only_there_for_models_that_need_them(dock: ReconstructDock) -> None:
    assert dock.rows.widgets["camera"].isVisible()
    assert dock.rows.widgets["illuminant"].isVisible()
    dock.rows.widgets["card"].setCurrentIndex(dock.rows.widgets["card"].findData("bundled"))
    assert not dock.rows.widgets["camera"].isVisible()
    assert not dock.rows.widgets["white"].isVisible()


def test_nothing_is_chosen_and_nothing_starts_before_it_is(dock: ReconstructDock) -> None:
    assert [dock.rows.widgets[name].currentText() for name in ("camera", "illuminant")] == ["", ""]
    assert not dock.run()
    assert dock.text.text().startswith("Expected the camera of the photo, got none.")
    choose(dock, illuminant="")
    assert not dock.run()
    assert dock.text.text().startswith("Expected the illuminant of the photo, got none.")


def test_unknown_camera_is_refused_with_those_of_a_similar_name(dock: ReconstructDock) -> None:
    choose(dock, camera="Nikon_D5200")
    assert not dock.run()
    assert "a camera as Nikon_D" in dock.text.text()


@pytest.mark.parametrize("typed", ["5100", "nikon d5100", "kon_d51"])
def test_typing_a_part_of_a_name_finds_it(dock: ReconstructDock, qtbot: QtBot, typed: str) -> None:
    qtbot.keyClicks(dock.rows.widgets["camera"].lineEdit(), typed)
    popup = dock.rows.widgets["camera"].completer().popup()
    found = [popup.model().index(row, 0).data() for row in range(popup.model().rowCount())]
    assert found == ["Nikon_D5100"]
    popup.hide()


def test_what_was_chosen_reaches_the_job(
    dock: ReconstructDock, job: GatedJob, qtbot: QtBot
) -> None:
    choose(dock)
    dock.rows.widgets["white"].setText("4000")
    dock.rows.widgets["is_balanced"].click()
    job.gate.set()
    assert dock.run()
    qtbot.waitUntil(lambda: not dock.workspace.is_busy)
    (options,) = job.options
    assert options.capture == Capture("Nikon_D5100", "A", 4000.0, OF_SENSOR)
    assert job.encodings == ["linear"]


def test_eight_bits_are_refused_unless_they_are_said_to_be_linear(
    dock: ReconstructDock, job: GatedJob, qtbot: QtBot
) -> None:
    choose(dock)
    assert not dock.rows.widgets["is_linear"].isVisible()
    dock.rows.widgets["photo"].setCurrentText("photo")
    assert dock.rows.widgets["is_linear"].isVisible()
    assert not dock.run()
    assert "got 8 bits, which are nearly always sRGB-encoded" in dock.text.text()
    job.gate.set()
    dock.rows.widgets["is_linear"].click()
    assert dock.run()
    qtbot.waitUntil(lambda: not dock.workspace.is_busy)


def test_camera_that_the_file_names_is_preselected_and_it_is_said(
    dock: ReconstructDock, viewer: ViewerModel, tmp_path: Path
) -> None:
    tags = [(271, 2, 0, "NIKON CORPORATION", True), (272, 2, 0, "NIKON D850", True)]
    path = tmp_path / "d850.tif"
    tifffile.imwrite(path, np.full((8, 8, 3), 900, np.uint16), photometric="rgb", extratags=tags)
    with layer_source(path=str(path)):
        viewer.add_image(tifffile.imread(path), rgb=True, name="d850")
    dock.rows.widgets["photo"].setCurrentText("d850")
    assert dock.rows.widgets["camera"].currentText() == "Nikon_D850"
    assert dock.text.text().startswith("The file says that Nikon_D850 took it: check the camera.")
    assert dock.rows.widgets["illuminant"].currentText() == ""
    choose(dock, camera="Canon EOS 5D")
    dock.rows.widgets["photo"].setCurrentText("raw")
    dock.rows.widgets["photo"].setCurrentText("d850")
    assert dock.rows.widgets["camera"].currentText() == "Canon EOS 5D"


def test_weights_of_ones_own_that_need_a_camera_ask_for_it(
    dock: ReconstructDock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dock.rows.widgets["card"].setCurrentIndex(dock.rows.widgets["card"].findData("mst-plus-plus"))
    assert not dock.rows.widgets["camera"].isVisible()
    monkeypatch.setattr(
        module, "card_of_file", lambda path: replace(PUBLISHED, rendering=CAMERA_RGB)
    )
    dock.rows.widgets["weights"].value = Path("mine.safetensors")
    assert dock.rows.widgets["camera"].isVisible()


def test_photo_that_is_asked_while_a_job_runs_says_so_and_changes_nothing(
    dock: ReconstructDock, job: GatedJob, qtbot: QtBot
) -> None:
    choose(dock)
    assert dock.run()
    qtbot.waitUntil(job.begun.is_set)
    dock.rows.findings.light.click()
    assert dock.text.text() == BUSY
    assert dock.form.finding is None
    job.gate.set()
    qtbot.waitUntil(lambda: not dock.workspace.is_busy)
