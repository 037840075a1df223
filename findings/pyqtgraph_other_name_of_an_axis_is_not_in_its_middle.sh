#!/bin/bash
# One would guess: the name of an axis of pyqtgraph stands in the middle of the axis, whenever `setLabel` sets it.
# What happens: `AxisItem.setLabel` writes the text, but its place is computed only when the axis gets another size. The first name
# gives it one. A longer name that takes its place, or a first one beside an axis of fixed width, starts where the text before
# did: along the left axis it reaches up from the middle, and on a low plot it is cut at the top.
# What helps: call `axis.resizeEvent()` after `axis.setLabel(...)`; it takes no event.
# Seen with pyqtgraph 0.14.0, PyQt6 6.11.0:
#   a name of 133 pixels is 58 off the middle; after resizeEvent 0.4
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input "pyqtgraph==0.14.0" "pyqt6==6.11.0"
cd "$folder"
cat > label.py <<'PYTHON'
import sys

import pyqtgraph as pg

app = pg.mkQApp()
plot = pg.PlotWidget()
plot.resize(400, 300)
plot.show()
app.processEvents()
axis = plot.getAxis("left")


def off_the_middle():
    name = axis.label.mapRectToParent(axis.label.boundingRect())
    return abs(name.center().y() - axis.size().height() / 2)


for name in ("r", "continuum removed"):
    axis.setLabel(name)
    app.processEvents()
when_set, length = off_the_middle(), axis.label.boundingRect().width()
axis.resizeEvent()
after = off_the_middle()
print(f"pyqtgraph {pg.__version__}: a name of {length:.0f} pixels is {when_set:.0f} off the middle; after resizeEvent {after:.1f}")
sys.exit(not (when_set > length / 4 and after <= 1))
PYTHON
QT_QPA_PLATFORM=offscreen venv/bin/python -W ignore label.py
