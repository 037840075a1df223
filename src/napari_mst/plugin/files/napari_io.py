"""Offers our reader and writer where napari's own fail, or lose what makes a cube.

napari chooses its own writer first, for any layer, and a person may choose its reader for a file
that it cannot read. No event reports either. So both commands are registered again, by npe2's
public means, as ones that run them and then look at what became of it.
"""

import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from napari import current_viewer
from napari.layers import Image, Layer
from napari.utils.notifications import show_warning
from npe2 import PluginManager

from napari_mst.errors import shown
from napari_mst.plugin.files import questions, saving
from napari_mst.plugin.files.opening import NO_LAYERS, Paths, is_ours, listed, open_paths
from napari_mst.plugin.viewer.layers import cube_layer_in, cube_of_data

READER, WRITER = "napari.get_reader", "napari.write_image"
Reader = Callable[..., list[Any]]
Writer = Callable[[str, Any, Mapping[str, Any]], str | None]


def watch() -> None:
    """Look at what napari's own reader and its writer of images do, from now on."""
    commands = PluginManager.instance().commands
    for name, watched in ((READER, WatchedReader), (WRITER, WatchedWriter)):
        # Without that command there is nothing to look at.
        with suppress(KeyError):
            own = commands.get(name)
            # The commands are those of the process, but each viewer has them watched.
            if not isinstance(own, watched):
                commands.unregister(name)
                commands.register(name, watched(own))


class WatchedReader:
    """Returns what napari's own reader returns, which offers our reader where it fails."""

    def __init__(self, reader_of: Callable[[Paths], Reader | None]) -> None:
        self._reader_of = reader_of

    def __call__(self, path: Paths) -> Reader | None:
        """Return what reads the files at *path*."""
        read = self._reader_of(path)
        return None if read is None else partial(self._read, read)

    def _read(self, read: Reader, path: Paths, **options: Any) -> list[Any]:
        try:
            return read(path, **options)
        except Exception:
            files = listed(path)
            viewer = current_viewer()
            if viewer is None or not all(map(is_ours, files)):
                raise
            text = f"napari's own reader cannot open {shown(files[0].name)}. napari-mst can."
            accept = partial(open_paths, viewer, files)
            if questions.offer(text, "Open it", accept) is None:
                raise
            return NO_LAYERS


class WatchedWriter:
    """Runs napari's *write*, and warns the user if it has saved a cube.

    A cube in a format that napari does not have is saved by our writer.
    """

    def __init__(self, write: Writer) -> None:
        self._write = write

    def __call__(self, path: str, data: Any, attributes: Mapping[str, Any]) -> str | None:
        """Save the layer of *data* and *attributes*, and return its file.

        None if there is no such format.
        """
        written = self._write(path, data, attributes)
        metadata = attributes.get("metadata", {})
        picture_of = cube_layer_in(metadata)
        if picture_of is None and cube_of_data(data, metadata) is None:
            return written
        # Who saves a picture as PNG wants a picture; a TIFF may be meant as the cube.
        if picture_of is not None and Path(path).suffix.lower() not in saving.SUFFIXES:
            return written
        if written is not None:
            _tell(Path(written), picture_of or saving.layer_of(data), attributes)
            return written
        target = Path(path)
        if target.suffix.lower() not in saving.SUFFIXES:
            return None
        cube = saving.cube_to_save(data, attributes)
        # napari's dialog has asked already whether this file may be replaced.
        return str(saving.write(target, cube, may_replace=target.exists()))


def _tell(path: Path, layer: Layer | None, attributes: Mapping[str, Any]) -> None:
    """Tell the user that a cube was saved as plain numbers, and offer to save all of it."""
    name = shown(attributes.get("name", "cube"), 40)
    text = (
        f"napari's own writer saved '{name}' as {shown(path.name)} "
        "without its wavelengths, history and picks."
    )
    question = f"{text} Save it with them?"
    # The question stays until it is answered, and must not keep the pixels of a removed layer.
    accept = None if layer is None else partial(_save_whole, weakref.ref(layer), path)
    if accept is None or questions.offer(question, "Save cube ...", accept) is None:
        show_warning(text)


def _save_whole(layer_ref: "weakref.ref[Image]", path: Path) -> None:
    viewer, layer = current_viewer(), layer_ref()
    if viewer is not None and layer is not None:
        has_format = path.suffix.lower() in saving.SUFFIXES and path.parent.is_dir()
        saving.ask_to_save(viewer, layer, path if has_format else None)
