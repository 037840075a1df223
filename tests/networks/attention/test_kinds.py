"""Each kind of attention in the U-shape: streamed exactly, saved and loaded, and refused."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from tests.conftest import on_cpu
from torch import Tensor, nn

from napari_mst import load_model
from napari_mst.base.errors import CheckpointError, ModelError, OutOfMemory, PhotoError
from napari_mst.engine.plan import PlannedRun, make_plan
from napari_mst.engine.schedule import schedule
from napari_mst.networks.attention.kinds import ATTENTIONS
from napari_mst.networks.attention.transformer_block import TransformerBlock
from napari_mst.networks.mst_plus_plus import MSTPlusPlus, build_mst_plus_plus
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus, build_refining

CPU = torch.device("cpu")
KINDS = list(ATTENTIONS)


def drawn(network: MSTPlusPlus) -> MSTPlusPlus:
    """*network* for a run; positions, which begin as zeros, count in it."""
    for name, parameter in network.named_parameters():
        if name.endswith("position.table"):
            nn.init.normal_(parameter)
    return network.eval().requires_grad_(False)


def built(kind: str, bands: int = 5) -> MSTPlusPlus:
    torch.manual_seed(0)
    return drawn(MSTPlusPlus(stages=1, out_bands=bands, attention=kind, window=4))


def photo_of(height: int, width: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).random((3, height, width))


def whole(network: MSTPlusPlus, photo: NDArray[np.float64]) -> NDArray[np.float64]:
    """The network's own forward in float64: the reference."""
    exact: NDArray[np.float64] = network.double()(torch.from_numpy(photo)[None])[0].numpy()
    return exact


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", [False, True])
def test_weights_say_the_attention_that_they_belong_to(
    kind: str, norm: bool, tmp_path: Path
) -> None:
    network = drawn(MSTPlusPlus(stages=1, attention=kind, window=4, norm_before_attention=norm))
    halves = {key: value.half() for key, value in network.state_dict().items()}
    save_file(halves, tmp_path / "own.safetensors")
    loaded = load_model(tmp_path / "own.safetensors").network
    assert isinstance(loaded, MSTPlusPlus)
    assert loaded.hyperparameters == network.hyperparameters


@pytest.mark.parametrize("kind", ["spectral", "shifted", "hybrid", "none"])
def test_a_refining_network_comes_back_with_its_attention(kind: str) -> None:
    pixelwise = PixelwiseNetwork(out_bands=6, width=8)
    network = drawn(
        RefiningMSTPlusPlus(pixelwise, attention=kind, window=4, norm_before_attention=True)
    )
    loaded = build_refining(network.state_dict())
    assert loaded.hyperparameters == network.hyperparameters
    photo = torch.rand(1, 3, 19, 22)
    torch.testing.assert_close(loaded(photo), network(photo))


def test_norm_stands_before_attention_where_it_was_published_so() -> None:
    has = {kind: built(kind).hyperparameters.norm_before_attention for kind in KINDS}
    assert has == {kind: kind != "spectral" for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_photos_of_any_size_give_cubes_of_their_size(kind: str, tmp_path: Path) -> None:
    save_file(built(kind, bands=31).state_dict(), tmp_path / "own.safetensors")
    own = on_cpu(tmp_path / "own.safetensors")
    for size in [(1, 1), (5, 18)]:
        assert own.reconstruct(np.full((*size, 3), 99, np.uint8)).shape == (31, *size)


def test_the_history_says_that_windows_do_not_divide_a_photo(tmp_path: Path) -> None:
    said = {}
    for kind in ("window", "spectral"):
        save_file(built(kind, bands=31).state_dict(), tmp_path / "own.safetensors")
        own = on_cpu(tmp_path / "own.safetensors")
        for size in [(16, 32), (20, 32)]:
            cube = own.reconstruct(np.full((*size, 3), 99, np.uint8))
            said[kind, size] = any("saw 32 x 32" in text for text in cube.provenance.assumptions)
    assert [key for key, is_said in said.items() if is_said] == [("window", (20, 32))]


def test_photos_are_padded_until_windows_divide_every_map() -> None:
    for window, padded in [(8, (64, 96)), (4, (48, 80)), (6, (48, 72))]:
        network = MSTPlusPlus(stages=1, attention="window", window=window)
        assert network.program().padded(40, 70) == padded
    assert built("global").program().padded(40, 70) == (40, 72)


def test_the_same_blocks_of_every_stage_are_shifted() -> None:
    network = MSTPlusPlus(stages=2, attention="shifted", window=4)
    shifts = [int(value[2]) for name, value in network.state_dict().items() if "geometry" in name]
    # In the order of the modules: two encoder blocks, the bottleneck, two decoder blocks.
    assert shifts == [0, 2, 0, 2, 2] * 2


def test_a_stage_sees_no_further_than_its_windows() -> None:
    """Without statistics, a far pixel changes nothing: which is why windows can be streamed."""
    network, photo = built("shifted").double(), photo_of(64, 160)
    before = whole(network, photo)
    photo[:, :, 130:] = 0
    after = whole(network, photo)
    assert np.array_equal(before[..., :40], after[..., :40])
    assert not np.array_equal(before[..., 110:130], after[..., 110:130])


def test_the_plan_counts_the_keys_and_values_of_all_pixels() -> None:
    program = built("global").program()
    small, large = (make_plan(PlannedRun(program, 40, side, CPU)) for side in (40, 1600))
    gathered = schedule(program).gathered_values
    # Five bands: two numbers for each channel, of blocks of 5, 10, 20, 10 and 5 channels.
    assert gathered == 10 + 20 / 4 + 40 / 16 + 20 / 4 + 10 + 10
    assert large.memory - small.memory > 40 * 1560 * 4 * gathered
    with pytest.raises(OutOfMemory, match=r"Expected .* of free memory"):
        make_plan(PlannedRun(program, 200, 200, CPU), memory=10**6, device_memory=0)


def test_more_pixels_than_can_attend_to_each_other_are_refused_before_anything_runs() -> None:
    program = built("global").program()
    with pytest.raises(PhotoError, match=r"at most 65,536 pixels, .* got 300 x 400.*region"):
        make_plan(PlannedRun(program, 300, 400, CPU))
    assert make_plan(PlannedRun(program, 256, 256, CPU)).memory > 0


def changed(state: Mapping[str, Tensor], key: str, value: list[float]) -> dict[str, Tensor]:
    return {**state, key: torch.tensor(value)}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("encoder.1", [1e9, 1e9, 0], r"windows of 1 to 64"),
        ("encoder.1", [float("nan"), 4, 0], r"windows of 1 to 64"),
        ("encoder.1", [4, 4], r"windows of 1 to 64"),
        ("encoder.1", [5, 5, 2], r"of another shape"),
        ("decoder.0", [4, 4, 1], r"windows of \(4, 4, 2\).* got \(4, 4, 1\)"),
        ("decoder.1", [4, 4, 0], r"windows of \(4, 4, 2\).* got \(4, 4, 0\)"),
    ],
)
def test_windows_that_are_not_those_of_the_weights_are_refused(
    key: str, value: list[float], message: str
) -> None:
    state = built("shifted").state_dict()
    with pytest.raises(CheckpointError, match=rf"Expected .*{message}") as caught:
        build_mst_plus_plus(changed(state, f"stages.0.{key}.attention.geometry", value))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"attention": "windows"}, r"attention of spectral, window, .*, got windows"),
        ({"attention": "window", "window": 0}, r"window to be a positive integer, got 0"),
        ({"attention": "shifted", "window": 65}, r"window of at most 64 pixels, got 65"),
        ({"attention": ["window"]}, r"attention of spectral, window"),
        ({"norm_before_attention": "yes"}, r"to be True, False or None .*, got yes"),
        ({"attention": "overlapping", "window": 6}, r"even number of pixels, got 3"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=rf"Expected .*{message}"):
        MSTPlusPlus(stages=1, **parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize(("half", "other"), [("attention", "spectral"), ("spectral", "attention")])
def test_a_hybrid_is_either_half_where_the_other_has_no_values(half: str, other: str) -> None:
    hybrid, alone = built("hybrid"), built({"attention": "shifted"}.get(half, half))
    silent = (f".{other}.to_qkv", f".{other}.to_v", f".{other}.proj.bias")
    own = {
        key: torch.zeros_like(value) if any(part in key for part in silent) else value
        for key, value in hybrid.state_dict().items()
    }
    hybrid.load_state_dict(own)
    alone.load_state_dict(
        {key: own[key.replace(".attention.", f".{half}.")] for key in alone.state_dict()}
    )
    photo = torch.rand(1, 3, 16, 32)
    torch.testing.assert_close(hybrid(photo), alone(photo))


def test_the_plain_block_of_a_mixed_network_is_the_transformer_block() -> None:
    plain = built("mixed").stages[0].encoder[1]
    state = plain.state_dict()
    names = {"norm.": "norm_attention.", "feed_forward.0.": "norm_perceptron."}
    names |= {f"feed_forward.{at}.": f"perceptron.{at - 1}." for at in (1, 3)}
    weights = {}
    for key, value in state.items():
        start = next((name for name in names if key.startswith(name)), "")
        matrix = value.flatten(1) if value.ndim == 4 else value
        weights[names.get(start, "") + key.removeprefix(start)] = matrix
    attention = deepcopy(plain.attention)
    block = TransformerBlock(attention, 4 * attention.channels)
    block.load_state_dict(weights)
    x = torch.rand(1, attention.channels, 16, 24)
    torch.testing.assert_close(plain(x), block(x))
