"""The fit of the pixelwise network: it learns, is deterministic, and its band holds its share."""

from typing import Any

import pytest
import torch

from napari_mst import load_model
from napari_mst.simulation.scenes import SceneSimulator
from napari_mst.training.fit_pixelwise import (
    PixelwiseSettings,
    fit_pixelwise,
    quantile_loss,
    validate,
)

SMALL = PixelwiseSettings(steps=30, batch=256, width=16, warm_up=5)


def test_fit_learns_and_is_deterministic(capsys: pytest.CaptureFixture[str]) -> None:
    first, again = fit_pixelwise(SMALL, report_every=10), fit_pixelwise(SMALL, report_every=10)
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True)
    )
    losses = [float(line.split("held-out")[1]) for line in capsys.readouterr().out.splitlines()[:3]]
    assert losses == sorted(losses, reverse=True)
    assert validate(first) < losses[0]


def test_pinball_loss_is_least_at_the_quantile() -> None:
    reference = torch.linspace(0.5, 0.6, 1001)
    scale = torch.full_like(reference, 0.55)
    losses = {
        level: quantile_loss((scale * 0 + level, scale, scale), reference).item()
        for level in (0.5, 0.505, 0.51)
    }
    assert min(losses, key=losses.__getitem__) == 0.505


def test_bundled_band_covers_nine_in_ten_spectra_that_it_never_saw() -> None:
    pixels, spectra = SceneSimulator(1, held_out=True).draw_pixels(4096)
    network: Any = load_model("pixelwise-srgb").network
    lower, _, upper = (values[:, :, 0, 0] for values in network.quantiles(pixels[:, :, None, None]))
    covered = ((lower <= spectra) & (spectra <= upper)).float().mean().item()
    assert 0.85 < covered < 0.95
