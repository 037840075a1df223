"""Computed lights: black bodies, daylight, and mixtures of lights.

Their names define them: "Planck 3200 K", "daylight 5600 K", "0.7 A + 0.3 LED-B3".
References: CIE 015:2018 (daylight, its components S0, S1 and S2).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np

from napari_mst.base.arrays import Doubles, doubles
from napari_mst.base.errors import CameraError
from napari_mst.cube.colour import stored

Family = Literal["Planck", "daylight", "fluorescent", "LED"]
"""A kind of light: black body, sky, LED, or gas discharge ("fluorescent"), even sodium lamps."""

Power = Doubles
"""Values of a light or a sensor at `WAVELENGTHS`."""

FAMILIES: tuple[Family, ...] = ("Planck", "daylight", "fluorescent", "LED")

WAVELENGTHS = np.arange(400.0, 701, 10)
"""Wavelengths (nm) of the lights of this module."""

LARGEST = 12
"""Most lights in a mixture."""

_SECOND_RADIATION = 1.438776877e-2  # m K, second radiation constant (SI)
_RADIATOR = re.compile(r"(planck|daylight) (\d+(?:\.\d+)?) ?k", re.IGNORECASE)
_SHARE = re.compile(r"(\d*\.?\d+) +(\S.*)")
_HOTTEST = 25_000.0  # K


def planckian(kelvin: float) -> Power:
    """Relative spectral power (31,) of a black body of this temperature, by Planck's law."""
    metres = WAVELENGTHS * 1e-9
    power = metres**-5 / np.expm1(_SECOND_RADIATION / (metres * kelvin))
    return power / power.mean()


def daylight_chromaticity(kelvin: float) -> tuple[float, float]:
    """CIE x and y of daylight of 4000 to 25000 K, by CIE 015:2018."""
    inverse = 1000 / kelvin
    # One polynomial applies up to 7000 K, another above.
    if kelvin <= 7000:
        x = ((-4.6070 * inverse + 2.9678) * inverse + 0.09911) * inverse + 0.244063
    else:
        x = ((-2.0064 * inverse + 1.9018) * inverse + 0.24748) * inverse + 0.237040
    return x, (-3 * x + 2.870) * x - 0.275


def daylight(kelvin: float) -> Power:
    """Relative spectral power (31,) of daylight of this colour temperature, by CIE 015:2018."""
    x, y = daylight_chromaticity(kelvin)
    scale = 0.0241 + 0.2562 * x - 0.7341 * y
    first = (-1.3515 - 1.7703 * x + 5.9114 * y) / scale
    second = (0.0300 - 31.4424 * x + 30.0717 * y) / scale
    s0, s1, s2 = stored("daylight31.npz")["components"]
    power = s0 + first * s1 + second * s2
    return power / power.mean()


def mixture(parts: Iterable[tuple[float, Power]]) -> Power:
    """Relative spectral power (31,) of a mixture of lights, each with its share of the power."""
    total = np.sum([share * power / power.mean() for share, power in parts], axis=0)
    return doubles(total)


def mixture_name(parts: Mapping[str, float]) -> str:
    """Name of a mixture from the shares of its lights: "0.70 A + 0.30 LED-B3"."""
    return " + ".join(f"{share:.2f} {name}" for name, share in parts.items())


# CIE 015 defines daylight from 4000 K on.
_RADIATORS = {"planck": (planckian, 1000.0), "daylight": (daylight, 4000.0)}


def made_light(name: str, listed: Callable[[str], Power | None]) -> Power | None:
    """The light (31,) that *name* defines, or None.

    *listed* returns a tabulated light by name, or None. Raises `CameraError` for a mixture of more
    than `LARGEST` lights.
    """
    return _radiator(name) if "+" not in name else _mixed(name, listed)


def _radiator(name: str) -> Power | None:
    match = _RADIATOR.fullmatch(name.strip())
    if match is None:
        return None
    make, lowest = _RADIATORS[match[1].lower()]
    kelvin = float(match[2])
    return make(kelvin) if lowest <= kelvin <= _HOTTEST else None


def _mixed(name: str, listed: Callable[[str], Power | None]) -> Power | None:
    parts = []
    for text in name.split("+"):
        match = _SHARE.fullmatch(text.strip())
        light = None
        if match:
            light = _radiator(match[2])
            light = listed(match[2]) if light is None else light
        if match is None or light is None or float(match[1]) <= 0:
            return None
        parts.append((float(match[1]), light))
    if len(parts) > LARGEST:
        raise CameraError(
            f"Expected at most {LARGEST} lights in a mixture, got {len(parts)}. "
            "Leave out the weakest."
        )
    return mixture(parts)
