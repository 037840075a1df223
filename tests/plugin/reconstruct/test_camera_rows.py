"""The rows that tell the camera: shown where needed, searchable, and no silent guess."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
from napari.layers._source import layer_source
from tests.plugin.conftest import Desk

from napari_mst.models.cards import PUBLISHED
from napari_mst.photo.cameras import CAMERA_RGB, OF_SENSOR, Acquisition
from napari_mst.plugin.reconstruct import form as module
from napari_mst.plugin.reconstruct.dock import BUSY


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """The desk with a model that has to be told the camera, which is chosen.

    A 16-bit photo is beside the 8-bit one, and is chosen as well.
    """
    card = replace(
        PUBLISHED, name="told", title="Told", file="told.safetensors", rendering=CAMERA_RGB
    )
    desk.form.cards = dict(desk.form.cards) | {card.name: card}
    desk.viewer.add_image(np.full((20, 30, 3), 900, np.uint16), rgb=True, name="raw")
    desk.widgets["card"].addItem(card.title, card.name)
    desk.choose("card", "told")
    desk.widgets["photo"].setCurrentText("raw")
    return desk


def tell(desk: Desk, camera: str = "nikon d5100", illuminant: str = "A") -> None:
    desk.widgets["camera"].setEditText(camera)
    desk.widgets["illuminant"].setEditText(illuminant)


def shown(desk: Desk) -> list[str]:
    """The rows about the camera that are shown."""
    fields = ("camera", "illuminant", "white", "is_linear")
    return [field for field in fields if desk.widgets[field].isVisible()]


def test_rows_are_only_there_for_models_and_photos_that_need_them(desk: Desk) -> None:
    assert shown(desk) == ["camera", "illuminant"]
    desk.dock.rows.colours.button.click()
    assert shown(desk) == ["white"]
    desk.dock.rows.colours.button.click()
    desk.widgets["photo"].setCurrentText("photo")
    assert "is_linear" in shown(desk)
    assert "This photo has 8 bits" in desk.text
    desk.dock.fit_button.click()
    assert (desk.form.card, shown(desk)) == ("bundled", [])
    assert desk.dock.fit_button.isHidden()


def test_nothing_is_chosen_and_an_unknown_camera_is_refused_with_similar_names(
    desk: Desk,
) -> None:
    assert [desk.widgets[name].currentText() for name in ("camera", "illuminant")] == [""] * 2
    tell(desk, camera="Nikon_D5200")
    assert desk.refuses("a camera as Nikon_D")


@pytest.mark.parametrize("typed", ["5100", "nikon d5100", "kon d51"])
def test_typing_a_part_of_a_name_finds_it(desk: Desk, typed: str) -> None:
    camera = desk.widgets["camera"]
    desk.qtbot.keyClicks(camera.lineEdit(), typed)
    popup = camera.completer().popup()
    names = [popup.model().index(row, 0).data() for row in range(popup.model().rowCount())]
    assert names == ["Nikon D5100"]
    popup.hide()


def test_what_was_chosen_reaches_the_job(desk: Desk) -> None:
    tell(desk)
    desk.widgets["white"].setText("4000")
    desk.widgets["is_balanced"].click()
    desk.run()
    desk.widgets["photo"].setCurrentText("photo")
    assert desk.refuses("This photo has 8 bits")
    desk.widgets["is_linear"].click()
    desk.run()
    assert desk.job.options[0].acquisition == Acquisition("Nikon_D5100", "A", 4000.0, OF_SENSOR)
    assert desk.job.encodings == ["linear", "linear"]


def test_camera_that_the_file_names_is_preselected_and_it_is_said(
    desk: Desk, tmp_path: Path
) -> None:
    tags = [(271, 2, 0, "NIKON CORPORATION", True), (272, 2, 0, "NIKON D850", True)]
    path = tmp_path / "d850.tif"
    tifffile.imwrite(path, np.full((8, 8, 3), 900, np.uint16), photometric="rgb", extratags=tags)
    with layer_source(path=str(path)):
        desk.viewer.add_image(tifffile.imread(path), rgb=True, name="d850")
    photo, camera = desk.widgets["photo"], desk.widgets["camera"]
    photo.setCurrentText("d850")
    assert camera.currentText() == "Nikon_D850"
    assert desk.text.startswith("The file says that Nikon_D850 took it: check the camera.")
    assert desk.widgets["illuminant"].currentText() == ""
    tell(desk, camera="Canon EOS 5D")
    for name in ("raw", "d850"):
        photo.setCurrentText(name)
    assert camera.currentText() == "Canon EOS 5D"


def test_weights_of_ones_own_that_need_a_camera_ask_for_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.choose("card", "mst-plus-plus")
    assert "camera" not in shown(desk)
    monkeypatch.setattr(
        module, "card_of_file", lambda path: replace(PUBLISHED, rendering=CAMERA_RGB)
    )
    desk.widgets["weights"].setEditText("mine.safetensors")
    assert "camera" in shown(desk)


def test_photo_that_is_asked_while_a_job_runs_says_so_and_changes_nothing(
    desk: Desk,
) -> None:
    tell(desk)
    desk.begin(layers=2)
    desk.dock.rows.asks["light"].click()
    assert desk.text == BUSY
    assert not desk.form.finding
    desk.finish()
