"""Choices that napari remembers of this plugin between sessions.

napari keeps them in a file of its own beside its settings, and lists them in its Preferences. The
manifest `napari.yaml` declares them, in sections, with their defaults.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from napari.settings import get_plugin_settings
from npe2 import PluginManager

SECTION = "pictures"
"""The section of `napari.yaml`, which has a property for each field of `PictureChoices`."""


@dataclass
class PictureChoices:
    """The choices in the bar on the image.

    Attributes
    ----------
    light, is_adapted
        The light that new cubes are rendered under, as in `Colours`.
    has_own_contrast
        Whether each band has a contrast of its own.
    has_own_colour
        Whether each band has the colour of its wavelength.
    """

    light: str = ""
    is_adapted: bool = True
    has_own_contrast: bool = True
    has_own_colour: bool = False


def picture_choices() -> Any:
    """Return a record with the fields of `PictureChoices`; napari keeps what is set in it."""
    try:
        return section(SECTION)
    except KeyError:
        return PictureChoices()


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
