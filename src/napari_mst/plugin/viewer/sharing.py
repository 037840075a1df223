"""Objects that each viewer has one of: made when first needed, gone with the viewer; and slots."""

import weakref
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast
from weakref import WeakMethod

from napari.components import ViewerModel
from napari.utils.notifications import show_error

from napari_mst.errors import plain

State = TypeVar("State")

# Events of napari hold bound methods weakly, so this is what keeps those who listen.
_shared = weakref.WeakKeyDictionary[ViewerModel, dict[Callable[..., Any], Any]]()


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
        """True if *layer* is in the viewer, and the viewer still there."""
        viewer = self._viewer_ref()
        return viewer is not None and layer in viewer.layers

    @classmethod
    def of(cls, viewer: ViewerModel) -> Self:
        """Return the helper of *viewer*, made on first use."""
        return shared(viewer, cls)


def calling(method: Callable[..., object], *arguments: Any) -> Callable[..., None]:
    """Make a slot that calls *method* with *arguments*, and ignores those of the signal.

    It does not keep the object of *method* alive, and does nothing once that is gone. All bindings
    of Qt treat it alike. PySide6 hands a partial even what it does not take, and keeps a partial or
    a lambda, with all that it holds, for as long as the widget that it is connected to.
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
