"""A small network with a card, a photo for it, and a lack of memory: the tests share them."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch

from napari_mst.base.arrays import Codes, Floats, Singles
from napari_mst.engine.features import Slab
from napari_mst.models import Model, ModelCard
from napari_mst.networks.mst_plus_plus import MSTPlusPlus

Normalisation = Literal["none", "min-max"]
Pixels = Floats | Codes

PHOTO = np.random.default_rng(0).integers(0, 256, (20, 13, 3), dtype=np.uint8)


def small_model(
    is_linear: bool = True, normalisation: Normalisation = "none", in_bands: int = 3
) -> Model:
    """A small network with a card."""
    torch.manual_seed(0)
    network = MSTPlusPlus(stages=1, in_bands=in_bands).eval().requires_grad_(False)
    card = ModelCard(
        name="test",
        title="Test",
        wavelengths=tuple(np.linspace(400, 700, network.hyperparameters.out_bands)),
        is_linear=is_linear,
        normalisation=normalisation,
        quantity="reflectance",
    )
    return Model(card, network, weights_sha256="0" * 64)


def network_output(chosen: Model, pixels: Pixels) -> Singles:
    """The output of the network itself for the numbers that it should have been given."""
    planes = torch.from_numpy(np.moveaxis(pixels, -1, 0).astype(np.float32))
    (output,) = chosen.network(planes[None])
    numbers: Singles = output.numpy()
    return numbers


def assert_close(actual: Floats, expected: Floats) -> None:
    np.testing.assert_allclose(actual, expected, atol=1e-5 * np.abs(expected).max())


def run_out_of_memory(monkeypatch: pytest.MonkeyPatch, times: int = 1) -> list[MemoryError]:
    """Let the next *times* runs be out of memory; returns those of them that have not been yet."""
    make: Callable[..., object] = Slab
    failures = [MemoryError() for _ in range(times)]

    def make_or_fail(*arguments: object, **options: object) -> object:
        if failures:
            raise failures.pop()
        return make(*arguments, **options)

    monkeypatch.setattr("napari_mst.engine.run.Slab", make_or_fail)
    return failures
