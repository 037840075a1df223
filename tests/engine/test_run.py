"""The streamed run gives the numbers of the whole network at once, whatever the size and tiles.

All of it with the kernels that numba compiles, where it is installed, and with torch alone.
"""

from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.conftest import source_of

from napari_mst.base.errors import Cancelled
from napari_mst.base.progress import Progress, ProgressLike, as_progress
from napari_mst.engine import tensors
from napari_mst.engine.plan import Place, Plan
from napari_mst.engine.run import Execution, execute
from napari_mst.engine.windows import cpu_tile
from napari_mst.networks import Network
from napari_mst.networks.mst_plus_plus import MSTPlusPlus, build_mst_plus_plus

pytestmark = pytest.mark.usefixtures("executor")

CPU = torch.device("cpu")


def build(seed: int = 0, **parameters: Any) -> MSTPlusPlus:
    """A network whose weights are large enough for every part of it to matter."""
    torch.manual_seed(seed)
    network = MSTPlusPlus(**parameters).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.05)
    return network


def stream(
    network: Network, photo: np.ndarray, plan: Plan | None = None, progress: ProgressLike = None
) -> np.ndarray:
    """The streamed run of *network* on an array (in_bands, H, W)."""
    return execute(network.program(), source_of(photo), CPU, plan, as_progress(progress)).numbers


def whole(network: MSTPlusPlus, photo: np.ndarray) -> np.ndarray:
    """The network's own forward in float64: the reference."""
    exact = build_mst_plus_plus(network.state_dict()).double()
    return exact(torch.from_numpy(photo).double()[None])[0].numpy()


def assert_exact(streamed: np.ndarray, reference: np.ndarray) -> None:
    assert streamed.dtype == np.float32
    assert streamed.shape == reference.shape
    np.testing.assert_allclose(streamed, reference, rtol=0, atol=1e-5 * np.abs(reference).max())


class Case(NamedTuple):
    """A network, a photo, and how a run cuts it and keeps its maps."""

    height: int
    width: int
    cuts: int
    place: Place
    is_gpu: bool
    stages: int
    channels: int
    bands: int
    seed: int


CASES = st.builds(
    Case,
    height=st.integers(1, 300),
    width=st.integers(1, 300),
    cuts=st.integers(1, 6),
    place=st.sampled_from(get_args(Place)),
    is_gpu=st.booleans(),
    stages=st.integers(1, 2),
    channels=st.sampled_from([1, 4, 9]),
    bands=st.sampled_from([1, 4, 31]),
    seed=st.integers(0, 9),
)


def cut_into_squares(patch: pytest.MonkeyPatch, side: int) -> None:
    patch.setattr(Execution, "tile", lambda *_: (side, side))


def check_exact(case: Case) -> None:
    """A run equals the network, on squares or on a GPU's strips, with its maps in any place."""
    # A single number may be what is left of larger ones, and has no scale of its own.
    assume(case.height * case.width * case.bands > 1)
    network = build(case.seed, stages=case.stages, width=case.channels, out_bands=case.bands)
    size = (3, case.height, case.width)
    photo = np.random.default_rng(case.seed).random(size, dtype=np.float32)
    is_apart = case.place != "device"
    with pytest.MonkeyPatch.context() as patch:
        cut_into_squares(patch, -(-max(case.height, case.width) // case.cuts // 8) * 8)
        if case.is_gpu:
            patch.setattr(Execution, "tile", lambda run, size, _: run.strip(size))
            patch.setattr(tensors, "_is_elsewhere", lambda values, device: is_apart)
        plan = Plan(case.place, pixels=case.height * case.width // case.cuts)
        assert_exact(stream(network, photo, plan=plan), whole(network, photo))


@settings(max_examples=4, deadline=None)
@given(CASES)
def test_streamed_equals_whole_at_every_size_of_image_and_region_and_in_every_place(
    case: Case,
) -> None:
    check_exact(case)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(CASES)
def test_streamed_equals_whole_in_many_more_cases(case: Case) -> None:
    check_exact(case)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    "size", [(8, 8), (64, 64), (8, 4000), (128, 96), (256, 256), (488, 512), (2000, 3000)], ids=str
)
def test_regions_are_four_or_more_and_about_the_same_size(
    size: tuple[int, int], level: int
) -> None:
    height, width = (side >> level for side in size)
    rows, columns = cpu_tile(height, width, level)
    assert rows % 4 == columns % 4 == 0
    down, across = -(-height // rows), -(-width // columns)
    assert down * across >= 4 or height * width <= 4096
    assert down * rows - height < 4 * down
    assert across * columns - width < 4 * across


def test_progress_moves_15_times_and_ends_at_one() -> None:
    shares: list[float] = []
    stream(build(), np.zeros((3, 16, 16), np.float32), progress=shares.append)
    assert len(set(shares)) >= 15
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize("bands_before", [0, 1, 4])
def test_cancel_acts_at_the_next_band_of_rows(bands_before: int) -> None:
    shares: list[float] = []
    torch.set_num_threads(1)
    with pytest.raises(Cancelled):
        stream(
            build(stages=1),
            np.zeros((3, 16, 16), np.float32),
            progress=Progress(shares.append, lambda: len(shares) >= bands_before),
        )
    assert len(shares) == bands_before
