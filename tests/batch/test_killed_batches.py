"""Whatever is killed while 40 photos are made: 40 cubes, bit-identical, none made more than twice.

Real processes of the command line are killed at random moments, without a word. Each process writes
down what it begins, by a `sitecustomize` that wraps `PreparedPhoto.reconstruct`.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from napari_mst.formats import read_cube

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a thing of POSIX"),
]

Process = subprocess.Popen[str]
LOG = logging.getLogger(__name__)

PHOTOS = 40
SIDE = 64
PATIENCE = 600
"""Seconds that anything may take on a busy computer."""

SITE = """
import os, sys
if "multiprocessing" in " ".join(sys.orig_argv) or "napari_mst" in " ".join(sys.orig_argv):
    from napari_mst.reconstruction.pipeline import PreparedPhoto
    _reconstruct = PreparedPhoto.reconstruct
    def reconstruct(seen, progress):
        log = os.open(os.environ["BEGUN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{os.getpid()} {seen.photo.name}\\n".encode())
        os.close(log)
        return _reconstruct(seen, progress)
    PreparedPhoto.reconstruct = reconstruct
"""


class Begun:
    """Reads what the processes have begun: the process and the name of the photo, in order."""

    def __init__(self, log: Path) -> None:
        self._log = log

    @property
    def lines(self) -> list[tuple[int, str]]:
        text = self._log.read_text() if self._log.exists() else ""
        # The last line may be unfinished.
        pairs = (line.split(" ", 1) for line in text.splitlines(keepends=True) if "\n" in line)
        return [(int(process), name.strip()) for process, name in pairs]

    @property
    def most(self) -> int:
        """The number of times that the photo begun most often was begun."""
        return max(Counter(name for _, name in self.lines).values())


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number in range(PHOTOS):
        pixels = np.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    return folder


@pytest.fixture(scope="module")
def expected(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cubes of one undisturbed process."""
    out = tmp_path_factory.mktemp("expected")
    subprocess.run([*command(photos, out)], check=True, capture_output=True)
    return out


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begun:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    return Begun(tmp_path / "begun")


def command(photos: Path, out: Path, *more: str) -> list[str]:
    napari_mst = [sys.executable, "-m", "napari_mst"]
    folders = [str(photos), "-o", str(out)]
    return [*napari_mst, "reconstruct", *folders, "--device", "cpu", "--memory", "2", *more]


@contextmanager
def started(arguments: list[str]) -> Iterator[Process]:
    """A process, which is killed at the end if it still runs."""
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool], processes: list[Process]) -> None:
    """Wait until *condition* holds; fail where one of *processes* has ended before."""
    end = time.monotonic() + PATIENCE
    while not condition():
        for process in processes:
            if process.poll() is not None:
                _, told = process.communicate()
                pytest.fail(f"{process.args!r} ended early: {(told or '')[-2000:]}")
        assert time.monotonic() < end
        time.sleep(0.01)


def kill_at_random(begun: Begun, seed: int, processes: list[Process]) -> int:
    """Kill the process that begins a random one of the photos, a random moment later."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, PHOTOS - 5))
    wait_for(lambda: len(begun.lines) >= count, processes)
    threading.Event().wait(float(rng.uniform(0, 0.5)))
    process, _ = begun.lines[count - 1]
    os.kill(process, signal.SIGKILL)
    return process


def assert_is_whole(out: Path, expected: Path) -> None:
    """All cubes are there, undamaged and bit for bit those of one process, and nothing else is."""
    names = sorted(path.name for path in expected.iterdir())
    assert len(names) == 2 * PHOTOS
    assert sorted(path.name for path in out.iterdir()) == names
    for header in out.glob("*.hdr"):
        cube = read_cube(header, verify=True)
        assert (cube.data == read_cube(expected / header.name).data).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_killed_worker_costs_no_cube(
    photos: Path, expected: Path, begun: Begun, tmp_path: Path, seed: int
) -> None:
    out = tmp_path / "out"
    with started(command(photos, out, "--workers", "3")) as run:
        kill_at_random(begun, seed, [run])
        printed, told = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, told[-2000:]
    assert len(printed.splitlines()) == PHOTOS
    assert_is_whole(out, expected)
    assert begun.most <= 2
    LOG.info("%d begun, none more than %d times", len(begun.lines), begun.most)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_killed_run_leaves_its_photos_to_another_run_over_the_folder(
    photos: Path, expected: Path, begun: Begun, tmp_path: Path, seed: int
) -> None:
    out = tmp_path / "out"
    with started(command(photos, out)) as one, started(command(photos, out)) as two:
        runs = {run.pid: run for run in (one, two)}
        killed = runs.pop(kill_at_random(begun, seed, [one, two]))
        (other,) = runs.values()
        _, told = other.communicate(timeout=PATIENCE)
        killed.communicate()
    assert other.returncode == 0, told[-2000:]
    assert_is_whole(out, expected)
    assert begun.most <= 2
    LOG.info("%d begun, none more than %d times", len(begun.lines), begun.most)
