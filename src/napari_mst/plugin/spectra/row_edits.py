"""Changes the layers that rows of the table belong to: delete, recolour, rename."""

from collections.abc import Sequence

from napari.layers import Labels, Points, Shapes
from napari.utils.colormaps.standardize_color import transform_color

from napari_mst.plugin.spectra import regions
from napari_mst.plugin.spectra.rows import Entry
from napari_mst.plugin.spectra.scene import FileRows
from napari_mst.plugin.viewer import picks


def can_recolour(entry: Entry) -> bool:
    """True if its colour can be changed; labels have the colours of their layer."""
    return isinstance(entry.layer, Points | Shapes)


def can_delete(entry: Entry) -> bool:
    """True if it can be taken away; labels stay, as they are pixels of an image."""
    return not isinstance(entry.layer, Labels)


def delete(entries: Sequence[Entry], files: FileRows) -> None:
    """Take *entries* off their layers, and out of the spectra from *files*."""
    # All of a layer at once: after the first was removed, the others would have other indices.
    for layer in {entry.layer for entry in entries}:
        indices = {entry.index for entry in entries if entry.layer is layer}
        if isinstance(layer, Points | Shapes):
            layer.selected_data = indices
            layer.remove_selected()
        elif layer is None:
            files.remove(indices)


def recolour(entry: Entry, colour: str) -> None:
    """Give a pick or a shape another colour ("#rrggbb"); others keep theirs."""
    if isinstance(entry.layer, Points):
        picks.recolour(entry.layer, entry.index, colour)
    elif isinstance(entry.layer, Shapes):
        rgb = transform_color(colour)[0, :3]
        regions.recolour(entry.layer, {entry.index: rgb})


def rename(entry: Entry, name: str, files: FileRows) -> None:
    """Give *entry* another name, on its layer or among the spectra from *files*."""
    if isinstance(entry.layer, Points):
        names = picks.names(entry.layer)
        names[entry.index] = name
        picks.set_feature(entry.layer, "name", names)
    elif isinstance(entry.layer, Shapes | Labels):
        regions.rename(entry.layer, entry.index, name)
    else:
        files.rename(entry.index, name)
