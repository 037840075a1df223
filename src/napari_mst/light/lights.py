"""The lights that a photo may have been taken in, and the space in which whites are compared."""

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.photo.cameras import SRGB, camera_response, load_illuminants
from napari_mst.photo.lights import Family, daylight, planckian

Doubles = NDArray[np.float64]
"""An array of numbers in double precision."""

_PLANCK_MIREDS = np.linspace(100, 480, 39)  # 10,000 K to 2,083 K
_DAYLIGHT_MIREDS = np.linspace(60, 250, 39)  # 16,667 K to 4,000 K
_LIKE_DAYLIGHT = ("B", "C", "E", "flash", "D50", "D55", "D65", "D75")
_GLOWING = ("A", "horizon", "tungsten")
_LEAST_RATIO = 0.01


class NamedLight(NamedTuple):
    """A light that a `Capture` can name.

    Attributes
    ----------
    family
        The kind of light.
    power
        Relative spectral power (31,), of mean 1.
    """

    family: Family
    power: Doubles


@functools.cache
def known_lights() -> Mapping[str, NamedLight]:
    """All lights by the names that a `Capture` takes: radiators, phases of daylight and lamps."""
    lights: dict[str, NamedLight] = {}
    for mired in _PLANCK_MIREDS:
        kelvin = round(1e6 / mired)
        lights[f"Planck {kelvin} K"] = NamedLight("Planck", planckian(kelvin))
    for mired in _DAYLIGHT_MIREDS:
        kelvin = round(1e6 / mired)
        lights[f"daylight {kelvin} K"] = NamedLight("daylight", daylight(kelvin))
    for name, power in load_illuminants().items():
        lights[name] = NamedLight(_family_of(name), power / power.mean())
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
