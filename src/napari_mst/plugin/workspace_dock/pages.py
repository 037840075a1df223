"""The pages of the workspace: each is a dock of the plugin that scrolls where room is short."""

from collections.abc import Callable
from typing import NamedTuple

from napari.components import ViewerModel
from qtpy.QtCore import QSize, Qt
from qtpy.QtWidgets import QFrame, QScrollArea, QWidget

from napari_mst.plugin.attention.dock import AttentionDock
from napari_mst.plugin.dock import Dock
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.maps_dock import MapsDock
from napari_mst.plugin.workspace_dock.photo_page import PhotoPage

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
