"""The state of the one running job that the docks share, without Qt.

user -> dock -> `Workspace.run` -> frozen `Request` -> a job on another thread
-> `Workspace.deliver` on the main thread, which drops what an older generation sends
-> signals -> docks and layers
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from psygnal import Signal

from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError
from napari_mst.plugin.jobs.request import (
    PhotoCorrection,
    PhotoSource,
    Recording,
    Request,
    SideJob,
)
from napari_mst.reconstruction.options import DEFAULTS, RunOptions

SURE = 0.02
"""Share of the work after which its pace tells how long the rest takes."""

Start = Callable[["Request", "Workspace"], Callable[[], None]]
"""Starts the job of a request and returns what cancels it.

The job reports to the workspace, on the main thread.
"""


@dataclass(frozen=True)
class JobState:
    """The running job as a dock shows it.

    Attributes
    ----------
    fraction
        Share of the work that is done, 0-1.
    seconds_left
        None while it is not known yet.
    text
        One sentence for the user.
    is_of_cube
        Whether the sentence is that of a reconstruction, or of another job.
    """

    phase: Literal["idle", "running", "cancelling"] = "idle"
    fraction: float = 0.0
    seconds_left: float | None = None
    text: str = ""
    is_of_cube: bool = True

    @property
    def is_idle(self) -> bool:
        """Tell whether a job can be started."""
        return self.phase == "idle"


class Workspace:
    """Runs one job at a time: `run` it, `cancel` it, and hear of it through the signals.

    A job reports through `report`, `say`, `preview`, `record`, `deliver`, `fail` and `end`, always
    with its generation.
    """

    state_changed = Signal(JobState)
    # A preview and its `PhotoSource`; the cube of `cube_ready` will replace it.
    preview_ready = Signal(SpectralCube, object)
    # A cube and the `PhotoSource` that it came from.
    cube_ready = Signal(SpectralCube, object)
    # What a `SideJob` has made, and its `Request`.
    made = Signal(object, object)
    # The attention of a run, now the last of `recordings`.
    recorded = Signal(Recording)
    # An error, and the `Request` that it ended.
    failed = Signal(NapariMstError, object)

    def __init__(self, start: Start, clock: Callable[[], float] = time.monotonic) -> None:
        self.state = JobState()
        self.recordings: list[Recording] = []
        self.last_made: Any = None  # for a dock that was hidden when it was delivered
        self._start = start
        self._clock = clock
        self._request: Request | None = None
        self._cancel_job: Callable[[], None] | None = None
        self._generation = 0
        self._began = 0.0
        self._first_report: tuple[float, float] | None = None

    @property
    def is_busy(self) -> bool:
        """Tell whether a job runs, or is still on its way out after a cancel."""
        return self._request is not None

    def run(
        self,
        source: PhotoSource,
        model: str,
        options: RunOptions = DEFAULTS,
        job: SideJob | None = None,
        corrections: tuple[PhotoCorrection, ...] = (),
    ) -> bool:
        """Start *job*, or a reconstruction; False, and nothing happens, if a job is running.

        The region of the options is that of *source*.
        """
        if self.is_busy:
            return False
        self._generation += 1
        self._began = self._clock()
        self._first_report = None
        options = replace(options, region=source.region)
        self._request = Request(self._generation, source, model, options, job, corrections)
        # Shown before the start: what a job reports in any other phase is dropped.
        self._show(JobState("running", text=f"Reading {source.name} ..."))
        self._cancel_job = self._start(self._request, self)
        return True

    def cancel(self) -> None:
        """Ask the job to stop; whatever it still delivers is dropped."""
        if self.state.phase == "running" and self._cancel_job is not None:
            self._show(JobState("cancelling", self.state.fraction, text="Cancelling ..."))
            self._cancel_job()

    def keep(self, recording: Recording) -> None:
        """Put *recording* beside the others."""
        self.recordings.append(recording)
        self.recorded.emit(recording)

    # ------------------------------------------------------------------------ what the job reports

    def report(self, generation: int, fraction: float) -> None:
        """The job has done *fraction* (0-1) of its work."""
        if self._current(generation) is not None:
            seconds_left = self._seconds_left(fraction)
            self._show(JobState("running", fraction, seconds_left, self.state.text))

    def say(self, generation: int, text: str) -> None:
        """The job has one sentence for the user."""
        if self._current(generation) is not None:
            self._show(JobState("running", self.state.fraction, self.state.seconds_left, text))

    def preview(self, generation: int, cube: SpectralCube) -> None:
        """The job shows what its cube will look like."""
        request = self._current(generation)
        if request is not None:
            self.preview_ready.emit(cube, request.source)

    def record(self, generation: int, record: AttentionRecord) -> None:
        """The job has recorded the attention of its run."""
        request = self._current(generation)
        if request is not None:
            self.keep(Recording.of(record, request))

    def deliver(self, generation: int, result: Any) -> None:
        """The job has finished its cube, or whatever it makes; `end` follows."""
        request = self._current(generation)
        if request is None:
            return
        seconds = self._clock() - self._began
        where = result.provenance.device or "this computer"
        done = f"Done in {seconds:.1f} s on {where}."
        # Idle before anybody hears of the result, so that a listener can start the next job.
        self._close(" ".join([done, *result.provenance.assumptions]))
        if request.job is None:
            self.cube_ready.emit(result, request.source)
        else:
            self.last_made = result
            self.made.emit(result, request)

    def fail(self, generation: int, error: NapariMstError) -> None:
        """The job has failed; `end` follows."""
        request = self._current(generation)
        if request is not None:
            self._close(str(error))
            self.failed.emit(error, request)

    def end(self, generation: int) -> None:
        """The job's thread has ended, whatever came of it."""
        if self._request is not None and generation == self._request.generation:
            # `deliver` and `fail` leave no request behind, so this job was cancelled.
            self._close("Cancelled.")

    def _current(self, generation: int) -> Request | None:
        """Return the running request of that *generation*; None if it is older, or cancelled."""
        request = self._request
        if request is None or generation != request.generation:
            return None
        return request if self.state.phase == "running" else None

    def _seconds_left(self, fraction: float) -> float | None:
        """Estimate the time left by the mean pace since the first report.

        The time before that report went into reading and loading, so it tells nothing of the rest.
        """
        now = self._clock()
        has_restarted = fraction < self.state.fraction  # a run that was out of memory starts again
        if self._first_report is None or has_restarted:
            self._first_report = (now, fraction)
        start, done_at_start = self._first_report
        done = fraction - done_at_start
        return (now - start) * (1 - fraction) / done if done >= SURE else None

    def _close(self, text: str) -> None:
        # What cancels the job is a method of its worker, and would keep the worker alive.
        self._cancel_job = None
        self._show(JobState(text=text))

    def _show(self, state: JobState) -> None:
        # Told before the request is forgotten: the last sentence is still that of its job.
        is_of_cube = self._request is None or self._request.job is None
        if state.is_idle:
            self._request = None
        self.state = replace(state, is_of_cube=is_of_cube)
        self.state_changed.emit(self.state)
