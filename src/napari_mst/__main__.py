"""The process of the command line: `napari-mst`, and `python -m napari_mst`.

Ctrl-C is dealt with before anything large is imported, since that takes a second or more.
"""

import gc
import os
import signal
import sys

from napari_mst.cli.control_c import INTERRUPTED, end_at_control_c


def run() -> None:
    """Run the command line of this process, and end with its exit status."""
    end_at_control_c()
    _open_closed_streams()
    from napari_mst.cli.main import main

    status = main()
    # Everything is done and said; a Ctrl-C while Python ends would only add noise.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if status == INTERRUPTED:
        # At once: Python would join threads, and look at every object of torch once more.
        os._exit(status)
    # Python would look once more at every object of every library, which takes .05 s.
    gc.freeze()
    sys.exit(status)


def _open_closed_streams() -> None:
    """Let streams that a shell has closed, as `2>&-` does, lead nowhere.

    Otherwise the next file that is opened would take their place, and errors would go into it.
    """
    # pathlib is not imported yet, and the streams stay open to the end.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115


if __name__ == "__main__":
    run()
