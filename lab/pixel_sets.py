"""Scenes as sets of pixels, from which a network learns what the whole of a photo says.

A step of a fit needs many photos, and of each only so many pixels that their statistics are those
of a photo. So no image is drawn. Pixels come in groups of 16, which are 4 x 4 pixels of an image,
and in groups of 4 within these, which are 2 x 2: the neighbours that a U-shape brings together. In
two scenes of five pixels have no neighbours, so that a network does not rely on them.

Letters: N scenes, P pixels, K materials, B bands.
"""

import torch
from torch import Tensor

from lab.ordinary_photos import LUMINANCE
from lab.simulated import HELD_OUT
from napari_mst.cube.colour import reflectances, srgb_response
from napari_mst.photo.cameras import GRID

GROUP = 16
"""Pixels of a group; the number of pixels of a set is a multiple of it."""

_MATERIALS = 12
# Sources of soils, powders and targets of remote sensing are drawn less often by this factor.
_RARE = {"earthlib_317": 0.15, "usgs_splib06_M": 0.15, "usgs_splib06_S": 0.15}
# By how much colourful materials are preferred, as powers of e for a saturation of 1: scenes differ
# in it from grey streets to toys.
_VIVID = (0.0, 2.5, 5.0, 8.0)
_STEP_LIKE = 0.12  # share of the materials whose spectra are smooth random edges
_NO_NEIGHBOURS = 0.4  # share of the scenes
# Logarithm of the largest reflectance of a scene at any wavelength: something in it is well lit and
# reflects most of the light of its colour. Mean and standard deviation, by judgement.
_PEAK = (-0.3, 0.23)
_PEAK_SHARE = 0.85  # how far a scene is brought there; the rest is that of its materials
_BRIGHTEST = 1.1


class PixelSets:
    """Draws sets of pixels (N, P, 31) of apparent reflectance; the same *random* draws the same.

    Spectra that are *held_out* are those that training never sees.
    """

    def __init__(self, random: torch.Generator, held_out: bool = False) -> None:
        picked, weights = [], []
        for name, all_spectra in reflectances().items():
            spectra = torch.from_numpy(all_spectra).float().clamp(0, 1)
            chosen = spectra[(torch.arange(len(spectra)) % HELD_OUT == HELD_OUT - 1) == held_out]
            picked.append(chosen)
            # In all a source weighs the root of its size, so that no large one rules the rest.
            weight = _RARE.get(name, 1.0) / max(len(chosen), 1) ** 0.5
            weights.append(torch.full((len(chosen),), weight))
        self.spectra = torch.cat(picked)
        response = torch.from_numpy(srgb_response(GRID)).float()
        self._to_luminance = response @ LUMINANCE
        colours = (self.spectra @ response).clamp_min(1e-4)
        saturation = 1 - colours.amin(1) / colours.amax(1)
        preference = torch.tensor(_VIVID)[:, None] * saturation
        self._weights = (torch.cat(weights) * preference.exp()).double()
        spread = self.spectra.std(1) / self.spectra.mean(1).clamp_min(0.01)
        self._neutrals = self.spectra[(spread < 0.08) & (self.spectra.mean(1) > 0.03)]
        self._random = random

    def draw(self, count: int, pixels: int) -> Tensor:
        """(*count*, *pixels*, 31); *pixels* is a multiple of `GROUP`."""
        palette = self._palettes(count)
        shares = self._shares(count)
        is_set = self._uniform(count, 1) < _NO_NEIGHBOURS
        of_pixel = self._picks(shares, pixels)
        of_four = self._picks(shares, pixels // 4).repeat_interleave(4, 1)
        of_group = self._picks(shares, pixels // GROUP).repeat_interleave(GROUP, 1)
        group = self._uniform(count, pixels // GROUP).repeat_interleave(GROUP, 1)
        four = self._uniform(count, pixels // 4).repeat_interleave(4, 1)
        near = torch.where(four < 0.7, of_four, of_pixel)
        near = torch.where(group < 0.6, of_group, near)
        material = _taken(palette, torch.where(is_set, of_pixel, near))
        # A pixel may show a second material: edges, dirt, light from other objects.
        other = _taken(palette, self._picks(shares, pixels))
        share = self._uniform(count, pixels, 1) ** 3 * 0.5
        scene = torch.lerp(material, other, share) * self._shading(count, pixels, is_set)
        scene = self._with_black_ground(scene, material, torch.where(is_set, four, group))
        return self._with_highlights(self._exposed(scene))

    def _palettes(self, count: int) -> Tensor:
        """Materials (N, K, 31): pure or mixed measured ones, step-like ones, and neutrals."""
        vividness = torch.randint(len(_VIVID), (count,), generator=self._random)
        picks = torch.multinomial(
            self._weights[vividness], 2 * _MATERIALS, replacement=True, generator=self._random
        )
        first, second = self.spectra[picks].chunk(2, dim=1)
        each = (count, _MATERIALS, 1)
        mixed = self._uniform(*each) * (self._uniform(*each) < 0.5)
        palette = torch.lerp(first, second, mixed)
        is_step = self._uniform(*each) < _STEP_LIKE
        palette = torch.where(is_step, self._step_like(count), palette)
        grey = torch.randint(len(self._neutrals), each[:2], generator=self._random)
        neutral = (self._neutrals[grey] * (0.3 + 0.8 * self._uniform(*each))).clamp(0, 0.97)
        of_scene = self._uniform(count, 1, 1) * 0.5 * (self._uniform(count, 1, 1) < 0.6)
        return torch.where(self._uniform(*each) < of_scene, neutral, palette)

    def _step_like(self, count: int) -> Tensor:
        """Spectra (N, K, 31) of two smooth edges each, at random wavelengths, up or down."""
        each = (count, _MATERIALS, 1)
        axis = torch.linspace(0, 1, len(GRID))
        spectra = 0.03 + 0.1 * self._uniform(*each).expand(-1, -1, len(GRID))
        for _ in range(2):
            place = self._uniform(*each) * 1.2 - 0.1
            width = 0.015 + 0.1 * self._uniform(*each)
            height = self._uniform(*each) * 0.6
            direction = torch.where(self._uniform(*each) < 0.65, 1.0, -1.0)
            spectra = spectra + height * torch.sigmoid(direction * (axis - place) / width)
        return spectra.clamp(0, 1)

    def _shares(self, count: int) -> Tensor:
        """(N, K): how much of a scene each material covers; 3 to K materials are there."""
        used = torch.randint(3, _MATERIALS + 1, (count, 1), generator=self._random)
        shares = self._uniform(count, _MATERIALS) ** 3 + 0.01
        return shares * (torch.arange(_MATERIALS) < used) + 1e-9

    def _picks(self, shares: Tensor, pixels: int) -> Tensor:
        return torch.multinomial(shares, pixels, replacement=True, generator=self._random)

    def _shading(self, count: int, pixels: int, is_set: Tensor) -> Tensor:
        """Light (N, P, 1), about alike on neighbours, and up to 65 times less in shade."""
        depth = -4.2 * self._uniform(count, 1, 1)
        alone = depth * self._uniform(count, pixels, 1) ** 1.6
        together = depth * self._uniform(count, pixels // GROUP, 1) ** 1.6
        grain = 0.15 * torch.randn(count, pixels, 1, generator=self._random)
        shaded = together.repeat_interleave(GROUP, 1) + grain
        return torch.where(is_set[..., None], alone, shaded.clamp_max(0.26)).exp()

    def _with_black_ground(self, scene: Tensor, material: Tensor, place: Tensor) -> Tensor:
        """*scene*, in which black cloth or deep shade may cover a part: where *place* is low."""
        count, pixels, _ = scene.shape
        share = (self._uniform(count, 1) < 0.45) * self._uniform(count, 1) * 0.85
        light = 0.002 + 0.03 * self._uniform(count, 1, 1) * self._uniform(count, pixels, 1)
        ground = light * (0.85 + 0.3 * material)
        return torch.where((place < share)[..., None], ground, scene)

    def _exposed(self, scene: Tensor) -> Tensor:
        """*scene* in light in which its largest reflectance is about as in `_PEAK`."""
        peak = torch.quantile(scene.amax(2), 0.99, dim=1).clamp_min(0.01).log()
        mean, deviation = _PEAK
        wanted = mean + deviation * torch.randn(len(scene), generator=self._random)
        gain = (_PEAK_SHARE * (wanted.clamp_max(-0.03) - peak)).exp()
        return (scene * gain[:, None, None]).clamp_max(_BRIGHTEST)

    def _with_highlights(self, scene: Tensor) -> Tensor:
        """*scene* with a few pixels that reflect the light as a mirror does."""
        count, pixels, _ = scene.shape
        often = 0.004 * (self._uniform(count, 1, 1) < 0.4)
        glint = self._uniform(count, pixels, 1) ** 2 * (self._uniform(count, pixels, 1) < often)
        return torch.lerp(scene, torch.ones_like(scene), glint)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random)


def _taken(palette: Tensor, material: Tensor) -> Tensor:
    """The spectra (N, P, 31) of the materials (N, P) of *palette* (N, K, 31)."""
    return palette.gather(1, material[..., None].expand(-1, -1, palette.shape[2]))
