"""The job's thread: a napari worker that can be cancelled and keeps nothing alive when it is through.

napari holds every finished worker, and every exception it was told of, until the viewer closes. So the input lies in a
box that is emptied, and only an error without frames leaves the thread.
"""

import logging
import math
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from napari.qt.threading import create_worker
from qtpy.QtCore import QObject, Signal
from superqt.utils import FunctionWorker

from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import SpectralCube
from napari_mst.errors import Cancelled, NapariMstError, OutOfMemory
from napari_mst.plugin.jobs.workspace import Request, Workspace
from napari_mst.watch import Watch

logger = logging.getLogger("napari_mst")

PERIOD = 0.1
"""Seconds between two reports of progress: each has the whole window drawn again."""

PREVIEW_FROM = 2_000_000
"""Pixels from which a preview comes first: it then takes at most an eighth of the time of the exact run."""


class Reports(Protocol):
    """How a job speaks to the outside, from its own thread."""

    @property
    def watch(self) -> Watch:
        """Told the share done, and asked whether to stop."""

    def say(self, text: str) -> None:
        """One sentence for the user."""

    def preview(self, cube: SpectralCube) -> None:
        """What the cube will look like."""

    def record(self, record: AttentionRecord) -> None:
        """The attention of the run."""


Job = Callable[[Request, Reports], SpectralCube]


def reconstruct(request: Request, reports: Reports) -> SpectralCube:
    """The job of the reconstruction dock: read the photo, load the model, run it; torch is imported here."""
    from napari_mst.attention.recorder import record_attention
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    photo = request.read()
    options, watch = request.options, reports.watch
    reconstructor = Reconstructor(load_model(request.model), **options.for_reconstructor)
    device = reconstructor.device
    reconstructor.prepare(reports.say, watch.is_cancelled)
    rows, columns = (photo if options.region is None else photo.cropped(options.region)).shape
    plan = reconstructor.plan_for(photo, **options.for_photo, is_cancelled=watch.is_cancelled)
    reports.say(
        " ".join([f"Running on {device.name} ({device.reason}): {plan}.", *photo.assumptions])
    )
    if rows * columns >= PREVIEW_FROM:
        reports.preview(reconstructor.preview(photo, watch.is_cancelled, region=options.region))
    with record_attention(reconstructor.model) as record:
        cube = reconstructor.reconstruct(photo, **watch.arguments, **options.for_photo)
    if record:
        reports.record(replace(record, provenance=cube.provenance))
    return cube


class _Signals(QObject):
    progressed = Signal(float)
    told = Signal(str)
    recorded = Signal(object)
    previewed = Signal(object)
    failed = Signal(object)


class JobWorker(FunctionWorker[Any]):
    """Runs one job on its request; `quit` cancels it.

    `reports.failed` tells what went wrong; `errored` stays silent, as napari's own slot for it takes too few arguments
    under PySide6.
    """

    def __init__(self, job: Callable[[Any, Reports], Any], request: Any) -> None:
        super().__init__(job)
        self.reports = _Signals()
        self._job = job
        self._box = [request]
        self._cancelled = threading.Event()
        self._told = -math.inf

    def quit(self) -> None:
        """Ask the job to stop; its result is not delivered."""
        self._cancelled.set()
        super().quit()

    @property
    def watch(self) -> Watch:
        """See `Reports`."""
        return Watch(self._tell, self._cancelled.is_set)

    def _tell(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._told >= PERIOD:
            self._told = now
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
        """What the job gives; None if it was cancelled, or has failed with the `NapariMstError` that is told."""
        try:
            return self._job(self._box.pop(), self)
        except Cancelled:
            self.quit()
            return None
        except Exception as error:  # noqa: BLE001 (the last place that can turn it into a sentence)
            failure = sentence_of(error)
        self.quit()  # there is no result to deliver
        self.reports.failed.emit(failure)
        return None


def sentence_of(error: Exception) -> NapariMstError:
    """The error that the user is told; the frames that raised it, and the arrays in them, are let go."""
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


def start_job(request: Request, workspace: Workspace, job: Job = reconstruct) -> Callable[[], None]:
    """Run *job*, or that of the request, on a thread of napari's pool; returns what cancels it.

    It reports to *workspace*.
    """
    worker = create_worker(
        request.job or job, request, _worker_class=JobWorker, _ignore_errors=True
    )
    generation = request.generation
    worker.reports.progressed.connect(partial(workspace.report, generation))
    worker.reports.told.connect(partial(workspace.say, generation))
    worker.reports.recorded.connect(partial(workspace.record, generation))
    worker.reports.previewed.connect(partial(workspace.preview, generation))
    worker.returned.connect(partial(workspace.deliver, generation))
    worker.reports.failed.connect(partial(workspace.fail, generation))
    worker.finished.connect(partial(workspace.end, generation))
    worker.warned.connect(_log_warning)
    worker.start()
    return worker.quit


def _log_warning(arguments: tuple[Warning, *tuple[object, ...]]) -> None:
    logger.warning("%s", arguments[0])
