"""The progress of a long computation: it reports the share done, and stops when it is cancelled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from napari_mst.errors import Cancelled

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0-1, from the thread that computes."""

IsCancelled = Callable[[], bool]
"""Asked again and again, from the thread that computes, whether the work is to stop."""


class Arguments(TypedDict):
    """The keyword arguments by which a public function is watched."""

    progress: Progress | None
    is_cancelled: IsCancelled | None


@dataclass(frozen=True)
class Watch:
    """Somebody who watches a computation, or a part of it.

    They are told the share that is done, and asked whether to cancel.
    """

    progress: Progress | None = None
    is_cancelled: IsCancelled | None = None

    def report(self, share: float) -> None:
        """Tell the *share* of this computation that is done, 0-1."""
        if self.progress is not None:
            self.progress(share)

    def check(self) -> None:
        """Raise `Cancelled` if the computation is cancelled."""
        if self.is_cancelled is not None and self.is_cancelled():
            raise Cancelled("The computation was cancelled.")

    def reach(self, share: float) -> None:
        """Raise `Cancelled` if it is cancelled, else tell the *share* that is done, at most 1."""
        self.check()
        self.report(min(share, 1.0))

    def part(self, start: float, stop: float) -> "Watch":
        """The watch over the part from *start* to *stop*, which are shares of the whole."""
        if self.progress is None:
            return self  # a cancel is the same for all parts
        return Watch(lambda share: self.report(start + share * (stop - start)), self.is_cancelled)

    @property
    def arguments(self) -> Arguments:
        """The keyword arguments of a public function that is watched by the same.

        An example is `classify(cube, spectra, **watch.arguments)`.
        """
        return {"progress": self.progress, "is_cancelled": self.is_cancelled}


UNWATCHED = Watch()
"""Nobody watches."""
