"""A run on a GPU without the GPU's own work, driven on a CPU: copies, threads, TF32."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from napari_mst.engine import features
from napari_mst.engine.photo_rows import PhotoRows
from napari_mst.engine.plan import STREAMS, Place, Plan
from napari_mst.engine.run import EXACT_SETTINGS, Execution, exact_products, execute
from napari_mst.engine.windows import tiles
from napari_mst.engine.workers import Workers
from napari_mst.errors import Cancelled, DeviceError
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.watch import UNWATCHED, Watch

CPU = torch.device("cpu")
ONEDNN: Any = torch.backends.mkldnn
PHOTO = np.random.default_rng(0).random((3, 70, 90), dtype=np.float32)


def network() -> MSTPlusPlus:
    torch.manual_seed(0)
    return MSTPlusPlus(stages=2, out_bands=5).eval().requires_grad_(False)


def run_as_on_a_gpu(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, is_apart: bool = False, watch: Watch = UNWATCHED
) -> np.ndarray:
    """A run with the tiles and forms and, if *is_apart*, the copies and threads of a GPU."""
    monkeypatch.setattr("napari_mst.engine.forms.onednn.can_run", lambda device, dtype: False)
    monkeypatch.setattr(features, "_is_elsewhere", lambda values, device: is_apart)
    monkeypatch.setattr(Execution, "tile", Execution.strip)
    source = PhotoRows(lambda start, stop: PHOTO[:, start:stop], 70, 90)
    torch.set_num_threads(STREAMS if is_apart else 1)
    try:
        with torch.inference_mode():
            return Execution(network().program(), source, CPU, plan, watch).result().numbers
    finally:
        torch.set_num_threads(1)


def test_maps_apart_from_the_device_change_no_bit_and_every_piece_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[torch.Size] = []
    back = features._brought_back

    def send(values: torch.Tensor, device: torch.device) -> torch.Tensor:
        copied.append(values.shape)
        return values.clone()

    def bring_back(values: torch.Tensor) -> torch.Tensor:
        copied.append(values.shape)
        return back(values)

    monkeypatch.setattr(features, "sent", send)
    monkeypatch.setattr(features, "_brought_back", bring_back)
    together = run_as_on_a_gpu(Plan(pixels=640), monkeypatch)
    assert not copied
    places: tuple[Place, ...] = ("memory", "file")
    for place in places:
        apart = run_as_on_a_gpu(Plan(place, pixels=640), monkeypatch, is_apart=True)
        np.testing.assert_array_equal(apart, together)
    assert len(copied) > 100


def test_strips_of_every_height_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [run_as_on_a_gpu(Plan(pixels=pixels), monkeypatch) for pixels in (200, 1000, 1 << 20)]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-6 * np.abs(results[0]).max())


def test_a_strip_has_the_same_number_of_values_at_every_level() -> None:
    source = PhotoRows(lambda start, stop: PHOTO[:, start:stop], 64, 96)
    task = Execution(network().program(), source, CPU, Plan(pixels=96 * 16))
    assert [task.strip((64 >> level, 96 >> level))[0] for level in range(3)] == [16, 16, 16]


def test_cancel_of_a_run_whose_maps_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Cancelled):
        run_as_on_a_gpu(
            Plan("memory", pixels=640),
            monkeypatch,
            is_apart=True,
            watch=Watch(is_cancelled=lambda: True),
        )


def test_a_gpu_is_never_more_than_a_few_tiles_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Mock()
    events: list[Mock] = []

    def event() -> Mock:
        events.append(Mock(spec=["record", "synchronize"]))
        return events[-1]

    module.Event.side_effect = event
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    with Workers(torch.device("mps"), 1, UNWATCHED) as own:
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


def test_features_beyond_float16_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("napari_mst.engine.forms.onednn.can_run", lambda device, dtype: False)
    own = network()
    own.conv_in.weight.mul_(1e6)
    source = PhotoRows(lambda start, stop: PHOTO[:, start:stop], 70, 90)
    with pytest.raises(
        DeviceError, match=r"Expected features within the range of float16, .* Take bfloat16"
    ):
        execute(own.program(), source, CPU, Plan(precision="float16"))
