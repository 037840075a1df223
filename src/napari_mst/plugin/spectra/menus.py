"""The tool bar of the spectra dock: a few buttons, each with its menu."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from napari.layers import Shapes
from napari.utils.theme import Theme
from qtpy.QtCore import Qt
from qtpy.QtGui import QAction, QActionGroup, QKeySequence
from qtpy.QtWidgets import QFileDialog, QMenu, QToolButton

from napari_mst.plugin.dock import reported
from napari_mst.plugin.spectra import region_layers
from napari_mst.plugin.spectra.files import OPENS, SpectraFiles
from napari_mst.plugin.spectra.table import Column
from napari_mst.plugin.spectra.views import VIEWS
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of
from napari_mst.plugin.viewer.slots import calling
from napari_mst.spectra.library import colour_checker, read_spectra

if TYPE_CHECKING:
    from napari_mst.plugin.spectra.dock import SpectraDock
    from napari_mst.spectra.compare import Comparison

SPREADS = (
    ("Mean and 1 standard deviation", "std"),
    ("Mean and 5-95 %", (5.0, 95.0)),
    ("Mean only", ""),
)
RANGES = (
    ("Fit the values", None, False),
    ("0 to 1", (0.0, 1.0), False),
    ("Locked (the wheel zooms)", None, True),
)
ERROR_BAND = (
    "Where nine in ten true spectra should lie around the selected picks of one pixel, on a cube of a bundled model.\n"
    "Calibrated on simulated scenes; napari-mst evaluate prints how many lie there on real ones."
)
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
    """Makes the buttons of *dock*, and asks it to do what they say."""

    def __init__(self, dock: "SpectraDock") -> None:
        self._dock = dock
        self.pick = _button(
            "Pick", "A click on the image pins the spectrum. Dragging still pans.", checkable=True
        )
        self.regions = _button(
            "Regions",
            "The mean of every shape and every label of the layers that are shown.",
            checkable=True,
        )
        self.view = _button("View", "What the plot shows of the curves.")
        self.maps = QToolButton(
            text="Maps", toolTip="Make maps from the spectra and from the bands.", checkable=True
        )
        self.compare = _button(
            "Compare", "Compare with a reference cube, or with a library of spectra."
        )
        self.save = _button(
            "Save", "Keep the cube, the spectra and the plot, or open spectra again."
        )
        self.buttons = [self.pick, self.regions, self.view, self.maps, self.compare, self.save]
        self._fill_pick(self.pick.menu())
        self._fill_regions(self.regions.menu())
        self._fill_view(self.view.menu())
        self.files = SpectraFiles(dock, self.save.menu())
        self.compare.menu().aboutToShow.connect(self.fill_compare)

    @property
    def is_picking(self) -> bool:
        """Whether a click pins."""
        return bool(self.pick.isChecked())

    def columns(self) -> "tuple[Column, ...]":
        """What the table says besides."""
        return (
            SCORES if self._dock.collection.reference_layer(self._dock.viewer) is not None else ()
        )

    def _fill_pick(self, menu: QMenu) -> None:
        titles = [f"{side} x {side} pixels" for side in picks.WINDOWS]
        self.windows = _choice(menu, titles, self._set_window)
        menu.addSeparator()
        self.undo = menu.addAction("Undo", self._dock.undo)
        self.undo.setShortcut(QKeySequence.StandardKey.Undo)
        self.undo.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self._dock.addAction(self.undo)
        self.clear = menu.addAction("Clear all", self._dock.clear)

    def _set_window(self, number: int) -> None:
        side = picks.WINDOWS[number]
        self._dock.collection.window = side
        points = picks.picks_layer(self._dock.viewer)
        if points is not None:  # for napari's own tool
            points.feature_defaults = {"name": "", "window": side}

    def _fill_regions(self, menu: QMenu) -> None:
        self.draws = [
            menu.addAction(f"Draw {title}", calling(self._draw, mode)) for title, mode in SHAPES
        ]
        menu.addSeparator()
        self.spreads = _choice(menu, [title for title, _ in SPREADS], self._set_spread)
        self.regions.setChecked(True)
        self.regions.toggled.connect(self._set_regions)

    def _draw(self, mode: str) -> None:
        """Let the user draw on the layer of the regions."""
        viewer = self._dock.viewer
        cube_layer = active_cube_layer(viewer)
        if cube_layer is None:
            return
        shapes = [
            layer for layer in region_layers.region_layers(viewer) if isinstance(layer, Shapes)
        ]
        layer = shapes[-1] if shapes else region_layers.add_regions(viewer, cube_layer)
        viewer.layers.selection.active = layer
        layer.mode = mode
        self.regions.setChecked(True)

    def _set_regions(self, is_on: bool) -> None:
        self._dock.collection.has_regions = is_on
        for layer in region_layers.region_layers(self._dock.viewer) if is_on else ():
            self._dock.layers.tell_apart(layer)
        self._dock.draw_soon()

    def _set_spread(self, number: int) -> None:
        self._dock.collection.spread = SPREADS[number][1]
        self._dock.draw_soon()

    def _fill_view(self, menu: QMenu) -> None:
        self.views = _choice(menu, [view.title for view in VIEWS], self._set_view)
        menu.addSeparator()
        self.ranges = _choice(menu, [title for title, *_ in RANGES], self._set_range)
        menu.addSeparator()
        self.legend = menu.addAction("Legend", self._set_legend)
        self.legend.setCheckable(True)
        self.error_band = menu.addAction("Error band (90 %)")
        self.error_band.setCheckable(True)
        self.error_band.setChecked(True)
        self.error_band.setToolTip(ERROR_BAND)
        self.error_band.toggled.connect(self._set_error_bands)
        menu.setToolTipsVisible(True)
        menu.addAction("All wavelengths", self._dock.plot.show_all_wavelengths)

    def _set_view(self, number: int) -> None:
        self._dock.drawing.view = VIEWS[number]
        self._dock.draw_soon()

    def _set_range(self, number: int) -> None:
        _, y_range, is_locked = RANGES[number]
        self._dock.plot.set_range(y_range, is_locked=is_locked)

    def _set_error_bands(self, is_on: bool) -> None:
        self._dock.collection.show_error_bands(is_on)
        self._dock.draw_soon()

    def _set_legend(self) -> None:
        self._dock.is_legend_shown = self.legend.isChecked()
        self._dock.draw_soon()

    def fill_compare(self) -> None:
        """List the cubes there are now, and the libraries."""
        menu, viewer = self.compare.menu(), self._dock.viewer
        menu.clear()
        cubes = [layer for layer in viewer.layers if cube_of(layer) is not None]
        present = self._dock.collection.reference_layer(viewer)
        for layer in (None, *cubes):
            title = "No reference cube" if layer is None else f"Reference: {layer.name}"
            action = menu.addAction(title, calling(self._dock.set_reference, layer))
            action.setCheckable(True)
            action.setChecked(layer is present)
        menu.addSeparator()
        errors = menu.addAction("Show errors", self._dock.toggle_errors)
        errors.setCheckable(True)
        errors.setChecked(self._dock.drawing.is_error_shown)
        errors.setEnabled(present is not None)
        menu.addSeparator()
        menu.addAction("No library of spectra", calling(self._dock.set_library, []))
        menu.addAction("Library: ColorChecker", self._compare_with_colour_checker)
        menu.addAction("Library: from a file ...", self.open_library)

    def _compare_with_colour_checker(self) -> None:
        self._dock.set_library(colour_checker())

    def open_library(self) -> None:
        """Ask for a library, and compare with it."""
        path, _ = QFileDialog.getOpenFileName(self._dock, "Open a library of spectra", "", OPENS)
        if path:
            with reported():
                self._dock.set_library(read_spectra(path))


def _score(title: str, tip: str, text: Callable[["Comparison"], str]) -> Column:
    return Column(
        title, tip, lambda entry: "" if entry.comparison is None else text(entry.comparison)
    )


SCORES = (
    _score("RMSE", "Root mean square error to the reference.", lambda one: f"{one.rmse:.4f}"),
    _score("MRAE", "Mean relative absolute error to the reference.", lambda one: f"{one.mrae:.3f}"),
    _score(
        "SAM",
        "Mean spectral angle to the reference in degrees.",
        lambda one: f"{one.angle:.2f}\N{DEGREE SIGN}",
    ),
)


def style_of(theme: Theme) -> str:
    """The style sheet of the buttons."""
    return STYLE.format(
        **{name: getattr(theme, name).as_hex() for name in ("primary", "secondary", "current")}
    )


def _button(text: str, tip: str, *, checkable: bool = False) -> QToolButton:
    """A flat button with a menu; one that can be checked has the menu at its arrow."""
    button = QToolButton(text=text, toolTip=tip, checkable=checkable, checked=checkable)
    button.setMenu(QMenu(button))
    mode = QToolButton.ToolButtonPopupMode
    button.setPopupMode(mode.MenuButtonPopup if checkable else mode.InstantPopup)
    return button


def _choice(menu: QMenu, titles: Sequence[str], choose: Callable[[int], Any]) -> list[QAction]:
    """Actions of *menu* of which one is chosen, the first at the beginning."""
    group = QActionGroup(menu)
    actions = list[QAction]()
    for number, title in enumerate(titles):
        action = menu.addAction(title)
        action.setCheckable(True)
        action.setChecked(number == 0)
        action.triggered.connect(calling(choose, number))
        group.addAction(action)
        actions.append(action)
    return actions
