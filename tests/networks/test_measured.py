"""A torch module of somebody's notebook runs in the engine as it runs by itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst import Model, NapariMstError, Reconstructor, load_model
from napari_mst.attention.recorder import record_attention
from napari_mst.base.errors import ModelError
from napari_mst.engine.run import Execution
from napari_mst.models import MODELS
from napari_mst.networks.measured import MeasuredNetwork
from napari_mst.networks.mst_plus_plus import MSTPlusPlus

BANDS = range(400, 450, 10)


def convolution(before: int, after: int, side: int = 3) -> nn.Conv2d:
    return nn.Conv2d(before, after, side, padding=side // 2)


class UNet(nn.Module):
    """A U-shape that halves its map *levels* times."""

    def __init__(self, levels: int = 1, before: int = 3, after: int = 5) -> None:
        super().__init__()
        self.first, self.last = convolution(before, 8), convolution(16, after)
        self.down, self.up = nn.Conv2d(8, 8, 2, 2), nn.ConvTranspose2d(8, 8, 2, 2)
        self.inner = UNet(levels - 1, 8, 8) if levels > 1 else convolution(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.relu(self.first(x))
        return self.last(torch.cat([skip, self.up(self.inner(self.down(skip)))], 1))


class PadsItself(UNet):
    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        padded = F.pad(x, (0, -width % 4, 0, -height % 4), mode="reflect")
        return super().forward(padded)[..., :height, :width]


class Squeezed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = convolution(3, 8), convolution(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = self.first(x)
        return self.last(features * features.mean((2, 3), keepdim=True).sigmoid())


class Causal(nn.Module):
    """Each pixel looks three columns back, and not ahead; NaN does not get through."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 5, (1, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.first(F.pad(x.nan_to_num(), (3, 0, 0, 0)))


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, [0, 1, 2, 0, 1]] + torch.rand_like(x[:, :1])


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int | None]]] = {
    "pixelwise": (lambda: nn.Conv2d(3, 5, 1), (1, 1, 0)),
    "convolutions": (
        lambda: nn.Sequential(convolution(3, 8), nn.ReLU(), convolution(8, 5, 5)),
        (1, 1, 3),
    ),
    "deep": (
        lambda: nn.Sequential(*(convolution(3, 3) for _ in range(70)), convolution(3, 5)),
        (1, 1, 71),
    ),
    "one level": (UNet, (2, 2, 4)),
    "two levels": (lambda: UNet(2), (4, 4, 10)),
    "pads itself": (lambda: PadsItself(2), (1, 4, 10)),
    "causal": (Causal, (1, 1, 3)),
    "squeeze": (Squeezed, (1, 1, None)),
}


def built(name: str, **options: Any) -> tuple[nn.Module, Model]:
    torch.manual_seed(0)
    module = MODULES[name][0]().eval()
    return module, Model.of(module, BANDS, is_linear=False, **options)


@pytest.mark.parametrize("name", MODULES)
def test_multiple_and_reach_are_found(name: str) -> None:
    multiple, align, reach = MODULES[name][1]
    _, model = built(name)
    assert isinstance(model.network, MeasuredNetwork)
    own = model.network.geometry
    assert (own.multiple, own.align) == (multiple, align)
    if reach is None or own.reach is None:
        assert own.reach is reach
    else:  # some processors compute convolutions in blocks, which a change reaches as a whole
        assert reach <= own.reach <= reach + 8


@pytest.mark.parametrize("side", [16, 40])
@pytest.mark.parametrize("name", MODULES)
def test_tiles_of_any_size_give_what_the_module_gives(
    name: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, model = built(name)
    monkeypatch.setattr(Execution, "tile", lambda *_: (side, side))
    photo = np.random.default_rng(0).random((61, 83, 3), np.float32)
    multiple = MODULES[name][1][0]
    padded = np.pad(photo, ((0, -61 % multiple), (0, -83 % multiple), (0, 0)), "reflect")
    with torch.inference_mode():
        expected = module(torch.from_numpy(padded).movedim(2, 0)[None])[0, :, :61, :83].numpy()
    runner = Reconstructor(model, "cpu", denoise="off")
    found = runner.reconstruct(photo).data
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    assert runner.preview(photo).shape == (5, 61, 83)
    assert runner.reconstruct(photo, region=(3, 20, 5, 50)).shape == (5, 17, 45)


def test_a_network_that_says_its_passes_keeps_them_and_its_attention() -> None:
    network = MSTPlusPlus(out_bands=5, stages=1)
    model = Model.of(network, BANDS, is_linear=True)
    assert (type(model.network), model.assumptions) == (MSTPlusPlus, ())
    with record_attention(model) as record:
        Reconstructor(model, "cpu").reconstruct(np.zeros((16, 16, 3), np.uint8))
    assert record


@pytest.mark.usefixtures("models_as_before")
def test_a_model_with_a_name_is_listed_and_loaded_by_it() -> None:
    before = list(MODELS)
    model = Model.of(nn.Conv2d(3, 5, 1), BANDS, name="of my own")
    assert list(MODELS) == [*before, "of my own"]
    assert load_model("of my own") is model
    assert load_model("of my own", is_linear=False).card.is_linear is False
    again = Model.of(nn.Conv2d(3, 5, 1), BANDS, name="of my own")
    assert load_model("of my own") is again
    with pytest.raises(ModelError, match="a name of its own, got mst-plus-plus"):
        Model.of(nn.Conv2d(3, 5, 1), BANDS, name="mst-plus-plus")


def test_the_model_has_a_copy_and_says_what_it_assumed() -> None:
    module = nn.Conv2d(3, 5, 1).double().train()
    model = Model.of(module, BANDS, title="Mine", quantity="relative radiance")
    assert module.training
    assert module.weight.dtype == torch.float64
    assert (model.card.name, model.card.title, model.card.quantity) == (
        "Conv2d",
        "Mine",
        "relative radiance",
    )
    assert "linear light is taken" in model.assumptions[0]
    assert model.weights_sha256 != Model.of(nn.Conv2d(3, 5, 1), BANDS).weights_sha256


def test_a_reach_that_is_known_is_taken() -> None:
    assert built("convolutions", reach=None)[1].network.program().is_global
    assert built("convolutions", reach=9)[1].network.program().passes[0].halo == 9


@pytest.mark.parametrize(
    ("module", "options", "fault"),
    [
        (convolution(3, 5), {"reach": 0}, r"looks 0 pixels far, got tiles that are 0\.\d+ of"),
        (convolution(3, 5), {"reach": -1}, "Expected a reach of 0 or more whole pixels, .*got -1"),
        (convolution(3, 5), {"reach": 2.5}, r"Expected a reach .*got 2\.5"),
        (Random(), {}, "draws random numbers"),
        (convolution(3, 4), {}, "Expected 4 wavelengths, one for each band of the module, got 5"),
        (convolution(4, 5), {}, r"\(1, 3, H, W\) to \(1, B, H, W\).*got: Given groups"),
        (nn.Conv2d(3, 5, 3), {}, r"got: \(1, 5, 31, 32\) of \(1, 3, 33, 34\)"),
        (nn.Flatten(), {}, "got: Tensor"),
        (convolution(3, 5), {"normalisation": "mean"}, "unusable normalisation"),
        (convolution(3, 5), {"mood": "sunny"}, "fields of a model card.*mood"),
    ],
    ids=str,
)
def test_what_cannot_be_a_model_is_refused(
    module: nn.Module, options: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ModelError, match=fault) as refusal:
        Model.of(module, BANDS, **options)
    assert len(str(refusal.value)) < 300
    assert isinstance(refusal.value, NapariMstError)
