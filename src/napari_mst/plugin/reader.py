"""Mean spectra of regions, read on another thread: the latest that was asked for, one read at a time."""

import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from qtpy.QtCore import QObject, Signal
from superqt.utils import FunctionWorker, create_worker

from napari_mst.plugin.regions import Task

logger = logging.getLogger("napari_mst")

Found = dict[Hashable, dict[int, Any]]
"""What each task has read, by its key."""


def run_all(tasks: Sequence[Task], is_stopped: Callable[[], bool]) -> Found:
    """What the *tasks* find, until it is stopped."""
    found: Found = {}
    for task in tasks:
        if is_stopped():
            break
        found[task.key] = task.run()
    return found


class RegionReader(QObject):
    """Keeps what was read as long as it is asked for; `found_more` tells that there is more."""

    found_more = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.found: Found = {}
        self._wanted: tuple[Task, ...] = ()
        self._running: tuple[Task, ...] = ()
        self._worker: FunctionWorker[Found] | None = None
        self._stop = _Flag()

    @property
    def is_busy(self) -> bool:
        """Whether something is being read."""
        return self._worker is not None

    def ask(self, tasks: Sequence[Task]) -> None:
        """Have *tasks* read, and forget all others."""
        keys = {task.key for task in tasks}
        self.found = {key: read for key, read in self.found.items() if key in keys}
        self._wanted = tuple(task for task in tasks if task.key not in self.found)
        self._begin()

    def stop(self) -> None:
        """Forget everything."""
        self._stop.is_set = True
        self.ask(())

    def _begin(self) -> None:
        if self._worker is not None or not self._wanted:
            return
        self._stop, self._running = _Flag(), self._wanted
        self._worker = create_worker(run_all, self._wanted, self._stop.get, _start_thread=False)
        self._worker.returned.connect(self._on_found)
        self._worker.errored.connect(self._on_error)
        self._worker.finished.connect(self._on_finished)
        self._worker.start()

    def _on_found(self, found: Found) -> None:
        self.found |= found
        self.found_more.emit()

    def _on_error(self, error: Exception) -> None:
        """Do not try again what failed."""
        logger.error("The regions could not be read", exc_info=error)
        self.found |= {task.key: {} for task in self._running}

    def _on_finished(self, _: None = None) -> None:
        self._worker, self._running = None, ()
        self._wanted = tuple(task for task in self._wanted if task.key not in self.found)
        self._begin()


class _Flag:
    def __init__(self) -> None:
        self.is_set = False

    def get(self) -> bool:
        return self.is_set
