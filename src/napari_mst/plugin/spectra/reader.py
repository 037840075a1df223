"""What is read of cubes for points and regions, on another thread: the latest that was asked for."""

import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from qtpy.QtCore import QObject, Signal
from superqt.utils import FunctionWorker, create_worker

from napari_mst.errors import Cancelled
from napari_mst.plugin.spectra.region_tasks import Task
from napari_mst.watch import Watch

logger = logging.getLogger("napari_mst")

Found = dict[Hashable, Any]
"""What each task has read, by its key; or the latest of each slot."""


Work = tuple[Sequence[Task], Callable[[], bool]]
"""Tasks, and what asks whether to stop."""


def run_all(box: list[Work]) -> Found:
    """What the tasks in *box* find, until it is stopped. It empties the box, as PySide6 keeps some workers."""
    tasks, is_stopped = box.pop()
    found: Found = {}
    watch = Watch(is_cancelled=is_stopped)
    for task in tasks:
        try:
            found[task.key] = task.run(watch)
        except Cancelled:
            break
        if is_stopped():
            break
    return found


class RegionReader(QObject):
    """Keeps what was read as long as it is asked for; `found_more` tells that there is more.

    `latest` is the last that was read of each slot: of a region that is dragged, the curve of a moment ago.
    """

    found_more = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.found: Found = {}
        self.latest: Found = {}
        self._slots = set[Hashable]()
        self._wanted: tuple[Task, ...] = ()
        self._running: tuple[Task, ...] = ()
        self._worker: FunctionWorker[Found] | None = None
        self._stop = _Flag()

    @property
    def is_busy(self) -> bool:
        """Whether something is being read."""
        return self._worker is not None

    def ask(self, tasks: Sequence[Task]) -> None:
        """Have *tasks* read, and forget all others. What is large makes way for what is not."""
        keys, self._slots = {task.key for task in tasks}, {task.slot for task in tasks}
        self.found = {key: read for key, read in self.found.items() if key in keys}
        known = {task.slot: self.found.get(task.key, self.latest.get(task.slot)) for task in tasks}
        self.latest = {slot: read for slot, read in known.items() if read is not None}
        self._wanted = tuple(task for task in tasks if task.key not in self.found)
        is_large = any(task.is_large for task in self._running)
        if is_large and not all(task.is_large for task in self._wanted):
            self._stop.is_set = True
        self._begin()

    def stop(self) -> None:
        """Forget everything."""
        self._stop.is_set = True
        self.ask(())

    def _begin(self) -> None:
        if self._worker is not None or not self._wanted:
            return
        small = tuple(task for task in self._wanted if not task.is_large)
        self._stop, self._running = _Flag(), small or self._wanted[:1]
        self._worker = create_worker(
            run_all, [(self._running, self._stop.get)], _start_thread=False
        )
        self._worker.returned.connect(self._on_found)
        self._worker.errored.connect(self._on_error)
        self._worker.finished.connect(self._on_finished)
        self._worker.start()

    def _on_found(self, found: Found) -> None:
        self.found |= found
        read = {
            task.slot: found[task.key] for task in self._running if found.get(task.key) is not None
        }
        self.latest |= {slot: one for slot, one in read.items() if slot in self._slots}
        self.found_more.emit()

    def _on_error(self, error: Exception) -> None:
        """Do not try again what failed."""
        logger.error("The regions could not be read", exc_info=error)
        self.found |= {task.key: None for task in self._running}

    def _on_finished(self, _: None = None) -> None:
        self._worker, self._running = None, ()
        self._wanted = tuple(task for task in self._wanted if task.key not in self.found)
        self._begin()


class _Flag:
    def __init__(self) -> None:
        self.is_set = False

    def get(self) -> bool:
        return self.is_set
