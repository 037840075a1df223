"""Options of a record: what a field's type and default leave open, written once beside the field.

The command line makes its arguments from them, and checks nothing itself: a record refuses bad
values when it is made, from Python and from the command line alike.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """The words and the spelling of one option: `Annotated[int, Option("number of steps")]`.

    Attributes
    ----------
    help
        A line for `--help`; the default is added to it.
    metavar
        The placeholder of the value.
    flags
        The spellings on the command line; by default `--name-of-the-field`.
    parse
        Makes the value of its text. Raises `ValueError` with a sentence.
    choices
        The values that may be chosen, where the type does not list them.
    nargs
        The number of values.
    is_repeated
        Whether the option may be repeated, each time with one more value of a tuple.
    group
        The heading under which `--help` lists it, and a line below the heading.
    is_required
        Whether it has to be given, though it has a flag.
    is_positional
        Whether the value stands alone, without a flag before it.
    """

    help: str
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    parse: Callable[[str], Any] | None = None
    choices: Collection[Any] | None = None
    nargs: int | str | None = None
    is_repeated: bool = False
    group: tuple[str, str] = ("", "")
    is_required: bool = False
    is_positional: bool = False


@dataclass(frozen=True)
class Only:
    """The fields of a record that a command offers: `Annotated[RunOptions, Only("device")]`."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)
