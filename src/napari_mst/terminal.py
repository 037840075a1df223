"""Output to a terminal, which takes some characters for commands (ECMA-48).

Names of files and layers may hold such characters. They can retitle a window, hide text, or type
into some terminals. So all that is printed passes through here.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

# Control characters but tabs and line ends. And halves of characters (surrogates), in which Python
# keeps bytes of odd file names.
_COMMANDS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def harmless(text: str) -> str:
    """*text*, with a question mark for every character that a terminal takes for a command."""
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
    """Let all that is printed meanwhile be harmless.

    It may come from us or from libraries, as progress, warning, log or error.
    """
    output = HarmlessStream(sys.stdout)
    errors = HarmlessStream(sys.stderr)
    with redirect_stdout(output), redirect_stderr(errors):
        yield
