"""The tool bar of the spectra dock: a few buttons, each with its menu."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from napari.layers import Image
from napari.utils.theme import Theme
from qtpy.QtCore import Qt
from qtpy.QtGui import QAction, QActionGroup, QKeySequence
from qtpy.QtWidgets import QFileDialog, QMenu, QToolButton, QWidget

from napari_mst.plugin.dock import reported
from napari_mst.plugin.keys import BEFORE_AFTER, KEEP, NEXT_BAND, PREVIOUS_BAND
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.files import OPENS, SpectraFiles
from napari_mst.plugin.spectra.known_menu import KNOWN, KnownMenu
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.snapshot import RANGES, VIEWS, Settings
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.plugin.viewer.slots import calling
from napari_mst.spectra.library import colour_checker, read_spectra


def button(text: str, tip: str, *, checkable: bool = False) -> QToolButton:
    """A flat button with a menu; one that can be checked has the menu at its arrow."""
    made = QToolButton(text=text, toolTip=tip, checkable=checkable, checked=checkable)
    made.setMenu(QMenu(made))
    modes = QToolButton.ToolButtonPopupMode
    made.setPopupMode(modes.MenuButtonPopup if checkable else modes.InstantPopup)
    return made


def choice(menu: QMenu, titles: Sequence[str], choose: Callable[[int], Any]) -> list[QAction]:
    """Actions of *menu* of which one is chosen, the first at the beginning."""
    group = QActionGroup(menu)
    actions = list[QAction]()
    for number, title in enumerate(titles):
        action = menu.addAction(title)
        action.setCheckable(True)
        action.setChecked(number == 0)
        # "triggered" comes from a person alone; "toggled" would also answer `show`.
        action.triggered.connect(calling(choose, number))
        group.addAction(action)
        actions.append(action)
    return actions


def check(actions: Sequence[QAction], values: Sequence[object], value: object) -> None:
    """Check the action of *value*; a script may have set one that the menu does not list."""
    for action, one in zip(actions, values, strict=True):
        action.setChecked(one == value)


SPREADS = (
    ("Mean and 1 standard deviation", "std"),
    ("Mean and 5-95 %", (5.0, 95.0)),
    ("Mean only", ""),
)
ERROR_BAND = (
    "Where nine in ten true spectra should lie around the selected picks of one pixel, on a cube "
    "of a bundled model.\n"
    "Made for exactly rendered sRGB, and wider for a camera's JPEG; known spectra calibrate it.\n"
    "The line under the plot says what calibrates it. napari-mst evaluate prints how many true\n"
    "values lie there on scenes of a multispectral camera."
)
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
SHAPES = (
    ("a polygon", "add_polygon"),
    ("a rectangle", "add_rectangle"),
    ("an ellipse", "add_ellipse"),
)


class SpectraMenus:
    """Makes the buttons, and forwards them to *bench* and *plot*; dialogs open over *parent*."""

    def __init__(self, bench: Bench, plot: SpectraPlot, parent: QWidget) -> None:
        self._bench = bench
        self._plot = plot
        self._parent = parent
        self.pick = button(
            "Pick",
            "A click on the image pins the spectrum. Dragging still pans.\n"
            f"{KEEP.text} pins the spectrum under the mouse.",
            checkable=True,
        )
        self.regions = button(
            "Regions",
            "The mean of every shape and every label of the layers that are shown.",
            checkable=True,
        )
        self.view = button(
            "View", f"How the picture of the cube and the plot of its spectra look.\n{_band_keys()}"
        )
        self.compare = button(
            "Compare", "Compare with a reference cube, or with a library of spectra."
        )
        self.save = button(
            "Save", "Keep the cube, the spectra and the plot, or open spectra again."
        )
        self.known = KnownMenu(bench, button("Known", KNOWN), parent)
        self.buttons = [
            *(self.pick, self.regions, self.view, self.compare),
            *(self.known.button, self.known.after, self.save),
        ]
        self._fill_pick(self.pick.menu())
        self._fill_regions(self.regions.menu())
        self._fill_view(self.view.menu())
        self.files = SpectraFiles(bench, plot, self.save.menu(), parent)
        # The cubes come and go, so this menu is filled each time it opens.
        self.compare.menu().aboutToShow.connect(self.fill_compare)

    def show(self, settings: Settings) -> None:
        """Check what *settings* say."""
        self.pick.setChecked(settings.is_picking)
        self.regions.setChecked(settings.has_regions)
        self.legend.setChecked(settings.is_legend_shown)
        self.error_band.setChecked(settings.has_error_bands)
        check(self.windows, picks.WINDOWS, settings.window)
        check(self.spreads, [spread for _, spread in SPREADS], settings.spread)
        check(self.views, VIEWS, settings.view)
        check(self.ranges, RANGES, settings.value_range)

    # ------------------------------------------------------------ Pick

    def _fill_pick(self, menu: QMenu) -> None:
        titles = [f"{side} x {side} pixels" for side in picks.WINDOWS]
        self.windows = choice(menu, titles, self._set_window)
        menu.addSeparator()
        self.undo = menu.addAction("Undo", self._bench.undo)
        self.undo.setShortcut(QKeySequence.StandardKey.Undo)
        # Only within the dock: on the canvas, `CanvasMouse` hears the same keys.
        self.undo.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        # The dock has the action as well: so the shortcut is heard while the menu is closed.
        self._parent.addAction(self.undo)
        self.clear = menu.addAction("Clear all", self._bench.clear)
        self.pick.toggled.connect(self._set_picking)

    def _set_picking(self, is_on: bool) -> None:
        self._bench.settings = replace(self._bench.settings, is_picking=is_on)

    def _set_window(self, number: int) -> None:
        self._bench.settings = replace(self._bench.settings, window=picks.WINDOWS[number])

    # ------------------------------------------------------------ Regions

    def _fill_regions(self, menu: QMenu) -> None:
        self.draws = [
            menu.addAction(f"Draw {title}", calling(self._bench.draw_regions, mode))
            for title, mode in SHAPES
        ]
        menu.addSeparator()
        self.spreads = choice(menu, [title for title, _ in SPREADS], self._set_spread)
        self.regions.toggled.connect(self._set_regions)

    def _set_regions(self, is_on: bool) -> None:
        self._bench.settings = replace(self._bench.settings, has_regions=is_on)

    def _set_spread(self, number: int) -> None:
        _, spread = SPREADS[number]
        self._bench.settings = replace(self._bench.settings, spread=spread)

    # ------------------------------------------------------------ View

    def _fill_view(self, menu: QMenu) -> None:
        self.views = choice(menu, [view.title for view in VIEWS], self._set_view)
        menu.addSeparator()
        self.ranges = choice(menu, [one.title for one in RANGES], self._set_range)
        menu.addSeparator()
        self.legend = menu.addAction("Legend")
        self.legend.setCheckable(True)
        self.legend.toggled.connect(self._set_legend)
        self.error_band = menu.addAction("Error band (90 %)")
        self.error_band.setCheckable(True)
        # Checked before it is connected: a default is no choice of a person.
        self.error_band.setChecked(True)
        self.error_band.setToolTip(ERROR_BAND)
        self.error_band.toggled.connect(self._set_error_bands)
        # Else a menu of Qt shows no tooltips of its entries.
        menu.setToolTipsVisible(True)
        menu.addAction("All wavelengths", self._plot.show_all_wavelengths)

    def _set_view(self, number: int) -> None:
        self._bench.settings = replace(self._bench.settings, view=VIEWS[number])

    def _set_range(self, number: int) -> None:
        self._bench.settings = replace(self._bench.settings, value_range=RANGES[number])

    def _set_legend(self, is_on: bool) -> None:
        self._bench.settings = replace(self._bench.settings, is_legend_shown=is_on)

    def _set_error_bands(self, is_on: bool) -> None:
        self._bench.settings = replace(self._bench.settings, has_error_bands=is_on)

    # ------------------------------------------------------------ Compare

    def fill_compare(self) -> None:
        """List the cubes there are now, and the libraries."""
        bench = self._bench
        menu = self.compare.menu()
        menu.clear()
        self._add_reference(menu, None)
        for layer in bench.viewer.layers:
            if cube_of(layer) is not None:
                self._add_reference(menu, layer)
        menu.addSeparator()
        errors = menu.addAction("Show errors", self._toggle_errors)
        errors.setCheckable(True)
        errors.setChecked(bench.settings.is_error_shown)
        errors.setEnabled(bench.reference is not None)
        menu.addSeparator()
        menu.addAction("No library of spectra", self._compare_with_no_library)
        menu.addAction("Library: ColorChecker", self._compare_with_colour_checker)
        menu.addAction("Library: from a file ...", self.open_library)

    def _add_reference(self, menu: QMenu, layer: Image | None) -> None:
        title = "No reference cube" if layer is None else f"Reference: {layer.name}"
        action = menu.addAction(title, calling(self._set_reference, layer))
        action.setCheckable(True)
        action.setChecked(layer is self._bench.reference)

    def _set_reference(self, layer: Image | None) -> None:
        self._bench.reference = layer

    def _toggle_errors(self) -> None:
        settings = self._bench.settings
        self._bench.settings = replace(settings, is_error_shown=not settings.is_error_shown)

    def _compare_with_no_library(self) -> None:
        self._bench.library = []

    def _compare_with_colour_checker(self) -> None:
        self._bench.library = colour_checker()

    def open_library(self) -> None:
        """Ask for a library, and compare with it."""
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open a library of spectra", "", OPENS)
        if path:
            with reported():
                self._bench.library = read_spectra(path)


def style_of(theme: Theme) -> str:
    """The style sheet of the buttons."""
    return STYLE.format(
        primary=theme.primary.as_hex(),
        secondary=theme.secondary.as_hex(),
        current=theme.current.as_hex(),
    )


def _band_keys() -> str:
    return (
        f"{PREVIOUS_BAND.text}, {NEXT_BAND.text}: the band before, the next one.\n"
        f"{BEFORE_AFTER.text}: the photo below the cube, and the cube again."
    )
