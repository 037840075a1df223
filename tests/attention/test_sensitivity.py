"""Sensitivity: the gradient that it says it is, and a crop that holds all of it."""

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from napari_mst import Reconstructor, load_model
from napari_mst.attention.explorer import AttentionExplorer
from napari_mst.attention.sensitivity import Value, mixing_matrices, reach
from napari_mst.base.errors import AttentionError, Cancelled
from napari_mst.base.progress import Progress
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus
from napari_mst.reconstruction.preparing import prepared_job

BAND, ROW, COLUMN = 15, 20, 69


@pytest.fixture(scope="module")
def reconstructor() -> Reconstructor:
    """A reconstructor with the bundled network, without the correction of colours after it."""
    return Reconstructor(load_model("mstpp-srgb"), "cpu", correct_colour=False)


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (45, 70, 3), dtype=np.uint8)


def test_it_is_the_gradient_of_the_network_with_its_attention_fixed(
    reconstructor: Reconstructor, photo: np.ndarray
) -> None:
    record = AttentionExplorer(reconstructor, photo).record()
    one = AttentionExplorer(reconstructor, photo).sensitivity(BAND, ROW, COLUMN, record)
    rows = inputs(reconstructor, photo).double()
    program = copy.deepcopy(reconstructor.network).double().program()
    fixed = partial(program.whole, folded=mixing_matrices(program, record))
    with torch.no_grad():
        row, column, slopes = 18, 66, []
        for channel in range(3):
            step = torch.zeros_like(rows)
            step[channel, row, column] = 1e-4
            above, below = (
                fixed((rows + sign * step)[None])[0, BAND, ROW, COLUMN] for sign in (1, -1)
            )
            slopes.append((above - below).item() / 2e-4)
    top, left = one.offset
    assert one.values[row - int(top), column - int(left)] == pytest.approx(
        np.linalg.norm(slopes), rel=1e-3
    )


def inputs(reconstructor: Reconstructor, photo: np.ndarray) -> torch.Tensor:
    return torch.tensor(prepared_job(reconstructor.setup, photo).source().rows(0, len(photo)))


def test_in_a_region_it_lies_around_the_pixel_in_the_photo(
    reconstructor: Reconstructor, photo: np.ndarray
) -> None:
    of_region = AttentionExplorer(reconstructor, photo, region=(10, 40, 20, 70)).sensitivity(
        BAND, 5, 6
    )
    peak = np.unravel_index(of_region.values.argmax(), of_region.values.shape)
    assert tuple(np.add(peak, of_region.offset)) == (15, 26)
    assert of_region.provenance.region == "10:40,20:70"


def plain(stages: int) -> MSTPlusPlus:
    return MSTPlusPlus(stages=stages, out_bands=4)


def refining(stages: int) -> MSTPlusPlus:
    return RefiningMSTPlusPlus(PixelwiseNetwork(out_bands=4), stages)


@pytest.mark.parametrize(
    ("build", "stages", "index"),
    [
        (plain, 1, 100),
        (plain, 1, 103),
        (plain, 1, 0),
        (plain, 2, 201),
        (refining, 1, 100),
        (refining, 2, 201),
    ],
)
def test_the_crop_is_all_that_can_matter_and_little_more(
    build: Callable[[int], MSTPlusPlus], stages: int, index: int
) -> None:
    torch.manual_seed(0)
    network = build(stages).double().requires_grad_(False)
    program = network.program()
    mixing = {
        each.uses: torch.eye(each.channels).double()[None] for each in program.passes if each.uses
    }
    length = 400
    line = torch.rand(1, 3, length, 8, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(program.whole(line, mixing)[0, 2, index].sum(), line)
    felt = gradient.abs().sum((0, 1, 3)).nonzero()[:, 0]
    start, stop, _, _ = reach(program, Value(2, index, 4), (length, 8))
    assert start <= int(felt.min())
    assert int(felt.max()) < stop
    assert int(felt.min()) - start < 12
    assert stop - int(felt.max()) < 13


@pytest.mark.parametrize("at", [(31, 0, 0), (0, 45, 0), (0, 0, -1)])
def test_a_pixel_that_is_not_there_is_refused(
    reconstructor: Reconstructor, photo: np.ndarray, at: tuple[int, int, int]
) -> None:
    with pytest.raises(AttentionError, match=r"Expected (band|row|column) 0 to \d+"):
        AttentionExplorer(reconstructor, photo).sensitivity(*at)


def test_it_can_be_cancelled(reconstructor: Reconstructor, photo: np.ndarray) -> None:
    record = AttentionExplorer(reconstructor, photo).record()
    with pytest.raises(Cancelled):
        AttentionExplorer(
            reconstructor, photo, progress=Progress(is_cancelled=lambda: True)
        ).sensitivity(BAND, ROW, COLUMN, record)
