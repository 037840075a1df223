"""The one running job that the docks share: what is asked for, its state, and what it leaves.

user -> dock -> frozen `Request` -> `Workspace.run` -> a `Task` on another thread
-> listeners of the job on the main thread -> signals -> docks and layers

Nothing here knows Qt.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from psygnal import Signal

from napari_mst.attention.record import AttentionRecord
from napari_mst.base.errors import ModelError, NapariMstError, plain, shown
from napari_mst.base.memory import check_room, free_host_memory
from napari_mst.base.progress import Progress
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.layer import Stack
from napari_mst.cube.lazy import Lazy
from napari_mst.formats.wavelengths import typed_wavelengths
from napari_mst.photo.photo import Photo
from napari_mst.plugin.jobs.task import Cancel, Reports, Start, Task, ignore
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.reconstruction.options import DEFAULTS, RunOptions

if TYPE_CHECKING:
    from napari_mst.calibration.balancing import WhiteBalance
    from napari_mst.calibration.chart_calibration import Calibration
    from napari_mst.calibration.grey_scale import GreyScale
    from napari_mst.engine.plan import Plan
    from napari_mst.models import Model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    Correction = WhiteBalance | Calibration | GreyScale

Extent = Literal["auto", "whole", "seen"]
"""The part of a cube to compute: all of it, what is looked at, or as the memory allows."""
EXACT = "The cube is exact, and computed where you look."
PREVIEW_FROM = 2_000_000
"""Pixels from which a preview comes first; it then takes at most an eighth of the exact run."""


@dataclass(frozen=True, eq=False)
class SideJob:
    """Makes something other than a cube of a photo.

    Attributes
    ----------
    make
        Called on the job's thread with the `Request` and `Reports`.
    show
        Called on the main thread with the viewer, the result and the `Request`, whether or not a
        dock is open; by default, only a dock draws the result.
    is_of_photo
        True if its sentences belong to the page of the photo, as those of a reconstruction do.
    lines
        What there is to say of the result: one sentence, and more lines for those who want to know.
        By default, what its `provenance` says.
    """

    make: Callable[["Request", Reports], Any]
    show: Callable[[Any, Any, "Request"], None] = ignore
    is_of_photo: bool = False
    lines: Callable[[Any], Sequence[str]] = lambda result: lines_of(result.provenance)


MOST_RECORDINGS = 12
"""Recorded runs that are kept: a person who runs photos all day looks at the last ones."""


@dataclass(frozen=True, eq=False)
class Request:
    """All that a person decides before a job starts; `workspace.run(request)` starts it.

    Attributes
    ----------
    model
        The name of a bundled model, or a file of weights.
    job
        None for a reconstruction, which makes a cube.
    corrections
        What is done to the photo before the run, in this order: a flat field, a white balance, the
        colours of a chart.
    patches
        A chart or greys that the photo shows, which are reference spectra of its cube.
    wavelengths, takes_linear
        What a person says of an ONNX file: the centres of its bands, as they were typed, and
        whether the network takes linear light. "" and None leave it to the model card in the file.
    extent
        How much of the cube is computed.
    """

    source: LayerPhoto
    model: str
    options: RunOptions = DEFAULTS
    job: SideJob | None = None
    corrections: tuple["Correction", ...] = ()
    patches: "Calibration | GreyScale | None" = None
    wavelengths: str = ""
    takes_linear: bool | None = None
    extent: Extent = "auto"

    @property
    def is_of_photo(self) -> bool:
        """True if the page of the photo shows how the job goes."""
        return self.job is None or self.job.is_of_photo

    def lines(self, result: Any) -> Sequence[str]:
        """Return what there is to say of the *result* of the job."""
        if self.job is not None:
            return self.job.lines(result)
        return lines_of(result.provenance, EXACT if isinstance(result.data, Lazy) else "")

    def opens(self, plan: "Plan") -> bool:
        """True if only what is looked at is to be computed, rather than all as *plan* says.

        Left to the memory, so it is where the run would take more than half of what is free.
        """
        if self.extent != "auto" or self.options.ensemble or "16" in self.options.precision:
            return self.extent == "seen"
        return plan.disk > 0 or plan.memory > free_host_memory() / 2

    def read(self) -> Photo:
        """Read the photo, as linear light if its camera is known, and correct it."""
        photo = self.source.read("linear") if self.options.acquisition else self.source.read()
        for correction in self.corrections:
            photo = correction.corrected(photo)
        return photo

    def load(self) -> "Model":
        """Load the model. Raises `ModelError`, also for an ONNX file that states too little.

        The first call imports torch, which takes seconds.
        """
        from napari_mst.models import load_model

        model = load_model(self.model)
        bands, card = model.network.out_bands, dict[str, Any]()
        if self.wavelengths:
            card["wavelengths"] = tuple(typed_wavelengths(self.wavelengths, "nm", bands).tolist())
        if self.takes_linear is not None:
            card["is_linear"] = self.takes_linear
        elif model.assumptions and Path(self.model).suffix.lower() == ".onnx":
            raise ModelError(
                f"Expected a model card in {shown(Path(self.model).name)}, got none. Say above "
                f"what the network takes, and the wavelengths of its {bands} bands."
            )
        return replace(model, card=replace(model.card, **card), assumptions=()) if card else model

    def reconstructor(self, reports: Reports) -> "Reconstructor":
        """Load the model with the options of the run, and make it ready; raises as `load`."""
        from napari_mst.reconstruction.reconstructor import Reconstructor

        reconstructor = Reconstructor(self.load(), **vars(self.options))
        reconstructor.warm_up(reports.say, reports)
        return reconstructor

    def refined(self, cube: SpectralCube, photo: Photo, progress: Progress) -> SpectralCube:
        """Correct the *cube* of all of *photo* by the patches that it shows, if it shows any."""
        if self.patches is None or cube.provenance.region:
            return cube
        # This imports torch, as a job does anyway.
        from napari_mst.references.refining import refine

        return refine(cube, photo, self.patches, progress)


@dataclass(frozen=True, eq=False)
class Recording:
    """The attention of one run, with what is needed to run its photo again as it was run then.

    *reference* returns the photo; None if it is gone.
    """

    record: AttentionRecord
    name: str
    model: str = ""
    reference: Callable[[], LayerPhoto | None] = ignore
    options: RunOptions = DEFAULTS
    corrections: tuple["Correction", ...] = ()

    @classmethod
    def of(cls, record: AttentionRecord, request: Request) -> "Recording":
        """Keep *record*, which the job of *request* has made."""
        options = request.options
        return cls(
            record=record,
            name=request.source.name + extent(record.provenance),
            model=request.model,
            reference=request.source.reference(),
            # The others change nothing of the attention.
            options=RunOptions(
                options.device, acquisition=options.acquisition, denoise=options.denoise
            ),
            corrections=request.corrections,
        )


def lines_of(history: Provenance, sentence: str = "") -> list[str]:
    """Return what a run has assumed and where it ran, below a first *sentence*."""
    where = [f"Computed on {history.device}."] if history.device else []
    return [sentence, *where, *history.assumptions]


def extent(provenance: Provenance) -> str:
    """Say which part of its photo a run saw; "" if it saw all of it as it is."""
    region = f" [{provenance.region.replace(',', ', ')}]" if provenance.region else ""
    # The mean is over eight passes; only the first, unflipped one is recorded.
    flips = ", unflipped of 8" if provenance.is_ensemble else ""
    return region + flips


def reconstruct_with_previews(request: Request, reports: Reports) -> SpectralCube:
    """Read the photo, load the model and run it; the job of the reconstruction dock."""
    # This imports torch, which takes seconds: here it does so on the job's thread.
    from napari_mst.attention.recorder import record_attention

    photo = request.read()
    reconstructor = request.reconstructor(reports)
    prepared = reconstructor.prepare(photo)
    device = reconstructor.device
    plan = prepared.plan(reports)
    opens = request.opens(plan)
    running = f"Running on {device.name}: {plan}."
    if opens:
        running = f"All of this cube {plan}. Only what you look at is computed. Estimating ..."
    reports.say("\n".join([running, f"{device.name}: {device.reason}.", *photo.assumptions]))
    if opens:
        cube = prepared.reconstruct_lazy(reports, estimate=True)
        if not cube.provenance.is_estimate:
            return request.refined(cube, photo, reports)
        reports.preview(cube)
        error = cube.provenance.estimate_error
        reports.say(f"Estimate, off by up to {error:.2%}. Adding up what makes it exact ...")
    elif math.prod(prepared.shape) >= PREVIEW_FROM:
        reports.preview(prepared.preview(reports))
    with record_attention(reconstructor.model) as record:
        cube = prepared.reconstruct_lazy(reports) if opens else prepared.reconstruct(reports)
    cube = request.refined(cube, photo, reports)
    # A network without attention leaves the record empty.
    if record:
        # By the provenance the attention dock finds the cube of this run again.
        reports.record(replace(record, provenance=cube.provenance))
    return cube


def reconstruct_pages(request: Request, reports: Reports) -> Stack:
    """Make a cube of each page of the photo of *request*; the job of "all pages".

    Each page is a separate photo to the network. Raises `OutOfMemory`, before the first one is
    computed, if not all cubes fit into memory.
    """
    reconstructor = request.reconstructor(reports)
    pages = request.source.pages()
    numbers: Any = None
    cubes = list[SpectralCube]()
    for index, page in enumerate(pages):
        reports.say(f"{index} of {len(pages)} pages of {shown(request.source.name, 40)} done")
        part = reports.step(index, len(pages))
        photo = replace(request, source=page).read()
        prepared = reconstructor.prepare(photo)
        if numbers is None:
            shape = (len(pages), reconstructor.network.out_bands, *prepared.shape)
            check_room(f"the cubes of {len(pages)} pages", 4 * math.prod(shape))
            numbers = np.empty(shape, np.float32)
        cube = request.refined(prepared.reconstruct(part), photo, part)
        numbers[index] = cube.data
        cubes.append(replace(cube, data=numbers[index]))
    return Stack(numbers, cubes)


SURE = 0.02
"""Share of the work after which its pace shows how long the rest takes."""

MakeCubes = Callable[[Request, Reports], Any]
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
    """Runs one job at a time: `run` it, `cancel` it, and follow it by the signals.

    *make* makes the cube of a request, and *start* starts any job.
    """

    state_changed = Signal(JobState)
    # A cube and the `LayerPhoto` that it came from; it will replace the preview that came before.
    cube_ready = Signal(SpectralCube, object)
    # What a `SideJob` has made, and its `Request`.
    made = Signal(object, object)
    # The attention of a run, now the last of `recordings`.
    recorded = Signal(Recording)
    # Some of `recordings` were let go.
    forgotten = Signal()
    # An error, and the `Request` that it ended.
    failed = Signal(NapariMstError, object)
    # The `LayerPhoto` of a job that was cancelled and has ended.
    cancelled = Signal(object)

    def __init__(
        self,
        start: Start,
        make: MakeCubes = reconstruct_with_previews,
        clock: Callable[[], float] = time.monotonic,
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
            Task(
                run=partial(make, request),
                on_done=partial(self._deliver, request),
                on_failed=partial(self._fail, request),
                on_end=partial(self._end, request),
                on_progress=self._report,
                on_said=lambda text: self._show(replace(self.state, text=text)),
                on_preview=lambda cube: self.cube_ready.emit(cube, request.source),
                on_record=lambda record: self.keep(Recording.of(record, request)),
            )
        )
        return True

    def cancel(self) -> None:
        """Ask the job to stop; what it still delivers is dropped."""
        if self.state.phase == "running":
            self._show(JobState("cancelling", self.state.fraction, text="Cancelling ..."))
            self._cancel_job()

    def keep(self, recording: Recording) -> None:
        """Put *recording* beside the others; the oldest of more than `MOST_RECORDINGS` goes."""
        self.recordings = [*self.recordings, recording][-MOST_RECORDINGS:]
        self.recorded.emit(recording)

    def forget_photos(self) -> None:
        """Release the recordings of photos; recordings that were opened from files stay."""
        self.recordings = [each for each in self.recordings if not each.model]
        self.forgotten.emit()

    # ------------------------------------------------------------------------ what the job reports

    def _report(self, fraction: float) -> None:
        """The job has done *fraction* (0-1) of its work."""
        seconds_left = self._seconds_left(fraction)
        self._show(replace(self.state, fraction=fraction, seconds_left=seconds_left))

    def _deliver(self, request: Request, result: Any) -> None:
        """The job has finished its cube, or another result; `_end` follows."""
        seconds = self._clock() - self._began
        sentence, *others = request.lines(result)
        # Idle before the result is announced, so that a listener can start the next job.
        text = "\n".join([f"Done in {seconds:.1f} s. {sentence}".rstrip(), *others])
        self._show(JobState(text=text))
        if request.job is None:
            self.cube_ready.emit(result, request.source)
        else:
            self.made.emit(result, request)

    def _fail(self, request: Request, error: NapariMstError) -> None:
        """The job has failed; `_end` follows."""
        self._show(JobState(text=plain(error)))
        self.failed.emit(error, request)

    def _end(self, request: Request) -> None:
        """The job's thread has ended, with or without a result."""
        # `_deliver` and `_fail` leave no request behind, so this job was cancelled.
        if self._request is request:
            self._show(JobState(text="Cancelled."))
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

    def _show(self, state: JobState) -> None:
        # Emitted before the request is forgotten, since the last sentence still belongs to its job.
        is_of_photo = self._request is None or self._request.is_of_photo
        if state.is_idle:
            # What cancels the job is a method of its worker, and would keep the worker alive.
            self._request, self._cancel_job = None, ignore
        self.state = replace(state, is_of_photo=is_of_photo)
        self.state_changed.emit(self.state)
