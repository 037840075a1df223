"""The recorder: every matrix of every run of its own thread, and no hook is left behind."""

import threading
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.conftest import Authors

from napari_mst import Reconstructor, load_model
from napari_mst.attention.explorer import AttentionExplorer
from napari_mst.attention.record import AttentionRecord, BlockAttention, block_title
from napari_mst.attention.recorder import attention_blocks, record_attention
from napari_mst.base.errors import AttentionError, Cancelled
from napari_mst.engine.run import Execution, run
from napari_mst.models import Model
from napari_mst.networks.module import Network
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.reconstruction.setup import copied

Golden = tuple[np.ndarray, dict[str, np.ndarray]]
"""A photo, and the authors' attention in every block."""


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("mstpp-srgb")


@pytest.fixture(autouse=True)
def no_hook_is_left(model: Model) -> Iterator[None]:
    yield
    assert hooks(model.network) == 0


def hooks(network: torch.nn.Module) -> int:
    return sum(
        len(part._forward_hooks) + len(part._forward_pre_hooks) for part in network.modules()
    )


def photo(seed: int = 0, height: int = 21, width: int = 34) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def largest_difference(record: AttentionRecord, other: AttentionRecord) -> float:
    """The largest difference of the attention of two records."""
    assert list(record) == list(other)
    return max(
        float(np.abs(record[name].attention - other[name].attention).max()) for name in record
    )


@pytest.fixture(scope="module")
def golden(authors: Authors) -> Golden:
    return authors.photos["48x61"], authors.attention


@pytest.fixture(scope="module")
def published(authors: Authors) -> MSTPlusPlus:
    network = load_model(authors.weights).network
    assert isinstance(network, MSTPlusPlus)
    return network


def recorded_whole(network: Network, photo: np.ndarray) -> AttentionRecord:
    """The attention of the network's own forward."""
    weight = next(network.parameters())
    with record_attention(network) as record, torch.inference_mode():
        network(torch.from_numpy(photo)[None].to(weight))
    return record


def recorded_streamed(network: Network, photo: np.ndarray) -> AttentionRecord:
    """The attention of a run of the engine."""
    _, height, width = photo.shape
    with record_attention(network) as record:
        run(network, lambda start, stop: photo[:, start:stop], height, width, torch.device("cpu"))
    return record


def distance_to(blocks: dict[str, np.ndarray], record: AttentionRecord) -> float:
    assert list(record) == list(blocks)
    return max(
        float(np.abs(record[name].attention - attention).max())
        for name, attention in blocks.items()
    )


@pytest.mark.usefixtures("executor")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-7)])
def test_recorded_attention_of_all_15_blocks_is_the_authors(
    golden: Golden, published: MSTPlusPlus, dtype: torch.dtype, tolerance: float
) -> None:
    photo, expected = golden
    assert len(expected) == 15
    network = copied(published).to(dtype)
    whole, streamed = (record(network, photo) for record in (recorded_whole, recorded_streamed))
    assert distance_to(expected, whole) <= tolerance
    assert distance_to(expected, streamed) <= tolerance
    # Each rounds in its own way, within the tolerance of the truth.
    assert largest_difference(whole, streamed) <= 2 * tolerance


@pytest.mark.usefixtures("executor")
@pytest.mark.parametrize("side", [16, 48])
def test_the_size_of_the_regions_changes_a_recording_by_rounding_only(
    golden: Golden, published: MSTPlusPlus, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo, expected = golden
    monkeypatch.setattr(Execution, "tile", lambda _, size, *__: size)
    one_region = recorded_streamed(published, photo)
    monkeypatch.setattr(Execution, "tile", lambda *_: (side, side))
    cut = recorded_streamed(published, photo)
    assert largest_difference(one_region, cut) <= 1e-6
    assert distance_to(expected, cut) <= 1e-6


def test_attention_is_the_softmax_of_the_logits_by_rows(model: Model) -> None:
    record = AttentionExplorer(Reconstructor(model, "cpu"), photo()).record()
    assert record.provenance.model == "mstpp-srgb"
    for block in record.blocks.values():
        assert_allclose(block.attention.sum(-1), 1, atol=1e-6)
        powers = np.exp(block.logits - block.logits.max(-1, keepdims=True))
        assert_allclose(block.attention, powers / powers.sum(-1, keepdims=True), atol=1e-6)
        assert (block.entropy <= np.log2(block.attention.shape[-1]) + 1e-6).all()


def test_entropy_is_none_where_one_channel_has_all_and_largest_where_all_are_equal() -> None:
    attention = np.stack([np.eye(4), np.full((4, 4), 0.25)]).astype(np.float32)
    entropy = BlockAttention(np.zeros_like(attention), attention).entropy
    assert_allclose(entropy, [[0] * 4, [2] * 4], atol=1e-9)


def test_the_last_run_counts(model: Model) -> None:
    reconstructor = Reconstructor(model, "cpu")
    alone = AttentionExplorer(reconstructor, photo(1)).record()
    with record_attention(model) as record:
        reconstructor.reconstruct(photo(0))
        reconstructor.reconstruct(photo(1))
    assert largest_difference(record, alone) == 0


REGION = (3, 20, 10, 31)


def test_a_region_has_the_attention_of_its_own_run(model: Model) -> None:
    reconstructor = Reconstructor(model, "cpu")
    with record_attention(model) as record:
        cube = reconstructor.reconstruct(photo(), region=REGION)
    alone = AttentionExplorer(reconstructor, photo(), region=REGION).record()
    assert alone.provenance.region == cube.provenance.region == "3:20,10:31"
    assert any("a region is another image" in note for note in alone.provenance.assumptions)
    assert largest_difference(record, alone) == 0
    assert largest_difference(record, AttentionExplorer(reconstructor, photo()).record()) > 1e-4


def test_of_an_ensemble_the_unflipped_pass_is_recorded(model: Model) -> None:
    reconstructor = Reconstructor(model, "cpu")
    with record_attention(model) as record:
        reconstructor.reconstruct(photo(), ensemble=True)
    assert largest_difference(record, AttentionExplorer(reconstructor, photo()).record()) == 0


def test_a_copy_for_another_device_is_heard_and_keeps_no_hook(model: Model) -> None:
    early = copied(model.network)
    with record_attention(model) as record, torch.inference_mode():
        late = copied(model.network)
        for copy in (early, late):
            record.blocks.clear()
            copy(torch.rand(1, 3, 16, 16))
            assert len(record) == 5
    assert hooks(early) == hooks(late) == 0
    assert next(early.parameters()) is not next(model.network.parameters())


@pytest.mark.parametrize("ending", [Cancelled, ValueError])
def test_hooks_are_gone_after_a_cancel_and_an_exception(
    model: Model, ending: type[Exception]
) -> None:
    def stop(_: float) -> None:
        raise ending("stop")

    reconstructor = Reconstructor(model, "cpu")
    with pytest.raises(ending), record_attention(model):
        reconstructor.reconstruct(photo(), progress=stop)
    assert hooks(model.network) == 0


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_hook_on_a_block_hears_in_a_run_the_whole_maps_of_a_plain_forward(
    model: Model, precision: Literal["float32", "float64"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Execution, "tile", lambda *_: (16, 16))
    heard: list[tuple[torch.Tensor, torch.Tensor]] = []

    def on_forward(_: torch.nn.Module, read: tuple[torch.Tensor], written: torch.Tensor) -> None:
        heard.append((read[0].double(), written.double()))

    block = model.network.get_submodule("stages.0.encoder.1")
    handle = block.register_forward_hook(on_forward)
    try:
        reconstructor = Reconstructor(model, "cpu", precision=precision)
        reconstructor.reconstruct(photo())
        prepared = reconstructor.prepare(photo()).job().source().rows(0, 21)
        with torch.inference_mode():
            model.network(torch.from_numpy(np.ascontiguousarray(prepared, np.float32))[None])
    finally:
        handle.remove()
    in_run, in_forward = heard
    assert in_run[0].shape == (1, 62, 12, 20)
    for own, expected in zip(in_run, in_forward, strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
    torch.testing.assert_close(block(in_forward[0].float()).double(), in_forward[1])


def test_recorders_in_two_threads_on_one_model_do_not_mix(model: Model) -> None:
    alone = [
        AttentionExplorer(Reconstructor(model, "cpu"), photo(seed)).record() for seed in (0, 1)
    ]
    both: dict[int, AttentionRecord] = {}
    barrier = threading.Barrier(2, timeout=60)

    def job(seed: int) -> None:
        with record_attention(model) as record:
            barrier.wait()
            reconstructor = Reconstructor(model, "cpu")
            for _ in range(2):
                reconstructor.reconstruct(photo(seed))
            barrier.wait()
        both[seed] = record

    threads = [threading.Thread(target=job, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (0, 1):
        assert largest_difference(both[seed], alone[seed]) == 0
    assert largest_difference(both[0], both[1]) > 1e-3


def test_two_recorders_in_one_thread_both_hear(model: Model) -> None:
    with record_attention(model) as outer, record_attention(model) as inner:
        Reconstructor(model, "cpu").reconstruct(photo())
    assert largest_difference(outer, inner) == 0


def test_two_models_do_not_mix(model: Model) -> None:
    other = MSTPlusPlus(stages=1, out_bands=4).eval()
    with record_attention(other) as record:
        Reconstructor(model, "cpu").reconstruct(photo())
    assert len(record) == 0


def test_a_batch_is_refused() -> None:
    network = MSTPlusPlus(stages=1, out_bands=4).eval()
    with pytest.raises(AttentionError, match="Expected one photo"), record_attention(network):
        network(torch.rand(2, 3, 8, 8))


def test_a_block_that_is_not_there_is_named(model: Model) -> None:
    with record_attention(model) as record:
        pass
    with pytest.raises(
        AttentionError, match="Expected a run while the record was open, got the block 'x'"
    ):
        record["x"]


def test_a_network_without_attention_leaves_the_record_empty() -> None:
    with record_attention(torch.nn.Conv2d(3, 31, 1)) as record:
        assert len(record) == 0


def test_blocks_have_titles_for_people() -> None:
    blocks = attention_blocks(MSTPlusPlus(stages=3))
    titles = [block_title(name, block.spec.channels) for name, block in blocks.items()]
    parts = ("encoder 31", "encoder 62", "bottleneck 124", "decoder 62", "decoder 31")
    assert titles == [f"stage {stage}, {part}" for stage in (1, 2, 3) for part in parts]
