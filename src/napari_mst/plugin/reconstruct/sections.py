"""The form as widgets: rows that edit it, sections that fold away, and what a photo has shown."""

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QHBoxLayout,
    QLayout,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_mst.base.errors import shown
from napari_mst.cube.layer import METADATA_KEY
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.setting_rows import (
    ASKS,
    CAMERA_ROWS,
    COLOUR_ROWS,
    EXTENT,
    PHOTO_ROW,
    ROWS,
    SETTINGS,
    Fold,
    Row,
    access,
    facts_of,
    help_of,
)
from napari_mst.plugin.viewer.layer_photos import LayerPhoto, is_made, photo_layers
from napari_mst.plugin.viewer.layers import layer_of_role, weak
from napari_mst.plugin.viewer.sharing import OfViewer, calling
from napari_mst.plugin.viewer.widgets import Paragraph, fill

if TYPE_CHECKING:
    from napari_mst.calibration.light.estimating import LightEstimate


ROLE = "light attention"
"""Marks this layer in its metadata."""
LETTERS = 22
"""Letters of the name of a light that a button shows."""
HINT = (
    "Show as a layer which patches of the photo show the light, through all blocks of the network."
)
CORRECT_WHITE_HINT = (
    "Have the next run make the white of this photo grey first, by the Bradford transform. The "
    "history of the cube says so; untick it to take the photo as it is."
)
FORGET_HINT = "Drop what was found in the photo, and go back to the rows above."


def settings_title(form: ReconstructionForm) -> str:
    """Return the title of the settings, which lists those that differ from the defaults."""
    usual = ReconstructionForm(cards=form.cards, options=type(form.options)())
    values = [(row.label, row.field) for row in (*SETTINGS, EXTENT)]
    changed = [label for label, field in values if form.value(field) != usual.value(field)]
    return f"Settings; changed: {', '.join(changed)}" if changed else "Settings"


def colours_title(form: ReconstructionForm) -> str:
    """Return the title of the fold of colours, which says what is known about them."""
    if form.finding:
        return "Colours: as measured in the photo"
    return f"Colours off?{' White is far from that of daylight.' if form.is_far_off else ''}"


def chosen_line(form: ReconstructionForm) -> str:
    """Name the photo and the model of *form*, whose rows an open fold hides."""
    model = f"Model: {form.card}"
    return model if form.layer is None else f"Photo: {shown(form.layer.name, 40)}. {model}"


class RowsWidget(QWidget):
    """Shows *parts* below each other: rows of *form*, and widgets as wide as the form.

    Writes the user's input into the form, and redraws the form on request. `widgets` has
    the widget of each field.
    """

    def __init__(self, form: ReconstructionForm, *parts: Row | QWidget | QLayout) -> None:
        super().__init__()
        self.form = form
        self.widgets: dict[str, Any] = {}
        self._selected = weak(None)
        self._rows = [part for part in parts if isinstance(part, Row)]
        growing = QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow
        self._layout = QFormLayout(self, fieldGrowthPolicy=growing)
        self._layout.setContentsMargins(0, 0, 0, 0)
        for part in parts:
            if isinstance(part, Row):
                self.widgets[part.field] = part.widget()
                self._layout.addRow(part.label, self.widgets[part.field])
            else:
                self._layout.addRow(part)
        # Filling a list selects its first entry, which the user has not chosen: signals come later.
        self.draw()
        for row in self._rows:
            changed, _, _ = access(self.widgets[row.field])
            changed.connect(calling(self._write, row))

    def draw(self, _: object = None) -> None:
        """Draw what the form says."""
        self._is_drawing = True
        for row in self._rows:
            widget, choices = self.widgets[row.field], row.choices(self.form)
            if choices and widget.count() != len(choices):  # a script may add some
                widget.clear()
                for choice in choices:
                    widget.add(*choice)
            value = row.to_widget(self.form.value(row.field))
            # Showing the same text would move the cursor of a user who is typing.
            _, read, show = access(widget)
            if read() != value:
                show(value)
            self._layout.setRowVisible(widget, not row.when or bool(getattr(self.form, row.when)))
        self._is_drawing = False

    @property
    def count(self) -> int:
        """The number of rows that *form* has use for now."""
        return sum(self._layout.isRowVisible(self.widgets[row.field]) for row in self._rows)

    def show_photos(self, viewer: ViewerModel) -> None:
        """List the photos of *viewer*, and choose the one that the user has just selected.

        Otherwise, the chosen photo stays chosen, and so does one in which something was found.
        """
        layers, active = photo_layers(viewer), viewer.layers.selection.active
        is_news, self._selected = active is not self._selected(), weak(active)
        may_change = not self.form.finding and self.form.corners is None
        # Images of one channel, or made from a photo, may be run, but are rarely meant.
        is_opened = active in layers and active.rgb and not is_made(active)
        is_taken = is_news and may_change and is_opened
        self.form.photos = tuple(weakref.ref(layer) for layer in layers)
        self._is_drawing = True
        self.widgets["photo"].set_layers(layers, active if is_taken else self.form.layer)
        self._is_drawing = False
        # If the chosen layer is gone, the list shows its first layer, and the form must be updated.
        self._write(PHOTO_ROW)

    def _write(self, row: Row) -> None:
        # A widget that is being drawn is not being edited.
        if not self._is_drawing:
            _, read, _ = access(self.widgets[row.field])
            with suppress(ValueError):
                self.form.choose(row.field, row.to_field(read()))


class FormRows(QWidget):
    """All rows of *form*: photo, model and camera, and the rows that are folded away at first.

    A fold that is open is shown alone.

    `widgets` has the widget of each field, and `asks` the buttons that ask the photo itself.
    """

    def __init__(self, form: ReconstructionForm, viewer: ViewerModel) -> None:
        super().__init__()
        self.form = form
        self.about, self.chosen = Paragraph(), Paragraph()
        self.findings = FindingRows(form, viewer)
        self.asks = {name: QPushButton(title, toolTip=tip) for name, (title, tip) in ASKS.items()}
        choices = fill(QHBoxLayout(), *(self.asks[name] for name in ("light", "patch", "chart")))
        self.top = RowsWidget(form, *ROWS, self.about, *CAMERA_ROWS)
        self._settings = RowsWidget(form, *SETTINGS, EXTENT)
        self._colours = RowsWidget(form, choices, *COLOUR_ROWS, self.asks["read"], self.findings)
        self.widgets: dict[str, Any] = {}
        for rows in (self.top, self._settings, self._colours):
            self.widgets |= rows.widgets
        self.settings = Fold(
            self._settings,
            "Where and how exactly a run computes. napari remembers these choices; they are in its "
            "Preferences, too.",
        )
        self.colours = Fold(
            self._colours,
            "Let the photo itself show its light, its white or its colours: by all of its pixels, "
            "by a grey patch, or by a ColorChecker.",
        )
        for fold in (self.settings, self.colours):
            fold.button.toggled.connect(self.draw)
        fill(QVBoxLayout(self), self.top, self.chosen, self.settings, self.colours)
        self.draw()

    def draw(self, _: object = None) -> None:
        """Draw what the form says."""
        form = self.form
        for rows in (self.top, self._settings, self._colours):
            rows.draw()
        self.about.setText(form.reason or help_of(form.chosen_card))
        self.about.setToolTip(facts_of(form.chosen_card))
        for name, button in self.asks.items():
            button.setVisible(form.corners is not None if name == "read" else form.may_ask)
        self.findings.draw()
        # An open fold takes the place of all other rows, so a page never has too much to look at.
        has_settings, has_photo = self.settings.button.isChecked(), form.layer is not None
        has_colours = has_photo and not has_settings and self.colours.button.isChecked()
        self.top.setHidden(has_settings or has_colours)
        self.chosen.setVisible(has_settings or has_colours)
        self.chosen.setText(chosen_line(form))
        self.settings.setHidden(has_colours)
        self.colours.setVisible(has_photo and not has_settings)
        self.colours.button.setText(colours_title(form))
        self.settings.button.setText(settings_title(form))


def show_attention(viewer: ViewerModel, photo: Image, light: "LightEstimate") -> None:
    """Show as a layer over *photo* where its *light* was seen, through all blocks."""
    values = light.attention_map
    layer = layer_of_role(viewer, ROLE)
    if layer is not None:
        viewer.layers.remove(layer)
    # Patches divide the photo evenly.
    place = LayerPhoto.of(photo, viewer.dims.point).placement_of(values.shape)
    viewer.add_image(
        values,
        **place.image_kwargs(),
        name=f"Light seen here: {photo.name}",
        colormap="inferno",
        opacity=0.7,
        metadata={METADATA_KEY: ROLE},
    )


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
            show_attention(self.viewer, layer, finding.light)

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
