"""Work that is done when a test says so, in place of another thread."""

from functools import partial

from napari_mst.plugin.jobs.task import Cancel, Task, run_now


class Later:
    """Starts work by keeping it until `do`; of work that was cancelled, only the end is heard."""

    def __init__(self) -> None:
        self.waiting: list[Task] = []
        self.cancelled: list[Task] = []

    def __call__(self, work: Task) -> Cancel:
        self.waiting.append(work)
        return partial(self.cancelled.append, work)

    def do(self) -> None:
        work = self.waiting.pop(0)
        if work in self.cancelled:
            work.on_end()
        else:
            run_now(work)
