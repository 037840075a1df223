"""`napari-mst reconstruct --workers`, `--scheduler`: many photos, several processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.cli.conftest import Run, assert_is_one_error, counted, several
from tests.cluster_of_tests import cluster_of_two

import napari_mst
from napari_mst.base.errors import Cancelled, ClusterError
from napari_mst.base.progress import Progress
from napari_mst.batch.batch import Batch, Outcome
from napari_mst.batch.execution import outcomes
from napari_mst.batch.jobs import BatchJob
from napari_mst.cli import reconstruct
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.formats import read_cube

distributed = pytest.importorskip("distributed")
cluster = pytest.importorskip("napari_mst.batch.cluster")

# The sockets of dask close a moment after a cluster does.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

kills = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a thing of POSIX")


@pytest.fixture(scope="module")
def client_of_two() -> Iterator[Any]:
    with cluster_of_two() as client:
        yield client


@pytest.fixture
def client(client_of_two: Any) -> Any:
    # dask starts another worker for each that a test has killed, after that test.
    client_of_two.wait_for_workers(2, timeout=60)
    return client_of_two


def jobs_named(folder: Path, *names: str) -> list[BatchJob]:
    return [BatchJob(folder / name, folder / f"{name}.hdr", name) for name in names]


@dataclass(frozen=True)
class Making:
    """Notes each start of a job in a folder of its own; dies of the job "deadly" some *times*."""

    marks: Path
    times: int = 0

    def cubes(
        self, job: BatchJob, _: set[Path], progress: Progress
    ) -> Iterator[tuple[Path, SpectralCube]]:
        folder = self.marks / "marks" / job.name
        folder.mkdir(parents=True, exist_ok=True)
        starts = len(list(folder.iterdir()))
        (folder / f"{starts} {os.getpid()}").touch()
        if job.name == "deadly" and starts < self.times:
            os.kill(os.getpid(), signal.SIGKILL)
        if job.name == "faulty":
            raise ZeroDivisionError("by 0")
        while job.name == "endless":
            progress.check()
        yield from ()

    def history(self, photo: Path, sha256: str) -> Provenance:
        return Provenance()

    def starts(self, name: str) -> int:
        folder = self.marks / "marks" / name
        return len(list(folder.iterdir())) if folder.exists() else 0

    def ended(self, client: Any, *names: str, report: Callable[[str], None] = print) -> Any:
        batch = Batch(self.cubes, self.history)
        return outcomes(batch, jobs_named(self.marks, *names), client, report=report)


def test_workers_of_a_scheduler_make_the_cubes_of_this_process_and_say_what_failed(
    run: Run, client: Any, photo: Path, tmp_path: Path
) -> None:
    photos = several(photo, 3)
    photos[1].write_bytes(b"GIF")
    out, file = tmp_path / "out", tmp_path / "scheduler.json"
    client.write_scheduler_file(file)
    code, printed, errors = run("reconstruct", *photos, "-o", out, "--scheduler", file)
    assert code == 1
    assert sorted(printed.splitlines()) == [str(out / "0.hdr"), str(out / "2.hdr")]
    assert "error: 1.png: Expected an" in errors
    assert "2 workers, watch them at http://127.0.0.1:" in errors
    assert errors.endswith("2 of 3 cubes written, 1 failed\n")
    alone = tmp_path / "alone"
    assert run("reconstruct", photos[0], photos[2], "-o", alone)[0] == 0
    for name in ("0.img", "2.img"):
        assert (out / name).read_bytes() == (alone / name).read_bytes()
    assert sorted(path.name for path in out.iterdir()) == sorted(
        path.name for path in alone.iterdir()
    )


def test_a_notebook_gives_its_client_and_gets_the_end_of_each_photo(
    client: Any, photo: Path, tmp_path: Path
) -> None:
    photos, shares = several(photo, 2), list[float]()
    photos[1].write_bytes(b"GIF")
    ended = napari_mst.reconstruct_many(
        photos, tmp_path / "cubes", client, model="pixelwise-srgb", progress=shares.append
    )
    errors = {each.job.photo.name: each.error for each in ended}
    assert errors["0.png"] is None
    assert "Expected an image file" in str(errors["1.png"])
    assert shares == [0.5, 1.0]
    alone = napari_mst.reconstruct(photos[0], "pixelwise-srgb")
    assert (read_cube(tmp_path / "cubes" / "0.hdr").data == alone.data).all()


def test_a_cancel_ends_what_workers_are_doing(client: Any, tmp_path: Path) -> None:
    making = Making(tmp_path)
    progress = Progress(is_cancelled=lambda: making.starts("endless") > 0)
    batch = Batch(making.cubes, making.history)
    with pytest.raises(Cancelled):
        list(outcomes(batch, jobs_named(tmp_path, "endless"), client, progress))
    assert not list(tmp_path.glob(".*"))
    (after,) = making.ended(client, "after")
    assert after.error is None


def test_only_this_run_can_connect_to_its_workers(client: Any) -> None:
    """Another user of this computer has the address, but not the certificate."""
    plain = client.scheduler.address.replace("tls://", "tcp://")
    others = distributed.Security.temporary()
    for address, security in ((plain, None), (client.scheduler.address, others)):
        with pytest.raises(OSError, match=r"Timed out|in"):
            distributed.Client(address, security=security, timeout=1, set_as_default=False)
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = [
        place
        for process in processes
        for place in process.net_connections("inet")
        if place.status == psutil.CONN_LISTEN
    ]
    assert {place.laddr.ip for place in listening} == {"127.0.0.1"}


def pretend(package: str, version: str | None) -> None:
    """Have a worker say that it has another *version* of a *package*, or other weights."""
    versions: Any = import_module("distributed.versions")
    known = versions._version_cached
    versions.before = known, cluster.installed
    if package == "weights":
        cluster.installed = lambda: "other"
    versions._version_cached = lambda name: version if name == package else known(name)


def stop_pretending() -> None:
    versions: Any = import_module("distributed.versions")
    versions._version_cached, cluster.installed = versions.before


@pytest.mark.parametrize(
    ("package", "version", "message"),
    [
        ("napari-mst", "0.0.9", "Expected napari-mst 0.1.0 on all workers, got 0.0.9 on tls://"),
        ("napari-mst", None, "Expected napari-mst 0.1.0 on all workers, got none on tls://"),
        ("dask", "2020.1.0", "Expected dask .* on all workers, got 2020.1.0 on tls://"),
        ("weights", "", "Expected the weights of models that this computer has, got others on"),
    ],
    ids=["of-ours", "without-ours", "of-dask", "other-weights"],
)
def test_workers_that_would_make_other_cubes_are_refused(
    client: Any, photo: Path, tmp_path: Path, package: str, version: str | None, message: str
) -> None:
    client.run(pretend, package, version)
    try:
        with pytest.raises(ClusterError, match=message):
            cluster.check_workers(client, tmp_path, photo)
    finally:
        client.run(stop_pretending)
    cluster.check_workers(client, tmp_path, photo)


OTHER_VERSION = "import napari_mst; napari_mst.__version__ = '0.0.9'"
OTHER_WEIGHTS = "import napari_mst.batch.cluster as ours; ours.installed = lambda: 'other'"


@pytest.mark.parametrize(
    ("program", "version", "message"),
    [
        (OTHER_VERSION, "0.0.9", "Expected napari-mst 0.1.0 on all workers, got 0.0.9 on tcp://"),
        (OTHER_WEIGHTS, "0.1.0", "Expected the weights of models that this computer has, got o"),
    ],
    ids=["of-ours", "other-weights"],
)
@pytest.mark.slow
def test_a_worker_that_joins_late_and_would_make_other_cubes_ends_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    version: str,
    message: str,
) -> None:
    """The late worker starts with another program, as if on another computer."""
    (tmp_path / "sitecustomize.py").write_text(f"""if True:
        import sys
        if "multiprocessing" in " ".join(sys.orig_argv):
            import distributed.versions as versions
            pretended, known = {{"napari-mst": {version!r}}}, versions._version_cached
            versions._version_cached = lambda name: pretended.get(name, known(name))
            {program}""")
    making = Making(tmp_path)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, protocol="tcp", dashboard_address=":0"
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        ended = making.ended(client, "first", "endless", "late", "later")
        assert next(ended).error is None
        monkeypatch.setenv("PYTHONPATH", paths)
        workers.scale(2)
        client.wait_for_workers(2, timeout=60)
        with pytest.raises(ClusterError, match=message):
            list(ended)
    assert len({mark.name for mark in (tmp_path / "marks").rglob("0 *")}) == 1


def test_workers_that_do_not_see_the_folder_or_the_photo_are_refused(
    run: Run, client: Any, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the workers is another one: they are on another computer, so to speak."""
    made = counted(monkeypatch)
    client.run(os.chdir, "/")
    monkeypatch.setattr(cluster, "absolute", lambda path: path)
    monkeypatch.chdir(tmp_path)
    arguments = ("-o", "out", "--scheduler", client.scheduler.address)
    code, _, errors = run("reconstruct", *several(photo, 2), *arguments)
    assert (code, made) == (2, [])
    assert_is_one_error(errors, "Expected every worker to see out, got none on tls://")
    assert not Path("out").exists()


# They come last of those with this cluster: dask takes seconds to start another worker.


@kills
def test_a_worker_that_dies_leaves_its_photo_to_another_and_one_line_says_so(
    client: Any, tmp_path: Path
) -> None:
    lines: list[str] = []
    making = Making(tmp_path, times=1)
    ended = list(making.ended(client, "first", "deadly", "third", report=lines.append))
    assert sorted(outcome.job.name for outcome in ended) == ["deadly", "first", "third"]
    assert not any(outcome.error for outcome in ended)
    assert lines == ["note: deadly: its worker died, another makes it"]
    assert [making.starts(name) for name in ("first", "deadly", "third")] == [1, 2, 1]


@kills
@pytest.mark.slow
def test_a_photo_of_which_three_workers_die_fails_alone(client: Any, tmp_path: Path) -> None:
    making = Making(tmp_path, times=99)
    ended: list[Outcome] = list(making.ended(client, "first", "deadly", "faulty", "last"))
    errors = {outcome.job.name: str(outcome.error or "") for outcome in ended}
    assert making.starts("deadly") == cluster.TRIES == 3
    assert "got 3 dead ones" in errors["deadly"]
    assert "got ZeroDivisionError: by 0" in errors["faulty"]
    assert errors["first"] == errors["last"] == ""


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "no-such-file.json", "rubbish://x"])
def test_a_scheduler_that_is_not_there_is_refused_before_a_photo_is_read(
    run: Run, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    made = counted(monkeypatch)
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    arguments = ("-o", tmp_path / "o", "--scheduler", address)
    code, _, errors = run("reconstruct", *several(photo, 2), *arguments)
    assert (code, made) == (2, [])
    assert_is_one_error(errors, f"Expected a scheduler with workers at {address}")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workers", "2"], "Run: pip install"),
        (["--workers", "2", "--scheduler", "tls://x:1"], "got both. Leave one of them out"),
    ],
    ids=["no-extra", "both"],
)
def test_workers_that_cannot_be_are_refused(
    run: Run,
    photo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    message: str,
) -> None:
    monkeypatch.setitem(sys.modules, "napari_mst.batch.cluster", None)
    monkeypatch.delattr("napari_mst.batch.cluster")
    code, _, errors = run("reconstruct", *several(photo, 2), "-o", tmp_path / "o", *flags)
    assert code == 2
    assert_is_one_error(errors, message)


def test_a_scheduler_that_goes_away_ends_the_run_in_a_sentence(tmp_path: Path) -> None:
    making = Making(tmp_path)
    config = {"distributed.comm.timeouts.connect": "1s"}
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as workers,
        # Later: a busy computer may take longer to start a cluster.
        pytest.importorskip("dask.config").set(config),
    ):
        ending = making.ended(
            distributed.Client(workers.scheduler_address, set_as_default=False),
            "one",
            "two",
            "endless",
        )
        next(ending)
        workers.close()
        with pytest.raises(ClusterError, match="start the same command again"):
            list(ending)


@kills
def test_workers_end_with_a_run_that_is_killed() -> None:
    program = """if True:
        import sys
        from napari_mst.batch.execution import connected
        if __name__ == "__main__":
            with connected(1, "") as (client, _):
                print(*client.run(lambda: __import__("os").getpid()).values(), flush=True)
                sys.stdin.read()"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        worker = int(run.stdout.readline())
        assert psutil.pid_exists(worker)
        run.kill()
    psutil.wait_procs([psutil.Process(worker)] if psutil.pid_exists(worker) else [], timeout=60)
    assert not psutil.pid_exists(worker)


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
