"""The lights that a photo may have been taken in, and the posterior that the network gives of them.

The posterior is a mixture of families, each with its white as a Gaussian. A white is two numbers,
the logarithms of red over green and of blue over green in the common space (see `seeing`). Letters:
N photos, F families, K known lights.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.arrays import Doubles
from napari_mst.photo.cameras import SRGB, camera_response, load_illuminants
from napari_mst.photo.lights import FAMILIES, Family, daylight, planckian

_PLANCK_MIREDS = np.linspace(100, 480, 39)  # 10,000 K to 2,083 K
_DAYLIGHT_MIREDS = np.linspace(60, 250, 39)  # 16,667 K to 4,000 K
_LIKE_DAYLIGHT = ("B", "C", "E", "flash", "D50", "D55", "D65", "D75")
_GLOWING = ("A", "horizon", "tungsten")
_LEAST_RATIO = 0.01


@functools.cache
def known_lights() -> Mapping[str, tuple[Family, Doubles]]:
    """All lights by the names that a `Capture` takes: radiators, phases of daylight and lamps.

    Each is its family, and its relative spectral power (31,) of mean 1.
    """
    lights: dict[str, tuple[Family, Doubles]] = {}
    for mired in _PLANCK_MIREDS:
        kelvin = round(1e6 / mired)
        lights[f"Planck {kelvin} K"] = "Planck", planckian(kelvin)
    for mired in _DAYLIGHT_MIREDS:
        kelvin = round(1e6 / mired)
        lights[f"daylight {kelvin} K"] = "daylight", daylight(kelvin)
    for name, power in load_illuminants().items():
        lights[name] = _family_of(name), power / power.mean()
    return MappingProxyType(lights)


def _family_of(name: str) -> Family:
    """The family of a light of `load_illuminants`."""
    if name in _GLOWING:
        return "Planck"
    if name in _LIKE_DAYLIGHT:
        return "daylight"
    return "LED" if name.startswith("LED") else "fluorescent"


def log_ratios(white: Tensor) -> Tensor:
    """Logarithms of red over green and of blue over green: (..., 3) -> (..., 2).

    They end at 1 : 100, since sodium lamps have less than no blue in sRGB.
    """
    ratios = torch.stack([white[..., 0], white[..., 2]], -1) / white[..., 1:2]
    return ratios.clamp_min(_LEAST_RATIO).log()


@functools.cache
def common_response() -> Tensor:
    """(31, 3): the sRGB observer under equal power, in whose space all cameras are compared."""
    return torch.from_numpy(camera_response(SRGB, "E")).float()


_NUMBERS = 6  # of each family: its share, a white, and three of a Gaussian's shape
OUTPUTS = _NUMBERS * len(FAMILIES)
"""Outputs that the network needs."""

# The mean whites of the families' lights, the guess for a photo that shows nothing.
_USUAL = ((0.38, -0.52), (-0.18, 0.06), (0.23, -0.50), (0.38, -0.60))
# Weight of the photo's own mean colour in the first guess; the rest is that of the usual white.
_OWN = 0.7
_STEP = 0.5
# Logarithms of the inverse widths of a Gaussian, e^2.5 = 12 being a width of 0.08.
_INVERSE_WIDTH = 2.5
_WIDTHS = (-1.0, 5.5)
_SKEW = 5.0


class LightPosterior(NamedTuple):
    """The families and whites that photos may have.

    Attributes
    ----------
    log_shares
        (N, F): logarithms of the families' probabilities.
    whites
        (N, F, 2): the mean of each family's Gaussian.
    log_widths, skews
        (N, F, 2) and (N, F): the Cholesky factor of each inverse covariance: logarithms of its
        diagonal, and the number beside it.
    """

    log_shares: Tensor
    whites: Tensor
    log_widths: Tensor
    skews: Tensor

    def log_densities(self, white: Tensor) -> Tensor:
        """Logarithm of each family's density at whites (N, K, 2) or (K, 2): (N, K, F)."""
        off = white[..., None, :] - self.whites[:, None]
        inverse_width = self.log_widths[:, None].exp()
        first = inverse_width[..., 0] * off[..., 0]
        second = inverse_width[..., 1] * off[..., 1] + self.skews[:, None] * off[..., 0]
        squares = first**2 + second**2
        return self.log_widths.sum(-1)[:, None] - squares / 2 - math.log(2 * math.pi)


def posterior_of(outputs: Tensor, mean_colour: Tensor) -> LightPosterior:
    """The meaning of outputs (N, 24) for photos of these mean colours (N, 2)."""
    numbers = outputs.unflatten(-1, (len(FAMILIES), _NUMBERS))
    usual = torch.tensor(_USUAL).to(outputs)
    guess = (1 - _OWN) * usual + _OWN * mean_colour[:, None]
    return LightPosterior(
        log_shares=numbers[..., 0].log_softmax(-1),
        whites=guess + _STEP * numbers[..., 1:3],
        log_widths=(numbers[..., 3:5] + _INVERSE_WIDTH).clamp(*_WIDTHS),
        skews=_SKEW * numbers[..., 5],
    )


@dataclass(frozen=True, eq=False)
class KnownLights:
    """Known lights: *names* and *families* (K), *powers* (K, 31) of mean 1, *whites* (K, 2)."""

    names: tuple[str, ...]
    families: NDArray[np.str_]
    powers: Doubles
    whites: Tensor

    def probabilities(self, posterior: LightPosterior) -> Doubles:
        """The probability (K,) of each light: the mean over the N views of one photo.

        The share of a family is divided among its lights by the density at their whites.
        """
        densities = posterior.log_densities(self.whites).double()
        shares = posterior.log_shares.double().exp()
        by_light = torch.zeros(densities.shape[:2], dtype=torch.float64)
        for index, family in enumerate(FAMILIES):
            of_family = torch.from_numpy(self.families == family)
            within = densities[:, of_family, index].softmax(-1)
            by_light[:, of_family] = shares[:, index, None] * within
        return by_light.mean(0).numpy()


@functools.cache
def light_table(without: str = "") -> KnownLights:
    """All known lights, but not the one of the name *without*."""
    lights = {name: light for name, light in known_lights().items() if name != without}
    families, powers = (np.array(each) for each in zip(*lights.values(), strict=True))
    whites = torch.from_numpy(powers).float() @ common_response()
    return KnownLights(tuple(lights), families, powers, log_ratios(whites))
