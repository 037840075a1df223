"""The command line: `napari-mst COMMAND ...`. A command is one row of `COMMANDS`.

Results go to standard output; notes, progress and errors go to standard error.
`napari_mst.cli.arguments` lists the exit statuses; Ctrl-C gives 130.
"""

import argparse
import difflib
import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

from napari_mst import __version__
from napari_mst.base.errors import Cancelled, NapariMstError, shown
from napari_mst.cli.arguments import (
    DONE,
    REFUSED,
    UNREAD,
    UNWRITTEN,
    Command,
    add_arguments,
    called,
)
from napari_mst.cli.console import harmless_output, report, warnings_noted
from napari_mst.cli.control_c import INTERRUPTED


def complete(shell: Literal["bash", "zsh", "tcsh"]) -> None:
    """Print a script for a shell that completes commands and options on the Tab key.

    Parameters
    ----------
    shell
        the shell of the script

    Examples
    --------
    napari-mst completion bash > ~/.local/share/bash-completion/completions/napari-mst
    """
    import shtab

    print(shtab.complete(parser_of(COMMANDS), shell))


COMMANDS: list[Command] = [
    Command("reconstruct", "turn photos into spectral cubes", "reconstruct:reconstruct_photos"),
    Command("clip", "turn a video or a series into cubes", "clips:reconstruct_frames"),
    Command("models", "list the models: what they are for, how accurate", "inspection:list_models"),
    Command("export", "save a model as ONNX, for other programs", "inspection:export_model"),
    Command(
        "cameras", "list the cameras and illuminants of mstpp-camera", "inspection:list_cameras"
    ),
    Command("info", "show what a cube file holds and its history", "inspection:describe_cube"),
    Command("convert", "save a cube file in another format", "cubes:convert"),
    Command("spectra", "read the spectra of pixels, as a table", "cubes:read_pixels"),
    Command(
        "render",
        "render a cube as an eye sees it under a light",
        "cubes:render",
        "cubes:illuminants",
    ),
    Command(
        "map", "make a map of a cube, as of classes or ratios", "cubes:make_map", "cubes:kinds"
    ),
    Command("labels", "measure classes or cells of a cube, as a table", "cubes:measure_labels"),
    Command("compare", "measure how far a cube is from a reference", "cubes:compare"),
    Command("refine", "correct a cube by spectra measured in the scene", "refine:refine_cube"),
    Command("attention", "save the attention: matrices, maps, pixels", "attention:save_attention"),
    Command("evaluate", "measure how well models do on real scenes", "training:evaluate"),
    Command("train", "train a new model, or tune one to your cubes", "training:train_model"),
    Command("doctor", "check the installation, for a bug report", "inspection:check_installation"),
    Command("completion", "print what completes commands in a shell", complete),
]
"""Every command, in the order of `napari-mst --help`."""


@harmless_output()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    *arguments* default to those of this process. argparse raises `SystemExit` for invalid
    arguments, and after `--help`.
    """
    try:
        try:
            return _run(arguments)
        finally:
            # Flushed here, since failures of Python's final flush cannot be caught.
            sys.stdout.flush()
    except OSError as error:
        _silence_broken_streams()
        # The reader of the output has gone, for example `| head`. Windows reports EINVAL instead:
        # https://bugs.python.org/issue35754
        is_closed_pipe = isinstance(error, BrokenPipeError)
        if os.name == "nt" and error.errno == errno.EINVAL and error.filename is None:
            is_closed_pipe = True
        if is_closed_pipe:
            return UNREAD
        reason = error.strerror or error
        with suppress(OSError):  # standard error itself may be unwritable
            report(
                f"error: Expected to print and save all, got: {reason}. "
                "Make room, or write elsewhere."
            )
        return UNWRITTEN


def _run(arguments: Sequence[str] | None) -> int:
    """Run one command and report its errors in a sentence."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    words = [word for word in given if not word.startswith("-")]
    parser = parser_of([command for command in COMMANDS if command.name in words[:1]])
    if words and words[0] not in {command.name for command in COMMANDS}:
        parser.error(_unknown(words[0]))
    parsed = vars(parser.parse_args(given))
    try:
        with warnings_noted():
            status: int | None = called(parsed["command"].load(), parsed)
        return status or DONE
    except (KeyboardInterrupt, Cancelled):
        report("cancelled")
        return INTERRUPTED
    except NapariMstError as error:
        report(f"error: {error}")
        return REFUSED


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], 1)
    advice = f"Did you mean {near[0]}?" if near else "`napari-mst --help` lists them."
    return f"Expected a command, got {shown(name)!r}. {advice}"


def parser_of(commands: Sequence[Command]) -> argparse.ArgumentParser:
    """Return the parser for all `COMMANDS`, with the arguments of some *commands*.

    The arguments of other commands are left out, since they would have to be imported.
    """
    parser = argparse.ArgumentParser(
        prog="napari-mst",
        description="Hyperspectral cubes from RGB photos with MST++.",
        # Wide enough for the longest name, so that each command takes one line.
        formatter_class=partial(argparse.HelpFormatter, max_help_position=17),
    )
    parser.add_argument("-V", "--version", action="version", version=f"napari-mst {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.name,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subparser.set_defaults(command=command)
        if command in commands:
            add_arguments(subparser, command.load())
            subparser.epilog = command.epilog
    return parser


def _silence_broken_streams() -> None:
    """Redirect unwritable streams to nowhere, since Python flushes them again when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
