"""Objects that each viewer has one of: made when somebody asks first, gone with the viewer."""

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

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
