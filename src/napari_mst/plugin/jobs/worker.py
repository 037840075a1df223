"""The job's thread: a napari worker that can be cancelled, and that keeps nothing alive at its end.

napari holds every finished worker, and every exception that it was told of, until the viewer
closes. So the input lies in a box that is emptied, and only an error without frames leaves the
thread.
"""

import logging
import math
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.qt.threading import create_worker
from qtpy.QtCore import QObject, Signal
from superqt.utils import FunctionWorker

from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import SpectralCube
from napari_mst.errors import Cancelled, NapariMstError, OutOfMemory
from napari_mst.photo.photo import Photo
from napari_mst.plugin.jobs.request import Reports, Request
from napari_mst.plugin.jobs.workspace import Workspace
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor

logger = logging.getLogger("napari_mst")

PERIOD = 0.1
"""Seconds between two reports of progress, as each has the whole window drawn again."""

PREVIEW_FROM = 2_000_000
"""Pixels from which a preview comes first; it then takes at most an eighth of the exact run."""

Make = Callable[[Request, Reports], Any]
"""The work of a job, done on its thread."""


def reconstruct(request: Request, reports: Reports) -> SpectralCube:
    """Read the photo, load the model and run it; the job of the reconstruction dock."""
    # These import torch, which takes seconds: here they do so on the job's thread.
    from napari_mst.attention.recorder import record_attention
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    photo = request.read()
    options = request.options
    reconstructor = Reconstructor(load_model(request.model), **options.for_reconstructor)
    reconstructor.prepare(reports.say, reports.watch)
    _say_how(photo, reconstructor, request, reports)
    if _is_large(photo, request):
        preview = reconstructor.preview(photo, reports.watch, region=options.region)
        reports.preview(preview)
    with record_attention(reconstructor.model) as record:
        cube = reconstructor.reconstruct(photo, watch=reports.watch, **options.for_photo)
    cube = request.adapted(cube, photo, reports.watch)
    # A network without attention leaves the record empty.
    if record:
        # By the provenance the attention dock finds the cube of this run again.
        reports.record(replace(record, provenance=cube.provenance))
    return cube


def _say_how(
    photo: Photo, reconstructor: "Reconstructor", request: Request, reports: Reports
) -> None:
    """Tell the user on which device and by which plan *photo* will be run, and what was assumed."""
    plan = reconstructor.plan_for(photo, **request.options.for_photo, watch=reports.watch)
    device = reconstructor.device
    running = f"Running on {device.name} ({device.reason}): {plan}."
    reports.say(" ".join([running, *photo.assumptions]))


def _is_large(photo: Photo, request: Request) -> bool:
    """Tell whether the wanted part of *photo* has so many pixels that a preview helps."""
    region = request.options.region
    part = photo if region is None else photo.cropped(region)
    rows, columns = part.shape
    return rows * columns >= PREVIEW_FROM


class _Signals(QObject):
    # Made on the main thread, so Qt delivers on it what the job's thread emits.
    progressed = Signal(float)
    told = Signal(str)
    recorded = Signal(object)
    previewed = Signal(object)
    failed = Signal(object)


# A GeneratorWorker would swallow every RuntimeError, even that of CUDA without memory: neither
# `errored` nor `finished` is then emitted, and the job seems to run for ever.
class JobWorker(FunctionWorker[Any]):
    """Runs one job on its request; `quit` cancels it.

    `reports.failed` tells what went wrong. `errored` stays silent, as napari's own slot for it
    takes too few arguments under PySide6.
    """

    def __init__(self, job: Callable[[Any, Reports], Any], request: Any) -> None:
        super().__init__(job)
        self.reports = _Signals()
        self._job = job
        self._box = [request]
        # `quit` of a FunctionWorker only holds its result back. This flag is what the job looks at.
        self._cancelled = threading.Event()
        self._last_report = -math.inf

    def quit(self) -> None:
        """Ask the job to stop; its result is not delivered."""
        self._cancelled.set()
        super().quit()

    @property
    def watch(self) -> Watch:
        """See `Reports`."""
        return Watch(self._report, self._cancelled.is_set)

    def _report(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._last_report >= PERIOD:
            self._last_report = now
            self.reports.progressed.emit(fraction)

    def say(self, text: str) -> None:
        """See `Reports`."""
        self.reports.told.emit(text)

    def record(self, record: AttentionRecord) -> None:
        """See `Reports`."""
        self.reports.recorded.emit(record)

    def preview(self, cube: SpectralCube) -> None:
        """See `Reports`."""
        self.reports.previewed.emit(cube)

    def work(self) -> Any:
        """Return the result of the job; None if it was cancelled, or failed with the error told."""
        try:
            # Emptying the box leaves the photo to the job alone: napari keeps this worker.
            return self._job(self._box.pop(), self)
        except Cancelled:
            self.quit()
            return None
        except Exception as error:  # noqa: BLE001 (the last place that can turn it into a sentence)
            failure = sentence_of(error)
        # Without `quit`, the worker would deliver None as a result.
        self.quit()
        self.reports.failed.emit(failure)
        return None


def sentence_of(error: Exception) -> NapariMstError:
    """Turn *error* into the one that the user is told, without frames and the arrays in them."""
    if isinstance(error, NapariMstError):
        failure = type(error)(str(error))
    elif isinstance(error, MemoryError):
        failure = OutOfMemory(
            "Expected enough memory for the run, got too little. Close other programs."
        )
    else:
        logger.error("The job failed", exc_info=error)
        failure = NapariMstError(
            f"Expected the run to succeed, got {type(error).__name__}: {str(error)[:150]}."
        )
    traceback.clear_frames(error.__traceback__)
    return failure


def start_job(
    request: Request, workspace: Workspace, reconstruct: Make = reconstruct
) -> Callable[[], None]:
    """Run the job of *request* on a thread of napari's pool, and return what cancels it.

    It reports to *workspace*. A request without a job is for *reconstruct*.
    """
    make = reconstruct if request.job is None else request.job.make
    # Errors come through `reports.failed`; napari is not to show them a second time.
    worker = create_worker(make, request, _worker_class=JobWorker, _ignore_errors=True)
    # The slots hold the number, not the request: napari keeps the worker, and thereby its slots,
    # until the viewer closes, and the request has the photo.
    generation = request.generation
    worker.reports.progressed.connect(partial(workspace.report, generation))
    worker.reports.told.connect(partial(workspace.say, generation))
    worker.reports.recorded.connect(partial(workspace.record, generation))
    worker.reports.previewed.connect(partial(workspace.preview, generation))
    worker.returned.connect(partial(workspace.deliver, generation))
    worker.reports.failed.connect(partial(workspace.fail, generation))
    # `finished` comes last, whatever became of the job; a cancelled one ends only with it.
    worker.finished.connect(partial(workspace.end, generation))
    # While a worker runs, superqt sends the warnings of all threads to its `warned`: without this
    # line they would be lost.
    worker.warned.connect(_log_warning)
    worker.start()
    return worker.quit


def _log_warning(arguments: tuple[Warning, *tuple[object, ...]]) -> None:
    logger.warning("%s", arguments[0])
