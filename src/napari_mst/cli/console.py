"""Notes and progress on standard error, and harmless output for terminals."""

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

from tqdm import tqdm

from napari_mst.base.errors import CurveWarning, harmless, shown
from napari_mst.base.progress import Progress
from napari_mst.cli.control_c import asked_to_stop

BAR = "{desc}: {percentage:3.0f}% |{bar}| {elapsed} < {remaining}"


class HarmlessStream:
    """A wrapper of *stream* that makes all written text `harmless`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write *text*, and return the number of written characters."""
        return self._stream.write(harmless(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write *lines*, which include their line ends."""
        self._stream.writelines(map(harmless, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def harmless_output() -> Iterator[None]:
    """Make all output harmless during a `with` block.

    This includes progress, warnings, logs and errors, from us or from libraries.
    """
    output = HarmlessStream(sys.stdout)
    errors = HarmlessStream(sys.stderr)
    with redirect_stdout(output), redirect_stderr(errors):
        yield


def report(line: str) -> None:
    """Print one line to standard error, above a progress bar if there is one."""
    tqdm.write(line, file=sys.stderr)


def note(text: str) -> None:
    """Print a note, which is worth knowing but not an error."""
    report(f"note: {text}")


@contextmanager
def warnings_noted() -> Iterator[None]:
    """Print each warning once, as a note, for example that a format loses some metadata."""
    with warnings.catch_warnings():
        # Python forgets which warnings it has shown when a library changes the filters.
        warnings.simplefilter("always", CurveWarning)
        noted = set()

        def tell(message: Warning | str, *_: Any, **__: Any) -> None:
            if str(message) not in noted:
                noted.add(str(message))
                note(shown(message, 300))

        warnings.showwarning = tell
        yield


@contextmanager
def progress_bar(title: str, progress: Progress) -> Iterator[Progress]:
    """Show a progress bar that is cancelled together with *progress*."""
    # smoothing=0: the remaining time follows from the mean speed since the start.
    with tqdm(total=1.0, desc=title, bar_format=BAR, smoothing=0) as bar:

        def advance(share: float) -> None:
            bar.update(share - bar.n)

        yield Progress(advance, progress.is_cancelled)


@contextmanager
def working(title: str) -> Iterator[Progress]:
    """Show a progress bar that Ctrl-C cancels, see `asked_to_stop`."""
    with asked_to_stop() as progress, progress_bar(title, progress) as bar:
        yield bar


def print_json(facts: Any) -> None:
    """Print *facts* as JSON; NaN and infinity become null."""
    print(json.dumps(_of_json(facts), indent=2))


def _of_json(facts: Any) -> Any:
    if isinstance(facts, dict):
        return {name: _of_json(fact) for name, fact in facts.items()}
    if isinstance(facts, list | tuple):
        return [_of_json(fact) for fact in facts]
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts
