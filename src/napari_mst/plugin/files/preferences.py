"""Makes our reader the one that napari takes without a question, from the first use of the plugin.

napari asks for a reader where several plugins read a suffix, and keeps an answer in Preferences >
Plugins. Our reader leaves files that are not ours to napari's own, so where no third plugin reads a
suffix, there is nothing to ask.
"""

import os
from pathlib import Path

from napari.settings import get_settings
from npe2 import PluginManager

PLUGIN, NAPARI = "napari-mst", "napari"


def prefer_own_reader(_: object = None) -> None:
    """Enter our reader for its suffixes and Zarr folders, and napari's for all other folders.

    What a person has chosen stays, and so does the question where a third plugin can be chosen.
    """
    plugins = PluginManager.instance()

    def is_free(example: str) -> bool:
        readers = plugins.iter_compatible_readers(example)
        return {reader.plugin_name for reader in readers} == {PLUGIN, NAPARI}

    readers = plugins.get_manifest(PLUGIN).contributions.readers or []
    patterns = [pattern for reader in readers for pattern in reader.filename_patterns]
    wanted = {pattern: PLUGIN for pattern in patterns if is_free(pattern)}
    if is_free(str(Path(__file__).parent)):
        wanted |= {f"*.zarr{os.sep}": PLUGIN, f"*{os.sep}": NAPARI}
    settings = get_settings().plugins
    settings.extension2reader = {**wanted, **settings.extension2reader}
