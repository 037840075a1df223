"""The rows of the reconstruction form: tables of the fields, and the widgets that edit them.

A setting of a run is a field of `RunOptions` and a row of `SETTINGS`: from both come the widget,
what napari remembers between sessions, its Preferences (`napari.yaml`), and the title of the
settings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from magicgui.types import FileDialogMode
from magicgui.widgets import FileEdit
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.photo.cameras import ESTIMATED, load_cameras, load_illuminants
from napari_mst.photo.chart import CHARTS
from napari_mst.plugin.dock import Link
from napari_mst.plugin.files.opening import WEIGHTS_FILES
from napari_mst.plugin.reconstruct import texts
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.widgets import (
    DenoiseBox,
    FindingRows,
    Fold,
    SearchBox,
    WhiteEdit,
)
from napari_mst.plugin.viewer.sharing import calling
from napari_mst.plugin.viewer.widgets import ChoiceBox, LayerBox, Paragraph, fill, let_shrink
from napari_mst.reconstruction.options import denoising

PARTS = {
    "whole photo": "whole",
    "what is on the screen": "visible",
    "a drawn rectangle": "drawn",
}
KINDS = {kind.title.removeprefix("ColorChecker "): name for name, kind in CHARTS.items()}
PHOTOS = "Photos (*.dng *.nef *.cr2 *.cr3 *.arw *.raf *.rw2 *.orf *.tif *.tiff);;All files (*)"
GIGABYTE = 1e9
MOST_MEMORY = 4096
"""GB."""
LETTERS = 8
"""Width of a list in letters, at least."""

Form = ReconstructionForm


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Row:
    """A field of the form, and the widget that edits it.

    Attributes
    ----------
    field
        A field of `ReconstructionForm`, or of the `RunOptions` in it.
    label
        The words on the left; "" for a widget as wide as the form, and None for one beside that of
        the row before.
    make
        Makes the widget.
    is_shown
        Tells whether the form has this row now.
    draw
        Draws what else of the widget depends on the form: its list, its tooltip.
    to_widget, to_field
        Convert the value of the field to that of the widget, and back.
    unusual
        Words a value that is not the default, for the title of the settings.
    """

    field: str
    label: str | None
    make: Callable[[], Any]
    is_shown: Callable[[Form], bool] = lambda _: True
    draw: Callable[[Any, Form], object] = lambda _, __: None
    to_widget: Callable[[Any], Any] = _same
    to_field: Callable[[Any], Any] = _same
    unusual: Callable[[Any], str] = str


# ----------------------------------------------------------------------------- widgets


def _list(tip: str, entries: dict[str, Any] | None = None) -> ChoiceBox:
    box = ChoiceBox(toolTip=tip)
    let_shrink(box, LETTERS)
    for title, value in (entries or {}).items():
        box.addItem(title, value)
    return box


def _photo_list() -> LayerBox:
    box = LayerBox(texts.PHOTO_HINT)
    let_shrink(box, LETTERS)
    return box


def _file(tip: str, kinds: str) -> FileEdit:
    edit = FileEdit(mode=FileDialogMode.EXISTING_FILE, filter=kinds, tooltip=tip)
    edit.native.layout().setContentsMargins(0, 0, 0, 0)
    for part in (edit.line_edit, edit.choose_btn):
        part.native.setToolTip(tip)
    return edit


def _check(text: str, tip: str) -> Callable[[], QCheckBox]:
    return partial(QCheckBox, text, toolTip=tip)


def _percent(tip: str) -> QDoubleSpinBox:
    return QDoubleSpinBox(minimum=1, maximum=150, decimals=0, suffix=" %", toolTip=tip)


def _draw_models(box: ChoiceBox, form: Form) -> None:
    if box.count() != len(form.cards):  # a script may add some
        box.clear()
        for card in form.cards.values():
            # The names are those of errors, scripts and the command line.
            box.add(card.name, card.name, texts.model_help(card))
    box.setToolTip(f"{texts.MODEL_HINT}\n{texts.model_facts(form.chosen_card)}")


def _draw_devices(box: ChoiceBox, form: Form) -> None:
    box.clear()
    for entry in form.devices:
        box.add(entry.title, entry.name, entry.about)
    chosen = form.chosen_device
    box.setToolTip(texts.DEVICE_HINT if chosen is None else chosen.about)


def _needs_camera(form: Form) -> bool:
    return form.needs_camera


def _asks_camera(form: Form) -> bool:
    return form.needs_camera and (form.finding is None or form.finding.capture is None)


ROWS = (
    Row("photo", "Photo", _photo_list),
    Row("card", "Model", partial(_list, texts.MODEL_HINT), draw=_draw_models),
    Row(
        "weights",
        "Weights",
        partial(_file, texts.WEIGHTS_HINT, WEIGHTS_FILES),
        lambda form: not form.chosen_card.file,
    ),
)
"""The rows of the photo and the model."""

CAMERA_ROWS = (
    Row("camera", "Camera", lambda: SearchBox(load_cameras(), texts.CAMERA_HINT), _asks_camera),
    Row(
        "illuminant",
        "Illuminant",
        lambda: SearchBox((ESTIMATED, *load_illuminants()), texts.ILLUMINANT_HINT),
        _asks_camera,
    ),
    Row(
        "is_linear",
        " ",
        _check("8 bits, yet linear", texts.LINEAR_HINT),
        lambda form: form.asks_if_linear,
    ),
)
"""The rows that tell how a linear photo came about."""

COLOUR_ROWS = (
    Row("white", "White", WhiteEdit, _asks_camera),
    Row("is_balanced", None, _check("balanced", texts.BALANCED_HINT), _asks_camera),
    # The patch of an sRGB photo shows its white, but not how bright white is.
    Row("grey", "Grey patch", partial(_percent, texts.GREY_HINT), _needs_camera),
    Row(
        "chart",
        "Chart",
        partial(_list, texts.CHART_KIND_HINT, KINDS),
        lambda form: form.corners is not None,
    ),
)
"""The rows under "Colours off?", for who knows more than the photo shows."""

ASKS = {
    "light": ("Light", texts.FIND_LIGHT_HINT),
    "patch": ("Grey patch", texts.FIND_PATCH_HINT),
    "chart": ("ColorChecker", texts.FIND_CHART_HINT),
    "read": ("Read the squares", texts.READ_CHART_HINT),
    "frames": ("Divide", texts.USE_FRAMES_HINT),
}
"""Titles and tooltips of the buttons that ask the photo itself; the first three are the choices."""

SETTINGS = [
    Row("device", "Device", partial(_list, texts.DEVICE_HINT), draw=_draw_devices),
    Row(
        "memory",
        "Memory",
        partial(
            QDoubleSpinBox,
            maximum=MOST_MEMORY,
            decimals=1,
            singleStep=0.5,
            suffix=" GB",
            specialValueText="automatic",
            toolTip=texts.MEMORY_HINT,
        ),
        # 0 stands for most of what is free, which the options call None.
        to_widget=lambda size: (size or 0) / GIGABYTE,
        to_field=lambda size: round(size * GIGABYTE) or None,
        unusual=lambda size: f"{size / GIGABYTE:g} GB",
    ),
    Row(
        "denoise",
        "Denoise",
        DenoiseBox,
        # napari keeps a text.
        to_field=lambda value: denoising(str(value)),
        unusual=lambda h: "not denoised" if h == "off" else f"denoised with h {h:g}",
    ),
    Row(
        "correct_colour",
        "Colours",
        _check("match the photo", texts.CORRECTION_HINT),
        unusual=lambda _: "colours as estimated",
    ),
]
"""The settings of a run, folded away at first; napari remembers them."""

PHOTO_ROWS = (
    Row(
        "part",
        "Part",
        partial(_list, texts.PART_HINT, PARTS),
        unusual=lambda part: next(title for title in PARTS if PARTS[title] == part),
    ),
    Row(
        "white_frame", "White frame", partial(_file, texts.WHITE_FRAME_HINT, PHOTOS), _needs_camera
    ),
    Row("dark_frame", "Dark frame", partial(_file, texts.DARK_FRAME_HINT, PHOTOS), _needs_camera),
    Row(
        "frame_reflectance",
        "Reflects",
        partial(_percent, texts.FRAME_REFLECTANCE_HINT),
        _needs_camera,
    ),
)
"""The part of the photo and its flat field, which napari does not remember."""


PART = PHOTO_ROWS[0]


def settings_title(form: Form) -> str:
    """Title the folded settings of *form*, with those that are not the usual ones."""
    usual = form.usual
    values = [(row, form.value(row.field)) for row in (*SETTINGS, PART)]
    unusual = (row.unusual(value) for row, value in values if value != usual.value(row.field))
    named = ", ".join(unusual)
    return f"Settings: {named}" if named else "Settings"


def colours_title(form: Form) -> str:
    """Title the folded ways to right the colours of *form*, with what is known of them."""
    if form.finding is not None:
        return "Colours: as measured in the photo"
    return texts.COLOURS_FAR if form.is_far_off else texts.COLOURS


# ----------------------------------------------------------------------------- the form


class FormRows(QWidget):
    """Writes what the user does into *form*, and draws it again while it is listened to.

    `widgets` has the widget of each field.
    """

    def __init__(self, form: Form, viewer: ViewerModel) -> None:
        super().__init__()
        self.form = form
        self.widgets: dict[str, Any] = {}
        self._rows: list[tuple[Row, QFormLayout, QHBoxLayout]] = []
        self._is_drawing = False
        self.about = Paragraph()
        self.asks = {name: QPushButton(title, toolTip=tip) for name, (title, tip) in ASKS.items()}
        self.findings = FindingRows(form, viewer)
        settings, colours = QWidget(), QWidget()
        self._top, folded = _form_layout(), _form_layout(settings)
        self._colours = _form_layout(colours)
        self._add(self._top, ROWS)
        self._top.addRow("", self.about)
        self._add(self._top, CAMERA_ROWS)
        choices = [self.asks[name] for name in ("light", "patch", "chart")]
        self._colours.addRow(fill(QHBoxLayout(), *choices))
        self._add(self._colours, COLOUR_ROWS, self.asks["read"])
        self._colours.addRow(self.findings)
        self._add(folded, SETTINGS)
        self._add(folded, PHOTO_ROWS, self.asks["frames"])
        self.settings = Fold("Settings", settings, texts.SETTINGS_HINT)
        self.colours = Fold(texts.COLOURS, colours, texts.COLOURS_HINT)
        self.settings.button.toggled.connect(self.draw)
        fill(QVBoxLayout(self), self._top, self.settings, self.colours)
        # Filling a list selects its first entry, which is no choice of the user: bind it later.
        self.draw()
        for row, *_ in self._rows:
            changed, _, _ = _access(self.widgets[row.field])
            changed.connect(calling(self._write, row))

    def _add(
        self, layout: QFormLayout, rows: Sequence[Row], button: QPushButton | None = None
    ) -> None:
        """Add *rows*, and a *button* at the end of the last one."""
        for row in rows:
            widget = self.widgets[row.field] = row.make()
            if row.label is None:
                line = self._rows[-1][2]
            else:
                line = QHBoxLayout()
                layout.addRow(*filter(None, [row.label]), line)
            line.addWidget(getattr(widget, "native", widget), 0 if row.label is None else 1)
            self._rows.append((row, layout, line))
        if button is not None:
            line.addWidget(button)

    def links(self) -> list[Link]:
        """See `Dock`."""
        return [(self.form.events, self.draw)]

    def draw(self, _: object = None) -> None:
        """Draw what the form says."""
        self._is_drawing = True
        for row, layout, line in self._rows:
            widget = self.widgets[row.field]
            row.draw(widget, self.form)
            value = row.to_widget(self.form.value(row.field))
            # Showing the same text would move the cursor of a user who is typing.
            _, read, show = _access(widget)
            if read() != value:
                show(value)
            layout.setRowVisible(line, row.is_shown(self.form))
        self.about.setText(texts.model_help(self.form.chosen_card))
        self.about.setToolTip(texts.model_facts(self.form.chosen_card))
        self.findings.draw()
        is_wanted = self.form.may_be_off or self.settings.button.isChecked()
        self.colours.setVisible(is_wanted and self.form.layer is not None)
        self.colours.set_title(colours_title(self.form))
        self.settings.set_title(settings_title(self.form))
        self._is_drawing = False

    def show_photos(self, layers: Sequence[Image]) -> None:
        """List *layers*; the chosen one stays chosen."""
        self._is_drawing = True
        self.widgets["photo"].set_layers(layers, self.form.layer)
        self._is_drawing = False
        # If the chosen layer is gone, the list shows its first one, and the form has to hear of it.
        self._write(ROWS[0])

    def _write(self, row: Row) -> None:
        # A widget that is being drawn has nothing to say.
        if not self._is_drawing:
            _, read, _ = _access(self.widgets[row.field])
            self.form.choose(row.field, row.to_field(read()))


_ACCESS = (
    (QCheckBox, "toggled", "isChecked", "setChecked"),
    (QDoubleSpinBox, "valueChanged", "value", "setValue"),
    (SearchBox, "editTextChanged", "currentText", "setEditText"),
    (WhiteEdit, "textChanged", "value", "show_value"),
    (QLineEdit, "textChanged", "text", "setText"),
    (DenoiseBox, "changed", "value", "show_value"),
    (ChoiceBox, "currentIndexChanged", "currentData", "show_value"),
)
"""Kinds of widgets: the signal of a change, and the methods that read and show a value."""


def _access(widget: Any) -> tuple[Any, Callable[[], Any], Callable[[Any], object]]:
    """Return how *widget* is listened to, read and set."""
    if isinstance(widget, FileEdit):
        # Its own `value` turns an empty path into ".", which is no file.
        widget = widget.line_edit.native
    names = next(names for kind, *names in _ACCESS if isinstance(widget, kind))
    changed, read, show = (getattr(widget, name) for name in names)
    return changed, read, show


def _form_layout(parent: QWidget | None = None) -> QFormLayout:
    growing = QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow
    layout = QFormLayout(parent, fieldGrowthPolicy=growing)
    layout.setContentsMargins(0, 0, 0, 0)
    return layout
