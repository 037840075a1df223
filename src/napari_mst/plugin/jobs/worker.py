"""Runs jobs as napari's workers, which keep nothing alive at their end.

napari holds every finished worker, and every exception that reached it, until the viewer closes. So
the work lies in a box that is emptied, the listeners are let go of at the end, and only an error
without frames leaves the thread.
"""

import logging
import math
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from napari.qt.threading import create_worker
from qtpy.QtCore import QObject, Signal
from superqt.utils import FunctionWorker

from napari_mst.base.errors import Cancelled, NapariMstError, OutOfMemory, plain
from napari_mst.plugin.jobs.task import Cancel, Reports, Task, ignore

logger = logging.getLogger("napari_mst")

PERIOD = 0.1
"""Seconds between two reports of progress, as each has the whole window drawn again."""

# After each job on a thread of Qt's pool, Python drops what libraries keep for that thread. Those
# that do not expect it may crash, as pyproj 3.7 has done.
_THREADS = ThreadPoolExecutor(32, thread_name_prefix="napari-mst job")


class _Task:
    """A stand-in for the work; napari's list of tasks shows its text.

    There is one for all workers, as Qt and napari keep workers that have ended.
    """

    def __call__(self, _: Task) -> None:
        """Do nothing: `JobWorker` runs the job."""

    def __str__(self) -> str:
        return "a computation of napari-mst"


_TASK = _Task()


def start(job: Task, *, is_listed: bool = True) -> Cancel:
    """Start *job*; napari lists it among its tasks, unless it is one of many short ones."""
    if is_listed:
        # Errors go to `on_failed`; napari must not show them a second time.
        worker = create_worker(_TASK, job, _worker_class=JobWorker, _ignore_errors=True)
    else:
        worker = JobWorker(_TASK, job)
    worker.start()
    return worker.quit


class _Listeners(QObject):
    """Calls the listeners of *job* on the thread that makes this object, for the job's thread."""

    heard = Signal(str, object)

    def __init__(self, job: Task) -> None:
        super().__init__()
        self.is_cancelled = False
        self._job: Task | None = job
        self.heard.connect(self._call)

    def on_outcome(self, outcome: tuple[str, object]) -> None:
        """Hand on the result of the job, or its error."""
        self._call(*outcome)

    def _call(self, name: str, thing: object) -> None:
        # A job that is cancelled may have been just ready.
        if self._job is not None and not self.is_cancelled:
            getattr(self._job, name)(thing)

    def end(self, _: object = None) -> None:
        """Call the last listener, and let go of all."""
        job, self._job = self._job, None
        if job is not None:
            job.on_end()


# A GeneratorWorker would swallow every RuntimeError, even that of CUDA without memory: neither
# `errored` nor `finished` is then emitted, and the job seems to run for ever.
class JobWorker(FunctionWorker[tuple[str, object]]):
    """Runs one job; `quit` cancels it.

    Errors are returned, too. The signal `errored` stays silent: napari's own slot for it takes too
    few arguments under PySide6.
    """

    def __init__(self, function: Callable[..., Any], job: Task) -> None:
        super().__init__(function)
        self._box = [job.run]
        self._listeners = _Listeners(replace(job, run=ignore))
        # `quit` of a FunctionWorker only holds its result back. This flag is what the job looks at.
        self._cancelled = threading.Event()
        self._last_report = -math.inf
        # Not within the job: until it has ended, superqt has the warnings of all threads.
        self.returned.connect(self._listeners.on_outcome)
        self.finished.connect(self._listeners.end)
        # The warnings that superqt has would be lost without this line.
        self.warned.connect(_log_warning)

    def quit(self) -> None:
        """Ask the job to stop; it reports no more, except its end."""
        self._cancelled.set()
        self._listeners.is_cancelled = True
        super().quit()

    @property
    def reports(self) -> Reports:
        """See `Reports`."""
        message, preview, record = (
            partial(self._listeners.heard.emit, name)
            for name in ("on_said", "on_preview", "on_record")
        )
        return Reports(self._report, self._cancelled.is_set, message, preview, record)

    def _report(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._last_report >= PERIOD:
            self._last_report = now
            self._listeners.heard.emit("on_progress", fraction)

    def work(self) -> tuple[str, object]:
        """Run the job on a thread of Python; return the listener of its result or error, and it."""
        return _THREADS.submit(self._run_job).result()

    def _run_job(self) -> tuple[str, object]:
        try:
            # Emptying the box leaves the photo to the job alone: napari keeps this worker.
            return "on_done", self._box.pop()(self.reports)
        except Cancelled:
            self.quit()
            return "", None
        except Exception as error:  # noqa: BLE001 (the last place that can turn it into a sentence)
            # Python lets no engine start while the program ends, and nobody is left to read this.
            is_heard = threading.main_thread().is_alive() and not self._cancelled.is_set()
            return ("on_failed", sentence_of(error)) if is_heard else ("", None)


class Inquirer(QObject):
    """Answers the question that was asked last, on a separate thread; each question once.

    `ready` carries a question and its answer, `failed` a sentence. The thread is Python's, which
    waits for it at its end: Qt's pool would go on after PySide6 has taken all objects apart.
    """

    ready = Signal(object, object)
    failed = Signal(str)

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        super().__init__()
        self._answer = answer
        self._answers: dict[Any, Any] = {}
        self._latest: Any = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="napari-mst inquirer")

    def ask(self, question: Any) -> Any:
        """Return the answer to *question*; None if it is to come by `ready`."""
        self._latest = question
        if question not in self._answers:
            self._thread.submit(self._work, question)
        return self._answers.get(question)

    def _work(self, question: Any) -> None:
        # A person who presses an arrow key skips most questions.
        if question != self._latest or question in self._answers:
            return
        try:
            self._answers[question] = self._answer(question)
        except Exception as error:  # noqa: BLE001 (the last place that can turn it into a sentence)
            # Python lets no engine start while the program ends, and nobody is left to read this.
            if threading.main_thread().is_alive():
                self.failed.emit(plain(sentence_of(error)))
        else:
            self.ready.emit(question, self._answers[question])


def sentence_of(error: Exception) -> NapariMstError:
    """Turn *error* into the error that the user reads, without stack frames and their arrays."""
    if isinstance(error, NapariMstError):
        failure = type(error)(str(error))
    elif isinstance(error, MemoryError):
        failure = OutOfMemory(
            "Expected enough memory for the run, got too little. Close other programs."
        )
    else:
        logger.error("The job failed", exc_info=error)
        failure = NapariMstError(
            f"The run failed, by a fault of napari-mst or of a library: "
            f"{type(error).__name__}: {str(error)[:150]}. The terminal says more."
        )
    traceback.clear_frames(error.__traceback__)
    return failure


def _log_warning(arguments: tuple[Warning, *tuple[object, ...]]) -> None:
    logger.warning("%s", arguments[0])
