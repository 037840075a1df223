"""`napari-mst reconstruct --workers`, `--scheduler`: many photos, several processes."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.cli.conftest import Run, assert_is_one_error, several

from napari_mst.batch import cluster
from napari_mst.batch.cluster import Place, outcomes
from napari_mst.batch.jobs import BatchJob
from napari_mst.errors import ClusterError
from napari_mst.formats import read_cube

distributed = pytest.importorskip("distributed")

# Its own threads and sockets close a moment after a cluster does.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


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
    code, printed, told = run("reconstruct", *photos, "-o", out, "--workers", 1)
    assert code == 1
    assert sorted(printed.splitlines()) == [str(out / "0.hdr"), str(out / "2.hdr")]
    assert "error: 1.png: Expected an" in told
    assert told.endswith("2 of 3 cubes written, 1 failed\n")
    alone = tmp_path / "alone"
    assert run("reconstruct", photos[0], photos[2], "-o", alone)[0] == 0
    for name in ("0.hdr", "2.hdr"):
        made = read_cube(out / name)
        assert (made.data == read_cube(alone / name).data).all()


def test_a_killed_worker_leaves_its_photo_to_another(tmp_path: Path) -> None:
    marks = str(tmp_path)

    def make(job: BatchJob) -> list[str]:
        mark = Path(marks, job.name)
        tries = len(mark.read_text()) if mark.exists() else 0
        mark.write_text("x" * (tries + 1))
        if job.name == "second" and tries == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return [job.name]

    before = dict(os.environ)
    ended = list(outcomes(make, jobs_named("first", "second", "third"), Place(workers=2)))
    assert dict(os.environ) == before
    assert sorted(outcome.lines for outcome in ended) == [("first",), ("second",), ("third",)]
    # A job whose result was lost with its worker is asked for again, but no job a third time.
    tries = {path.name: len(path.read_text()) for path in tmp_path.iterdir()}
    assert tries["second"] == 2
    assert max(tries.values()) == 2


def test_a_result_that_is_lost_with_its_worker_is_made_again(tmp_path: Path) -> None:
    marks = str(tmp_path)

    def make(job: BatchJob) -> list[str]:
        Path(marks, f"{job.name} by {os.getpid()}").touch()
        return [job.name]

    names = ["first", "second", "third"]
    ending = outcomes(make, jobs_named(*names), Place(workers=1))
    ended = [next(ending)]
    wait_for(lambda: len(list(tmp_path.iterdir())) == len(names))
    (worker,) = {int(path.name.split()[-1]) for path in tmp_path.iterdir()}
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(worker))
    ended += ending
    assert sorted(outcome.lines for outcome in ended) == [(name,) for name in names]


def test_a_scheduler_that_goes_away_ends_the_run_in_a_sentence() -> None:
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=None, threads_per_worker=1
    ) as workers:
        place = Place(scheduler=workers.scheduler_address)
        ending = outcomes(lambda job: [job.name], jobs_named("one", "two"), place)
        next(ending)
        workers.close()
        with pytest.raises(ClusterError, match="start the same command again"):
            list(ending)


def test_a_scheduler_that_does_not_answer_is_refused(
    run: Run, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    address = "tcp://127.0.0.1:9"
    photos = several(photo, 2)
    code, _, told = run("reconstruct", *photos, "-o", tmp_path / "o", "--scheduler", address)
    assert code == 2
    assert "Expected a scheduler at tcp://127.0.0.1:9" in told
    assert not (tmp_path / "o").exists()


def test_workers_for_one_file_are_refused(run: Run, photo: Path, tmp_path: Path) -> None:
    code, _, told = run("reconstruct", photo, "-o", tmp_path / "cube.hdr", "--workers", 2)
    assert code == 2
    assert_is_one_error(told.splitlines()[-1], "Expected a folder for the cubes")
