"""A command of the command line, and the exit statuses that it may return."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

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
    record
        A dataclass whose fields with an `Option` are the arguments, and whose `run` does the work
        and returns the exit status; or "module:Class", which is imported when the command is used.
        Its `examples` are shown below the help, and so is its `more`.
    """

    name: str
    help: str
    record: type | str

    def load(self) -> Any:
        """Return the record."""
        if isinstance(self.record, str):
            module, name = self.record.split(":")
            return getattr(import_module(f"napari_mst.cli.{module}"), name)
        return self.record
