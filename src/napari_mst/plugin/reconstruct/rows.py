"""The rows of the reconstruction form: tables of the fields, and the widgets that edit them.

A setting of a run is a field of `RunOptions` and a row of `SETTINGS`: from both come the widget,
what napari remembers between sessions, its Preferences (`napari.yaml`), and the title of the
settings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from qtpy.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QLineEdit,
)

from napari_mst.denoising.photos import BEST_H
from napari_mst.photo.cameras import ESTIMATED, load_cameras, load_illuminants
from napari_mst.photo.chart import CHARTS
from napari_mst.plugin.files.opening import WEIGHTS_FILES
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.widgets import (
    SearchBox,
    help_of,
)
from napari_mst.plugin.viewer.widgets import ChoiceBox, LayerBox, let_shrink
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

Form = ReconstructionForm


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
        The property of the form that says whether it has this row now; "" for always.
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
    choices: Callable[[Form], Sequence[tuple[str, Any, str]]] = lambda _: ()
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


def _percent() -> QDoubleSpinBox:
    return QDoubleSpinBox(minimum=1, maximum=150, decimals=0, suffix=" %")


def _typed(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def _listed(titles: Mapping[str, str]) -> Callable[[Form], list[tuple[str, Any, str]]]:
    found = [(title, value, "") for value, title in titles.items()]
    return lambda _: found


PHOTO_ROW = Row(
    "photo",
    "Photo",
    "The Image layer to reconstruct: RGB, grey, or a stack of these.",
    partial(LayerBox, ""),
)
MODEL_ROWS = (
    Row(
        "card",
        "Model",
        "The network that turns the photo into a cube.",
        # The names are those of errors, scripts and the command line.
        choices=lambda form: [(one.name, one.name, help_of(one)) for one in form.cards.values()],
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
        "second_light",
        "Second photo",
        "The light of the other photo that is open, if that shows the same scene from the same "
        "place, with the same white balance: then it corrects the spectra. `D65 through gel.csv` "
        "is a light behind a filter, whose file holds lines of nm, transmittance.",
        lambda: SearchBox(("", *load_illuminants()), TABLES),
        "second",
    ),
    Row(
        "all_pages",
        "Pages",
        "All pages of the stack become one layer of cubes with a slider for the pages, so that "
        "picks show how their spectra change. Else only the page that is shown is reconstructed. "
        "Each page is a photo of its own. All cubes have to fit into memory.",
        partial(QCheckBox, "all pages of the stack"),
        "has_pages",
    ),
    *MODEL_ROWS,
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
"""The rows that tell how a linear photo came about."""

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
    # The patch of an sRGB photo shows its white, but not how bright white is.
    Row(
        "grey",
        "Grey patch",
        "The share of light that the grey patch reflects: 18 % for a grey card.",
        _percent,
        "needs_camera",
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
"""The rows under "Colours off?", for who knows more than the photo shows."""

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
        "Non-local means before the network. auto denoises photos that are noisy and were no JPEG, "
        "and leaves all others as they are; off leaves all. A number is the strength h for every "
        "photo, in units of its noise: auto takes 1.2.",
        partial(SearchBox, ("auto", "off", f"{BEST_H:g}")),
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
]
"""The settings of a run, folded away at first; napari remembers them."""

PART = Row(
    "part",
    "Part",
    "How much of the photo to reconstruct. Most networks look at all of the image, or at "
    "surroundings, so a part is another image: its numbers differ from those of the whole photo.",
    choices=_listed(PARTS),
)
EXTENT = Row(
    "extent",
    "Compute",
    "All of the cube now; or only what you look at, with the same numbers: an estimate is seen at "
    "once, and says how far it is off until the exact cube takes its place. Automatic does so "
    "where a run would take more than half of the free memory.",
    choices=_listed(EXTENTS),
)
