"""The menu "Known" of the spectra dock, and the switch between before and after."""

from collections.abc import Callable
from typing import Any

from qtpy.QtWidgets import QMenu, QToolButton, QWidget

from napari_mst.plugin.dock import reported
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.buttons import button
from napari_mst.plugin.spectra.known_questions import Questions
from napari_mst.plugin.spectra.snapshot import KnownState
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.plugin.viewer.slots import calling

COUNTS = (1, 4, 8, 16, 24)
"""Spots that can be suggested at once."""
GREYS = (99.0, 50.0)
"""Reflectances in per cent of the usual tiles of a white and a grey reference."""

KNOWN = (
    "Say what is true at the selected picks: it corrects the cube everywhere.\n"
    "A pick that is known is a diamond. Undo (Ctrl+Z) takes it back."
)
AFTER = "Pressed, the cube adapted to the known spectra is shown; otherwise the cube before."
GREY = "The pixels around the pick are a matt tile that reflects so much of the light everywhere."
LIBRARY = "Choose the measured spectrum of the material from a list, the most alike first."
FILE = (
    "A measured spectrum (.csv, .txt, .sli). With no pick selected, every spectrum of a file with "
    "rows and columns is put where it was measured."
)
PASTE = "One value for each band, or lines of a wavelength in nm and a value."
CUBE = "The spectra of a cube that is right, such as a measured one of the same view."
SUGGEST = "Puts numbered picks where a measurement helps most; dark and clipped pixels are avoided."
WIDTH = (
    "How wide the 90 % error band is, over the mean of the spectrum: measure where it is bright."
)


class KnownMenu:
    """Makes the buttons, and has *bench* do what is chosen; dialogs open over *parent*."""

    def __init__(self, bench: Bench, parent: QWidget) -> None:
        self._bench = bench
        self._ask = Questions(bench, parent)
        self.button = button("Known", KNOWN)
        self.after = QToolButton(text="Adapted", toolTip=AFTER, checkable=True)
        # "clicked" comes from a person alone; "toggled" would also answer `show`.
        self.after.clicked.connect(self._set_after)
        self.after.hide()
        # The cubes come and go, so this menu is filled each time it opens.
        self.button.menu().aboutToShow.connect(self.fill)

    def show(self, state: KnownState) -> None:
        """Draw *state*."""
        self.after.setVisible(state.has_adapted)
        self.after.setChecked(state.is_after)

    def fill(self) -> None:
        """List what can become known, and all that comes of it."""
        state = self._bench.snapshot.known
        menu = self.button.menu()
        menu.clear()
        self.fill_sources(menu)
        menu.addSeparator()
        suggest = menu.addMenu("Suggest where to measure")
        suggest.setToolTipsVisible(True)
        for count in COUNTS:
            title = "1 spot" if count == 1 else f"{count} spots"
            _add(suggest, title, SUGGEST, calling(self._suggest, count))
        menu.addSeparator()
        width = _add(menu, "Layer: width of the error band", WIDTH, self._toggle_width)
        width.setCheckable(True)
        width.setChecked(state.has_width)
        stop = _add(menu, "Stop", "Leave the cube as coarse as it is.", self._bench.known.stop)
        stop.setEnabled(state.is_busy)

    def fill_sources(self, menu: QMenu) -> None:
        """Add to *menu* all that the selected picks can be."""
        ask = self._ask
        menu.setToolTipsVisible(True)
        for percent in GREYS:
            _add(menu, f"A {percent:g} % grey", GREY, calling(ask.mark_grey, percent))
        _add(menu, "A grey of ...", GREY, ask.mark_other_grey)
        _add(menu, "From the ColorChecker ...", LIBRARY, ask.mark_from_chart)
        if self._bench.library:
            _add(menu, "From the library ...", LIBRARY, ask.mark_from_library)
        _add(menu, "From a file ...", FILE, ask.mark_from_file)
        _add(menu, "From the clipboard", PASTE, ask.mark_from_clipboard)
        for name in self._other_cubes():
            _add(menu, f"As in: {name}", CUBE, calling(ask.mark_from_cube, name))
        menu.addSeparator()
        unmark = _add(menu, "Not known", "Nothing is known of these picks.", ask.unmark)
        unmark.setEnabled(any(entry.mark is not None for entry in self._bench.chosen))

    def _other_cubes(self) -> list[str]:
        """The names of the cubes that the picks may be as on: all but the one to adapt."""
        known = self._bench.known
        layers = self._bench.viewer.layers
        return [one.name for one in layers if cube_of(one) is not None and not known.is_ours(one)]

    def _suggest(self, count: int) -> None:
        with reported():
            self._bench.known.suggest(count)

    def _set_after(self, is_after: bool) -> None:
        self._bench.known.is_after = is_after

    def _toggle_width(self) -> None:
        with reported():
            self._bench.known.show_width(not self._bench.snapshot.known.has_width)


def _add(menu: QMenu, title: str, tip: str, act: Callable[[], Any]) -> Any:
    """An action of *menu* with a tooltip."""
    action = menu.addAction(title, act)
    action.setToolTip(tip)
    return action
