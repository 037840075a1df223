"""Illuminants to view a cube under, from the CIE, measurements and files, and their colours.

`data/README.md` lists the origins and licences of the tables. `photo.cameras` has the lights in
which photos are taken and which the bundled model knows.
"""

import difflib
import functools
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.base.arrays import Doubles, Floats, doubles
from napari_mst.base.errors import CameraError, CubeFileError, shown
from napari_mst.cube.colour import (
    XYZ_TO_SRGB,
    colour_matching_functions,
    interpolation,
    srgb_response,
    stored,
)
from napari_mst.cube.curves import NANOMETRES, text_of
from napari_mst.cube.text_tables import parsed

DAYLIGHT = "D65"
"""Name of the illuminant of sRGB."""

_COVERED = (400.0, 700.0)
"""Range (nm) that a light must cover; the eye sees little outside it."""


@runtime_checkable
class Curve(Protocol):
    """Anything with values over wavelengths in nm, such as a `Spectrum`."""

    @property
    def wavelengths(self) -> Doubles:
        """(n,), in nm."""
        ...

    @property
    def values(self) -> Doubles:
        """(n,), relative."""
        ...


Light = str | PathLike[str] | Curve
"""A name from `illuminant_names`, a CSV file of wavelength (nm) and power, or a curve."""


_FINE = 10.0  # nm, the widest spacing of bands at which the CIE sums over the bands themselves
_EVEN = 0.01  # largest deviation of a step from the mean step, as a share of it
BRADFORD = np.array(
    [[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]]
)
"""From CIE XYZ to sharpened cone responses, where von Kries' rule applies: ICC.1:2022, annex E."""


LightTable = tuple[Doubles, Doubles]
"""Rising wavelengths (n,) and the spectral power (n,) at each."""


def illuminant_names() -> list[str]:
    """The names of all lights; the three most common come first."""
    first = [DAYLIGHT, "A", "LED-B3"]
    return [*first, *sorted(set(_tables()) - set(first), key=str.lower)]


def illuminant_power(light: Light, wavelengths: ArrayLike) -> Doubles:
    """Relative spectral power of *light* at *wavelengths* (nm), (B,).

    The power is linear between the steps of its table, and constant beyond its ends. Case, spaces
    and punctuation in names do not matter.

    Raises
    ------
    CameraError
        If the light is unknown, has negative numbers or only zeros, or does not cover 400-700 nm.
    """
    at = doubles(wavelengths)
    return np.interp(at, *table_of(light))


def illuminant_title(light: Light) -> str:
    """The name of *light* for pictures and messages: its listed name or its file name."""
    if isinstance(light, Curve):
        return shown(getattr(light, "name", "") or "a curve", 40)
    return _spellings().get(plain(str(light))) or shown(Path(light).name, 40)


def colour_weights(
    wavelengths: ArrayLike, light: Light = DAYLIGHT, *, is_chromatically_adapted: bool = True
) -> Doubles:
    """The (B, 3) matrix from reflectance at *wavelengths* (nm) to linear sRGB under *light*.

    With chromatic adaptation, reflectance 1 is white, (1, 1, 1), under any light: Bradford's
    transform (ICC.1:2022, annex E). Without it, reflectance 1 has the colour of the light relative
    to D65, and its largest channel is 1, so that white is not clipped.

    Evenly spaced bands at most 10 nm apart are summed (CIE 015:2018). Other bands define a curve,
    linear between bands and constant beyond them, which is integrated in steps of 1 nm.
    """
    at = doubles(wavelengths)
    # D65 is the white of sRGB and needs no adaptation. Using the networks' own response makes the
    # cube of a photo reproduce the exact codes of that photo.
    if isinstance(light, str) and illuminant_title(light) == DAYLIGHT and _is_fine(at):
        return srgb_response(at)
    weights = _xyz_weights(at, light)
    weights = weights / weights[:, 1].sum()
    if is_chromatically_adapted:
        # Converts X, Y, Z under a light of this white into X, Y, Z under D65.
        daylight = np.linalg.inv(XYZ_TO_SRGB).sum(axis=1)
        gains = (BRADFORD @ daylight) / (BRADFORD @ weights.sum(axis=0))
        weights = weights @ (np.linalg.inv(BRADFORD) @ (gains[:, None] * BRADFORD)).T
    rgb = weights @ XYZ_TO_SRGB.T
    # The printed matrix has four decimals, so its white differs slightly from (1, 1, 1).
    return rgb / (rgb.sum(axis=0) if is_chromatically_adapted else rgb.sum(axis=0).max())


def render_lab(cube: Floats, wavelengths: ArrayLike, light: Light = DAYLIGHT) -> Doubles:
    """Reflectance (B, ...) -> CIELAB under *light* (3, ...), ISO/CIE 11664-4:2019.

    Reflectance 1 is white. CIE 1931 2 degree observer.
    """
    weights = _xyz_weights(doubles(wavelengths), light)
    relative = np.tensordot((weights / weights.sum(axis=0)).T, cube, axes=1)
    straight = relative * (29 / 6) ** 2 / 3 + 4 / 29  # near black, where a root would be too steep
    x, y, z = np.where(relative > (6 / 29) ** 3, np.cbrt(relative), straight)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _is_fine(wavelengths: Doubles) -> bool:
    """True if the bands rise in even steps of at most 10 nm."""
    steps = np.diff(wavelengths)
    mean = float(steps.mean())
    return 0 < mean <= _FINE and bool(np.abs(steps - mean).max() <= _EVEN * mean)


def _xyz_weights(wavelengths: Doubles, light: Light) -> Doubles:
    """(B, 3), from reflectance under *light* to X, Y, Z on an arbitrary scale."""
    if _is_fine(wavelengths):
        power = illuminant_power(light, wavelengths)
        return colour_matching_functions(wavelengths) * power[:, None]
    grid = np.arange(380.0, 781.0)
    seen = colour_matching_functions(grid) * illuminant_power(light, grid)[:, None]
    # A file may list bands in any order, and two detectors may share wavelengths.
    rising, first = np.unique(wavelengths, return_index=True)
    weights = np.zeros((len(wavelengths), 3))
    weights[first] = interpolation(grid, rising).T @ seen
    return weights


def names_a_file(name: str | PathLike[str]) -> bool:
    """True if a file of this *name* exists, whatever it holds."""
    # `Path.is_file` raises OSError for a name that is too long.
    return os.path.isfile(name)  # noqa: PTH113


def measured(path: Path, columns: int) -> tuple[Doubles, Doubles]:
    """The *columns* curves of a light or a camera in a text file, with a `CurveWarning` for doubts.

    Returns
    -------
    The rising wavelengths (n,) in nm at which all curves are known, and the values (n, *columns*).

    Raises
    ------
    CameraError
        If the file holds other curves, or curves that do not cover 400-700 nm.
    """
    try:
        curves = parsed(text_of(path), path.name, columns=columns)
    except CubeFileError as error:
        raise CameraError(str(error)) from error
    curves.warn()
    finite = np.flatnonzero(np.isfinite(curves.values).all(axis=0))
    rising = finite[np.argsort(curves.wavelengths[finite])]
    wavelengths = curves.wavelengths[rising]
    low, high = _COVERED
    if curves.unit != NANOMETRES or not _is_covered(wavelengths):
        raise CameraError(
            f"Expected numbers from {low:g} to {high:g} nm in {shown(path.name)}, got others. "
            "Measure them there."
        )
    return wavelengths, curves.values[:, rising].T


def numbers_of(row: Sequence[str]) -> list[float]:
    """The texts of *row* as numbers; empty if one is no number."""
    try:
        return [float(text) for text in row]
    except ValueError:
        return []


def table_of(light: Light) -> LightTable:
    """The table of *light*. Raises `CameraError` if it is unknown or unusable."""
    if isinstance(light, Curve):
        order = np.argsort(light.wavelengths)
        wavelengths, power = light.wavelengths[order], light.values[order]
    elif plain(str(light)) in _spellings():
        return _tables()[_spellings()[plain(str(light))]]
    elif names_a_file(light):
        wavelengths, columns = measured(Path(light), columns=1)
        power = columns[:, 0]
    else:
        names = illuminant_names()
        raise CameraError(
            f"Expected a CSV file or a light as {nearest(str(light), names)}, got "
            f"{shown(str(light))!r}. Check the spelling: `napari-mst render --help` lists them."
        )
    is_power = np.isfinite(power).all() and (power >= 0).all() and power.any()
    if not is_power or not _is_covered(wavelengths):
        low, high = _COVERED
        raise CameraError(
            f"Expected a light of positive numbers from {low:g} to {high:g} nm in "
            f"{illuminant_title(light)}, got others. Measure it there."
        )
    return wavelengths, power


def _is_covered(wavelengths: Doubles) -> bool:
    """True if rising *wavelengths* cover the visible range."""
    low, high = _COVERED
    return bool(wavelengths.size and wavelengths[0] <= low and wavelengths[-1] >= high)


def nearest(name: str, names: Sequence[str]) -> str:
    """The *names* closest in spelling to *name*, or the first ones, for a message."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
    return ", ".join(near)


def plain(name: str) -> str:
    """The letters and digits of *name* in lower case, equal for all spellings."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


@functools.cache
def _spellings() -> Mapping[str, str]:
    return {plain(name): name for name in _tables()}


@functools.cache
def _tables() -> Mapping[str, LightTable]:
    """Every bundled light, by name."""
    fine = stored("cie.npz")
    at = np.arange(400.0, 701, 10)
    lights = {name: (at, power) for name, power in stored("lights31.npz").items()}
    for name in fine.keys() - {"wavelength", "x", "y", "z"}:
        lights[name] = (fine["wavelength"], fine[name])
    return lights
