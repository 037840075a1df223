"""Compares each known spectrum with the photo at its place, before anything is learnt from it.

A spectrum whose colour is not that of the photo is looked for within a few pixels, and left out
where it is not found; a factor that all spectra share is a wrong white. Of many spectra, one that
the others contradict is left out as well. Letters: B bands, n spots.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from napari_mst.adaptation.fitting import fitted_kernel, scaled_bands
from napari_mst.adaptation.kernel import band_scale
from napari_mst.adaptation.known import BRIGHTEST, KnownSpectrum, known_values
from napari_mst.adaptation.parts import ColourView
from napari_mst.adaptation.process import EXACT, Spots, leave_one_out, without_gaps
from napari_mst.arrays import Doubles, Indices, Mask
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb, srgb_response
from napari_mst.cube.metrics import delta_e
from napari_mst.spectra.spectrum import Spectrum

# CIEDE2000 between a spectrum and the photo from which on they disagree: see docs/known_spectra.md.
_MOST = 5.0
_MOST_OF_JPEG = 8.0
_OF_UNCERTAINTY = 50.0
"""CIEDE2000 for a relative error of 1: two standard deviations of a mid grey."""

_FARTHEST = 3  # pixels that a spot is looked for, in each direction
_NEARLY = 0.4  # of the distance that disagrees: a spot is moved to where its colour is nearer
_FEWEST = 3  # spectra from which on a common factor or shift is looked for
_LEAST_FACTOR = 0.1  # logarithm of a common factor, and the least multiple of its spread
_SPREAD = 3.0
_UNEXPLAINED = 0.4  # share of the spectra that may still disagree after a common shift
_GREY = 0.05  # logarithm by which the gains of the channels differ if they are one brightness
_MANY = 12  # spectra that can contradict a single one
_EXCEEDED = 15.0  # its squared error over the expected one, times the median of all spectra
_UNUSUAL = 2.0  # times the usual distance of all spectra, which the photo may be off
_FAR = 10.0  # CIEDE2000 beyond which a spectrum that is off counts no more
_DARKEST = 1e-4  # linear light, under the logarithm

Shift = tuple[int, int]
_RANGE = range(-_FARTHEST, _FARTHEST + 1)
_SHIFTS: list[Shift] = sorted(product(_RANGE, _RANGE), key=lambda by: by[0] ** 2 + by[1] ** 2)


class Checked(NamedTuple):
    """The *known* spectra to learn from, and the *doubts* about them and the others, in words."""

    known: list[KnownSpectrum]
    doubts: list[str]


def checked(
    cube: SpectralCube, view: ColourView | None, known: Sequence[KnownSpectrum], is_jpeg: bool
) -> Checked:
    """*known* spectra as far as they have the colours of the photo; all of them without a view.

    Those that a person insists on, and those that the photo was calibrated with, stay as they are.
    """
    if view is None or not known:
        return Checked([*known], [])
    colours = _Colours(cube, view, known, _MOST_OF_JPEG if is_jpeg else _MOST)
    factor, doubts = colours.common_factor()
    if not colours.is_off().any():
        return Checked([_divided(spot, factor) for spot in known], doubts)
    distances = colours.distances()
    common = colours.common_shift()
    if any(common):
        doubts.append(f"The known spectra were {_moved_by(common)} their colours.")
    usual = colours.allow_for_photo(common)
    if usual:
        doubts.append(
            f"Most known spectra are about {usual:.0f} (CIEDE2000) off the photo, whose colours "
            "are not calibrated. Calibrate it with a chart, or take them for what they are."
        )
    is_off = colours.is_off(common)
    kept = dict[Shift, KnownSpectrum]()
    for number, spot in enumerate(known):
        shift: Shift | None = (0, 0) if spot.is_trusted else common
        if is_off[number]:
            shift = colours.nearest(number)
            doubts.append(
                f"The known spectrum at {spot.place} was left out: its colour is "
                f"{distances[number]:.0f} (CIEDE2000) off the photo."
                if shift is None
                else f"The known spectrum at {spot.place} was {_moved_by(shift)} its colour."
            )
        if shift is not None:
            place = spot.row + shift[0], spot.column + shift[1]
            kept.setdefault(place, replace(_divided(spot, factor), row=place[0], column=place[1]))
    return Checked([*kept.values()], doubts)


def consistent(spots: Spots, wavelengths: Doubles, is_trusted: Sequence[bool]) -> Indices:
    """The indices of *spots*, without those that all others together contradict.

    Each one is predicted by the others. The worst is left out as long as its squared error is far
    above the expected one, compared with those of the other spots; unless it *is_trusted* (n,).
    """
    kept = np.arange(len(spots))
    if not _MANY < len(spots) <= EXACT:
        return kept
    kernel = fitted_kernel(spots)
    scale = scaled_bands(kernel, spots, band_scale(wavelengths))
    while len(kept) > _MANY:
        few = spots[kept]
        predicted, variance = leave_one_out(kernel, few)
        squares = (np.square(few.errors - predicted) / (variance[:, None] * scale)).mean(axis=1)
        excess = np.where(np.array(is_trusted)[kept], 0, squares / np.median(squares))
        if excess.max() <= _EXCEEDED:
            break
        kept = np.delete(kept, excess.argmax())
    return kept


class _Colours:
    """The colours of *known* spectra, and those of the photo of *view* at and beside their places.

    *limits* (n,) are the CIEDE2000 from which on a spectrum is not that of its place.
    """

    def __init__(
        self, cube: SpectralCube, view: ColourView, known: Sequence[KnownSpectrum], most: float
    ) -> None:
        self._view = view
        self._known = known
        self._expected = without_gaps(known_values(cube, known)) @ view.response
        response = srgb_response(cube.wavelengths)
        self._to_srgb, *_ = np.linalg.lstsq(view.response, response, rcond=None)
        shares = np.array([np.inf if spot.is_trusted else spot.uncertainty for spot in known])
        self.limits = most + _OF_UNCERTAINTY * shares

    def distances(self, shift: Shift = (0, 0)) -> Doubles:
        """CIEDE2000 (n,) between the spectra and the photo *shift* beside their places.

        NaN where the photo is clipped, infinite where it ends.
        """
        # The docks, which import this module, are not to wait for it.
        from skimage.color import rgb2lab

        expected, shown = (
            rgb2lab(linear_to_srgb((light @ self._to_srgb).clip(0)))
            for light in (self._expected, self._shown(shift))
        )
        places = np.array([(spot.row, spot.column) for spot in self._known]) + shift
        is_inside = ((places >= 0) & (places < self._view.photo.shape)).all(axis=1)
        return np.where(is_inside, delta_e(expected.T, shown.T), np.inf)

    def is_off(self, shift: Shift = (0, 0)) -> Mask:
        """True (n,) for the spectra that the photo contradicts."""
        return self.distances(shift) > self.limits

    def common_factor(self) -> tuple[float, list[str]]:
        """The brightness that all spectra have too much, or 1, and a sentence if there is any.

        If it differs between the channels, it is the white balance of the photo that is off. Then
        the spectra stay as they are, and are compared without it.
        """
        expected, shown = (
            np.log(np.maximum(light, _DARKEST)) for light in (self._expected, self._shown())
        )
        differences = (expected - shown)[np.isfinite(shown).all(axis=1)]
        if len(differences) < _FEWEST:
            return 1.0, []
        logs = np.median(differences, axis=0)
        spread = np.median(np.abs(differences - logs))
        if np.abs(logs).max() < max(_LEAST_FACTOR, _SPREAD * spread):
            return 1.0, []
        self._expected = self._expected / np.exp(logs)
        if np.ptp(logs) > max(_GREY, 2 * spread):
            gains = ", ".join(f"{gain:.2f}" for gain in np.exp(-logs))
            return 1.0, [
                f"The photo shows red, green and blue of the known spectra times {gains}: its "
                "white balance is off. Calibrate it with a chart or a grey."
            ]
        factor = float(np.exp(logs.mean()))
        return factor, [
            f"The known spectra are {factor:.2f} times as bright as the photo: its exposure or "
            "their white reference is off. They were divided by it."
        ]

    def allow_for_photo(self, shift: Shift) -> float:
        """Only count spectra as wrong that are much further off than usual; returns that distance.

        Where most are off it is the photo that is wrong: a camera whose colours nobody calibrated.
        """
        if len(self._known) < _FEWEST:
            return 0.0
        is_usual = self.is_off(shift).mean() > 0.5
        usual = float(np.median(np.nan_to_num(self.distances(shift))))
        self.limits = np.maximum(self.limits, _UNUSUAL * usual)
        return usual if is_usual else 0.0

    def common_shift(self) -> Shift:
        """The shift that most of the spectra that are off have in common, or (0, 0)."""
        costs = [np.nan_to_num(self.distances(by), nan=_FAR).clip(0, _FAR).mean() for by in _SHIFTS]
        best = _SHIFTS[int(np.argmin(costs))]
        before = self.is_off().sum()
        is_common = before >= _FEWEST and self.is_off(best).sum() <= _UNEXPLAINED * before
        return best if is_common else (0, 0)

    def nearest(self, number: int) -> Shift | None:
        """The shift to the nearest colour for one spectrum; None if none is near."""
        distances = np.array([self.distances(by)[number] for by in _SHIFTS])
        is_near = distances < _NEARLY * self.limits[number]
        return _SHIFTS[int(np.nanargmin(distances))] if is_near.any() else None

    def _shown(self, shift: Shift = (0, 0)) -> Doubles:
        """Linear light (n, 3) of the photo in the spots, moved by *shift*; NaN where clipped."""
        light = np.full((len(self._known), 3), np.nan)
        for number, spot in enumerate(self._known):
            place = spot.row + shift[0], spot.column + shift[1]
            half = spot.window // 2
            rows, columns = (slice(max(0, at - half), max(0, at + half + 1)) for at in place)
            part = self._view.of_part((slice(None), rows, columns)).photo
            if part.pixels.size and part.pixels.min() > 0 and part.pixels.max() < part.full_scale:
                light[number] = part.rows(linear=True).mean(axis=(1, 2))
        return light


def _divided(spot: KnownSpectrum, factor: float) -> KnownSpectrum:
    if factor == 1 or spot.is_trusted:
        return spot
    values = np.minimum(spot.values / factor, BRIGHTEST)
    if isinstance(spot.spectrum, Spectrum):
        return replace(spot, spectrum=replace(spot.spectrum, values=values))
    return replace(spot, spectrum=values)


def _moved_by(shift: Shift) -> str:
    return f"moved by {shift[0]} rows and {shift[1]} columns, where the photo has"
