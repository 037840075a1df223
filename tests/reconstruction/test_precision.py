"""Precisions: float64 is the reference, and the error of 16 bits is measured before the run."""

import re
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from tests.conftest import on_cpu
from tests.reconstruction.conftest import PHOTO, assert_close, small_model

from napari_mst.attention.explorer import AttentionExplorer
from napari_mst.base.errors import AttentionError, Cancelled, DeviceError, ModelError, OutOfMemory
from napari_mst.base.progress import Progress
from napari_mst.cube import Provenance
from napari_mst.engine import device
from napari_mst.engine import run as engine_run
from napari_mst.engine.device import choose_device
from napari_mst.engine.fast_paths import native
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction import pipeline
from napari_mst.reconstruction.reconstructor import Reconstructor

needs_bfloat16 = pytest.mark.skipif(
    "bfloat16" not in choose_device("cpu").precisions, reason="not on this processor"
)


def test_float64_is_the_reference_of_float32_and_needs_twice_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    single = Reconstructor(small_model(), "cpu")
    double = Reconstructor(small_model(), "cpu", precision="float64")
    cube, reference = single.reconstruct(PHOTO), double.reconstruct(PHOTO)
    assert cube.data.dtype == np.dtype(np.float32)
    assert reference.data.dtype == np.dtype(np.float64)
    assert (cube.provenance.precision, reference.provenance.precision) == ("float32", "float64")
    assert_close(cube.data, reference.data)
    # The threads of the kernels, in float32 only, work in a memory of their own.
    monkeypatch.setattr(native, "is_installed", lambda: False)
    twice = 2 * single.plan(2000, 2000).memory
    assert double.plan(2000, 2000).memory == pytest.approx(twice, rel=0.02)
    assert {each.dtype for each in single.model.network.parameters()} == {torch.float32}
    with pytest.raises(
        DeviceError, match=r"Expected a precision of cpu \(float32, .*float64\), got 'int8'\."
    ):
        Reconstructor(small_model(), "cpu", precision="int8")  # type: ignore[arg-type]


@needs_bfloat16
def test_the_error_of_16_bits_is_measured_before_the_run_told_and_kept() -> None:
    chosen, photo = small_model(), Photo.from_array(np.tile(PHOTO, (8, 12, 1)))
    narrow = Reconstructor(chosen, "cpu", precision="bfloat16")
    plan = narrow.plan_for(photo)
    assert re.search(
        r"in bfloat16: off float32 by 0\.\d+% .* rms, on 128 x 128 pixels of this photo", str(plan)
    )
    cube, exact = narrow.reconstruct(photo), Reconstructor(chosen, "cpu").reconstruct(photo)
    off = np.abs(cube.data - exact.data).max() / np.abs(exact.data).max()
    assert cube.provenance.precision == "bfloat16"
    assert off / 2 < cube.provenance.precision_error < off * 2
    assert f"Computed in {plan.precision}: {plan.error}." in cube.provenance.assumptions
    assert cube.provenance.engine == "16 bits, streamed"
    assert narrow.preview(photo).provenance.precision_error == cube.provenance.precision_error
    assert (exact.provenance.precision_error, exact.provenance.assumptions) == (0, ())
    assert Provenance.from_json(cube.provenance.to_json()) == cube.provenance


@pytest.mark.parametrize(("ratio", "is_told"), [(0.7, False), (1.5, True)])
def test_16_bits_say_so_where_they_are_no_faster(
    monkeypatch: pytest.MonkeyPatch, ratio: float, is_told: bool
) -> None:
    monkeypatch.setattr(device, "_has", lambda *_: True)  # torch imitates bfloat16
    monkeypatch.setattr(pipeline, "process_time", Mock(side_effect=[0.0, 1.0, 0.0, ratio]))
    plan = Reconstructor(small_model(), "cpu", precision="bfloat16").plan_for(PHOTO)
    sentence = "where it took 1.5 times as long: float32 is faster on this processor"
    assert (sentence in plan.error) == is_told


@needs_bfloat16
def test_16_bits_are_refused_where_they_give_nothing() -> None:
    with pytest.raises(
        DeviceError, match="Expected float32 or float64 for pixelwise-srgb, which keeps no features"
    ):
        on_cpu("pixelwise-srgb", precision="bfloat16")
    with pytest.raises(
        AttentionError, match="Expected float32 or float64 to look at attention, got bfloat16"
    ):
        AttentionExplorer(Reconstructor(small_model(), "cpu", precision="bfloat16"), PHOTO)


@needs_bfloat16
def test_cancel_acts_while_the_error_of_16_bits_is_measured() -> None:
    reconstructor = Reconstructor(small_model(), "cpu", precision="bfloat16")
    with pytest.raises(Cancelled):
        reconstructor.plan_for(PHOTO, progress=Progress(is_cancelled=lambda: True))
    assert "off float32" in str(reconstructor.plan_for(PHOTO))


@needs_bfloat16
def test_lack_of_memory_while_the_error_is_measured_is_the_same_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reconstructor = Reconstructor(small_model(), "cpu", precision="bfloat16")
    with monkeypatch.context() as patch:
        patch.setattr(
            engine_run, "Slab", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory"))
        )
        with pytest.raises(OutOfMemory, match="Expected enough memory on cpu for 20 x 13 pixels"):
            reconstructor.plan_for(PHOTO)
    assert "in bfloat16: off float32" in str(reconstructor.plan_for(PHOTO))


@pytest.mark.parametrize("weights", [np.nan, np.inf])
def test_a_network_that_gives_no_numbers_is_refused(weights: float) -> None:
    model = small_model()
    next(iter(model.network.parameters())).fill_(weights)
    runner = Reconstructor(model, "cpu", denoise="off", correct_colour=False)
    with pytest.raises(ModelError, match="Expected finite numbers of test, got NaN or infinity"):
        runner.reconstruct(PHOTO)
    with pytest.raises(ModelError, match="Expected finite numbers of test, got NaN or infinity"):
        np.asarray(runner.reconstruct_lazy(PHOTO).data)


@pytest.mark.slow
@pytest.mark.parametrize("other", ["torch", "tiles"])
def test_a_smooth_photo_is_the_same_to_2e_6(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/exactness.md; sums over a million almost equal pixels are the worst case of float32."""
    rows, columns = np.mgrid[:900, :1200]
    waves = [np.sin(rows / (210 + 40 * at) + columns / (330 - 50 * at) + at) for at in range(3)]
    photo = (127 + 80 * np.stack(waves, -1)).astype(np.uint8)
    reconstructor = on_cpu("mstpp-srgb", denoise="off")
    cube = reconstructor.reconstruct(photo).data
    if other == "torch":
        monkeypatch.setattr(native, "is_ready", lambda: False)
    else:
        monkeypatch.setattr(engine_run.Execution, "tile", lambda *_: (40, 72))
    again = reconstructor.reconstruct(photo).data
    error = np.abs(again - cube).max() / np.abs(cube).max()
    assert error < 2e-6
