"""Choices that napari remembers of this plugin between sessions.

napari keeps them in a file of its own beside its settings, and lists them in its Preferences. The
manifest `napari.yaml` declares them, in sections, with their defaults.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from napari.settings import get_plugin_settings
from npe2 import PluginManager

PLUGIN = "napari-mst"


def section(name: str) -> Any:
    """Return a section: an evented record that is written to its file when it is changed.

    Raises
    ------
    KeyError
        If the plugin is switched off in napari.
    """
    with _no_second_search():
        return getattr(get_plugin_settings(PLUGIN), name)


@contextmanager
def _no_second_search() -> Iterator[None]:
    """Keep napari from reading the manifests of all plugins again, if it knows ours already.

    It does so when somebody asks for such choices first, which holds up the window for 100 ms.
    """
    plugins = PluginManager.instance()
    if not any(manifest.name == PLUGIN for manifest in plugins.iter_manifests()):
        yield
        return
    with patch.object(plugins, "discover"):
        yield
