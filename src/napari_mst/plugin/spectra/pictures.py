"""The menu of the picture of a cube: its colours, its light, its bands, and its file."""

import weakref
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

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
from napari_mst.plugin.jobs.composing import (
    BEST,
    Colours,
    Composer,
    Order,
    Wavelengths,
    painted,
)
from napari_mst.plugin.jobs.job import Job
from napari_mst.plugin.jobs.side_by_side import KEY as SIDES_KEY
from napari_mst.plugin.jobs.side_by_side import SideBySide
from napari_mst.plugin.jobs.wiper import KEY as WIPER_KEY
from napari_mst.plugin.jobs.wiper import Wiper
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.spectra.plot import SpectraPlot
from napari_mst.plugin.spectra.shared_bench import Pace
from napari_mst.plugin.spectra.snapshot import Marker
from napari_mst.plugin.viewer.band_contrast import BandContrast
from napari_mst.plugin.viewer.colour_bar import ColourBar
from napari_mst.plugin.viewer.composites import is_picture_shown
from napari_mst.plugin.viewer.layers import active_cube_layer, cube_of
from napari_mst.plugin.viewer.picture_choices import recalled, remember
from napari_mst.plugin.viewer.sharing import unwrapped
from napari_mst.plugin.viewer.slots import calling
from napari_mst.watch import Watch

PICTURE_FILES = "PNG picture (*.png);;TIFF picture (*.tif *.tiff)"
LIGHT_FILES = "Light: wavelength (nm), power (*.csv *.txt)"
KEY = "H"


@dataclass(frozen=True, eq=False)
class Errand:
    """A picture to be painted and written to a file."""

    order: Order
    path: Path
    source: str


class PictureMenu:
    """Fills *menu*, and has the picture of the active cube of *viewer* do what a person chooses."""

    def __init__(self, viewer: ViewerModel, menu: QMenu, parent: QWidget) -> None:
        self._viewer_ref = weakref.ref(unwrapped(viewer))
        self._parent = parent
        self.menu = menu.addMenu("Picture of the cube")
        self.menu.setToolTipsVisible(True)
        self.is_shown = self._check("Picture", self._toggle)
        self.is_shown.setToolTip(f"The picture of the cube, or its single bands ({KEY}).")
        self.best = self.menu.addAction("Best colours", calling(self._choose, BEST))
        self.best.setToolTip("Undo a light, and the three bands chosen by the bars in the plot.")
        self.lights = self.menu.addMenu("Light")
        self._fill_lights()
        self.wiper = self._check(f"Wiper ({WIPER_KEY})", self._toggle_wiper)
        self.wiper.setToolTip(
            "The picture on one side of a line that you drag; on the other what lies below: the "
            "photo, or the picture of another cube."
        )
        self.sides = self._check(f"Side by side ({SIDES_KEY})", self._toggle_sides)
        self.sides.setToolTip(
            "The picture beside what lies below it: the photo, or the picture of another cube. "
            "Both move and zoom together, and the mouse reads spectra in both."
        )
        self.menu.addSeparator()
        self.own = self._check("Each band its own contrast", self._set_own)
        self.own.setToolTip("Else all bands of a cube have one contrast, so they compare.")
        self.coloured = self._check("Bands in their colour", self._set_coloured)
        self.bar = self._check("Colour bar", self._set_bar)
        self.bar.setToolTip("The values of the colours of the band or map that is seen.")
        self.menu.addSeparator()
        self.always = self._check("New cubes open as pictures", self._set_always)
        self.save = self.menu.addAction("Save picture ...", self.ask_to_save)
        self.menu.aboutToShow.connect(self.refresh)

    def _check(self, title: str, slot: object) -> QAction:
        action = self.menu.addAction(title)
        action.setCheckable(True)
        action.triggered.connect(slot)
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
        viewer = self._viewer_ref()
        return None if viewer is None else active_cube_layer(viewer)

    def refresh(self) -> None:
        """Check what is so now; without a cube there is nothing to choose."""
        viewer, layer = self._viewer_ref(), self._layer
        for action in self.menu.actions():
            action.setEnabled(layer is not None)
        if viewer is None or layer is None:
            return
        contrast = BandContrast.of(viewer)
        self.is_shown.setChecked(is_picture_shown(viewer, layer))
        self.wiper.setChecked(Wiper.of(viewer).is_open)
        self.sides.setChecked(SideBySide.of(viewer).is_open)
        self.own.setChecked(contrast.is_own)
        self.always.setChecked(Composer.of(viewer).is_on)
        self.coloured.setChecked(contrast.is_coloured)
        self.bar.setChecked(ColourBar.of(viewer).is_on)
        title = Composer.of(viewer).title(layer)
        self.is_shown.setText(f"Picture ({title})" if title else "Picture")

    # ------------------------------------------------------------ colours

    def render(self, light: str) -> None:
        """Show the cube under *light*, a name or a file; the user is told if that cannot be."""
        self._choose(Colours(light=light, is_adapted=self.adapted.isChecked()))

    def _choose(self, colours: Colours) -> None:
        viewer, layer = self._viewer_ref(), self._layer
        if viewer is not None and layer is not None:
            with reported():
                Composer.of(viewer).show(layer, colours)
                Composer.of(viewer).first = colours
                remember(light=colours.light, is_adapted=self.adapted.isChecked())

    def _set_adapted(self) -> None:
        viewer, layer = self._viewer_ref(), self._layer
        if viewer is None or layer is None:
            return
        colours = Composer.of(viewer).colours(layer)
        if colours.light:
            self._choose(replace(colours, is_adapted=self.adapted.isChecked()))

    def _ask_for_light(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self._parent, "Open a light", "", LIGHT_FILES)
        if path:
            self.render(path)

    # ------------------------------------------------------------ bands

    def _toggle(self) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:
            Composer.of(viewer).toggle()

    def _toggle_wiper(self) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:
            Wiper.of(viewer).toggle()

    def _toggle_sides(self) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:
            SideBySide.of(viewer).toggle()

    def _set_always(self, is_on: bool) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:
            Composer.of(viewer).is_on = is_on
            remember(has_pictures=is_on)

    def _set_own(self, is_on: bool) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:
            BandContrast.of(viewer).is_own = is_on
            remember(has_own_contrast=is_on)

    def _set_coloured(self, is_on: bool) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:
            BandContrast.of(viewer).is_coloured = is_on
            remember(has_own_colour=is_on)

    def _set_bar(self, is_on: bool) -> None:
        viewer = self._viewer_ref()
        if viewer is not None:
            ColourBar.of(viewer).is_on = is_on

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
        viewer, layer = self._viewer_ref(), self._layer
        cube = cube_of(layer)
        if viewer is None or layer is None or cube is None:
            return
        order = Order(cube, Composer.of(viewer).colours(layer))
        start(Job(partial(_save, Errand(order, path, layer.name)), _tell_saved, _tell_error))


def _save(errand: Errand, watch: Watch) -> str:
    """Paint and write the picture, on the worker's thread."""
    found = painted(errand.order, watch)
    colours = errand.order.colours
    facts: dict[str, object] = {"source": errand.source}
    if colours.light:
        facts |= {"illuminant": illuminant_title(colours.light), "adapted": colours.is_adapted}
    # The dialog has asked already whether this file may be replaced.
    path = write_picture(errand.path, found.picture, found.title, facts, overwrite=True)
    return path.name


def _tell_saved(name: str) -> None:
    show_info(f"The picture was saved as {shown(name)}.")


def _tell_error(error: Exception) -> None:
    show_error(str(error))


NAMES = ("R", "G", "B")
TINTS = ("#e6194b", "#3cb44b", "#4d8fea")
OF_THE_EYE = (640.0, 540.0, 460.0)
"""nm; where the bars stand first on a picture in the colours that an eye sees."""
FEWEST = 3
"""Bands from which on there is something to choose."""


class PictureBars(QObject):
    """Shows the bars in *plot* while the picture of a cube of *viewer* is shown.

    While one is dragged, the picture follows coarsely; once it is dropped, it is painted in full.
    """

    def __init__(self, viewer: ViewerModel, plot: SpectraPlot) -> None:
        super().__init__(plot)
        self._composer: Composer = Composer.of(viewer)
        self._plot = plot
        # Neither a viewer nor a cube may be kept alive by a dock.
        self._layer_ref: weakref.ref[Image] | None = None
        self._wanted: Wavelengths | None = None
        self._pace = Pace(self._follow, self)
        plot.bar_dragged.connect(self._on_dragged)
        plot.bar_dropped.connect(self._on_dropped)

    def draw(self, viewer: ViewerModel) -> None:
        """Draw the bars where the picture of the active cube of *viewer* has its bands."""
        layer = active_cube_layer(viewer)
        cube = cube_of(layer)
        is_shown = layer is not None and is_picture_shown(viewer, layer)
        if layer is None or cube is None or not is_shown or len(cube.wavelengths) < FEWEST:
            self._layer_ref = None
            self._plot.set_bars(())
            return
        self._layer_ref = weakref.ref(layer)
        chosen = self._composer.colours(layer).wavelengths or first_wavelengths(cube)
        bars = [Marker(*parts) for parts in zip(NAMES, TINTS, chosen, strict=True)]
        self._plot.set_bars(bars)

    def stop(self) -> None:
        """Let go of the cube."""
        self._pace.stop()
        self._layer_ref = None
        self._wanted = None
        self._plot.set_bars(())

    @property
    def _layer(self) -> Image | None:
        return None if self._layer_ref is None else self._layer_ref()

    def _on_dragged(self, number: int, wavelength: float) -> None:
        layer = self._layer
        cube = cube_of(layer)
        if layer is None or cube is None:
            return
        low, high = float(cube.wavelengths.min()), float(cube.wavelengths.max())
        chosen = self._composer.colours(layer).wavelengths or first_wavelengths(cube)
        places = list(self._wanted or chosen)
        places[number] = min(max(wavelength, low), high)
        red, green, blue = places
        self._wanted = (red, green, blue)
        self._pace.draw_at_once()

    def _follow(self) -> None:
        layer = self._layer
        if layer is not None and self._wanted is not None:
            self._composer.drag(layer, self._wanted)

    def _on_dropped(self) -> None:
        self._pace.stop()
        layer = self._layer
        wanted, self._wanted = self._wanted, None
        if layer is not None and wanted is not None:
            with reported():
                self._composer.show(layer, Colours(wanted))


def first_wavelengths(cube: SpectralCube) -> Wavelengths:
    """Return where the bars stand while nobody has dragged them, in the unit of *cube*."""
    if has_colour(cube):
        return OF_THE_EYE
    red, green, blue = (float(cube.wavelengths[band]) for band in best_bands(cube))
    return red, green, blue
