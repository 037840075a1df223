"""Everything that the docks of one viewer share, and what becomes of a finished job.

Results are shown here rather than in a dock, since the dock may be hidden or closed by then.
"""

import weakref
from functools import partial

from napari.components import ViewerModel
from napari.utils.notifications import show_error

from napari_mst.errors import NapariMstError
from napari_mst.plugin.files.recognising import attend
from napari_mst.plugin.jobs.request import Request
from napari_mst.plugin.jobs.results import Results
from napari_mst.plugin.jobs.worker import start_job
from napari_mst.plugin.jobs.workspace import Start, Workspace
from napari_mst.plugin.viewer.sharing import shared


class Session:
    """The workspace of one viewer, and what shows its results; neither may hold the viewer.

    `results` stands here because the signals of its workspace hold its methods only weakly.
    """

    def __init__(self, viewer: ViewerModel, start: Start) -> None:
        self.workspace = Workspace(start)
        self.results = Results(viewer)
        self.workspace.preview_ready.connect(self.results.add)
        self.workspace.cube_ready.connect(self.results.add)
        self.workspace.made.connect(partial(_show_made, weakref.ref(viewer)))
        self.workspace.failed.connect(_notify)


def workspace_of(viewer: ViewerModel, start: Start = start_job) -> Workspace:
    """Return the workspace of *viewer*, made on first use; *start* starts its jobs."""
    session = shared(viewer, Session, start)
    attend(viewer)
    return session.workspace


def _notify(error: NapariMstError) -> None:
    show_error(str(error))


def _show_made(viewer_ref: "weakref.ref[ViewerModel]", made: object, request: Request) -> None:
    """Let the job of *request* show what it has *made*."""
    viewer = viewer_ref()
    if viewer is not None and request.job is not None and request.job.show is not None:
        request.job.show(viewer, made, request)
