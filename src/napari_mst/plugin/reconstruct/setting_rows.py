"""The rows of the reconstruction form: tables of the fields, and the widgets that edit them.

A setting of a run is a field of `RunOptions` and a row of `SETTINGS`: from both come the widget,
what napari remembers between sessions, its Preferences (`napari.yaml`), and the title of the
settings.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import fill as wrapped
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFileDialog,
    QLineEdit,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from superqt import QSearchableComboBox

from napari_mst.calibration.chart import CHARTS
from napari_mst.models import ModelCard
from napari_mst.photo.cameras import ESTIMATED, load_cameras, load_illuminants
from napari_mst.plugin.files.opening import WEIGHTS_FILES
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.viewer.widgets import ChoiceBox, LayerBox, dress_matches, fill, let_shrink
from napari_mst.reconstruction.options import denoising

PARTS = {
    "whole": "whole photo",
    "visible": "what is on the screen",
    "drawn": "a drawn rectangle",
}
EXTENTS = {"auto": "automatic", "whole": "the whole cube", "seen": "what I look at"}
TAKES = {"": "as the file says", "linear": "linear light", "srgb": "values of sRGB photos"}
TABLES = "Tables (*.csv);;All files (*)"
GIGABYTE = 1e9
MOST_MEMORY = 4096
"""GB."""
LETTERS = 8
"""Width of a list in letters, at least."""

ASKS = {
    "light": (
        "Light",
        "Find the light in the photo itself, by a small network: the three most likely ones. "
        "A linear photo must have the values of the sensor, as a RAW file has; an sRGB photo shows "
        "how far its white is off that of D65.",
    ),
    "patch": (
        "Grey patch",
        "Say how bright it is, press this, then click a grey patch of the photo. It gives white "
        "level, white balance and light of a linear photo, and corrects white balance and exposure "
        "of an sRGB photo. Click more greys of a scale to correct its tone curve, too.",
    ),
    "chart": (
        "ColorChecker",
        "Lay a frame around a ColorChecker in the photo, and drag its corners onto the middles of "
        "the corner patches. Its colours calibrate the photo, and its patches correct the spectra.",
    ),
    "read": ("Read the squares", "Calibrate the photo by the colours in the squares."),
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
        dress_matches(self)

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
    """Return the signal of *widget*, and the methods that read and set its value."""
    names = next(names for kind, *names in ACCESS if isinstance(widget, kind))
    return [getattr(widget, name) for name in names]


WIDTH = 90
"""Characters per tooltip line; Qt does not wrap tooltips."""


def help_of(card: ModelCard) -> str:
    """Describe a model in one line."""
    return card.title if card.file else f"{card.title}; or weights of your own, from a file"


def facts_of(card: ModelCard) -> str:
    """List the bands, purpose, data, accuracy, licence and source of a model, one a line."""
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


# ----------------------------------------------------------------------------- rows


@dataclass(frozen=True)
class Row:
    """A field of the form, and the widget that edits it.

    Attributes
    ----------
    field
        A field of `ReconstructionForm`, or of the `RunOptions` in it.
    label, tip
        The words on the left, and the tooltip.
    make
        Makes the widget, of a kind that `widgets.ACCESS` has.
    when
        The property of the form that is true while the row is shown; "" for always.
    choices
        The title, the value and the tooltip of each entry of a list.
    to_widget, to_field
        Convert the value of the field to that of the widget, and back; `to_field` raises
        `ValueError` for what means nothing, as while it is being typed.
    """

    field: str
    label: str
    tip: str
    make: Callable[[], Any] = ChoiceBox
    when: str = ""
    choices: Callable[[ReconstructionForm], Sequence[tuple[str, Any, str]]] = lambda _: ()
    to_widget: Callable[[Any], Any] = lambda value: value
    to_field: Callable[[Any], Any] = lambda value: value

    def widget(self) -> Any:
        """Make the widget, with its tooltip."""
        widget = self.make()
        widget.setToolTip(self.tip)
        if isinstance(widget, ChoiceBox):
            let_shrink(widget, LETTERS)
        return widget


# ----------------------------------------------------------------------------- widgets


def _typed(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def _listed(
    titles: Mapping[str, str],
) -> Callable[[ReconstructionForm], list[tuple[str, Any, str]]]:
    found = [(title, value, "") for value, title in titles.items()]
    return lambda _: found


WEIGHTS_FILE = "Weights file ..."
"""The name of the model without bundled weights in the list of models."""

PHOTO_ROW = Row(
    "photo",
    "Photo",
    "The Image layer to reconstruct: RGB, grey, or a stack of these. It is the photo that you "
    "selected last, or choose here.",
    partial(LayerBox, ""),
)
MODEL_ROWS = (
    Row(
        "card",
        "Model",
        "The network that turns the photo into a cube.",
        # Errors, scripts and the command line use the same names.
        choices=lambda form: [
            (one.name if one.file else WEIGHTS_FILE, one.name, help_of(one))
            for one in form.cards.values()
        ],
    ),
    Row(
        "weights",
        "Weights",
        "A file of weights as their authors publish it.",
        partial(SearchBox, (), WEIGHTS_FILES),
        "asks_weights",
    ),
    Row(
        "wavelengths",
        "Bands",
        "The wavelengths of the bands in nm: the first and the last with a hyphen between them, or "
        "a number for each. Left empty, they are what the model card in the file says.",
        partial(QLineEdit, placeholderText="as the file says, or 400-700"),
        "is_onnx",
    ),
    Row(
        "takes",
        "Takes",
        "The values that the network was made for: linear light, or those of sRGB photos. What a "
        "photo holds is converted to them.",
        when="is_onnx",
        choices=_listed(TAKES),
    ),
)
"""The rows of the model, which the dock of attention has as well."""

ROWS = (
    PHOTO_ROW,
    Row(
        "all_pages",
        "Pages",
        "All pages of the stack become one layer of cubes with a slider for the pages, so that "
        "picks show how their spectra change. Else only the page that is shown is reconstructed. "
        "Each page is a photo of its own. All cubes have to fit into memory.",
        partial(QCheckBox, "all pages of the stack"),
        "has_pages",
    ),
    Row(
        "part",
        "Part",
        "How much of the photo to reconstruct. Most networks look at the whole image, or at "
        "surroundings, so a part is another image: its numbers differ from the whole photo's.",
        choices=_listed(PARTS),
    ),
    *MODEL_ROWS,
    Row(
        "is_rendered",
        " ",
        "Tick this if the photo was rendered from a scene, or colour-managed so that its colours "
        "are those of the scene in daylight. Photos as cameras make them are not.",
        partial(QCheckBox, "colours are exact"),
        "may_be_rendered",
    ),
)
"""The rows of the photo and the model."""

CAMERA_ROWS = (
    Row(
        "camera",
        "Camera",
        "The camera that took the photo: type a part of its name. "
        "A CSV file holds lines of nm, red, green, blue.",
        lambda: SearchBox(load_cameras(), TABLES),
        "asks_camera",
    ),
    Row(
        "illuminant",
        "Illuminant",
        "The light that the photo was taken in; `estimate` finds it in the photo, if that has the "
        "values of the sensor. A CSV file holds lines of nm, power.",
        lambda: SearchBox((ESTIMATED, *load_illuminants()), TABLES),
        "asks_camera",
    ),
    Row(
        "is_linear",
        " ",
        "8-bit photos are nearly always sRGB-encoded, and refused. "
        "Tick this if yours holds linear light.",
        partial(QCheckBox, "8 bits, yet linear"),
        "asks_if_linear",
    ),
)
"""The rows that describe how a linear photo was taken."""

COLOUR_ROWS = (
    Row(
        "white",
        "White",
        "The stored value of a white surface, reflectance 1. Left empty, it is the full scale of "
        "the file: spectra of an under-exposed photo are then too dark, with the right shape.",
        partial(QLineEdit, placeholderText="full scale"),
        "asks_camera",
        to_widget=lambda white: _typed(white or ""),
        to_field=lambda text: float(text or 0),
    ),
    Row(
        "is_balanced",
        " ",
        "Tick this if white and grey surfaces have equal red, green and blue. "
        "If not, the camera's own balance is computed.",
        partial(QCheckBox, "balanced"),
        "asks_camera",
    ),
    Row(
        "grey",
        "Grey patch",
        "The share of light that the grey patch reflects: about 20 % for a grey card. A white "
        "sheet is a worse anchor, since cameras compress highlights.",
        partial(QDoubleSpinBox, minimum=1, maximum=150, decimals=0, suffix=" %"),
        "may_ask",
    ),
    Row(
        "chart",
        "Chart",
        "Which ColorChecker the photo shows.",
        when="corners",
        choices=_listed(
            {name: kind.title.removeprefix("ColorChecker ") for name, kind in CHARTS.items()}
        ),
    ),
)
"""The rows under "Colours off?", for users who know more than the photo shows."""

SETTINGS = [
    Row(
        "device",
        "Device",
        "The processor or GPU that computes; automatic takes the best.",
        choices=lambda form: [(one.title, one.name, one.about) for one in form.devices],
    ),
    Row(
        "memory",
        "Memory",
        "The most of this computer's memory that a run may take; automatic is most of what is "
        "free. What does not fit goes through a temporary file: slower, with the same numbers.",
        partial(
            QDoubleSpinBox,
            maximum=MOST_MEMORY,
            decimals=1,
            singleStep=0.5,
            suffix=" GB",
            specialValueText="automatic",
        ),
        # 0 stands for most of what is free, which the options call None.
        to_widget=lambda size: (size or 0) / GIGABYTE,
        to_field=lambda size: round(size * GIGABYTE) or None,
    ),
    Row(
        "denoise",
        "Denoise",
        "Non-local Bayes before the network. auto denoises photos that are noisy and were no JPEG, "
        "and leaves all others as they are; off leaves all. A number is the strength for every "
        "photo, in units of its noise: auto takes 1.",
        partial(SearchBox, ("auto", "off", "1")),
        to_widget=_typed,
        # napari keeps a text.
        to_field=denoising,
    ),
    Row(
        "correct_colour",
        "Colours",
        "Adjust each spectrum until its colour rounds to the code values of the photo, and no "
        "further, so that noise which the network removed stays away. "
        "For models that know how a photo shows their spectra.",
        partial(QCheckBox, "match the photo"),
    ),
    Row(
        "scheduler",
        "Cluster",
        "The address of a dask scheduler, as tls://host:8786, or the file that it wrote: its "
        "workers make the cubes of Folder ... Whoever can connect to it can run code in them.",
        partial(QLineEdit, placeholderText="this computer"),
        to_field=str.strip,
    ),
]
"""The settings of a run, folded away at first; napari remembers them."""

EXTENT = Row(
    "extent",
    "Compute",
    "All of the cube now; or only what you look at, with the same numbers: an estimate is seen at "
    "once, and says how far it is off until the exact cube takes its place. Automatic does so "
    "where a run would take more than half of the free memory.",
    choices=_listed(EXTENTS),
)
