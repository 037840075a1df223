"""Work that takes long, and its start: on another thread in a window, at once in a script."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from napari_mst.watch import Watch

Cancel = Callable[[], None]
"""Asks the work to stop; its result is then not delivered."""


def _ignore(_: float) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Work:
    """Something to compute, and who is told about it.

    Attributes
    ----------
    run
        Computes; it may be called on another thread, and raises `Cancelled` soon after its watch
        asks for that.
    on_done
        Gets what `run` has returned, unless the work was cancelled.
    on_failed
        Gets what `run` has raised.
    on_end
        Called last, whatever came of the work.
    on_progress
        Told now and then the share that is done, 0-1.
    """

    run: Callable[[Watch], Any]
    on_done: Callable[[Any], None]
    on_failed: Callable[[Exception], None]
    on_end: Callable[[], None]
    on_progress: Callable[[float], None] = _ignore


Start = Callable[[Work], Cancel]
"""Starts work; everybody but `run` is told on the thread that has called it."""


def run_now(work: Work) -> Cancel:
    """Do *work* before returning, as a script needs it; what it raises reaches the caller."""
    try:
        result = work.run(Watch(work.on_progress))
    except Exception as error:
        # Told before it is raised: a listener hears the same in a script as in a window.
        work.on_failed(error)
        raise
    else:
        work.on_done(result)
    finally:
        work.on_end()
    return _nothing_to_cancel


def _nothing_to_cancel() -> None:
    pass
