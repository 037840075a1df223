"""The pages of the workspace, and the next step from each.

A page is a dock of the plugin that scrolls where room is short.
"""

from collections.abc import Callable
from typing import NamedTuple

from napari.components import ViewerModel
from qtpy.QtCore import QSize, Qt
from qtpy.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.jobs.workspace import Workspace
from napari_mst.plugin.reconstruct.dock import ReconstructDock
from napari_mst.plugin.spectra import regions
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.bench_dock import BenchDock
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.maps_dock import MapsDock
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


class SpectrumView(BenchDock):
    """The plot of the bench alone: the spectrum under the mouse, and those that are kept."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.plot)


class PhotoPage(Dock):
    """Shows the plot as soon as there is a cube, so that moving the mouse is all that is left."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.reconstruction = ReconstructDock(napari_viewer)
        self.view = SpectrumView(napari_viewer)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.reconstruction)
        layout.addWidget(self.view, stretch=1)
        # Takes the room of the plot while there is none.
        self._rest = QWidget()
        layout.addWidget(self._rest, stretch=1)
        self.refresh()

    def links(self) -> list[Link]:
        """See `Dock`."""
        layers = self.viewer.layers.events
        return [
            (layers.inserted, self.refresh),
            (layers.removed, self.refresh),
            (attend(self.viewer).changed, self.refresh),
        ]

    def refresh(self) -> None:
        """See `Dock`."""
        is_seen = has_cube(self.viewer)
        self.view.setVisible(is_seen)
        self._rest.setVisible(not is_seen)


LOWEST = 120
"""Pixels; a page that is lower scrolls."""


class Page(NamedTuple):
    """A page: its title, its tooltip, the dock of its own in `napari.yaml`, and what makes it."""

    title: str
    tip: str
    dock: str
    make: Callable[[ViewerModel], QWidget]


PAGES: dict[str, Page] = {
    "photo": Page(
        "Photo",
        "Turn a photo into a cube.",
        "Hyperspectral reconstruction (MST++)",
        PhotoPage,
    ),
    "spectra": Page("Spectra", "Plot, keep, compare and save spectra.", "Spectra", SpectraDock),
    "maps": Page("Maps", "Make maps from kept spectra and from bands.", "Maps", MapsDock),
    "attention": Page(
        "Attention", "See what the network attended to.", "Attention (MST++)", AttentionDock
    ),
}


class ScrolledPage(QScrollArea):
    """Shows *content* at its own width at least; what is too high for it scrolls."""

    def __init__(self, content: QWidget) -> None:
        super().__init__(widgetResizable=True, frameShape=QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Tab goes to the controls of the page, not to the area that they scroll in.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)

    def minimumSizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(self.widget().minimumSizeHint().width() + bar, LOWEST)

    def sizeHint(self) -> QSize:
        """Qt asks for this when it lays out the docks."""
        return QSize(self.widget().sizeHint())


def new_page(page: Page, viewer: ViewerModel, host: QWidget) -> ScrolledPage:
    """Make *page*, whose keys work in the whole *host*."""
    content = page.make(viewer)
    for dock in (content, *content.findChildren(Dock)):
        dock.keys_in = host
    return ScrolledPage(content)
