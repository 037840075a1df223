"""A command of the command line, and the exit statuses that it may return."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

DONE = 0
SOME_FAILED = 1
"""Some photos of several failed; the others were written."""
REFUSED = 2
"""The command or its input was refused. argparse uses the same status."""
UNWRITTEN = 74
"""The output could not be written, as on a full disk: EX_IOERR of sysexits.h."""
UNREAD = 141
"""Nobody reads the output any more, as after `head`: 128 and the number of SIGPIPE."""


@dataclass(frozen=True)
class Command:
    """One row of `COMMANDS`.

    Attributes
    ----------
    name
        The word after `napari-mst`.
    help
        One line of `napari-mst --help`.
    add_arguments
        Adds the arguments of the command to its parser.
    run
        Runs the command with the parsed arguments, and returns the exit status.
    epilog
        Shown below the help of the command, as it is.
    """

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    epilog: str = ""
