"""A network that is shown a photo, its non-local means and its noise: a trial, by the clock.

    python -m lab.fit_guided FOLDER OUT MINUTES

It begins as `mstpp-srgb` behind non-local means, to the last bit: the weights of the new inputs are
0, as are those of the shifted windows beside the spectral attention of its bottleneck. It is fitted
for MINUTES, the last quarter of them with a falling rate, and judged on the scenes of FOLDER every
some hundred steps; OUT is its checkpoint. `training_log.md` says what came of it. Letters: N
photos, B bands, H rows, W columns.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from lab.simulated import Curriculum, SceneSimulator, Simulated
from napari_mst.arrays import Codes, Floats, Singles
from napari_mst.cube.colour import linear_to_srgb, srgb_response, srgb_to_linear
from napari_mst.denoising.noise import SensorNoise
from napari_mst.denoising.photos import BEST_H, Denoising, denoised_photo
from napari_mst.models import load_model
from napari_mst.networks.attention.blocks import LIKE_SPECTRAL, HybridBlock
from napari_mst.networks.attention.kinds import Block
from napari_mst.networks.attention.windows import ShiftedWindowAttention
from napari_mst.networks.parts import near
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining import RefiningMSTPlusPlus
from napari_mst.photo.cameras import GRID
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.consistency.correction import correct_colours
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.training.fit import Fit, FitOptions, pixelwise_network
from napari_mst.training.inputs import INPUTS, jpeg
from napari_mst.training.scenes import read_scenes
from napari_mst.training.settings import FitSettings
from napari_mst.training.sources import Draw
from napari_mst.training.tables import Method, means, score
from napari_mst.watch import UNWATCHED

_PLANES = 7  # the photo, its non-local means, and its noise
_BOTTLENECK = 2
_WINDOW = 8
_LEAST_CODES = 1.6  # noise from which a photo is denoised, as a reconstruction does
_OFF = 0.05  # standard deviation of the logarithm of an estimated noise
_TENTH = 0.1  # of the noise in codes, so that the plane is about as large as light
_JUDGED = ("clean", "noise 1e-3", "noise 4e-3", "JPEG 75")
_REPORTED = 200  # steps
_LESSON = Curriculum(degraded=0.5)


class GuidedMSTPlusPlus(RefiningMSTPlusPlus):
    """MST++ that refines the pixelwise estimate of the denoised photo: (N, 7, H, W) -> spectra."""

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


def guided(codes: Codes, how: Denoising | None) -> Singles:
    """(7, H, W) of a photo (3, H, W) in 8 bits, denoised as *how* says, or not at all."""
    clean = codes
    if how is not None:
        photo = Photo.from_array(np.moveaxis(codes, 0, -1), encoding="srgb")
        clean = denoised_photo(photo, how).pixels
    noise = np.full_like(codes[:1], 0, dtype=np.float32)
    noise += 0 if how is None else _TENTH * how.noise.codes
    light = [srgb_to_linear(each / 255) for each in (codes, clean)]
    return np.concatenate([*light, noise]).astype(np.float32)


class GuidedSimulator(SceneSimulator):
    """Draws photos (N, 7, H, W) as the network sees them; JPEG from 50 to 95."""

    def photograph(self, scene: Tensor) -> Tensor:
        """Apparent reflectance -> photos, their non-local means, and their noise."""
        degraded = self.lesson.degraded
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
            codes = jpeg(codes, quality=self._integer(50, 95), subsampling=subsampling)
        off = float((_OFF * self._normal(1)).exp()) ** 2
        estimated = SensorNoise(gain * off, floor * off)
        is_denoised = not is_jpeg and estimated.codes >= _LEAST_CODES
        how = Denoising(estimated, BEST_H) if is_denoised else None
        return torch.from_numpy(guided(codes, how))


class GuidedSource(Simulated):
    """Simulated scenes, photographed by a `GuidedSimulator`; one lesson throughout.

    So a falling rate trades nothing for anything.
    """

    def simulator(
        self, seed: int, held_out: bool = False, lesson: Curriculum = _LESSON
    ) -> SceneSimulator:
        """A simulator of this seed."""
        return GuidedSimulator(seed, self._size, held_out, lesson)

    def draw(self, index: int, count: int, progress: float) -> Draw:  # noqa: ARG002
        """Photos and cubes to train on."""
        return self.simulator(self._seed * 10_000_000 + index).draw(count)


@dataclass(frozen=True)
class TimedSettings(FitSettings):
    """Settings by the clock, in seconds: the rate falls over the last quarter of the time."""

    begin: float = 0.0
    end: float = 0.0

    def learning_rate_at(self, step: int) -> float:
        """Warm-up, the peak, and a cosine down to 1 % of it."""
        left = min(4 * (self.end - time.time()) / (self.end - self.begin), 1)
        falling = 0.01 + 0.99 * (0.5 - 0.5 * np.cos(np.pi * max(left, 0)))
        return float(self.learning_rate * min((step + 1) / self.warm_up, 1) * falling)

    def tolerance_at(self, step: int) -> float:  # noqa: ARG002
        """The error that counts as small, throughout."""
        return 0.02


class GuidedFit(Fit):
    """A fit whose photos have seven planes."""

    def _loss(self, photos: Tensor, estimates: Tensor, cubes: Tensor, step: int) -> Tensor:
        return super()._loss(photos[:, :3], estimates, cubes, step)


class Judged:
    """The network as a method of the tables; each photo is denoised once, as the default does."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._default = Reconstructor(load_model("mstpp-srgb"), "cpu")
        self._seen: dict[bytes, tuple[Photo, Tensor]] = {}

    @cached_property
    def default(self) -> Method:
        """The bundled default."""
        return lambda codes: self._default.reconstruct(np.moveaxis(codes, 0, -1)).data

    def __call__(self, codes: Codes) -> Floats:
        """Codes (3, H, W) -> reflectance (31, H, W), its colours corrected as always."""
        key = codes.tobytes()
        if key not in self._seen:
            photo = Photo.from_array(np.moveaxis(codes, 0, -1), encoding="srgb")
            how = self._default.see(photo)._decided(UNWATCHED).denoising
            self._seen[key] = photo, torch.from_numpy(guided(codes, how))[None]
        photo, planes = self._seen[key]
        with torch.inference_mode():
            cube = self._network(planes)[0].numpy().copy()
        correct_colours(cube, photo, srgb_response(GRID))
        return cube


def line_of(methods: Mapping[str, Method], folder: Path) -> str:
    """MRAE / dE of the *methods* on the inputs that count, over the scenes of *folder*."""
    inputs = [each for each in INPUTS if each.name in _JUDGED]
    rows = means(score(methods, inputs, read_scenes(folder)))
    return "  ".join(
        f"{row.method} {row.input} {row.values['MRAE']:.4f}/{row.values['dE D65']:.3f}"
        for row in rows
    )


def main(folder: Path, out: Path, minutes: float) -> None:
    """Fit, judge and report."""
    now = time.time()
    end = now + 60 * minutes
    settings = TimedSettings(
        steps=100_000, batch=2, learning_rate=5e-4, warm_up=100, begin=now, end=end
    )
    torch.manual_seed(settings.seed)
    network = GuidedMSTPlusPlus(pixelwise_network().requires_grad_(False))
    network.begin_as(load_model("mstpp-srgb").network.state_dict())
    network.requires_grad_(True).pixelwise.requires_grad_(False)
    options = FitOptions(source=GuidedSource(settings.seed, settings.size))
    fit = GuidedFit(settings, out, options, network)
    judged = Judged(fit.average)
    print(line_of({"default": judged.default, "guided": judged}, folder), flush=True)
    losses: list[float] = []
    while time.time() < end:
        losses.append(float(fit.take_step()))
        if len(losses) == _REPORTED or time.time() >= end:
            spent = f"{time.time() - now:.0f} s, {time.process_time():.0f} s of a core"
            print(f"step {fit.step}  {spent}  loss {np.mean(losses):.4f}", flush=True)
            losses.clear()
            fit.save_checkpoint()
            print(line_of({"guided": judged}, folder), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
