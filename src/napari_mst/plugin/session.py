"""Everything that the docks of one viewer share, and what becomes of a finished job.

Results are shown here rather than in a dock, since the dock may be hidden or closed by then.
"""

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from napari.components import ViewerModel
from napari.utils.notifications import show_error

from napari_mst.errors import NapariMstError
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.jobs.request import Request
from napari_mst.plugin.jobs.results import Results
from napari_mst.plugin.jobs.worker import start_job
from napari_mst.plugin.jobs.workspace import Start, Workspace

# No workspace and no `Results` may hold its viewer: that would keep the entry, and both, for ever.
# `Results` stands here because the signals of its workspace hold its methods only weakly.
_sessions: "weakref.WeakKeyDictionary[ViewerModel, tuple[Workspace, Results]]" = (
    weakref.WeakKeyDictionary()
)
_shared: "weakref.WeakKeyDictionary[ViewerModel, dict[Callable[..., Any], Any]]" = (
    weakref.WeakKeyDictionary()
)

State = TypeVar("State")


def shared(viewer: ViewerModel, make: Callable[[ViewerModel], State]) -> State:
    """Return what *make* makes of *viewer*: on the first call it is made, and then kept.

    All docks of a viewer that ask for it get the same object, which must not hold the viewer.
    """
    viewer = unwrapped(viewer)
    states = _shared.setdefault(viewer, {})
    if make not in states:
        states[make] = make(viewer)
    state: State = states[make]
    return state


def unwrapped(viewer: ViewerModel) -> ViewerModel:
    """The viewer behind the proxy that napari gives to docks; a proxy cannot be held weakly."""
    return getattr(viewer, "__wrapped__", viewer)


def workspace_of(viewer: ViewerModel, start: Start = start_job) -> Workspace:
    """Return the workspace of *viewer*, made on first use; *start* starts its jobs."""
    viewer = unwrapped(viewer)
    if viewer not in _sessions:
        _sessions[viewer] = _new_session(viewer, start)
        attend(viewer)
    workspace, _ = _sessions[viewer]
    return workspace


def _new_session(viewer: ViewerModel, start: Start) -> tuple[Workspace, Results]:
    workspace = Workspace(start)
    results = Results(viewer)
    workspace.preview_ready.connect(results.add)
    workspace.cube_ready.connect(results.add)
    workspace.made.connect(partial(_show_made, weakref.ref(viewer)))
    workspace.failed.connect(_notify)
    return workspace, results


def _notify(error: NapariMstError) -> None:
    show_error(str(error))


def _show_made(viewer_ref: "weakref.ref[ViewerModel]", made: object, request: Request) -> None:
    """Let the job of *request* show what it has *made*."""
    viewer = viewer_ref()
    if viewer is not None and request.job is not None and request.job.show is not None:
        request.job.show(viewer, made, request)
