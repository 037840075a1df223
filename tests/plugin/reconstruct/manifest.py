"""The preferences in `napari.yaml` of the settings of a run, which are made from their rows.

python -m tests.plugin.reconstruct.manifest    # writes them into the file
"""

import json
import re
from pathlib import Path
from typing import Any, get_type_hints

from qtpy.QtWidgets import QApplication, QCheckBox, QDoubleSpinBox

import napari_mst
from napari_mst.option import Option
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.rows import SETTINGS, Row

FILE = Path(napari_mst.__file__).with_name("napari.yaml")
TYPES = {bool: "boolean", float: "number", str: "string"}
"""The types of what is kept, as `napari.yaml` calls them."""


def option_of(form: ReconstructionForm, row: Row) -> Option:
    """The words of the option of *row*; none for a field of the form itself."""
    hint = get_type_hints(type(form.options), include_extras=True).get(row.field)
    words: Option = getattr(hint, "__metadata__", (Option(""),))[0]
    return words


def preference(row: Row, form: ReconstructionForm | None = None) -> dict[str, Any]:
    """The property of *row*, with the words of its widget."""
    form, widget = form or ReconstructionForm(), row.widget()
    default, option = row.to_widget(form.value(row.field)), option_of(form, row)
    found: dict[str, Any] = {"type": TYPES[type(default)], "default": default}
    title, about = row.label, widget.toolTip()
    if isinstance(default, str):
        about += f" Write {option.metavar or option.help}."
    if isinstance(widget, QCheckBox):
        title = widget.text().capitalize()
    if isinstance(widget, QDoubleSpinBox):
        found |= {"minimum": widget.minimum(), "maximum": widget.maximum()}
        title = f"{title} ({widget.suffix().strip()})"
        about = f"{about} {widget.minimum():g} is {widget.specialValueText()}."
    return {**found, "title": title, "description": about}


def written(text: str) -> str:
    """The *text* of `napari.yaml` with the properties of all rows."""
    lines = []
    for row in SETTINGS:
        lines.append(f"        {row.field}:\n")
        # JSON is YAML.
        lines += [f"          {key}: {json.dumps(it)}\n" for key, it in preference(row).items()]
    section = r"(    reconstruction:\n      title: .*\n      properties:\n)(        .*\n)+"
    return re.sub(section, lambda found: found[1] + "".join(lines), text)


if __name__ == "__main__":
    application = QApplication([])
    FILE.write_text(written(FILE.read_text("utf-8")), "utf-8")
