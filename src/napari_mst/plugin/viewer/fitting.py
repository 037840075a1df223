"""Keeps all of the image in sight when a dock takes room from it."""

from typing import Any

from napari.components import ViewerModel

from napari_mst.plugin.viewer.sharing import ViewerHelper

ALIKE = 0.1
"""Share of the zoom: the canvas may have changed a little since napari has fitted the layers."""


class FittedView(ViewerHelper):
    """Fits the view again when the canvas gets another size, until the user moves the view."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        viewer.events.reset_view.connect(self._note)
        viewer.canvas.events.size.connect(self._on_size)
        before = self._camera
        viewer.reset_view(reset_camera_angle=False)
        centre, zoom = self._camera
        # A view that napari would fit otherwise is the user's.
        if before[0] != centre or abs(before[1] / zoom - 1) > ALIKE:
            viewer.scene.camera.center, viewer.scene.camera.zoom = before

    @property
    def _camera(self) -> tuple[Any, float]:
        camera = self.viewer.scene.camera
        return camera.center, camera.zoom

    def _note(self, _: object = None) -> None:
        """Remember the view to which napari has fitted the layers."""
        self._fitted = self._camera

    def _on_size(self, _: object = None) -> None:
        if self._camera == self._fitted:
            self.viewer.reset_view(reset_camera_angle=False)
