"""Choices that napari remembers of this plugin between sessions.

napari keeps them in a file of its own beside its settings, and lists them in its Preferences. The
manifest `napari.yaml` declares them, in sections, with their defaults.
"""

from typing import Any

from napari.settings import get_plugin_settings

PLUGIN = "napari-mst"


def section(name: str) -> Any:
    """Return a section: an evented record that is written to its file when it is changed.

    Raises
    ------
    KeyError
        If the plugin is switched off in napari.
    """
    return getattr(get_plugin_settings(PLUGIN), name)
