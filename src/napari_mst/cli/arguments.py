"""Commands of the command line: exit statuses, and arguments derived from signatures.

A command is a function, and its parameters are the arguments: positional before the `*`, flags
after it. A parameter that is a record contributes its fields. Types determine how text is parsed;
annotations add what types leave open: `Annotated[Pixel, pixel_of, "-p"]`. A callable parses text to
a value, or raises `ValueError` with a sentence. Strings are flags; a flag with two dashes replaces
the name. Any other collection lists the allowed values or, for a record, the offered fields.
Several values form a tuple, with a fixed number of types, or with `...` for any number.

Help texts come from docstrings. An entry `name : PLACEHOLDER` is followed by a line for `--help`,
to which the default is added. A function may override the entry of a record's field. A heading
other than `Parameters` begins a group and is followed by a description. `Examples` and `Notes`
appear below the help.
"""

import argparse
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, is_dataclass, replace
from importlib import import_module
from inspect import Parameter, getdoc, signature
from textwrap import fill
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

DONE = 0
SOME_FAILED = 1
"""Some of several photos failed; the others were written."""
REFUSED = 2
"""The command or its input was refused; argparse uses the same status."""
UNWRITTEN = 74
"""The output could not be written, for example on a full disk: EX_IOERR of sysexits.h."""
UNREAD = 141
"""The reader of the output has gone, for example `head`: 128 + SIGPIPE."""

_PLAIN = ("Parameters", "Attributes")  # headings in a docstring that begin no group
_HEADING = re.compile(r"^(.+)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+)(?: : (.+))?\n((?: +.+(?:\n|$))+)", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """One row of `COMMANDS`.

    Attributes
    ----------
    name
        The word after `napari-mst`.
    help
        One line of `napari-mst --help`.
    function
        The function that does the work and returns the exit status, or None for `DONE`; or
        "module:name", imported when the command is used.
    more
        Function that returns the end of the help, named in the same way.
    """

    name: str
    help: str
    function: Callable[..., int | None] | str
    more: str = ""

    def load(self) -> Callable[..., int | None]:
        """Return the function."""
        return _named(self.function) if isinstance(self.function, str) else self.function

    @property
    def epilog(self) -> str:
        """The text below the help."""
        sections = _sections(self.load())
        examples = sections.get("Examples", "").splitlines()
        more = _named(self.more)() if self.more else ""
        parts = ("\n  ".join(["examples:", *examples]), sections.get("Notes"), more)
        return "\n\n".join(filter(None, parts))


def _named(text: str) -> Any:
    module, name = text.split(":")
    return getattr(import_module(f"napari_mst.cli.{module}"), name)


def add_arguments(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    """Add an argument to *parser* for every parameter of *function* and every field of a record."""
    groups: dict[str, Any] = dict.fromkeys(("", *_PLAIN), parser)

    def add(function: Any, default: Any, names: Collection[str], outer: dict[str, Any]) -> None:
        sections = _sections(function)
        words = {
            name: (title, metavar or None, " ".join(text.split()))
            for title, body in sections.items()
            for name, metavar, text in _ENTRY.findall(body)
        } | outer
        for parameter, kind, marks in _parameters(function, default, names):
            if not is_dataclass(kind):
                title, metavar, text = words.get(parameter.name, ("", None, ""))
                if title not in groups:
                    about = fill(_ENTRY.sub("", sections[title]).strip(), 78)
                    groups[title] = parser.add_argument_group(title, about)
                option = {"metavar": metavar, "help": _help(text, parameter.default)}
                _add(groups[title], parameter, kind, marks, option)
            elif parameter.default is not None:
                add(kind, parameter.default, marks[0] if marks else (), words)

    add(function, None, (), {})


def called(
    function: Any, given: dict[str, Any], default: Any = None, names: Collection[str] = ()
) -> Any:
    """Call *function* with the arguments that were *given*; records validate themselves.

    A *default* record is copied with new values for the offered *names*.
    """
    values = {}
    for parameter, kind, marks in _parameters(function, default, names):
        value = given.get(parameter.name)
        if not is_dataclass(kind):
            values[parameter.name] = tuple(value) if isinstance(value, list) else value
        elif parameter.default is not None:
            values[parameter.name] = called(kind, given, parameter.default, *marks)
    return function(**values) if default is None else replace(default, **values)


def _parameters(
    function: Any, default: Any, names: Collection[str]
) -> Iterator[tuple[Parameter, Any, list[Any]]]:
    """Yield parameters of *function*, with types and annotations: those in *names*, or all."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in signature(function).parameters.items():
        if not names or name in names:
            value = getattr(default, name, parameter.default)
            # Fields of a record may be given in any order.
            place = Parameter.KEYWORD_ONLY if is_dataclass(function) else parameter.kind
            yield parameter.replace(default=value, kind=place), *_kind_of(hints[name])


def _kind_of(hint: Any) -> tuple[Any, list[Any]]:
    """Return the first type in *hint*, and its annotations."""
    if get_origin(hint) in (Union, UnionType):
        hint, *_ = get_args(hint)
    kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    return kind, marks


def _add(group: Any, parameter: Parameter, kind: Any, marks: list[Any], option: Any) -> None:
    """Add the argument for *parameter* to *group*; *option* has its metavar and help."""
    is_flag = parameter.kind is Parameter.KEYWORD_ONLY
    is_required = parameter.default is Parameter.empty
    option["default"] = None if is_required else parameter.default
    if get_origin(kind) is tuple and not marks:
        kind, *others = get_args(kind)
        kind, marks = _kind_of(kind)
        if others != [...]:
            option["nargs"] = 1 + len(others)
        elif is_flag:
            option |= {"action": "append", "default": []}
        else:
            option["nargs"] = "+"
    flags = [mark for mark in marks if isinstance(mark, str)]
    if kind is bool:
        del option["metavar"]
        has_no = parameter.default is not False
        option["action"] = argparse.BooleanOptionalAction if has_no else "store_true"
    elif get_origin(kind) is Literal:
        option["choices"] = get_args(kind)
        option["type"] = type(get_args(kind)[0])
    else:
        option["type"] = next((_parser_of(mark) for mark in marks if callable(mark)), kind)
        lists = (mark for mark in marks if mark not in flags and not callable(mark))
        option["choices"] = next(map(tuple, lists), None)
    if is_flag:
        if not any(flag.startswith("--") for flag in flags):
            flags.append(f"--{parameter.name.replace('_', '-')}")
        group.add_argument(*flags, dest=parameter.name, required=is_required, **option)
    else:
        # argparse stores a positional argument under its name, so only the metavar can differ.
        option["metavar"] = option["metavar"] or parameter.name.upper()
        group.add_argument(parameter.name, **option)


def _help(text: str, default: Any) -> str:
    is_plain = isinstance(default, bool) or default in (None, "", (), Parameter.empty)
    has_one = not is_plain and "default" not in text
    return (f"{text} (default: {default})" if has_one else text).replace("%", "%%")


def _parser_of(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def _sections(function: Callable[..., Any]) -> dict[str, str]:
    """Return the sections of the docstring of *function*, by heading."""
    _, *parts = _HEADING.split(getdoc(function) or "")
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
