"""Which spectra of a library a spectrum resembles most, by spectral angle."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from napari_mst.errors import SpectrumError
from napari_mst.metrics import spectral_angles
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.spectra.transforms import resampled

FEWEST_BANDS = 2


@dataclass(frozen=True, eq=False)
class Match:
    """A spectrum of a library and its spectral angle in degrees, 0 for the same shape; on how many bands."""

    spectrum: Spectrum
    angle: float
    bands: int


def best_matches(
    spectrum: Spectrum, library: Sequence[Spectrum], count: int | None = None
) -> list[Match]:
    """The *count* spectra of *library* (all by default) that are nearest to *spectrum*, the nearest first.

    Each is compared at the bands of *spectrum* within its own range, to which it is interpolated; gaps are left out.
    Those that share fewer than two bands, another unit, or are zero, are not listed. Equal angles keep the order of
    the library. Angle: see `metrics.spectral_angles`.

    Raises
    ------
    SpectrumError
        If no spectrum of the library can be compared.
    """
    matches = [match for entry in library if (match := _match(spectrum, entry)) is not None]
    if not matches:
        raise SpectrumError(
            f"Expected a library that shares wavelengths in {spectrum.unit} with the spectrum, got none such among "
            f"{len(library)} spectra. Choose another library."
        )
    return sorted(matches, key=lambda match: match.angle)[:count]


def _match(spectrum: Spectrum, entry: Spectrum) -> Match | None:
    if entry.unit != spectrum.unit:
        return None
    shared = (spectrum.wavelengths >= entry.wavelengths.min()) & (
        spectrum.wavelengths <= entry.wavelengths.max()
    )
    if shared.sum() < FEWEST_BANDS:
        return None
    ours, theirs = spectrum.values[shared], resampled(entry, spectrum.wavelengths[shared]).values
    good = np.isfinite(ours) & np.isfinite(theirs)
    if good.sum() < FEWEST_BANDS:
        return None
    angle = float(
        spectral_angles(ours[good, None, None], theirs[good, None, None], dark=-np.inf)[0, 0]
    )
    return None if np.isnan(angle) else Match(entry, angle, int(good.sum()))
