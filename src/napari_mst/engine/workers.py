"""The threads that compute the tiles of a run, its progress, and how it is cancelled."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from types import TracebackType
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from napari_mst.base.memory import keep_blocks
from napari_mst.base.progress import Progress
from napari_mst.base.threads import set_threads, threads_of_cpu, torch_if_imported
from napari_mst.engine.fast_paths import native
from napari_mst.engine.plan import STREAMS
from napari_mst.engine.windows import Window

T = TypeVar("T")

_AHEAD = 4
"""Tiles queued for each thread: enough to keep it busy, few enough that a cancel acts soon."""


class Workers:
    """Computes tiles and reports progress. As a context manager it ends its threads with the run.

    On a CPU each tile is computed by one of *threads* threads, by default as many as torch uses.
    (Threads within each small operation would wait for each other, a hundred times longer on a busy
    machine.) The calling thread feeds a GPU. Where its maps live elsewhere (*is_apart*), a few
    threads feed it on separate streams: one copies while another computes. *cost* is the cost of
    all passes together, in the unit of `each`.
    """

    def __init__(
        self,
        device: Any,
        cost: float,
        progress: Progress,
        is_apart: bool = False,
        threads: int = 0,
    ) -> None:
        self._device = device
        self._cost = cost
        self._cost_done = 0.0
        self._progress = progress
        self._threads = threads_of_cpu()
        self._open = ExitStack()
        # One for the whole run: with one for each sweep the GPU could fall further behind.
        self._behind: deque[Any] = deque()  # events of a GPU that this thread feeds
        if device.type == "cpu":
            self._at_once = threads or self._threads
        else:
            self._at_once = STREAMS if is_apart else 0
        self._pool = None
        if self._at_once:
            own = ThreadPoolExecutor(self._at_once, "napari-mst", _prepare_thread, (device,))
            self._pool = own

    def __enter__(self) -> "Workers":
        if self._device.type == "cuda":  # events and pinned memory belong to the current GPU
            import torch

            self._open.enter_context(torch.cuda.device(self._device))
        if self._device.type == "cpu":
            keep_blocks()
            # NumPy multiplies for Gram matrices, and torch for the matrices between two passes:
            # both are too small to share.
            self._open.enter_context(threadpool_limits(1, user_api="blas"))
            set_threads(1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            if self._device.type == "cuda":
                import torch

                torch._C._host_emptyCache()  # pinned memory, which torch would keep
            # The number that a worker set for itself, torch gives to all threads to come.
            set_threads(self._threads)
        self._open.close()

    def each(
        self, compute: Callable[[Window], T], tiles: Iterable[Window], cost: float
    ) -> Iterator[T]:
        """The results of *compute* for every tile, in order.

        It reports progress after each tile and asks before each whether the run is cancelled.

        *cost* is the time that the pass takes, in any unit: progress moves as time does.
        """
        todo = list(tiles)
        for done, result in enumerate(self._results(compute, todo), start=1):
            share = (self._cost_done + cost * done / len(todo)) / self._cost
            # Shares are sums of floats: without rounding the last one could be a little off 1.
            self._progress.reach(round(share, 9))
            yield result
        self._cost_done += cost

    def _results(self, compute: Callable[[Window], T], todo: list[Window]) -> Iterator[T]:
        if self._pool is None:
            yield from self._results_here(compute, todo)
            return
        wait_for(self._device)  # a matrix that all streams are about to read
        # The oldest result is waited for first: results keep the order of the tiles.
        running: deque[Future[T]] = deque()
        for tile in todo:
            self._progress.check()
            running.append(self._pool.submit(_infer, compute, tile, self._device))
            if len(running) > _AHEAD * self._at_once:
                yield running.popleft().result()
        while running:
            self._progress.check()
            yield running.popleft().result()

    def _results_here(self, compute: Callable[[Window], T], todo: list[Window]) -> Iterator[T]:
        """The results of a GPU that this thread feeds, at most `STREAMS` tiles ahead of it."""
        for tile in todo:
            self._progress.check()
            result = compute(tile)
            if self._device.type in ("cuda", "mps"):
                import torch

                self._behind.append(torch.get_device_module(self._device).Event())
                self._behind[-1].record()
            if len(self._behind) > STREAMS:
                self._behind.popleft().synchronize()
            yield result


def _infer(compute: Callable[[Window], T], tile: Window, device: Any) -> T:
    torch = torch_if_imported()
    with torch.inference_mode() if torch else nullcontext():  # a mode of the calling thread only
        result = compute(tile)
    wait_for(device)  # another stream reads it
    return result


def wait_for(device: Any) -> None:
    """Wait until a GPU has finished the work of this thread."""
    if device.type == "cuda":
        import torch

        torch.cuda.current_stream(device).synchronize()


def _prepare_thread(device: Any) -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.set_device(device)
        torch.cuda.set_stream(torch.cuda.Stream(device))
    set_threads(1)
    # GELU leaves numbers below 1e-38, on which a CPU is many times slower.
    native.flush_denormals()
