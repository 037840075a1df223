"""Sees layers that napari has opened from files as what they are: our cubes, and photos.

TIFF, npz and Zarr are left to napari's own reader, so that nobody is asked which reader to take.
The path that napari notes at a layer leads to its wavelengths, picks and history, and shows how its
pixels were meant.
"""

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer
from napari.layers._source import layer_source
from napari.utils.notifications import show_info, show_warning
from psygnal import Signal

from napari_mst.arrays import Array
from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import COLORMAP, METADATA_KEY
from napari_mst.errors import NapariMstError, PhotoError, plain, shown
from napari_mst.formats import is_own_cube, read_cube
from napari_mst.photo.files import decode_pages, is_shown_otherwise, orientation
from napari_mst.photo.photo import Photo
from napari_mst.photo.raw_header import is_raw_file
from napari_mst.plugin.files import napari_io, questions
from napari_mst.plugin.files.opening import (
    add_layers,
    open_workspace_soon,
    raw_layer,
    saved_picks,
    tell_warnings,
)
from napari_mst.plugin.jobs.job import Job, Reports, ignore
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.pictures.bar import add_bar
from napari_mst.plugin.pictures.comparing import SideBySide, Wiper
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.viewer.bands import (
    BandContrast,
    ColourBar,
    FittedView,
    SliderLabel,
    bring_into_view,
)
from napari_mst.plugin.viewer.layers import band_of, cube_layer, cube_of, go_to
from napari_mst.plugin.viewer.photos import photo_layer
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import PLUGIN, ViewerHelper, report

SUFFIX = ".npy"
FEWEST_BANDS = 4
"""A stack of fewer planes is rather a photo, planar."""


def may_be_cube(layer: Image) -> bool:
    """Tell whether *layer* is of a plain array, one of whose outer axes may hold bands."""
    is_plain = Path(str(layer.source.path)).suffix.lower() == SUFFIX
    if not is_plain or layer.rgb or layer.multiscale or layer.ndim != 3:
        return False
    shape = layer.data.shape
    return FEWEST_BANDS <= shape[questions.likely_axis(shape)] < max(shape)


def may_be_coloured(layer: Image) -> bool:
    """True if *layer* may be a photo in colour, (H, W, 3 or 4), that was added as a grey stack."""
    shape = layer.data.shape
    is_stack = not layer.rgb and not layer.multiscale and len(shape) == 3
    is_array = not layer.source.path or Path(layer.source.path).suffix.lower() == SUFFIX
    # A plain array of four bands is offered as a cube.
    if not (is_stack and is_array) or METADATA_KEY in layer.metadata or may_be_cube(layer):
        return False
    return shape[-1] in (3, 4) and min(shape[:2]) > FEWEST_BANDS


Heard = Callable[[Any], object]
Show = Callable[[Image, Path, Any], None]
"""Shows what the file of a layer holds."""
UNTOUCHED = "gray"
"""The colour map that napari gives to a new stack."""
UPRIGHT = 1
"""The EXIF orientation of a photo that is stored as it is meant."""
ON_ITS_SIDE = range(5, 9)
"""The EXIF orientations that exchange rows and columns."""


def attend(viewer: ViewerModel) -> "Recogniser":
    """Look at every layer of *viewer*, now and to come, and at what napari saves."""
    return Recogniser.of(viewer)


class Recogniser(ViewerHelper):
    """Makes the layers of its viewer what their files say; `changed`: one has become a cube.

    `running` counts the files that are being read.
    """

    changed = Signal()

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._seen = weakref.WeakSet[Layer]()
        self.running = 0
        napari_io.watch()
        viewer.layers.events.inserted.connect(self.hear)
        FittedView.of(viewer)
        SliderLabel.of(viewer)
        composer = Composer.of(viewer)
        BandContrast.of(viewer)
        bar = ColourBar.of(viewer)
        bar.is_awaiting_picture = composer.is_first_due
        # A picture that could not be painted leaves the band with its bar.
        composer.changed.connect(bar.request_update)
        Wiper.of(viewer)
        SideBySide.of(viewer)
        add_bar(viewer)
        for layer in list(viewer.layers):
            self.look_at(layer)

    def hear(self, event: Any) -> None:
        """Look at the layer that was added."""
        self.look_at(event.value)

    def look_at(self, layer: Layer) -> None:
        """Make *layer* what its file says, the first time that it is looked at."""
        is_new = isinstance(layer, Image) and layer not in self._seen
        # What our own reader has opened is right already.
        if not is_new or cube_of(layer) is not None or layer.source.reader_plugin == PLUGIN:
            return
        self._seen.add(layer)
        if may_be_coloured(layer):
            self._offer_colours(layer)
        elif layer.source.path:
            self._look_into(layer, Path(layer.source.path))

    def _look_into(self, layer: Image, path: Path) -> None:
        """Make *layer* what its file at *path* says."""
        if is_raw_file(path):
            self._read(layer, Photo.read, self._show_raw, "as the small picture in it")
        elif is_own_cube(path):
            self._read(layer, read_cube, self._show_cube, "without its wavelengths")
        elif may_be_cube(layer):
            self._offer_wavelengths(layer)
        elif is_shown_otherwise(path):
            self._read_photo(layer, path)

    def _read(self, layer: Image, read: Callable[[Path], Any], show: Show, otherwise: str) -> None:
        """Read the file of *layer* on another thread, and *show* what it holds.

        Where that fails, the user hears that the layer is shown *otherwise*.
        """
        path = Path(str(layer.source.path))

        def run(_: Reports) -> Any:
            return read(path)

        def on_done(content: Any) -> None:
            if self.has(layer) and cube_of(layer) is None:
                show(layer, path, content)

        def on_failed(error: NapariMstError) -> None:
            if self.has(layer) and cube_of(layer) is None:
                show_warning(f"{shown(path.name)} is shown {otherwise}. {plain(error)}")

        self._start(run, on_done, on_failed)

    def _start(self, run: Callable[[Reports], Any], on_done: Heard, on_failed: Heard) -> None:
        self.running += 1
        start(Job(run, on_done, on_failed, self._on_end))

    def _on_end(self) -> None:
        self.running -= 1

    # ----------------------------------------------------------------------------------- cubes

    def _offer_wavelengths(self, layer: Image) -> None:
        """Offer to give *layer* wavelengths; the user goes on without an answer if they like."""
        size = " x ".join(map(str, layer.data.shape))
        text = (
            f"'{shown(layer.name, 40)}' holds {size} numbers ({layer.data.dtype}) and no "
            "wavelengths. Is it a spectral cube?"
        )
        accept = partial(self._ask_wavelengths, weakref.ref(layer))
        questions.offer(text, "Set wavelengths ...", accept)

    def _ask_wavelengths(self, layer_ref: "weakref.ref[Image]") -> None:
        """Ask for the wavelengths of the layer, and show its cube."""
        layer = layer_ref()
        if layer is None or questions.window() is None:
            return
        stack = np.asarray(layer.data)
        bands = questions.ask_bands(layer.name, stack)
        if bands is not None and self.has(layer) and cube_of(layer) is None:
            self._show_cube(layer, Path(str(layer.source.path)), bands.cube_of(stack))

    def _show_cube(self, layer: Image, path: Path, cube: SpectralCube) -> None:
        """Make *layer* that of the *cube* that its file holds, or that the user has described."""
        viewer = self.viewer
        tell_warnings(path, cube)
        has_others = any(cube_of(other) is not None for other in viewer.layers)
        # The layer of a single band has no axis for it, so its own number of bands says nothing.
        band = min(band_of(layer, viewer.dims.point), len(cube.data) - 1)
        point_before = viewer.dims.point
        layer = _as_cube(viewer, layer, cube)
        add_layers(viewer, saved_picks({path.name: cube}, viewer))
        if has_others:
            # A new axis moves the slider, but the other cubes shall show the bands they showed.
            viewer.dims.set_point(range(len(point_before)), point_before)
            bring_into_view(viewer, layer)
        else:
            # The axis is another now: where the slider stood at band 7, it has to stand at 470 nm.
            go_to(viewer, layer, float(cube.wavelengths[band]))
        open_workspace_soon(viewer)
        self.changed.emit()

    # ---------------------------------------------------------------------------------- photos

    def _offer_colours(self, layer: Image) -> None:
        """Offer to show a photo that was added as a stack of grey images in colour."""
        text = (
            f"'{shown(layer.name, 40)}' has {layer.data.shape[-1]} numbers in each pixel, but is "
            "shown as a stack of grey images. Is it a photo in colour?"
        )
        questions.offer(text, "Show in colour", partial(self._colour, weakref.ref(layer)))

    def _colour(self, layer_ref: "weakref.ref[Image]") -> None:
        """Put a layer in colour in the place of the grey one."""
        layer = layer_ref()
        if layer is None:
            return
        data, name = layer.data, layer.name

        def run(_: Reports) -> Photo:
            return Photo.from_array(data, name=name)

        self._start(run, partial(self._show_coloured, layer), report)

    def _show_coloured(self, layer: Image, photo: Photo) -> None:
        if not self.has(layer):
            return
        place = replace(
            Placement.of(layer),
            scale=layer.scale[:2],
            translate=layer.translate[:2],
            units=tuple(map(str, layer.units[:2])),
        )
        data, arguments, _ = photo_layer(photo, layer.name, place)
        _exchange(self.viewer, layer, data, {**arguments, "metadata": layer.metadata})

    def _read_photo(self, layer: Image, path: Path) -> None:
        """Give *layer* the pixels that `Photo.read` has, unless its pixels were changed since."""
        data = layer.data
        # To compare a lazy layer would read all of it.
        if not isinstance(data, np.ndarray):
            return

        def run(_: Reports) -> Array | None:
            with suppress(PhotoError, OSError):
                return decode_pages(path, []) if np.array_equal(data, iio.imread(path)) else None
            return None

        def on_done(pixels: Array | None) -> None:
            if pixels is not None and self.has(layer) and layer.data is data:
                self._show_pixels(layer, path, pixels)

        self._start(run, on_done, ignore)

    def _show_raw(self, layer: Image, path: Path, photo: Photo) -> None:
        """Give *layer* the RAW photo of its file, of which napari shows a small picture."""
        data, arguments, _ = raw_layer(photo, layer.name)
        with layer_source(path=str(path), reader_plugin=PLUGIN):
            _exchange(self.viewer, layer, data, arguments)
        open_workspace_soon(self.viewer)
        self.changed.emit()

    def _show_pixels(self, layer: Image, path: Path, pixels: Array) -> None:
        """Show *pixels* in *layer* and say so.

        If grey values have become colours, another layer takes its place.
        """
        asked = orientation(path)
        is_coloured = pixels.ndim > 2 and pixels.shape[-1] in (3, 4)
        if (pixels.ndim, is_coloured) == (layer.data.ndim, layer.rgb):
            if asked in ON_ITS_SIDE:
                # Rows and columns have changed places, so their scales do.
                layer.scale = [*layer.scale[:-2], layer.scale[-1], layer.scale[-2]]
            layer.data = pixels
        else:
            _exchange(self.viewer, layer, pixels, {"name": layer.name, "rgb": is_coloured})
        change = "given the colours of its file"
        if asked != UPRIGHT:
            change = "turned upright, as its file asks"
        show_info(
            f"'{shown(layer.name, 40)}' was {change}. "
            "napari's own reader shows the pixels as they are stored."
        )


def _as_cube(viewer: ViewerModel, layer: Image, cube: SpectralCube) -> Image:
    """Make *layer* the layer of *cube*, and return it, or the layer that has taken its place.

    Its numbers, its place in the image, and what the user has set stay.
    """
    # A cube of one band has been opened without its first axis.
    if layer.data.shape != cube.shape:
        data, arguments, _ = cube_layer(cube, layer.name)
        return _exchange(viewer, layer, data, arguments)
    if isinstance(layer.data, np.ndarray):
        # The user may have changed the numbers while the file was read again: theirs stay.
        cube = replace(cube, data=layer.data)
    data, arguments, _ = cube_layer(cube, layer.name, Placement.of(layer))
    # Before the data, as in `session`: who hears of new data looks here for the cube.
    layer.metadata = {**layer.metadata, **arguments["metadata"]}
    is_untouched = layer.colormap.name == UNTOUCHED
    if is_untouched:
        layer.colormap = COLORMAP
        layer.contrast_limits = arguments["contrast_limits"]
    for name in ("axis_labels", "units", "scale", "translate"):
        setattr(layer, name, arguments[name])
    layer.data = data
    if is_untouched:
        BandContrast.of(viewer).renew(layer)
    return layer


def _exchange(viewer: ViewerModel, layer: Image, data: Any, arguments: dict[str, Any]) -> Image:
    """Put a new layer of *data* in the place of *layer*."""
    index = viewer.layers.index(layer)
    # Removed first: napari would add a number to a name that another layer has.
    viewer.layers.remove(layer)
    added: Image = viewer.add_image(data, **arguments)
    viewer.layers.move(len(viewer.layers) - 1, index)
    return added
