"""Remembers the settings of a reconstruction between sessions."""

from functools import partial
from typing import Any

from napari.components import ViewerModel

from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.viewer.remembered import section

REMEMBERED = (
    "device",
    "precision",
    "memory",
    "denoise",
    "denoise_h",
    "has_correction",
    "has_quality",
    "is_ensemble",
)
"""The fields of the form that are remembered; `napari.yaml` lists them with their defaults."""


def remembered() -> Any:
    """Return what napari remembers: an evented record that is written when it is changed."""
    return section("reconstruction")


def new_form(_: ViewerModel) -> ReconstructionForm:
    """Make a form with the settings of the last session, whose changes are remembered."""
    form = ReconstructionForm()
    recall(form)
    for name in REMEMBERED:
        form.events[name].connect(partial(_remember, name))
    return form


def recall(form: ReconstructionForm) -> None:
    """Give *form* the settings that are remembered, which Preferences may have changed."""
    kept = remembered()
    for name in REMEMBERED:
        setattr(form, name, getattr(kept, name))


def _remember(name: str, value: object) -> None:
    setattr(remembered(), name, value)
