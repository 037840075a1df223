"""Progress of a long computation: reports the share done, and stops the work on a cancel."""

from collections.abc import Callable
from dataclasses import dataclass

from napari_mst.base.errors import Cancelled

ReportShare = Callable[[float], None]
"""Called with the share of the work that is done, 0-1, from the thread that computes."""

IsCancelled = Callable[[], bool]
"""Called repeatedly, from the thread that computes; returns True if the work should stop."""


@dataclass(frozen=True)
class Progress:
    """Follows a long computation, and can cancel it.

    Every long function takes one as *progress*. A plain function of the share done is enough where
    nothing needs to be cancelled.

    Attributes
    ----------
    report
        Called with the share of the work that is done, 0-1.
    is_cancelled
        Called as often as *report*. Once it returns True, the computation ends with `Cancelled` and
        leaves nothing behind.

    Notes
    -----
    =====  =======================================
    share  share of the work that is done, 0 to 1
    =====  =======================================

    Examples
    --------
    >>> shares = []
    >>> progress = nm.Progress(shares.append, is_cancelled=lambda: False)
    >>> reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))
    >>> cube = reconstructor.reconstruct(np.full((4, 6, 3), 128, np.uint8), progress)
    >>> shares[-1]
    1.0
    >>> progress.part(0, 0.5).reach(0.5)  # in a long function of your own
    >>> shares[-1]
    0.25
    >>> progress.step(1, 2).reach(0)  # the second of two equal parts
    >>> shares[-1]
    0.5
    >>> progress.check()
    """

    report: ReportShare | None = None
    is_cancelled: IsCancelled | None = None

    def check(self) -> None:
        """Raise `Cancelled` if the computation is cancelled."""
        if self.is_cancelled is not None and self.is_cancelled():
            raise Cancelled("The computation was cancelled.")

    def reach(self, share: float) -> None:
        """Report the *share* that is done, 0-1, or raise `Cancelled` if it is cancelled."""
        self.check()
        if self.report is not None:
            self.report(min(share, 1.0))

    def part(self, start: float, stop: float) -> "Progress":
        """Return the progress of the part from *start* to *stop*, two shares of the whole."""
        report = self.report
        if report is None:
            return self  # all parts share the same cancel
        return Progress(lambda share: report(start + share * (stop - start)), self.is_cancelled)

    def step(self, index: int, count: int) -> "Progress":
        """Return the progress of part *index*, counted from 0, of *count* equal parts."""
        return self.part(index / count, (index + 1) / count)


NO_PROGRESS = Progress()
"""Reports nothing, and is never cancelled."""

ProgressLike = Progress | ReportShare | None
"""The progress that a long function takes: a `Progress`, a function of the share done, or none."""


def as_progress(progress: ProgressLike) -> Progress:
    """Return *progress* as a `Progress`."""
    if progress is None:
        return NO_PROGRESS
    return progress if isinstance(progress, Progress) else Progress(progress)
