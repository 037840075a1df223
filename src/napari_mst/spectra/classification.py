"""Maps of classes: each pixel gets the known spectrum that it is most like; and a spectrum its own.

Pixels with a value that is not a number get the label 0 and the angle NaN. Letters: B bands, H
rows, W columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.arrays import Doubles, Singles
from napari_mst.cube import SpectralCube
from napari_mst.cube.metrics import spectral_angles
from napari_mst.cube.spectrum import Spectrum
from napari_mst.errors import SpectrumError
from napari_mst.spectra.strips import pixels
from napari_mst.spectra.transforms import FEWEST_BANDS, covered_bands, resampled, shared_bands
from napari_mst.watch import Watched, watching

LARGEST_ANGLE = 10.0
"""Degrees: the default threshold of `classify`."""


def classify(
    cube: SpectralCube,
    spectra: Sequence[Spectrum],
    threshold: float = LARGEST_ANGLE,
    watch: Watched = None,
) -> tuple[NDArray[np.uint16], Singles]:
    """Give each pixel the spectrum with the smallest spectral angle, up to *threshold* degrees.

    Returns its label (H, W), 1 for the first spectrum and 0 for none; and the angle in degrees to
    the nearest one, (H, W).

    The bands within the range of all *spectra* count, and the spectra are interpolated to them. A
    pixel that is zero everywhere has no angle. Kruse et al., Remote Sens. Environ. 44 (1993) 145,
    doi:10.1016/0034-4257(93)90013-N.

    Raises
    ------
    SpectrumError
        If there are no spectra, they share fewer than two bands with the cube, or one is zero
        there.
    Cancelled
        Soon after *watch* was cancelled.
    """
    part, members = members_on(cube, spectra)
    labels = np.zeros(cube.shape[1:], dtype=np.uint16)
    angles = np.full(cube.shape[1:], np.nan, dtype=np.float32)
    members /= np.linalg.norm(members, axis=1, keepdims=True)
    for rows, good, values in pixels(part, watching(watch)):
        with np.errstate(invalid="ignore"):  # a pixel that is zero everywhere has no angle
            cosines = members @ values / np.sqrt(np.einsum("bn,bn->n", values, values))
        largest = cosines.max(axis=0)
        smallest = np.degrees(np.arccos(largest.clip(-1, 1)))
        angles[rows][good] = smallest
        labels[rows][good] = np.where(smallest <= threshold, cosines.argmax(axis=0) + 1, 0)
    return labels, angles


def members_on(cube: SpectralCube, spectra: Sequence[Spectrum]) -> tuple[SpectralCube, Doubles]:
    """Return the part of *cube* at the bands that all *spectra* cover, and their values there.

    The values are (spectra, bands). Raises `SpectrumError` if there are no spectra, they share
    fewer than two bands with the cube, or one has no number or no angle there.
    """
    if not spectra:
        raise SpectrumError(
            "Expected one or more spectra to compare with, got none. Pin some, or open a library."
        )
    bands = shared_bands(cube, *spectra)
    at = cube.wavelengths[bands]
    members = np.stack([resampled(spectrum, at).values for spectrum in spectra])
    is_bad = ~np.isfinite(members).all(axis=1) | ~members.any(axis=1)
    if is_bad.any():
        name = spectra[int(is_bad.argmax())].name
        raise SpectrumError(
            f"Expected spectra of numbers that are not all zero, got {name[:60]!r}. Leave it out."
        )
    # A slice of a memory-mapped cube stays on its disk; a list of bands would be read, which only
    # wavelengths in another order than a rising or falling one need.
    first, last = np.flatnonzero(bands)[[0, -1]]
    chosen = slice(first, last + 1) if bands[first:last].all() else bands
    return SpectralCube(cube.data[chosen], cube.wavelengths[chosen], cube.unit), members


@dataclass(frozen=True, eq=False)
class Match:
    """A spectrum of a library that resembles another.

    Attributes
    ----------
    angle
        Spectral angle in degrees; 0 for the same shape.
    bands
        Number of bands that were compared.
    """

    spectrum: Spectrum
    angle: float
    bands: int


def best_matches(
    spectrum: Spectrum, library: Sequence[Spectrum], count: int | None = None
) -> list[Match]:
    """The *count* spectra of *library* (default: all) nearest to *spectrum*, the nearest first.

    Each is interpolated to the bands of *spectrum* within its own range; gaps are left out. A
    spectrum that shares fewer than two bands, has another unit or is zero is not listed. Equal
    angles keep the order of the library. Angle: see `metrics.spectral_angles`.

    Raises
    ------
    SpectrumError
        If no spectrum of the library can be compared.

    Notes
    -----
    =================  ==================================================
    spectrum, library  any unit of values, since only shapes are compared
    returns            angles in degrees, 0 for the same shape
    =================  ==================================================

    Examples
    --------
    >>> leaf = nm.Spectrum([500, 550, 600], [0.1, 0.4, 0.2], name="leaf")
    >>> soil = nm.Spectrum([500, 550, 600], [0.2, 0.3, 0.4], name="soil")
    >>> matches = nm.best_matches(leaf.with_values(leaf.values * 2), [soil, leaf])
    >>> [(match.spectrum.name, round(match.angle, 1)) for match in matches]
    [('leaf', 0.0), ('soil', 26.9)]
    """
    candidates = (_match(spectrum, entry) for entry in library)
    matches = [match for match in candidates if match is not None]
    if not matches:
        raise SpectrumError(
            f"Expected a library that shares wavelengths in {spectrum.unit} with the spectrum, "
            f"got none such among {len(library)} spectra. Choose another library."
        )
    return sorted(matches, key=lambda match: match.angle)[:count]


def _match(spectrum: Spectrum, entry: Spectrum) -> Match | None:
    shared = covered_bands(spectrum, entry)
    if shared.sum() < FEWEST_BANDS:
        return None
    ours = spectrum.values[shared]
    theirs = resampled(entry, spectrum.wavelengths[shared]).values
    good = np.isfinite(ours) & np.isfinite(theirs)
    if good.sum() < FEWEST_BANDS:
        return None
    # However dark the pixel is.
    angle = float(spectral_angles(ours[good, None], theirs[good, None], dark=-np.inf)[0])
    return None if np.isnan(angle) else Match(entry, angle, int(good.sum()))
