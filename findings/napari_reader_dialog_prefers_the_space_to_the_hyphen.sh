#!/bin/bash
# One would guess: for a file that only one plugin names in its manifest, napari's dialog "Choose reader" preselects that
# plugin, or at least the first that npe2 finds.
# What happens: the dialog sorts the readers by their display names and preselects the first. napari's own reader, which
# names every file, is called "napari builtins"; a space comes before a hyphen, so it stands above every plugin whose display
# name is its package name, "napari-...". Enter then takes a reader that cannot read the file.
# What helps: a `display_name` that sorts before "napari ", such as one that begins with a capital letter.
# Seen with napari 0.9.2, npe2 0.10.0:
#   napari-zeta beside napari builtins: preselected "napari builtins"; with the display name "Zeta cubes": "Zeta cubes"
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input "napari==0.9.2" "npe2==0.10.0" "pyqt6==6.11.0"
cd "$folder"
QT_QPA_PLATFORM=offscreen NAPARI_CONFIG="$folder/settings.yaml" venv/bin/python -W ignore - <<'PYTHON'
import sys
from importlib.metadata import version

import napari
from napari._qt.dialogs.qt_reader_dialog import QtReaderDialog
from napari.plugins._npe2 import get_readers
from npe2 import DynamicPlugin, PluginManager
from qtpy.QtWidgets import QApplication

application = QApplication([])
PluginManager.instance().discover()
chosen = []
for display_name in ("napari-zeta", "Zeta cubes"):
    with DynamicPlugin("napari-zeta", plugin_manager=PluginManager.instance()) as plugin:
        plugin.manifest.display_name = display_name

        @plugin.contribute.reader(filename_patterns=["*.hdr"])
        def reader(path):
            return None

        dialog = QtReaderDialog(pth="cube.hdr", readers=get_readers("cube.hdr"))
        chosen.append(dialog.reader_btn_group.checkedButton().text())
print("napari", napari.__version__, "npe2", version("npe2"), "preselected:", chosen)
sys.exit(chosen != ["napari builtins", "Zeta cubes"])
PYTHON
