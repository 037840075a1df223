"""The page "Photo": the reconstruction, and below it the spectrum under the mouse."""

from napari.components import ViewerModel
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_mst.plugin.dock import Dock, Link
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.reconstruct.dock import ReconstructDock
from napari_mst.plugin.spectra.bench_dock import BenchDock
from napari_mst.plugin.workspace_dock.steps import has_cube


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
