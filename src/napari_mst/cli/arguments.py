"""Arguments of the command line from the fields of a record, and the record from the arguments.

A field with an `Option` is an argument; a field that is a record brings the arguments of that.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from textwrap import fill
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from napari_mst.option import Only, Option


def add_arguments(parser: argparse.ArgumentParser, record: type) -> None:
    """Add an argument to *parser* for every option of *record*."""
    groups: dict[str, Any] = {"": parser}
    _add_record(parser, groups, record, None, None)


def record_of(record: type, given: dict[str, Any], only: Only | None = None) -> Any:
    """Make *record* of the parsed arguments; it checks itself."""
    values = {}
    hints = get_type_hints(record, include_extras=True)
    for field in fields(record):
        kind, *marks = _parts(hints[field.name])
        if only is not None and field.name not in only.names:
            continue
        if any(isinstance(mark, Option) for mark in marks):
            value = given[field.name]
            values[field.name] = tuple(value) if isinstance(value, list) else value
        elif isinstance(kind, type) and is_dataclass(kind):
            values[field.name] = record_of(kind, given, _only(marks))
    return record(**values)


def _add_record(
    parser: argparse.ArgumentParser,
    groups: dict[str, Any],
    record: type,
    defaults: Any,
    only: Only | None,
) -> None:
    hints = get_type_hints(record, include_extras=True)
    for field in fields(record):
        if only is not None and field.name not in only.names:
            continue
        kind, *marks = _parts(hints[field.name])
        default = _default(field, defaults)
        option = next((mark for mark in marks if isinstance(mark, Option)), None)
        if option is not None:
            title, text = option.group
            if title not in groups:
                groups[title] = parser.add_argument_group(title, fill(text, 78))
            _add(groups[title], field.name, kind, option, default)
        elif isinstance(kind, type) and is_dataclass(kind):
            _add_record(parser, groups, kind, default, _only(marks))


def _only(marks: Sequence[Any]) -> Only | None:
    return next((mark for mark in marks if isinstance(mark, Only)), None)


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if hasattr(hint, "__metadata__") else (hint,)


def _default(field: "Field[Any]", defaults: Any) -> Any:
    if defaults is not None:
        return getattr(defaults, field.name)
    return None if field.default is MISSING else field.default


def _add(group: Any, name: str, kind: Any, option: Option, default: Any) -> None:
    kind = _without_none(kind)
    settings: dict[str, Any] = {"help": _help(option, default), "default": default}
    if kind is bool:
        settings["action"] = "store_true" if default is False else argparse.BooleanOptionalAction
    else:
        choices = None if option.choices is None else tuple(option.choices)
        settings |= {"metavar": option.metavar, "choices": choices}
        if get_origin(kind) is Literal:
            settings |= {"choices": get_args(kind), "type": type(get_args(kind)[0])}
        else:
            one = get_args(kind)[0] if get_origin(kind) is tuple else kind
            settings["type"] = _parser_of(option.parse) if option.parse else one
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


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        parts = [part for part in get_args(kind) if part is not NoneType]
        return parts[0] if len(parts) == 1 else kind
    return kind


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
