"""Warns the user of what is lost when napari's own writer has saved a cube, and offers ours.

napari's dialog first chooses its own writer, for any layer, and no event reports that it has
written. So its command is registered again, by npe2's public means, as one that runs it and then
looks at what it was given.
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
from napari_mst.plugin.viewer.layers import cube_layer_in, cube_of_data

COMMAND = "napari.write_image"
Writer = Callable[[str, Any, Mapping[str, Any]], str | None]


def watch() -> None:
    """Look at what napari's writer of images saves, from now on."""
    commands = PluginManager.instance().commands
    # Without that writer there is nothing to look at.
    with suppress(KeyError):
        write = commands.get(COMMAND)
        # The commands are those of the process, but each viewer has them watched.
        if not isinstance(write, WatchedWriter):
            commands.unregister(COMMAND)
            commands.register(COMMAND, WatchedWriter(write))


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
    if layer is None:
        show_warning(text)
        return
    # The question stays until it is answered, and must not keep the pixels of a removed layer.
    accept = partial(_save_whole, weakref.ref(layer), path)
    if questions.offer(f"{text} Save it with them?", "Save cube ...", accept) is None:
        show_warning(text)


def _save_whole(layer_ref: "weakref.ref[Image]", path: Path) -> None:
    viewer, layer = current_viewer(), layer_ref()
    if viewer is not None and layer is not None:
        is_ours = path.suffix.lower() in saving.SUFFIXES and path.parent.is_dir()
        saving.ask_to_save(viewer, layer, path if is_ours else None)
