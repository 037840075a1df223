"""The tool bar of the spectra dock: buttons, and menus that are filled when they open."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakMethod

from napari.utils.theme import Theme
from qtpy.QtWidgets import QApplication, QFileDialog, QMenu, QToolButton, QWidget

from napari_mst.analysis.comparison import align
from napari_mst.analysis.library import colour_checker, read_spectra, spectra_text
from napari_mst.base.errors import refusal
from napari_mst.cube.layer import STACK_KEY
from napari_mst.cube.spectrum import Spectrum
from napari_mst.plugin.dock import (
    BEFORE_AFTER,
    KEEP,
    NEXT_BAND,
    PREVIOUS_BAND,
    REDO,
    UNDO,
)
from napari_mst.plugin.files.saving import ask_to_save
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.resolve import VIEWS, Settings
from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at, cube_of
from napari_mst.plugin.viewer.themed_plot import PICTURES

SAVES = "Table (*.csv);;ENVI spectral library (*.sli)"
OPENS = (
    "Spectra (*.csv *.txt *.tsv *.asd *.sed *.sig *.jdx *.dx *.ti3 *.sli *.lib *.hdr);;"
    "All files (*)"
)
PICK = (
    "Pick",
    "A click on the image pins the spectrum. Dragging still pans.\n"
    f"{KEEP.text} pins the spectrum under the mouse.",
)
REGIONS = ("Regions", "The mean of every shape and every label of the layers that are shown.")
VIEW = (
    "View",
    "How the picture of the cube and the plot of its spectra look.\n"
    "A double click on the plot shows all wavelengths again.\n"
    f"{PREVIOUS_BAND.text}, {NEXT_BAND.text}: the band before, the next one.\n"
    f"{BEFORE_AFTER.text}: the photo below the cube, and the cube again.",
)
COMPARE = ("Compare", "Compare with a reference cube, or with a library of spectra.")
SAVE = ("Save", "Keep the cube, the spectra and the plot, or open spectra again.")
SPREADS = {
    "Mean and 1 standard deviation": "std",
    "Mean only": "",
}
FIT = "Else the axis of reflectance shows 0 to 1, so that plots compare."
# Qt's numbers: 1 has a menu at its arrow (`MenuButtonPopup`), 2 opens it anywhere (`InstantPopup`).
STYLE = """
QToolButton {{ padding: 4px 1px; border-radius: 3px; background: {primary}; }}
QToolButton[popupMode="1"] {{ padding-right: 12px; }}
QToolButton[popupMode="2"] {{ padding-right: 8px; }}
QToolButton:hover {{ background: {secondary}; }}
QToolButton:checked {{ background: {current}; }}
QToolButton::menu-indicator {{ width: 7px; subcontrol-position: right center; right: 1px; }}
QToolButton::menu-button {{ width: 12px; border: none; background: transparent; }}
"""
"""The buttons, in the colours of a theme: flat, and lit while they are on."""
PAGES = "The spectra of a pick on every page of a stack, from blue for the first to yellow."
DRAW = "Rectangles; the tools of napari for polygons, ellipses and lines stand at the left."


Fill = Callable[["FilledMenu"], None]


class FilledMenu(QMenu):
    """A menu that *fill* fills anew each time it opens.

    *fill* is a method of an object that the menu does not keep alive.
    """

    def __init__(self, model: SpectraModel, fill: Fill, parent: QWidget) -> None:
        super().__init__(parent, toolTipsVisible=True)
        self._model = model
        self._fill = WeakMethod(fill)
        self.aboutToShow.connect(self.refill)

    def refill(self) -> None:
        """List the present entries."""
        self.clear()
        fill = self._fill()
        if fill is not None:
            fill(self)

    def entry(
        self,
        title: str,
        act: Callable[[], object],
        tip: str = "",
        *,
        is_on: bool | None = None,
        lacks: str = "",
    ) -> None:
        """Add an entry that calls *act* and shows its errors.

        It has a tick if *is_on* is not None. A sentence about what it *lacks* disables it, and
        becomes its tooltip.
        """
        action = self.addAction(title)

        def chosen(*_: object) -> None:
            with self._model.reported():
                act()

        action.triggered.connect(chosen)
        action.setToolTip(lacks or tip)
        action.setEnabled(not lacks)
        if is_on is not None:
            action.setCheckable(True)
            action.setChecked(is_on)

    def switch(self, title: str, setting: str, tip: str = "") -> None:
        """Add an entry that switches a setting on and off."""
        is_on = getattr(self._model.settings, setting)
        self.entry(title, partial(self._model.set, **{setting: not is_on}), tip, is_on=is_on)

    def choice(self, setting: str, values: Mapping[str, Any]) -> None:
        """Add an entry for each of the *values* of a setting, by title."""
        chosen = getattr(self._model.settings, setting)
        for title, value in values.items():
            choose = partial(self._model.set, **{setting: value})
            self.entry(title, choose, is_on=value == chosen)


def lacks_cube(model: SpectraModel) -> str:
    """Return a sentence if no cube is selected; otherwise ""."""
    return "" if active_cube_layer(model.viewer) else "Select the layer of a cube."


def ask_spectra(
    parent: QWidget,
    title: str,
    use: Callable[[list[Spectrum]], object],
    *,
    as_reflectance: bool = False,
) -> None:
    """Ask for a file in a dialog over *parent*, and pass its spectra to *use*."""
    path, _ = QFileDialog.getOpenFileName(parent, title, "", OPENS)
    if path:
        use(read_spectra(path, as_reflectance=as_reflectance))


def menu_button(model: SpectraModel, texts: tuple[str, str], fill: Fill) -> QToolButton:
    """Make a flat button from its text and tooltip, with a menu."""
    made = QToolButton(text=texts[0], toolTip=texts[1])
    made.setMenu(FilledMenu(model, fill, made))
    made.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    return made


def _copy(text: str) -> str:
    QApplication.clipboard().setText(text)
    return "Copied as a table."


class SpectraMenus:
    """Makes the buttons, which act on *model* and *plot*; dialogs open over *parent*."""

    def __init__(self, model: SpectraModel, plot: SpectraPlot, parent: QWidget) -> None:
        self._model = model
        self._plot = plot
        self._parent = parent
        self.pick = menu_button(model, PICK, self._fill_pick)
        self.pick.setCheckable(True)
        # The menu is at its arrow.
        self.pick.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        # Only a user causes "clicked"; "toggled" would also answer `show`.
        self.pick.clicked.connect(lambda is_on: model.set(is_picking=is_on))
        self.regions = menu_button(model, REGIONS, self._fill_regions)
        self.view = menu_button(model, VIEW, self._fill_view)
        self.compare = menu_button(model, COMPARE, self._fill_compare)
        self.save = menu_button(model, SAVE, self._fill_save)
        self.show(model.settings)

    def show(self, settings: Settings) -> None:
        """Press the button while clicks pin spectra."""
        self.pick.setChecked(settings.is_picking)

    # ------------------------------------------------------------ settings

    def _fill_pick(self, menu: FilledMenu) -> None:
        model = self._model
        menu.choice("window", {f"{side} x {side} pixels": side for side in picks.WINDOWS})
        menu.addSeparator()
        no_change = "" if model.layers.history.can_undo else "Nothing was changed."
        menu.entry(f"Undo\t{UNDO.text}", model.undo, lacks=no_change)
        nothing_undone = "" if model.layers.history.can_redo else "Nothing was undone."
        menu.entry(f"Redo\t{REDO.text}", model.redo, lacks=nothing_undone)

    def _fill_regions(self, menu: FilledMenu) -> None:
        model = self._model
        menu.entry("Draw regions", model.draw_regions, DRAW, lacks=lacks_cube(model))
        menu.addSeparator()
        menu.choice("spread", SPREADS)

    def _fill_view(self, menu: FilledMenu) -> None:
        menu.choice("view", {view.title: view for view in VIEWS})
        menu.addSeparator()
        menu.switch("Fit the values", "is_fitted", FIT)

    # ------------------------------------------------------------ Compare

    def _fill_compare(self, menu: FilledMenu) -> None:
        """List the present cubes and the libraries. Choosing an entry again undoes the choice."""
        model = self._model
        compared = active_cube_layer(model.viewer)
        for layer in model.viewer.layers:
            reference, is_on = cube_of(layer), layer is model.reference
            # Comparing a cube with itself is useless.
            if reference is not None and (layer is not compared or is_on):
                choose = partial(setattr, model, "reference", None if is_on else layer)
                is_free = is_on or compared is None
                lacks = "" if is_free else refusal(align, cube_at(compared), reference)
                menu.entry(f"Reference: {layer.name}", choose, is_on=is_on, lacks=lacks)
        if compared is not None and STACK_KEY in compared.metadata:
            menu.entry("Selected picks over all pages", model.over_pages, PAGES)
        menu.addSeparator()
        menu.entry("Find in library: ColorChecker", lambda: model.match_with(colour_checker()))
        ask = partial(ask_spectra, self._parent, "Open a library of spectra", model.match_with)
        menu.entry("Find in library: from a file ...", ask)
        if model.library:
            menu.entry("No library", partial(model.match_with, ()))

    # ------------------------------------------------------------ Save

    def _fill_save(self, menu: FilledMenu) -> None:
        """List what can be saved and opened."""
        model = self._model
        no_curve = "" if model.shown else "Keep a spectrum first: click on the image."
        menu.entry("Save cube ...", lambda: ask_to_save(model.viewer), lacks=lacks_cube(model))
        menu.entry("Save spectra ...", self.save_spectra, lacks=no_curve)
        menu.entry("Open spectra ...", self.open_spectra)
        menu.entry("Copy spectra", self.copy_spectra, lacks=no_curve)
        menu.entry("Save plot ...", self.save_plot)
        menu.entry("Copy plot", lambda: QApplication.clipboard().setPixmap(self._plot.grab()))

    def save_spectra(self) -> None:
        """Ask for a file, and save the spectra of the visible curves."""
        path, _ = QFileDialog.getSaveFileName(self._parent, "Save spectra", "spectra.csv", SAVES)
        if path:
            self._model.save_spectra(path)

    def open_spectra(self) -> None:
        """Ask for a file; spectra that belong to the cube become picks and regions again."""
        ask_spectra(self._parent, "Open spectra", self._model.open_spectra)

    def copy_spectra(self) -> None:
        """Put the spectra on the clipboard, as a table."""
        # The worker only makes the text, as Qt's clipboard belongs to the main thread.
        self._model.use_spectra(spectra_text, _copy)

    def save_plot(self) -> None:
        """Ask for a file, and save the plot with its legend, black on white."""
        path, _ = QFileDialog.getSaveFileName(self._parent, "Save plot", "spectra.png", PICTURES)
        if path:
            self._plot.save(Path(path))


def style_of(theme: Theme) -> str:
    """Return the style sheet of the buttons."""
    return STYLE.format(
        primary=theme.primary.as_hex(),
        secondary=theme.secondary.as_hex(),
        current=theme.current.as_hex(),
    )
