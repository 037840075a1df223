"""Fit the network for cameras: `python -m lab retrain mstpp-camera -o mstpp-camera.safetensors`.

First comes the pixelwise network, which is given the camera; then, with it as it is, what the
surroundings of a pixel add, as in `fit`. Every photo is seen by another camera under another light.
Deterministic for a seed, step counts and a number of processes and threads; a run that was stopped
continues from its last checkpoint to the same weights.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from lab.camera_scenes import TRAINING_LIGHTS, CameraScenes, CameraSimulator
from lab.cards import CARD, accuracy, made_by
from lab.command_options import CommandOptions
from lab.fit_pixelwise import PixelwiseSettings, descend
from lab.training import calibrated
from napari_mst.models import load_model
from napari_mst.models.cards import ModelCard
from napari_mst.models.seal import write_weights
from napari_mst.networks.camera import CameraNetwork, build_camera
from napari_mst.photo.cameras import CAMERA_RGB, Acquisition, load_cameras
from napari_mst.training.fit import (
    Fit,
    FitOptions,
    FitProgress,
    distance,
    join_processes,
    save,
    start_network,
)
from napari_mst.training.inputs import (
    HELD_OUT_CAMERAS,
    camera_inputs,
    training_cameras,
)
from napari_mst.training.scoring import ON_CPU, ModelMethod
from napari_mst.training.settings import FitSettings

CAMERA_SETTINGS = FitSettings(steps=30_000, size=64)
"""The settings of `mstpp-camera`."""

COMPONENTS = 8
WIDTH = 96
PIXEL_STEPS = 4000
SAMPLE = 100_000
# Responses in a batch.
_CAMERAS = 64
# Held-out photos: several of every held-out camera.
JUDGED = 36
# Added to the pixelwise error in the first and the last step, as in `fit`.
_FIRST_SMALL = 0.3
_LAST_SMALL = 0.005
_JUDGED_LIGHTS = ("D65", "A", "D50")
_INNER = "pixelwise."
_NETWORK = CARD.reference.split(" Weights:")[0]
# Reflectance below which an error counts as absolute.
_DARK = 0.01


def common_factors(simulator: CameraSimulator) -> Tensor:
    """The strongest components (31, K) of the reflectances that *simulator* draws."""
    spectra = simulator.draw_spectra(SAMPLE).double()
    power, vectors = torch.linalg.eigh(spectra.T @ spectra / len(spectra))
    return (vectors * power.clamp_min(0).sqrt())[:, -COMPONENTS:].flip(1).float()


def start_camera_network(seed: int, width: int) -> CameraNetwork:
    """A network that gives nearly the linear estimates."""
    simulator = CameraSimulator(seed)
    torch.manual_seed(seed)
    network = CameraNetwork(common_factors(simulator), width)
    responses, _ = simulator.draw_responses(4096)
    network.set_usual(responses)
    with torch.no_grad():
        network.get_parameter("hidden.5.weight").mul_(0.05)
        network.of_camera.weight.mul_(0.1)
        network.of_camera.bias.zero_()
    return network


def fit_camera_network(settings: PixelwiseSettings, report_every: int = 500) -> CameraNetwork:
    """The pixelwise network after all steps; the loss is printed on the way."""
    network = start_camera_network(settings.seed, settings.width)
    simulator = CameraSimulator(settings.seed + 1)

    def loss() -> Tensor:
        responses, _ = simulator.draw_responses(_CAMERAS)
        return pixel_loss(network, simulator, responses, settings.batch // _CAMERAS)

    clipped = replace(settings, clip=1.0)
    descend(network, clipped, loss, lambda: validate(network), report_every)
    return network


def pixel_loss(
    network: CameraNetwork, simulator: CameraSimulator, responses: Tensor, count: int
) -> Tensor:
    """Mean relative error of *count* pixels seen with each of *responses* (N, 31, 3)."""
    photos, spectra = simulator.draw_pixels_of(responses, count)
    network.set_response(responses)
    return ((network(photos) - spectra).abs() / (spectra + _DARK)).mean()


@torch.no_grad()
def validate(network: CameraNetwork) -> float:
    """Loss on spectra and cameras that training never sees."""
    simulator = CameraSimulator(0, held_out=True)
    responses, _ = simulator.draw_responses(256)
    return pixel_loss(network, simulator, responses, 32).item()


class CameraFit(Fit):
    """A `Fit` whose photos are each seen by another camera.

    First all photos weigh about the same, so that noise is what there is to learn. In the end a
    photo counts by the share of its error that is left, so that the clean ones are left alone.
    """

    def __init__(
        self,
        settings: FitSettings,
        checkpoint: Path,
        pixelwise: CameraNetwork,
        device: str = "cpu",
        report: Callable[[FitProgress], None] = print,
    ) -> None:
        self._scenes = CameraScenes(settings.seed, settings.size, self._set_response)
        network = start_network(settings, pixelwise)
        # A draw also gives the networks the camera, so no other process may draw.
        options = FitOptions(self._scenes, device, report=report)
        super().__init__(settings, checkpoint, options, network)

    def _set_response(self, response: Tensor) -> None:
        """Give both networks the camera of the photos that come next."""
        self.response = response.to(self.device)
        for network in (self.network, self.average):
            network.pixelwise.set_response(response)

    def _loss(self, photos: Tensor, estimates: Tensor, cubes: Tensor, step: int) -> Tensor:
        """The error against what the pixelwise network makes of the photo without noise."""
        small = _FIRST_SMALL * (_LAST_SMALL / _FIRST_SMALL) ** (step / self.settings.steps)
        return self._share_left(photos, estimates, cubes, small)

    def _share_left(self, photos: Tensor, estimates: Tensor, cubes: Tensor, small: float) -> Tensor:
        """The share of the pixelwise error that *estimates* leave; *small* keeps it finite."""
        with torch.no_grad():
            clean = torch.einsum("nbhw,bc->nchw", cubes, self.response).clamp(0, 1)
            first = self.network.pixelwise(photos)
            attainable = self.network.pixelwise(clean)
            scale = self._distance(first, attainable) + small
        return (self._distance(estimates, attainable) / scale).mean()

    def _distance(self, estimates: Tensor, spectra: Tensor) -> Tensor:
        """The distance (N,) of spectra, and of their colours, which are not clipped."""
        seen, colours = (
            torch.einsum("nbhw,bc->nchw", each, self.response) for each in (estimates, spectra)
        )
        return distance(estimates, spectra) + distance(seen, colours)

    @torch.no_grad()
    def validate(self) -> float:
        """The share of the pixelwise error that is left, on spectra and cameras held out."""
        losses = []
        for index in range(JUDGED):
            photos, cubes = self._scenes.held_out(index)
            photos = photos.to(self.device)
            cubes = cubes.to(self.device)
            losses.append(self._share_left(photos, self.average(photos), cubes, _LAST_SMALL))
        return torch.stack(losses).mean().item()


def pixelwise_of(checkpoint: Path) -> CameraNetwork | None:
    """The pixelwise network in the *checkpoint* of a `CameraFit`; None if there is none."""
    if not checkpoint.exists():
        return None
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)["network"]
    inner = {
        key.removeprefix(_INNER): value for key, value in state.items() if key.startswith(_INNER)
    }
    return build_camera(inner)


def camera_card(settings: FitSettings, processes: int, name: str) -> ModelCard:
    """The card of the model; its accuracy and its prediction interval are measured later."""
    cameras = load_cameras()
    said = (
        f"--steps {settings.steps} --stages {settings.stages} --size {settings.size} "
        f"--seed {settings.seed}"
    )
    return replace(
        CARD,
        name=name,
        title="MST++ for linear RGB of a camera: reflectance",
        rendering=CAMERA_RGB,
        domain=(
            "Linear RGB of a camera that is named, or whose sensitivities are given, without "
            "colour matrix and tone curve, of reflecting surfaces under one light that is named "
            "as well: "
            f"{', '.join(TRAINING_LIGHTS)}, or a mixture of them. "
            "Not for sRGB photos, LEDs and narrow lines, or different lights in one photo."
        ),
        training_data=(
            "Simulated scenes of 1,935 measured reflectances (CIE CES, ISET, rawtoaces, earthlib, "
            f"USGS splib06), seen by {len(training_cameras())} of {len(cameras)} measured cameras "
            f"(rawtoaces-data, Apache-2.0) under {len(TRAINING_LIGHTS)} illuminants (CIE; ISET, "
            "MIT) and mixtures of them. No image of a real scene. "
            f"Never trained with: {', '.join(HELD_OUT_CAMERAS)}."
        ),
        reference=(f"{_NETWORK} Weights: lab.fit_camera{made_by('mstpp-camera', said, processes)}"),
    )


def fit_camera_to_file(settings: FitSettings, options: CommandOptions) -> None:
    """Fit `mstpp-camera`, and write it with its band; of several processes the first writes."""
    device = join_processes(options.device)
    output: Path = options.output
    checkpoint = output.with_suffix(".checkpoint")
    pixelwise = pixelwise_of(checkpoint)
    if pixelwise is None:
        pixel_settings = PixelwiseSettings(steps=PIXEL_STEPS, width=WIDTH, seed=settings.seed)
        pixelwise = fit_camera_network(pixel_settings)
    fit = CameraFit(settings, checkpoint, pixelwise, device)
    best = fit.run(options.report_every)
    if fit.rank == 0:
        save(best, output, camera_card(settings, fit.processes, output.stem))
        calibrated(output)
        if options.scenes:
            measure(output, options.scenes)


def judged_acquisitions() -> list[Acquisition]:
    """The cameras that training never saw, each under one of three lights."""
    lights = itertools.cycle(_JUDGED_LIGHTS)
    return [Acquisition(name, light) for name, light in zip(HELD_OUT_CAMERAS, lights, strict=False)]


def measure(path: Path, folder: Path) -> ModelCard:
    """Write the accuracy on the real scenes in *folder* into the card of the model at *path*.

    The scenes are seen clean and noisy, by cameras that training never saw.
    """
    measured = {}
    for kind in ("clean", "noise 1e-3"):
        by_camera = []
        for acquisition in judged_acquisitions():
            photos = next(each for each in camera_inputs(acquisition) if each.name == kind)
            by_camera.append(
                accuracy(
                    ModelMethod(str(path), replace(ON_CPU, acquisition=acquisition)), folder, photos
                )
            )
        means = {}
        for label in by_camera[0]:
            means[label] = round(sum(each[label] for each in by_camera) / len(by_camera), 4)
        cameras = f"{len(by_camera)} cameras not trained with"
        measured[f"scenes of {folder.name}, {cameras}, {kind}"] = means
    card = replace(load_model(path).card, accuracy=measured)
    write_weights(path, load_file(path), card)
    return card
