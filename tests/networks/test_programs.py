"""The engine runs every row of `NETWORKS` with every attention, and networks that are new to it.

`Gated` is the worked example of CONTRIBUTING.md: what somebody writes who adds a network.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast, get_args

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from tests.conftest import source_of
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst import Reconstructor, load_model, read_cube
from napari_mst.attention.recorder import attention_blocks
from napari_mst.base.errors import Cancelled, ModelError, OutOfMemory
from napari_mst.base.progress import Progress
from napari_mst.cli.main import main
from napari_mst.engine.crop import Known, execute_crop
from napari_mst.engine.device import computes_in
from napari_mst.engine.plan import Place, Plan, PlannedRun, make_plan
from napari_mst.engine.run import Execution, execute
from napari_mst.engine.schedule import schedule
from napari_mst.engine.windows import Window
from napari_mst.models import Model, ModelCard
from napari_mst.networks import NETWORKS, Kind, Network
from napari_mst.networks.attention.kinds import ATTENTIONS
from napari_mst.networks.attention.spectral import (
    FeedForward,
    FullFeedForward,
    PlaceEmbedding,
    SpectralAttentionBlock,
)
from napari_mst.networks.attention.transformer_block import ConvolutionMerging
from napari_mst.networks.awan import AWAN
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.edsr import EDSR
from napari_mst.networks.hdnet import HDNet
from napari_mst.networks.hinet import HINet
from napari_mst.networks.hrnet import HRNet
from napari_mst.networks.hscnn_plus import HSCNNPlus
from napari_mst.networks.mst import MST
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.networks.network import PHOTO, Pass, Program
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus
from napari_mst.networks.vision_transformer import TransformerHyperparameters, VisionTransformer

CPU = torch.device("cpu")


class Gated(Network):
    """A small CNN as HSCNN+ and its kin, with squeeze-and-excitation.

    The mean of a channel over the image gives its gate.
    """

    in_bands = 3

    def __init__(self, bands: int = 6, width: int = 8) -> None:
        super().__init__()
        self.out_bands = bands
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.squeeze = nn.Linear(width, width)
        self.last = nn.Conv2d(width, bands, 1)

    def features(self, photo: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(photo)))

    def gate(self, total: Tensor, pixels: int) -> Tensor:
        return torch.sigmoid(self.squeeze((total / pixels).to(self.squeeze.weight.dtype)))

    def gated(self, features: Tensor, gate: Tensor) -> Tensor:
        return self.last(features * gate.to(features.dtype)[:, :, None, None])

    def program(self) -> Program:
        width = self.squeeze.in_features
        features = Pass(
            "features", (PHOTO,), self.features, width, halo=2, statistic=added_up, fold=self.gate
        )
        bands = Pass("bands", ("features",), self.gated, self.out_bands, uses="features")
        return Program((features, bands), self.in_bands, dtype=self.last.weight.dtype)


def added_up(features: Tensor) -> Tensor:
    return features.double().sum((2, 3))


class EveryPixel(Network):
    """Attention of every pixel to all others: it needs the whole photo at once."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.last = nn.Conv2d(4, 5, 1)

    in_bands, out_bands = 3, 5

    def attended(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).mT
        return x + F.scaled_dot_product_attention(tokens, tokens, tokens).mT.reshape(x.shape)

    def program(self) -> Program:
        passes = (
            Pass("features", (PHOTO,), self.first, 4, halo=1),
            Pass("attended", ("features",), self.attended, 4, halo=None),
            Pass("bands", ("attended",), self.last, 5),
        )
        return Program(passes, dtype=self.last.weight.dtype)


class BlockOfTheTexts(SpectralAttentionBlock):
    """A block as texts have it: scores without norms, embedded places, and full convolutions."""

    has_cosines = False
    make_position = PlaceEmbedding
    make_feed_forward = FullFeedForward


class OfTheTexts(MSTPlusPlus):
    """MST++ as texts have it: such blocks, those of the decoder before the skip, and merging."""

    make_down = ConvolutionMerging
    fuses_last = True

    def make_block(self, channels: int, heads: int) -> SpectralAttentionBlock:
        block = BlockOfTheTexts(channels, heads, norm_before_attention=True)
        block.attention.rescale.data.fill_(1e-4)  # sums over all pixels are large
        return block


def camera() -> CameraNetwork:
    network = CameraNetwork(torch.rand(6, 4), width=8)
    network.set_response(torch.rand(6, 3))
    return network


OF_THE_TABLE: dict[str, list[Callable[[], Network]]] = {
    "pixelwise": [lambda: PixelwiseNetwork(out_bands=6, width=8)],
    "refining": [
        lambda: RefiningMSTPlusPlus(PixelwiseNetwork(out_bands=6, width=8), stages=1),
        lambda: RefiningMSTPlusPlus(camera(), stages=1),
    ],
    "mst++": [
        lambda: MSTPlusPlus(stages=2, out_bands=5),
        lambda: MSTPlusPlus(stages=1, out_bands=5, width=8, norm_before_attention=True),
        lambda: MSTPlusPlus(stages=1, in_bands=5, out_bands=40, width=8),
    ],
    "mst": [lambda: MST(out_bands=5, blocks=(2, 1, 1)), lambda: MST(4, 5, (1, 1))],
    "hdnet": [lambda: HDNet(out_bands=5, features=8)],
    "edsr": [lambda: EDSR(out_bands=5, features=8, blocks=6)],
    "hscnn+": [lambda: HSCNNPlus(out_bands=5, blocks=3)],
    "hrnet": [lambda: HRNet(out_bands=5, width=4)],
    "hinet": [lambda: HINet(3, 6, depth=3)],
    "awan": [lambda: AWAN(out_bands=9, features=16, blocks=2)],
    "vision transformer": [
        lambda: VisionTransformer(TransformerHyperparameters(size=16, patch=4, features=16)),
    ],
}
MAKERS = {
    f"{kind} {index}": make
    for kind, makers in OF_THE_TABLE.items()
    for index, make in enumerate(makers)
}
MAKERS |= {
    "gated": Gated,
    "words of the texts": lambda: OfTheTexts(stages=1, out_bands=5),
}
MAKERS |= {
    kind: partial(MSTPlusPlus, stages=1, out_bands=5, attention=kind, window=4)
    for kind in ATTENTIONS
}


WITH_16_BITS = ["gated", "mst++ 0", "mst++ 1", "words of the texts"]
WITH_16_BITS += [
    f"{name} 0" for name in ("mst", "hdnet", "edsr", "hscnn+", "hrnet", "hinet", "awan")
]


def built(kind: str) -> Network:
    torch.manual_seed(0)
    network = {**MAKERS, "every pixel": EveryPixel}[kind]().eval().requires_grad_(False)
    for name, parameter in network.named_parameters():
        if name.endswith("position.table"):  # positions begin as zeros
            nn.init.normal_(parameter)
    return network


def photo_of(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).random((channels, height, width), dtype=np.float32)


def whole(network: Network, photo: np.ndarray) -> np.ndarray:
    """The network's own forward in float64: the reference."""
    exact = network.double()(torch.from_numpy(photo).double()[None])[0].numpy()
    network.float()
    return exact


def assert_near(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-6) -> None:
    largest = np.abs(expected).max()
    assert_allclose(found, expected, rtol=0, atol=tolerance * largest)


def test_every_row_of_the_table_is_tried_here() -> None:
    assert set(OF_THE_TABLE) == set(NETWORKS)


@pytest.mark.parametrize("kind", OF_THE_TABLE)
def test_a_row_recognises_the_weights_of_its_network_and_no_earlier_one_does(kind: str) -> None:
    for make in OF_THE_TABLE[kind]:
        state = make().state_dict()
        assert next(name for name, row in NETWORKS.items() if row.recognises(state)) == kind


@pytest.mark.usefixtures("executor")
@pytest.mark.parametrize("kind", [*MAKERS, "every pixel"])
def test_forward_and_program_are_one_mathematics(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Execution, "tile", lambda *_: (16, 40))
    network = built(kind)
    photo = photo_of(45, 70, network.in_bands)
    streamed = execute(network.program(), source_of(photo), CPU).numbers
    assert streamed.dtype == np.float32
    assert_near(streamed, whole(network, photo), 2e-6 if kind in ATTENTIONS else 1e-6)


@pytest.mark.parametrize("kind", [*MAKERS, "every pixel"])
def test_in_float64_they_agree_in_every_digit_and_so_does_any_part(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Execution, "tile", lambda *_: (8, 20))
    network = built(kind).double()
    photo = photo_of(40, 59, network.in_bands)
    numbers, folded = execute(network.program(), source_of(photo), CPU)
    expected = network(torch.from_numpy(photo).double()[None])[0].numpy()
    assert_near(numbers, expected, 1e-13)
    # The first begins and ends within windows, the others lie at borders.
    for sides in [(19, 22, 33, 50), (0, 16, 0, 16), (33, 40, 49, 59), (8, 24, 43, 59)]:
        own = Window(*sides)
        part = execute_crop(network.program(), Known(folded), source_of(photo), own)
        expected = numbers[:, own.rows, own.columns]
        assert_allclose(part, expected, rtol=0, atol=1e-13 * np.abs(numbers).max())


def test_a_part_reads_no_more_of_the_photo_than_its_halos_ask_for() -> None:
    network, photo = built("gated"), photo_of(200, 60)
    asked: list[tuple[int, int]] = []
    source = source_of(photo)

    def watched_rows(start: int, stop: int) -> NDArray[np.float32]:
        asked.append((start, stop))
        return source.rows(start, stop)

    watched = source._replace(rows=watched_rows)
    _, folded = execute(network.program(), source, CPU)
    execute_crop(network.program(), Known(folded), watched, Window(100, 104, 10, 20))
    assert asked == [(98, 106)]


@pytest.mark.parametrize("place", ["device", "memory", "file"])
@pytest.mark.parametrize("kind", ["gated", "window", "global", "hdnet 0", "hinet 0", "awan 0"])
def test_a_new_network_goes_through_every_place_with_progress_and_cancel(
    kind: str, place: Place
) -> None:
    network, photo = built(kind), photo_of(43, 70)
    shares: list[float] = []
    streamed = execute(
        network.program(), source_of(photo), CPU, Plan(place), Progress(shares.append)
    ).numbers
    expected = whole(network, photo)
    assert_near(streamed, expected)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    with pytest.raises(Cancelled):
        execute(
            network.program(),
            source_of(photo),
            CPU,
            Plan(place),
            Progress(is_cancelled=lambda: True),
        )


@pytest.mark.skipif(
    not computes_in(torch.bfloat16), reason="torch has no bfloat16 on this processor"
)
@pytest.mark.usefixtures("executor")
@pytest.mark.parametrize("place", get_args(Place))
@pytest.mark.parametrize("kind", [*WITH_16_BITS, *ATTENTIONS])
def test_features_of_16_bits_are_near_and_change_neither_weights_nor_result_type(
    kind: str, place: Place
) -> None:
    network, photo = built(kind), photo_of(37, 70)
    narrow = execute(network.program(), source_of(photo), CPU, Plan(place, "bfloat16")).numbers
    assert {each.dtype for each in network.parameters()} == {torch.float32}
    expected = whole(network, photo)
    assert narrow.dtype == np.float32
    # Softmaxes of HDNet multiply the rounding.
    most = 0.1 if kind.startswith("hdnet") else 0.03
    assert 1e-6 < np.abs(narrow - expected).max() / np.abs(expected).max() < most


def test_a_pass_over_all_pixels_is_planned_with_its_memory_or_refused() -> None:
    program = built("every pixel").program()
    small, large = (make_plan(PlannedRun(program, side, 100, CPU)).memory for side in (100, 4000))
    assert large - small > 3900 * 100 * 4 * schedule(program).values

    with pytest.raises(OutOfMemory, match=r"Expected .* of free memory"):
        make_plan(PlannedRun(program, 20_000, 20_000, CPU), memory=10**8)


def is_gated(state: Mapping[str, Tensor]) -> bool:
    return "squeeze.weight" in state


def build_gated(state: Mapping[str, Tensor]) -> Gated:
    network = Gated(len(state["last.weight"]), len(state["first.weight"]))
    network.load_state_dict(state)
    return network.eval().requires_grad_(False)


CONVENTIONS = {"is_linear": True, "normalisation": "none", "quantity": "reflectance"}
GATED = Kind("Gated CNN", is_gated, build_gated, CONVENTIONS, "a gated CNN")


def test_a_registered_network_goes_from_its_file_to_a_cube(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file and one row are enough for the loader, the pipeline and the command line."""
    monkeypatch.setattr("napari_mst.models.checkpoint.NETWORKS", {"gated": GATED, **NETWORKS})
    torch.manual_seed(0)
    save_file(Gated(31, 8).state_dict(), tmp_path / "new.safetensors")
    model = load_model(tmp_path / "new.safetensors")
    assert model.card.title.startswith(GATED.title)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)
    own = Reconstructor(model, "cpu")
    cube = own.reconstruct(pixels)
    assert cube.shape == (31, 40, 56)
    assert own.reconstruct(pixels, region=(8, 24, 16, 40)).shape == (31, 16, 24)
    assert own.preview(pixels).shape == cube.shape
    assert "of memory" in str(own.plan(40, 56))
    with pytest.raises(Cancelled):
        own.reconstruct(pixels, progress=Progress(is_cancelled=lambda: True))
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    arguments = [
        "reconstruct",
        tmp_path / "photo.png",
        "-o",
        tmp_path / "cube.npz",
        "--device",
        "cpu",
    ]
    assert main([*map(str, arguments), "--model", str(tmp_path / "new.safetensors")]) == 0
    assert_array_equal(read_cube(tmp_path / "cube.npz").data, cube.data)


def test_a_module_that_says_no_passes_is_refused_in_one_sentence() -> None:
    card = ModelCard("plain", "Plain", (), True, "none", "reflectance")
    with pytest.raises(
        ModelError,
        match=r"Expected a network that says its passes .*, got Conv2d\. Make .*Model\.of",
    ):
        Model(card, cast("Network", nn.Conv2d(3, 31, 3)), "0" * 64)


class Doubled(FeedForward):
    """Adds twice as much as it should."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


@pytest.mark.usefixtures("executor")
@pytest.mark.parametrize("precision", ["", "bfloat16"])
def test_a_block_with_a_part_of_another_kind_is_run_as_it_is_written(precision: str) -> None:
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1, out_bands=6).eval().requires_grad_(False)
    photo = photo_of(24, 40)
    plain = whole(network, photo)
    for block in attention_blocks(network).values():
        block.spec.parts.feed_forward.__class__ = Doubled
    streamed = execute(network.program(), source_of(photo), CPU, Plan(precision=precision)).numbers
    expected = whole(network, photo)
    tolerance = (0.03 if precision else 1e-6) * np.abs(expected).max()
    assert_allclose(streamed, expected, rtol=0, atol=tolerance)
    assert np.abs(plain - expected).max() > tolerance
