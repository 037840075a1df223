"""Ctrl-C on the command line ends the process at once, or after files are put in order.

Python's KeyboardInterrupt, raised wherever execution happens to be, is unreliable: libraries
swallow it during import or turn it into another error, and threads that compute or compile keep the
interpreter from ending.
"""

import _thread
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from napari_mst.base.progress import Progress

INTERRUPTED = 130
"""Exit status 128 + SIGINT, as in a shell."""

GRACE = 1.5
"""Seconds that `asked_to_stop` allows for putting files in order, while the user waits."""

GRACE_OF_WORKERS = 15.0
"""Seconds if other processes must end as well; a second Ctrl-C ends this process at once."""


def end_at_control_c() -> None:
    """Make Ctrl-C end the process, unless it is ignored already, for example by a script."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def asked_to_stop(grace: float | None = None) -> Iterator[Progress]:
    """Yield a progress that Ctrl-C cancels; the block must then stop soon.

    If Ctrl-C was pressed, KeyboardInterrupt is raised however the block ends, so it is never lost.
    A second Ctrl-C acts as before the block. If Ctrl-C ended the process before the block, the
    process also ends after *grace* seconds, by default `GRACE`.
    """
    before = signal.getsignal(signal.SIGINT)
    is_reached = threading.current_thread() is threading.main_thread() and callable(before)
    if not is_reached:
        yield Progress(is_cancelled=lambda: False)
        return
    asked = threading.Event()

    def ask(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)
        if before is _end:
            # threading.Thread needs a lock that the interrupted code may hold.
            _thread.start_new_thread(_end_late, (GRACE if grace is None else grace,))

    signal.signal(signal.SIGINT, ask)
    try:
        yield Progress(is_cancelled=asked.is_set)
    finally:
        signal.signal(signal.SIGINT, before)
        if asked.is_set():
            raise KeyboardInterrupt


def _end_late(grace: float) -> None:
    time.sleep(grace)
    _say("\n")  # ends the line of a progress bar
    _end()


def _end(*_: object) -> None:
    """End this process at once, as Python would first join threads and finalise every object."""
    _say("cancelled\n")
    os._exit(INTERRUPTED)


def _say(text: str) -> None:
    """Print to standard error, bypassing its buffer, since Ctrl-C may interrupt a write."""
    with suppress(OSError):
        os.write(2, text.encode())
