"""Saving what the attention dock shows, and opening what it saved."""

from collections.abc import Callable
from pathlib import Path

from napari.components import ViewerModel
from napari.utils.notifications import show_error
from qtpy.QtWidgets import QFileDialog, QWidget

from napari_mst.attention.record import read_attention, write_attention, write_map
from napari_mst.errors import AttentionError, NapariMstError
from napari_mst.plugin.attention.layers import map_layers, map_of
from napari_mst.plugin.jobs.workspace import Recording, extent


def save(path: str | Path, viewer: ViewerModel, recording: Recording | None) -> Path:
    """Save the matrices of *recording*, with the maps in the viewer of its photo (`.npz`), or the newest map (`.tif`).

    Raises
    ------
    NapariMstError
        If there is nothing of the kind, or the file cannot be written; an existing file is replaced.
    """
    path, maps = Path(path), [map_of(layer) for layer in map_layers(viewer)]
    if path.suffix.lower() in (".tif", ".tiff"):
        if not maps:
            raise AttentionError("Expected a map to save as TIFF, got none. Make one first.")
        return write_map(path, maps[-1], overwrite=True)
    if recording is None:
        raise AttentionError("Expected a run to save, got none. Record one first.")
    own = [
        one
        for one in maps
        if one.provenance.source_sha256 == recording.record.provenance.source_sha256
    ]
    return write_attention(path, recording.record, own, overwrite=True)


def read(path: str | Path) -> Recording:
    """The matrices of a file. Raises `AttentionError`."""
    record = read_attention(path)
    return Recording(
        record, f"{Path(path).name}: {record.provenance.source}{extent(record.provenance)}"
    )


def ask_to_save(parent: QWidget, action: Callable[[str], object]) -> None:
    """Ask for a name to save under, and do it."""
    kinds = "Attention (*.npz);;Map (*.tif)"
    _do(action, QFileDialog.getSaveFileName(parent, "Save attention", "attention.npz", kinds)[0])


def ask_to_open(parent: QWidget, action: Callable[[str], object]) -> None:
    """Ask for a file to open, and do it."""
    _do(action, QFileDialog.getOpenFileName(parent, "Open attention", "", "Attention (*.npz)")[0])


def _do(action: Callable[[str], object], path: str) -> None:
    """Unless the user has cancelled; tell what went wrong."""
    try:
        if path:
            action(path)
    except NapariMstError as error:
        show_error(str(error))
