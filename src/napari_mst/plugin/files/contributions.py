"""The readers and writers that the manifest names; thin over `opening` and `saving`."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from napari import current_viewer

from napari_mst.cube.layer import LayerTuple
from napari_mst.formats import find_format
from napari_mst.plugin.files import opening, remembering, saving
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.files.saved_cube import cube_to_save

Paths = str | list[str]
NO_LAYERS: list[Any] = [(None,)]
"""Tells napari that there is nothing to add, and that this is no fault."""


def cube_reader(path: Paths) -> Callable[[Paths], list[LayerTuple]] | None:
    """Return what opens the files at *path*; None if one of them is neither cube nor photo.

    napari then asks another reader.
    """
    files = _listed(path)
    is_ours = all(find_format(one) or opening.is_photo(one) for one in files)
    return read_layers if is_ours else None


def read_layers(path: Paths) -> list[LayerTuple]:
    """See `opening.read_layers`."""
    files, viewer = _listed(path), current_viewer()
    layers = opening.read_layers(files)
    if viewer is not None:
        # A cube may be opened before any dock, which would have done this.
        attend(viewer)
        remembering.offer_soon(files[0])
    return layers or NO_LAYERS


def write_layer(
    path: str, data: Any, attributes: Mapping[str, Any], suffix: str = ".hdr"
) -> list[str]:
    """Save an Image layer in the format of the suffix of *path*, else of *suffix*.

    Only a file that napari's dialog has asked about is replaced. Without wavelengths the user is
    asked for them; where there is nobody to ask, the bands are numbered. The picks on the image are
    saved with it.

    Raises
    ------
    SaveError
        If the layer is not (B, H, W), or as `napari_mst.write_cube`.
    Cancelled
        If the user was asked, and cancelled, or cancelled the save.
    """
    target = saving.named(Path(path), saving.SUFFIXES[suffix])
    # napari's dialog asked about the path that it gives; about another name nobody was asked.
    was_asked = target.name == Path(path).name
    cube = cube_to_save(data, attributes)
    order = saving.SaveOrder(cube, target, may_replace=was_asked and target.exists())
    return [str(saving.write(order))]


write_envi = partial(write_layer, suffix=".hdr")
write_tiff = partial(write_layer, suffix=".tif")
write_npz = partial(write_layer, suffix=".npz")
write_matlab = partial(write_layer, suffix=".mat")
write_zarr = partial(write_layer, suffix=".zarr")


def _listed(path: Paths) -> list[Path]:
    return [Path(one) for one in (path if isinstance(path, list) else [path])]
