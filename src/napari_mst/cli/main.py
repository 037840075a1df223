"""The command line: `napari-mst COMMAND ...`. A command is one row of `COMMANDS`.

Results go to standard output; notes, progress and errors go to standard error. The exit statuses
are those of `napari_mst.cli.command`, and 130 for Ctrl-C.
"""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from napari_mst import __version__
from napari_mst.cli.adaptation import ADAPT
from napari_mst.cli.attention import ATTENTION
from napari_mst.cli.command import REFUSED, UNREAD, UNWRITTEN, Command
from napari_mst.cli.comparison import COMPARE
from napari_mst.cli.console import tell
from napari_mst.cli.control_c import INTERRUPTED
from napari_mst.cli.conversion import CONVERT
from napari_mst.cli.doctor import DOCTOR
from napari_mst.cli.evaluation import EVALUATE
from napari_mst.cli.inspection import CAMERAS, INFO, MODELS_COMMAND
from napari_mst.cli.maps import MAP
from napari_mst.cli.reconstruct import RECONSTRUCT
from napari_mst.cli.rendering import RENDER
from napari_mst.cli.spectra import SPECTRA
from napari_mst.cli.training import TRAIN
from napari_mst.errors import Cancelled, NapariMstError
from napari_mst.terminal import harmless_output

COMMANDS: list[Command] = [
    RECONSTRUCT,
    MODELS_COMMAND,
    CAMERAS,
    INFO,
    CONVERT,
    SPECTRA,
    RENDER,
    MAP,
    COMPARE,
    ADAPT,
    ATTENTION,
    EVALUATE,
    TRAIN,
    DOCTOR,
]
"""Every command, in the order of `napari-mst --help`."""


@harmless_output()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    *arguments* are those of this process by default. argparse raises `SystemExit` for arguments
    that it refuses, and after `--help`.
    """
    try:
        try:
            return _run(arguments)
        finally:
            # Python would flush when it ends, where nobody can catch that it fails.
            sys.stdout.flush()
    except OSError as error:
        _silence_broken_streams()
        if _is_closed_pipe(error):
            return UNREAD
        reason = error.strerror or error
        with suppress(OSError):  # standard error itself may be what cannot be written
            tell(
                f"error: Expected to print and save all, got: {reason}. "
                "Make room, or write elsewhere."
            )
        return UNWRITTEN


def _run(arguments: Sequence[str] | None) -> int:
    """Run one command; its errors are told in a sentence."""
    parsed = _parser().parse_args(arguments)
    command: Command = parsed.command
    try:
        return command.run(parsed)
    except (KeyboardInterrupt, Cancelled):
        tell("cancelled")
        return INTERRUPTED
    except NapariMstError as error:
        tell(f"error: {error}")
        return REFUSED


def _parser() -> argparse.ArgumentParser:
    """The parser of all `COMMANDS`."""
    parser = argparse.ArgumentParser(
        prog="napari-mst",
        description="Hyperspectral cubes from RGB photos with MST++.",
        # wide enough for the longest name, so that each command takes one line
        formatter_class=partial(argparse.HelpFormatter, max_help_position=17),
    )
    parser.add_argument("-V", "--version", action="version", version=f"napari-mst {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.name,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(command=command)
    return parser


def _silence_broken_streams() -> None:
    """Let a stream that cannot be written lead nowhere: Python flushes it again when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_closed_pipe(error: OSError) -> bool:
    """True if nobody reads the output any more, as after `| head`."""
    # Windows says EINVAL instead: https://bugs.python.org/issue35754
    is_closed_on_windows = (
        os.name == "nt" and error.errno == errno.EINVAL and error.filename is None
    )
    return isinstance(error, BrokenPipeError) or is_closed_on_windows
