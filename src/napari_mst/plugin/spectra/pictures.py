"""The picture of a cube: its menu, and the bars in the plot that choose its three bands."""

import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_error, show_info
from qtpy.QtCore import QObject
from qtpy.QtGui import QAction
from qtpy.QtWidgets import QFileDialog, QMenu, QWidget

from napari_mst.cube import SpectralCube
from napari_mst.cube.pictures import best_bands, has_colour
from napari_mst.formats.picture_files import KINDS, write_picture
from napari_mst.illuminants import illuminant_names, illuminant_title
from napari_mst.messages import shown
from napari_mst.plugin.dock import reported
from napari_mst.plugin.jobs.comparing import KEY as WIPER_KEY
from napari_mst.plugin.jobs.comparing import SIDES_KEY, SideBySide, Wiper
from napari_mst.plugin.jobs.composing import (
    BEST,
    Colours,
    Composer,
    Wavelengths,
    painted,
)
from napari_mst.plugin.jobs.job import Job
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.spectra.bench_dock import Pace
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.snapshot import Marker
from napari_mst.plugin.viewer.band_contrast import BandContrast
from napari_mst.plugin.viewer.colour_bar import ColourBar
from napari_mst.plugin.viewer.composites import is_picture_shown
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_at
from napari_mst.plugin.viewer.remembered import recalled, remember
from napari_mst.plugin.viewer.sharing import ViewerHelper
from napari_mst.plugin.viewer.slots import calling
from napari_mst.watch import Watch

PICTURE_FILES = "PNG picture (*.png);;TIFF picture (*.tif *.tiff)"
LIGHT_FILES = "Light: wavelength (nm), power (*.csv *.txt)"
KEY = "H"
SHOWN = f"The picture of the cube, or its single bands ({KEY})."
BEST_COLOURS = "Undo a light, and the three bands chosen by the bars in the plot."
WIPER = (
    "The picture on one side of a line that you drag; on the other what lies below: the photo, or "
    "the picture of another cube."
)
SIDES = (
    "The picture beside what lies below it: the photo, or the picture of another cube. Both move "
    "and zoom together, and the mouse reads spectra in both."
)
OWN = "Else all bands of a cube have one contrast, so they compare."
BAR = "The values of the colours of the band or map that is seen."

NAMES = ("R", "G", "B")
TINTS = ("#e6194b", "#3cb44b", "#4d8fea")
OF_THE_EYE = (640.0, 540.0, 460.0)
"""nm; where the bars stand first on a picture in the colours that an eye sees."""
FEWEST = 3
"""Bands from which on there is something to choose."""

Of = Callable[[ViewerModel], Any]
"""Finds a helper of a viewer, such as `Composer.of`."""


class PictureMenu(ViewerHelper):
    """Fills *menu*, and has the picture of the active cube of *viewer* do what a person chooses."""

    def __init__(self, viewer: ViewerModel, menu: QMenu, parent: QWidget) -> None:
        super().__init__(viewer)
        self._parent = parent
        # Each action with the attribute of the helper that it shows.
        self._states = list[tuple[QAction, Of, str]]()
        self.menu = menu.addMenu("Picture of the cube")
        self.menu.setToolTipsVisible(True)
        self.is_shown = self._check("Picture", SHOWN, calling(self._toggle, Composer.of))
        self.best = self.menu.addAction("Best colours", calling(self._choose, BEST))
        self.best.setToolTip(BEST_COLOURS)
        self.lights = self.menu.addMenu("Light")
        self._fill_lights()
        self._opens(f"Wiper ({WIPER_KEY})", WIPER, Wiper.of)
        self._opens(f"Side by side ({SIDES_KEY})", SIDES, SideBySide.of)
        self.menu.addSeparator()
        self.own = self._sets(
            "Each band its own contrast", OWN, BandContrast.of, "is_own", "has_own_contrast"
        )
        self.coloured = self._sets(
            "Bands in their colour", "", BandContrast.of, "is_coloured", "has_own_colour"
        )
        self.bar = self._sets("Colour bar", BAR, ColourBar.of, "is_on")
        self.menu.addSeparator()
        self.always = self._sets(
            "New cubes open as pictures", "", Composer.of, "is_on", "has_pictures"
        )
        self.menu.addAction("Save picture ...", self.ask_to_save)
        self.menu.aboutToShow.connect(self.refresh)

    def _check(self, title: str, tip: str, slot: Callable[..., None]) -> QAction:
        action = self.menu.addAction(title)
        action.setCheckable(True)
        action.setToolTip(tip)
        action.triggered.connect(slot)
        return action

    def _opens(self, title: str, tip: str, of: Of) -> None:
        action = self._check(title, tip, calling(self._toggle, of))
        self._states.append((action, of, "is_open"))

    def _sets(self, title: str, tip: str, of: Of, name: str, kept: str = "") -> QAction:
        """An action that flips the attribute *name*, and keeps it as the choice *kept*."""
        action = self._check(title, tip, calling(self._flip, of, name, kept))
        self._states.append((action, of, name))
        return action

    def _fill_lights(self) -> None:
        for name in illuminant_names():
            self.lights.addAction(name, calling(self.render, name))
        self.lights.addAction("From a file ...", self._ask_for_light)
        self.lights.addSeparator()
        self.adapted = self.lights.addAction("Adapted: white stays white")
        self.adapted.setCheckable(True)
        self.adapted.setChecked(recalled().is_adapted)
        self.adapted.triggered.connect(self._set_adapted)

    @property
    def _layer(self) -> Image | None:
        return active_cube_layer(self.viewer)

    def refresh(self) -> None:
        """Check what is so now; without a cube there is nothing to choose."""
        layer = self._layer
        for action in self.menu.actions():
            action.setEnabled(layer is not None)
        if layer is None:
            return
        for action, of, name in self._states:
            action.setChecked(getattr(of(self.viewer), name))
        self.is_shown.setChecked(is_picture_shown(self.viewer, layer))
        title = Composer.of(self.viewer).title(layer)
        self.is_shown.setText(f"Picture ({title})" if title else "Picture")

    def _toggle(self, of: Of) -> None:
        of(self.viewer).toggle()

    def _flip(self, of: Of, name: str, kept: str) -> None:
        is_on = not getattr(of(self.viewer), name)
        setattr(of(self.viewer), name, is_on)
        if kept:
            remember(**{kept: is_on})

    # ------------------------------------------------------------ colours

    def render(self, light: str) -> None:
        """Show the cube under *light*, a name or a file, or report why that cannot be."""
        self._choose(Colours(light=light, is_adapted=self.adapted.isChecked()))

    def _choose(self, colours: Colours) -> None:
        layer = self._layer
        if layer is not None:
            with reported():
                Composer.of(self.viewer).show(layer, colours)
                Composer.of(self.viewer).first = colours
                remember(light=colours.light, is_adapted=self.adapted.isChecked())

    def _set_adapted(self) -> None:
        layer = self._layer
        if layer is not None:
            colours = Composer.of(self.viewer).colours(layer)
            if colours.light:
                self._choose(replace(colours, is_adapted=self.adapted.isChecked()))

    def _ask_for_light(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open a light", "", LIGHT_FILES)
        if path:
            self.render(path)

    # ------------------------------------------------------------ saving

    def ask_to_save(self) -> None:
        """Ask for a file, and save the picture in full, with its profile."""
        layer = self._layer
        if layer is None:
            return
        path, _ = QFileDialog.getSaveFileName(
            self._parent, "Save picture", f"{layer.name}.png", PICTURE_FILES
        )
        if path:
            target = Path(path)
            is_known = target.suffix.lower() in KINDS
            self.save_as(target if is_known else target.with_name(f"{target.name}.png"))

    def save_as(self, path: Path) -> None:
        """Save the picture of the active cube to *path*, on another thread."""
        layer = self._layer
        if layer is not None:
            colours = Composer.of(self.viewer).colours(layer)
            run = partial(_save, cube_at(layer), colours, path, layer.name)
            start(Job(run, _report_saved, _report_error))


def _save(cube: SpectralCube, colours: Colours, path: Path, source: str, watch: Watch) -> str:
    """Paint and write the picture, on the worker's thread."""
    picture = painted(cube, colours, watch)
    facts: dict[str, object] = {"source": source}
    light = colours.light
    if light:
        facts |= {"illuminant": illuminant_title(light), "adapted": colours.is_adapted}
    # The dialog has asked already whether this file may be replaced.
    return write_picture(path, picture.picture, picture.title, facts, overwrite=True).name


def _report_saved(name: str) -> None:
    show_info(f"The picture was saved as {shown(name)}.")


def _report_error(error: Exception) -> None:
    show_error(str(error))


class PictureBars(QObject):
    """Shows the bars in *plot* while the picture of a cube of *viewer* is shown.

    While one is dragged, the picture follows coarsely; once it is dropped, it is painted in full.
    """

    def __init__(self, viewer: ViewerModel, plot: SpectraPlot) -> None:
        super().__init__(plot)
        self._composer = Composer.of(viewer)
        self._plot = plot
        # Neither a viewer nor a cube may be kept alive by a dock.
        self._layer_ref: weakref.ref[Image] | None = None
        self._dragged: Wavelengths | None = None
        self._pace = Pace(self._follow, self)
        plot.bar_dragged.connect(self._on_dragged)
        plot.bar_dropped.connect(self._on_dropped)

    def draw(self, viewer: ViewerModel) -> None:
        """Draw the bars where the picture of the active cube of *viewer* has its bands."""
        layer = active_cube_layer(viewer)
        if layer is None or len(layer.data) < FEWEST or not is_picture_shown(viewer, layer):
            self._layer_ref = None
            self._plot.set_bars(())
            return
        self._layer_ref = weakref.ref(layer)
        bars = zip(NAMES, TINTS, self._wavelengths(layer), strict=True)
        self._plot.set_bars([Marker(*bar) for bar in bars])

    def stop(self) -> None:
        """Let go of the cube."""
        self._pace.stop()
        self._layer_ref = self._dragged = None
        self._plot.set_bars(())

    def _wavelengths(self, layer: Image) -> Wavelengths:
        return self._composer.colours(layer).wavelengths or first_wavelengths(cube_at(layer))

    @property
    def _layer(self) -> Image | None:
        return None if self._layer_ref is None else self._layer_ref()

    def _on_dragged(self, number: int, wavelength: float) -> None:
        layer = self._layer
        if layer is None:
            return
        every = cube_at(layer).wavelengths
        places = list(self._dragged or self._wavelengths(layer))
        places[number] = min(max(wavelength, float(every.min())), float(every.max()))
        red, green, blue = places
        self._dragged = (red, green, blue)
        self._pace.draw_at_once()

    def _follow(self) -> None:
        layer = self._layer
        if layer is not None and self._dragged is not None:
            self._composer.drag(layer, self._dragged)

    def _on_dropped(self) -> None:
        self._pace.stop()
        layer = self._layer
        dragged, self._dragged = self._dragged, None
        if layer is not None and dragged is not None:
            with reported():
                self._composer.show(layer, Colours(dragged))


def first_wavelengths(cube: SpectralCube) -> Wavelengths:
    """Return where the bars stand until they are dragged, in the unit of *cube*."""
    if has_colour(cube):
        return OF_THE_EYE
    red, green, blue = (float(cube.wavelengths[band]) for band in best_bands(cube))
    return red, green, blue
