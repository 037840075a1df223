"""Sees layers that napari has opened from files as what they are: our cubes, and photos.

TIFF, npz and Zarr are opened by napari's own reader, by itself or because ours asks it to. The path
that napari notes at a layer leads to its wavelengths, picks and history, and shows how its pixels
were meant.

napari chooses its own writer first, for any layer, and a person may choose its reader for a file
that it cannot read. No event reports either. So both commands are registered again, by npe2's
public means, with functions around them that look at the result.
"""

import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from napari import current_viewer
from napari.components import ViewerModel
from napari.layers import Image, Layer
from napari.layers._source import layer_source
from napari.utils.notifications import show_info, show_warning
from npe2 import PluginManager
from psygnal import Signal

from napari_mst.base.arrays import Array
from napari_mst.base.errors import NapariMstError, PhotoError, plain, shown
from napari_mst.cube import SpectralCube
from napari_mst.cube.georeference import FIELD
from napari_mst.cube.layer import COLORMAP, METADATA_KEY, Stack
from napari_mst.formats import is_own_cube, read_cube
from napari_mst.formats.zarr.reading import read_clip
from napari_mst.photo.files import is_shown_otherwise, orientation
from napari_mst.photo.photo import Photo
from napari_mst.photo.photo_pages import shown_pages
from napari_mst.photo.raw_header import is_raw_file
from napari_mst.plugin.files import questions, saving
from napari_mst.plugin.files.opening import (
    FEWEST_BANDS,
    NO_LAYERS,
    Paths,
    add_layers,
    is_delegated,
    is_ours,
    is_shared,
    listed,
    open_paths,
    open_workspace_soon,
    raw_layer,
    saved_picks,
    tell_warnings,
)
from napari_mst.plugin.jobs.task import Task
from napari_mst.plugin.jobs.worker import start
from napari_mst.plugin.pictures.bar import add_bar
from napari_mst.plugin.pictures.comparing import SideBySideView, Wiper
from napari_mst.plugin.pictures.composing import Composer
from napari_mst.plugin.pictures.sharpening import Sharpener
from napari_mst.plugin.viewer.bands import (
    Bands,
    ColourBar,
    FittedView,
    bring_into_view,
)
from napari_mst.plugin.viewer.canvas_mouse import EarthStatus
from napari_mst.plugin.viewer.layer_photos import photo_layer
from napari_mst.plugin.viewer.layers import (
    MAP_CUBE_KEY,
    band_of,
    cube_layer,
    cube_layer_in,
    cube_of,
    cube_of_data,
    go_to,
    map_cube_of,
    put_cube,
    stack_layer,
)
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import PLUGIN, ViewerHelper

READER, WRITERS = "napari.get_reader", ("napari.write_image", "napari.write_labels")
LayerReader = Callable[..., list[Any]]
SUFFIX = ".npy"


def may_be_cube(layer: Image) -> bool:
    """Return True if *layer* shows a plain array with an outer axis that may hold bands."""
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


UNTOUCHED = "gray"
"""The colour map that napari gives to a new stack."""
UPRIGHT = 1
"""The EXIF orientation of a photo that is stored as it is meant."""


def attend(viewer: ViewerModel) -> "Recogniser":
    """Watch every layer of *viewer*, present and future, and every file that napari saves."""
    return Recogniser.of(viewer)


class Recogniser(ViewerHelper):
    """Makes the layers of its viewer what their files say; `changed` tells of a new cube.

    `running` counts the files that are being read.
    """

    changed = Signal()

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._seen = weakref.WeakSet[Layer]()
        self.running = 0
        watch_napari()
        viewer.layers.events.inserted.connect(self.on_event)
        FittedView.of(viewer)
        Bands.of(viewer)
        EarthStatus.of(viewer)
        composer = Composer.of(viewer)
        Sharpener.of(viewer)
        bar = ColourBar.of(viewer)
        bar.is_awaiting_picture = composer.is_first_due
        # A picture that could not be painted leaves the band with its bar.
        composer.changed.connect(bar.request_update)
        Wiper.of(viewer)
        SideBySideView.of(viewer)
        add_bar(viewer)
        for layer in list(viewer.layers):
            self.look_at(layer)

    def on_event(self, event: Any) -> None:
        """Look at the layer that was added."""
        self.look_at(event.value)

    def look_at(self, layer: Layer) -> None:
        """Make *layer* what its file says, the first time that it is looked at."""
        is_new = isinstance(layer, Image) and layer not in self._seen
        if not is_new or cube_of(layer) is not None:
            return
        path = Path(str(layer.source.path))
        # What our own reader has opened is right already, if it has not left that to napari's.
        if layer.source.reader_plugin == PLUGIN and not is_shared(path):
            return
        self._seen.add(layer)
        if may_be_coloured(layer):
            self._offer_colours(layer)
        elif layer.source.path:
            self._look_into(layer, Path(layer.source.path))

    def _look_into(self, layer: Image, path: Path) -> None:
        """Make *layer* what its file at *path* says."""
        if is_raw_file(path):
            self._show_later(layer, Photo.read, self._show_raw, "as the small picture in it")
        elif is_own_cube(path):
            self._show_later(layer, read_cube, self.show_cube, "without its wavelengths")
        elif path.suffix == ".zarr" and layer.ndim == 4:
            self._show_later(layer, read_clip, self._show_clip, "without its wavelengths")
        elif may_be_cube(layer):
            text = f"{questions.said_of(layer.name, layer.data)} Is it a spectral cube?"
            questions.offer(text, "Set wavelengths ...", partial(self._ask_wavelengths, layer))
        # To compare a lazy layer would read all of it.
        elif isinstance(layer.data, np.ndarray) and is_shown_otherwise(path):
            read = partial(_unchanged_pixels, layer.data)
            self._show_later(layer, read, self._show_pixels, "as it is stored")

    def _show_later(
        self, layer: Image, read: Callable[[Path], Any], show: Callable[..., None], otherwise: str
    ) -> None:
        """Have *read* look into the file of *layer* on another thread, and *show* what it returns.

        Where that fails, a notice says that the layer is shown *otherwise*.
        """
        path = Path(layer.source.path or layer.name)

        def on_done(content: Any) -> None:
            if content is not None and self._is_open(layer):
                show(layer, content)

        def on_failed(error: NapariMstError) -> None:
            if self._is_open(layer):
                show_warning(f"{shown(path.name)} is shown {otherwise}. {plain(error)}")

        self.running += 1
        start(Task(lambda _: read(path), on_done, on_failed, self._on_end))

    def _on_end(self) -> None:
        self.running -= 1

    # ----------------------------------------------------------------------------------- cubes

    def _ask_wavelengths(self, layer: Image) -> None:
        """Ask for the wavelengths of *layer*, if it is still there, and show its cube."""
        if not self._is_open(layer):
            return
        stack = np.asarray(layer.data)
        bands = questions.ask_bands_of(layer.name, stack)
        if bands is not None and self._is_open(layer):
            self.show_cube(layer, bands.cube_of(stack))

    def _is_open(self, layer: Image) -> bool:
        """True if *layer* is still there, and has not become a cube meanwhile."""
        return self.has(layer) and cube_of(layer) is None

    def show_cube(self, layer: Image, cube: SpectralCube) -> None:
        """Make *layer* the layer of *cube*, which its file holds or the user has described."""
        viewer, path = self.viewer, Path(str(layer.source.path))
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

    def _show_clip(self, layer: Image, clip: Stack) -> None:
        """Show the frames of the *clip* in the file of *layer* as cubes over time."""
        data, arguments, _ = stack_layer(clip, layer.name, Placement.of(layer), clip.axis[:2])
        _exchange(self.viewer, layer, data, arguments)
        open_workspace_soon(self.viewer)
        self.changed.emit()

    # ---------------------------------------------------------------------------------- photos

    def _offer_colours(self, layer: Image) -> None:
        """Offer to show a photo that was added as a stack of grey images in colour."""
        text = (
            f"'{shown(layer.name, 40)}' has {layer.data.shape[-1]} numbers in each pixel, but is "
            "shown as a stack of grey images. Is it a photo in colour?"
        )
        questions.offer(text, "Show in colour", partial(self._colour, layer))

    def _colour(self, layer: Image) -> None:
        """Put a layer in colour in the place of the grey one, if that is still there."""
        if self._is_open(layer):
            pixels = layer.data
            self._show_later(
                layer, lambda _: Photo.from_array(pixels), self._show_coloured, "in grey"
            )

    def _show_coloured(self, layer: Image, photo: Photo) -> None:
        place = replace(
            Placement.of(layer),
            scale=layer.scale[:2],
            translate=layer.translate[:2],
            units=tuple(map(str, layer.units[:2])),
        )
        data, arguments, _ = photo_layer(photo, layer.name, place)
        _exchange(self.viewer, layer, data, {**arguments, "metadata": layer.metadata})

    def _show_raw(self, layer: Image, photo: Photo) -> None:
        """Give *layer* the RAW photo of its file; napari shows only its small preview."""
        data, arguments, _ = raw_layer(photo, layer.name)
        with layer_source(path=layer.source.path, reader_plugin=PLUGIN):
            _exchange(self.viewer, layer, data, arguments)
        open_workspace_soon(self.viewer)
        self.changed.emit()

    def _show_pixels(self, layer: Image, before_and_after: tuple[Array, Array]) -> None:
        """Show in *layer* the pixels that `Photo.read` has, unless it was changed meanwhile.

        If grey values have become colours, another layer takes its place.
        """
        before, pixels = before_and_after
        if layer.data is not before:
            return
        asked = orientation(Path(str(layer.source.path)))
        is_coloured = pixels.ndim > 2 and pixels.shape[-1] in (3, 4)
        if (pixels.ndim, is_coloured) == (layer.data.ndim, layer.rgb):
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
    # A cube of one band has been opened without its first axis, and a pyramid is no cube.
    if layer.multiscale or layer.data.shape != cube.shape:
        data, arguments, _ = cube_layer(cube, layer.name)
        return _exchange(viewer, layer, data, arguments)
    if isinstance(layer.data, np.ndarray):
        # The user may have changed the numbers while the file was read again: theirs stay.
        cube = replace(cube, data=layer.data)
    data, arguments, _ = cube_layer(cube, layer.name, Placement.of(layer))
    is_untouched = layer.colormap.name == UNTOUCHED
    if is_untouched:
        layer.colormap = COLORMAP
        layer.contrast_limits = arguments["contrast_limits"]
    put_cube(layer, data, arguments)
    if is_untouched:
        Bands.of(viewer).renew(layer)
    return layer


def _exchange(viewer: ViewerModel, layer: Image, data: Any, arguments: dict[str, Any]) -> Image:
    """Put a new layer of *data* in the place of *layer*."""
    index = viewer.layers.index(layer)
    # Removed first: napari would add a number to a name that another layer has.
    viewer.layers.remove(layer)
    added: Image = viewer.add_image(data, **arguments)
    viewer.layers.move(len(viewer.layers) - 1, index)
    return added


def _unchanged_pixels(data: Array, path: Path) -> tuple[Array, Array] | None:
    """Return *data* and the pixels that `Photo.read` has; None if *data* is not what is stored."""
    import imageio.v3 as iio

    with suppress(PhotoError, OSError):
        if np.array_equal(data, iio.imread(path)):
            return data, shown_pages(path)
    return None


# ----------------------------------------------------------- what napari itself reads and saves


def watch_napari() -> None:
    """Look at what napari's own reader and its writer of images do, from now on."""
    commands = PluginManager.instance().commands
    for name in (READER, *WRITERS):
        watched: Callable[..., Any] = reader_of_napari if name == READER else write_of_napari
        # Without that command there is nothing to look at.
        with suppress(KeyError):
            own = commands.get(name)
            # The commands belong to the process, but each viewer watches them.
            if getattr(own, "func", None) is not watched:
                commands.unregister(name)
                commands.register(name, partial(watched, own))


def reader_of_napari(
    reader_of: Callable[[Paths], LayerReader | None], path: Paths
) -> LayerReader | None:
    """Return napari's own reader for *path*, which offers ours where it fails."""
    read = reader_of(path)
    return None if read is None else partial(_read_or_offer, read)


def _read_or_offer(read: LayerReader, path: Paths, **options: Any) -> list[Any]:
    try:
        return read(path, **options)
    except Exception:
        files, viewer = listed(path), current_viewer()
        if is_delegated.get() or viewer is None or not all(map(is_ours, files)):
            raise
        text = f"napari's own reader cannot open {shown(files[0].name)}. napari-mst can."
        if questions.offer(text, "Open it", partial(open_paths, viewer, files)) is None:
            raise
        return NO_LAYERS


def write_of_napari(
    write: Callable[..., str | None], path: str, data: Any, attributes: Mapping[str, Any]
) -> str | None:
    """Save a layer as napari's *write* does, and tell the user what a cube or map lost by that.

    A cube in a format that napari does not have is saved by our writer. None if there is no such
    format.
    """
    written = write(path, data, attributes)
    metadata = attributes.get("metadata", {})
    picture_of, made = cube_layer_in(metadata), map_cube_of(data, metadata)
    cube = made
    if cube is None:
        cube = cube_of_data(data, metadata) if picture_of is None else cube_of(picture_of)
    has_format = Path(path).suffix.lower() in saving.SUFFIXES
    # A user who saves a picture or a map as PNG wants a picture, but a TIFF may be meant as the
    # cube or the numbers.
    is_picture = not has_format and (picture_of is not None or made is not None)
    if cube is None or is_picture:
        return written
    if written is not None:
        _tell(Path(written), picture_of or saving.layer_of(data), attributes, cube)
    elif has_format:
        cube = saving.cube_to_save(data, attributes)
        # napari's dialog has asked already whether this file may be replaced.
        return str(saving.write(Path(path), cube, may_replace=Path(path).exists()))
    return written


def _tell(
    path: Path, layer: Layer | None, attributes: Mapping[str, Any], cube: SpectralCube
) -> None:
    """Tell the user that *cube* was saved as plain numbers, and offer to save all of it.

    A map without coordinates loses only its history, which is not told.
    """
    is_map, has_place = MAP_CUBE_KEY in attributes["metadata"], FIELD in cube.metadata
    if is_map and not has_place:
        return
    kind = "map" if is_map else "cube"
    parts = "wavelengths, history and picks"
    if has_place:
        parts = "coordinates and history" if is_map else f"coordinates, {parts}"
    name = shown(attributes.get("name", kind), 40)
    text = f"napari's own writer saved '{name}' as {shown(path.name)} without its {parts}."
    question = f"{text} Save it with them?"
    # The question stays until it is answered, and must not keep the pixels of a removed layer.
    accept = None if layer is None else partial(_save_whole, weakref.ref(layer), path)
    if accept is None or questions.offer(question, f"Save {kind} ...", accept) is None:
        show_warning(text)


def _save_whole(layer_ref: "weakref.ref[Layer]", path: Path) -> None:
    viewer, layer = current_viewer(), layer_ref()
    if viewer is not None and layer is not None:
        has_format = path.suffix.lower() in saving.SUFFIXES and path.parent.is_dir()
        saving.ask_to_save(viewer, layer, path if has_format else None)
