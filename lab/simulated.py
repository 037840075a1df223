"""Scenes made of measured reflectances, and the 8-bit sRGB photos that show them under D65.

A scene is a cube of apparent reflectance: regions of mixed materials, texture, shading, cast
shadows and highlights. All randomness comes from one seed: if the order of the draws below changes,
so does what a seed gives. Letters: N scenes, B bands, H rows, W columns.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from napari_mst.base.arrays import Codes
from napari_mst.cube.colour import linear_to_srgb, reflectances, srgb_response, srgb_to_linear
from napari_mst.denoising.sensor_noise import SensorNoise
from napari_mst.photo.cameras import GRID
from napari_mst.training.inputs import jpeg
from napari_mst.training.sources import HELD_OUT_SCENES, Draw, degraded_at

HELD_OUT = 10
"""One spectrum in this many never enters a training scene; validation scenes are made of them."""

# Soils, minerals as powders and targets of remote sensing are drawn less often by these factors:
# few photos show them.
_RARE = {"earthlib_317": 0.15, "usgs_splib06_M": 0.15, "usgs_splib06_S": 0.15}
_MATERIALS = 10
_LEAVES = 48
# Apparent reflectance that nothing exceeds: brighter spectra are scaled down and keep their shape.
_BRIGHTEST = 1.2
_FINEST_GRAIN = 1e-7
_LINEAR_OF_CODE = srgb_to_linear(np.arange(256) / 255).astype(np.float32)


@dataclass(frozen=True)
class Curriculum:
    """A choice of scenes and photos that teaches what is noise, and what is not and has to stay.

    Attributes
    ----------
    degraded
        Share of the photos with noise, and, independently, with JPEG.
    grain
        Variance over reflectance of the strongest grain that a subject has of its own.
    """

    degraded: float = 0.4
    grain: float = 1e-4

    @classmethod
    def at(cls, progress: float) -> "Curriculum":
        """The curriculum where *progress*, a share of a fit, is over.

        First noise in plain scenes, then grain that looks like noise: the grain of the subjects
        grows for half of the steps and then stays.
        """
        return cls(degraded_at(progress), grain=1e-7 * 1e3 ** min(2 * progress, 1))


USUAL = Curriculum()
"""The curriculum by which fits are judged and on which prediction intervals are calibrated."""


class SceneSimulator:
    """Draws scenes and photos of them.

    `simulator.draw(n)` gives linear photos (N, 3, H, W) and cubes (N, 31, H, W).
    The same *seed* draws the same scenes.

    Parameters
    ----------
    size
        Rows and columns of a scene.
    held_out
        Draw the spectra that training never sees.
    curriculum
        How noisy photos and how grainy subjects are.
    """

    materials = _MATERIALS
    """Most materials of a scene."""

    def __init__(
        self, seed: int, size: int = 64, held_out: bool = False, curriculum: Curriculum = USUAL
    ) -> None:
        picked = []
        weights = []
        for name, spectra in reflectances().items():
            chosen = spectra[(np.arange(len(spectra)) % HELD_OUT == HELD_OUT - 1) == held_out]
            picked.append(chosen)
            if len(chosen):
                # In all a source weighs the root of its size, so that no large one rules the rest.
                weight = _RARE.get(name, 1.0) / len(chosen) ** 0.5
                weights.append(np.full(len(chosen), weight))
        self.spectra = torch.from_numpy(np.concatenate(picked)).float().clamp(0, 1)
        self.response = torch.from_numpy(srgb_response(GRID)).float()
        self.size = size
        self.curriculum = curriculum
        self._weights = torch.from_numpy(np.concatenate(weights))
        self._random = torch.Generator().manual_seed(seed)

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """*count* photos, and the apparent reflectance that they show.

        Photos are linear sRGB (N, 3, H, W), decoded from 8 bits.
        """
        scene = self.draw_scenes(count)
        return self.photograph(scene), scene

    def draw_scenes(self, count: int) -> Tensor:
        """Apparent reflectance (N, B, H, W) of *count* scenes, of which no photo is taken.

        They are objects that cover one another.
        """
        u, v, leaf = self.leaves(count)
        scene = self._textured(leaf) * self.shading(u, v, leaf) * self._shadow(count)
        scene = self._exposed(scene + self._highlight(count))
        # Grain comes after the blur, which would smooth it away.
        return self._grained(self._softened(scene))

    def draw_pixels(self, count: int) -> tuple[Tensor, Tensor]:
        """*count* clean pixels without neighbours, and their reflectance (N, 31).

        Pixels are linear sRGB (N, 3), decoded from 8 bits.
        """
        spectra = self.draw_spectra(count)
        return _decoded(_encoded(spectra @ self.response)), spectra

    def draw_spectra(self, count: int) -> Tensor:
        """Reflectance (N, 31) of *count* pixels without neighbours.

        Each is a mixture of two materials, at a brightness from 0 to beyond white; a few have a
        highlight.
        """
        first = self._pick(count)
        second = self._pick(count)
        share = self._uniform(count, 1)
        shade = self._uniform(count, 1) * 1.2
        strength = self._uniform(count, 1) ** 3 * 0.6
        glint = strength * (self._uniform(count, 1) < 0.02)
        return (first + share * (second - first)) * shade + glint

    def _softened(self, scene: Tensor) -> Tensor:
        """*scene* a little out of focus, or not."""
        softness = self._often(0.7, len(scene), 1, 1, 1)
        blurred = F.avg_pool2d(F.pad(scene, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
        return scene + softness * (blurred - scene)

    def _grained(self, scene: Tensor) -> Tensor:
        """*scene* with fine variation of its materials that looks like noise."""
        shapes = self.response.clamp_min(0) / self.response.amax(0)
        normal = self._normal(len(scene), 3, *scene.shape[2:])
        grain = torch.einsum("nchw,bc->nbhw", normal, shapes)
        strength = self._log_uniform(len(scene), _FINEST_GRAIN, self.curriculum.grain)
        return (scene + (strength * scene).sqrt() * grain).clamp_min(0)

    def leaves(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Dead leaves: objects that cover one another.

        Objects are rounded boxes, ellipses and diamonds with warped outlines. The number of those
        larger than r falls as r^-2, as in photos (Lee, Mumford & Huang, Int. J. Comput. Vis. 41
        (2001) 35, doi:10.1023/A:1011109015675).

        Returns
        -------
        The place on its object of each pixel, u and v of about -1 to 1, (N, 1, H, W); and the
        object that is seen there, (N, H, W).
        """
        size = self.size
        axis = torch.arange(float(size))
        warp = self._smooth(n, self._integer(4, 16), channels=2) * self._uniform(n, 1, 1, 1) * 4
        y = axis[:, None] + warp[:, :1]
        x = axis + warp[:, 1:]
        smallest = self._log_uniform(n, 2, 16)
        # The inverse of the distribution of sizes turns uniform numbers into radii.
        inverse_square = self._uniform(n, _LEAVES, 1, 1) * (size**-2.0 - smallest**-2)
        radius = (smallest**-2 + inverse_square) ** -0.5
        aspect = self._log_uniform(n, 0.4, 2.5, _LEAVES)
        angle = self._uniform(n, _LEAVES, 1, 1) * torch.pi
        dy = y - self._uniform(n, _LEAVES, 1, 1) * size
        dx = x - self._uniform(n, _LEAVES, 1, 1) * size
        u = (dx * angle.cos() + dy * angle.sin()) / (radius * aspect)
        v = (dy * angle.cos() - dx * angle.sin()) / (radius / aspect)
        # A power of 1 gives a diamond, 2 an ellipse, 8 a rounded box.
        power = self._log_uniform(n, 1, 8, _LEAVES)
        is_inside = u.abs().clamp_min(1e-3) ** power + v.abs().clamp_min(1e-3) ** power < 1
        # Object 0 is the background: it is everywhere, and behind all others.
        is_inside[:, 0] = True
        leaf = (is_inside * torch.arange(_LEAVES)[:, None, None]).amax(1)
        return _on_leaf(u, leaf), _on_leaf(v, leaf), leaf

    def _textured(self, leaf: Tensor) -> Tensor:
        """Reflectance (N, B, H, W): a few materials, each on several objects.

        Objects are lighter or darker, plain or mottled with a second material.
        """
        n = len(leaf)
        palette = self._palette(n)
        used = self._integer(2, self.materials)
        lightness = self._log_uniform(n, 0.4, 1.0, _LEAVES)[..., 0]
        first = _of_leaf(palette, self._choices(n, used)) * lightness
        second = _of_leaf(palette, self._choices(n, used)) * lightness
        share = self._uniform(n, _LEAVES, 1)
        contrast = self._often(0.4, n, _LEAVES, 1) * 0.5
        mottle = _at(contrast, leaf) * self._octaves(n) + _at(share, leaf)
        plain = _at(first, leaf)
        other = _at(second, leaf)
        grain = (self._octaves(n) * self._uniform(n, 1, 1, 1) * 0.3).exp()
        return (plain + mottle.clamp(0, 1) * (other - plain)) * grain

    def shading(self, u: Tensor, v: Tensor, leaf: Tensor) -> Tensor:
        """Light (N, 1, H, W) that falls off over each object, flat or curved, and the scene."""
        n = len(leaf)
        slope_u = _at(self._normal(n, _LEAVES, 1) * 0.4, leaf)
        slope_v = _at(self._normal(n, _LEAVES, 1) * 0.4, leaf)
        curved = _at(self._often(0.5, n, _LEAVES, 1), leaf) * (u * u + v * v)
        bumps = self._smooth(n, self._integer(2, 8)).abs()
        relief = bumps * self._uniform(n, 1, 1, 1)
        return (slope_u * u + slope_v * v - curved - relief).clamp(-3, 1).exp()

    def _shadow(self, n: int) -> Tensor:
        """Cast shadows (N, 1, H, W), soft to sharp; two scenes in five have some."""
        shape = self._smooth(n, self._integer(2, 6))
        depth = self._often(0.4, n, 1, 1, 1) * 0.9
        return 1 - depth * torch.sigmoid((shape - 0.5) * self._log_uniform(n, 5, 50))

    def _highlight(self, n: int) -> Tensor:
        """Specular reflection (N, 1, H, W): it has the colour of the light, in all bands alike."""
        glint = (self._smooth(n, self._integer(4, 20)) - 1.2).clamp_min(0)
        return glint * self._often(0.1, n, 1, 1, 1)

    def _exposed(self, scene: Tensor) -> Tensor:
        """*scene* with its bright parts anywhere between nearly black and beyond white."""
        linear = torch.einsum("nbhw,bc->nchw", scene, self.response)
        bright = linear.amax(1).flatten(1).quantile(0.98, dim=1)
        exposure = (self._uniform(len(scene)) + 0.1) / bright.clamp_min(1e-3)
        scene = scene * exposure[:, None, None, None]
        return scene / (scene.amax(1, keepdim=True) / _BRIGHTEST).clamp_min(1)

    def photograph(self, scene: Tensor) -> Tensor:
        """Apparent reflectance -> linear sRGB, decoded from 8 bits.

        The photo has noise, is clipped and rounded, and may have been a JPEG file.
        """
        n = len(scene)
        degraded = self.curriculum.degraded
        linear = torch.einsum("nbhw,bc->nchw", scene, self.response)
        shot = self._log_uniform(n, 2e-4, 5e-3)
        read = self._log_uniform(n, 1e-7, 1e-5)
        is_noisy = self._uniform(n, 1, 1, 1) < degraded
        deviation = (shot * linear.clamp_min(0) + read).sqrt() * is_noisy
        codes = _encoded(linear + self._normal(*linear.shape) * deviation)
        noises = [
            SensorNoise(float(gain), float(floor)) if noisy else None
            for gain, floor, noisy in zip(shot, read, is_noisy, strict=True)
        ]
        images = [self._kept(image, noise) for image, noise in zip(codes, noises, strict=True)]
        return _decoded(np.stack(images))

    def _kept(self, codes: Codes, noise: SensorNoise | None) -> Codes:  # noqa: ARG002
        """The photo (3, H, W) of these codes and this noise as it is kept: some are JPEG files."""
        return self._jpeg(codes) if self._chance(self.curriculum.degraded) else codes

    def _jpeg(self, codes: Codes) -> Codes:
        """*codes* (3, H, W) after a JPEG file, in three of four with colours of half the size."""
        quality = self._integer(40, 95)
        return jpeg(codes, quality=quality, subsampling=2 if self._chance(0.75) else 0)

    def _octaves(self, n: int) -> Tensor:
        """Noise (N, 1, H, W) of all scales, blotches to single pixels; variance about 1."""
        roughness = self._uniform(n, 1, 1, 1) * 0.5 + 0.5
        layers = [
            self._smooth(n, cells) * roughness**level
            for level, cells in enumerate((4, 8, 16, 32, self.size))
        ]
        return torch.stack(layers).sum(0) / 2

    def _pick(self, count: int) -> Tensor:
        """The spectra (count, B) of *count* materials."""
        picked = torch.multinomial(self._weights, count, replacement=True, generator=self._random)
        return self.spectra[picked]

    def _palette(self, n: int) -> Tensor:
        """The spectra (N, materials, B) of the materials of *n* scenes."""
        return self._pick(n * self.materials).view(n, self.materials, -1)

    def _choices(self, n: int, used: int) -> Tensor:
        """One of the first *used* materials for every object, (N, leaves)."""
        return torch.randint(used, (n, _LEAVES), generator=self._random)

    def _smooth(self, n: int, cells: int, channels: int = 1) -> Tensor:
        """Smooth noise (N, channels, H, W), about *cells* bumps across; unit variance at nodes."""
        nodes = self._normal(n, channels, cells, cells)
        return F.interpolate(nodes, (self.size, self.size), mode="bicubic", align_corners=True)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._random)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random)

    def _often(self, share: float, *shape: int) -> Tensor:
        """Numbers from 0 to 1 in this *share* of the places, else 0."""
        return self._uniform(*shape) * (self._uniform(*shape) < share)

    def _log_uniform(self, n: int, low: float, high: float, channels: int = 1) -> Tensor:
        return low * (high / low) ** self._uniform(n, channels, 1, 1)

    def _integer(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=self._random))

    def _chance(self, probability: float) -> bool:
        return float(self._uniform(1)) < probability


class Simulated:
    """Simulated scenes of *size* pixels a side: a `TrainingSource`.

    They are seen with *response* (31, 3), by default that of sRGB in daylight.
    """

    def __init__(self, seed: int, size: int, response: Tensor | None = None) -> None:
        self._seed = seed
        self._size = size
        self.response = SceneSimulator(0).response if response is None else response

    def simulator(
        self, seed: int, held_out: bool = False, curriculum: Curriculum = USUAL
    ) -> SceneSimulator:
        """A simulator that sees with this response."""
        simulator = SceneSimulator(seed, self._size, held_out, curriculum)
        simulator.response = self.response
        return simulator

    def draw(self, index: int, count: int, progress: float) -> Draw:
        """Photos and cubes to train on, as `TrainingSource.draw` gives them."""
        # Draws of one seed never meet those of the next.
        seed = self._seed * 10_000_000 + index
        return self.simulator(seed, curriculum=Curriculum.at(progress)).draw(count)

    def held_out(self) -> Draw:
        """Photos and cubes that are never trained on."""
        return self.simulator(self._seed, held_out=True).draw(HELD_OUT_SCENES)


def _encoded(linear: Tensor) -> Codes:
    """Linear sRGB -> 8-bit code values, clipped."""
    return np.rint(linear_to_srgb(linear.clamp(0, 1).numpy()) * 255).astype(np.uint8)


def _decoded(codes: Codes) -> Tensor:
    return torch.from_numpy(_LINEAR_OF_CODE[codes])


def _of_leaf(palette: Tensor, material: Tensor) -> Tensor:
    """The spectrum (N, leaves, B) of the *material* (N, leaves) of every object."""
    return palette.gather(1, material[..., None].expand(-1, -1, palette.shape[-1]))


def _at(values: Tensor, leaf: Tensor) -> Tensor:
    """*values* (N, leaves, C) of every object -> (N, C, H, W), where each object is seen."""
    pixels = leaf.flatten(1)[..., None].expand(-1, -1, values.shape[-1])
    return values.gather(1, pixels).mT.unflatten(2, leaf.shape[1:])


def _on_leaf(place: Tensor, leaf: Tensor) -> Tensor:
    """The *place* (N, leaves, H, W) on the object that is seen: (N, 1, H, W), 0 on background."""
    seen = place.gather(1, leaf[:, None])[:, 0]
    return torch.where(leaf > 0, seen, 0)[:, None]
