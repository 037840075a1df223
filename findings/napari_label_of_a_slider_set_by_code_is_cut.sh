#!/bin/bash
# One would guess: the label beside a slider of napari is as wide as its text, whether a person types it or a plugin sets
# `viewer.dims.axis_labels`.
# What happens: a label that is typed is measured; one that the model sets is not, as napari blocks the signals of the line
# while it writes there. A plugin that writes "550 nm" into a fresh label of "-3" has it drawn as an ellipsis, also after the
# slider was moved, until something else changes the width of the slider: a dock, the size of the window.
# What helps: emit the signal of the lines yourself, `for line in main.findChildren(QLineEdit, "axis_label"):
# line.textChanged.emit(line.text())`, a moment after the label was set.
# Seen with napari 0.9.2, PyQt6 6.11.0:
#   set by code: 36 pixels wide, the text needs 46; after the signal: 70
# Needs a display: xvfb-run is used where there is none.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input "napari==0.9.2" "pyqt6==6.11.0"
cd "$folder"
cat > label.py <<'PYTHON'
import os
import sys
import time

os.environ["NAPARI_CONFIG"] = os.path.join(os.getcwd(), "settings.yaml")
import napari
import numpy as np
from qtpy.QtWidgets import QApplication, QLineEdit

viewer = napari.Viewer()
viewer.add_image(np.zeros((31, 40, 60), np.float32))


def settle():
    end = time.time() + 2
    while time.time() < end:
        QApplication.processEvents()
        time.sleep(0.01)


settle()
main = viewer.window.main_menu.parentWidget()
(line,) = [each for each in main.findChildren(QLineEdit, "axis_label") if each.isVisible()]
viewer.dims.axis_labels = ("550 nm", "y", "x")
settle()
needed, by_code = line.fontMetrics().horizontalAdvance("550 nm"), line.width()
line.textChanged.emit(line.text())
settle()
print(f"napari {napari.__version__}: set by code {by_code} pixels wide, the text needs {needed}; after the signal {line.width()}")
is_as_seen = by_code < needed < line.width()
viewer.close()
sys.exit(not is_as_seen)
PYTHON
[ -n "$DISPLAY" ] && exec venv/bin/python -W ignore label.py
xvfb-run -a venv/bin/python -W ignore label.py
