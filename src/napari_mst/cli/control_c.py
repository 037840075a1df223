"""Ctrl-C on the command line: it ends the process at once, unless there are files to put in order first.

Python's own answer is a KeyboardInterrupt wherever it happens to be, which is not dependable: libraries that are being
imported swallow it or make another error of it, and threads that compute or compile keep the interpreter from ending.
"""

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

INTERRUPTED = 130
"""Exit code: 128 and the number of SIGINT, as of a shell."""

GRACE = 1.5
"""Seconds that `asked_to_stop` leaves for putting files in order: somebody is waiting."""


def end_at_control_c() -> None:
    """From now on, Ctrl-C ends the process; where it is ignored, as in the background of a script, it stays so."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether Ctrl-C was pressed in the block, which is to stop soon if it was.

    However the block ends, KeyboardInterrupt is raised then: a Ctrl-C is never lost. A second one acts as it did before
    the block, and so does time, where that is to end the process.
    """
    before = signal.getsignal(signal.SIGINT)
    is_reached = threading.current_thread() is threading.main_thread() and callable(before)
    if not is_reached:
        yield lambda: False
        return
    asked = threading.Event()

    def ask(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)
        if before is _end:
            _thread.start_new_thread(
                _end_late, ()
            )  # a Thread takes a lock that the interrupted code may hold

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
        if asked.is_set():
            raise KeyboardInterrupt


def _end_late() -> None:
    time.sleep(GRACE)
    _say("\n")  # the line of a progress bar ends here
    _end()


def _end(*_: object) -> None:
    """End this process, without anything that Python does at its end: joining threads, and looking at every object."""
    _say("cancelled\n")
    os._exit(INTERRUPTED)


def _say(text: str) -> None:
    """Print to standard error, though not through its buffer, in the middle of which Ctrl-C may have come."""
    with suppress(OSError):
        os.write(2, text.encode())
