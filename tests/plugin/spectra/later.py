"""Work that is done when a test says so, in place of another thread."""

from napari_mst.plugin.jobs.job import Cancel, Job, run_now


class Later:
    """Starts work by keeping it until `do`."""

    def __init__(self) -> None:
        self.waiting: list[Job] = []

    def __call__(self, work: Job) -> Cancel:
        self.waiting.append(work)
        return lambda: None

    def do(self) -> None:
        run_now(self.waiting.pop(0))
