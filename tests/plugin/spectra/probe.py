"""Looks at what the spectra dock draws, and does to it what napari and a person do."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Points
from numpy.typing import NDArray
from pytestqt.qtbot import QtBot
from qtpy.QtGui import QAction
from tests.plugin.conftest import make_cube
from tests.plugin.in_viewer import add_cube, picks_in

from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.menus import FilledMenu
from napari_mst.plugin.spectra.model_dock import SharedSpectraModel
from napari_mst.plugin.spectra.resolve import DrawnCurve

SQUARE = np.array([[3, 4], [3, 9], [8, 9], [8, 4]])


def entries(menu: Any) -> dict[str, QAction]:
    """The entries of a menu, or of that of a button, by their titles, as it opens now."""
    opened: FilledMenu = menu if isinstance(menu, FilledMenu) else menu.menu()
    opened.refill()
    return {action.text(): action for action in opened.actions() if not action.isSeparator()}


def choose(menu: Any, title: str) -> None:
    """Open a menu, and click on an entry that is not grey."""
    action = entries(menu)[title]
    assert action.isEnabled(), action.toolTip()
    action.trigger()


@dataclass
class Desk:
    """The dock with a cube in its viewer, and hands to use it with."""

    dock: SpectraDock
    viewer: ViewerModel
    qtbot: QtBot

    @property
    def model(self) -> SharedSpectraModel:
        return self.dock.model

    @property
    def points(self) -> Points:
        return picks_in(self.viewer)

    def pin(self, row: int, column: int) -> None:
        self.model.pin((550, row, column))

    def choose(self, button: str, title: str) -> None:
        choose(getattr(self.dock.menus, button), title)

    def lines(self) -> list[DrawnCurve]:
        """The curves, when nothing more is to be drawn."""
        self.qtbot.waitUntil(lambda: not self.dock.model.is_drawing, timeout=30_000)
        return list(self.dock.plot.curves.lines)

    def live(self) -> list[NDArray[np.float64]]:
        """The values of the curves under the mouse."""
        return [line.spectrum.values for line in self.dock.plot.live.lines]

    def wait_for_text(self, text: str) -> None:
        self.qtbot.waitUntil(lambda: text in self.model.snapshot.text, timeout=30_000)

    def drawn(self) -> list[tuple[str, NDArray[np.float64]]]:
        """Colour and values of the curves."""
        return [(line.spectrum.colour, line.spectrum.values) for line in self.lines()]

    def second_cube(self, **changes: Any) -> Image:
        """Another visible cube with other values, while the first stays selected."""
        cube = make_cube()
        layer = add_cube(self.viewer, replace(cube, data=cube.data + 1), "other", **changes)
        self.viewer.layers.selection.active = self.viewer.layers["cube"]
        return layer

    def hover(self, row: int, column: int) -> None:
        """Do what napari does when the mouse moves."""

        class Event:
            position = (550, row, column)

        event: Any = Event()
        for callback in self.viewer.mouse_move_callbacks:
            callback(self.viewer, event)


def bounds(spectrum: Spectrum) -> NDArray[np.float64]:
    """(2, B) lower and upper bound."""
    assert spectrum.lower is not None
    assert spectrum.upper is not None
    return np.stack([spectrum.lower, spectrum.upper])
