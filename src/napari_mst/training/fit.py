"""Fit MST++ to simulated photos: `napari-mst retrain mstpp-srgb -o weights.safetensors`.

The network starts as the bundled pixelwise estimate, which stays as it is, and learns what the surroundings of a pixel
add to it. Deterministic for a seed, a step count and a number of processes and threads; a run that was stopped
continues from its last checkpoint to the same weights. Several GPUs, or several cores, which one small network uses
badly by threads: `torchrun --nproc-per-node 2 --no-python napari-mst retrain mstpp-srgb ...`.
"""

import copy
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, distributed, nn

from napari_mst.colour import SRGB_D65
from napari_mst.evaluation.tables import evaluate, model_method
from napari_mst.models import load_model
from napari_mst.models.cards import ModelCard
from napari_mst.models.seal import write_weights
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.mst_plus_plus import MSTPlusPlus
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining import RefiningMSTPlusPlus, encoded
from napari_mst.simulation.scenes import Lesson
from napari_mst.training.sources import Simulated, Source


@dataclass(frozen=True)
class FitSettings:
    """What decides the outcome of a fit; times in steps, sizes in pixels, *batch* scenes for each process.

    *taught* says how far through the lessons a fit begins: 0 to begin with noise, 1 for a network that knows them all.
    """

    steps: int = 26_000
    batch: int = 1
    size: int = 96
    stages: int = 1
    is_half: bool = True
    spectra_share: float = 0.0
    learning_rate: float = 1.5e-3
    weight_decay: float = 1e-4
    warm_up: int = 300
    average_decay: float = 0.999
    taught: float = 0.0
    seed: int = 2026

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine down to 1 % of the peak."""
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        progress = (step - self.warm_up) / max(self.steps - self.warm_up, 1)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))

    def lesson_at(self, step: int) -> Lesson:
        """First noise, in plain scenes; from half of the steps on, what looks like noise and is none."""
        progress = self._progress(step)
        return Lesson(degraded=0.6 - 0.25 * progress, grain=1e-7 * 1e3 ** min(2 * progress, 1))

    def tolerance_at(self, step: int) -> float:
        """Error that counts as small beside that of the photo: the smaller, the more a clean photo counts."""
        return 0.3 * (1 / 60) ** self._progress(step)

    def _progress(self, step: int) -> float:
        return self.taught + (1 - self.taught) * step / max(self.steps, 1)


def reconstruction_loss(
    estimate: Tensor, reference: Tensor, response: Tensor, colours: Tensor | None = None
) -> Tensor:
    """Mean |difference| of the encoded spectra, and of their encoded colours from *colours*, of each photo: (N,).

    *response* (B, 3) takes spectra to linear RGB. *colours* (N, 3, H, W) are clipped as a photo is; without them, those
    that the *reference* shows are meant.
    """
    seen = torch.einsum("nbhw,bc->nchw", estimate, response)
    if colours is None:
        colours = torch.einsum("nbhw,bc->nchw", reference, response)
    else:
        seen = seen.clamp(0, 1)
    return _distance(estimate, reference) + _distance(seen, colours)


def _distance(light: Tensor, expected: Tensor) -> Tensor:
    return (encoded(light) - encoded(expected)).abs().mean((1, 2, 3))


def pixelwise_network() -> PixelwiseNetwork:
    """The bundled pixelwise network."""
    return cast("PixelwiseNetwork", load_model("pixelwise-srgb").network)


def start_network(stages: int, pixelwise: PixelwiseNetwork | CameraNetwork) -> RefiningMSTPlusPlus:
    """A network that gives what *pixelwise* gives, but for a few thousandths, and keeps it as it is."""
    network = RefiningMSTPlusPlus(copy.deepcopy(pixelwise).requires_grad_(False), stages)
    with torch.no_grad():
        network.conv_in.weight.zero_()
        network.conv_out.weight.mul_(0.01)
    return network


class Progress(NamedTuple):
    """One report of a fit: steps taken, mean training loss since the last report, held-out loss, seconds a step."""

    step: int
    loss: float
    held_out: float
    seconds: float

    def __str__(self) -> str:
        """One line for a person."""
        return f"step {self.step}  loss {self.loss:.4f}  held-out {self.held_out:.4f}  {self.seconds:.3f} s/step"


class Fit:
    """One fit: `Fit(settings, checkpoint).run()` returns the averaged network; a checkpoint is continued."""

    def __init__(
        self,
        settings: FitSettings,
        checkpoint: Path,
        pixelwise: PixelwiseNetwork | None = None,
        device: torch.device | str = "cpu",
        *,
        source: Source | None = None,
        network: MSTPlusPlus | None = None,
        patience: int = 0,
        report: Callable[["Progress"], None] = print,
    ) -> None:
        self.settings = settings
        self.checkpoint = checkpoint
        self.device = torch.device(device)
        self.step = 0
        self.rank, self.processes = (
            (distributed.get_rank(), distributed.get_world_size())
            if distributed.is_initialized()
            else (0, 1)
        )
        torch.manual_seed(settings.seed)
        self.source = source or Simulated(settings.seed, settings.size)
        self.patience, self.report = patience, report
        self.best_loss, self._reports_since_best = math.inf, 0
        self._best: dict[str, Tensor] = {}
        network = network or start_network(settings.stages, pixelwise or pixelwise_network())
        self.response = self.source.response.to(self.device)
        self.network = network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.trained = [
            parameter for parameter in self.network.parameters() if parameter.requires_grad
        ]
        self.optimizer = torch.optim.AdamW(
            self.trained, betas=(0.9, 0.99), weight_decay=settings.weight_decay, fused=True
        )
        if checkpoint.exists():
            self._resume()

    def run(self, report_every: int = 1000) -> MSTPlusPlus:
        """Take the remaining steps, and every *report_every* of them report, judge and leave a checkpoint.

        Returns the averaged network: with *patience* the best one, and no more steps than it takes to be sure of it.
        """
        started, first, losses = time.perf_counter(), self.step, []
        while self.step < self.settings.steps and not self._is_out_of_patience():
            losses.append(self._take_step())
            if self.step % report_every == 0 or self.step == self.settings.steps:
                seconds = (time.perf_counter() - started) / (self.step - first)
                loss, losses = torch.stack(losses).mean().item(), []
                held_out = self.validate()
                self._remember(held_out)
                if self.rank == 0:
                    self.report(Progress(self.step, loss, held_out, seconds))
                    self._save_checkpoint()
        if self.patience and self._best:
            self.average.load_state_dict(self._best)
        return self.average

    def _is_out_of_patience(self) -> bool:
        return 0 < self.patience <= self._reports_since_best

    def _remember(self, held_out: float) -> None:
        self._reports_since_best += 1
        if held_out < self.best_loss:
            self.best_loss, self._reports_since_best = held_out, 0
            if self.patience:
                self._best = {
                    key: value.clone() for key, value in self.average.state_dict().items()
                }

    def validate(self) -> float:
        """Loss of the averaged network on scenes of spectra that training never sees."""
        photos, cubes = self.source.held_out()
        photos, cubes = photos.to(self.device), cubes.to(self.device)
        with torch.inference_mode():
            return self._loss(photos, self.average(photos), cubes, self.settings.steps).item()

    def _take_step(self) -> Tensor:
        settings = self.settings
        index = 1 + self.step * self.processes + self.rank
        photos, cubes = self.source.draw(index, settings.batch, settings.lesson_at(self.step))
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate_at(self.step)
        photos = photos.to(self.device, memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=settings.is_half):
            estimates = self.network(photos).float()
        loss = self._loss(photos, estimates, cubes.to(self.device), self.step)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._share_gradients()
        nn.utils.clip_grad_norm_(self.trained, 10.0)
        self.optimizer.step()
        self.step += 1
        self._update_average()
        return loss.detach()

    def _loss(self, photos: Tensor, estimates: Tensor, cubes: Tensor, step: int) -> Tensor:
        """Error against what the pixelwise network gives for the photo without noise and JPEG, as a share of theirs.

        The distance to the cube itself is for the most part what no network can know, and would drown what the
        surroundings tell; `spectra_share` of it is added. As a share, so that a clean photo counts as much as a bad one
        in the end, and less at the beginning (`FitSettings.tolerance_at`).
        """
        colours = torch.einsum("nbhw,bc->nchw", cubes, self.response).clamp(0, 1)
        if not hasattr(self.network, "pixelwise"):
            return reconstruction_loss(estimates, cubes, self.response, colours).mean()
        with torch.no_grad():
            attainable, degraded = self.network.pixelwise(colours), _distance(photos, colours)
        share = self.settings.spectra_share
        loss = (1 - share) * reconstruction_loss(estimates, attainable, self.response, colours)
        if share:
            loss = loss + share * reconstruction_loss(estimates, cubes, self.response, colours)
        return (loss / (2 * degraded + self.settings.tolerance_at(step))).mean()

    @torch.no_grad()
    def _update_average(self) -> None:
        decay = min(self.settings.average_decay, self.step / (self.step + 10))
        averaged, current = list(self.average.parameters()), list(self.network.parameters())
        torch._foreach_lerp_(averaged, current, 1 - decay)

    def _share_gradients(self) -> None:
        """Give every process the mean of all their gradients."""
        if self.processes > 1:
            gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
            flat = torch.cat([gradient.flatten() for gradient in gradients]) / self.processes
            distributed.all_reduce(flat)
            for gradient, shared in zip(
                gradients, flat.split([g.numel() for g in gradients]), strict=True
            ):
                gradient.copy_(shared.view_as(gradient))

    def _save_checkpoint(self) -> None:
        state = {
            "step": self.step,
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": self._best,
            "best_loss": self.best_loss,
            "reports_since_best": self._reports_since_best,
        }
        temporary = self.checkpoint.with_suffix(".tmp")
        torch.save(state, temporary)
        temporary.replace(self.checkpoint)

    def _resume(self) -> None:
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        self.step = state["step"]
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._best = state.get("best", {})
        self.best_loss = state.get("best_loss", math.inf)
        self._reports_since_best = state.get("reports_since_best", 0)


CARD = ModelCard(
    name="mstpp-srgb",
    title="MST++ for sRGB photos: reflectance under D65",
    wavelengths=tuple(float(nm) for nm in range(400, 701, 10)),
    is_linear=True,
    normalisation="none",
    quantity="reflectance",
    rendering=SRGB_D65,
    domain=(
        "Ordinary 8-bit sRGB photos of reflecting surfaces in daylight (D65), well exposed, clean to moderately noisy. "
        "Not for emitters, other lights, strong tone curves, or raw camera values."
    ),
    training_data=(
        "Simulated scenes of 1,935 measured reflectances (CIE CES, ISET, rawtoaces, earthlib, USGS splib06; permissive "
        "licences, see data/README.md), seen by the CIE 1931 observer. No image of a real scene."
    ),
    licence="MIT",
    reference="Network: Cai et al., CVPRW 2022, doi:10.1109/CVPRW56347.2022.00090. Weights: napari_mst.training.fit",
)
"""What the bundled default model is, but for its accuracy, which is measured."""


def save(network: nn.Module, path: Path, card: ModelCard) -> None:
    """Write the weights as float16 and the card to one safetensors file."""
    halves = {key: value.cpu().half().contiguous() for key, value in network.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_weights(path, halves, card)


def save_measured(network: nn.Module, path: Path, card: ModelCard, scenes: Path | None) -> None:
    """`save`, with the accuracy on the real *scenes*, if there are any, in the card."""
    save(network, path, card)
    if scenes is not None:
        measured = evaluate(model_method(str(path)), scenes)
        accuracy = {
            f"scenes of {scenes.name}": {name: round(value, 4) for name, value in measured.items()}
        }
        save(network, path, replace(card, accuracy=accuracy))


def join_processes(device: str) -> str:
    """Join the other processes if torchrun started this one; returns the device of this one."""
    if "LOCAL_RANK" not in os.environ:
        return device
    distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return f"cuda:{os.environ['LOCAL_RANK']}" if device.startswith("cuda") else device


def _card(settings: FitSettings, processes: int) -> ModelCard:
    options = f"--steps {settings.steps} --stages {settings.stages} --seed {settings.seed}"
    launch = f"torchrun --nproc-per-node {processes} --no-python " if processes > 1 else ""
    command = f"{launch}napari-mst retrain mstpp-srgb {options}"
    return replace(CARD, reference=f"{CARD.reference}; made by `{command}`, one thread each")


def fit_to_file(
    settings: FitSettings,
    output: Path,
    device: str = "cpu",
    checkpoint: Path | None = None,
    scenes: Path | None = None,
) -> None:
    """Fit the network, and write it as float16 with its card; of several processes the first writes.

    The fit goes on from *checkpoint*, which lies beside *output* unless it is given. *scenes* is a
    folder of real scenes; the accuracy on them goes into the card.
    """
    device = join_processes(device)
    checkpoint = checkpoint or output.with_suffix(".checkpoint")
    fit = Fit(settings, checkpoint, pixelwise_network(), device)
    network = fit.run()
    if fit.rank == 0:
        save_measured(network, output, _card(settings, fit.processes), scenes)
