"""The spectra dock, with hands to use it."""

import pytest
from napari.components import ViewerModel
from pytestqt.qtbot import QtBot
from tests.plugin.spectra.probe import Desk

from napari_mst.plugin.spectra.dock import SpectraDock


@pytest.fixture
def desk(spectra_dock: SpectraDock, cube_viewer: ViewerModel, qtbot: QtBot) -> Desk:
    return Desk(spectra_dock, cube_viewer, qtbot)
