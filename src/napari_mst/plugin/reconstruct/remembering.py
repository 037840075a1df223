"""Remembers the settings of a reconstruction from one session to the next."""

from functools import partial
from typing import Any, get_type_hints

from napari.components import ViewerModel
from napari.utils.notifications import show_warning

from napari_mst.option import Option
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.rows import SETTINGS, Row
from napari_mst.plugin.viewer.remembered import section


def remembered() -> Any:
    """Return what napari remembers: an evented record that is written when it is changed."""
    return section("reconstruction")


def new_form(_: ViewerModel) -> ReconstructionForm:
    """Make a form with the settings of the last session, whose changes are remembered."""
    form = ReconstructionForm()
    recall(form)
    for changed in (form.events.options, form.events.has_quality):
        changed.connect(partial(_remember, form))
    return form


def recall(form: ReconstructionForm) -> None:
    """Give *form* the settings that are remembered, which Preferences may have changed."""
    kept = remembered()
    for row in SETTINGS:
        value = getattr(kept, row.field)
        parse = option_of(form, row).parse if isinstance(value, str) else None
        try:
            form.choose(row.field, parse(value) if parse else row.to_field(value))
        except ValueError as error:
            show_warning(str(error))


def _remember(form: ReconstructionForm, *_: object) -> None:
    kept = remembered()
    for row in SETTINGS:
        value = kept_value(form, row)
        # Each write goes to a file.
        if getattr(kept, row.field) != value:
            setattr(kept, row.field, value)


def kept_value(form: ReconstructionForm, row: Row) -> bool | float | str:
    """Return the value of *row* as it is kept: yes or no, a number, or the text of both."""
    value = row.to_widget(form.value(row.field))
    is_text = isinstance(row.to_widget(form.usual.value(row.field)), str)
    return f"{value}" if is_text else value


def option_of(form: ReconstructionForm, row: Row) -> Option:
    """Return the words of the option of *row*; without words for a field of the form itself."""
    hint = get_type_hints(type(form.options), include_extras=True).get(row.field)
    words: Option = getattr(hint, "__metadata__", (Option(""),))[0]
    return words
