"""Looks at what the spectra dock draws, and does to it what napari does."""

from dataclasses import replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Points
from numpy.typing import NDArray
from pytestqt.qtbot import QtBot
from tests.plugin.conftest import make_cube

from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.snapshot import Line
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_layer
from napari_mst.spectra.spectrum import Spectrum

SQUARE = np.array([[3, 4], [3, 9], [8, 9], [8, 4]])


def lines(dock: SpectraDock, qtbot: QtBot) -> list[Line]:
    """The curves, when nothing more is to be drawn."""
    qtbot.waitUntil(lambda: not dock.is_drawing, timeout=30_000)
    return list(dock.plot.curves.lines)


def drawn(dock: SpectraDock, qtbot: QtBot) -> list[tuple[str, NDArray[np.float64]]]:
    """Colour and values of the curves."""
    return [(line.spectrum.colour, line.spectrum.values) for line in lines(dock, qtbot)]


def points_of(viewer: ViewerModel) -> Points:
    points = picks.picks_layer(viewer)
    assert points is not None
    return points


def second_cube(viewer: ViewerModel, **changes: Any) -> Image:
    """Another visible cube with other values, while the first stays selected."""
    data, arguments, _ = cube_layer(make_cube(), "other")
    layer = viewer.add_image(data + 1, **{**arguments, **changes})
    viewer.layers.selection.active = viewer.layers["cube"]
    return layer


def show_errors(dock: SpectraDock) -> None:
    dock.bench.settings = replace(dock.bench.settings, is_error_shown=True)


def hover(viewer: ViewerModel, position: tuple[float, ...]) -> None:
    """Do what napari does when the mouse moves."""

    class Event:
        pass

    event: Any = Event()
    event.position = position
    for callback in viewer.mouse_move_callbacks:
        callback(viewer, event)


def bounds(spectrum: Spectrum) -> NDArray[np.float64]:
    """(2, B) lower and upper bound."""
    assert spectrum.lower is not None
    assert spectrum.upper is not None
    return np.stack([spectrum.lower, spectrum.upper])
