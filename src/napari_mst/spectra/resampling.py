"""A cube at other bands: at other wavelengths, or as another sensor would see it.

Letters: B bands, H rows, W columns; M bands of the result.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.arrays import Doubles, Singles
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import interpolation
from napari_mst.cube.parts import ABOUT_BANDS
from napari_mst.cube.spectrum import Spectrum
from napari_mst.errors import CubeError, shown
from napari_mst.spectra.strips import raw_strips
from napari_mst.watch import Watched, watching

MOST_OUTSIDE = 0.05
"""The share of a response that may lie outside the wavelengths of the cube."""


def resample(
    cube: SpectralCube,
    to: ArrayLike | Sequence[Spectrum],
    *,
    watch: Watched = None,
) -> SpectralCube:
    """*cube* at other bands, in float32; it is worked on a few rows at a time.

    Metadata that describe single bands are left out; the others stay.

    Parameters
    ----------
    cube
        With wavelengths in nm that rise or fall.
    to
        Wavelengths in nm (M,): each new band is interpolated linearly between its neighbours. Or M
        spectra that are the responses of a sensor, in nm: each new band is the mean of the spectrum
        weighted by the response, and lies at the response's centre of gravity.

    Raises
    ------
    CubeError
        If the cube has no wavelengths in nm, or they do not rise or fall; a wavelength lies outside
        them; or more than a twentieth of a response does, or the response is nowhere above zero.
    Cancelled
        Soon after *watch* was cancelled.

    Notes
    -----
    =======  =====================================================
    cube     any unit; wavelengths in nm
    to       nm; or responses of 0 or more, relative to each other
    returns  float32 in the unit of the cube
    =======  =====================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.zeros((3, 40, 50), np.float32), [500, 550, 600])
    >>> nm.resample(cube, [510, 520]).shape
    (2, 40, 50)
    >>> green = nm.Spectrum([500, 550, 600], [0, 1, 0], name="green")
    >>> nm.resample(cube, [green]).wavelengths
    array([550.])
    """
    _check(cube)
    metadata = {key: cube.metadata[key] for key in cube.metadata if key not in ABOUT_BANDS}
    if isinstance(to, Sequence) and to and isinstance(to[0], Spectrum):
        responses = [response for response in to if isinstance(response, Spectrum)]
        matrix = np.stack([_weights(cube.wavelengths, response) for response in responses])
        centres = matrix @ cube.wavelengths
        metadata["band names"] = tuple(response.name for response in responses)
    else:
        centres = np.atleast_1d(np.asarray(to, dtype=np.float64))
        matrix = _between_bands(cube.wavelengths, centres)
    _, height, width = cube.shape
    data = np.empty((len(matrix), height, width), dtype=np.float32)
    for rows, strip in raw_strips(cube, watching(watch)):
        data[:, rows] = _mixed(matrix, strip)
    return replace(
        cube,
        data=data,
        wavelengths=centres,
        metadata=metadata,
        provenance=cube.provenance.with_cut(f"resampled to {len(data)} bands"),
        quality=None,
    )


def _check(cube: SpectralCube) -> None:
    steps = np.diff(cube.wavelengths)
    if not cube.has_wavelengths or not ((steps > 0).all() or (steps < 0).all()):
        raise CubeError(
            f"Expected a cube with wavelengths in nm that rise or fall, got unit "
            f"{shown(cube.unit)}. Sort its bands, or give it wavelengths."
        )


def _between_bands(wavelengths: Doubles, at: Doubles) -> Doubles:
    """(M, B): takes a spectrum to the wavelengths *at*, linear between its bands."""
    low = wavelengths.min()
    high = wavelengths.max()
    is_inside = (at >= low) & (at <= high)
    if at.ndim != 1 or not at.size or not is_inside.all():
        raise CubeError(
            f"Expected wavelengths within {low:g}-{high:g} nm, got {shown(at.tolist(), 60)}. "
            "Choose others; spectra are not extrapolated."
        )
    return interpolation(at, wavelengths)


def _weights(wavelengths: Doubles, response: Spectrum) -> Doubles:
    """Return the weights (B,) of the bands in the mean of one response; their sum is 1."""
    name = shown(response.name or "a response", 40)
    if not response.has_wavelengths:
        raise CubeError(f"Expected wavelengths in nm for {name}, got {shown(response.unit)}.")
    order = np.argsort(response.wavelengths)
    sampled = response.wavelengths[order]
    values = np.nan_to_num(response.values[order])
    is_outside = (sampled < wavelengths.min()) | (sampled > wavelengths.max())
    widths = np.abs(np.gradient(sampled)) if sampled.size > 1 else np.ones(1)
    total = float(values @ widths)
    outside = float(values[is_outside] @ widths[is_outside])
    if total <= 0 or outside > MOST_OUTSIDE * total:
        raise CubeError(
            f"Expected {name} within {wavelengths.min():g}-{wavelengths.max():g} nm and above "
            f"zero, got {sampled[0]:g}-{sampled[-1]:g} nm. Leave this band out."
        )
    at = np.interp(wavelengths, sampled, values, left=0, right=0)
    # Where bands are spaced unevenly, each weighs as much as the range that it stands for.
    step = np.abs(np.gradient(wavelengths)) if wavelengths.size > 1 else np.ones(1)
    weights = at * step
    if not weights.any():
        raise CubeError(
            f"Expected {name} to span a band of the cube, got one between two bands. "
            "Give its wavelength instead."
        )
    return weights / weights.sum()


def _mixed(matrix: Doubles, strip: NDArray[np.generic]) -> Singles:
    """Return the strip (B, k, W) in the new bands, (M, k, W)."""
    mixed = np.empty((len(matrix), *strip.shape[1:]), dtype=np.float32)
    for band, weights in enumerate(matrix):
        # Bands that weigh nothing are left out: 0 times no number is no number.
        used = np.flatnonzero(weights)
        mixed[band] = np.tensordot(weights[used], strip[used].astype(np.float64), axes=1)
    return mixed
