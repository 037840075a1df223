"""Jobs that take long: they run on another thread in a window, and at once in a script.

Nothing here knows Qt or napari.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from napari_mst.attention.record import AttentionRecord
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube

Cancel = Callable[[], None]
"""Asks a job to stop; it reports no more, except its end."""


def ignore(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Reports(Progress):
    """Watches a job, and takes what it has to say; called on the job's thread.

    Attributes
    ----------
    say
        Shows the user one sentence; what follows on separate lines is shown on request.
    preview
        Shows what the cube will look like.
    record
        Takes the attention of the run.
    """

    say: Callable[[str], None] = ignore
    preview: Callable[[SpectralCube], None] = ignore
    record: Callable[[AttentionRecord], None] = ignore


@dataclass(frozen=True, eq=False)
class Task:
    """Something to compute, and its listeners.

    They are called on the thread that starts the job, and not after it was cancelled, except
    `on_end`.

    Attributes
    ----------
    run
        Computes; it may be called on another thread, and raises `Cancelled` soon after its progress
        asks for that.
    on_done, on_failed
        Gets what `run` has returned, or the error that it has raised.
    on_end
        Called last, whether the job is done, has failed or was cancelled.
    on_progress
        Gets the share that is done, 0-1, now and then.
    on_said, on_preview, on_record
        Gets what `run` hands to its `Reports`.
    """

    run: Callable[[Reports], Any]
    on_done: Callable[[Any], object] = ignore
    on_failed: Callable[[Any], object] = ignore
    on_end: Callable[[], object] = ignore
    on_progress: Callable[[float], None] = ignore
    on_said: Callable[[str], None] = ignore
    on_preview: Callable[[SpectralCube], None] = ignore
    on_record: Callable[[AttentionRecord], None] = ignore


Start = Callable[[Task], Cancel]
"""Starts a job."""


def run_now(job: Task) -> Cancel:
    """Do *job* before returning, as a script needs it; what it raises reaches the caller."""
    reports = Reports(
        job.on_progress, say=job.on_said, preview=job.on_preview, record=job.on_record
    )
    try:
        result = job.run(reports)
    except Exception as error:
        # Called before the error is raised, so that listeners get the same event in a script as in
        # a window.
        job.on_failed(error)
        raise
    else:
        job.on_done(result)
    finally:
        job.on_end()
    return ignore


class Latest:
    """Runs one job at a time: a new job replaces the running job.

    A job that was replaced or cancelled reports nothing, not even its end.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._job: Task | None = None
        self._cancel: Cancel = ignore

    @property
    def is_busy(self) -> bool:
        """True if a job runs."""
        return self._job is not None

    def run(self, job: Task) -> None:
        """Cancel the running job, then start *job*."""
        self.cancel()
        self._job = job
        self._cancel = self._start(replace(job, on_end=partial(self._on_end, job)))

    def cancel(self) -> None:
        """Cancel the job that runs, if there is one."""
        if self._job is not None:
            self._job = None
            self._cancel()

    def _on_end(self, job: Task) -> None:
        if self._job is job:
            self._job = None
            job.on_end()
