"""Widgets of the form: search, numbers, denoising, findings, and a section that folds away."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import QLocale, Qt, Signal
from qtpy.QtGui import QDoubleValidator
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QCompleter,
    QDoubleSpinBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.arrays import Doubles
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.denoising.photos import BEST_H
from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.viewer.layers import layer_of_role
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import ChoiceBox, Paragraph, fill, let_shrink
from napari_mst.reconstruction.options import Denoise

if TYPE_CHECKING:
    from napari_mst.light.estimate import LightAttention, LightCandidate, LightEstimate


FILE = "file"
"""Value of the entry that opens a dialog."""
TABLES = "Tables (*.csv);;All files (*)"
SEARCH_LETTERS = 12
"""Width of a search box in letters, at least; the names in its list may be longer."""
MOST_H = 10.0
ALWAYS = "always"
"""Value of the entry for a number."""
FLAT = "QToolButton { border: none; background: transparent; padding: 2px; }"


class WhiteEdit(QLineEdit):
    """A field for a number; 0 if it is empty."""

    def __init__(self) -> None:
        super().__init__(placeholderText="full scale", toolTip=texts.WHITE_HINT)
        numbers = QDoubleValidator(0.0, 1e9, 6, self)
        # The validator and `float` agree on the point, wherever the user lives.
        numbers.setLocale(QLocale.c())
        self.setValidator(numbers)

    def value(self) -> float:
        """Return the number."""
        return float(self.text() or 0)

    def show_value(self, value: float) -> None:
        """Show *value*; 0 as an empty field."""
        self.setText(f"{value:g}" if value else "")


class DenoiseBox(QWidget):
    """Shows which photos are denoised, and beside it h where every photo is."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__(toolTip=texts.DENOISE_HINT)
        self.choices = ChoiceBox(toolTip=texts.DENOISE_HINT)
        self.h = QDoubleSpinBox(
            minimum=0.1,
            maximum=MOST_H,
            singleStep=0.1,
            value=BEST_H,
            prefix="h = ",
            suffix=" \u03c3",
            toolTip=texts.H_HINT,
        )
        for title, (choice, tip) in texts.DENOISE_CHOICES.items():
            self.choices.add(title, choice, tip)
        fill(QHBoxLayout(self), self.choices, self.h, stretched=self.choices)
        self.choices.currentIndexChanged.connect(self._on_choice)
        self.h.valueChanged.connect(self.changed)
        self.h.hide()

    def _on_choice(self) -> None:
        self.h.setVisible(self.choices.currentData() == ALWAYS)
        self.changed.emit()

    def value(self) -> Denoise:
        """Return "auto", "off", or h."""
        choice: Denoise = self.choices.currentData()
        return choice if self.h.isHidden() else self.h.value()

    def show_value(self, value: Denoise) -> None:
        """Show *value*, "auto", "off", or h."""
        self.choices.show_value(value if isinstance(value, str) else ALWAYS)
        if not isinstance(value, str):
            self.h.setValue(value)


class _Completer(QCompleter):
    """Finds what is typed with spaces among names that have underscores."""

    def splitPath(self, path: str) -> list[str]:
        return [path.replace(" ", "_")]


class SearchBox(QComboBox):
    """A box to search *names* in, with nothing chosen; its last entry asks for a file."""

    def __init__(self, names: Iterable[str], hint: str) -> None:
        super().__init__(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert, toolTip=hint)
        for name in names:
            self.addItem(name)
        self.addItem("of a CSV file ...", FILE)
        self.setCurrentIndex(-1)
        self.setCompleter(self._new_completer())
        # By default the longest name would set the width, which has to fit into a narrow dock.
        let_shrink(self, SEARCH_LETTERS)
        self.lineEdit().setPlaceholderText("choose, or type to search")
        self.lineEdit().textEdited.connect(self._dress)
        self.activated.connect(self._on_activated)

    def _new_completer(self) -> QCompleter:
        completer = _Completer(parent=self)
        completer.setModel(self.model())
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        return completer

    def _dress(self) -> None:
        """Give the list of matches the colours of the window.

        The list is a window of its own, which does not take on napari's style by itself.
        """
        popup = self.completer().popup()
        style = self.window().styleSheet()
        if popup.styleSheet() != style:
            popup.setStyleSheet(style)

    def _on_activated(self, index: int) -> None:
        if self.itemData(index) == FILE:
            self._ask_for_file()

    def _ask_for_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open table", filter=TABLES)
        # The words of the entry must not stay in the box, where they would be the name of a camera.
        self.setCurrentIndex(-1)
        self.setEditText(path)


class Fold(QWidget):
    """Shows *content* while its title is pressed; at first it is folded.

    superqt's section animates the height, which `Paragraph` and a scroll area set as well.
    """

    def __init__(self, title: str, content: QWidget, tip: str) -> None:
        super().__init__()
        self.content = content
        self.button = QToolButton(text=title, checkable=True, toolTip=tip)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        # By default a tool button only takes the focus from a click.
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.setStyleSheet(FLAT)
        fill(QVBoxLayout(self), self.button, content)
        self.button.toggled.connect(self._on_toggled)
        self._on_toggled(False)

    def set_title(self, title: str) -> None:
        """Show another title."""
        self.button.setText(title)

    def _on_toggled(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.button.setArrowType(arrow)
        self.content.setVisible(is_open)


ROLE = "light attention"
"""Marks this layer in its metadata."""
LETTERS = 18
"""Letters of the name of a light that a button shows."""
HINT = (
    "Show as a layer which patches of the photo show the light, through all blocks of the network. "
    "Click a patch there to see what it attends to."
)
HEADS_HINT = (
    "Estimate the light again with equal weights in each head of the network. A head that hardly "
    "turns it does little for this photo."
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
        self.heads = QPushButton("What does each head do?", checkable=True, toolTip=HEADS_HINT)
        self.heads.toggled.connect(self._show_heads)
        self.effects = Paragraph()
        self.forget = QPushButton("Forget", toolTip=texts.FORGET_HINT)
        self.forget.clicked.connect(form.forget)
        layout = fill(
            QVBoxLayout(self),
            self.text,
            self.correct_white,
            self.bars,
            fill(QHBoxLayout(), self.seen, self.heads),
            self.effects,
        )
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

    def _show_heads(self) -> None:
        """Show how far equal weights in each head turn the light, once a person asks for it."""
        light = None if self._form.finding is None else self._form.finding.light
        self.effects.setVisible(light is not None and self.heads.isChecked())
        if light is not None and self.heads.isChecked():
            *blocks, every = light.head_effects
            rows = [
                f"block {number}: {', '.join(f'{turn:.1f}' for turn in turns)}"
                for number, turns in enumerate(blocks)
            ]
            text = "Equal weights in one head turn the white by these degrees:"
            all_heads = f"in all heads: {every[0]:.1f}"
            self.effects.setText("\n".join([text, *rows, all_heads]))

    def _draw_light(self, light: "LightEstimate | None") -> None:
        self.bars.setVisible(light is not None)
        self.seen.setVisible(light is not None)
        self.heads.setVisible(light is not None)
        self._show_heads()
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
