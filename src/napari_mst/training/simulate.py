"""Scenes made of measured reflectances, and the 8-bit sRGB photos that a camera makes of them under D65.

A scene is an apparent-reflectance cube: regions of mixed materials, texture, shading, cast shadows and highlights.
All randomness comes from one seed. Letters: N scenes, K materials, B bands, H rows, W columns.
"""

import io
from importlib import resources

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from napari_mst.colour import linear_to_srgb, srgb_response, srgb_to_linear

HELD_OUT = 10
"""One spectrum in this many never enters a training scene and makes the validation scenes."""

_MATERIALS = 20
_BRIGHTEST = 1.1
_GRID = 8  # side of a JPEG block: photos are cropped at a random offset of it


def load_reflectances() -> tuple[NDArray[np.float64], dict[str, NDArray[np.float32]]]:
    """Wavelengths (nm) and measured reflectances (n, 31) by source; origins and licences: `data/README.md`."""
    path = resources.files("napari_mst").joinpath("data/reflectance31.npz")
    with path.open("rb") as stream, np.load(stream) as archive:
        spectra = {name: archive[name] for name in sorted(archive) if name != "wavelength"}
        return archive["wavelength"], spectra


class SceneSimulator:
    """Draws scenes and photos: `simulator.draw(n)` gives linear photos (N, 3, H, W) and cubes (N, 31, H, W).

    Every source of spectra is drawn with a weight of sqrt(its size), so that no large set rules the others.
    The same *seed* draws the same scenes. *held_out* selects the spectra that training never sees.
    """

    def __init__(self, seed: int, size: int = 64, held_out: bool = False) -> None:
        wavelengths, sources = load_reflectances()
        picked = [spectra[_is_held_out(len(spectra)) == held_out] for spectra in sources.values()]
        weights = np.concatenate([np.full(len(spectra), len(spectra) ** -0.5) for spectra in picked if len(spectra)])
        self.spectra = torch.from_numpy(np.concatenate(picked)).clamp(0, 1)
        self.response = torch.from_numpy(srgb_response(wavelengths)).float()
        self.size = size
        self._weights = torch.from_numpy(weights)
        self._random = torch.Generator().manual_seed(seed)

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """*count* photos as linear sRGB decoded from 8 bit, and the apparent reflectance that they show."""
        scene = self._scene(count, self.size + _GRID)
        photo = self._photograph(scene)
        top, left = (int(torch.randint(_GRID, (1,), generator=self._random)) for _ in range(2))
        window = (..., slice(top, top + self.size), slice(left, left + self.size))
        return photo[window].contiguous(), scene[window].contiguous()

    def _scene(self, n: int, size: int) -> Tensor:
        scene = torch.einsum("nkb,nkhw->nbhw", self._materials(n), self._regions(n, size))
        light = self._texture(n, size) * self._shading(n, size) * self._shadow(n, size)
        scene = scene * light + self._highlight(n, size)
        exposure = self._log_uniform(n, 0.3, 3.0)
        scene = (scene * exposure).clamp(0, _BRIGHTEST)
        return _blur(scene) if self._chance(0.3) else scene

    def _materials(self, n: int) -> Tensor:
        """Reflectances (N, K, B): measured ones, mixtures of two, each also darker than measured."""
        first, second = (self._pick(n * _MATERIALS).view(n, _MATERIALS, -1) for _ in range(2))
        share = self._uniform(n, _MATERIALS, 1) * (self._uniform(n, _MATERIALS, 1) < 0.5)
        return (first + share * (second - first)) * self._log_uniform(n, 0.3, 1.0, _MATERIALS).squeeze(-1)

    def _pick(self, count: int) -> Tensor:
        return self.spectra[torch.multinomial(self._weights, count, replacement=True, generator=self._random)]

    def _regions(self, n: int, size: int) -> Tensor:
        """Share of each material at each pixel, (N, K, H, W): from hard-edged objects to smooth blends."""
        fields = self._smooth(n, _MATERIALS, size, cells=self._integer(3, 14))
        used = self._uniform(n, _MATERIALS, 1, 1) < self._uniform(n, 1, 1, 1).clamp_min(0.1)
        used[:, 0] = True
        sharpness = self._log_uniform(n, 3, 100)
        return (fields * sharpness).masked_fill(~used, -torch.inf).softmax(dim=1)

    def _texture(self, n: int, size: int) -> Tensor:
        """Fine-grained albedo variation of one material, (N, 1, H, W)."""
        grain = self._smooth(n, 1, size, cells=self._integer(16, size))
        return (grain * self._uniform(n, 1, 1, 1) * 0.3).exp()

    def _shading(self, n: int, size: int) -> Tensor:
        """Light falling off over curved surfaces, (N, 1, H, W), at most 1."""
        relief = self._smooth(n, 1, size, cells=self._integer(2, 8))
        return (-relief.abs() * self._uniform(n, 1, 1, 1) * 1.5).exp()

    def _shadow(self, n: int, size: int) -> Tensor:
        shape = self._smooth(n, 1, size, cells=self._integer(2, 6))
        depth = self._uniform(n, 1, 1, 1) * 0.95 * (self._uniform(n, 1, 1, 1) < 0.6)
        return 1 - depth * torch.sigmoid((shape - 0.5) * 20)

    def _highlight(self, n: int, size: int) -> Tensor:
        """Specular reflection: the colour of the light, so the same in all bands."""
        glint = (self._smooth(n, 1, size, cells=self._integer(4, 20)) - 1.2).clamp_min(0)
        return glint * self._uniform(n, 1, 1, 1) * (self._uniform(n, 1, 1, 1) < 0.3)

    def _photograph(self, scene: Tensor) -> Tensor:
        """Apparent reflectance -> 8-bit sRGB photo (noise, clipping, rounding, JPEG), decoded to linear sRGB."""
        linear = torch.einsum("nbhw,bc->nchw", scene, self.response)
        gain = self._log_uniform(len(scene), 1e-6, 1e-3) * (self._uniform(len(scene), 1, 1, 1) < 0.6)
        noise = torch.randn(linear.shape, generator=self._random)
        linear = linear + noise * (gain * linear.clamp_min(0)).sqrt()
        codes = np.rint(linear_to_srgb(linear.clamp(0, 1).numpy()) * 255).astype(np.uint8)
        codes = np.stack([self._jpeg(image) if self._chance(0.35) else image for image in codes])
        return torch.from_numpy(srgb_to_linear(codes / 255)).float()

    def _jpeg(self, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        stream = io.BytesIO()
        Image.fromarray(np.moveaxis(codes, 0, -1)).save(stream, "jpeg", quality=self._integer(50, 98))
        return np.moveaxis(np.asarray(Image.open(stream)), -1, 0)

    def _smooth(self, n: int, channels: int, size: int, cells: int) -> Tensor:
        """Smooth noise of unit variance at its nodes, about *cells* bumps across, (N, channels, H, W)."""
        nodes = torch.randn(n, channels, cells, cells, generator=self._random)
        return F.interpolate(nodes, size=(size, size), mode="bicubic", align_corners=True)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random)

    def _log_uniform(self, n: int, low: float, high: float, channels: int = 1) -> Tensor:
        return low * (high / low) ** self._uniform(n, channels, 1, 1)

    def _integer(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=self._random))

    def _chance(self, probability: float) -> bool:
        return float(self._uniform(1)) < probability


def _is_held_out(count: int) -> NDArray[np.bool_]:
    return np.arange(count) % HELD_OUT == HELD_OUT - 1


def _blur(images: Tensor) -> Tensor:
    return F.avg_pool2d(F.pad(images, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
