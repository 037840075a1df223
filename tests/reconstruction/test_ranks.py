"""One photo on several processes: the same numbers as on one, or nothing at all."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tifffile
import torch
from tests.conftest import on_cpu

import napari_mst as nm
from napari_mst.base.errors import ModelError, PhotoError
from napari_mst.engine.crop import Known
from napari_mst.reconstruction import ranks
from napari_mst.reconstruction.lazy_statistics import FOLDER, added_up, recalled
from napari_mst.reconstruction.pipeline import PreparedPhoto

HEIGHT, WIDTH = 403, 60


@pytest.fixture(scope="module")
def photo() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    coarse = rng.integers(40, 220, (HEIGHT // 16 + 1, WIDTH // 16 + 1, 3), dtype=np.uint8)
    return coarse.repeat(16, 0).repeat(16, 1)[:HEIGHT, :WIDTH]


class Threads:
    """Threads in the place of the processes of torch.distributed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.local = threading.local()
        self.barrier = threading.Barrier(count, timeout=120)
        self.parts: list[Any] = [None] * count

    def get_rank(self) -> int:
        return int(self.local.rank)

    def get_world_size(self) -> int:
        return self.count

    def all_reduce(self, total: torch.Tensor) -> None:
        self.parts[self.get_rank()] = total.clone()
        self.barrier.wait()
        total.copy_(torch.stack(self.parts).sum(0))
        self.barrier.wait()

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        self.parts[self.get_rank()] = tensor
        self.barrier.wait()
        tensor.copy_(self.parts[source])
        self.barrier.wait()

    def summed(self, prepared: PreparedPhoto) -> list[Known]:
        found: list[Any] = [None] * self.count

        def add_up(rank: int) -> None:
            self.local.rank = rank
            found[rank] = ranks._summed(prepared.job()).known

        threads = [threading.Thread(target=partial(add_up, rank)) for rank in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("mstpp-srgb", 3),
        ("mstpp-hybrid", 2),
        pytest.param("mstpp-srgb", 2, marks=pytest.mark.slow),
        pytest.param("mstpp-hybrid", 3, marks=pytest.mark.slow),
    ],
)
def test_strips_add_up_to_the_statistics_of_the_photo(
    photo: np.ndarray[Any, Any], model: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(count)
    monkeypatch.setattr(ranks, "distributed", threads)
    prepared = on_cpu(model).prepare(photo)
    expected = added_up(prepared.job())[0].known.folded
    for known in threads.summed(prepared):
        assert known.folded.keys() == expected.keys()
        for name, values in known.folded.items():
            torch.testing.assert_close(values, expected[name], rtol=1e-5, atol=1e-6)


def test_a_run_goes_on_from_the_statistics_of_the_run_before(
    photo: np.ndarray[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "kept"))
    source = tmp_path / "photo.tif"
    tifffile.imwrite(source, photo, photometric="rgb")
    threads = Threads(2)
    monkeypatch.setattr(ranks, "distributed", threads)
    prepared = on_cpu("mstpp-srgb").prepare(source)
    first, _ = threads.summed(prepared)
    with monkeypatch.context() as patched:
        patched.delattr(ranks, "execute")
        for known in threads.summed(prepared):
            for name, values in first.folded.items():
                assert torch.equal(known.folded[name], values)
    # Sums over other strips are rounded in another way, so they are not taken for these.
    assert recalled(prepared.job()) is None


def test_what_cannot_be_shared_is_refused(
    photo: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(2)
    threads.local.rank = 0
    monkeypatch.setattr(ranks, "distributed", threads)
    mixed = on_cpu("mstpp-mixed")
    with pytest.raises(ModelError, match="sees all of them at once"):
        ranks._summed(mixed.prepare(photo).job())
    plain = on_cpu("mstpp-srgb")
    with pytest.raises(PhotoError, match="16 rows or more for 2 processes, got 9"):
        ranks._summed(plain.prepare(photo[:9]).job())


def launched(source: Path, target: Path, count: int, *options: str) -> "subprocess.Popen[str]":
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    command = ["-m", "napari_mst", "reconstruct", str(source), "-o", str(target), *options]
    return subprocess.Popen(
        [sys.executable, *launch, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NAPARI_MST_CACHE": ""},
    )


MEET = """
import psutil
from torch import distributed
from napari_mst.reconstruction import ranks
ranks.join("cpu")
print(ranks._from_first(b"" if distributed.get_rank() else b"photo"), ranks._from_first(b""))
print({each.laddr.ip for each in psutil.Process().net_connections() if each.status == "LISTEN"})
distributed.barrier()
"""


@pytest.mark.slow
def test_ranks_of_one_computer_meet_in_a_file_and_listen_on_its_loopback_alone(
    tmp_path: Path,
) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "LOCAL_WORLD_SIZE": "2"}
    environment |= {"WORLD_SIZE": "2", "MASTER_ADDR": "", "MASTER_PORT": ""}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MEET],
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"RANK": str(rank)},
        )
        for rank in range(2)
    ]
    for each in started:
        assert each.communicate(timeout=120)[0] == "b'photo' b''\n{'127.0.0.1'}\n"


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("model", ["mstpp-srgb", "pixelwise-srgb", "mstpp-hybrid"])
def test_ranks_write_the_cube_of_one_process(
    photo: np.ndarray[Any, Any], model: str, count: int, tmp_path: Path
) -> None:
    source, target = tmp_path / "photo.tif", tmp_path / "cube.zarr"
    tifffile.imwrite(source, photo, photometric="rgb")
    out, err = launched(source, target, count, "--model", model).communicate(timeout=300)
    assert out == f"{target}\n", err
    expected = on_cpu(model).reconstruct(source).data
    cube = nm.read_cube(target, verify=True)
    assert np.abs(cube.data - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("dead", [0, 1])
def test_a_rank_that_dies_ends_the_run_and_leaves_nothing(
    photo: np.ndarray[Any, Any], dead: int, tmp_path: Path
) -> None:
    source, folder = tmp_path / "photo.tif", tmp_path / "cubes"
    folder.mkdir()
    tifffile.imwrite(source, np.tile(photo, (3, 20, 1)), photometric="rgb")
    run = launched(source, folder / "cube.zarr", 2)
    assert run.stderr is not None
    said = ""
    while "%" not in said:  # a bar appears when all have met
        said += run.stderr.read(1)
    time.sleep(2)
    for child in psutil.Process(run.pid).children():
        if child.environ().get("RANK") == str(dead):
            child.send_signal(signal.SIGKILL)
    _, err = run.communicate(timeout=120)
    assert run.returncode
    assert "Expected all processes of the run to stay, got one that has ended." in said + err
    assert [path.name for path in folder.iterdir() if path.suffix == ".zarr"] == []
