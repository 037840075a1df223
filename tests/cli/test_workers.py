"""`napari-mst reconstruct --workers`: many photos, several processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.cli.conftest import Run, assert_is_one_error, several

from napari_mst.batch import processes
from napari_mst.batch.jobs import BatchJob
from napari_mst.batch.processes import TRIES
from napari_mst.cli import reconstruct
from napari_mst.formats import read_cube

kills = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a thing of POSIX")


def jobs_named(*names: str) -> list[BatchJob]:
    return [BatchJob(Path(name), Path(f"{name}.hdr"), name) for name in names]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_makes_the_cubes_of_this_process_and_tell_what_failed(
    run: Run, photo: Path, tmp_path: Path
) -> None:
    photos = several(photo, 3)
    photos[1].write_bytes(b"GIF")
    out = tmp_path / "out"
    code, printed, errors = run("reconstruct", *photos, "-o", out, "--workers", 1)
    assert code == 1
    assert sorted(printed.splitlines()) == [str(out / "0.hdr"), str(out / "2.hdr")]
    assert "error: 1.png: Expected an" in errors
    assert errors.endswith("2 of 3 cubes written, 1 failed\n")
    alone = tmp_path / "alone"
    assert run("reconstruct", photos[0], photos[2], "-o", alone)[0] == 0
    for name in ("0.hdr", "2.hdr"):
        made = read_cube(out / name)
        assert (made.data == read_cube(alone / name).data).all()


@dataclass(frozen=True)
class Making:
    """Notes each start of a job in a folder of its own; dies of the job "deadly" some *times*."""

    marks: Path
    times: int = 0

    def __call__(self, job: BatchJob) -> list[str]:
        folder = self.marks / job.name
        folder.mkdir(exist_ok=True)
        deaths = len(list(folder.iterdir()))
        (folder / f"{os.getpid()}").touch()
        if job.name == "deadly" and deaths < self.times:
            os.kill(os.getpid(), signal.SIGKILL)
        if job.name == "faulty":
            raise ZeroDivisionError("by 0")
        return [job.name]


@kills
def test_a_worker_that_dies_leaves_its_photo_to_another_and_one_line_says_so(
    tmp_path: Path,
) -> None:
    errors: list[str] = []
    jobs = jobs_named("first", "deadly", "third")
    ended = processes.outcomes(Making(tmp_path, times=1), jobs, workers=2, report=errors.append)
    assert sorted(outcome.lines for outcome in ended) == [("deadly",), ("first",), ("third",)]
    assert errors == ["note: deadly: its worker died of SIGKILL, another makes it"]
    assert {folder.name: len(list(folder.iterdir())) for folder in tmp_path.iterdir()} == {
        "first": 1,
        "deadly": 2,
        "third": 1,
    }


@kills
def test_a_photo_of_which_all_workers_die_fails_alone(tmp_path: Path) -> None:
    jobs = jobs_named("first", "deadly", "faulty", "last")
    making = Making(tmp_path, times=99)
    ended = processes.outcomes(making, jobs, workers=1, report=lambda _: None)
    errors = {outcome.job.name: outcome.error for outcome in ended}
    assert len(list((tmp_path / "deadly").iterdir())) == TRIES
    assert "3 dead ones: the last died of SIGKILL" in errors["deadly"]
    assert "got ZeroDivisionError: by 0" in errors["faulty"]
    assert errors["first"] == errors["last"] == ""


def test_nobody_can_connect_to_workers_and_they_end_with_the_run(tmp_path: Path) -> None:
    ending = processes.outcomes(
        Making(tmp_path), jobs_named("first", "second"), workers=1, report=lambda _: None
    )
    next(ending)
    (worker,) = (int(mark.name) for mark in (tmp_path / "first").iterdir())
    here, there = psutil.Process(), psutil.Process(worker)
    assert there.parent() == here
    assert not any(each.laddr for each in there.net_connections("all"))
    assert len(list(ending)) == 1
    assert not there.is_running()


@kills
def test_workers_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    """The worker waits for a job that never comes."""
    program = """if True:
        import sys
        from pathlib import Path
        from napari_mst.batch import processes
        from tests.cli.test_workers import Making, jobs_named
        making = Making(Path(sys.argv[1]))
        ending = processes.outcomes(making, jobs_named("first", "second"), 1, print)
        print(len([next(ending), next(ending)]), flush=True)
        sys.stdin.read()"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"2\n"
        (worker,) = (int(mark.name) for mark in (tmp_path / "first").iterdir())
        assert psutil.pid_exists(worker)
        run.kill()
    wait_for(lambda: not psutil.pid_exists(worker))


@pytest.mark.parametrize(("cores", "count"), [(2, 0), (15, 0), (16, 2), (64, 8)])
def test_auto_starts_several_processes_on_many_cores_only(
    cores: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert reconstruct._workers("auto") == count
    assert reconstruct._workers("3") == 3
    with pytest.raises(ValueError, match="Expected a number or auto, got -1"):
        reconstruct._workers("-1")


def test_workers_for_one_file_are_refused(run: Run, photo: Path, tmp_path: Path) -> None:
    code, _, errors = run("reconstruct", photo, "-o", tmp_path / "cube.hdr", "--workers", 2)
    assert code == 2
    assert_is_one_error(errors.splitlines()[-1], "Expected a folder for the cubes")
