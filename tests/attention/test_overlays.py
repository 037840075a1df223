"""Maps over the image: each against its own formula, at every kind of block and any size."""

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.nn import functional as F

from napari_mst import Reconstructor, load_model
from napari_mst.attention import explorer
from napari_mst.attention.explorer import AttentionExplorer, features
from napari_mst.attention.overlays import DESCRIPTIONS, OVERLAYS
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.record_views import AttentionMap, Selection
from napari_mst.attention.recorder import attention_blocks
from napari_mst.base.errors import AttentionError, Cancelled
from napari_mst.base.progress import Progress
from napari_mst.models import Model
from napari_mst.networks.attention.spectral import SpectralAttentionBlock
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.reconstruction.preparing import prepared_job

BLOCKS = (
    "stages.0.encoder.0",
    "stages.0.encoder.1",
    "stages.0.bottleneck",
    "stages.0.decoder.0",
    "stages.0.decoder.1",
    "stages.1.encoder.0",
    "stages.1.decoder.0",
    "stages.2.decoder.1",
)
USUAL = (BLOCKS[0], BLOCKS[1], BLOCKS[2], BLOCKS[7])
"""One of each width, the first and the last; the others are slow."""
CASES = [pytest.param(one, marks=() if one in USUAL else pytest.mark.slow) for one in BLOCKS]
SIZE = (18, 67)


def photo() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)


@cache
def three_stages() -> Model:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=3).eval().requires_grad_(False)
    return replace(load_model("mstpp-srgb"), network=network)


@cache
def reconstructor(block: str = BLOCKS[0]) -> Reconstructor:
    """A reconstructor with the bundled network, or a seeded one where only that has *block*."""
    bundled = load_model("mstpp-srgb")
    is_bundled = block in attention_blocks(bundled.network)
    return Reconstructor(bundled if is_bundled else three_stages(), "cpu")


@cache
def record(block: str = BLOCKS[0]) -> AttentionRecord:
    return AttentionExplorer(reconstructor(block), photo()).record()


@cache
def whole_input(name: str) -> tuple[SpectralAttentionBlock, torch.Tensor]:
    """The block and the whole of its input, in float64, from the network's own forward."""
    one = reconstructor(name)
    exact = copy.deepcopy(one.model.network).double()
    program = exact.program()
    (read,) = program.writer(name).reads
    rows = np.ascontiguousarray(prepared_job(one.setup, photo()).source().rows(0, SIZE[0]))
    with torch.inference_mode():
        seen = program.until(read).whole(torch.from_numpy(rows).double()[None])
    return attention_blocks(exact)[name].spec.parts, seen


def made(
    overlay: str, block: str, head: int = 0, key: int | None = 3, query: int | None = 5
) -> AttentionMap:
    return AttentionExplorer(reconstructor(block), photo()).map(
        overlay, Selection(block, head, key, query)
    )


def formula(overlay: str, block: str, head: int, key: int | None, query: int | None) -> np.ndarray:
    """The map as its formula says, pixel by pixel, without Gram matrices and folding."""
    module, x = whole_input(block)
    attention = module.channel_attention
    tokens = x[0].flatten(1)
    q, k, v = (
        (part.weight @ tokens).unflatten(0, (attention.heads, -1))
        for part in (attention.to_q, attention.to_k, attention.to_v)
    )
    all_keys = F.normalize(k, dim=-1)
    all_queries = F.normalize(q, dim=-1)
    matrices = (all_keys @ all_queries.mT * attention.rescale).softmax(-1)
    attended = (matrices @ v)[head]
    depth = len(attended)
    chosen = slice(None) if key is None else slice(key, key + 1)
    asked = slice(None) if query is None else slice(query, query + 1)
    one_key = all_keys[head][chosen].sum(0)
    one_query = all_queries[head][asked].sum(0)
    y = module(x)[0].flatten(1)
    branch = attention(x)[0].flatten(1)
    projection = attention.proj.weight[:, head * depth : (head + 1) * depth]
    projected = projection[:, chosen] @ attended[chosen]
    values = {
        "score": attention.rescale[head] * one_key * one_query,
        "attended": attended[key] if key is not None else attended.norm(dim=0),
        "share": (projected * y).sum(0) / (y * y).sum(0),
        "attention": branch.norm(dim=0),
        "feed-forward": (y - tokens - branch).norm(dim=0),
    }[overlay]
    return np.asarray(values.reshape(x.shape[-2:]).detach())


@pytest.mark.parametrize("block", CASES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_map_is_its_formula_and_lies_on_the_photo(overlay: str, block: str) -> None:
    one = made(overlay, block)
    expected = formula(overlay, block, 0, 3, 5)
    pitch = {31: 1, 62: 2, 124: 4}[whole_input(block)[1].shape[1]]
    assert one.pitch == pitch
    assert one.offset == ((pitch - 1) / 2,) * 2
    assert one.values.shape == tuple(-(-side // pitch) for side in SIZE)
    assert one.values.dtype == np.float32
    cropped = expected[: one.values.shape[0], : one.values.shape[1]]
    assert_allclose(one.values, cropped, rtol=0, atol=2e-5 * np.abs(expected).max())
    assert one.total == pytest.approx(expected.sum(), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_map_of_all_channels_of_another_head_is_its_formula(overlay: str) -> None:
    one = made(overlay, BLOCKS[2], head=3, key=None, query=None)
    expected = formula(overlay, BLOCKS[2], 3, None, None)[
        : one.values.shape[0], : one.values.shape[1]
    ]
    assert_allclose(one.values, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def test_a_map_can_be_cancelled_and_tells_its_progress() -> None:
    shares: list[float] = []
    selection = Selection(BLOCKS[0])
    AttentionExplorer(reconstructor(), photo(), progress=shares.append).map("score", selection)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    with pytest.raises(Cancelled):
        AttentionExplorer(
            reconstructor(), photo(), progress=Progress(is_cancelled=lambda: True)
        ).map("score", selection)


@pytest.mark.parametrize(
    ("overlay", "selection", "sentence"),
    [
        ("scores", Selection(BLOCKS[0]), "got 'scores'"),
        ("score", Selection("stages.3.bottleneck"), "got 'stages.3.bottleneck'"),
        ("score", Selection(BLOCKS[0], head=1), "Expected head 0 to 0"),
        ("score", Selection(BLOCKS[0], key=31), "Expected key 0 to 30"),
        ("score", Selection(BLOCKS[0], query=-1), "Expected query 0 to 30"),
    ],
)
def test_what_is_not_there_is_refused_in_a_sentence(
    overlay: str, selection: Selection, sentence: str
) -> None:
    with pytest.raises(AttentionError, match=sentence):
        AttentionExplorer(reconstructor(), photo()).map(overlay, selection)


def test_every_map_says_what_it_is() -> None:
    for one in DESCRIPTIONS.values():
        assert one.text in one.tooltip
        assert one.formula in one.tooltip
        assert "doi" in one.tooltip or "arXiv" in one.tooltip


def test_the_maps_of_a_region_are_its_own_and_lie_where_it_lies() -> None:
    region = (3, 17, 8, 61)
    selection = Selection(BLOCKS[1], 1, 3, 5)
    one = AttentionExplorer(reconstructor(), photo(), region=region)
    found, of_region = one.map("score", selection), one.record()[BLOCKS[1]]
    assert found.values.shape == (7, 27)
    assert found.offset == (3.5, 8.5)
    assert found.provenance.region == "3:17,8:61"
    assert found.total == pytest.approx(of_region.logits[1, 3, 5], abs=1e-5)
    steps = one.steps(BLOCKS[1], 1)
    assert steps.features.shape == (7, 27)
    assert_allclose(steps.matrices.attention[0], of_region.attention[1], atol=1e-6)


def test_the_map_of_any_layer_is_that_of_the_whole_network_and_others_are_named() -> None:
    layer = "stages.0.down.1"
    made = features(reconstructor(), photo(), layer)
    rows = np.ascontiguousarray(
        prepared_job(reconstructor().setup, photo()).source().rows(0, SIZE[0])
    )
    with torch.inference_mode():
        whole = reconstructor().program.until(layer).whole(torch.from_numpy(rows)[None])[0]
    assert_allclose(made, whole, rtol=0, atol=1e-4 * float(whole.abs().max()))
    with pytest.raises(AttentionError, match=r"Expected a layer of .*stages\.0\.down\.1.*got 'x'"):
        features(reconstructor(), photo(), "x")


@pytest.mark.parametrize("picture", [160, 16])
def test_the_steps_of_a_head_are_those_of_the_formula(
    picture: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer, "PICTURE", picture)
    _, x = whole_input(BLOCKS[1])
    steps = AttentionExplorer(reconstructor(), photo()).steps(BLOCKS[1], 1)
    stride = -(-36 // picture)
    assert steps.size == (62, 12, 36)
    every = (slice(None, 9, stride), slice(None, 34, stride))
    score, value = (formula(name, BLOCKS[1], 1, 3, 5)[every] for name in ("score", "attended"))
    assert_allclose(steps.keys[3] * steps.queries[5], score, atol=2e-5 * np.abs(score).max())
    assert_allclose(steps.attended(3), value, atol=2e-5 * np.abs(value).max())
    assert_allclose(steps.features, x[0].norm(dim=0)[every], rtol=1e-4)
    assert_allclose(steps.matrices.attention[0], record()[BLOCKS[1]].attention[1], atol=1e-6)
