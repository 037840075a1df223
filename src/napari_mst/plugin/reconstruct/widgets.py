"""Widgets of the form: search, findings, a section that folds away; the words for a model."""

import weakref
from collections.abc import Collection
from functools import partial
from textwrap import fill as wrapped
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFileDialog,
    QFormLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from superqt import QSearchableComboBox

from napari_mst.arrays import Doubles
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.errors import shown
from napari_mst.models import ModelCard
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.viewer.layers import layer_of_role
from napari_mst.plugin.viewer.photos import LayerPhoto
from napari_mst.plugin.viewer.sharing import OfViewer, calling
from napari_mst.plugin.viewer.widgets import ChoiceBox, Paragraph, fill, let_shrink

if TYPE_CHECKING:
    from napari_mst.light.estimating import LightAttention, LightEstimate


ASKS = {
    "light": (
        "Light",
        "Find the light in the photo itself, by a small network: the three most likely ones. "
        "A linear photo must have the values of the sensor, as a RAW file has; an sRGB photo shows "
        "how far its white is off that of D65.",
    ),
    "patch": (
        "Grey patch",
        "Press this, then click a grey or white patch of the photo; or draw a rectangle in it "
        "first. It gives white level, white balance and light of a linear photo, and corrects the "
        "white balance of an sRGB photo.",
    ),
    "chart": (
        "ColorChecker",
        "Lay a frame around a ColorChecker in the photo, and drag its corners onto the middles of "
        "the corner patches. Its colours calibrate the photo, and its patches correct the spectra.",
    ),
    "read": ("Read the squares", "Calibrate the photo by the colours in the squares."),
    "frames": (
        "Divide",
        "Read the frames. The next run divides the photo by the white one, whose middle shows the "
        "light. Forget drops them.",
    ),
}
"""Titles and tooltips of the buttons that ask the photo itself; the first three are the choices."""
FILE = "a file ..."
"""The entry of a search box that opens a dialog."""
SEARCH_LETTERS = 12
"""Width of a search box in letters, at least; the names in its list may be longer."""
FLAT = "QToolButton { border: none; background: transparent; padding: 2px; }"


class SearchBox(QSearchableComboBox):
    """A box to search *names* in, with nothing chosen.

    Its last entry asks for a file of these *kinds*, as file dialogs want them; "" for no such
    entry.
    """

    def __init__(self, names: Collection[str], kinds: str = "") -> None:
        super().__init__()
        # PySide6 would keep a completer without a parent, and its list.
        self.completer_object.setParent(self)
        self._kinds = kinds
        # A person types spaces, with which cameras and lights are found as well.
        listed = [name.replace("_", " ") for name in names]
        self.addItems([*listed, FILE] if kinds else listed)  # type: ignore[no-untyped-call] # Qt's
        self.setCurrentIndex(-1)
        self.lineEdit().setPlaceholderText("choose, or type" if names else "choose a file")
        # By default the longest name would set the width, which has to fit into a narrow dock.
        let_shrink(self, SEARCH_LETTERS)
        self.lineEdit().textEdited.connect(self._dress)
        self.textActivated.connect(self._on_activated)

    def _dress(self) -> None:
        """Give the list of matches the colours of the window.

        The list is a window of its own, which does not take on napari's style by itself.
        """
        popup = self.completer().popup()
        style = self.window().styleSheet()
        if popup.styleSheet() != style:
            popup.setStyleSheet(style)

    def _on_activated(self, text: str) -> None:
        if text == FILE:
            path, _ = QFileDialog.getOpenFileName(self, "Open", filter=self._kinds)
            # The words of the entry must not stay, where they would be the name of a camera.
            self.setCurrentIndex(-1)
            self.setEditText(path)


class Fold(QWidget):
    """Shows *content* while its title is pressed; at first it is folded.

    superqt's section animates the height, which `Paragraph` and a scroll area set as well.
    """

    def __init__(self, content: QWidget, tip: str, title: str = "") -> None:
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

    def _on_toggled(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.button.setArrowType(arrow)
        self.content.setVisible(is_open)


ACCESS = (
    (QCheckBox, "toggled", "isChecked", "setChecked"),
    (QDoubleSpinBox, "valueChanged", "value", "setValue"),
    (SearchBox, "editTextChanged", "currentText", "setEditText"),
    (QLineEdit, "textChanged", "text", "setText"),
    (ChoiceBox, "currentIndexChanged", "currentData", "show_value"),
)
"""Kinds of widgets: the signal of a change, and the methods that read and show a value."""


def access(widget: Any) -> list[Any]:
    """Return how *widget* is listened to, read and set."""
    names = next(names for kind, *names in ACCESS if isinstance(widget, kind))
    return [getattr(widget, name) for name in names]


ROLE = "light attention"
"""Marks this layer in its metadata."""
LETTERS = 22
"""Letters of the name of a light that a button shows."""
HINT = (
    "Show as a layer which patches of the photo show the light, through all blocks of the network. "
    "Click a patch there to see what it attends to."
)
WIDTH = 90
"""Letters of a line in a tooltip, which Qt itself does not wrap."""
CORRECT_WHITE_HINT = (
    "Have the next run make the white of this photo grey first, by the Bradford transform. The "
    "history of the cube says so; untick it to take the photo as it is."
)
FORGET_HINT = "Drop what was found in the photo, and go back to the rows above."


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


class FindingRows(QWidget, OfViewer):
    """Shows the finding of *form*, and corrects it as a person does.

    `lights` has a button for each likely light of the photo, beside its probability.
    """

    def __init__(self, form: ReconstructionForm, viewer: ViewerModel) -> None:
        super().__init__()
        self._form = form
        self._viewer_ref = weakref.ref(viewer)
        self._light: LightEstimate | None = None
        self.text = Paragraph()
        self.correct_white = QCheckBox(
            "correct the white balance", toolTip=CORRECT_WHITE_HINT, visible=False
        )
        # `clicked` comes only from the user: drawing the form must not change it.
        self.correct_white.clicked.connect(form.correct_white)
        self.lights = QFormLayout()
        self.seen = QPushButton("Where the light was seen", toolTip=HINT)
        self.seen.clicked.connect(self._show_seen)
        self.forget = QPushButton("Forget", toolTip=FORGET_HINT)
        self.forget.clicked.connect(form.forget)
        layout = fill(
            QVBoxLayout(self),
            self.text,
            self.correct_white,
            self.lights,
            self.seen,
        )
        layout.addWidget(self.forget, alignment=Qt.AlignmentFlag.AlignRight)

    def draw(self, _: object = None) -> None:
        """Show what was found in the photo, if anything was."""
        finding = self._form.finding
        light, balance = finding.light, finding.balance
        self.forget.setVisible(bool(finding) or self._form.corners is not None)
        self.text.setVisible(bool(finding))
        self.text.setText(finding.text)
        self.text.setToolTip(finding.details)
        self.correct_white.setChecked(finding.corrects_white)
        self.correct_white.setVisible(balance is not None and balance.is_far)
        self.seen.setVisible(light is not None)
        # A button of a light that is taken must not be deleted while it is being pressed.
        if light is not self._light:
            self._light = light
            self._list_lights()

    def _show_seen(self) -> None:
        finding = self._form.finding
        layer = finding.layer()
        if finding.light is not None and self.has(layer):
            show_attention(self.viewer, layer, finding.light.attention)

    def _list_lights(self) -> None:
        """List the likely lights, the likeliest first."""
        while self.lights.rowCount():
            self.lights.removeRow(0)
        for candidate in self._light.candidates if self._light is not None else ():
            name, share = candidate.name, round(100 * candidate.probability)
            tip = f"Take this light alone.\n{name}: {candidate.family}"
            button = QPushButton(shown(name, LETTERS), toolTip=tip)
            button.clicked.connect(calling(self._form.take_light, name))
            self.lights.addRow(button, QProgressBar(maximum=100, value=share, toolTip=tip))


def help_of(card: ModelCard) -> str:
    """Say in a line what a model is."""
    return card.title if card.file else f"{card.title}; or weights of your own, from a file"


def facts_of(card: ModelCard) -> str:
    """Say what a model gives, is for, comes from, and how accurate it is, a fact a line."""
    nm = card.wavelengths
    bands = f"{len(nm)} bands, {nm[0]:g}-{nm[-1]:g} nm" if nm else "unknown bands"
    measured = []
    for data, values in card.accuracy.items():
        metrics = ", ".join(f"{name} {value:g}" for name, value in values.items())
        measured.append(f"{data}: {metrics}")
    facts = [
        ", ".join(filter(None, [bands, card.quantity])) + ".",
        card.domain,
        card.training_data and f"Training data: {card.training_data}",
        *measured,
        card.licence and f"Licence: {card.licence}",
        card.reference,
    ]
    return "\n".join(wrapped(fact, WIDTH) for fact in facts if fact)
