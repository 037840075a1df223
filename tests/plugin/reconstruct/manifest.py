"""The preferences in `napari.yaml` of the settings of a run, which are made from their rows.

python -m tests.plugin.reconstruct.manifest    # writes them into the file
"""

import json
import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from qtpy.QtWidgets import QApplication, QCheckBox, QDoubleSpinBox

import napari_mst
from napari_mst.cli.arguments import add_arguments
from napari_mst.plugin.reconstruct.form import ReconstructionForm
from napari_mst.plugin.reconstruct.setting_rows import SETTINGS, Row

FILE = Path(napari_mst.__file__).with_name("napari.yaml")
TYPES = {bool: "boolean", float: "number", str: "string"}
"""The types of what is kept, as `napari.yaml` calls them."""


def words_of(form: ReconstructionForm, row: Row) -> str:
    """What the text of an option of a run may be; "" for a field of the form itself."""
    parser = ArgumentParser()
    add_arguments(parser, type(form.options))
    options = {each.dest: each for each in parser._actions}
    option = options.get(row.field)
    return "" if option is None else str(option.metavar or option.help).partition(" (default")[0]


def preference(row: Row, form: ReconstructionForm | None = None) -> dict[str, Any]:
    """The property of *row*, with the words of its widget."""
    form, widget = form or ReconstructionForm(), row.widget()
    default = row.to_widget(form.value(row.field))
    found: dict[str, Any] = {"type": TYPES[type(default)], "default": default}
    title, about = row.label, widget.toolTip()
    words = words_of(form, row)
    if isinstance(default, str) and words:
        about += f" Write {words}."
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
