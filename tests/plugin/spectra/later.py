"""Work that is done when a test says so, in place of another thread."""

from napari_mst.plugin.spectra.reader import Cancel, Work, run_now


class Later:
    """Starts work by keeping it until `do`."""

    def __init__(self) -> None:
        self.waiting: list[Work] = []

    def __call__(self, work: Work) -> Cancel:
        self.waiting.append(work)
        return lambda: None

    def do(self) -> None:
        run_now(self.waiting.pop(0))
