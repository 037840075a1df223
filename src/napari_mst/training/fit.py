"""Fits MST++ to photos and their cubes.

The network starts from a frozen pixelwise estimate and learns what the surroundings of a pixel add
to it. The fit is deterministic for a given seed, step count, and number of processes and threads;
an interrupted run continues from its last checkpoint to the same weights. Use several processes for
several GPUs, and also for several cores, since threads gain little with a network this small:
`torchrun --nproc-per-node 2 --no-python napari-mst train ...`. Letters: N photos, B bands, H rows,
W columns.
"""

import copy
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, distributed, nn

from napari_mst.base.errors import CheckpointError
from napari_mst.engine.device import DeviceChoice
from napari_mst.models import load_model
from napari_mst.models.cards import ModelCard
from napari_mst.models.seal import write_weights
from napari_mst.networks import Network
from napari_mst.networks.attention.kinds import check_geometry
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.layout import check_layout
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus, encoded
from napari_mst.reconstruction.ranks import join
from napari_mst.training.settings import FitSettings
from napari_mst.training.sources import DrawRequest, TrainingSource, drawn


def pixelwise_network() -> PixelwiseNetwork:
    """Load the bundled pixelwise network."""
    return cast("PixelwiseNetwork", load_model("pixelwise-srgb").network)


def start_network(
    settings: FitSettings, pixelwise: PixelwiseNetwork | CameraNetwork | None = None
) -> RefiningMSTPlusPlus:
    """Return a network that equals *pixelwise* to within a few thousandths, and keeps it frozen.

    By default, *pixelwise* is the bundled network. The seed determines the initial weights.
    """
    torch.manual_seed(settings.seed)
    frozen = copy.deepcopy(pixelwise or pixelwise_network()).requires_grad_(False)
    network = RefiningMSTPlusPlus(frozen, settings.stages, **settings.attention_parameters)
    with torch.no_grad():
        network.conv_in.weight.zero_()
        network.conv_out.weight.mul_(0.01)
    return network


class FitProgress(NamedTuple):
    """A report on a fit.

    *loss* is the mean over the steps since the last report, *seconds* the time per step, *photos*
    the number of photos per second over all processes, and *waiting* the share of time that this
    process waited for photos.
    """

    step: int
    loss: float
    held_out: float
    seconds: float
    photos: float = 0.0
    waiting: float = 0.0

    def __str__(self) -> str:
        """One line of progress."""
        losses = f"loss {self.loss:.4f}  held-out {self.held_out:.4f}"
        pace = f"{self.seconds:.3f} s/step  {self.photos:.1f} photos/s"
        return f"step {self.step}  {losses}  {pace}  {self.waiting:.0%} waiting for photos"


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit beside its settings.

    Attributes
    ----------
    source
        Photos and cubes to learn from.
    device
        Device to compute on.
    patience
        Number of reports without a better held-out loss after which the fit ends; 0 for never.
    report
        Called with every report.
    loader_workers
        Processes that draw the photos of later steps in advance; 0 draws them in the fit. They do
        not change results.
    """

    source: TrainingSource
    device: str = "cpu"
    patience: int = 0
    report: Callable[[FitProgress], None] = print
    loader_workers: int = 0


_NUMBERS = ("step", "best", "best_loss", "reports_since_best")
_MODULES = ("network", "average", "optimizer")
"""Attributes of a fit that are saved in its checkpoint."""


class Fit:
    """A fit: `Fit(settings, checkpoint, options).run()` returns the averaged network.

    By default, *network* is a new one around the bundled pixelwise network. If the checkpoint
    exists, the fit continues from there.
    """

    def __init__(
        self,
        settings: FitSettings,
        checkpoint: Path,
        options: FitOptions,
        network: Network | None = None,
    ) -> None:
        self.options = options
        self.settings = settings
        self.checkpoint = checkpoint
        self.device = torch.device(options.device)
        # A processor that only emulates bfloat16 takes eight times as long as in float32.
        is_fast = "bfloat16" in DeviceChoice(str(self.device), "").precisions
        self.is_half = settings.is_half and is_fast
        self.step = 0
        self.rank = 0
        self.processes = 1
        if distributed.is_initialized():
            self.rank = distributed.get_rank()
            self.processes = distributed.get_world_size()
        self.source = options.source
        self.best_loss = math.inf
        self.reports_since_best = 0
        self.best: dict[str, Tensor] = {}
        self.response = self.source.response.to(self.device)
        network = network or start_network(settings)
        self.network: Any = network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        parameters = self.network.parameters()
        self.trained = [parameter for parameter in parameters if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.trained, betas=(0.9, 0.99), weight_decay=settings.weight_decay, fused=True
        )
        if checkpoint.exists():
            self._resume()
        requests = [self._request(step) for step in range(self.step, settings.steps)]
        self._draws = drawn(self.source, requests, options.loader_workers)
        self._waited = 0.0

    def run(self, report_every: int = 1000) -> Any:
        """Take the remaining steps; report and save a checkpoint every *report_every* steps.

        Returns the averaged network. With patience, the fit stops early and returns the best
        network.
        """
        patience = self.options.patience or math.inf
        losses: list[Tensor] = []
        started = time.perf_counter()
        while self.step < self.settings.steps and self.reports_since_best < patience:
            losses.append(self.take_step())
            if self.step % report_every == 0 or self.step == self.settings.steps:
                self._report(losses, started)
                losses.clear()
                started, self._waited = time.perf_counter(), 0.0
        self._draws.close()  # ends the processes
        if self.best:
            self.average.load_state_dict(self.best)
        return self.average

    def _report(self, losses: list[Tensor], started: float) -> None:
        """Validate the averaged network after these steps; the first process reports."""
        loss = torch.stack(losses).mean().item()
        # Measured before the validation, which is not part of a step.
        seconds = time.perf_counter() - started
        held_out = self.validate()
        self.reports_since_best += 1
        if held_out < self.best_loss:
            self.best_loss = held_out
            self.reports_since_best = 0
            if self.options.patience:
                state = self.average.state_dict()
                self.best = {key: value.clone() for key, value in state.items()}
        if self.rank == 0:
            photos = len(losses) * self.settings.batch * self.processes / seconds
            waiting = self._waited / seconds
            progress = seconds / len(losses), photos, waiting
            self.options.report(FitProgress(self.step, loss, held_out, *progress))
            self.save_checkpoint()

    def _request(self, step: int) -> DrawRequest:
        """Return the request for the photos of a *step*."""
        # Every process draws different scenes in every step. Index 0 is never drawn.
        index = 1 + step * self.processes + self.rank
        return index, self.settings.batch, self.settings.progress_at(step)

    def validate(self) -> float:
        """Return the loss of the averaged network on scenes that training never sees."""
        photos, cubes = self.source.held_out()
        photos = photos.to(self.device)
        cubes = cubes.to(self.device)
        with torch.inference_mode():
            return self._loss(photos, self.average(photos), cubes, self.settings.steps).item()

    def take_step(self) -> Tensor:
        """Take one optimisation step; returns the loss."""
        settings = self.settings
        asked = time.perf_counter()
        photos, cubes = next(self._draws)
        self._waited += time.perf_counter() - asked
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate_at(self.step)
        photos = photos.to(self.device, memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_half):
            estimates = self.network(photos).float()
        loss = self._loss(photos, estimates, cubes.to(self.device), self.step)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.share_gradients()
        nn.utils.clip_grad_norm_(self.trained, 10.0)
        self.optimizer.step()
        self.step += 1
        self._update_average()
        return loss.detach()

    def _loss(self, photos: Tensor, estimates: Tensor, cubes: Tensor, step: int) -> Tensor:
        """Return the error against the pixelwise estimate for the photo without noise and JPEG.

        No network can recover most of the difference to the true cube, which would drown the
        information from the surroundings. So true cubes are the target only if the user provides
        cubes. The error is relative to the error from noise and JPEG: in the end, a clean photo
        counts as much as a bad one, and less at the beginning (`FitSettings.tolerance_at`).
        """
        colours = torch.einsum("nbhw,bc->nchw", cubes, self.response).clamp(0, 1)
        if not hasattr(self.network, "pixelwise"):
            # Encoding maps negative light to black, which has no gradient.
            negative = estimates.clamp_max(0).abs().mean()
            loss = reconstruction_loss(estimates, cubes, self.response, colours)
            return loss.mean() + negative
        with torch.no_grad():
            attainable = self.network.pixelwise(colours)
            degraded = distance(photos, colours)
        wanted = cubes if self.settings.learns_cubes else attainable
        loss = reconstruction_loss(estimates, wanted, self.response, colours)
        return (loss / (2 * degraded + self.settings.tolerance_at(step))).mean()

    @torch.no_grad()
    def _update_average(self) -> None:
        # Early on, the average decays faster, so that it forgets the initial weights.
        decay = min(self.settings.average_decay, self.step / (self.step + 10))
        averaged = list(self.average.parameters())
        current = list(self.network.parameters())
        torch._foreach_lerp_(averaged, current, 1 - decay)

    def share_gradients(self) -> None:
        """Average the gradients over all processes."""
        if self.processes == 1:
            return
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients]) / self.processes
        distributed.all_reduce(flat)
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, shared in zip(gradients, parts, strict=True):
            gradient.copy_(shared.view_as(gradient))

    def save_checkpoint(self) -> None:
        """Write the checkpoint from which the fit can continue."""
        state = {name: getattr(self, name) for name in _NUMBERS}
        state |= {name: getattr(self, name).state_dict() for name in _MODULES}
        # A run that is stopped while saving leaves the previous checkpoint.
        temporary = self.checkpoint.with_suffix(".tmp")
        torch.save(state, temporary)
        temporary.replace(self.checkpoint)

    def _resume(self) -> None:
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        self._check_same_network(state["network"])
        for name in _NUMBERS:
            setattr(self, name, state[name])
        for name in _MODULES:
            getattr(self, name).load_state_dict(state[name])

    def _check_same_network(self, state: Mapping[str, Tensor]) -> None:
        """Check that the weights *state* of the checkpoint fit the network.

        Raises
        ------
        CheckpointError
            If stages, widths, attention or windows differ.
        """
        name = self.checkpoint.name
        try:
            shapes = {key: tuple(value.shape) for key, value in self.network.state_dict().items()}
            check_layout(name, shapes, state)
            check_geometry(self.network, state)
        except CheckpointError as error:
            raise CheckpointError(
                f"Expected {name} to be of the same network (stages, attention), got another. "
                "Give it the same options, or choose another output."
            ) from error


def save(network: nn.Module, path: Path, card: ModelCard) -> None:
    """Write weights as float16, and the card, to a safetensors file."""
    halves = {key: value.cpu().half().contiguous() for key, value in network.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_weights(path, halves, card)


def join_processes(device: str) -> str:
    """Join the other processes if torchrun started this one; returns the device to use."""
    if "LOCAL_RANK" not in os.environ:
        return device
    join(device)
    return f"cuda:{os.environ['LOCAL_RANK']}" if device.startswith("cuda") else device


def reconstruction_loss(
    estimate: Tensor, reference: Tensor, response: Tensor, colours: Tensor
) -> Tensor:
    """Return the loss (N,) of each photo: mean |difference| of encoded spectra and of colours.

    Parameters
    ----------
    response
        (B, 3) matrix from spectra to linear RGB.
    colours
        (N, 3, H, W) colours of the *reference*, clipped like a photo.
    """
    seen = torch.einsum("nbhw,bc->nchw", estimate, response).clamp(0, 1)
    return distance(estimate, reference) + distance(seen, colours)


def distance(light: Tensor, expected: Tensor) -> Tensor:
    """Return the mean |difference| (N,) of two encoded images (N, channels, H, W)."""
    return (encoded(light) - encoded(expected)).abs().mean((1, 2, 3))
