"""The fit of the pixelwise network learns, and is deterministic."""

import pytest
import torch

from lab.fit_pixelwise import PixelwiseSettings, fit_pixelwise, quantile_loss
from lab.fit_pixelwise import validate as validate_pixelwise

SMALL_PIXELWISE = PixelwiseSettings(steps=30, batch=256, width=16, warm_up=5)


def test_pixelwise_fit_learns_and_is_deterministic(capsys: pytest.CaptureFixture[str]) -> None:
    first, again = (
        fit_pixelwise(SMALL_PIXELWISE, report_every=10),
        fit_pixelwise(SMALL_PIXELWISE, report_every=10),
    )
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True)
    )
    losses = [float(line.split("held-out")[1]) for line in capsys.readouterr().out.splitlines()[:3]]
    assert losses == sorted(losses, reverse=True)
    assert validate_pixelwise(first) < losses[0]


def test_pinball_loss_is_least_at_the_quantile() -> None:
    reference = torch.linspace(0.5, 0.6, 1001)
    scale = torch.full_like(reference, 0.55)
    losses = {
        level: quantile_loss((scale * 0 + level, scale, scale), reference).item()
        for level in (0.5, 0.505, 0.51)
    }
    assert min(losses, key=losses.__getitem__) == 0.505
