"""The process of the command line: `napari-mst`, and `python -m napari_mst`.

Ctrl-C is dealt with before anything large is imported, which takes a second or more.
"""

import os
import signal
import sys

from napari_mst.cli.control_c import INTERRUPTED, end_at_control_c


def run() -> None:
    """Run the command line of this process, and end with its exit code."""
    end_at_control_c()
    _open_what_is_closed()
    from napari_mst.cli.main import main

    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done and said, and Python ends
    if code == INTERRUPTED:
        os._exit(
            code
        )  # at once: Python would join threads, and look at every object of torch once more
    sys.exit(code)


def _open_what_is_closed() -> None:
    """Let streams that a shell has closed, as `2>&-` does, lead nowhere; else the next file would take their place."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 (pathlib is not imported yet; open to the end)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115


if __name__ == "__main__":
    run()
