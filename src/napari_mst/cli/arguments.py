"""A command of the command line, its exit statuses, and its arguments from the fields of a record.

A field with an `Option` is an argument; a field that is a record brings the arguments of that.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from textwrap import fill
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from napari_mst.option import Only, Option

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


def add_arguments(parser: argparse.ArgumentParser, record: type) -> None:
    """Add an argument to *parser* for every option of *record*."""
    groups: dict[str, Any] = {"": parser}

    def add(record: type, defaults: Any, only: Only | None) -> None:
        for name, kind, option, only_inner in _fields(record, only):
            default = getattr(defaults, name, None)
            if option is None:
                add(kind, default or kind, only_inner)
                continue
            title, text = option.group
            if title not in groups:
                groups[title] = parser.add_argument_group(title, fill(text, 78))
            _add(groups[title], name, kind, option, default)

    # The defaults of a record are attributes of its class.
    add(record, record, None)


def record_of(record: type, given: dict[str, Any], only: Only | None = None) -> Any:
    """Make *record* of the parsed arguments; it checks itself."""
    values = {}
    for name, kind, option, only_inner in _fields(record, only):
        if option is None:
            values[name] = record_of(kind, given, only_inner)
        else:
            value = given[name]
            values[name] = tuple(value) if isinstance(value, list) else value
    return record(**values)


def _fields(
    record: type, only: Only | None
) -> Iterator[tuple[str, Any, Option | None, Only | None]]:
    """The name and type of each field of *record*, with its option; records have none."""
    hints = get_type_hints(record, include_extras=True)
    for field in fields(record):
        if only is None or field.name in only.names:
            hint = hints[field.name]
            kind, *marks = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
            option = next((mark for mark in marks if isinstance(mark, Option)), None)
            only_inner = next((mark for mark in marks if isinstance(mark, Only)), None)
            if option is not None or is_dataclass(kind):
                yield field.name, kind, option, only_inner


def _add(group: Any, name: str, kind: Any, option: Option, default: Any) -> None:
    if get_origin(kind) in (Union, UnionType):
        parts = [part for part in get_args(kind) if part is not NoneType]
        kind = parts[0] if len(parts) == 1 else kind
    settings: dict[str, Any] = {"help": _help(option, default), "default": default}
    if kind is bool:
        settings["action"] = "store_true" if default is False else argparse.BooleanOptionalAction
    else:
        choices = None if option.choices is None else tuple(option.choices)
        if get_origin(kind) is Literal:
            choices = get_args(kind)
            kind = type(choices[0])
        elif get_origin(kind) is tuple:
            kind = get_args(kind)[0]
        parse = _parser_of(option.parse) if option.parse else kind
        settings |= {"metavar": option.metavar, "choices": choices, "type": parse}
    if option.nargs is not None:
        settings["nargs"] = option.nargs
    if option.is_repeated:
        settings |= {"action": "append", "default": []}
    if option.is_positional:
        # The name of a positional argument says where its value goes.
        settings["metavar"] = option.metavar or name.upper()
        group.add_argument(name, **settings)
    else:
        flags = option.flags or (f"--{name.replace('_', '-')}",)
        group.add_argument(*flags, dest=name, required=option.is_required, **settings)


def _help(option: Option, default: Any) -> str:
    is_plain = isinstance(default, bool) or default in (None, "", ())
    has_one = not is_plain and "default" not in option.help
    text = f"{option.help} (default: {default})" if has_one else option.help
    return text.replace("%", "%%")


def _parser_of(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed
