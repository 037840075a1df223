#!/bin/bash
# One would guess: `napari.utils.theme.get_theme` gives a copy "so that manipulating this theme can be done without side effects", as
# its docstring says: a plugin may give the copy a white background, say for a figure on paper, and the viewer stays as it is.
# What happens: the copy shares the events of the original. Setting a colour tells napari that its theme has changed, and a viewer
# that had been switched to another theme than that of the preferences goes back to it: a light viewer turns dark.
# What helps: `get_theme("light").model_copy(update={"background": ...})`, which sets no attribute.
# Seen with napari 0.9.2, PyQt6 6.11.0:
#   viewer before: light, after: dark; the registered background is unchanged: True
#   with model_copy(update=...): light
# Needs a display: xvfb-run is used where there is none.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-input "napari==0.9.2" "pyqt6==6.11.0"
cd "$folder"
cat > theme.py <<'PYTHON'
import os
import time

os.environ["NAPARI_CONFIG"] = os.path.join(os.getcwd(), "settings.yaml")
import napari
from napari.utils.theme import get_theme
from qtpy.QtWidgets import QApplication

viewer = napari.Viewer()


def settle():
    end = time.time() + 1
    while time.time() < end:
        QApplication.processEvents()
        time.sleep(0.01)


viewer.theme = "light"
settle()
before, stored = viewer.theme, get_theme("light").background.as_hex()
copy = get_theme("light")
copy.background = "white"
settle()
same = get_theme("light").background.as_hex() == stored
print(f"viewer before: {before}, after: {viewer.theme}; the registered background is unchanged: {same}")
viewer.theme = "light"
settle()
get_theme("light").model_copy(update={"background": type(copy.background)("white")})
settle()
print(f"with model_copy(update=...): {viewer.theme}")
viewer.close()
PYTHON
run=""
[ -n "${DISPLAY:-}" ] || run="xvfb-run --auto-servernum"
$run venv/bin/python -W ignore theme.py 2>/dev/null | tee seen
cat > expected <<'END'
viewer before: light, after: dark; the registered background is unchanged: True
with model_copy(update=...): light
END
diff expected seen
