"""Findings in a photo: the rows that show them, and the attention that found its light.

That attention is a layer, patch by patch over the photo. A click on it shows what the clicked patch
attends to; a click beside the photo, what led to the answer.
"""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.arrays import Doubles
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.reconstruct.form import Finding, ReconstructionForm
from napari_mst.plugin.viewer.layers import layer_of_role
from napari_mst.plugin.viewer.photos import image_shape
from napari_mst.plugin.viewer.placement import Placement
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import Paragraph, fill

if TYPE_CHECKING:
    from napari_mst.light.estimate import LightAttention, LightCandidate, LightEstimate

ROLE = "light attention"
"""Marks this layer in its metadata."""
LETTERS = 18
"""Letters of the name of a light that a button shows."""
HINT = (
    "Show as a layer which patches of the photo show the light: through all blocks of the network, "
    "or in one. Click a patch there to see what it attends to."
)


class AttentionView(NamedTuple):
    """The part of the attention that is shown.

    Attributes
    ----------
    block
        A block, counted from 0; None for the rollout through all blocks.
    head
        A head of it, counted from 0; None for the mean of its heads.
    """

    block: int | None = None
    head: int | None = None

    @property
    def title(self) -> str:
        """The view for a person, who counts from 1."""
        if self.block is None:
            return "all blocks (rollout)"
        heads = "mean of heads" if self.head is None else f"head {self.head + 1}"
        return f"block {self.block + 1}, {heads}"


def views_of(attention: "LightAttention") -> list[AttentionView]:
    """List the views of *attention*: the rollout first, then each block, and its heads."""
    blocks, heads = attention.blocks.shape[:2]
    choices = [None, *range(heads)]
    return [
        AttentionView(),
        *(AttentionView(block, head) for block in range(blocks) for head in choices),
    ]


class LightViews(QComboBox):
    """Lists the views of the attention that found a light; hidden while nobody asked for one."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(toolTip=HINT)
        self._viewer = weakref.ref(viewer)
        self._finding: Finding | None = None
        # `activated` comes only from the user: listing the views must not add a layer.
        self.activated.connect(self._show)
        self.hide()

    def list_views(self, finding: Finding | None) -> None:
        """List the views of the light in *finding*; none if it holds no light."""
        self.setVisible(finding is not None and finding.light is not None)
        # Listing the views again would forget which one the user has chosen.
        if finding is self._finding:
            return
        self._finding = finding
        self.clear()
        if finding is not None and finding.light is not None:
            self.addItem("show where the light was seen ...")
            for view in views_of(finding.light.attention):
                self.addItem(view.title, view)

    def _show(self) -> None:
        viewer, finding, view = self._viewer(), self._finding, self.currentData()
        if viewer is None or finding is None or finding.light is None or view is None:
            return
        layer = finding.layer()
        if layer is not None and layer in viewer.layers:
            show_attention(viewer, layer, finding.light.attention, view)


def show_attention(
    viewer: ViewerModel, photo: Image, attention: "LightAttention", view: AttentionView
) -> Image:
    """Show *view* over the layer *photo*, in place of the view that was shown before."""
    values = _values(attention, view, None)
    layer: Image | None = layer_of_role(viewer, ROLE)
    if layer is None:
        layer = _added(viewer, photo, values)
    layer.mouse_drag_callbacks[:] = [partial(_on_press, attention, view)]
    _show(layer, values, f"Light, {view.title}: {photo.name}")
    viewer.layers.selection.active = layer
    return layer


def _added(viewer: ViewerModel, photo: Image, values: Doubles) -> Image:
    finest = photo.data[0] if photo.multiscale else photo.data
    # Patches divide the photo evenly; the first is centred on the middle of its pixels.
    step = np.array(image_shape(finest.shape)) / len(values)
    place = Placement.of(photo).of_part((step - 1) / 2, step)
    layer: Image = viewer.add_image(
        values,
        **place.image_kwargs(),
        colormap="inferno",
        opacity=0.7,
        metadata={METADATA_KEY: ROLE, "photo": weakref.ref(photo)},
    )
    return layer


def _show(layer: Image, values: Doubles, name: str) -> None:
    layer.data = values
    layer.contrast_limits = (0, max(float(values.max()), 1e-12))
    layer.name = name


def _values(
    attention: "LightAttention", view: AttentionView, patch: tuple[int, int] | None
) -> Doubles:
    """The map (G, G) of *view*, of the class token or of a *patch*."""
    if view.block is None:
        token = 0 if patch is None else 1 + patch[0] * attention.grid + patch[1]
        return attention.rollout[token, 1:].reshape(attention.grid, attention.grid)
    if patch is None:
        return attention.class_token_map(view.block, view.head)
    return attention.patch_map(patch, view.block, view.head)


def _on_press(attention: "LightAttention", view: AttentionView, layer: Image, event: Any) -> None:
    """Show the row of the patch under the mouse."""
    patch = _patch_at(layer, event.position, attention.grid)
    values = _values(attention, view, patch)
    asking = "" if patch is None else f", patch {patch[0] + 1},{patch[1] + 1}"
    photo = layer.metadata["photo"]()
    name = "" if photo is None else photo.name
    _show(layer, values, f"Light, {view.title}{asking}: {name}")


def _patch_at(layer: Image, position: Sequence[float], grid: int) -> tuple[int, int] | None:
    row, column = np.round(layer.world_to_data(position)[-2:]).astype(int).tolist()
    return (row, column) if 0 <= row < grid and 0 <= column < grid else None


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
        self.attention = LightViews(viewer)
        self.forget = QPushButton("Forget", toolTip=texts.FORGET_HINT)
        self.forget.clicked.connect(form.forget)
        layout = fill(QVBoxLayout(self), self.text, self.correct_white, self.bars, self.attention)
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
        self.attention.list_views(finding)

    def _draw_light(self, light: "LightEstimate | None") -> None:
        self.bars.setVisible(light is not None)
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
