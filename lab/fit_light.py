"""Fit the network that finds the light of a photo: `python -m lab retrain light-vit -o OUT`.

It takes about 25 minutes of one core. Compositions of scenes are drawn once; at every step they are
seen in other materials, by many cameras in many lights: scenes that came again with the materials
they had were learnt by heart. In a step the network sees half of the patches of a photo, which
takes half the time and teaches it not to rely on any of them. The fit is deterministic for a seed,
the settings and a number of threads. Letters: N photos, S compositions, P patches, R cells on a
side of a patch, M materials.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lab.cards import made_by
from lab.command_options import CommandOptions
from lab.compositions import CompositionSimulator
from lab.fit_pixelwise import PixelwiseSettings, descend
from lab.lights import HELD_OUT_LIGHTS, LightSimulator
from napari_mst.calibration.light.seeing import (
    CHANNELS,
    CLIPPED,
    OUTPUTS,
    CellColours,
    LightPosterior,
    common_matrices,
    common_response,
    log_ratios,
    picture,
    posterior_of,
)
from napari_mst.models.cards import LIGHT_QUANTITY, ModelCard
from napari_mst.networks.vision_transformer import TransformerHyperparameters, VisionTransformer
from napari_mst.photo.cameras import camera_response
from napari_mst.photo.lights import FAMILIES
from napari_mst.training.fit import save
from napari_mst.training.inputs import HELD_OUT_CAMERAS, training_cameras

SIZE = 32
"""Pixels on a side of the picture that the network sees."""

PATCH = 4
_GRID = SIZE // PATCH
# Scenes are drawn four times as large, so that a cell may hold several materials and a highlight.
_FINER = 4
_TOGETHER = 10
_MIXED = 0.35  # share of the photos in two lights
_BACKDROP = 0.4  # share of the photos with something black behind the objects
_BLACK = (0.002, 0.042)
_BRIGHT = 0.98  # quantile of the brightness that the exposure is set by
_DIMMEST = 0.1
_EXPOSURE = 0.6  # stops to either side, in units of e
_SHOT = (1.6e-5, 1.6e-3)  # variance of the noise over the signal
_LEAST = -30.0  # logarithm of a density below which an error counts no more


@dataclass(frozen=True)
class LightSettings(PixelwiseSettings):
    """The settings that decide the outcome of a fit.

    Attributes
    ----------
    hold
        Share of the steps that are taken before the learning rate falls.
    scenes
        Number of compositions that are drawn.
    mixed_cameras
        Number of cameras between two measured ones.
    kept
        Patches, of 64, that the network sees of a photo in a step.
    judged
        Photos of held-out scenes that the network is judged on.
    """

    steps: int = 16000
    batch: int = 48
    learning_rate: float = 2e-3
    warm_up: int = 200
    scenes: int = 1500
    kept: int = 32
    judged: int = 256
    hold: float = 0.5
    mixed_cameras: int = 88
    clip: float = 1.0

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up, the peak for most of the steps, then a cosine down to 1 % of it."""
        fallen = max(step / self.steps - self.hold, 0) / (1 - self.hold)
        decay = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * fallen))
        return self.learning_rate * min(1, (step + 1) / self.warm_up) * decay


class LightBatch(NamedTuple):
    """Photos, and the answers.

    Attributes
    ----------
    patches, places
        (N, P, 5, R, R) and (N, P), as `VisionTransformer.encoded_patches` takes them.
    mean_colour
        (N, 2): see `seeing.Picture`.
    shares
        (N, F): the families of the light.
    white
        (N, 3): the true white in the common space.
    """

    patches: Tensor
    places: Tensor
    mean_colour: Tensor
    shares: Tensor
    white: Tensor


class LightBatches:
    """Draws photos of scenes by some cameras, and the light of each.

    Parameters
    ----------
    random
        All but the materials comes from it.
    scenes
        The compositions, and what draws materials for them.
    responses
        (K, 31, 3): those of the cameras under equal power.
    kept
        Patches of each photo.
    """

    def __init__(
        self, random: torch.Generator, scenes: "Scenes", responses: Tensor, kept: int
    ) -> None:
        self._random = random
        self._scenes = scenes
        self._kept = kept
        self._lights = LightSimulator(random)
        self._responses = responses
        matrices = common_matrices(responses.double().numpy())
        self._to_common = torch.from_numpy(matrices).float()

    def draw(self, count: int) -> LightBatch:
        """The next *count* photos."""
        power, shares = self._draw_lights(count)
        camera = torch.randint(len(self._responses), (count,), generator=self._random)
        places = torch.rand(count, _GRID**2, generator=self._random).argsort(1)[:, : self._kept]
        values = self._photograph(places, self._responses[camera] * power[..., None])
        common = (values @ self._to_common[camera]).mT
        is_known = (values < CLIPPED).all(-1)
        pixels = self._kept * PATCH**2
        means, brightest = (
            CellColours(common[..., of_these], is_known[..., of_these])
            for of_these in (slice(pixels), slice(pixels, None))
        )
        channels, mean_colour = picture(means, brightest)
        patches = channels.unflatten(2, (self._kept, PATCH, PATCH)).movedim(1, 2)
        turned, turned_places = self._turned(patches, places)
        white = power @ torch.from_numpy(common_response())
        return LightBatch(turned, turned_places, mean_colour, shares, white)

    def _draw_lights(self, count: int) -> tuple[Tensor, Tensor]:
        """Power (N, 31) of single and mixed lights, and the shares (N, F) of the families."""
        first, first_family = self._lights.draw(count)
        second, second_family = self._lights.draw(count)
        share = self._uniform(count, 1) * (self._uniform(count, 1) < _MIXED)
        power = first + share * (second - first)
        families = len(FAMILIES)
        start = F.one_hot(first_family, families)
        shares = start + share * (F.one_hot(second_family, families) - start)
        return power, shares

    def _photograph(self, places: Tensor, response: Tensor) -> Tensor:
        """Values (N, 2 * P * R * R, 3) of the sensor for the patches at *places* of new scenes."""
        count = len(places)
        amounts = self._scenes.draw_amounts(places, self._random)
        colours = self._scenes.draw_materials(count) @ response
        # The last colour is that of highlights, and so of white.
        values = amounts @ (colours / colours[:, -1:].amax(2, keepdim=True))
        exposed = values * self._exposure(values) * self._visible(places)
        low, high = _SHOT
        shot = low * (high / low) ** self._uniform(count, 1, 1)
        noise = torch.randn(values.shape, generator=self._random)
        return (exposed + noise * (shot * exposed).sqrt()).clamp(0, 1)

    def _exposure(self, values: Tensor) -> Tensor:
        """Factors (N, 1, 1) that bring the bright parts of photos between black and clipped."""
        largest = values.amax(2)
        place = int(_BRIGHT * largest.shape[1])
        bright = largest.kthvalue(place, dim=1).values.clamp_min(1e-3)[:, None, None]
        meant = _DIMMEST + self._uniform(len(values), 1, 1)
        return meant / bright * (_EXPOSURE * (2 * self._uniform(len(values), 1, 1) - 1)).exp()

    def _visible(self, places: Tensor) -> Tensor:
        """Shares (N, 2 * P * R * R, 1): 1, or little for the black backdrop of some photos."""
        count = len(places)
        nodes = torch.randn(count, 1, 5, 5, generator=self._random)
        shape = _in_patches(F.interpolate(nodes, size=SIZE, mode="bicubic"))[..., 0]
        shape = shape.gather(1, places[..., None].expand(-1, -1, PATCH**2)).flatten(1)
        edge = 0.4 * torch.randn(count, 1, generator=self._random) - 0.1
        has_backdrop = self._uniform(count, 1) < _BACKDROP
        low, high = _BLACK
        black = low + (high - low) * self._uniform(count, 1) ** 2
        visible = torch.where((shape > edge) & has_backdrop, black, 1.0)
        return visible.repeat(1, 2)[..., None]

    def _turned(self, patches: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """The photos, all flipped or transposed alike, and where their patches lie then."""
        row = places // _GRID
        column = places % _GRID
        if self._chance():
            patches = patches.flip(-1)
            column = _GRID - 1 - column
        if self._chance():
            patches = patches.flip(-2)
            row = _GRID - 1 - row
        if self._chance():
            patches = patches.mT
            row, column = column, row
        return patches, row * _GRID + column

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random)

    def _chance(self) -> bool:
        return bool(self._uniform(1) < 0.5)


class Scenes:
    """Compositions that are drawn once, and materials for them that are drawn at every step.

    Parameters
    ----------
    count
        Number of compositions S. Their *amounts* (S, 2, P, R * R, M + 1) are 16 bits: the means of
        cells, and their brightest parts.
    held_out
        Draw the materials that training never sees.
    """

    def __init__(self, seed: int, count: int, held_out: bool = False) -> None:
        self._simulator = CompositionSimulator(seed, _FINER * SIZE, held_out)
        together = (min(_TOGETHER, count - start) for start in range(0, count, _TOGETHER))
        self.amounts = torch.cat([self._drawn(number) for number in together])

    def draw_amounts(self, places: Tensor, random: torch.Generator) -> Tensor:
        """Amounts (N, 2 * P * R * R, M + 1) in the patches at *places* (N, P) of some scenes."""
        drawn = torch.randint(len(self.amounts), (len(places), 1), generator=random)
        return self.amounts[drawn, :, places].movedim(2, 1).flatten(1, 3).float()

    def draw_materials(self, count: int) -> Tensor:
        """The spectra (N, M + 1, 31) of materials for *count* scenes."""
        return self._simulator.draw_materials(count)

    def _drawn(self, count: int) -> Tensor:
        amounts, brightness = self._simulator.draw_compositions(count)
        cells = (F.avg_pool2d(amounts, _FINER), _brightest(amounts, brightness))
        return torch.stack([_in_patches(each).half() for each in cells], dim=1)


def _brightest(amounts: Tensor, brightness: Tensor) -> Tensor:
    """The amounts (N, M + 1, 32, 32) in the brightest pixel of each cell."""
    cells = _in_cells(amounts)
    shown = _in_cells(torch.einsum("nmhw,nm->nhw", amounts, brightness))
    brightest = shown.argmax(-1)[:, None, ..., None]
    return cells.gather(4, brightest.expand(-1, cells.shape[1], -1, -1, -1))[..., 0]


def _in_cells(maps: Tensor) -> Tensor:
    """(..., 128, 128) -> (..., 32, 32, 16): the pixels of each cell."""
    return maps.unfold(-2, _FINER, _FINER).unfold(-2, _FINER, _FINER).flatten(-2)


def mean_white(posterior: LightPosterior) -> Tensor:
    """The white (N, 3) in the common space, green being 1, of the mean of the whole mixture."""
    ratios = (posterior.log_shares.exp()[..., None] * posterior.whites).sum(-2)
    red, blue = ratios.exp().unbind(-1)
    return torch.stack([red, torch.ones_like(red), blue], dim=-1)


def angles(first: Tensor, second: Tensor) -> Tensor:
    """Angles in degrees between colours (..., 3)."""
    cosine = F.cosine_similarity(first, second, dim=-1)
    # At exactly 1 the gradient of the arc cosine is infinite.
    return torch.rad2deg(cosine.clamp(-1, 1 - 5e-7).acos())


def light_loss(posterior: LightPosterior, batch: LightBatch) -> Tensor:
    """The surprise of families and white, plus the angle between the mean and the true white."""
    true = log_ratios(batch.white)[:, None]
    densities = posterior.log_densities(true)[:, 0].clamp_min(_LEAST)
    families = -(batch.shares * posterior.log_shares).sum(-1)
    of_family = -(batch.shares * densities).sum(-1)
    of_all = -(posterior.log_shares + densities).logsumexp(-1)
    angle = angles(mean_white(posterior), batch.white)
    return (families / 2 + of_family / 2 + of_all / 2 + angle / 4).mean()


def fit_light(settings: LightSettings, report_every: int = 500) -> VisionTransformer:
    """The network after all steps; the loss, and the angle on held-out photos, are printed."""
    torch.manual_seed(settings.seed)
    network = start_network(settings.width)
    random = torch.Generator().manual_seed(settings.seed)
    scenes = Scenes(settings.seed, settings.scenes)
    cameras = with_mixtures(responses_of(training_cameras()), settings.mixed_cameras, random)
    batches = LightBatches(random, scenes, cameras, settings.kept)

    def loss() -> Tensor:
        batch = batches.draw(settings.batch)
        return light_loss(_posterior(network, batch), batch)

    judged = held_out_batch(settings.judged)
    descend(network, settings, loss, lambda: judge(network, judged), report_every)
    return network


def start_network(width: int) -> VisionTransformer:
    """A network that gives the first guess for every photo."""
    hyperparameters = TransformerHyperparameters(
        in_bands=CHANNELS,
        outputs=OUTPUTS,
        size=SIZE,
        patch=PATCH,
        features=width,
        hidden=2 * width,
    )
    network = VisionTransformer(hyperparameters)
    for name, parameter in network.named_parameters():
        if name.endswith(".weight") and parameter.dim() == 2:
            torch.nn.init.trunc_normal_(parameter, std=0.05)
        if name.endswith(".bias"):
            torch.nn.init.zeros_(parameter)
    torch.nn.init.zeros_(network.head.weight)
    return network


def held_out_batch(count: int) -> LightBatch:
    """Photos of spectra and by cameras that training never sees."""
    random = torch.Generator().manual_seed(0)
    scenes = Scenes(0, count, held_out=True)
    return LightBatches(random, scenes, responses_of(HELD_OUT_CAMERAS), _GRID**2).draw(count)


def responses_of(cameras: Iterable[str]) -> Tensor:
    """(K, 31, 3): the responses of *cameras* under equal power."""
    return torch.from_numpy(np.stack([camera_response(name, "E") for name in cameras])).float()


def with_mixtures(responses: Tensor, count: int, random: torch.Generator) -> Tensor:
    """*responses* (K, 31, 3), and *count* more between two of them: cameras that may exist."""
    pairs = torch.randint(len(responses), (2, count), generator=random)
    share = torch.rand(count, 1, 1, generator=random)
    return torch.cat([responses, torch.lerp(responses[pairs[0]], responses[pairs[1]], share)])


@torch.no_grad()
def judge(network: VisionTransformer, batch: LightBatch) -> float:
    """The mean angle in degrees between the estimated and the true white."""
    white = mean_white(_posterior(network, batch))
    return angles(white, batch.white).mean().item()


def light_card(settings: LightSettings, name: str) -> ModelCard:
    """The card of the network; its accuracy is measured later."""
    said = f"--steps {settings.steps} --seed {settings.seed}"
    return ModelCard(
        name=name,
        title="Finds the light that a linear photo was taken in",
        wavelengths=(),
        is_linear=True,
        normalisation="none",
        quantity=LIGHT_QUANTITY,
        domain=(
            "Linear values, before any white balance, of a camera whose sensitivities are known, "
            "in one light or a mixture of two. Not for several lights beside each other."
        ),
        training_data=(
            f"{settings.scenes:,} simulated compositions, at every step of other measured "
            "reflectances (CIE CES, ISET, rawtoaces, earthlib, USGS splib06), seen by "
            f"{len(training_cameras())} measured cameras (rawtoaces-data, Apache-2.0) and "
            f"{settings.mixed_cameras} mixtures of two, in radiators, daylight, the CIE's lamps "
            "and simulated LEDs. No image of a real scene. "
            f"Never trained with: {', '.join((*HELD_OUT_CAMERAS, *HELD_OUT_LIGHTS))}."
        ),
        licence="MIT",
        reference=(
            "Encoder: Dosovitskiy et al., ICLR 2021, arXiv:2010.11929. "
            f"Weights: lab.fit_light{made_by('light-vit', said)}"
        ),
    )


def fit_light_to_file(settings: LightSettings, options: CommandOptions) -> None:
    """Fit `light-vit`, and write it."""
    network = fit_light(settings, options.report_every)
    save(network, options.output, light_card(settings, options.output.stem))


def _posterior(network: VisionTransformer, batch: LightBatch) -> LightPosterior:
    outputs = network.encoded_patches(batch.patches, batch.places).outputs
    return posterior_of(outputs, batch.mean_colour)


def _in_patches(maps: Tensor) -> Tensor:
    """Maps (N, C, 32, 32) -> (N, P, R * R, C), patches row by row."""
    rows = maps.unflatten(3, (_GRID, PATCH)).unflatten(2, (_GRID, PATCH))
    return rows.permute(0, 2, 4, 3, 5, 1).flatten(3, 4).flatten(1, 2)
