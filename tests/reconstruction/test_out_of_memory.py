"""Lack of memory: one clear error, a second run within less, and nothing left of the first."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.reconstruction.conftest import PHOTO, run_out_of_memory, small_model

from napari_mst.base.arrays import Singles
from napari_mst.base.errors import OutOfMemory
from napari_mst.base.memory import is_out_of_memory
from napari_mst.base.progress import Progress
from napari_mst.engine.device import CPU, DeviceChoice
from napari_mst.engine.fast_paths import native
from napari_mst.engine.features import PhotoRows, Slab
from napari_mst.engine.plan import Plan
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.reconstruction.setup import Setup

ALLOCATOR = (
    "[enforce fail at alloc_cpu.cpp:116] data. DefaultCPUAllocator: not enough memory: "
    "you tried to allocate 9 bytes."
)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), RuntimeError(ALLOCATOR)],
    ids=["cuda", "numpy", "cpu"],
)
def test_lack_of_memory_is_one_clear_error_and_the_next_run_works(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    reconstructor = Reconstructor(small_model(), "cpu")

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("napari_mst.engine.run.Slab", fail)
        with pytest.raises(OutOfMemory, match="20 x 13 pixels") as caught:
            reconstructor.reconstruct(PHOTO)
    assert caught.value.__context__ is None
    assert reconstructor.reconstruct(PHOTO).shape == (31, 20, 13)


def test_run_that_is_out_of_memory_starts_again_within_half_of_it_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reconstructor, photo = Reconstructor(small_model(), "cpu"), np.tile(PHOTO, (16, 25, 1))
    expected = reconstructor.reconstruct(photo).data
    run_out_of_memory(monkeypatch)
    cube = reconstructor.reconstruct(photo)
    np.testing.assert_array_equal(cube.data, expected)
    assert cube.provenance.engine.endswith("through a file")
    assert "out of memory and was started again" in cube.provenance.assumptions[-1]


def test_small_run_that_is_out_of_memory_starts_again_within_the_least_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of its memory is too little for a small photo: one thread takes most of that."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(native, "is_installed", lambda: False)  # whose working set is smaller
    reconstructor, photo = Reconstructor(small_model(), "cpu"), np.tile(PHOTO, (12, 18, 1))
    expected, first = reconstructor.reconstruct(photo).data, reconstructor.plan(240, 234)
    with pytest.raises(OutOfMemory):
        Reconstructor(small_model(), "cpu", memory=first.memory // 2).plan(240, 234)
    run_out_of_memory(monkeypatch)
    cube = reconstructor.reconstruct(photo)
    np.testing.assert_array_equal(cube.data, expected)
    assert cube.provenance.engine.endswith("through a file")


@pytest.mark.parametrize(
    ("tiles", "has_least", "still_left"), [((12, 18, 1), True, 2), ((25, 40, 1), False, 1)]
)
def test_out_of_memory_twice_or_with_the_least_there_is_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tiles: tuple[int, ...], has_least: bool, still_left: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    photo = np.tile(PHOTO, tiles)
    height, width = photo.shape[:2]
    least = Reconstructor(small_model(), "cpu").plan(height, width).memory - 1
    reconstructor = Reconstructor(small_model(), "cpu", memory=least if has_least else None)
    assert (reconstructor.plan(height, width).place == "file") == has_least
    left = run_out_of_memory(monkeypatch, times=3)
    message = f"Expected enough memory on cpu for {height} x {width} pixels, got too little"
    with pytest.raises(OutOfMemory, match=message):
        reconstructor.reconstruct(photo)
    assert len(left) == still_left


def test_other_errors_of_the_run_are_not_called_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("device-side assert")

    monkeypatch.setattr("napari_mst.engine.run.Slab", fail)
    with pytest.raises(RuntimeError, match="device-side assert"):
        Reconstructor(small_model(), "cpu").reconstruct(PHOTO)


def test_budgets_are_kept_and_those_of_a_gpu_are_its_own() -> None:
    small = Reconstructor(small_model(), "cpu", memory=150_000_000)
    assert small.plan(1000, 1000).place == "file"
    assert small.plan(200, 200).place == "device"
    options = RunOptions(memory=150_000_000, device_memory=300_000_000)
    small.setup = replace(small.setup, options=options, device=DeviceChoice("cuda:0", "a GPU"))
    plan = small.plan(300, 300)
    assert (plan.place, plan.device_memory <= 300_000_000) == ("device", True)


@pytest.mark.parametrize(
    "text",
    [
        "MPS backend out of memory (MPS allocated: 5.56 GB, max allowed: 6.80 GB). "
        "Tried to allocate 768.00 MB",
        "Invalid buffer size: 18.56 GB",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ],
)
def test_lack_of_memory_is_known_by_the_words_of_every_device(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))
    assert not is_out_of_memory(RuntimeError("device-side assert"))


@pytest.mark.parametrize(
    "allocate", [lambda size: Slab(size, CPU, False, torch.float32), torch.empty]
)
def test_lack_of_memory_is_known_on_this_system(allocate: Callable[[int], object]) -> None:
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        allocate(2**50)
    assert is_out_of_memory(caught.value)


def test_a_gpu_that_is_out_of_memory_starts_again_within_half_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reconstructor = Reconstructor(small_model(), "cpu", memory=10**9, device_memory=4 * 10**8)
    plans: list[Plan] = []

    def fail_once(_: Setup, source: PhotoRows, plan: Plan, progress: Progress) -> Singles:
        plans.append(plan)
        if len(plans) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return np.zeros((31, source.height, source.width), np.float32)

    monkeypatch.setattr(Setup, "cube_of", fail_once)
    monkeypatch.setattr("napari_mst.reconstruction.running.free_memory", lambda setup: None)
    reconstructor.setup = replace(reconstructor.setup, device=DeviceChoice("cuda:0", "a GPU"))
    cube = reconstructor.reconstruct(np.tile(PHOTO, (25, 40, 1)))
    assert [plan.place for plan in plans] == ["device", "memory"]
    assert plans[1].device_memory <= plans[0].device_memory / 2
    assert cube.provenance.engine == "exact, streamed through memory"
    assert "the second one needs" in cube.provenance.assumptions[-1]
