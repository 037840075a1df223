"""The bar on the image: picture or band, wiper, side by side, light, and more."""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QAction,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QWidget,
)

from napari_mst.base.errors import NapariMstError, shown
from napari_mst.cube import SpectralCube
from napari_mst.cube.illuminants import illuminant_names
from napari_mst.cube.pictures import VISIBLE, has_colour
from napari_mst.plugin.pictures.comparing import SideBySideView, Wiper
from napari_mst.plugin.pictures.composing import BEST, Colours, Composer
from napari_mst.plugin.viewer.bands import Bands
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at, is_picture_shown
from napari_mst.plugin.viewer.sharing import OfViewer, calling, picture_choices, report, unwrapped

LIGHT_FILES = "Light: wavelength (nm), power (*.csv *.txt)"
LIGHTS = ("D65", "A", "LED-B3")
"""The lights listed first: daylight, incandescent, LED. The others are under More."""
PICTURE = "The picture of the cube: all of its bands at once. H goes to the band and back."
BAND = "The single band at which the slider stands; moving the slider shows it. H goes back."
WIPER = (
    "The picture on one side of a line that you drag; on the other what lies below: the photo, or "
    "the picture of another cube. W opens and closes it."
)
SIDES = (
    "The picture beside what lies below it: the photo, or the picture of another cube. Both move "
    "and zoom together, and the mouse reads spectra in both. G opens and closes it."
)
LIGHT_TITLE = "Light"
LIGHT = "Show the picture as under another light."
NO_REFLECTANCE = "A light needs reflectance, but this cube holds {}. Select a cube of reflectance."
NO_COLOUR = f"A light needs a cube that covers {VISIBLE[0]:g}-{VISIBLE[1]:g} nm. Select one."
BEST_COLOURS = "Undo a light, and the three bands chosen by the bars in the plot."
OWN = "Else all bands of a cube have one contrast, so they compare."
TINTED = "Else bands are grey. Bands that the eye does not see stay grey."
LONGEST = 16
"""Most letters of a light's name that the button shows."""
EDGE = 6
"""Pixels between the bar and the corner of the image."""
STYLE = "QPushButton { padding: 2px 6px; }"


def no_light(cube: SpectralCube) -> str:
    """Say why *cube* cannot be rendered under a light; "" if it can."""
    if cube.quantity != "reflectance":
        return NO_REFLECTANCE.format(shown(cube.quantity, 40) or "numbers of unknown meaning")
    return "" if has_colour(cube) else NO_COLOUR


Of = Callable[[ViewerModel], Any]
"""Finds a helper of a viewer, such as `Composer.of`."""


class PictureBar(QFrame, OfViewer):
    """Shows and changes how the active cube of *viewer* is displayed; hidden without a cube.

    It lies in a corner of the widget *image*.
    """

    def __init__(self, viewer: ViewerModel, image: QWidget) -> None:
        super().__init__(image, styleSheet=STYLE)
        self._viewer_ref = weakref.ref(unwrapped(viewer))
        # Each button or entry, and the helper and the attribute whose state it shows.
        self._states = list[tuple[Any, Of, str]]()
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(2, 2, 2, 2)
        self._row.setSpacing(2)
        self.picture = self._button("Picture", PICTURE, calling(self._show_picture, True))
        self.band = self._button("Band (H)", BAND, calling(self._show_picture, False))
        self._row.addSpacing(3 * EDGE)
        for title, tip, of in (
            ("Wiper", WIPER, Wiper.of),
            ("Side by side", SIDES, SideBySideView.of),
        ):
            button = self._button(title, tip, calling(self._toggle, of))
            self._states.append((button, of, "is_open"))
        self.lights = self._menu(LIGHT_TITLE, LIGHT)
        self._lights = self._fill_lights()
        self.more = self._menu("\N{HORIZONTAL ELLIPSIS}", "The look of the bands.")
        for title, tip, name, choice in (
            ("Each band its own contrast", OWN, "is_own", "has_own_contrast"),
            ("Bands in the colour of their wavelength", TINTED, "is_tinted", "has_tinted_bands"),
        ):
            entry = self.more.addAction(title, calling(self._flip, name, choice))
            entry.setCheckable(True)
            entry.setToolTip(tip)
            self._states.append((entry, Bands.of, name))
        Composer.of(self.viewer).changed.connect(self.refresh)
        self.viewer.layers.events.connect(self._on_layers)
        self.viewer.layers.selection.events.active.connect(self.refresh)
        self.viewer.canvas.grid.events.enabled.connect(self.refresh)
        self.move(EDGE, EDGE)
        self.refresh()

    def _button(self, title: str, tip: str, slot: Callable[..., None]) -> QPushButton:
        button = QPushButton(title, toolTip=tip, checkable=True)
        # A click leaves the keys to the image.
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(slot)
        self._row.addWidget(button)
        return button

    def _menu(self, title: str, tip: str) -> QMenu:
        button = QPushButton(title, toolTip=tip)
        menu = QMenu(button, toolTipsVisible=True)
        menu.aboutToShow.connect(self.refresh)
        button.setMenu(menu)
        self._row.addWidget(button)
        return menu

    def _fill_lights(self) -> list[QAction]:
        """Fill the menu of lights, and return its entries that need a light."""
        self.lights.addAction("Best colours", calling(self._choose, BEST)).setToolTip(BEST_COLOURS)
        more = QMenu("More", self.lights)
        others = [name for name in illuminant_names() if name not in LIGHTS]
        for menu, names in ((self.lights, LIGHTS), (more, others)):
            for name in names:
                menu.addAction(name, calling(self.render_under, name))
        entries = [*self.lights.actions()[1:], self.lights.addMenu(more)]
        return [*entries, self.lights.addAction("From a file ...", self._ask_for_light)]

    @property
    def _layer(self) -> Image | None:
        return active_cube_layer(self.viewer)

    def refresh(self) -> None:
        """Show the present state."""
        viewer, layer = self.viewer, self._layer
        self.setVisible(layer is not None)
        if layer is None:
            return
        is_picture = is_picture_shown(viewer, layer)
        self.picture.setChecked(is_picture)
        self.band.setChecked(not is_picture)
        sitter = Composer.of(viewer).sitter_of(layer)
        title, chosen = sitter.title, sitter.colours
        # The title names the chosen colours: a false-colour picture looks like any other.
        self.picture.setText(f"Picture: {title}" if chosen.wavelengths else "Picture")
        lacks = no_light(cube_at(layer))
        for entry in self._lights:
            entry.setEnabled(not lacks)
            entry.setToolTip(lacks)
        light = shown(Path(chosen.light).name, LONGEST)
        self.lights.parentWidget().setText(f"{LIGHT_TITLE}: {light}" if light else LIGHT_TITLE)
        self.picture.setToolTip(f"{PICTURE}\n{title}" if title else PICTURE)
        for control, of, name in self._states:
            control.setChecked(getattr(of(viewer), name))
        self.adjustSize()

    def _on_layers(self, event: Any) -> None:
        if event.type in ("inserted", "removed", "visible", "metadata", "data"):
            self.refresh()

    def _show_picture(self, is_shown: bool) -> None:
        layer = self._layer
        if layer is not None:
            Composer.of(self.viewer).show_picture(layer, is_shown=is_shown)

    def _toggle(self, of: Of) -> None:
        of(self.viewer).toggle()
        self.refresh()

    def _flip(self, name: str, choice: str) -> None:
        """Turn a switch of the bands, and remember it as a *choice*."""
        bands = Bands.of(self.viewer)
        setattr(bands, name, not getattr(bands, name))
        setattr(picture_choices(), choice, getattr(bands, name))

    # ------------------------------------------------------------ colours

    def render_under(self, light: str) -> None:
        """Show the cube under *light*, a name or a file, or report why it cannot be shown."""
        self._choose(Colours(light=light))

    def _choose(self, colours: Colours) -> None:
        layer = self._layer
        if layer is None:
            return
        try:
            Composer.of(self.viewer).show(layer, colours)
        except NapariMstError as error:
            report(error)

    def _ask_for_light(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open a light", "", LIGHT_FILES)
        if path:
            self.render_under(path)


def add_bar(viewer: ViewerModel) -> PictureBar | None:
    """Put the bar on the image of *viewer*; None, and nothing happens, if it has no window."""
    window = getattr(viewer, "window", None)
    main = None if window is None else window.main_menu.parentWidget()
    return None if main is None else PictureBar(viewer, main.centralWidget())
