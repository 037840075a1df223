"""The spectra of a library that a spectrum resembles most, by spectral angle."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from napari_mst.cube.metrics import spectral_angles
from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.spectra.transforms import FEWEST_BANDS, covered_bands, resampled


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
    shared = covered_bands(spectrum, [entry])
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
