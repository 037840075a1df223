"""Ctrl-C ends the command line at any moment: while it imports, compiles, computes or saves."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from napari_mst.base.progress import Progress
from napari_mst.cli.control_c import INTERRUPTED, asked_to_stop, end_at_control_c

pytestmark = pytest.mark.usefixtures("control_c")


def is_cancelled(progress: Progress) -> bool:
    return progress.is_cancelled is not None and progress.is_cancelled()


def test_a_block_is_told_of_control_c_and_ends_with_it() -> None:
    told = []

    def work() -> None:
        with asked_to_stop() as progress:
            told.append(is_cancelled(progress))
            signal.raise_signal(signal.SIGINT)
            told.append(is_cancelled(progress))

    with pytest.raises(KeyboardInterrupt):
        work()
    assert told == [False, True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_block_that_fails_ends_with_control_c_all_the_same() -> None:
    def fail() -> None:
        signal.raise_signal(signal.SIGINT)
        raise ValueError("of a library that was interrupted")

    with pytest.raises(KeyboardInterrupt), asked_to_stop():
        fail()


def test_a_block_without_control_c_ends_as_it_does() -> None:
    with asked_to_stop() as progress:
        assert not is_cancelled(progress)
    with pytest.raises(ValueError, match="its own"), asked_to_stop():
        raise ValueError("its own")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_control_c_in_a_block_is_raised_at_once() -> None:
    def press_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("not raised")

    with pytest.raises(KeyboardInterrupt), asked_to_stop():
        press_twice()


def test_control_c_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_at_control_c()
    with asked_to_stop() as progress:
        signal.raise_signal(signal.SIGINT)
        assert not is_cancelled(progress)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


PRESSED = """
import signal, sys, time
from napari_mst.cli import control_c
control_c.GRACE = 0.1
control_c.end_at_control_c()
try:
    {block}
except BaseException:
    print("swallowed")
print("survived")
"""


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ("signal.raise_signal(signal.SIGINT)", "cancelled"),
        (
            "with control_c.asked_to_stop(): [signal.raise_signal(2), signal.raise_signal(2)]",
            "cancelled",
        ),
        (
            "with control_c.asked_to_stop(): signal.raise_signal(signal.SIGINT); time.sleep(60)",
            "\ncancelled",
        ),
    ],
    ids=["at-once", "twice", "stuck"],
)
def test_a_process_ends_whatever_a_library_makes_of_control_c(block: str, line: str) -> None:
    done = run_python(PRESSED.format(block=block))
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", f"{line}\n")


WHILE_IMPORTING = """
import signal, sys
library, sys.argv[1:] = sys.argv[1], sys.argv[2:]

class Press:
    def find_spec(self, name, *_):
        if name == library:
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Press())
from napari_mst.__main__ import run
run()
"""


@pytest.mark.parametrize("library", ["argparse", "torch", "numba"])
def test_control_c_during_an_import_ends_with_one_line(tmp_path: Path, library: str) -> None:
    """The last of them comes late, with the first look for compiled kernels."""
    photo = Path(__file__).parents[2] / "sample_data" / "coffee.jpg"
    arguments = ["reconstruct", str(photo), "-o", str(tmp_path / "cube.hdr"), "--device", "cpu"]
    done = run_python(WHILE_IMPORTING, library, *arguments)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    assert [line for line in done.stderr.splitlines() if not line.startswith("note: ")] == [
        "cancelled"
    ]
    assert not list(tmp_path.iterdir())


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """*code* in an interpreter of its own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
