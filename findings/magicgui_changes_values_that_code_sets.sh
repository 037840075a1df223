#!/bin/bash
# One would guess: a widget of magicgui has the value that code gives it, or raises, as it does for a number out of range.
# What happens, without a word: (1) FloatSpinBox rounds to the decimals of its step: a noise of 1.2e-4 becomes 0, with the default step
# and with step=0.01; FloatSlider keeps it. (2) FileEdit for several files joins their paths by commas and parts them there again: two
# files, one of them "soil, wet.hdr", become three that do not exist. (3) LineEdit makes the text "None" of None.
# Seen with magicgui 0.10.2, PyQt6 6.11.0:
#   FloatSpinBox(value=0.00012): 0.0
#   FloatSlider(value=0.00012): 0.00012
#   FileEdit of two files: ['soil', 'wet.hdr', 'leaf.hdr']
#   LineEdit(value=None): 'None'
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q magicgui==0.10.2 pyqt6==6.11.0 qtpy==2.4.3
cat > "$work/try.py" <<'PY'
from magicgui.widgets import FileEdit, FloatSlider, FloatSpinBox, LineEdit
from qtpy.QtWidgets import QApplication

application = QApplication([])
print(f"FloatSpinBox(value=0.00012): {FloatSpinBox(value=0.00012).value}")
print(f"FloatSlider(value=0.00012): {FloatSlider(value=0.00012, min=0, max=1).value}")
files = FileEdit(mode="rm", value=["soil, wet.hdr", "leaf.hdr"]).value
print(f"FileEdit of two files: {[path.name for path in files]}")
print(f"LineEdit(value=None): {LineEdit(value=None).value!r}")
PY
cd "$work"
QT_QPA_PLATFORM=offscreen venv/bin/python try.py | tee seen
cat > expected <<'END'
FloatSpinBox(value=0.00012): 0.0
FloatSlider(value=0.00012): 0.00012
FileEdit of two files: ['soil', 'wet.hdr', 'leaf.hdr']
LineEdit(value=None): 'None'
END
diff expected seen
