"""The state of the one running job that the docks share, without Qt.

user -> dock -> `Workspace.run` -> frozen `Request` -> a job on another thread -> `Workspace.deliver`, on the main
thread, which drops what an older generation sends -> signals -> docks and layers.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from psygnal import Signal

from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.errors import NapariMstError
from napari_mst.photo.cameras import Capture
from napari_mst.photo.photo import Encoding, Photo, Rectangle
from napari_mst.reconstruction.options import DEFAULTS, RunOptions


class Source(Protocol):
    """Where a job's photo comes from, and where its cube belongs; `read` is called on the job's thread."""

    @property
    def name(self) -> str:
        """The name of the source when the job began."""

    @property
    def region(self) -> Rectangle | None:
        """The part of the photo that the cube shall cover; None for all of it."""

    def read(self, encoding: Encoding | None = None) -> Photo:
        """The photo, all of it; raises `PhotoError` if it is not one."""

    def reference(self) -> Any:
        """What finds the photo again, without keeping its pixels."""


@dataclass(frozen=True, eq=False)
class Request:
    """All that one job needs: its generation, the photo's source, a model's name or file, options.

    *job* is what else than a cube is to be made, and its result has a `provenance`; None for a cube.
    """

    generation: int
    source: Source
    model: str
    options: RunOptions = DEFAULTS
    job: Callable[..., Any] | None = None

    def read(self) -> Photo:
        """The photo; linear, if it is known what camera took it."""
        return self.source.read("linear") if self.options.capture else self.source.read()


@dataclass(frozen=True, eq=False)
class Recording:
    """The attention of one run, and where its photo, if it is still there, and its model are found."""

    record: AttentionRecord
    name: str
    model: str = ""
    device: str = "auto"
    reference: Any = None
    capture: Capture | None = None


@dataclass(frozen=True)
class JobState:
    """What a dock shows: the phase, the fraction done (0-1), the seconds left (None: not known yet), one sentence.

    *is_of_cube* tells whose sentence that is: that of a job that makes a cube, or of another one.
    """

    phase: Literal["idle", "running", "cancelling"] = "idle"
    fraction: float = 0.0
    seconds_left: float | None = None
    text: str = ""
    is_of_cube: bool = True


SURE = 0.02
"""Share of the work after which its pace tells how long the rest takes."""

Start = Callable[["Request", "Workspace"], Callable[[], None]]
"""Starts the job of a request, which reports to the workspace on the main thread; returns what cancels it."""


class Workspace:
    """One job at a time: `run` it, `cancel` it, and hear of it through the signals.

    A job reports through `report`, `say`, `preview`, `deliver`, `fail` and `end`, always with its generation.
    """

    state_changed = Signal(JobState)
    preview_ready = Signal(
        SpectralCube, object
    )  # what `cube_ready` will replace, and the same `Source`
    cube_ready = Signal(SpectralCube, object)  # the cube and the `Source` that it came from
    made = Signal(
        object, object
    )  # what another job than that of a cube has made, and its `Request`
    recorded = Signal(Recording)  # the attention of a run, now the last of `recordings`
    failed = Signal(NapariMstError, object)  # the error and the `Request` that it ended

    def __init__(self, start: Start, clock: Callable[[], float] = time.monotonic) -> None:
        self.state = JobState()
        self.recordings: list[Recording] = []
        self.last_made: Any = None  # for a dock that was hidden when it was delivered
        self._start, self._clock = start, clock
        self._request: Request | None = None
        self._cancel_job: Callable[[], None] | None = None
        self._generation = 0
        self._began = 0.0
        self._first_report: tuple[float, float] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a job runs, or is still on its way out after a cancel."""
        return self._request is not None

    def run(
        self,
        source: Source,
        model: str,
        options: RunOptions = DEFAULTS,
        job: Callable[..., Any] | None = None,
    ) -> bool:
        """Start a job; False, and nothing happens, if one is running. The region is that of *source*."""
        if self.is_busy:
            return False
        self._generation += 1
        self._began, self._first_report = self._clock(), None
        options = replace(options, region=source.region)
        self._request = Request(self._generation, source, model, options, job)
        self._show(JobState("running", text=f"Reading {source.name} ..."))
        self._cancel_job = self._start(self._request, self)
        return True

    def cancel(self) -> None:
        """Ask the job to stop; whatever it still delivers is dropped."""
        if self.state.phase == "running" and self._cancel_job is not None:
            self._show(JobState("cancelling", self.state.fraction, text="Cancelling ..."))
            self._cancel_job()

    def report(self, generation: int, fraction: float) -> None:
        """The job has done *fraction* (0-1) of its work."""
        if self._listens_to(generation):
            self._show(JobState("running", fraction, self._seconds_left(fraction), self.state.text))

    def say(self, generation: int, text: str) -> None:
        """The job has one sentence for the user."""
        if self._listens_to(generation):
            self._show(JobState("running", self.state.fraction, self.state.seconds_left, text))

    def preview(self, generation: int, cube: SpectralCube) -> None:
        """The job shows what its cube will look like."""
        if self._request is not None and self._listens_to(generation):
            self.preview_ready.emit(cube, self._request.source)

    def record(self, generation: int, record: AttentionRecord) -> None:
        """The job has recorded the attention of its run."""
        if self._request is not None and self._listens_to(generation):
            request = self._request
            source, name = request.source, request.source.name + extent(record.provenance)
            device, capture = request.options.device, request.options.capture
            self.keep(Recording(record, name, request.model, device, source.reference(), capture))

    def keep(self, recording: Recording) -> None:
        """Put *recording* beside the others."""
        self.recordings.append(recording)
        self.recorded.emit(recording)

    def deliver(self, generation: int, result: Any) -> None:
        """The job has finished its cube, or whatever it makes; `end` follows."""
        if self._request is not None and self._listens_to(generation):
            request, seconds = self._request, self._clock() - self._began
            where = result.provenance.device or "this computer"
            self._close(
                " ".join([f"Done in {seconds:.1f} s on {where}.", *result.provenance.assumptions])
            )
            if request.job is None:
                self.cube_ready.emit(result, request.source)
            else:
                self.last_made = result
                self.made.emit(result, request)

    def fail(self, generation: int, error: NapariMstError) -> None:
        """The job has failed; `end` follows."""
        if self._request is not None and self._listens_to(generation):
            request = self._request
            self._close(str(error))
            self.failed.emit(error, request)

    def end(self, generation: int) -> None:
        """The job's thread is through, whatever came of it."""
        if self._request is not None and generation == self._request.generation:
            self._close("Cancelled.")

    def _seconds_left(self, fraction: float) -> float | None:
        """By the mean pace since the first report: what came before it (reading, loading) tells nothing of the rest."""
        now = self._clock()
        if self._first_report is None or fraction < self.state.fraction:  # a run that starts again
            self._first_report = (now, fraction)
        start, done_at_start = self._first_report
        done = fraction - done_at_start
        return (now - start) * (1 - fraction) / done if done >= SURE else None

    def _listens_to(self, generation: int) -> bool:
        current = self._request is not None and generation == self._request.generation
        return current and self.state.phase == "running"

    def _close(self, text: str) -> None:
        self._cancel_job = None
        self._show(JobState(text=text))

    def _show(self, state: JobState) -> None:
        is_of_cube = self._request is None or self._request.job is None
        if state.phase == "idle":
            self._request = None
        self.state = replace(state, is_of_cube=is_of_cube)
        self.state_changed.emit(self.state)


def extent(provenance: Provenance) -> str:
    """What a run saw of its photo, if not all of it as it is."""
    region = f" [{provenance.region.replace(',', ', ')}]" if provenance.region else ""
    return region + (", unflipped of 8" if provenance.is_ensemble else "")
