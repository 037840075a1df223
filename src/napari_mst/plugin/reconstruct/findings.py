"""Findings in a photo: the rows that show them, and a layer of what has shown its light."""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.arrays import Doubles
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.viewer.layers import layer_of_role
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import Paragraph, fill

if TYPE_CHECKING:
    from napari_mst.light.estimate import LightAttention, LightCandidate, LightEstimate

ROLE = "light attention"
"""Marks this layer in its metadata."""
LETTERS = 18
"""Letters of the name of a light that a button shows."""
HINT = (
    "Show as a layer which patches of the photo show the light, through all blocks of the network. "
    "Click a patch there to see what it attends to."
)


def show_attention(viewer: ViewerModel, photo: Image, attention: "LightAttention") -> Image:
    """Show over the layer *photo* which patches the answer came from, through all blocks."""
    values = attention.rollout_map
    layer: Image | None = layer_of_role(viewer, ROLE)
    if layer is not None:
        viewer.layers.remove(layer)
    # Patches divide the photo evenly.
    place = LayerPhoto.of(photo, viewer.dims.point).placement_of(values.shape)
    layer = viewer.add_image(
        values,
        **place.image_kwargs(),
        name=f"Light seen here: {photo.name}",
        colormap="inferno",
        opacity=0.7,
        metadata={METADATA_KEY: ROLE},
    )
    layer.mouse_drag_callbacks.append(partial(_on_press, attention))
    _show(layer, values)
    return layer


def _on_press(attention: "LightAttention", layer: Image, event: Any) -> None:
    """Show what the patch under the mouse attends to; beside the photo, what the answer does."""
    row, column = np.round(layer.world_to_data(event.position)[-2:]).astype(int).tolist()
    grid = attention.grid
    is_patch = 0 <= row < grid and 0 <= column < grid
    token = 1 + row * grid + column if is_patch else 0
    _show(layer, attention.rollout[token, 1:].reshape(grid, grid))


def _show(layer: Image, values: Doubles) -> None:
    layer.data = values
    layer.contrast_limits = (0, max(float(values.max()), 1e-12))


class FindingRows(QWidget):
    """Shows the finding of *form*, and corrects it as a person does."""

    def __init__(self, form: ReconstructionForm, viewer: ViewerModel) -> None:
        super().__init__()
        self._form = form
        self._light: LightEstimate | None = None
        self.text = Paragraph()
        self.correct_white = QCheckBox(
            "correct the white balance", toolTip=texts.CORRECT_WHITE_HINT
        )
        # `clicked` comes only from the user: drawing the form must not change it.
        self.correct_white.clicked.connect(form.correct_white)
        self.bars = LightBars(form.take_light)
        self._viewer = weakref.ref(viewer)
        self.seen = QPushButton("Where the light was seen", toolTip=HINT)
        self.seen.clicked.connect(self._show_seen)
        self.forget = QPushButton("Forget", toolTip=texts.FORGET_HINT)
        self.forget.clicked.connect(form.forget)
        layout = fill(QVBoxLayout(self), self.text, self.correct_white, self.bars, self.seen)
        layout.addWidget(self.forget, alignment=Qt.AlignmentFlag.AlignRight)

    def draw(self) -> None:
        """Show what was found in the photo, if anything was."""
        finding = self._form.finding
        self.forget.setVisible(finding is not None or self._form.corners is not None)
        self.text.setVisible(finding is not None)
        self.correct_white.hide()
        if finding is not None:
            self.text.setText(finding.text)
            self.text.setToolTip(finding.details)
            balance = finding.balance
            self.correct_white.setVisible(balance is not None and balance.is_far)
            self.correct_white.setChecked(finding.corrects_white)
        self._draw_light(finding.light if finding is not None else None)

    def _show_seen(self) -> None:
        viewer, finding = self._viewer(), self._form.finding
        layer = None if finding is None else finding.layer()
        if viewer is not None and finding and finding.light and layer in viewer.layers:
            show_attention(viewer, layer, finding.light.attention)

    def _draw_light(self, light: "LightEstimate | None") -> None:
        self.bars.setVisible(light is not None)
        self.seen.setVisible(light is not None)
        if light is not self._light:
            self._light = light
            self.bars.show_lights(light.candidates if light is not None else ())


class LightBars(QWidget):
    """The likely lights of a photo, each a button beside its probability; *take* is given one."""

    def __init__(self, take: Callable[[str], None]) -> None:
        super().__init__()
        self.buttons: list[QPushButton] = []
        self._take = take
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(1, 1)

    def show_lights(self, candidates: "Sequence[LightCandidate]") -> None:
        """List *candidates*, the likeliest first."""
        self.buttons = []
        while self._grid.count():
            widget = self._grid.takeAt(0).widget()
            widget.setParent(None)
            widget.deleteLater()
        for row, candidate in enumerate(candidates):
            self._add(row, candidate)

    def _add(self, row: int, candidate: "LightCandidate") -> None:
        name = candidate.name
        short = name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
        tip = f"{texts.TAKE_LIGHT_HINT}\n{name}: {candidate.family}"
        button = QPushButton(short, toolTip=tip)
        button.clicked.connect(calling(self._take, name))
        bar = QProgressBar(maximum=100, value=round(100 * candidate.probability), toolTip=tip)
        self.buttons.append(button)
        self._grid.addWidget(button, row, 0)
        self._grid.addWidget(bar, row, 1)
