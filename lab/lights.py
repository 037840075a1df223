"""Simulated lights: glowing bodies, daylight, lamps and LEDs, also in front of tinted glass.

Letters: N lights, at 400, 410, ..., 700 nm.
"""

import numpy as np
import torch
from torch import Tensor

from napari_mst.calibration.light.seeing import common_response, known_lights, log_ratios
from napari_mst.photo.cameras import GRID
from napari_mst.photo.lights import FAMILIES, Family

HELD_OUT_LIGHTS = (
    "FL3",
    "FL6",
    "FL9",
    "FL10",
    "FL3.2",
    "FL3.5",
    "FL3.8",
    "FL3.11",
    "FL3.14",
    "HP2",
    "HP5",
    "LED-B2",
    "LED-B4",
    "LED-RGB1",
    "LED-V2",
)
"""Lights that no training photo is taken in; estimates of the light are judged on them."""

# How often a light is of each of `FAMILIES`.
_SHARES = (0.25, 0.33, 0.25, 0.17)
# Share of the LEDs that are made up, and their number: those of the CIE are few.
_MADE_UP = 0.7
_LEDS = 3000
# Of these, the share with a phosphor; the others mix three narrow colours.
_WITH_PHOSPHOR = 0.8
# Centres and widths (nm) between which the three narrow colours lie.
_NARROW = (((445, 470), (18, 38)), ((515, 545), (28, 48)), ((600, 640), (15, 35)))
# Logarithm of a ratio of channels by which the white of a lamp may be off that of a radiator.
_TINGE = 0.08
# Standard deviations of the slope and the curvature that glass and walls add to a light.
_TINT = (0.03, 0.02)


class LightSimulator:
    """Draws lights of all families, none of `HELD_OUT_LIGHTS`; the same *random* draws the same."""

    def __init__(self, random: torch.Generator) -> None:
        self._random = random
        self._pools = [_powers(family) for family in FAMILIES]
        self._leds = self._made_up_leds(_LEDS)

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """*count* lights.

        Returns
        -------
        Their power (N, 31), of mean 1, and the index of their family in `FAMILIES` (N,).
        """
        shares = torch.tensor(_SHARES)
        family = torch.multinomial(shares, count, replacement=True, generator=self._random)
        power = torch.empty(count, len(GRID))
        for index, pool in enumerate(self._pools):
            power[family == index] = self._picked(pool, int((family == index).sum()))
        is_led = family == FAMILIES.index("LED")
        made_up = self._picked(self._leds, count)
        is_made_up = is_led & (self._uniform(count) < _MADE_UP)
        power = torch.where(is_made_up[:, None], made_up, power)
        return self._tinted(power), family

    def _tinted(self, power: Tensor) -> Tensor:
        """*power* (N, 31) with a little slope and curvature more, of mean 1."""
        axis = torch.from_numpy((GRID - 550) / 150).float()
        slope, curvature = (
            deviation * torch.randn(len(power), 1, generator=self._random) for deviation in _TINT
        )
        tinted = power * (slope * axis + curvature * (axis**2 - axis.square().mean())).exp()
        return tinted / tinted.mean(1, keepdim=True)

    def _made_up_leds(self, count: int) -> Tensor:
        """White LEDs (count, 31): those of many drawn whose white is about that of a radiator."""
        radiators = torch.cat([_powers("Planck"), _powers("daylight")])
        whites = log_ratios(radiators @ torch.from_numpy(common_response()))
        kept: list[Tensor] = []
        while sum(map(len, kept)) < count:
            drawn = self._any_leds(count)
            off = torch.cdist(log_ratios(drawn @ torch.from_numpy(common_response())), whites).amin(
                1
            )
            kept.append(drawn[off < _TINGE])
        leds = torch.cat(kept)[:count]
        return leds / leds.mean(1, keepdim=True)

    def _any_leds(self, count: int) -> Tensor:
        """LEDs (count, 31) of any colour."""
        blue = self._peak(count, (440, 475), (15, 35)) * self._between(count, 0.3, 2.2)
        phosphor = self._peak(count, (530, 580), (80, 140)) * self._between(count, 0.5, 1)
        red = self._peak(count, (590, 640), (60, 130)) * self._between(count, 0, 1)
        narrow = torch.zeros(count, len(GRID))
        for centre, width in _NARROW:
            narrow += self._peak(count, centre, width) * self._between(count, 0.45, 2.2)
        has_phosphor = self._uniform(count)[:, None] < _WITH_PHOSPHOR
        return torch.where(has_phosphor, blue + phosphor + red, narrow)

    def _peak(
        self, count: int, centres: tuple[float, float], widths: tuple[float, float]
    ) -> Tensor:
        """Bell curves (count, 31), at *centres* and of full *widths* at half maximum, in nm."""
        centre = self._between(count, *centres)
        deviation = self._between(count, *widths) / 2.355
        return (-0.5 * ((torch.from_numpy(GRID).float() - centre) / deviation) ** 2).exp()

    def _picked(self, pool: Tensor, count: int) -> Tensor:
        return pool[torch.randint(len(pool), (count,), generator=self._random)]

    def _between(self, count: int, low: float, high: float) -> Tensor:
        """(count, 1)."""
        return low + (high - low) * self._uniform(count)[:, None]

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._random)


def _powers(family: Family) -> Tensor:
    """The powers (n, 31) of a *family* that training may see."""
    powers = [
        power
        for name, (kind, power) in known_lights().items()
        if kind == family and name not in HELD_OUT_LIGHTS
    ]
    return torch.from_numpy(np.stack(powers)).float()
