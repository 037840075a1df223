"""Makes the picture of every cube in a viewer, and keeps it true while the cube layer changes.

One object listens to the list of layers, so it does not matter who adds a cube: a run, a reader, a
sample, or another plugin. Small cubes become pictures at once, large ones on another thread.
"""

import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from napari.utils.notifications import show_error
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_mst.cube import SpectralCube
from napari_mst.cube.pictures import Part, Recipe, composite_of, paint, rendering
from napari_mst.errors import NapariMstError
from napari_mst.plugin.jobs.job import Job, Latest
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.viewer import composites
from napari_mst.plugin.viewer.layers import active_cube_layer, band_of, cube_of
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.remembered import recalled
from napari_mst.plugin.viewer.sharing import ViewerHelper
from napari_mst.plugin.viewer.slots import calling
from napari_mst.watch import UNWATCHED, Watch

AT_ONCE = 2**21
"""Numbers of a cube in memory up to which its picture is made at once: some 20 ms."""
AS_PICTURES = True
"""True if a cube that is added to a new viewer gets a picture by itself."""
LIVE_PIXELS = 2**18
"""About how many pixels are painted while a colour is dragged."""
_PLACE = frozenset({"scale", "translate", "rotate", "shear", "affine", "units"})

Wavelengths = tuple[float, float, float]
"""Wavelengths of red, green and blue, in the unit of the cube."""


@dataclass(frozen=True)
class Colours:
    """The colours of a picture that a person has chosen; without a choice, the best ones.

    Attributes
    ----------
    wavelengths
        Those of the three bands to show; None for all bands.
    light
        The light to render the cube under, a name or a file; "" for none.
    is_adapted
        Whether what is white stays white under that light.
    """

    wavelengths: Wavelengths | None = None
    light: str = ""
    is_adapted: bool = True

    def recipe(self, cube: SpectralCube) -> Recipe:
        """Return how *cube* is painted. Raises `CubeError` or `CameraError`."""
        if self.light:
            return rendering(cube, self.light, is_adapted=self.is_adapted)
        return composite_of(cube, self.wavelengths)


BEST = Colours()


class Painted(NamedTuple):
    """A picture, and the recipe's name for it."""

    picture: NDArray[np.uint8]
    title: str


@dataclass(eq=False)
class Sitter:
    """The picture of one cube layer: how it is to be painted, and the job that paints it.

    *is_coarse*: it shows a part only, while a colour is dragged.
    """

    colours: Colours = BEST
    title: str = ""
    is_coarse: bool = False
    painting: Latest = field(default_factory=partial(Latest, start))


def painted(cube: SpectralCube, colours: Colours, watch: Watch = UNWATCHED) -> Painted:
    """Paint the picture of *cube*."""
    recipe = colours.recipe(cube)
    return Painted(paint(cube, recipe, watch=watch), recipe.title)


class Composer(ViewerHelper):
    """Paints the cubes of its viewer; `changed` is emitted after a picture.

    Attributes
    ----------
    is_on
        Whether a cube that is added gets a picture by itself.
    first
        The colours of the picture of a new cube, unless they do not suit it.
    """

    changed = Signal()

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        kept = recalled()
        self.is_on = AS_PICTURES and kept.has_pictures
        self.first = Colours(light=kept.light, is_adapted=kept.is_adapted)
        self._sitters: weakref.WeakKeyDictionary[Image, Sitter] = weakref.WeakKeyDictionary()
        self._shown: tuple[weakref.ref[Image], int] | None = None
        self._count = len(viewer.layers)
        viewer.layers.events.connect(self._on_layers)
        viewer.dims.events.current_step.connect(self._on_step)
        viewer.bind_key("H", calling(self.toggle), overwrite=True)
        for layer in list(viewer.layers):
            self.look_at(layer)

    @property
    def is_busy(self) -> bool:
        """Tell whether a picture is being painted."""
        return any(sitter.painting.is_busy for sitter in self._sitters.values())

    def is_first_due(self, layer: Image) -> bool:
        """Tell whether the first picture of *layer* is being painted, or is about to be."""
        sitter = self._sitters.get(layer)
        if cube_of(layer) is None or composites.composite_of(self.viewer, layer):
            return False
        # A new cube is looked at a moment after it was added.
        return self.is_on if sitter is None else sitter.painting.is_busy

    # ------------------------------------------------------------------- for docks and scripts

    def look_at(self, layer: Any) -> None:
        """Paint *layer*, if it is a cube that has no picture yet."""
        cube = cube_of(layer)
        if cube is None or layer in self._sitters:
            return
        model = composites.model_of(layer)
        # Two cubes that are compared have pictures of the same colours, or both have none.
        if self.is_on or model in self._sitters:
            first = _suited(self.first, cube) if model is None else self.colours(model)
            self._sitters[layer] = Sitter(first)
            self._paint(layer)

    def title(self, layer: Image) -> str:
        """Return the name of the colours of the picture of *layer*; "" while there is none."""
        sitter = self._sitters.get(layer)
        return "" if sitter is None else sitter.title

    def is_coarse(self, layer: Image) -> bool:
        """Tell whether the picture of *layer* shows a part only, while a colour is dragged."""
        sitter = self._sitters.get(layer)
        return sitter is not None and sitter.is_coarse

    def colours(self, layer: Image) -> Colours:
        """Return the colours that were chosen for the picture of *layer*."""
        sitter = self._sitters.get(layer)
        return BEST if sitter is None else sitter.colours

    def show(self, layer: Image, colours: Colours = BEST) -> None:
        """Paint the cube *layer* in *colours*, and show its picture.

        Raises
        ------
        CubeError, CameraError
            If the cube cannot be rendered so; its picture stays as it was.
        """
        cube = cube_of(layer)
        if cube is None:
            return
        colours.recipe(cube)
        self._sitters.setdefault(layer, Sitter()).colours = colours
        self._paint(layer)
        for picture in composites.composites_of(self.viewer, layer):
            picture.visible = True

    def drag(self, layer: Image, wavelengths: Wavelengths) -> None:
        """Show three *wavelengths* at once, as coarsely as needed; `show` makes it fine.

        Only the part of the image that is on the screen is painted.
        """
        cube = cube_of(layer)
        if cube is None:
            return
        self._sitters.setdefault(layer, Sitter()).colours = Colours(wavelengths)
        part, step = _visible_part(layer)
        recipe = composite_of(cube, wavelengths)
        first = [part.rows.start, part.columns.start]
        # The first pixel of a coarser picture is centred between the pixels that it stands for.
        middle = np.array(first) + (step - 1) / 2
        place = Placement.of(layer).of_part(middle, (step, step))
        self._put(layer, Painted(paint(cube, recipe, part), recipe.title), place)

    def toggle(self, layer: Image | None = None) -> None:
        """Show the bands of a cube instead of its picture, or its picture again."""
        layer = layer or active_cube_layer(self.viewer)
        if layer is None:
            return
        pictures = composites.composites_of(self.viewer, layer)
        if not pictures:
            # The user has removed it, or does not want pictures by themselves.
            layer.metadata.pop(composites.MODEL_KEY, None)
            self._sitters.setdefault(layer, Sitter())
            self._paint(layer)
        is_shown = any(picture.visible for picture in pictures)
        for picture in pictures:
            picture.visible = not is_shown
        layer.visible = True

    # ----------------------------------------------------------------------------- listening

    def _on_layers(self, event: Any) -> None:
        if event.type == "inserted":
            self._later(event.value, self.look_at)
        elif event.type == "removed":
            self._later(event.value, self._forget)
        elif event.type in _PLACE or event.type in ("data", "name"):
            self._on_change(event)

    def _later(self, layer: Any, action: Any) -> None:
        """Do *action* once napari has finished with *layer*: it is still adding or removing it."""
        if not isinstance(layer, Image):
            return
        if QApplication.instance() is None:
            action(layer)
        else:
            QTimer.singleShot(0, calling(action, layer))

    def _on_change(self, event: Any) -> None:
        at, layers = getattr(event, "index", None), self.viewer.layers
        if not isinstance(at, int) or not 0 <= at < len(layers):
            return
        layer = layers[at]
        if not isinstance(layer, Image) or cube_of(layer) is None:
            return
        if event.type == "data":
            self._on_data(layer)
            return
        for picture in composites.composites_of(self.viewer, layer):
            if event.type == "name":
                _rename(picture, layer)
            else:
                composites.follow(picture, Placement.of(layer).image_kwargs())

    def _on_data(self, layer: Image) -> None:
        """Paint a cube that has other numbers; one that has just become a cube is new."""
        if layer in self._sitters:
            self._paint(layer)
        else:
            self.look_at(layer)

    def _forget(self, layer: Image) -> None:
        """Take the pictures of a removed cube away."""
        if layer in self.viewer.layers:
            return
        sitter = self._sitters.pop(layer, None)
        if sitter is not None:
            sitter.painting.cancel()
        for picture in composites.composites_of(self.viewer, layer):
            self.viewer.layers.remove(picture)

    def _on_step(self) -> None:
        """Show the band to which the user has moved the slider, instead of the picture."""
        viewer = self.viewer
        layer = active_cube_layer(viewer)
        if layer is None:
            return
        shown = (weakref.ref(layer), band_of(layer, viewer.dims.point))
        before, self._shown = self._shown, shown
        count, self._count = self._count, len(viewer.layers)
        # A layer that is added or removed may move the slider as well.
        if before is None or before[0] != shown[0] or count != self._count:
            return
        if before[1] != shown[1]:
            for picture in composites.composites_of(viewer, layer):
                picture.visible = False

    # ------------------------------------------------------------------------------ painting

    def _paint(self, layer: Image) -> None:
        cube = cube_of(layer)
        sitter = self._sitters[layer]
        sitter.painting.cancel()
        if cube is None or layer not in self.viewer.layers:
            return
        # New numbers may have lost what a light needs. The best colours always fit.
        try:
            if sitter.colours != BEST:
                sitter.colours.recipe(cube)
        except NapariMstError as error:
            sitter.colours = BEST
            show_error(str(error))
        # A memory map is an array as well, but to read it may take long.
        is_small = type(cube.data) is np.ndarray and cube.data.size <= AT_ONCE
        if is_small or QApplication.instance() is None:
            self._put(layer, painted(cube, sitter.colours))
            return
        sitter.painting.run(
            Job(
                partial(painted, cube, sitter.colours),
                partial(self._put, layer),
                _tell,
                self.changed.emit,
            )
        )

    def _put(self, layer: Image, found: Painted, place: Placement | None = None) -> None:
        if not self.has(layer):
            return
        sitter = self._sitters[layer]
        sitter.title = found.title
        sitter.is_coarse = place is not None
        picture = composites.composite_of(self.viewer, layer)
        if picture is None:
            composites.add_composite(self.viewer, layer, found.picture)
        else:
            composites.set_picture(picture, layer, found.picture, place)
        self.changed.emit()


def _suited(colours: Colours, cube: SpectralCube) -> Colours:
    """Return *colours*, or the best ones where *cube* cannot be painted so, or the file is gone."""
    # Without a light there is nothing to try, and to look for the best stretch reads the cube.
    if not colours.light:
        return BEST
    try:
        colours.recipe(cube)
    except NapariMstError:
        return BEST
    return colours


def _rename(picture: Image, layer: Image) -> None:
    """Name *picture* after its cube, unless the user has given it a name of its own."""
    if picture.name.endswith(composites.ENDING):
        picture.name = f"{layer.name}{composites.ENDING}"


def _visible_part(layer: Image) -> tuple[Part, int]:
    """Choose the part of *layer* that is on the screen, and the step between its pixels."""
    rows, columns = layer.data.shape[-2:]
    corners = np.asarray(layer.corner_pixels)[:, -2:]
    top, left = np.clip(corners[0], 0, (rows - 1, columns - 1))
    bottom, right = np.clip(corners[1] + 1, (top + 1, left + 1), (rows, columns))
    step = max(1, int(np.ceil(np.sqrt((bottom - top) * (right - left) / LIVE_PIXELS))))
    part = Part(
        slice(int(top), int(bottom), step),
        slice(int(left), int(right), step),
    )
    return part, step


def _tell(error: NapariMstError) -> None:
    show_error(str(error))
