"""The dock "Workspace": its pages, the next step from each, and the samples.

A page is a dock that scrolls where room is short. A sample of File > Open Sample opens the
workspace too: Run is one click away. The README of sample_data names the sources of the samples.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from napari import current_viewer
from napari.components import ViewerModel
from qtpy.QtWidgets import (
    QHBoxLayout,
    QSizePolicy,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

import napari_mst
from napari_mst.cube import colour
from napari_mst.cube.layer import LayerTuple
from napari_mst.formats import read_cube
from napari_mst.photo.files import decode_file
from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.files.opening import open_workspace_soon
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.jobs.workspace import Workspace
from napari_mst.plugin.reconstruct.dock import ReconstructDock
from napari_mst.plugin.spectra.dock import SpectraDock
from napari_mst.plugin.spectra.model_dock import MapsDock, ModelDock, SharedSpectraModel
from napari_mst.plugin.spectra.profile_dock import ProfileDock
from napari_mst.plugin.spectra.scatter_dock import ScatterDock
from napari_mst.plugin.spectra.spectra_model import SpectraModel
from napari_mst.plugin.viewer.layer_photos import photo_layers
from napari_mst.plugin.viewer.layers import cube_layer, cube_of
from napari_mst.plugin.viewer.widgets import HelpButton, Paragraph, ScrolledPage, fill

HELP_HINT = "Read about this page in the documentation, in your browser."


# ---------------------------------------------------------------------------------- the next step


TO_PHOTO = "There is no cube yet: make one from a photo, on the page Photo."
TO_SPECTRA = "Move the mouse over the cube; click to keep a spectrum."
TO_KEPT = "Name, compare and save what you have kept, on the page Spectra."
TO_MAPS = "Make a map from these spectra, on the page Maps: classes, ratios, errors."


def next_step(page: str, viewer: ViewerModel, model: SpectraModel, workspace: Workspace) -> str:
    """Say what to do next on *page*; "" while that page is not done."""
    # While a job runs, its own sentence is what there is to read.
    if workspace.is_busy:
        return ""
    if not has_cube(viewer):
        return "" if page == "photo" else TO_PHOTO
    if page == "photo":
        return TO_KEPT if model.entries else TO_SPECTRA
    return TO_MAPS if page == "spectra" and model.entries else ""


def has_cube(viewer: ViewerModel) -> bool:
    """True if a layer of *viewer* shows a cube."""
    return any(cube_of(layer) is not None for layer in viewer.layers)


# -------------------------------------------------------------------------------------- the pages


class SpectrumView(ModelDock):
    """The plot of spectra alone: the spectrum under the mouse, and the kept spectra."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        fill(QVBoxLayout(self), self.plot, self.problem, stretched=self.plot)


class PhotoPage(Dock):
    """Shows the plot as soon as there is a cube, so that moving the mouse is all that is left."""

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.reconstruction = ReconstructDock(napari_viewer)
        self.view = SpectrumView(napari_viewer)
        layout = fill(QVBoxLayout(self), self.reconstruction, self.view, stretched=self.view)
        # Takes the room of the plot while there is none.
        layout.addStretch(0)
        self.refresh()

    def links(self) -> list[Link]:
        """See `Dock`."""
        return _cube_links(self.viewer, self.refresh)

    def refresh(self) -> None:
        """See `Dock`."""
        self.view.setVisible(has_cube(self.viewer))


def _cube_links(viewer: ViewerModel, slot: Callable[..., None]) -> list[Link]:
    """Call *slot* when cubes come and go."""
    emitters = (viewer.layers.events.inserted, viewer.layers.events.removed, attend(viewer).changed)
    return [(emitter, slot) for emitter in emitters]


PAGES: dict[str, tuple[str, str, Callable[[ViewerModel], QWidget]]] = {
    "photo": ("Photo", "Turn a photo into a cube.", PhotoPage),
    "spectra": ("Spectra", "Plot, keep, compare and save spectra.", SpectraDock),
    "maps": ("Maps", "Make maps from kept spectra and from bands.", MapsDock),
    "scatter": ("Scatter", "Two values of every pixel, and a lasso around some.", ScatterDock),
    "profile": ("Profile", "The spectra along a line.", ProfileDock),
}
"""The title of each page, its tooltip, and what makes it."""


# --------------------------------------------------------------------------------------- the dock


class WorkspaceDock(Dock):
    """Shows one page at a time; the pages share all their state with the separate docks."""

    SIZE = (400, 620)

    def __init__(self, napari_viewer: ViewerModel) -> None:
        super().__init__(napari_viewer)
        self.model = SharedSpectraModel.of(self.viewer)
        self.pages: dict[str, ScrolledPage] = {}
        self.tabs = QTabBar(expanding=False, drawBase=False, usesScrollButtons=False)
        self.help_button = HelpButton("window.md", HELP_HINT)
        self.stack = QStackedWidget()
        # Else napari adds a space below it, and a larger one for each dock that was opened before.
        self.stack.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.step_text = Paragraph()
        self.step_text.hide()
        self._lay_out()
        self.tabs.currentChanged.connect(self._on_tab)
        self._had_cube = False
        self.refresh()

    def _lay_out(self) -> None:
        for title, tip, _ in PAGES.values():
            self.tabs.setTabToolTip(self.tabs.addTab(title), tip)
        head = fill(QHBoxLayout(), self.tabs)
        head.setSpacing(2)
        head.addStretch()
        head.addWidget(self.help_button)
        layout = fill(QVBoxLayout(self), head, self.stack, self.step_text, stretched=self.stack)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.setSpacing(4)

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [
            *_cube_links(self.viewer, self.refresh),
            (self.model.changed, self.refresh),
            (self.workspace.state_changed, self.refresh),
        ]

    def refresh(self, _: object = None) -> None:
        """Say the next step; show spectra once a cube was opened where there is no photo."""
        is_new = has_cube(self.viewer) and not self._had_cube
        # The photo of a preview may be gone, but the page with Cancel stays.
        is_opened = is_new and not photo_layers(self.viewer) and not self.workspace.is_busy
        self.go_to("spectra" if is_opened else self.page)

    # ------------------------------------------------------------------------ what the user does

    @property
    def page(self) -> str:
        """The page that is shown."""
        return list(PAGES)[self.tabs.currentIndex()]

    def go_to(self, name: str) -> None:
        """Show the page *name*, which is made when it is shown first."""
        # A cube that is there already must not lead the user to another page.
        self._had_cube = has_cube(self.viewer)
        self.tabs.setCurrentIndex(list(PAGES).index(name))
        if name not in self.pages:
            self.pages[name] = self._new_page(name)
            self.stack.addWidget(self.pages[name])
        self.stack.setCurrentWidget(self.pages[name])
        self.help_button.page = f"window.md#{name}"
        step = next_step(name, self.viewer, self.model, self.workspace)
        # Showing the same text again would have the dock laid out again.
        if step != self.step_text.text():
            self.step_text.setText(step)
            self.step_text.setVisible(bool(step))

    def _new_page(self, name: str) -> ScrolledPage:
        """Make the page *name*, whose keys work in the whole workspace."""
        *_, make = PAGES[name]
        content = make(self.viewer)
        for dock in (content, *content.findChildren(Dock)):
            dock.keys_in = self
        return ScrolledPage(content)

    def _on_tab(self, _: int) -> None:
        self.go_to(self.page)


# ------------------------------------------------------------------------------------ the samples


def sample_path(name: str) -> Path:
    """The path of a file of sample_data, in an installed package or in a clone."""
    package = Path(napari_mst.__file__).parent
    installed = package / "sample_data" / name
    return installed if installed.exists() else package.parents[1] / "sample_data" / name


def chart() -> list[LayerTuple]:
    """Describe the colour chart as an sRGB photo, and the cube that it is rendered from."""
    open_workspace_soon(current_viewer())
    cube = read_cube(sample_path("chart.tif"))
    linear = np.clip(colour.render_srgb(cube.data, cube.wavelengths), 0, 1)
    photo = np.round(255 * colour.linear_to_srgb(linear)).astype(np.uint8)
    return [
        cube_layer(cube, "colour chart (true spectra)"),
        (np.moveaxis(photo, 0, -1), {"name": "colour chart", "rgb": True}, "image"),
    ]


def coffee() -> list[LayerTuple]:
    """Describe a photo of a cup of coffee."""
    open_workspace_soon(current_viewer())
    pixels, *_ = decode_file(sample_path("coffee.jpg"), [])
    return [(pixels, {"name": "coffee", "rgb": True}, "image")]
