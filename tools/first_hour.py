"""Do in napari what a newcomer does first: `python tools/first_hour.py FOLDER`, with a display.

The sample runs, its cube is saved as ENVI and TIFF in FOLDER, each map of it is made and every dock
opens. In an environment of napari, a binding of Qt and the wheel, this shows that the dependencies
of the wheel suffice, for napari's own plugin manager installs nothing else. CI does so each night.
"""

import sys
from pathlib import Path

import demo
import napari
from napari.utils.notifications import NotificationSeverity, notification_manager
from npe2 import PluginManager

from napari_mst import maps as kinds
from napari_mst import read_cube
from napari_mst.plugin.spectra.model_dock import SharedSpectraModel
from napari_mst.plugin.viewer.sharing import PLUGIN


def main(out: Path) -> None:
    """Do all of it, and end with what failed."""
    out.mkdir(parents=True, exist_ok=True)
    viewer = napari.Viewer()
    demo.reconstruct(viewer, out)
    for name in ("cube.hdr", "cube.tif"):
        print(f"{name}: {read_cube(out / name)}")
    make_maps(viewer)
    open_docks(viewer)
    errors = [
        record.message
        for record in notification_manager.records
        if record.severity >= NotificationSeverity.WARNING
    ]
    viewer.close()
    if errors:
        raise SystemExit("\n".join(errors))


def make_maps(viewer: napari.Viewer) -> None:
    """Make each map that one cube and its photo suffice for."""
    maps = SharedSpectraModel.of(viewer).maps
    for name, kind in kinds.MAPS.items():
        if kind.needs == "reference":
            continue
        before = len(viewer.layers)
        maps.choose(name)
        maps.run()
        demo.wait_until(lambda: not maps.is_busy)
        print(f"map {name}: {len(viewer.layers) - before} new layers")
        if len(viewer.layers) == before:
            raise SystemExit(f"Expected a map {name}, got none.")


def open_docks(viewer: napari.Viewer) -> None:
    """Open every dock that the plugin lists."""
    for dock in PluginManager.instance().get_manifest(PLUGIN).contributions.widgets or []:
        _, widget = viewer.window.add_plugin_dock_widget(PLUGIN, dock.display_name)
        demo.wait_until(widget.isVisible)
        print(f"dock {dock.display_name}: open")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
