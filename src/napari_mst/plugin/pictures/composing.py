"""Makes the picture of every cube in a viewer, and keeps it up to date.

One object listens to the list of layers, so a cube may come from a run, a reader, a sample, or
another plugin. Small cubes are painted at once, large ones on another thread.
"""

import weakref
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from psygnal import Signal
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication

from napari_mst.base.arrays import Codes
from napari_mst.base.errors import NapariMstError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube import SpectralCube, pictures
from napari_mst.cube.lazy import Lazy, cached, coarse_of, levels_of
from napari_mst.cube.pictures import Recipe, Slices, paint, rendering
from napari_mst.plugin.jobs.task import Latest, Task
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.viewer.layers import (
    ALIKE_KEY,
    ENDING,
    PLACE,
    active_cube_layer,
    add_composite,
    band_of,
    composite_of,
    composites_of,
    cube_layer_in,
    cube_of,
    follow,
    is_picture_shown,
    place_of_picture,
    set_picture,
)
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import ViewerHelper, calling, picture_choices, report

AT_ONCE = 2**21
"""Cubes in memory of up to this many numbers are painted at once, in about 20 ms."""
LIVE_PIXELS = 2**18
"""Approximate number of pixels that are painted while a colour is dragged."""

Wavelengths = tuple[float, float, float]
"""Wavelengths of red, green and blue, in the unit of the cube."""


@dataclass(frozen=True)
class Colours:
    """The chosen colours of a picture; by default the best ones.

    Attributes
    ----------
    wavelengths
        Wavelengths of the three bands to show; None for all bands.
    light
        The light to render the cube under, a name or a file; "" for none. White stays white.
    """

    wavelengths: Wavelengths | None = None
    light: str = ""

    def recipe(self, cube: SpectralCube) -> Recipe:
        """Return the recipe that paints *cube*. Raises `CubeError` or `CameraError`."""
        if self.light:
            return rendering(cube, self.light)
        return pictures.composite_of(cube, self.wavelengths)


BEST = Colours()


Painted = tuple[Codes | list[Any], str]
"""A picture, or the levels of a pyramid, and the title of its recipe."""


@dataclass(eq=False)
class Sitter:
    """The picture of one cube layer: its colours, its state, and the job that paints it.

    *is_picture* is True while the picture is shown rather than a band, *is_coarse* while it shows
    only a coarse part because a colour is dragged.
    """

    colours: Colours = BEST
    title: str = ""
    is_picture: bool = True
    was_painted: bool = False
    is_coarse: bool = False
    painting: Latest = field(default_factory=partial(Latest, start))


def painted(cube: SpectralCube, colours: Colours, progress: Progress = NO_PROGRESS) -> Painted:
    """Paint the picture of *cube*; a lazy cube is averaged down, and its details come on demand."""
    small = replace(cube, data=coarse_of(cube.data), colour_error=None)
    recipe = colours.recipe(small)
    picture = paint(small, recipe, progress=progress)
    if small.data is cube.data:
        return picture, recipe.title

    def read(channels: range, rows: range, columns: range) -> Codes:
        part = (slice(at.start, at.stop, at.step) for at in (rows, columns))
        return paint(cube, recipe, (next(part), next(part))).transpose(2, 0, 1)[list(channels)]

    _, *sides = cube.data.sides
    fine = Lazy(cube.data.name, (3, *cube.shape[1:]), np.uint8, read)
    levels = levels_of(cached(fine, (3, *sides)), picture.transpose(2, 0, 1))
    return [level.transpose((1, 2, 0)) for level in levels], recipe.title


class Composer(ViewerHelper):
    """Paints the cubes of its viewer; `changed` is emitted after each picture.

    Colours are chosen for each cube separately. A new cube is shown as a picture, under the light
    named in napari's Preferences if that light suits it.
    """

    changed = Signal()

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._sitters = weakref.WeakKeyDictionary[Image, Sitter]()
        viewer.layers.events.connect(self._on_layers)
        for changed in (viewer.layers.events.inserted, viewer.layers.events.removed):
            # Last: napari moves the slider before this.
            changed.connect(self._note_slider, position="last")
        self._note_slider()
        viewer.dims.events.current_step.connect(self._on_step)
        viewer.bind_key("H", calling(self.toggle), overwrite=True)
        for layer in list(viewer.layers):
            self.look_at(layer)

    @property
    def is_busy(self) -> bool:
        """True if a picture is being painted."""
        return any(sitter.painting.is_busy for sitter in self._sitters.values())

    def is_first_due(self, layer: Image) -> bool:
        """True if the first picture of *layer* is being painted, or is about to be."""
        if cube_of(layer) is None or composite_of(self.viewer, layer):
            return False
        sitter = self.sitter_of(layer)
        # A new cube is painted a moment after it was added.
        return sitter.is_picture and (not sitter.was_painted or sitter.painting.is_busy)

    # ------------------------------------------------------------------- for docks and scripts

    def look_at(self, layer: Any) -> None:
        """Paint *layer*, if it is a cube that has no picture yet.

        It gets the best colours if the chosen ones do not suit it, or their file is gone.
        """
        if cube_of(layer) is not None and not self.sitter_of(layer).was_painted:
            self._paint(layer, is_new=True)

    def sitter_of(self, layer: Image) -> Sitter:
        """Return the record of how *layer* is painted, made on first use."""
        if layer not in self._sitters:
            alike = cube_layer_in(layer.metadata, ALIKE_KEY)
            if alike is None:
                self._sitters[layer] = Sitter(Colours(light=picture_choices().light))
            else:  # a cube made from another one looks like it
                other = self.sitter_of(alike)
                self._sitters[layer] = Sitter(other.colours, is_picture=other.is_picture)
        return self._sitters[layer]

    def colours(self, layer: Image) -> Colours:
        """Return the chosen colours of the picture of *layer*."""
        return self.sitter_of(layer).colours

    def show(self, layer: Image, colours: Colours = BEST) -> None:
        """Paint the cube *layer* in *colours*, and show its picture.

        Raises
        ------
        CubeError, CameraError
            If the cube cannot be rendered in these colours; its picture is unchanged.
        """
        cube = cube_of(layer)
        if cube is None:
            return
        colours.recipe(cube)
        self.sitter_of(layer).colours = colours
        self._paint(layer)
        self.show_picture(layer)

    def drag(self, layer: Image, wavelengths: Wavelengths) -> None:
        """Show three *wavelengths* immediately, as coarsely as needed; `show` adds the detail.

        Only the visible part of the image is painted.
        """
        cube = cube_of(layer)
        if cube is None:
            return
        self.sitter_of(layer).colours = Colours(wavelengths)
        if layer.multiscale:
            self._put(layer, painted(cube, Colours(wavelengths)))
        if isinstance(cube.data, Lazy):
            return  # the bands of a file are read on another thread, once the mouse is released
        part, step = _visible_part(layer)
        recipe = pictures.composite_of(cube, wavelengths)
        first = [part[0].start, part[1].start]
        # The first pixel of a coarser picture is centred between the pixels that it covers.
        middle = np.array(first) + (step - 1) / 2
        place = Placement.of(layer).of_part(middle, (step, step))
        self._put(layer, (paint(cube, recipe, part), recipe.title), place)

    def toggle(self, layer: Image | None = None) -> None:
        """Switch a cube between its band and its picture."""
        layer = layer or active_cube_layer(self.viewer)
        if layer is not None:
            is_shown = is_picture_shown(self.viewer, layer)
            self.show_picture(layer, is_shown=not is_shown)

    def show_picture(self, layer: Image, *, is_shown: bool = True) -> None:
        """Show the picture of the cube *layer*, or else the band at the slider."""
        sitter = self.sitter_of(layer)
        sitter.is_picture = is_shown
        # The user may have removed it.
        if is_shown and composite_of(self.viewer, layer) is None and not sitter.painting.is_busy:
            self._paint(layer)
        for picture in composites_of(self.viewer, layer):
            picture.visible = is_shown
        # Showing a visible layer would make napari slice and draw it again.
        if not is_shown and not layer.visible:
            layer.visible = True
        self.changed.emit()

    # ----------------------------------------------------------------------------- listening

    def _on_layers(self, event: Any) -> None:
        if event.type in ("inserted", "removed"):
            self._look_later(event.value)
        elif event.type in PLACE or event.type in ("data", "metadata", "name"):
            self._on_change(event)

    def _look_later(self, layer: Any) -> None:
        """Check whether *layer* came or went, once napari has finished adding or removing it."""
        if not isinstance(layer, Image):
            return
        if QApplication.instance() is None:
            self._settle(layer)
        else:
            QTimer.singleShot(0, calling(self._settle, layer))

    def _settle(self, layer: Image) -> None:
        """Paint a new cube; remove the pictures of a removed one."""
        if self.has(layer):
            self.look_at(layer)
        # The viewer may have been closed meanwhile.
        elif self._viewer_ref() is not None:
            sitter = self._sitters.pop(layer, None)
            if sitter is not None:
                sitter.painting.cancel()
            for picture in composites_of(self.viewer, layer):
                self.viewer.layers.remove(picture)

    def _on_change(self, event: Any) -> None:
        at, layers = getattr(event, "index", None), self.viewer.layers
        if not isinstance(at, int) or not 0 <= at < len(layers):
            return
        layer = layers[at]
        if not isinstance(layer, Image) or cube_of(layer) is None:
            return
        # The metadata of a stack name the page that is shown.
        if event.type == "data" or (event.type == "metadata" and layer.ndim > 3):
            if self.sitter_of(layer).was_painted:
                self._paint(layer)
            else:
                # Later: the caller that made the layer a cube is about to move the slider to one of
                # its bands.
                self._look_later(layer)
        for picture in composites_of(self.viewer, layer):
            if event.type in PLACE:
                follow(picture, place_of_picture(layer, picture.data).image_kwargs())
            # A name that the user has given the picture stays.
            elif event.type == "name" and picture.name.endswith(ENDING):
                picture.name = f"{layer.name}{ENDING}"

    def _note_slider(self) -> None:
        """Remember the position of the slider, and the number of layers."""
        self._point, self._count = self.viewer.dims.point, len(self.viewer.layers)

    def _on_step(self) -> None:
        """Show the band to which the user has moved the slider, instead of the picture."""
        # napari itself moves the slider while it adds or removes a layer, even more than once.
        if len(self.viewer.layers) != self._count:
            return
        before, self._point = self._point, self.viewer.dims.point
        layer = active_cube_layer(self.viewer)
        # Until its picture is painted, a new cube is still moved to its first band.
        if layer is None or not self.sitter_of(layer).was_painted:
            return
        if band_of(layer, before) != band_of(layer, self._point):
            self.show_picture(layer, is_shown=False)

    # ------------------------------------------------------------------------------ painting

    def _paint(self, layer: Image, *, is_new: bool = False) -> None:
        cube = cube_of(layer)
        sitter = self.sitter_of(layer)
        sitter.painting.cancel()
        sitter.was_painted = True
        if cube is None or layer not in self.viewer.layers:
            return
        # New numbers may lack what a light needs. The best colours always fit.
        try:
            if sitter.colours != BEST:
                sitter.colours.recipe(cube)
        except NapariMstError as error:
            sitter.colours = BEST
            # Nobody has chosen the colours of a new cube.
            if not is_new:
                report(error)
        # A memory map is an array, too, but reading it may take long.
        data = coarse_of(cube.data)
        is_small = type(data) is np.ndarray and data.size <= AT_ONCE
        if is_small or QApplication.instance() is None:
            self._put(layer, painted(cube, sitter.colours))
            return
        sitter.painting.run(
            Task(
                partial(painted, cube, sitter.colours),
                partial(self._put, layer),
                report,
                self.changed.emit,
            )
        )

    def _put(self, layer: Image, painted: Painted, place: Placement | None = None) -> None:
        if not self.has(layer):
            return
        sitter = self._sitters[layer]
        picture, sitter.title = painted
        sitter.is_coarse = place is not None
        shown = composite_of(self.viewer, layer)
        if shown is None:
            add_composite(self.viewer, layer, picture, is_shown=sitter.is_picture)
        else:
            set_picture(shown, layer, picture, place)
        self.changed.emit()


def _visible_part(layer: Image) -> tuple[Slices, int]:
    """Choose the part of *layer* that is on the screen, and the step between its pixels."""
    rows, columns = layer.data.shape[-2:]
    corners = np.asarray(layer.corner_pixels)[:, -2:]
    top, left = np.clip(corners[0], 0, (rows - 1, columns - 1))
    bottom, right = np.clip(corners[1] + 1, (top + 1, left + 1), (rows, columns))
    step = max(1, int(np.ceil(np.sqrt((bottom - top) * (right - left) / LIVE_PIXELS))))
    part = (
        slice(int(top), int(bottom), step),
        slice(int(left), int(right), step),
    )
    return part, step
