"""The threads of a run on a CPU: what they share with the rest of the process."""

import platform
import subprocess
import sys

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from napari_mst.attention.probe import tapped
from napari_mst.engine import workers
from napari_mst.engine.photo_rows import PhotoRows
from napari_mst.engine.plan import Plan
from napari_mst.engine.run import execute
from napari_mst.engine.windows import Window
from napari_mst.engine.workers import Workers
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.watch import UNWATCHED

FAULTS = """
import resource, torch
from napari_mst.engine.workers import Workers
from napari_mst.watch import UNWATCHED
torch.set_num_threads(2)
with Workers(torch.device("cpu"), 1, UNWATCHED) as workers:
    work = lambda tile: sum(torch.ones(300_000) for _ in range(8)).sum().item()
    tiles = workers.each(work, range(200), 1)
    faults = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt for _ in tiles]
print(faults[-1] - faults[100])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator of glibc")
def test_a_region_takes_the_memory_that_the_ones_before_it_have_freed() -> None:
    faults = subprocess.run(
        [sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True
    ).stdout
    assert (
        int(faults) < 2000
    )  # of the 29,000 that fresh memory of 1.2 MB, 100 times, would cost at the least


def test_blas_has_one_thread_during_a_run_and_its_own_number_afterwards() -> None:
    def threads() -> list[int]:
        return [
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        ]

    np.ones((2, 2)) @ np.ones((2, 2))
    before = threads()
    with Workers(torch.device("cpu"), 1, UNWATCHED) as workers:
        assert set(threads()) <= {1}
        tiles = [Window(0, 1, 0, 1)]
        assert list(workers.each(lambda tile: threads(), tiles, 1)) == [threads()]
    assert threads() == before


def test_a_run_and_a_map_of_attention_take_no_more_threads_than_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    begun, prepare = [], workers._prepare_thread

    def begin(device: torch.device) -> None:
        begun.append(device)
        prepare(device)

    monkeypatch.setattr(workers, "_prepare_thread", begin)
    network, photo = (
        MSTPlusPlus(stages=1, width=4, out_bands=4).eval(),
        np.zeros((3, 200, 200), np.float32),
    )
    program, source = (
        network.program(),
        PhotoRows(lambda start, stop: photo[:, start:stop], 200, 200),
    )
    for each in (program, tapped(program, "stages.0.bottleneck", lambda *_: lambda x: x[0, :1])):
        begun.clear()
        execute(each, source, torch.device("cpu"), Plan(threads=2))
        assert len(begun) == 2
