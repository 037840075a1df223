"""Colours of spectra: CIE 1931 observer, illuminants and sRGB; and linear estimates of spectra.

Tables: ISO/CIE 11664-1:2019 (observer), ISO/CIE 11664-2:2022 (illuminants). sRGB: IEC
61966-2-1:1999.

Letters: B bands, H rows, W columns.
"""

import functools
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.base.arrays import Doubles, Floats, Singles, doubles

XYZ_TO_SRGB = np.array(
    [[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]]
)
"""CIE XYZ (white = D65, Y = 1) to linear sRGB, as printed in IEC 61966-2-1."""

SRGB_D65 = "sRGB, D65, CIE 1931 2 deg"
"""Name of the rendering of `srgb_response` in model cards."""


@functools.cache
def stored(file: str) -> Mapping[str, Doubles]:
    """The arrays of a bundled archive by name, in the order of the file; see `data/README.md`."""
    path = resources.files("napari_mst").joinpath("data", file)
    with path.open("rb") as stream, np.load(stream) as archive:
        return MappingProxyType({name: archive[name].astype(np.float64) for name in archive})


def reflectances() -> Mapping[str, Doubles]:
    """Measured reflectances (n, 31) at 400, 410, ..., 700 nm by source; see `data/README.md`.

    Random draws with a seed depend on the order of the spectra.
    """
    return stored("reflectance31.npz")


def measured_reflectances() -> Doubles:
    """The reflectances of all sources, (n, 31)."""
    return np.concatenate(list(reflectances().values()))


def colour_matching_functions(wavelengths: ArrayLike) -> Doubles:
    """CIE 1931 2 degree x, y, z at *wavelengths* (nm), (B, 3).

    Zero outside 380-780 nm, and linear between steps of 5 nm.
    """
    table = stored("cie.npz")
    tabulated = table["wavelength"]
    at = doubles(wavelengths)
    columns = [np.interp(at, tabulated, table[axis], left=0, right=0) for axis in "xyz"]
    return np.stack(columns, axis=-1)


def illuminant(name: str, wavelengths: ArrayLike) -> Doubles:
    """Relative spectral power of "D65", "A" or "E" at *wavelengths* (nm), (B,)."""
    table = stored("cie.npz")
    return np.interp(doubles(wavelengths), table["wavelength"], table[name])


def srgb_response(wavelengths: ArrayLike) -> Doubles:
    """The (B, 3) matrix from reflectance under D65 to linear sRGB.

    Reflectance 1 becomes (1, 1, 1).
    """
    at = doubles(wavelengths)
    # Each band is weighted by its share of the range, which matters for uneven spacing.
    step = np.gradient(at) if at.size > 1 else np.ones(1)
    xyz = colour_matching_functions(at) * (illuminant("D65", at) * step)[:, None]
    rgb = xyz @ XYZ_TO_SRGB.T
    return rgb / rgb.sum(axis=0)


def render_srgb(cube: Floats, wavelengths: ArrayLike) -> Singles:
    """Reflectance cube (B, H, W) -> linear sRGB (3, H, W).

    Nothing is clipped: colours outside the gamut have negative values.
    """
    response = srgb_response(wavelengths).astype(np.float32)
    return np.einsum("bhw,bc->chw", cube, response, dtype=np.float32, optimize=True)


def interpolation(at: Doubles, wavelengths: Doubles) -> Doubles:
    """The matrix (n, m) that interpolates values at *wavelengths* (m,) to the positions *at* (n,).

    Linear between the wavelengths, and constant beyond them.
    """
    order = np.argsort(wavelengths)
    matrix = np.empty((len(at), len(wavelengths)))
    matrix[:, order] = np.stack(
        [np.interp(at, wavelengths[order], unit) for unit in np.eye(len(wavelengths))], 1
    )
    return matrix


def averaging(at: Doubles, wavelengths: Doubles) -> Doubles:
    """The matrix (n, m) that averages values at *wavelengths* over the wider bands *at*.

    The response of a band is a triangle that ends at its neighbours. Bands that reach beyond the
    *wavelengths*, or contain too few of them, are interpolated as by `interpolation`.
    """
    step = float(np.median(np.abs(np.diff(at)))) if at.size > 1 else 1.0
    near = (1 - np.abs(at[:, None] - wavelengths) / step).clip(0)
    is_whole = (at - step >= wavelengths.min()) & (at + step <= wavelengths.max())
    is_fine = is_whole & (np.count_nonzero(near, axis=1) > 2)
    matrix = interpolation(at, wavelengths)
    matrix[is_fine] = near[is_fine] / near[is_fine].sum(axis=1, keepdims=True)
    return matrix


def srgb_to_linear(encoded: Floats) -> Floats:
    """sRGB code values (0-1) -> linear light (0-1), IEC 61966-2-1."""
    encoded = np.asarray(encoded)
    power = ((np.maximum(encoded, 0) + 0.055) / 1.055) ** 2.4
    return np.where(encoded <= 0.04045, encoded / 12.92, power)


def linear_to_srgb(linear: Floats) -> Floats:
    """Linear light (0-1) -> sRGB code values (0-1); the inverse of `srgb_to_linear`."""
    linear = np.asarray(linear)
    root = 1.055 * np.maximum(linear, 0) ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, linear * 12.92, root)


def linear_estimate(spectra: Floats, response: Floats) -> Doubles:
    """Least-squares (Wiener) matrix (B, 3) from linear RGB to spectra.

    The fit uses *spectra* (n, B) seen through *response* (B, 3).
    """
    samples = doubles(spectra)
    matrix, *_ = np.linalg.lstsq(samples @ response, samples, rcond=None)
    return doubles(matrix.T)
