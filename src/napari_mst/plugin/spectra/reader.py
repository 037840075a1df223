"""Has the points and regions read that were asked for last, on another thread in a window."""

import logging
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from psygnal import Signal

from napari_mst.plugin.jobs.job import Cancel, Job, Start, ignore, run_now
from napari_mst.watch import Watch

logger = logging.getLogger("napari_mst")


class Identity:
    """Compares an array by identity, without keeping it alive.

    The `id` alone would not do: once an array is freed, another one may have it.
    """

    def __init__(self, array: Any) -> None:
        self._id = id(array)
        self._array_ref = weakref.ref(array)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        array = self._array_ref()
        return isinstance(other, Identity) and array is not None and array is other._array_ref()


@dataclass(frozen=True, eq=False)
class Task:
    """Something to be read from a cube.

    Attributes
    ----------
    key
        Identifies the task: two tasks with equal keys read the same.
    slot
        Identifies the region: while a shape is dragged its slot stays, and its key changes.
    run
        Reads; it gets a watch, and raises `Cancelled` soon after that is cancelled.
    is_large
        Whether it waits for all tasks that are not large.
    """

    key: Hashable
    slot: Hashable
    run: Callable[[Watch], Any]
    is_large: bool = False


Found = dict[Hashable, Any]
"""Results of tasks, by the key of the task or by its slot."""


def run_all(tasks: Sequence[Task], watch: Watch) -> Found:
    """Run *tasks*; returns what they have read, by their keys. Raises `Cancelled`."""
    found: Found = {}
    for task in tasks:
        watch.check()
        found[task.key] = task.run(watch)
    return found


class Reader:
    """Reads one batch of tasks at a time, and keeps the results while they are asked for.

    Attributes
    ----------
    found
        The result of each task, by its key; None where there was nothing to read.
    latest
        The last result of each slot: for a region that is being dragged, the curve of a moment
        ago.
    found_more
        Emitted after a batch was read.
    """

    found_more = Signal()

    def __init__(self, start: Start = run_now) -> None:
        self.found: Found = {}
        self.latest: Found = {}
        self._start = start
        self._slots = set[Hashable]()
        self._wanted: tuple[Task, ...] = ()
        self._running: tuple[Task, ...] = ()
        self._cancel: Cancel = ignore

    @property
    def is_busy(self) -> bool:
        """True while something is being read."""
        return bool(self._running)

    def ask(self, tasks: Sequence[Task]) -> None:
        """Have *tasks* read, and forget all others."""
        keys = {task.key for task in tasks}
        self._slots = {task.slot for task in tasks}
        self.found = {key: read for key, read in self.found.items() if key in keys}
        self.latest = self._latest_of(tasks)
        self._wanted = tuple(task for task in tasks if task.key not in self.found)
        is_large_running = any(task.is_large for task in self._running)
        is_small_wanted = not all(task.is_large for task in self._wanted)
        # Thousands of labels take seconds: a shape that is dragged does not wait for them.
        if is_large_running and is_small_wanted:
            self._cancel()
        self._begin()

    def forget(self) -> None:
        """Forget everything, and also what is being read right now."""
        self._cancel()
        self.ask(())

    def _latest_of(self, tasks: Sequence[Task]) -> Found:
        latest: Found = {}
        for task in tasks:
            read = self.found.get(task.key, self.latest.get(task.slot))
            if read is not None:
                latest[task.slot] = read
        return latest

    def _begin(self) -> None:
        if self._running or not self._wanted:
            return
        small = tuple(task for task in self._wanted if not task.is_large)
        # One large task at a time: a small one that comes meanwhile waits for no more than that.
        self._running = small or self._wanted[:1]
        run = partial(run_all, self._running)
        self._cancel = self._start(Job(run, self._on_found, self._on_failed, self._on_end))

    def _on_found(self, found: Found) -> None:
        self.found |= found
        for task in self._running:
            read = found.get(task.key)
            # A region that was deleted during the read has no slot any more.
            if read is not None and task.slot in self._slots:
                self.latest[task.slot] = read
        self.found_more.emit()

    def _on_failed(self, error: Exception) -> None:
        logger.error("The regions could not be read", exc_info=error)
        # Without a result they would be wanted again at once, and fail for ever.
        self.found |= {task.key: None for task in self._running}

    def _on_end(self) -> None:
        self._running = ()
        # A task that was cancelled has read nothing: it is still wanted, and begins again.
        self._wanted = tuple(task for task in self._wanted if task.key not in self.found)
        self._begin()
