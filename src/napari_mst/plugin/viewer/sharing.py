"""Objects that each viewer has one of, slots, and choices that napari remembers between sessions.

An object of a viewer is made when it is first needed, and goes with the viewer. napari keeps the
choices in a file of its own beside its settings, and lists them in its Preferences. The manifest
`napari.yaml` declares them, in sections, with their defaults.
"""

import weakref
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Self, TypeVar, cast
from unittest.mock import patch
from weakref import WeakMethod

from napari.components import ViewerModel
from napari.settings import get_plugin_settings
from napari.utils.notifications import show_error
from npe2 import PluginManager

from napari_mst.base.errors import plain

SharedState = TypeVar("SharedState")

# napari's events hold bound methods weakly, so this dictionary keeps the listeners alive.
_shared = weakref.WeakKeyDictionary[ViewerModel, dict[Callable[..., Any], Any]]()


def shared(
    viewer: ViewerModel, make: Callable[..., SharedState], *arguments: object
) -> SharedState:
    """Return what *make* makes of *viewer* and *arguments*: made on the first call, and then kept.

    Everybody who asks for it gets the same object. It must not hold the viewer, which would then
    never be freed.
    """
    viewer = unwrapped(viewer)
    states = _shared.setdefault(viewer, {})
    if make not in states:
        states[make] = make(viewer, *arguments)
    return states[make]


def unwrapped(viewer: ViewerModel) -> ViewerModel:
    """Return the viewer behind the proxy that docks get from napari, which is not held weakly."""
    return getattr(viewer, "__wrapped__", viewer)


class OfViewer:
    """Finds its viewer, and does not keep it alive.

    Events, keys and docks of the viewer call it, so the viewer is there when its methods run. Only
    a job may end after the viewer was closed: ask `has` first.
    """

    _viewer_ref: "weakref.ref[ViewerModel]"

    @property
    def viewer(self) -> ViewerModel:
        """The viewer that it is of."""
        return cast(ViewerModel, self._viewer_ref())

    def has(self, layer: object) -> bool:
        """True if *layer* is in the viewer, and the viewer still there."""
        viewer = self._viewer_ref()
        return viewer is not None and layer in viewer.layers


class ViewerHelper(OfViewer):
    """The base of what each viewer has one of."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer_ref = weakref.ref(unwrapped(viewer))

    @classmethod
    def of(cls, viewer: ViewerModel) -> Self:
        """Return the helper of *viewer*, made on first use."""
        return shared(viewer, cls)


def calling(method: Callable[..., object], *arguments: Any) -> Callable[..., None]:
    """Make a slot that calls *method* with *arguments*, and ignores the signal's arguments.

    The slot does not keep the object of *method* alive, and does nothing once it is deleted. All
    bindings of Qt treat it alike. PySide6 hands a partial even what it does not take, and keeps a
    partial or a lambda, with all that it holds, for as long as the widget that it is connected to.
    """
    reference = WeakMethod(method)

    def slot(*_: object) -> None:
        present = reference()
        if present is not None:
            present(*arguments)

    return slot


def report(error: Exception, *_: object) -> None:
    """Show the user the sentence of *error*."""
    show_error(plain(error))


SECTION = "pictures"
"""A section of `napari.yaml`."""


def picture_choices() -> Any:
    """Return the record of the choices in the bar on the image; napari keeps what is set in it.

    `light` is the light that new cubes are rendered under, as in `Colours`. `has_own_contrast`
    says whether each band has a contrast of its own, and `has_tinted_bands` whether it has the
    colour of its wavelength.
    """
    try:
        return section(SECTION)
    except KeyError:
        return SimpleNamespace(light="", has_own_contrast=True, has_tinted_bands=False)


PLUGIN = "napari-mst"


def section(name: str) -> Any:
    """Return a section: an evented record that is written to its file when it is changed.

    Raises
    ------
    KeyError
        If the plugin is switched off in napari.
    """
    plugins = PluginManager.instance()
    is_known = any(manifest.name == PLUGIN for manifest in plugins.iter_manifests())
    # On the first call, napari reads the manifests of all plugins again, which would hold up the
    # window for 100 ms.
    with patch.object(plugins, "discover") if is_known else nullcontext():
        return getattr(get_plugin_settings(PLUGIN), name)
