"""Bands of a large file: read beside the window, and drawn when they are there."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from numpy.testing import assert_allclose, assert_array_equal
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import WAVELENGTHS, Told, make_cube
from tests.plugin.in_viewer import cube_in

from napari_mst import add_cube
from napari_mst.base.arrays import Array
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import contrast_limits
from napari_mst.formats import lazy_files
from napari_mst.formats.lazy_files import in_file
from napari_mst.plugin.viewer import layers
from napari_mst.plugin.viewer.bands import DARKEST, Bands
from napari_mst.plugin.viewer.late_bands import LateBands

ORDERS = {"bsq": (0, 1, 2), "bil": (1, 0, 2), "bip": (1, 2, 0)}
NUMBERS = make_cube(rows=150).data


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that have read numbers of a file."""
    seen = list[threading.Thread]()
    fill = lazy_files._OpenFile.fill

    def watched(self: Any, place: int, flat: Array) -> Array:
        seen.append(threading.current_thread())
        return fill(self, place, flat)

    monkeypatch.setattr(lazy_files._OpenFile, "fill", watched)
    return seen


@pytest.fixture
def viewer(monkeypatch: pytest.MonkeyPatch) -> ViewerModel:
    """A viewer that passes for one with a window."""
    viewer = ViewerModel()
    monkeypatch.setattr(layers, "current_viewer", lambda: viewer)
    return viewer


def shown_from(path: Path, order: str, viewer: ViewerModel) -> Image:
    """The layer of a file whose numbers lie in this *order*."""
    axes = ORDERS[order]
    stored = NUMBERS.transpose(axes)
    stored.tofile(path)
    flat = np.memmap(path, np.float32, "r", shape=stored.shape)
    data = in_file(flat.transpose(np.argsort(axes)))
    return add_cube(viewer, SpectralCube(data, WAVELENGTHS))


def is_drawn(layer: Image, band: int) -> bool:
    """True if napari has drawn exactly this *band*."""
    return np.array_equal(layer._slice.image.raw, NUMBERS[band])


@pytest.mark.parametrize("order", ORDERS)
def test_no_step_reads_a_file_on_the_thread_of_the_window(
    order: str,
    tmp_path: Path,
    threads: list[threading.Thread],
    viewer: ViewerModel,
    qtbot: QtBot,
) -> None:
    layer = shown_from(tmp_path / "cube", order, viewer)
    qtbot.waitUntil(lambda: layer._slice.image.raw.any())
    threads.clear()
    for band in (3, 4, 20, 3):
        cube_in(layer).data.tiles.clear()
        viewer.dims.set_current_step(0, band)
        qtbot.waitUntil(partial(is_drawn, layer, band))
        limits = contrast_limits(NUMBERS[band, None], DARKEST)
        assert_allclose(layer.contrast_limits, limits)
    assert threads
    assert threading.main_thread() not in threads


def test_the_slider_has_the_wavelength_of_the_picture_until_the_next_band_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, viewer: ViewerModel, qtbot: QtBot
) -> None:
    gate, fill = threading.Event(), lazy_files._OpenFile.fill
    gate.set()
    monkeypatch.setattr(lazy_files._OpenFile, "fill", lambda *given: gate.wait(60) and fill(*given))
    layer = shown_from(tmp_path / "cube", "bip", viewer)
    Bands.of(viewer).is_tinted = True
    qtbot.waitUntil(partial(is_drawn, layer, 15))
    cube_in(layer).data.tiles.clear()
    gate.clear()
    viewer.dims.set_current_step(0, 20)
    assert is_drawn(layer, 15)
    assert (viewer.dims.axis_labels[0], layer.colormap.name) == ("550 nm", "550 nm")
    gate.set()
    qtbot.waitUntil(partial(is_drawn, layer, 20))
    assert (viewer.dims.axis_labels[0], layer.colormap.name) == ("600 nm", "600 nm")


def test_everybody_but_napari_gets_the_numbers_themselves(
    tmp_path: Path, viewer: ViewerModel, qtbot: QtBot
) -> None:
    layer = shown_from(tmp_path / "cube", "bip", viewer)
    assert isinstance(layer.data, LateBands)
    for numbers in (layer.data, cube_in(layer).data):
        assert_array_equal(numbers[7, :, :], NUMBERS[7])
        assert_array_equal(numbers, NUMBERS)
    qtbot.waitUntil(lambda: layer._slice.image.raw.any())


def test_a_file_that_changed_is_said_once_and_the_last_band_stays(
    tmp_path: Path, viewer: ViewerModel, qtbot: QtBot, told: Told
) -> None:
    layer = shown_from(tmp_path / "cube", "bip", viewer)
    qtbot.waitUntil(partial(is_drawn, layer, 15))
    cube_in(layer).data.tiles.clear()
    with (tmp_path / "cube").open("r+b") as file:
        file.truncate(100)
    viewer.dims.set_current_step(0, 29)
    qtbot.waitUntil(lambda: len(told()) > 0)
    qtbot.wait(50)
    assert len(told()) == 1
    assert "written to" in told()[0]
    assert is_drawn(layer, 15)
