"""What only a person can know is asked in a dialog, once, and only where a window shows it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import dask.array
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pytestqt.qtbot import QtBot
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import (
    QApplication,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QInputDialog,
    QLabel,
    QLineEdit,
    QMainWindow,
)
from scipy.io import savemat

from napari_mst.base.errors import Cancelled, ChoiceNeeded, SaveError
from napari_mst.formats import read_cube
from napari_mst.plugin.files import questions
from napari_mst.plugin.files.opening import NO_LAYERS, open_layers
from napari_mst.plugin.files.saving import write_envi

STACK = np.arange(31 * 40 * 50, dtype=np.float32).reshape(31, 40, 50)
Act = Callable[[QDialog], None]
Ask = Callable[[Act], None]


@pytest.fixture
def desk(qtbot: QtBot) -> QMainWindow:
    """A window to ask over."""
    window = QMainWindow()
    qtbot.addWidget(window)
    window.show()
    qtbot.waitExposed(window)
    return window


@pytest.fixture
def answer(desk: QMainWindow) -> Ask:
    """Has the next dialog answered by a function of it, as soon as it is there."""

    def later(act: Act) -> None:
        def try_now() -> None:
            dialog = QApplication.activeModalWidget()
            if dialog is None:
                QTimer.singleShot(10, try_now)
            else:
                act(dialog)

        QTimer.singleShot(0, try_now)

    return later


def press(button: QDialogButtonBox.StandardButton, dialog: QDialog) -> None:
    dialog.findChild(QDialogButtonBox).button(button).click()


ok: Act = partial(press, QDialogButtonBox.StandardButton.Ok)
cancel: Act = partial(press, QDialogButtonBox.StandardButton.Cancel)


@pytest.mark.parametrize("data", [STACK, dask.array.from_array(STACK)], ids=["numpy", "dask"])
def test_a_stack_is_saved_with_the_wavelengths_that_the_user_gives(
    tmp_path: Path, answer: Ask, qtbot: QtBot, data: np.ndarray
) -> None:
    def act(dialog: QDialog) -> None:
        qtbot.keyClicks(dialog.findChild(QLineEdit), "400 - 550")
        ok(dialog)

    answer(act)
    write_envi(str(tmp_path / "stack.hdr"), data, {"name": "stack", "metadata": {}})
    saved = read_cube(tmp_path / "stack.hdr")
    assert_array_equal(saved.data, STACK)
    assert_array_equal(saved.wavelengths, np.linspace(400, 550, 31))


@pytest.mark.parametrize("axis", [0, -1])
def test_a_stack_is_saved_along_its_likely_axis_with_bands_that_have_only_numbers(
    tmp_path: Path, answer: Ask, axis: int
) -> None:
    answer(ok)
    write_envi(str(tmp_path / "stack.hdr"), np.moveaxis(STACK, 0, axis), {"metadata": {}})
    saved = read_cube(tmp_path / "stack.hdr")
    assert_array_equal(saved.data, STACK)
    assert not saved.has_wavelengths


def test_a_cube_without_wavelengths_is_asked_for_them_too(tmp_path: Path, answer: Ask) -> None:
    answer(ok)
    write_envi(str(tmp_path / "stack.hdr"), STACK, {"metadata": {}})
    answer(cancel)  # the reader asks as well, and opens the cube as it is
    ((data, attributes, _),) = open_layers(str(tmp_path / "stack.hdr"))

    def act(dialog: QDialog) -> None:
        typed = dialog.findChild(QLineEdit)
        typed.setText(", ".join(str(0.4 + 0.01 * band) for band in range(31)))
        dialog.findChildren(QComboBox)[1].setCurrentIndex(1)
        ok(dialog)

    answer(act)
    write_envi(str(tmp_path / "again.hdr"), data, attributes)
    again = read_cube(tmp_path / "again.hdr").wavelengths
    assert_allclose(again, np.linspace(400, 700, 31))
    ((data, attributes, _),) = open_layers(str(tmp_path / "again.hdr"))
    write_envi(str(tmp_path / "third.hdr"), data, attributes)  # asks no more


def test_cancelling_writes_nothing(tmp_path: Path, answer: Ask) -> None:
    answer(cancel)
    with pytest.raises(Cancelled, match="nothing was written"):
        write_envi(str(tmp_path / "stack.hdr"), STACK, {"metadata": {}})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("400, 410", "This needs 3 wavelengths, but found 2."),
        ("400, 410, x", "This needs numbers above 0, but found others."),
        ("400, 410, -1", "This needs numbers above 0, but found others."),
    ],
)
def test_what_makes_no_sense_is_asked_again_with_the_reason(
    answer: Ask, typed: str, reason: str
) -> None:
    said: list[str] = []

    def correct(dialog: QDialog) -> None:
        said.extend(label.text() for label in dialog.findChildren(QLabel))
        dialog.findChild(QLineEdit).setText("400.5 410.25\t430")
        ok(dialog)

    def act(dialog: QDialog) -> None:
        dialog.findChild(QLineEdit).setText(typed)
        # The answer closes this dialog, and opens it again.
        answer(correct)
        ok(dialog)

    answer(act)
    bands = questions.ask_bands("Save", "A stack.", (3, 40, 50), 0)
    assert bands is not None
    assert_array_equal(bands.wavelengths, [400.5, 410.25, 430])
    assert reason in said


def test_the_user_chooses_one_of_several_arrays_and_says_where_the_bands_are(
    tmp_path: Path, answer: Ask
) -> None:
    path = tmp_path / "scans.mat"
    savemat(path, {"first": np.ones((40, 50, 31)), "second": np.full((40, 31, 31), 2.0)})

    def act(dialog: QInputDialog) -> None:
        def agree(axes: QDialog) -> None:
            answer(cancel)  # the wavelengths, which are asked for next
            ok(axes)

        dialog.setTextValue(dialog.comboBoxItems()[1])
        answer(agree)
        ok(dialog)

    answer(act)
    ((data, _, _),) = open_layers(str(path))
    assert (data.shape, data.max()) == ((31, 40, 31), 2)
    answer(cancel)
    assert open_layers(str(path)) == NO_LAYERS


def test_a_plain_array_is_asked_for_its_bands(tmp_path: Path, answer: Ask, qtbot: QtBot) -> None:
    path = tmp_path / "plain.npy"
    np.save(path, np.moveaxis(STACK, 0, -1))

    def act(dialog: QDialog) -> None:
        said = "'plain.npy' holds 40 x 50 x 31 numbers (float32) and no wavelengths."
        assert any(said in label.text() for label in dialog.findChildren(QLabel))
        qtbot.keyClicks(dialog.findChild(QLineEdit), "400-700")
        ok(dialog)

    answer(act)
    ((data, arguments, _),) = open_layers(str(path))
    assert_array_equal(data, STACK)
    assert (arguments["scale"][0], arguments["axis_labels"][0]) == (10, "wavelength (nm)")
    answer(cancel)
    assert open_layers(str(path)) == NO_LAYERS


def test_without_a_window_nobody_is_asked(tmp_path: Path, qtbot: QtBot) -> None:
    path = tmp_path / "scans.mat"
    savemat(path, {"first": np.ones((40, 50, 31)), "second": np.ones((40, 50, 31))})
    assert questions.window() is None
    with pytest.raises(ChoiceNeeded, match="first 40x50x31, second 40x50x31"):
        open_layers(str(path))
    write_envi(str(tmp_path / "stack.hdr"), STACK, {"metadata": {}})
    assert not read_cube(tmp_path / "stack.hdr").has_wavelengths


def test_only_what_napari_asked_about_is_replaced(tmp_path: Path) -> None:
    precious = tmp_path / "stack.img"
    precious.write_bytes(b"precious")
    for name in ("stack.hdr", "stack"):
        with pytest.raises(SaveError, match="which exists"):
            write_envi(str(tmp_path / name), STACK, {"metadata": {}})
    assert precious.read_bytes() == b"precious"
    write_envi(str(precious), STACK, {"metadata": {}})
    write_envi(str(tmp_path / "stack.hdr"), STACK + 1, {"metadata": {}})
    assert_array_equal(read_cube(precious).data, STACK + 1)
