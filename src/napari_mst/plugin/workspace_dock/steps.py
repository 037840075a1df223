"""The next step from each page, as the state of a viewer has it; without Qt."""

from typing import NamedTuple

from napari.components import ViewerModel

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.jobs.workspace import Workspace
from napari_mst.plugin.spectra import regions
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.viewer.layers import cube_of

NOTHING = ""


class Step(NamedTuple):
    """A sentence on what can be done next, and the page that it leads to ("" for none)."""

    text: str = NOTHING
    page: str = NOTHING


NO_STEP = Step()
TO_PHOTO = Step("There is no cube yet. Make one from a photo.", "photo")
TO_SPECTRA = Step("Move the mouse over the cube; click to keep a spectrum.", "spectra")
TO_KEPT = Step("Name, compare and save what you have kept.", "spectra")
TO_MAPS = Step("Make a map from these spectra: classes, ratios, errors.", "maps")
TO_ATTENTION = Step("See what the network attended to.", "attention")


def next_step(page: str, viewer: ViewerModel, bench: Bench, workspace: Workspace) -> Step:
    """Choose the step that is offered on *page*; `NO_STEP` while that page is not done."""
    # While a job runs, its own sentence is what there is to read.
    if workspace.is_busy:
        return NO_STEP
    if not has_cube(viewer):
        return TO_PHOTO if page in ("spectra", "maps") else NO_STEP
    if page == "photo":
        return TO_KEPT if bench.entries else TO_SPECTRA
    if page == "spectra":
        return TO_MAPS if bench.entries else NO_STEP
    if page == "maps" and has_map(viewer) and workspace.recordings:
        return TO_ATTENTION
    return NO_STEP


def has_cube(viewer: ViewerModel) -> bool:
    """Tell whether a layer of *viewer* shows a cube."""
    return any(cube_of(layer) is not None for layer in viewer.layers)


def has_map(viewer: ViewerModel) -> bool:
    """Tell whether a layer of *viewer* shows a map of a cube."""
    return any(layer.metadata.get(METADATA_KEY) == regions.ROLE for layer in viewer.layers)
