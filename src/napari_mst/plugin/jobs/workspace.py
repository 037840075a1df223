"""The state of the one running job that the docks share, without Qt.

user -> dock -> frozen `Request` -> `Workspace.run` -> a `Job` on another thread
-> listeners of the job on the main thread -> signals -> docks and layers
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from psygnal import Signal

from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError, plain
from napari_mst.plugin.jobs.job import Cancel, Job, Reports, Start, ignore
from napari_mst.plugin.jobs.request import Recording, Request, reconstruct

SURE = 0.02
"""Share of the work after which its pace shows how long the rest takes."""

Make = Callable[[Request, Reports], Any]
"""The work of a job, done on its thread."""


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
        One sentence for the user, and perhaps more lines for those who want to know.
    is_of_photo
        Whether the sentence belongs to the page of the photo.
    """

    phase: Literal["idle", "running", "cancelling"] = "idle"
    fraction: float = 0.0
    seconds_left: float | None = None
    text: str = ""
    is_of_photo: bool = True

    @property
    def is_idle(self) -> bool:
        """True if a job can be started."""
        return self.phase == "idle"


class Workspace:
    """Runs one job at a time: `run` it, `cancel` it, and hear of it through the signals.

    *make* makes the cube of a request, and *start* starts any job.
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
    # The `PhotoSource` of a job that was cancelled and has ended.
    cancelled = Signal(object)

    def __init__(
        self, start: Start, make: Make = reconstruct, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.state = JobState()
        self.recordings: list[Recording] = []
        self._start = start
        self._make = make
        self._clock = clock
        self._request: Request | None = None
        self._cancel_job: Cancel = ignore
        self._began = 0.0
        self._first_report: tuple[float, float] | None = None

    @property
    def is_busy(self) -> bool:
        """True if a job runs, or is still on its way out after a cancel."""
        return self._request is not None

    def run(self, request: Request) -> bool:
        """Start the job of *request*; False, and nothing happens, if a job is running.

        The region of its options is that of its source.
        """
        if self.is_busy:
            return False
        self._began = self._clock()
        self._first_report = None
        options = replace(request.options, region=request.source.region)
        request = self._request = replace(request, options=options)
        make = self._make if request.job is None else request.job.make
        self._show(JobState("running", text=f"Reading {request.source.name} ..."))
        self._cancel_job = self._start(
            Job(
                run=partial(make, request),
                on_done=partial(self._deliver, request),
                on_failed=partial(self._fail, request),
                on_end=partial(self._end, request),
                on_progress=self._report,
                on_said=self._say,
                on_preview=partial(self._preview, request),
                on_record=partial(self._record, request),
            )
        )
        return True

    def cancel(self) -> None:
        """Ask the job to stop; what it still delivers is dropped."""
        if self.state.phase == "running":
            self._show(JobState("cancelling", self.state.fraction, text="Cancelling ..."))
            self._cancel_job()

    def keep(self, recording: Recording) -> None:
        """Put *recording* beside the others."""
        self.recordings.append(recording)
        self.recorded.emit(recording)

    # ------------------------------------------------------------------------ what the job reports

    def _report(self, fraction: float) -> None:
        """The job has done *fraction* (0-1) of its work."""
        seconds_left = self._seconds_left(fraction)
        self._show(JobState("running", fraction, seconds_left, self.state.text))

    def _say(self, text: str) -> None:
        """The job has one sentence for the user."""
        self._show(JobState("running", self.state.fraction, self.state.seconds_left, text))

    def _preview(self, request: Request, cube: SpectralCube) -> None:
        """The job shows what its cube will look like."""
        self.preview_ready.emit(cube, request.source)

    def _record(self, request: Request, record: AttentionRecord) -> None:
        """The job has recorded the attention of its run."""
        self.keep(Recording.of(record, request))

    def _deliver(self, request: Request, result: Any) -> None:
        """The job has finished its cube, or another result; `_end` follows."""
        seconds = self._clock() - self._began
        sentence, *others = request.lines(result)
        # Idle before anybody hears of the result, so that a listener can start the next job.
        self._close("\n".join([f"Done in {seconds:.1f} s. {sentence}".rstrip(), *others]))
        if request.job is None:
            self.cube_ready.emit(result, request.source)
        else:
            self.made.emit(result, request)

    def _fail(self, request: Request, error: NapariMstError) -> None:
        """The job has failed; `_end` follows."""
        self._close(plain(error))
        self.failed.emit(error, request)

    def _end(self, request: Request) -> None:
        """The job's thread has ended, with or without a result."""
        # `_deliver` and `_fail` leave no request behind, so this job was cancelled.
        if self._request is request:
            self._close("Cancelled.")
            self.cancelled.emit(request.source)

    def _seconds_left(self, fraction: float) -> float | None:
        """Estimate the time left by the mean pace since the first report.

        The time before that report went into reading and loading, so it does not count.
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
        self._cancel_job = ignore
        self._show(JobState(text=text))

    def _show(self, state: JobState) -> None:
        # Told before the request is forgotten: the last sentence is still that of its job.
        is_of_photo = self._request is None or self._request.is_of_photo
        if state.is_idle:
            self._request = None
        self.state = replace(state, is_of_photo=is_of_photo)
        self.state_changed.emit(self.state)
