"""Output to a terminal, which takes some characters for commands (ECMA-48): names of files and layers may hold such.

They can retitle a window, hide text, or type into some terminals. So what is printed passes through here.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

_COMMANDS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but tabs and line ends; and halves of characters, in which bytes of odd file names are kept."""


def harmless(text: str) -> str:
    """*text* with a question mark in the place of every character that a terminal would take for a command."""
    return _COMMANDS.sub("?", text)


class HarmlessStream:
    """A text stream that writes `harmless` text to *stream*, and is like it in all else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write *text*, and return how many characters that were."""
        return self._stream.write(harmless(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write *lines*, which have line ends of their own."""
        self._stream.writelines(map(harmless, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def harmless_output() -> Iterator[None]:
    """Let all that is printed meanwhile be harmless: by us, by libraries, as progress, warning, log or error."""
    with redirect_stdout(HarmlessStream(sys.stdout)), redirect_stderr(HarmlessStream(sys.stderr)):
        yield
