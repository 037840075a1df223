"""What a run on a GPU does apart from the GPU's own work, driven on a CPU: copies between memories, threads, TF32."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch

from napari_mst.engine import features, workers
from napari_mst.engine.plan import Plan
from napari_mst.engine.run import _EXACT, _Run, exact_products
from napari_mst.engine.workers import STREAMS, Workers
from napari_mst.errors import Cancelled, DeviceError
from napari_mst.models.mst_plus_plus import MSTPlusPlus

CPU = torch.device("cpu")
PHOTO = np.random.default_rng(0).random((3, 70, 90), dtype=np.float32)


def network() -> MSTPlusPlus:
    torch.manual_seed(0)
    return MSTPlusPlus(stages=2, out_bands=5).eval().requires_grad_(False)


def run_as_on_a_gpu(plan: Plan, monkeypatch: pytest.MonkeyPatch, is_apart: bool = False, **options) -> np.ndarray:
    """A run with the regions, the form of the blocks and, if *is_apart*, the copies and threads of a GPU."""
    monkeypatch.setattr("napari_mst.engine.onednn.can_run", lambda device, dtype: False)
    monkeypatch.setattr(features, "_is_elsewhere", lambda values, device: is_apart)
    device = torch.device("cpu")
    monkeypatch.setattr(_Run, "_tiles", _Run._strips)
    threads = STREAMS if is_apart else 1
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode(), Workers(device, 100, None, options.get("is_cancelled"), is_apart) as own:
            return _Run(network(), lambda a, b: PHOTO[:, a:b], 70, 90, device, own, plan).bands().numpy()
    finally:
        torch.set_num_threads(1)


def test_maps_apart_from_the_device_change_no_bit_and_every_piece_is_copied(monkeypatch):
    copied: list[torch.Size] = []
    back = features._brought_back
    monkeypatch.setattr(features, "sent", lambda values, device: copied.append(values.shape) or values.clone())
    monkeypatch.setattr(features, "_brought_back", lambda values: copied.append(values.shape) or back(values))
    together = run_as_on_a_gpu(Plan(pixels=640), monkeypatch)
    assert not copied
    for place in ("memory", "file"):
        apart = run_as_on_a_gpu(Plan(place, pixels=640), monkeypatch, is_apart=True)
        np.testing.assert_array_equal(apart, together)
    assert len(copied) > 100


def test_strips_of_every_height_give_the_same(monkeypatch):
    results = [run_as_on_a_gpu(Plan(pixels=pixels), monkeypatch) for pixels in (200, 1000, 1 << 20)]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-6 * np.abs(results[0]).max())


def test_a_strip_has_the_same_number_of_values_at_every_level():
    task = _Run.__new__(_Run)
    task._size, task._pixels = (4096, 4096), 1 << 20
    heights = [next(iter(task._strips(4096 >> level, 4096 >> level))).rows.stop for level in range(3)]
    assert heights == [256, 256, 256]


def test_cancel_of_a_run_whose_maps_are_apart(monkeypatch):
    with pytest.raises(Cancelled):
        run_as_on_a_gpu(Plan("memory", pixels=640), monkeypatch, is_apart=True, is_cancelled=lambda: True)


def test_a_gpu_is_never_more_than_a_few_regions_behind(monkeypatch):
    module = Mock()
    events: list[Mock] = []
    module.Event.side_effect = lambda: events.append(Mock(spec=["record", "synchronize"])) or events[-1]
    monkeypatch.setattr(workers.torch, "get_device_module", lambda device: module)
    with Workers(torch.device("mps"), 1, None, None) as own:
        for regions in (6, 1, 1, 1):  # passes
            for _ in own.each(lambda region: region, list(range(regions)), 1):
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
        (torch.backends.mkldnn.conv, "fp32_precision", "bf16"),
    ],
)
def test_products_are_exact_during_a_run_whatever_the_program_has_set_and_then_as_it_was(owner, name, value):
    default = getattr(owner, name)
    setattr(owner, name, value)
    try:
        before = [getattr(*setting[:2]) for setting in _EXACT]
        with exact_products(CPU):
            assert [getattr(*setting[:2]) for setting in _EXACT] == [setting[2] for setting in _EXACT]
            torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3))  # it reads them
        assert [getattr(*setting[:2]) for setting in _EXACT] == before
        assert getattr(owner, name) == value
    finally:
        setattr(owner, name, default)


def test_features_beyond_float16_are_refused():
    task = _Run.__new__(_Run)
    task._dtype = torch.float16
    task._check_range(torch.ones(2, 2))
    with pytest.raises(DeviceError, match=r"Expected features within the range of float16, .* Take bfloat16"):
        task._check_range(torch.tensor([1.0, float("inf")]))
