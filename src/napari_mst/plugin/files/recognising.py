"""Layers that napari has opened from files, seen as what they are: cubes of ours, and photos as they are meant.

We leave TIFF, npz and Zarr to napari's own reader, so that nobody is asked which one to take. The path that it notes
at a layer tells where its wavelengths, picks and history are, and how its pixels were meant, whenever we are asked.
"""

import weakref
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer
from napari.qt.threading import create_worker
from napari.utils.notifications import show_info, show_warning
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer

from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError, PhotoError
from napari_mst.formats import is_own_cube, read_cube
from napari_mst.messages import shown
from napari_mst.photo.files import decode_pages, is_shown_otherwise, orientation
from napari_mst.plugin.files import builtin_writer
from napari_mst.plugin.files.opening import PLUGIN, saved_picks, tell_warnings
from napari_mst.plugin.jobs.request import Reports
from napari_mst.plugin.jobs.worker import JobWorker, sentence_of
from napari_mst.plugin.viewer.layers import COLORMAP, cube_layer, cube_of, go_to
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.slider import bring_into_view, show_wavelength

UNTOUCHED = "gray"
"""The colour map that napari gives to a stack at first."""
ON_ITS_SIDE = range(5, 9)
"""Orientations that exchange rows and columns."""

_attending: "weakref.WeakKeyDictionary[ViewerModel, Recogniser]" = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Damage:
    """Why a cube could not be read."""

    error: NapariMstError


def attend(viewer: ViewerModel) -> "Recogniser":
    """Look at all layers of *viewer*, those that are there and those to come, and at what napari saves."""
    if viewer not in _attending:
        builtin_writer.watch()
        recogniser = Recogniser(viewer)
        _attending[viewer] = recogniser
        viewer.layers.events.inserted.connect(recogniser.hear)
        show_wavelength(viewer)
        for layer in list(viewer.layers):
            recogniser.look_at(layer)
    return _attending[viewer]


class Recogniser:
    """Makes the layers of *viewer* what their files say; `changed` tells that one has become a cube."""

    changed = Signal()

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer_ref = weakref.ref(viewer)
        self._seen: weakref.WeakSet[Layer] = weakref.WeakSet()
        self._workers = set[JobWorker]()

    @property
    def is_busy(self) -> bool:
        """Whether a cube is being read."""
        return bool(self._workers)

    def hear(self, event: Any) -> None:
        """A layer was added: see what it is."""
        self.look_at(event.value)

    def look_at(self, layer: Layer) -> None:
        """See what *layer* is, once."""
        is_new = isinstance(layer, Image) and layer not in self._seen
        path = layer.source.path
        if (
            not is_new
            or cube_of(layer) is not None
            or not path
            or layer.source.reader_plugin == PLUGIN
        ):
            return
        self._seen.add(layer)
        if is_own_cube(path):
            self._read(layer, Path(path))
        elif is_shown_otherwise(path):
            self._read_photo(layer, Path(path))

    # ---------------------------------------------------------------------------------------------------- cubes

    def _read(self, layer: Image, path: Path) -> None:
        worker = create_worker(_read_cube, path, _worker_class=JobWorker, _ignore_errors=True)
        self._workers.add(worker)
        worker.returned.connect(partial(self._on_read, weakref.ref(layer), path))
        worker.finished.connect(partial(self._workers.discard, worker))
        worker.start()

    def _on_read(
        self, layer_ref: "weakref.ref[Image]", path: Path, read: "SpectralCube | Damage"
    ) -> None:
        viewer, layer = self._viewer_ref(), layer_ref()
        if (
            viewer is None
            or layer is None
            or layer not in viewer.layers
            or cube_of(layer) is not None
        ):
            return
        if isinstance(read, SpectralCube):
            self._show_cube(viewer, layer, path, read)
        else:
            show_warning(f"{shown(path.name)} is shown without its wavelengths. {read.error}")

    def _show_cube(self, viewer: ViewerModel, layer: Image, path: Path, cube: SpectralCube) -> None:
        tell_warnings(path, cube)
        others = [other for other in viewer.layers if cube_of(other) is not None]
        band = min(
            max(round(float(layer.world_to_data(viewer.dims.point)[0])), 0), len(cube.data) - 1
        )
        before = viewer.dims.point
        layer = _as_cube(viewer, layer, cube)
        _add_picks(viewer, path, cube)
        if others:
            viewer.dims.set_point(range(len(before)), before)
            bring_into_view(viewer, layer)
        else:  # the axis is another now: what was the number of the band is its wavelength
            go_to(viewer, layer, float(cube.wavelengths[band]))
        self.changed.emit()

    # --------------------------------------------------------------------------------------------------- photos

    def _read_photo(self, layer: Image, path: Path) -> None:
        """Give *layer* the pixels that `Photo.read` has, if it still has those that napari's reader gave it."""
        viewer = self._viewer_ref()
        if viewer is None or not isinstance(layer.data, np.ndarray):
            return
        try:
            is_as_opened = np.array_equal(layer.data, iio.imread(path))
            pixels = decode_pages(path, []) if is_as_opened else None
        except (PhotoError, OSError):
            return
        if pixels is not None:
            self._show_pixels(layer, path, pixels)

    def _show_pixels(self, layer: Image, path: Path, pixels: NDArray[Any]) -> None:
        """Show *pixels* in *layer*, or in another one if colours have become of grey values, and say so."""
        asked = orientation(path)
        is_coloured = pixels.ndim > 2 and pixels.shape[-1] in (3, 4)
        if (pixels.ndim, is_coloured) == (layer.data.ndim, layer.rgb):
            if asked in ON_ITS_SIDE:
                layer.scale = [*layer.scale[:-2], layer.scale[-1], layer.scale[-2]]
            layer.data = pixels
        else:  # napari is still about to select the layer that it has added
            QTimer.singleShot(0, partial(self._exchange, weakref.ref(layer), pixels, is_coloured))
        change = (
            "was turned upright, as its file asks"
            if asked != 1
            else "was given the colours that its file means"
        )
        show_info(
            f"'{shown(layer.name, 40)}' {change}. napari's reader shows the pixels as they are stored."
        )

    def _exchange(
        self, layer_ref: "weakref.ref[Image]", pixels: NDArray[Any], is_coloured: bool
    ) -> None:
        viewer, layer = self._viewer_ref(), layer_ref()
        if viewer is not None and layer is not None and layer in viewer.layers:
            _exchange(viewer, layer, pixels, {"name": layer.name, "rgb": is_coloured})


def _read_cube(path: Path, _: Reports) -> "SpectralCube | Damage":
    """The job of the thread: what went wrong is a result too."""
    try:
        return read_cube(path)
    except Exception as error:  # noqa: BLE001 (the last place that can turn it into a sentence)
        return Damage(sentence_of(error))


def _as_cube(viewer: ViewerModel, layer: Image, cube: SpectralCube) -> Image:
    """Make *layer* the layer of *cube*; its numbers, its place in the image and what the user has set stay."""
    if layer.data.shape != cube.shape:
        data, arguments, _ = cube_layer(cube, layer.name)
        return _exchange(viewer, layer, data, arguments)
    if isinstance(layer.data, np.ndarray):
        cube = replace(cube, data=layer.data)
    data, arguments, _ = cube_layer(cube, layer.name, Placement.of(layer))
    layer.metadata = {**layer.metadata, **arguments["metadata"]}
    if layer.colormap.name == UNTOUCHED:
        layer.colormap = COLORMAP
        layer.contrast_limits = arguments["contrast_limits"]
    for name in ("axis_labels", "units", "scale", "translate"):
        setattr(layer, name, arguments[name])
    layer.data = data
    return layer


def _add_picks(viewer: ViewerModel, path: Path, cube: SpectralCube) -> None:
    active = viewer.layers.selection.active
    for points, arguments, _ in saved_picks({path: cube}):
        viewer.add_points(points, **arguments)
        viewer.layers.selection.active = active


def _exchange(viewer: ViewerModel, layer: Image, data: Any, arguments: dict[str, Any]) -> Image:
    """Put a layer of *data* where *layer* is."""
    index = viewer.layers.index(layer)
    viewer.layers.remove(layer)
    added: Image = viewer.add_image(data, **arguments)
    viewer.layers.move(len(viewer.layers) - 1, index)
    return added
