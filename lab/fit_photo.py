"""Fit `mstpp-photo`: the network that finds light, exposure and tone curve in the photo itself.

It has to learn what the statistics of a whole photo say. That takes many photos a step and few
pixels of each, so a step learns from *sets* of pixels (`lab.pixel_sets`): convolutions see their
centre only, going down takes the first of four neighbours, and going up gives all four the same.
The weights are those of the network itself, whose other taps stay zero, so on an image whose
neighbours are alike it is exactly this function.

Matrices learn by Muon (K. Jordan et al., 2024, github.com/KellerJordan/Muon, MIT): the momentum of
a gradient is made nearly orthogonal by five Newton-Schulz steps, so all directions of a matrix
learn equally fast. (It was not compared with AdamW on the same network.)
(`torch.optim.Muon` computes in bfloat16, which takes ten times as long on a processor without it.)
The fit is deterministic for a seed, a step count and a number of threads.

Letters: N photos, P pixels, C channels, B bands.
"""

import copy
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.cards import CARD, made_by, save_measured
from lab.command_options import CommandOptions
from lab.ordinary_photos import KINDS, Processing, draw_processing, photograph
from lab.pixel_sets import PixelSets
from napari_mst.cube.colour import srgb_to_linear
from napari_mst.networks.forms import BLACK
from napari_mst.networks.pixelwise import colour_features
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus, encoded
from napari_mst.training.fit import pixelwise_network

_DARK = 0.02  # reflectance below which an error counts as absolute
_DARKEST_CODE = 0.02  # below it an encoded spectrum is held, so that gradients do not die
# Standard deviations of the logarithms of red, green and blue.
_FIRST_TRIAL_BALANCE = (0.10, 0.03, 0.10)
_ANGLE = 0.5  # weight of the angle between spectra, in radians, beside the relative errors
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_STEPS_OF_NEWTON_SCHULZ = 5


@dataclass(frozen=True)
class PhotoSettings:
    """The settings that decide the outcome of a fit.

    Attributes
    ----------
    batch, pixels
        Photos for each step, and pixels of each.
    learning_rate, matrix_rate, sigma_rate
        Of biases, norms and the pixelwise estimate (AdamW), of matrices (Muon), and of sigma.
    sigma
        The sigma that every head begins with: 3 in place of 1 makes matrices less even.
    average_decay
        Of the averaged weights, which are what comes out.
    """

    steps: int = 3500
    batch: int = 64
    pixels: int = 192
    learning_rate: float = 1.5e-3
    matrix_rate: float = 0.02
    sigma_rate: float = 1.5e-2
    sigma: float = 3.0
    warm_up: int = 100
    average_decay: float = 0.998
    seed: int = 1

    def share_at(self, step: int) -> float:
        """The share of the learning rates at a *step*: constant for 30 %, then down to 2 %."""
        left = (self.steps - step) / max(0.7 * self.steps, 1)
        return min(1, (step + 1) / self.warm_up) * min(1, max(0.02, left))


CARD_OF_PHOTOS = replace(
    CARD,
    name="mstpp-photo",
    title="MST++ for photos as cameras make them: reflectance",
    rendering="",  # the colours of the photo are those of its light, exposure and tone curve
    domain=(
        "Photos as cameras and phones make them (JPEG, HEIC, 8-bit PNG and TIFF), of reflecting "
        "surfaces, of which nobody tells the light, the exposure or the tone curve. Brightness is "
        "uncertain until a patch of known reflectance is named. Not for emitters or raw values."
    ),
    reference=(
        "Network: Cai et al., CVPRW 2022, doi:10.1109/CVPRW56347.2022.00090. Weights: lab/fit_photo"
    ),
)
"""The card of `mstpp-photo`; accuracy and intervals are measured later."""


def start_network(settings: PhotoSettings) -> RefiningMSTPlusPlus:
    """A new network around the bundled pixelwise one: only the centre of convolutions is not 0."""
    torch.manual_seed(settings.seed)
    network = RefiningMSTPlusPlus(copy.deepcopy(pixelwise_network()), 1)
    network.requires_grad_(True)
    network.pixelwise.margins.requires_grad_(False)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.ndim < 4:
                continue
            fan_in = weight.shape[0 if ".up." in name else 1]
            weight.zero_()
            taps = centre(weight)
            if "depthwise" in name:
                taps.fill_(1)
            elif ".pos." in name:
                taps.normal_(0, 0.5 if ".pos.0." in name else 0.1)
            else:
                taps.uniform_(-1, 1).div_(math.sqrt(fan_in))
        for end in (network.conv_in, network.conv_out):
            centre(end.weight).mul_(0.1)  # so that the fit begins with about the pixelwise estimate
        for name, sigma in network.named_parameters():
            if name.endswith("rescale"):
                sigma.fill_(settings.sigma)
    return network


def centre(weight: Tensor) -> Tensor:
    """The tap of *weight* that a set of pixels sees, a view: (C', C, h, w) -> (C', C)."""
    middle = (weight.shape[-1] - 1) // 2
    return weight[:, :, middle, middle]


def estimate(network: RefiningMSTPlusPlus, photos: Tensor) -> Tensor:
    """Spectra (N, P, B) of sets of pixels *photos* (N, P, 3), in linear sRGB; P as in `PixelSets`.

    Groups of 16 pixels are 4 x 4 neighbours. Unlike those of the network, spectra may be a little
    negative, so that their gradients live.
    """
    pixels = photos.clamp_min(1e-7)
    pixelwise: Any = network.pixelwise
    spectra = pixelwise._spectrum(pixelwise.hidden(colour_features(pixels)), pixels)
    shallow = F.linear(encoded(photos), centre(network.conv_in.weight)) + encoded(spectra)
    stage = network.stages[0]
    features = F.linear(shallow, centre(stage.embedding.weight))
    skips = []
    for block, down in zip(stage.encoder, stage.down, strict=True):
        features = attended(block, features)
        skips.append(features)
        first_of_four = features.unflatten(1, (-1, 4))[:, :, 0]
        features = F.linear(first_of_four, centre(down.weight))
    features = attended(stage.bottleneck, features)
    for block, up, fuse in zip(stage.decoder, stage.up, stage.fuse, strict=True):
        doubled = F.linear(features, centre(up.weight).mT, up.bias).repeat_interleave(4, 1)
        features = F.linear(torch.cat([doubled, skips.pop()], -1), centre(fuse.weight))
        features = attended(block, features)
    refined = F.linear(features, centre(stage.mapping.weight)) + shallow
    codes = F.linear(refined, centre(network.conv_out.weight)) + shallow
    return codes.clamp_min(_DARKEST_CODE) ** 2.4 - BLACK


def attended(block: Any, features: Tensor) -> Tensor:
    """One spectral attention *block* on sets of pixels (N, P, C), centre taps only."""
    attention, feed_forward = block.attention, block.feed_forward
    mixing = attention.mixing(attention.attention(features.mT @ features))
    values = F.linear(features, attention.to_v.weight)
    first, second = (centre(attention.pos[at].weight)[:, 0] for at in (0, 2))
    mixed = torch.baddbmm(attention.proj.bias, features, mixing.mT)
    features = features + mixed + F.gelu(values * first) * second
    norm = feed_forward.norm
    hidden = F.layer_norm(features, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    hidden = F.gelu(F.linear(hidden, centre(feed_forward.expand.weight)))
    hidden = F.gelu(hidden * centre(feed_forward.depthwise.weight)[:, 0])
    return features + F.linear(hidden, centre(feed_forward.reduce.weight))


def as_images(network: RefiningMSTPlusPlus) -> RefiningMSTPlusPlus:
    """A copy for images, ready to run: going up gives all four neighbours the same."""
    finished = copy.deepcopy(network).eval().requires_grad_(False)
    for up in finished.stages[0].up:
        up.weight.copy_(centre(up.weight).clone()[:, :, None, None].expand_as(up.weight))
    return finished


def loss_of(spectra: Tensor, truth: Tensor) -> Tensor:
    """The level, the shape and the angle of spectra (N, P, B), each as an error, added up.

    Brightness is uncertain, and its error would drown that of the shape: so the level of a photo
    counts as a ratio, either way alike (a relative error makes every estimate too dark), and the
    shape is what is left after the best gain of each photo.
    """
    dark = (spectra.clamp_min(0) + _DARK).log() - (truth + _DARK).log()
    gain = (-dark.detach().mean((1, 2), keepdim=True)).exp()
    shape = (gain * spectra - truth).abs() / (truth + _DARK)
    directions = (F.normalize(each + 1e-3, dim=-1) for each in (spectra, truth))
    chord = torch.sub(*directions).norm(dim=-1)
    is_lit = truth.mean(-1) > _DARK
    return dark.abs().mean() + shape.mean() + _ANGLE * (chord * is_lit).mean()


class Muon(torch.optim.Optimizer):
    """Steps down the orthogonalised momentum (0.95) of matrices, and of the centre of kernels."""

    def __init__(self, weights: Iterable[Tensor], lr: float) -> None:
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override] # there is no closure
        """Take a step down the gradients."""
        for group in self.param_groups:
            for weight in group["params"]:
                taps, gradient = (_matrix(each) for each in (weight, weight.grad))
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(gradient))
                momentum.lerp_(gradient, 0.05)
                update = orthogonal(gradient.lerp(momentum, 0.95))
                rows, columns = update.shape
                taps.sub_(update, alpha=group["lr"] * max(1, rows / columns) ** 0.5)


def _matrix(weight: Tensor) -> Tensor:
    return centre(weight) if weight.ndim == 4 else weight


def orthogonal(matrix: Tensor) -> Tensor:
    """The nearest orthogonal matrix, about: its singular values are 0.7 to 1.2."""
    a, b, c = _NEWTON_SCHULZ
    x = matrix / matrix.norm().clamp_min(1e-12)
    is_tall = x.shape[0] > x.shape[1]
    x = x.mT if is_tall else x
    for _ in range(_STEPS_OF_NEWTON_SCHULZ):
        products = x @ x.mT
        x = a * x + (b * products + c * products @ products) @ x
    return x.mT if is_tall else x


class PhotoFit:
    """One fit: `PhotoFit(settings).run()` returns the averaged network, for images."""

    def __init__(self, settings: PhotoSettings) -> None:
        self.settings = settings
        self.network = start_network(settings)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        matrices, sigmas, others = [], [], []
        for name, weight in self.network.named_parameters():
            if not weight.requires_grad:
                continue
            is_kernel = weight.ndim == 4 and weight.shape[1] == 1  # depthwise
            if name.endswith("rescale"):
                sigmas.append(weight)
            elif weight.ndim < 2 or is_kernel or name.startswith("pixelwise."):
                others.append(weight)
            else:
                matrices.append(weight)
        self._others = [*others, *sigmas]
        groups = [
            {"params": others, "lr": settings.learning_rate, "weight_decay": 1e-4},
            {"params": sigmas, "lr": settings.sigma_rate, "weight_decay": 0.0},
        ]
        self._optimizers = [
            torch.optim.AdamW(groups, betas=(0.9, 0.98)),
            Muon(matrices, settings.matrix_rate),
        ]
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["full"] = group["lr"]
        self._random = torch.Generator().manual_seed(settings.seed)
        self._sets = PixelSets(self._random)

    def run(self, report_every: int = 500) -> RefiningMSTPlusPlus:
        """Take all steps, and print a report every so often."""
        held_out = _held_out()
        losses: list[float] = []
        started = time.perf_counter()
        for step in range(self.settings.steps):
            losses.append(self.take_step(step))
            if (step + 1) % report_every == 0 or step + 1 == self.settings.steps:
                with torch.inference_mode():
                    judged = loss_of(estimate(self.average, held_out[0]), held_out[1]).item()
                seconds = (time.perf_counter() - started) / (step + 1)
                loss = sum(losses) / len(losses)
                said = f"loss {loss:.4f}  held-out {judged:.4f}  {seconds:.2f} s/step"
                print(f"step {step + 1}  {said}", flush=True)
                losses.clear()
        return as_images(self.average)

    def _processing(self) -> Processing:
        """The processing of a batch; in half of it, balance errs as far as in the first trial."""
        processing = draw_processing(self.settings.batch, self._random)
        count = len(processing)
        error = torch.randn(count, 3, generator=self._random) * torch.tensor(_FIRST_TRIAL_BALANCE)
        is_wide = torch.rand(count, generator=self._random) < 0.5
        is_wide &= processing.kind != KINDS.index("rendered")
        balance = torch.where(is_wide[:, None], error.exp(), processing.balance)
        saturation = processing.saturation + 0.15 * is_wide
        return replace(processing, balance=balance, saturation=saturation)

    def take_step(self, step: int) -> float:
        """One step down the loss; returns the loss."""
        settings = self.settings
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full"] * settings.share_at(step)
        with torch.no_grad():
            scenes = self._sets.draw(settings.batch, settings.pixels)
            photos = decoded_photos(photograph(scenes, self._processing(), random=self._random))
        loss = loss_of(estimate(self.network, photos), scenes)
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._others, 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        # Early on the average forgets faster, so that it does not stay where the fit began.
        decay = min(settings.average_decay, (step + 1) / (step + 10))
        averaged, current = (
            [weight.data for weight in network.parameters()]
            for network in (self.average, self.network)
        )
        with torch.no_grad():
            torch._foreach_lerp_(averaged, current, 1 - decay)
        return loss.item()


def decoded_photos(codes: Tensor) -> Tensor:
    """Encoded values, 0 to 1 -> linear sRGB."""
    return torch.from_numpy(srgb_to_linear(codes.numpy())).float()


def _held_out() -> tuple[Tensor, Tensor]:
    """Photos and scenes of spectra, cameras and lights that training never sees."""
    random = torch.Generator().manual_seed(0)
    scenes = PixelSets(random, held_out=True).draw(64, 1024)
    photos = photograph(scenes, draw_processing(len(scenes), random, held_out=True))
    return decoded_photos(photos), scenes


def fit_photo_to_file(settings: PhotoSettings, options: CommandOptions) -> None:
    """Fit `mstpp-photo`, and write it."""
    network = PhotoFit(settings).run(options.report_every)
    said = f"--steps {settings.steps} --seed {settings.seed}"
    reference = CARD_OF_PHOTOS.reference + made_by("mstpp-photo", said)
    save_measured(
        network, options.output, replace(CARD_OF_PHOTOS, reference=reference), options.scenes
    )
