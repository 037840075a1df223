"""The tool bar of the spectra dock: a few buttons with their menus, and the files to save."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari.utils.theme import Theme
from qtpy.QtCore import QRect, QRectF, QSize, Qt
from qtpy.QtGui import QAction, QActionGroup, QImage, QKeySequence, QPainter
from qtpy.QtSvg import QSvgGenerator
from qtpy.QtWidgets import QApplication, QFileDialog, QGraphicsScene, QMenu, QToolButton, QWidget

from napari_mst.crash_safe import saving
from napari_mst.errors import SaveError
from napari_mst.plugin.dock import reported
from napari_mst.plugin.files.saving import ask_to_save
from napari_mst.plugin.keys import BEFORE_AFTER, KEEP, NEXT_BAND, PREVIOUS_BAND
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.known_menu import KNOWN, KnownMenu
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.snapshot import RANGES, VIEWS, Settings
from napari_mst.plugin.viewer import picks
from napari_mst.plugin.viewer.layers import cube_of
from napari_mst.plugin.viewer.slots import calling
from napari_mst.spectra.library import colour_checker, read_spectra, spectra_text

SAVES = "Table (*.csv);;ENVI spectral library (*.sli)"
OPENS = "Spectra (*.csv *.txt *.sli *.hdr)"
PICTURES = "PNG picture (*.png);;SVG drawing (*.svg)"
SUFFIXES = (".png", ".svg")
FINENESS = 3
"""Pixels of a PNG for each pixel on the screen, so that it can be printed."""
BYTES_PER_PIXEL = 4
PICK = (
    "Pick",
    "A click on the image pins the spectrum. Dragging still pans.\n"
    f"{KEEP.text} pins the spectrum under the mouse.",
)
REGIONS = ("Regions", "The mean of every shape and every label of the layers that are shown.")
VIEW = (
    "View",
    "How the picture of the cube and the plot of its spectra look.\n"
    f"{PREVIOUS_BAND.text}, {NEXT_BAND.text}: the band before, the next one.\n"
    f"{BEFORE_AFTER.text}: the photo below the cube, and the cube again.",
)
COMPARE = ("Compare", "Compare with a reference cube, or with a library of spectra.")
SAVE = ("Save", "Keep the cube, the spectra and the plot, or open spectra again.")
SPREADS = {
    "Mean and 1 standard deviation": "std",
    "Mean and 5-95 %": (5.0, 95.0),
    "Mean only": "",
}
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


class SpectraFiles:
    """Asks for files over the window of *parent*, and has *bench* and *plot* save and open them."""

    def __init__(self, bench: Bench, plot: SpectraPlot, menu: QMenu, parent: QWidget) -> None:
        self._bench = bench
        self._plot = plot
        self._parent = parent
        menu.addAction("Save cube ...", self.save_cube)
        menu.addAction("Save spectra ...", self.save_spectra)
        menu.addAction("Open spectra ...", self.open_spectra)
        menu.addAction("Copy spectra", self.copy_spectra)
        menu.addAction("Save plot ...", self.save_plot)
        menu.addAction("Copy plot", self.copy_plot)

    def save_cube(self) -> None:
        """Ask for a file, and save the cube with its wavelengths, its history and the picks."""
        ask_to_save(self._bench.viewer)

    def save_spectra(self) -> None:
        """Ask for a file, and save the spectra whose curves are shown."""
        path, _ = QFileDialog.getSaveFileName(self._parent, "Save spectra", "spectra.csv", SAVES)
        if path:
            self._bench.save_spectra(path)

    def open_spectra(self) -> None:
        """Ask for a file; spectra that belong to the cube become picks and regions again."""
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open spectra", "", OPENS)
        if path:
            with reported():
                self._bench.open_spectra(read_spectra(path))

    def copy_spectra(self) -> None:
        """Put the spectra on the clipboard, as a table."""
        # The worker only makes the text: Qt's clipboard is left to the thread of the window.
        self._bench.saver.use(self._bench.shown, spectra_text, _copy)

    def save_plot(self) -> None:
        """Ask for a file, and save the plot with its legend."""
        path, _ = QFileDialog.getSaveFileName(self._parent, "Save plot", "spectra.png", PICTURES)
        if path:
            with reported():
                self.save_plot_as(path)

    def save_plot_as(self, path: str | Path) -> Path:
        """Save the plot with its legend as `.png` or `.svg`, black on white. Raises `SaveError`."""
        with self._plot.as_printed():
            return save_picture(self._plot.scene(), self._plot.size(), path)

    def copy_plot(self) -> None:
        """Put a picture of the plot on the clipboard."""
        QApplication.clipboard().setPixmap(self._plot.grab())


def _copy(text: str) -> str:
    QApplication.clipboard().setText(text)
    return "Copied as a table."


def save_picture(scene: QGraphicsScene, size: QSize, path: str | Path) -> Path:
    """Save *scene*, *size* pixels large on the screen, as `.png` or `.svg`; crash-safe.

    Raises
    ------
    SaveError
        If the suffix is another, or the file cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        expected = " or ".join(SUFFIXES)
        raise SaveError(
            f"Expected a file name ending in {expected}, got {path.name[:60]!r}. Add one."
        )
    pixels = FINENESS**2 * size.width() * size.height()
    with saving(path, needed=BYTES_PER_PIXEL * pixels, overwrite=True) as (temporary,):
        if suffix == ".svg":
            _save_svg(scene, size, temporary)
        else:
            _save_png(scene, size, temporary)
    return path


def _save_svg(scene: QGraphicsScene, size: QSize, path: Path) -> None:
    generator = QSvgGenerator()
    generator.setFileName(str(path))
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setTitle("Spectra")
    _paint(scene, QPainter(generator), size)


def _save_png(scene: QGraphicsScene, size: QSize, path: Path) -> None:
    image = QImage(size * FINENESS, QImage.Format.Format_RGB32)
    # The painter then counts in pixels of the screen, so lines and letters keep their sizes.
    image.setDevicePixelRatio(FINENESS)
    # A new image holds what was in that memory before.
    image.fill(Qt.GlobalColor.white)
    _paint(scene, QPainter(image), size)
    if not image.save(str(path), "PNG"):
        raise SaveError(
            f"Expected to write {path.name[:60]!r}, got a failure. Choose another folder."
        )


def _paint(scene: QGraphicsScene, painter: QPainter, size: QSize) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    frame = QRectF(0, 0, size.width(), size.height())
    scene.render(painter, frame, frame)
    # Only now does Qt write the file of an SVG.
    painter.end()


class SpectraMenus:
    """Makes the buttons, and forwards them to *bench* and *plot*; dialogs open over *parent*."""

    def __init__(self, bench: Bench, plot: SpectraPlot, parent: QWidget) -> None:
        self._bench = bench
        self._plot = plot
        self._parent = parent
        # The actions and buttons of each setting: those that switch it, and those of its values.
        self._switches = list[tuple[str, Any]]()
        self._choices = list[tuple[str, Sequence[object], list[QAction]]]()
        self.pick = button(PICK, is_split=True)
        self.regions = button(REGIONS, is_split=True)
        self.view = button(VIEW)
        self.compare = button(COMPARE)
        self.save = button(SAVE)
        self.known = KnownMenu(bench, button(KNOWN), parent)
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
        self.show(bench.settings)

    def show(self, settings: Settings) -> None:
        """Check what *settings* say."""
        for setting, switch in self._switches:
            switch.setChecked(getattr(settings, setting))
        for setting, values, actions in self._choices:
            for action, value in zip(actions, values, strict=True):
                action.setChecked(value == getattr(settings, setting))

    # ------------------------------------------------------------ settings

    def _switch(self, setting: str, switch: Any, signal: Any) -> Any:
        """Let *switch* turn a setting on and off; *signal* comes from a person alone."""
        switch.setCheckable(True)
        signal.connect(calling(self._flip, setting))
        self._switches.append((setting, switch))
        return switch

    def _choice(self, menu: QMenu, setting: str, values: Mapping[str, object]) -> list[QAction]:
        """Actions of *menu* that choose one of the *values* of a setting, by their titles."""
        group = QActionGroup(menu)
        actions = []
        for title, value in values.items():
            action = menu.addAction(title)
            action.setCheckable(True)
            action.triggered.connect(calling(self._set, setting, value))
            actions.append(group.addAction(action))
        self._choices.append((setting, list(values.values()), actions))
        return actions

    def _flip(self, setting: str) -> None:
        self._set(setting, not getattr(self._bench.settings, setting))

    def _set(self, setting: str, value: object) -> None:
        self._bench.set(**{setting: value})

    def _fill_pick(self, menu: QMenu) -> None:
        self._switch("is_picking", self.pick, self.pick.clicked)
        sides = {f"{side} x {side} pixels": side for side in picks.WINDOWS}
        self.windows = self._choice(menu, "window", sides)
        menu.addSeparator()
        self.undo = menu.addAction("Undo", self._bench.undo)
        self.undo.setShortcut(QKeySequence.StandardKey.Undo)
        # Only within the dock: on the canvas, `CanvasMouse` hears the same keys.
        self.undo.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        # The dock has the action as well: so the shortcut is heard while the menu is closed.
        self._parent.addAction(self.undo)
        self.clear = menu.addAction("Clear all", self._bench.clear)

    def _fill_regions(self, menu: QMenu) -> None:
        self._switch("has_regions", self.regions, self.regions.clicked)
        self.draws = [
            menu.addAction(f"Draw {title}", calling(self._bench.draw_regions, mode))
            for title, mode in SHAPES
        ]
        menu.addSeparator()
        self.spreads = self._choice(menu, "spread", SPREADS)

    def _fill_view(self, menu: QMenu) -> None:
        self.views = self._choice(menu, "view", {view.title: view for view in VIEWS})
        menu.addSeparator()
        self.ranges = self._choice(menu, "value_range", {one.title: one for one in RANGES})
        menu.addSeparator()
        legend = menu.addAction("Legend")
        self.legend = self._switch("is_legend_shown", legend, legend.triggered)
        error_band = menu.addAction("Error band (90 %)")
        self.error_band = self._switch("has_error_bands", error_band, error_band.triggered)
        error_band.setToolTip(ERROR_BAND)
        # Else a menu of Qt shows no tooltips of its entries.
        menu.setToolTipsVisible(True)
        menu.addAction("All wavelengths", self._plot.show_all_wavelengths)

    # ------------------------------------------------------------ Compare

    def fill_compare(self) -> None:
        """List the cubes there are now, and the libraries."""
        bench = self._bench
        menu = self.compare.menu()
        menu.clear()
        cubes = [layer for layer in bench.viewer.layers if cube_of(layer) is not None]
        for layer in (None, *cubes):
            title = "No reference cube" if layer is None else f"Reference: {layer.name}"
            action = menu.addAction(title, calling(self._compare, "reference", layer))
            action.setCheckable(True)
            action.setChecked(layer is bench.reference)
        menu.addSeparator()
        errors = menu.addAction("Show errors", calling(self._flip, "is_error_shown"))
        errors.setCheckable(True)
        errors.setChecked(bench.settings.is_error_shown)
        errors.setEnabled(bench.reference is not None)
        menu.addSeparator()
        menu.addAction("No library of spectra", calling(self._compare, "library", ()))
        chart = calling(self._compare, "library", colour_checker())
        menu.addAction("Library: ColorChecker", chart)
        menu.addAction("Library: from a file ...", self.open_library)

    def _compare(self, name: str, value: object) -> None:
        setattr(self._bench, name, value)

    def open_library(self) -> None:
        """Ask for a library, and compare with it."""
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open a library of spectra", "", OPENS)
        if path:
            with reported():
                self._bench.library = read_spectra(path)


def button(texts: tuple[str, str], *, is_split: bool = False) -> QToolButton:
    """A flat button with its text, its tooltip and a menu, which a split one has at its arrow."""
    made = QToolButton(text=texts[0], toolTip=texts[1])
    made.setMenu(QMenu(made))
    modes = QToolButton.ToolButtonPopupMode
    made.setPopupMode(modes.MenuButtonPopup if is_split else modes.InstantPopup)
    return made


def style_of(theme: Theme) -> str:
    """The style sheet of the buttons."""
    return STYLE.format(
        primary=theme.primary.as_hex(),
        secondary=theme.secondary.as_hex(),
        current=theme.current.as_hex(),
    )
