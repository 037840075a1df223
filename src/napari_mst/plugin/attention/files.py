"""Saves what the attention dock shows, and opens what it saved."""

from collections.abc import Callable
from pathlib import Path

from napari.components import ViewerModel
from napari.utils.notifications import show_error
from qtpy.QtWidgets import QFileDialog, QWidget

from napari_mst.attention.files import read_attention, write_attention, write_maps
from napari_mst.errors import AttentionError, NapariMstError
from napari_mst.plugin.attention.layers import map_layers, map_of
from napari_mst.plugin.jobs.request import Recording, extent

TIFF_SUFFIXES = (".tif", ".tiff")


def save(path: str | Path, viewer: ViewerModel, recording: Recording | None) -> Path:
    """Save a run or a map, by the suffix of *path*; an existing file is replaced.

    `.npz` holds the matrices of *recording* and the maps of its photo in the viewer; `.tif` holds
    the newest map.

    Raises
    ------
    NapariMstError
        If there is no run or no map, or the file cannot be written.
    """
    path = Path(path)
    maps = [map_of(layer) for layer in map_layers(viewer)]
    if path.suffix.lower() in TIFF_SUFFIXES:
        if not maps:
            raise AttentionError("Expected a map to save as TIFF, got none. Make one first.")
        return write_maps(path, maps[-1:], overwrite=True)
    if recording is None:
        raise AttentionError("Expected a run to save, got none. Record one first.")
    photo = recording.record.provenance.source_sha256
    own = [one for one in maps if one.provenance.source_sha256 == photo]
    return write_attention(path, recording.record, own, overwrite=True)


def read(path: str | Path) -> Recording:
    """Read the matrices of a file. Raises `AttentionError`."""
    record = read_attention(path)
    photo = record.provenance.source + extent(record.provenance)
    return Recording(record, f"{Path(path).name}: {photo}")


def ask_to_save(parent: QWidget, save_as: Callable[[str], object]) -> None:
    """Ask for a name, and have *save_as* save under it."""
    kinds = "Attention (*.npz);;Map (*.tif)"
    path, _ = QFileDialog.getSaveFileName(parent, "Save attention", "attention.npz", kinds)
    _act(save_as, path)


def ask_to_open(parent: QWidget, open_file: Callable[[str], object]) -> None:
    """Ask for a file, and have *open_file* open it."""
    path, _ = QFileDialog.getOpenFileName(parent, "Open attention", "", "Attention (*.npz)")
    _act(open_file, path)


def _act(action: Callable[[str], object], path: str) -> None:
    """Call *action*, unless the user has cancelled, and tell them what went wrong."""
    if not path:
        return
    try:
        action(path)
    except NapariMstError as error:
        show_error(str(error))
