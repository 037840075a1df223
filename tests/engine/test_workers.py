"""The threads and streams of a run, and what they share with the rest of the process."""

import platform
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from tests.conftest import source_of
from threadpoolctl import threadpool_info

from napari_mst.base.errors import DeviceError
from napari_mst.base.progress import NO_PROGRESS
from napari_mst.engine.plan import STREAMS, Plan
from napari_mst.engine.run import Execution, execute
from napari_mst.engine.tensors import EXACT_SETTINGS, exact_products
from napari_mst.engine.windows import Window, tiles
from napari_mst.engine.workers import Workers
from napari_mst.networks.mst_plus_plus import MSTPlusPlus

FAULTS = """
import resource, torch
from napari_mst.engine.workers import Workers
from napari_mst.base.progress import NO_PROGRESS
torch.set_num_threads(2)
with Workers(torch.device("cpu"), 1, NO_PROGRESS) as workers:
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
    with Workers(torch.device("cpu"), 1, NO_PROGRESS) as workers:
        assert set(threads()) <= {1}
        tiles = [Window(0, 1, 0, 1)]
        assert list(workers.each(lambda tile: threads(), tiles, 1)) == [threads()]
    assert threads() == before


CPU = torch.device("cpu")
ONEDNN: Any = torch.backends.mkldnn
PHOTO = np.random.default_rng(0).random((3, 70, 90), dtype=np.float32)


def network() -> MSTPlusPlus:
    torch.manual_seed(0)
    return MSTPlusPlus(stages=2, out_bands=5).eval().requires_grad_(False)


def test_a_strip_has_the_same_number_of_values_at_every_level() -> None:
    task = Execution(
        network().program(), source_of(np.zeros((3, 64, 96))), CPU, Plan(pixels=96 * 16)
    )
    assert [task.strip((64 >> level, 96 >> level))[0] for level in range(3)] == [16, 16, 16]


def test_a_gpu_is_never_more_than_a_few_tiles_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Mock()
    events: list[Mock] = []

    def event() -> Mock:
        events.append(Mock(spec=["record", "synchronize"]))
        return events[-1]

    module.Event.side_effect = event
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    with Workers(torch.device("mps"), 1, NO_PROGRESS) as own:
        for count in (6, 1, 1, 1):  # tiles of each sweep
            for _ in own.each(lambda tile: tile, tiles((count, 1), 1, 1), 1):
                events[-1].record.assert_called_once()
                assert sum(not event.synchronize.called for event in events) <= STREAMS
    assert len(events) == 9


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (torch.backends, "fp32_precision", "tf32"),
        (torch.backends.cuda.matmul, "fp32_precision", "tf32"),
        (torch.backends.cudnn, "fp32_precision", "tf32"),
        (torch.backends.cudnn, "benchmark", True),
        (ONEDNN.conv, "fp32_precision", "bf16"),
    ],
)
def test_products_are_exact_during_a_run_whatever_the_program_has_set_and_then_as_it_was(
    owner: Any, name: str, value: str | bool
) -> None:
    default = getattr(owner, name)
    setattr(owner, name, value)
    try:
        before = [getattr(*setting[:2]) for setting in EXACT_SETTINGS]
        with exact_products(CPU):
            assert [getattr(*setting[:2]) for setting in EXACT_SETTINGS] == [
                setting[2] for setting in EXACT_SETTINGS
            ]
            torch.nn.functional.conv2d(
                torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3)
            )  # it reads them
        assert [getattr(*setting[:2]) for setting in EXACT_SETTINGS] == before
        assert getattr(owner, name) == value
    finally:
        setattr(owner, name, default)


def test_runs_that_overlap_restore_the_settings_of_torch() -> None:
    def settings() -> list[Any]:
        return [getattr(owner, name) for owner, name, _ in EXACT_SETTINGS]

    before = settings()
    first, second = exact_products(CPU), exact_products(CPU)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert settings() == [value for *_, value in EXACT_SETTINGS]
    second.__exit__(None, None, None)
    assert settings() == before


def test_features_beyond_float16_are_refused() -> None:
    own = network()
    own.conv_in.weight.mul_(1e6)
    with pytest.raises(
        DeviceError, match=r"Expected features within the range of float16, .* Take bfloat16"
    ):
        execute(own.program(), source_of(PHOTO), CPU, Plan(precision="float16"))
