"""Two trials of a better default for noisy photos and JPEG, of which none was bundled.

    python -m lab.fit_guided guided|tuned FOUR TWELVE OUT

*guided* shows a network the photo, its non-local means, and the noise and the loss by JPEG as
planes. It begins as `mstpp-srgb` behind non-local means, to the last bit: the weights of the new
inputs are 0, as are those of the shifted windows beside the spectral attention of its bottleneck.
*tuned* goes on with `mstpp-srgb` itself, on photos that are denoised as a reconstruction does. Both
are judged on the scenes of the folder FOUR every 1,000 steps, and at the end on those of TWELVE;
OUT is the checkpoint. `training_log.md` says what came of them. Letters: N photos, B bands, H rows,
W columns.
"""

import copy
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from lab.simulated import USUAL, Curriculum, SceneSimulator, Simulated
from napari_mst.base.arrays import Codes, Floats, Singles
from napari_mst.base.progress import NO_PROGRESS
from napari_mst.cube.colour import linear_to_srgb, srgb_response, srgb_to_linear
from napari_mst.denoising.photo_denoising import BEST_H, Denoising, denoised_photo
from napari_mst.denoising.sensor_noise import SensorNoise, estimated_noise
from napari_mst.models import load_model
from napari_mst.networks.attention.blocks import LIKE_SPECTRAL, HybridBlock
from napari_mst.networks.attention.kinds import Block
from napari_mst.networks.attention.window_attention import ShiftedWindowAttention
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus, decoded
from napari_mst.networks.shared_modules import near
from napari_mst.photo.cameras import GRID
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.colour_fidelity.correction import correct_colours
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.training.fit import Fit, FitOptions, pixelwise_network
from napari_mst.training.inputs import INPUTS, jpeg
from napari_mst.training.scenes import read_scenes
from napari_mst.training.scoring import Method, means, score
from napari_mst.training.settings import FitSettings
from napari_mst.training.sources import Draw

_PLANES = 8  # the photo, its non-local means, its noise, and its loss by JPEG
_BOTTLENECK = 2
_WINDOW = 8
_LEAST_CODES = 1.6  # noise from which a photo is denoised, as a reconstruction does
_OFF = 0.05  # standard deviation of the logarithm of an estimated noise
_TENTH = 0.1  # of the noise in codes, so that the plane is about as large as light
_DIP = 0.93  # of the change between two others: a JPEG has 0.91 at most, others 0.97 at least
_SQUARE = 256  # pixels, a multiple of the blocks
_LEAST_TOLD = 0.8  # codes of noise that are told
_JUDGED = ("clean", "noise 1e-3", "noise 4e-3", "JPEG 75")
_REPORTED = 1000  # steps
_CURRICULUM = Curriculum(degraded=0.6)
DEFAULT = Reconstructor(load_model("mstpp-srgb"), "cpu")


class GuidedMSTPlusPlus(RefiningMSTPlusPlus):
    """MST++ that refines the pixelwise estimate of the denoised photo: (N, 8, H, W) -> spectra.

    A photo without noise and JPEG keeps the pixelwise estimate.
    """

    def __init__(self, pixelwise: PixelwiseNetwork) -> None:
        super().__init__(pixelwise)
        self.in_bands = _PLANES
        self.conv_in = near(_PLANES, self.out_bands, bias=False)

    def make_block(self, channels: int, heads: int) -> Block:
        """The bottleneck attends in windows as well, which add nothing at first."""
        if self._blocks_made != _BOTTLENECK:
            return super().make_block(channels, heads)
        self._blocks_made += 1
        shift = _WINDOW // 2
        windows = ShiftedWindowAttention(channels, heads, _WINDOW, shift, LIKE_SPECTRAL)
        block = HybridBlock(windows)
        positions = cast("Any", block.pos)
        last = [each for each in positions.modules() if isinstance(each, nn.Conv2d)][-1]
        for layer in (windows.proj, last):
            for parameter in layer.parameters():
                nn.init.zeros_(parameter)
        return block

    def first_spectra(self, photo: Tensor) -> Tensor:
        """The pixelwise estimate of the denoised photo, encoded."""
        return super().first_spectra(photo[:, 3:6])

    def forward(self, photo: Tensor) -> Tensor:
        """Refine where there is something to remove."""
        is_bad = (photo[:, 6:].amax((1, 2, 3)) > 0)[:, None, None, None]
        refined = super().forward(photo)
        return torch.where(is_bad, refined, decoded(self.first_spectra(photo)))

    def begin_as(self, default: Mapping[str, Tensor]) -> None:
        """Take the weights of the *default* model, for the denoised photo."""
        inside = "stages.0.bottleneck."
        state = {
            key.replace(f"{inside}attention.", f"{inside}spectral."): value
            for key, value in default.items()
        }
        state["conv_in.weight"] = torch.zeros(self.out_bands, _PLANES, 3, 3)
        state["conv_in.weight"][:, 3:6] = default["conv_in.weight"]
        missing, unexpected = self.load_state_dict(state, strict=False)
        new = ("attention.", "pos.", "norm.")
        if unexpected or not all(
            key.startswith(tuple(inside + part for part in new)) for key in missing
        ):
            raise ValueError(f"Expected the weights of mstpp-srgb, got {missing} {unexpected}.")


def photo_of(codes: Codes) -> Photo:
    """The sRGB photo of codes (3, H, W)."""
    return Photo.from_array(np.moveaxis(codes, 0, -1), encoding="srgb")


def guided(codes: Codes, noise: SensorNoise | None, quality: int | None) -> Singles:
    """(8, H, W) of a photo (3, H, W) in 8 bits; it is denoised where its *noise* is large."""
    clean = codes
    if noise is not None and noise.codes >= _LEAST_CODES:
        clean = denoised_photo(photo_of(codes), Denoising(noise, BEST_H)).pixels
    planes = np.zeros((2, *codes.shape[1:]), dtype=np.float32)
    planes[0] = 0 if noise is None else _TENTH * noise.codes
    planes[1] = 0 if quality is None else (100 - quality) / 50
    light = [srgb_to_linear(each / 255) for each in (codes, clean)]
    return np.concatenate([*light, planes]).astype(np.float32)


def quality_of(codes: Codes) -> int | None:
    """The quality with which a JPEG (3, H, W) was compressed: once more changes it least."""
    part = codes[:, :_SQUARE, :_SQUARE]

    def change(quality: int) -> float:
        again = [jpeg(part, quality=quality, subsampling=each) for each in (0, 2)]
        return min(float(np.abs(each.astype(np.int16) - part).mean()) for each in again)

    qualities = range(45, 100)
    changes = np.array([change(quality) for quality in qualities])
    dips = changes[1:-1] / (0.5 * (changes[:-2] + changes[2:])).clip(1e-6)
    best = int(dips.argmin())
    return qualities[best + 1] if dips[best] < _DIP else None


class GuidedSimulator(SceneSimulator):
    """Draws photos (N, 8, H, W) as the network sees them; JPEG from 50 to 95."""

    def photograph(self, scene: Tensor) -> Tensor:
        """Apparent reflectance -> photos, their non-local means, and planes of noise and JPEG."""
        degraded = self.curriculum.degraded
        linear = torch.einsum("nbhw,bc->nchw", scene, self.response)
        return torch.stack([self._photo(image, degraded) for image in linear])

    def _photo(self, linear: Tensor, degraded: float) -> Tensor:
        is_noisy, is_jpeg = self._chance(degraded), self._chance(degraded)
        gain = float(self._log_uniform(1, 2e-4, 5e-3)) * is_noisy
        floor = float(self._log_uniform(1, 1e-7, 1e-5)) * is_noisy
        noise = self._normal(*linear.shape) * (gain * linear.clamp_min(0) + floor).sqrt()
        light = (linear + noise).clamp(0, 1).numpy()
        codes = np.rint(linear_to_srgb(light) * 255).astype(np.uint8)
        if is_jpeg:
            subsampling = 2 if self._chance(0.75) else 0
            quality = self._integer(50, 95)
            codes = jpeg(codes, quality=quality, subsampling=subsampling)
        off = float((_OFF * self._normal(1)).exp()) ** 2
        estimated = SensorNoise(gain * off, floor * off)
        is_told = bool(is_noisy) and not is_jpeg and estimated.codes >= _LEAST_TOLD
        about = quality + self._integer(-2, 2) if is_jpeg else None
        return torch.from_numpy(guided(codes, estimated if is_told else None, about))


class TunedSimulator(SceneSimulator):
    """Draws photos as a reconstruction shows them to its network: the noisy ones are denoised."""

    def _kept(self, codes: Codes, noise: SensorNoise | None) -> Codes:
        if self._chance(self.curriculum.degraded):
            return self._jpeg(codes)
        if noise is None or noise.codes < _LEAST_CODES:
            return codes
        off = math.exp(2 * _OFF * float(self._normal(1)))
        estimated = SensorNoise(noise.gain * off, noise.floor * off)
        return denoised_photo(photo_of(codes), Denoising(estimated, BEST_H)).pixels


class TunedSource(Simulated):
    """Simulated scenes, photographed by a `TunedSimulator`."""

    def simulator(
        self, seed: int, held_out: bool = False, curriculum: Curriculum = USUAL
    ) -> SceneSimulator:
        """A simulator of this seed."""
        return TunedSimulator(seed, self._size, held_out, curriculum)


class GuidedSource(Simulated):
    """Simulated scenes, photographed by a `GuidedSimulator`; one curriculum throughout.

    So a falling rate trades nothing for anything.
    """

    def simulator(
        self, seed: int, held_out: bool = False, curriculum: Curriculum = _CURRICULUM
    ) -> SceneSimulator:
        """A simulator of this seed."""
        return GuidedSimulator(seed, self._size, held_out, curriculum)

    def draw(self, index: int, count: int, progress: float) -> Draw:  # noqa: ARG002
        """Photos and cubes to train on."""
        return self.simulator(self._seed * 10_000_000 + index).draw(count)


class GuidedSettings(FitSettings):
    """One curriculum throughout, and a rate that falls over the last quarter of the steps."""

    def learning_rate_at(self, step: int) -> float:
        """Warm-up, the peak, and a cosine down to 1 % of it."""
        left = min(4 * (1 - step / self.steps), 1)
        falling = 0.01 + 0.99 * (0.5 - 0.5 * math.cos(math.pi * left))
        return self.learning_rate * min((step + 1) / self.warm_up, 1) * falling

    def tolerance_at(self, step: int) -> float:  # noqa: ARG002
        """The error that counts as small, throughout."""
        return 0.02


class TunedSettings(FitSettings):
    """One curriculum throughout."""

    def progress_at(self, step: int) -> float:  # noqa: ARG002
        """The curriculum where it begins."""
        return self.curriculum_start


class GuidedFit(Fit):
    """A fit whose photos have more planes than colours."""

    def _loss(self, photos: Tensor, estimates: Tensor, cubes: Tensor, step: int) -> Tensor:
        return super()._loss(photos[:, :3], estimates, cubes, step)


class Judged:
    """A network as a method of the tables: each photo is shown to it once."""

    def __init__(self, network: nn.Module, show: Callable[[Codes], Singles]) -> None:
        self._network, self._show = network, show
        self._shown: dict[bytes, Tensor] = {}

    def __call__(self, codes: Codes) -> Floats:
        """Codes (3, H, W) -> reflectance (31, H, W), its colours corrected as always."""
        key = codes.tobytes()
        if key not in self._shown:
            self._shown[key] = torch.from_numpy(self._show(codes))[None]
        with torch.inference_mode():
            cube = self._network(self._shown[key])[0].numpy().copy()
        correct_colours(cube, photo_of(codes), srgb_response(GRID))
        return cube


def shown_guided(codes: Codes) -> Singles:
    """(8, H, W) of a photo (3, H, W), its noise and its quality estimated."""
    quality = quality_of(codes)
    noise = None if quality else estimated_noise(photo_of(codes), NO_PROGRESS)
    return guided(codes, noise if noise and noise.codes >= _LEAST_TOLD else None, quality)


def shown_tuned(codes: Codes) -> Singles:
    """(3, H, W) of a photo (3, H, W), as a reconstruction shows it to its network."""
    return DEFAULT.prepare(photo_of(codes)).job().part.rows(linear=True)


def line_of(methods: Mapping[str, Method], folder: Path) -> str:
    """MRAE / dE of the *methods* on the inputs that count, over the scenes of *folder*."""
    inputs = [each for each in INPUTS if each.name in _JUDGED]
    rows = means(score(methods, inputs, read_scenes(folder)))
    return "  ".join(
        f"{row.method} {row.input} {row.values['MRAE']:.4f}/{row.values['dE D65']:.3f}"
        for row in rows
    )


def guided_fit(out: Path) -> Fit:
    """A fit of the network that is shown noise and JPEG."""
    settings = GuidedSettings(steps=13_500, batch=2, learning_rate=5e-4, warm_up=100, seed=1)
    torch.manual_seed(settings.seed)
    network = GuidedMSTPlusPlus(pixelwise_network().requires_grad_(False))
    network.begin_as(DEFAULT.model.network.state_dict())
    network.requires_grad_(True).pixelwise.requires_grad_(False)
    source = GuidedSource(settings.seed, settings.size)
    return GuidedFit(settings, out, FitOptions(source), network)


def tuned_fit(out: Path) -> Fit:
    """A fit of `mstpp-srgb` itself to denoised photos."""
    settings = TunedSettings(
        steps=10_000, batch=2, learning_rate=5e-4, curriculum_start=0.8, seed=2027
    )
    network: Any = copy.deepcopy(DEFAULT.model.network)
    network.requires_grad_(True).pixelwise.requires_grad_(False)
    return Fit(settings, out, FitOptions(TunedSource(settings.seed, settings.size)), network)


def main(kind: str, four: Path, twelve: Path, out: Path) -> None:
    """Fit, judge and report."""
    make, show = {"guided": (guided_fit, shown_guided), "tuned": (tuned_fit, shown_tuned)}[kind]
    fit = make(out)
    judged = Judged(fit.average, show)
    started, losses = time.perf_counter(), []
    print(line_of({kind: judged}, four), flush=True)
    while fit.step < fit.settings.steps:
        losses.append(float(fit.take_step()))
        if fit.step % _REPORTED == 0 or fit.step == fit.settings.steps:
            spent = f"{time.perf_counter() - started:.0f} s, {time.process_time():.0f} s of a core"
            print(f"step {fit.step}  {spent}  loss {np.mean(losses):.4f}", flush=True)
            losses.clear()
            fit.save_checkpoint()
            print(line_of({kind: judged}, four), flush=True)
    pixelwise = Reconstructor(load_model("pixelwise-srgb"), "cpu", denoise="off")
    bars = {"mstpp-srgb": cube_by(DEFAULT), "pixelwise": cube_by(pixelwise)}
    print(line_of({**bars, kind: judged}, twelve), flush=True)


def cube_by(reconstructor: Reconstructor) -> Method:
    """A bundled model as a method of the tables."""
    return lambda codes: reconstructor.reconstruct(photo_of(codes)).data


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
