"""The photos and cubes of each step of a fit, drawn ahead by other processes.

A draw depends on its index and its lesson alone. So the fit sees the same photos, whoever draws
them and whenever.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from napari_mst.simulation.scenes import Lesson
from napari_mst.training.sources import LessonSource

Draw = tuple[Tensor, Tensor]
"""Photos (N, 3, H, W) and the cubes (N, 31, H, W) that they show."""

_AHEAD = 4
"""Draws that each process has ready: enough where one of them takes longer than a step."""


@dataclass(frozen=True)
class Order:
    """The *count* photos and cubes with an *index* that a step takes, as *lesson* wants them."""

    index: int
    count: int
    lesson: Lesson


class _Orders(Dataset[Draw]):
    """The draws of *source* for the *orders*, each drawn when it is asked for."""

    def __init__(self, source: LessonSource, orders: Sequence[Order]) -> None:
        self._source = source
        self._orders = orders

    def __len__(self) -> int:
        return len(self._orders)

    def __getitem__(self, place: int) -> Draw:
        order = self._orders[place]
        return self._source.draw(order.index, order.count, order.lesson)


class Drawing:
    """Draws from *source*, here or ahead in some *processes*, and tells how long a fit waited.

    Attributes
    ----------
    waited
        Seconds that the fit has waited for photos so far.
    """

    def __init__(self, source: LessonSource, processes: int = 0) -> None:
        self.waited = 0.0
        self._source = source
        self._processes = processes
        self._ahead: Iterator[Draw] | None = None

    @contextmanager
    def ahead(self, order_of: Callable[[int], Order], steps: range) -> Iterator[None]:
        """Draw the orders of all *steps* ahead while the block takes them, in their order."""
        if self._processes and steps:
            orders = [order_of(step) for step in steps]
            self._ahead = iter(self._loader(orders))
        try:
            yield
        finally:
            self._ahead = None  # ends the processes

    def take(self, order: Order) -> Draw:
        """The photos and cubes of *order*, which is the next where they are drawn ahead."""
        started = time.perf_counter()
        if self._ahead is not None:
            drawn = next(self._ahead)
        else:
            drawn = self._source.draw(order.index, order.count, order.lesson)
        self.waited += time.perf_counter() - started
        return drawn

    def _loader(self, orders: Sequence[Order]) -> DataLoader[Draw]:
        # Processes are spawned: a fork of a program with threads of torch may hang.
        return DataLoader(
            _Orders(self._source, orders),
            batch_size=None,
            num_workers=self._processes,
            prefetch_factor=_AHEAD,
            multiprocessing_context="spawn",
        )
