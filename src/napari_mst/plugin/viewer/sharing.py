"""Objects that each viewer has one of: made when they are first needed, gone with the viewer."""

import weakref
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

from napari.components import ViewerModel

State = TypeVar("State")

# Events of napari hold bound methods weakly, so this is what keeps those who listen.
_shared: "weakref.WeakKeyDictionary[ViewerModel, dict[Callable[..., Any], Any]]" = (
    weakref.WeakKeyDictionary()
)


def shared(viewer: ViewerModel, make: Callable[..., State], *arguments: object) -> State:
    """Return what *make* makes of *viewer* and *arguments*: made on the first call, and then kept.

    Everybody who asks for it gets the same object. It must not hold the viewer, which would then
    never be freed.
    """
    viewer = unwrapped(viewer)
    states = _shared.setdefault(viewer, {})
    if make not in states:
        states[make] = make(viewer, *arguments)
    state: State = states[make]
    return state


def unwrapped(viewer: ViewerModel) -> ViewerModel:
    """Return the viewer behind the proxy that docks get from napari, which is not held weakly."""
    return getattr(viewer, "__wrapped__", viewer)


class ViewerHelper:
    """The base of what each viewer has one of: it finds its viewer, and does not keep it alive.

    Events, keys and docks of the viewer call it, so the viewer is there when its methods run. Only
    a job may end after the viewer was closed: ask `has` first.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer_ref = weakref.ref(unwrapped(viewer))

    @property
    def viewer(self) -> ViewerModel:
        """The viewer that it helps."""
        return cast(ViewerModel, self._viewer_ref())

    def has(self, layer: object) -> bool:
        """Tell whether *layer* is in the viewer, and the viewer still there."""
        viewer = self._viewer_ref()
        return viewer is not None and layer in viewer.layers

    @classmethod
    def of(cls, viewer: ViewerModel) -> Self:
        """Return the helper of *viewer*, made on first use."""
        return shared(viewer, cls)
