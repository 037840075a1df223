#!/bin/bash
# One would guess: `viewer.open(path)` in a script opens a file as dropping it on the window does: with the reader that a
# person has chosen for the suffix in the Preferences, or with the only plugin that reads it.
# What happens: `plugin` is "napari" by default, and not None. A reader that is preferred for the suffix is passed over in
# silence in favour of napari's own, which may make another layer of the file. For a suffix that only a plugin reads, the
# call fails, though the message names that plugin as available.
# What helps: viewer.open(path, plugin=None), or the name of the plugin. No manifest can change the default.
# Seen with napari 0.9.2, npe2 0.10.0:
#   scene.tif, preferred reader "cubes": by default ['scene'], with plugin=None ['by the plugin']
#   scene.cube, only reader "cubes": by default ValueError, with plugin=None ['by the plugin']
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input "napari==0.9.2" "npe2==0.10.0"
cd "$folder"
cat > open.py <<'PYTHON'
import os
import sys

os.environ["NAPARI_CONFIG"] = os.path.join(os.getcwd(), "settings.yaml")
import napari
import npe2
import numpy as np
import tifffile
from napari.components import ViewerModel
from napari.settings import get_settings

npe2.PluginManager.instance().discover()
tifffile.imwrite("scene.tif", np.zeros((4, 5), np.uint8))
open("scene.cube", "wb").close()


def opened(name, **options):
    try:
        return [layer.name for layer in ViewerModel().open(name, **options)]
    except ValueError:
        return "ValueError"


with npe2.DynamicPlugin("cubes") as plugin:

    @plugin.contribute.reader(filename_patterns=["*.tif", "*.cube"])
    def reader_of(path):
        return lambda _: [(np.ones((31, 4, 5)), {"name": "by the plugin"}, "image")]

    get_settings().plugins.extension2reader = {"*.tif": "cubes"}
    found = {name: (opened(name), opened(name, plugin=None)) for name in ("scene.tif", "scene.cube")}

print(f"napari {napari.__version__}, npe2 {npe2.__version__}")
for name, (by_default, by_none) in found.items():
    print(f"{name}: by default {by_default}, with plugin=None {by_none}")
ours = ["by the plugin"]
sys.exit(found != {"scene.tif": (["scene"], ours), "scene.cube": ("ValueError", ours)})
PYTHON
venv/bin/python -W ignore open.py 2> errors.txt || { cat errors.txt; exit 1; }
