"""Notes and progress of the command line, which go to standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from napari_mst.watch import Watch

BAR = "{desc}: {percentage:3.0f}% |{bar}| {elapsed} < {remaining}"


def tell(line: str) -> None:
    """Print one line to standard error, above a progress bar if there is one."""
    tqdm.write(line, file=sys.stderr)


def note(text: str) -> None:
    """Tell something that is worth knowing and no error."""
    tell(f"note: {text}")


@contextmanager
def progress_bar(title: str, watch: Watch) -> Iterator[Watch]:
    """A progress bar as a watch, which is cancelled when *watch* is."""
    # smoothing=0: the time left follows from the mean speed since the start.
    with tqdm(total=1.0, desc=title, bar_format=BAR, smoothing=0) as bar:

        def advance(share: float) -> None:
            bar.update(share - bar.n)

        yield Watch(advance, watch.is_cancelled)
