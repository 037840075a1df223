"""Memory of a run waits for the next one: while there is enough, and never twice in use."""

import threading
from typing import Any

import numpy as np
import pytest
import torch

from napari_mst.base import memory
from napari_mst.engine import pages
from napari_mst.engine.pages import KEPT, Kept
from napari_mst.engine.run import run
from napari_mst.networks.mst_plus_plus import MSTPlusPlus

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def much_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "free_host_memory", lambda: 10**10)


def test_block_is_taken_again_by_a_run_of_about_its_size() -> None:
    kept = Kept()
    block = kept.take(5000)
    kept.give([block])
    assert kept.nbytes == 5000
    assert kept.take(4500) is block
    assert kept.nbytes == 0


@pytest.mark.parametrize("size", [5001, 3000], ids=["larger", "much smaller"])
def test_block_of_another_size_goes_back_to_the_system(size: int) -> None:
    kept = Kept()
    kept.give([kept.take(5000)])
    assert kept.take(size).nbytes == size
    assert kept.nbytes == 0


@pytest.mark.parametrize(
    ("free", "kept_bytes"), [(12_000, 12_000), (11_999, 7000), (6999 - 5000, 3000)]
)
def test_what_is_kept_is_no_more_than_what_stays_free(
    free: int, kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept()
    monkeypatch.setattr(pages, "free_host_memory", lambda: free)
    kept.give([kept.take(5000), kept.take(4000), kept.take(3000)])
    assert kept.nbytes == kept_bytes  # the oldest go first


def test_what_is_kept_goes_to_whoever_needs_more_than_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert pages.KEPT.clear in memory.SPARE
    kept = Kept()
    kept.give([kept.take(5000)])
    monkeypatch.setattr(memory, "SPARE", [kept.clear])
    monkeypatch.setattr(memory, "_free", lambda: 9000 - kept.nbytes)
    assert [memory.free_host_memory(needed) for needed in (4000, 4001)] == [4000, 9000]


def test_what_nobody_takes_is_given_back_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[Any] = []

    class Timer(threading.Timer):
        def start(self) -> None:
            timers.append(self)

    monkeypatch.setattr(threading, "Timer", Timer)
    kept = Kept(idle=30)
    kept.give([kept.take(5000)])
    kept.give([])
    first, second = timers
    assert first.finished.is_set()  # only the last use counts
    assert second.interval == 30
    second.function()
    assert kept.nbytes == 0


def test_run_leaves_its_maps_and_never_its_result() -> None:
    KEPT.clear()
    network = MSTPlusPlus(stages=1).eval().requires_grad_(False)
    photo = np.random.default_rng(0).random((3, 40, 48), dtype=np.float32)
    first = run(network, lambda start, stop: photo[:, start:stop], 40, 48, CPU)
    copied = first.copy()
    assert KEPT.nbytes > 0
    second = run(network, lambda start, stop: photo[:, start:stop] / np.float32(2), 40, 48, CPU)
    np.testing.assert_array_equal(first, copied)
    assert not np.shares_memory(first, second)
    KEPT.clear()
