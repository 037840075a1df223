"""Fit the pixelwise network that MST++ refines.

It takes minutes on one core. The estimate minimises the relative error; the margins around it
minimise the pinball loss at 5 and 95 %. The fit is deterministic for a seed, a step count and a
number of threads.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.simulated import SceneSimulator
from napari_mst.networks.pixelwise import PixelwiseNetwork

# Reflectance below which an error counts as absolute.
_DARK = 0.01
# Share of the values below the lower margin, and of those above the upper one.
_TAIL = 0.05


@dataclass(frozen=True)
class PixelwiseSettings:
    """The settings that decide the outcome of a fit; *clip* is the largest norm of a gradient."""

    steps: int = 5000
    batch: int = 4096
    width: int = 64
    learning_rate: float = 3e-3
    warm_up: int = 100
    seed: int = 2026
    clip: float = math.inf

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine down to 1 % of the peak."""
        decay = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.learning_rate * min(1, (step + 1) / self.warm_up) * decay


def quantile_loss(quantiles: tuple[Tensor, Tensor, Tensor], reference: Tensor) -> Tensor:
    """The relative error of the estimate, plus the pinball losses of the two margins."""
    lower, estimate, upper = quantiles
    scale = reference + _DARK
    loss = ((estimate - reference).abs() / scale).mean()
    for quantile, tail in ((lower, _TAIL), (upper, 1 - _TAIL)):
        error = (reference - quantile) / scale
        loss = loss + torch.maximum(tail * error, (tail - 1) * error).mean()
    return loss


def fit_pixelwise(
    settings: PixelwiseSettings, report_every: int = 500, simulator: SceneSimulator | None = None
) -> PixelwiseNetwork:
    """The network after all steps; the loss is printed on the way.

    *simulator* draws the pixels, for a network of another camera than sRGB.
    """
    torch.manual_seed(settings.seed)
    network = PixelwiseNetwork(width=settings.width)
    simulator = simulator or SceneSimulator(settings.seed)

    def loss() -> Tensor:
        pixels, spectra = simulator.draw_pixels(settings.batch)
        return quantile_loss(_quantiles(network, pixels), spectra)

    descend(network, settings, loss, lambda: validate(network), report_every)
    return network


def descend(
    network: nn.Module,
    settings: PixelwiseSettings,
    draw_loss: Callable[[], Tensor],
    judge: Callable[[], float],
    report_every: int,
) -> None:
    """Take all steps, print the reports, and freeze the network.

    Parameters
    ----------
    draw_loss
        Gives the loss of a new batch each time.
    judge
        Gives the held-out loss, for a report.
    report_every
        Steps between reports.
    """
    optimizer = torch.optim.AdamW(network.parameters(), betas=(0.9, 0.99), weight_decay=1e-4)
    losses: list[float] = []
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate_at(step)
        loss = draw_loss()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), settings.clip)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % report_every == 0:
            loss_so_far = sum(losses) / len(losses)
            held_out = judge()
            print(f"step {step + 1}  loss {loss_so_far:.4f}  held-out {held_out:.4f}", flush=True)
            losses.clear()
    network.eval().requires_grad_(False)


@torch.no_grad()
def validate(network: PixelwiseNetwork) -> float:
    """Loss on spectra that training never sees."""
    pixels, spectra = SceneSimulator(0, held_out=True).draw_pixels(8192)
    return quantile_loss(_quantiles(network, pixels), spectra).item()


def _quantiles(network: PixelwiseNetwork, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lower, estimate and upper (N, 31) of pixels (N, 3)."""
    lower, estimate, upper = network.quantiles(pixels[:, :, None, None])
    return lower[:, :, 0, 0], estimate[:, :, 0, 0], upper[:, :, 0, 0]
