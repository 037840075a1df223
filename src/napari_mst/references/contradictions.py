"""Checks reference spectra against the photo and against each other before they are used.

A spectrum whose colour differs from the photo is searched for within a few pixels, and left out if
no pixel there matches. A factor that all spectra share indicates a wrong white. Of many spectra,
those that the others contradict are left out as well. Letters: B bands, n spots.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Doubles, Indices
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb, srgb_response
from napari_mst.cube.metrics import delta_e
from napari_mst.cube.spectrum import Spectrum
from napari_mst.references.colour_views import ColourView
from napari_mst.references.process import (
    EXACT,
    Spots,
    band_scale,
    fitted_kernel,
    leave_one_out,
    scaled_bands,
    without_gaps,
)
from napari_mst.references.reference_spectrum import BRIGHTEST, ReferenceSpectrum, reference_values

# CIEDE2000 between a spectrum and the photo above which they disagree: see
# lab/results/reference_spectra.md.
_MOST = 5.0
_MOST_OF_JPEG = 8.0
_OF_UNCERTAINTY = 50.0
"""CIEDE2000 for a relative error of 1: two standard deviations of a mid grey."""

_FARTHEST = 3  # pixels searched around a spot, in each direction
_NEARLY = 0.4  # share of the limit within which a spot is moved to a matching colour
_FEWEST = 3  # spectra needed to find a common factor or shift
_LEAST_FACTOR = 0.1  # smallest logarithm of a common factor, and smallest multiple of its spread
_SPREAD = 3.0
_UNEXPLAINED = 0.4  # share of the spectra that may still disagree after a common shift
_GREY = 0.05  # logarithm by which channel gains may differ and still count as brightness
_MANY = 12  # spectra needed to contradict a single spectrum
_EXCEEDED = 15.0  # squared over expected error of an outlier, relative to the median spectrum
_UNUSUAL = 2.0  # multiple of the usual distance that is still accepted
_FAR = 10.0  # CIEDE2000 at which larger distances are cut off
_DARKEST = 1e-4  # linear light, floor for the logarithm
_FACTOR = 3.0  # times as bright as the estimate; nine in ten photos are within 0.75 to 1.6 times

Shift = tuple[int, int]
_RANGE = range(-_FARTHEST, _FARTHEST + 1)
_SHIFTS: list[Shift] = sorted(product(_RANGE, _RANGE), key=lambda by: by[0] ** 2 + by[1] ** 2)


class ContradictingSpectra(UserWarning):
    """A reference spectrum contradicts the photo or the other spectra."""


class Checked(NamedTuple):
    """The *references* to use, and sentences of *doubts* about these and rejected ones."""

    references: list[ReferenceSpectrum]
    doubts: list[str]


def checked(
    cube: SpectralCube,
    view: ColourView | None,
    references: Sequence[ReferenceSpectrum],
    is_jpeg: bool,
) -> Checked:
    """Return the *references* that match the colours of the photo; all of them without a *view*.

    References that the user insists on, or that calibrated the photo, stay unchanged.
    """
    if view is None or not references:
        return Checked([*references], [])
    expected = without_gaps(reference_values(cube, references)) @ view.response
    logs, factor, doubts = _common_factor(expected, _shown(view, references))
    distances_at = _comparison(cube, view, references, expected / np.exp(logs))
    shares = np.array([np.inf if spot.is_trusted else spot.uncertainty for spot in references])
    limits = (_MOST_OF_JPEG if is_jpeg else _MOST) + _OF_UNCERTAINTY * shares
    if not (distances_at(_SHIFTS[0]) > limits).any():
        return Checked([_divided(spot, factor) for spot in references], doubts)
    distances = np.stack([distances_at(by) for by in _SHIFTS])
    place = _common_shift(distances, limits)
    common = _SHIFTS[place]
    if place:
        doubts.append(f"The reference spectra were {_moved_by(common)} their colours.")
    limits = _allowing_for_photo(distances[place], limits, doubts)
    is_off = distances[place] > limits
    near = np.where(distances < _NEARLY * limits, distances, np.inf)
    kept = dict[Shift, ReferenceSpectrum]()
    for number, spot in enumerate(references):
        row, column = (0, 0) if spot.is_trusted else common
        if is_off[number]:
            row, column = _SHIFTS[near[:, number].argmin()]
            is_found = np.isfinite(near[:, number]).any()
            doubts.append(
                f"The reference spectrum at {spot.place} was {_moved_by((row, column))} its colour."
                if is_found
                else f"The reference spectrum at {spot.place} was left out: its colour is "
                f"{distances[0, number]:.0f} (CIEDE2000) off the photo."
            )
            if not is_found:
                continue
        at = spot.row + row, spot.column + column
        kept.setdefault(at, replace(_divided(spot, factor), row=at[0], column=at[1]))
    return Checked([*kept.values()], doubts)


def consistent(spots: Spots, wavelengths: Doubles, is_trusted: Sequence[bool]) -> Indices:
    """Return the indices of *spots*, without those that all others together contradict.

    Each spot is predicted from the others. The worst spot is dropped repeatedly, as long as its
    squared error exceeds the expected error far more than usual and it is not *is_trusted* (n,).
    """
    kept = np.arange(len(spots))
    if not _MANY < len(spots) <= EXACT:
        return kept
    kernel = fitted_kernel(spots)
    scale = scaled_bands(kernel, spots, band_scale(wavelengths, spots.prior))
    while len(kept) > _MANY:
        few = spots[kept]
        predicted, variance = leave_one_out(kernel, few)
        squares = (np.square(few.errors - predicted) / (variance[:, None] * scale)).mean(axis=1)
        excess = np.where(np.array(is_trusted)[kept], 0, squares / np.median(squares))
        if excess.max() <= _EXCEEDED:
            break
        kept = np.delete(kept, excess.argmax())
    return kept


def unlike_estimates(spots: Spots, references: Sequence[ReferenceSpectrum]) -> list[str]:
    """Return a sentence on the reference whose brightness is most unlike its estimate, if any is.

    Nothing else tells a wrong spectrum from a wrong exposure where the camera is unknown.
    """
    is_checked = np.array([not spot.is_trusted for spot in references])
    brightness = np.where(is_checked, spots.errors.mean(axis=1), 0)
    if not (np.abs(brightness) > np.log(_FACTOR)).any():
        return []
    worst = int(np.abs(brightness).argmax())
    return [
        f"The reference spectrum at {references[worst].place} is {np.exp(brightness[worst]):.2g} "
        "times as bright as the estimate there. Check its place and its reflectance."
    ]


def _comparison(
    cube: SpectralCube, view: ColourView, references: Sequence[ReferenceSpectrum], expected: Doubles
) -> Callable[[Shift], Doubles]:
    """Return a function from a shift to the CIEDE2000 (n,) between *expected* (n, 3) and the photo.

    Differences are NaN where the photo is clipped, and infinite outside the photo.
    """
    # Imported late, since the docks import this module and must open quickly.
    from skimage.color import rgb2lab

    to_srgb, *_ = np.linalg.lstsq(view.response, srgb_response(cube.wavelengths), rcond=None)

    def lab(light: Doubles) -> Doubles:
        return rgb2lab(linear_to_srgb((light @ to_srgb).clip(0))).T

    places = np.array([(spot.row, spot.column) for spot in references])

    def distances_at(shift: Shift) -> Doubles:
        moved = places + shift
        is_inside = ((moved >= 0) & (moved < view.photo.shape)).all(axis=1)
        return np.where(
            is_inside, delta_e(lab(expected), lab(_shown(view, references, shift))), np.inf
        )

    return distances_at


def _common_factor(expected: Doubles, shown: Doubles) -> tuple[Doubles, float, list[str]]:
    """Return the common gain of all spectra: logarithms (3,), a brightness factor, and a sentence.

    If the gain differs between channels, the white balance of the photo is wrong. The spectra are
    then compared without the gain and stay unchanged, with a factor of 1.
    """
    logs = np.log(np.maximum(expected, _DARKEST)) - np.log(np.maximum(shown, _DARKEST))
    logs = logs[np.isfinite(logs).all(axis=1)]
    if len(logs) < _FEWEST:
        return np.zeros(3), 1.0, []
    common = np.median(logs, axis=0)
    spread = np.median(np.abs(logs - common))
    if np.abs(common).max() < max(_LEAST_FACTOR, _SPREAD * spread):
        return np.zeros(3), 1.0, []
    if np.ptp(common) > max(_GREY, 2 * spread):
        gains = ", ".join(f"{gain:.2f}" for gain in np.exp(-common))
        doubt = (
            f"The photo shows red, green and blue of the reference spectra times {gains}: its "
            "white "
            "balance is off. Calibrate it with a chart or a grey."
        )
        return common, 1.0, [doubt]
    factor = float(np.exp(common.mean()))
    doubt = (
        f"The reference spectra are {factor:.2f} times as bright as the photo: its exposure or "
        "their "
        "white reference is off. They were divided by it."
    )
    return common, factor, [doubt]


def _common_shift(distances: Doubles, limits: Doubles) -> int:
    """Return the place in `_SHIFTS` of a shift that explains most wrong spectra, or 0."""
    best = int(np.nan_to_num(distances, nan=_FAR).clip(0, _FAR).mean(axis=1).argmin())
    before, after = ((distances[at] > limits).sum() for at in (0, best))
    return best if before >= _FEWEST and after <= _UNEXPLAINED * before else 0


def _allowing_for_photo(distances: Doubles, limits: Doubles, doubts: list[str]) -> Doubles:
    """Return the *limits* (n,) beyond which *distances* (n,) are unusual; adds to the *doubts*.

    If most spectra are off, the photo is wrong: the colours of its camera are not calibrated.
    """
    if len(distances) < _FEWEST:
        return limits
    usual = float(np.median(np.nan_to_num(distances)))
    if (distances > limits).mean() > 0.5:
        doubts.append(
            f"Most references are about {usual:.0f} (CIEDE2000) off the photo, whose "
            "colours "
            "are not calibrated. Calibrate it with a chart, or take them for what they are."
        )
    return np.maximum(limits, _UNUSUAL * usual)


def _shown(
    view: ColourView, references: Sequence[ReferenceSpectrum], shift: Shift = (0, 0)
) -> Doubles:
    """Return the linear light (n, 3) of the photo at the shifted spots; NaN where clipped."""
    light = np.full((len(references), 3), np.nan)
    for number, spot in enumerate(references):
        place = spot.row + shift[0], spot.column + shift[1]
        half = spot.window // 2
        rows, columns = (slice(max(0, at - half), max(0, at + half + 1)) for at in place)
        part = view.of_part((slice(None), rows, columns)).photo
        if part.pixels.size and part.pixels.min() > 0 and part.pixels.max() < part.full_scale:
            light[number] = part.rows(linear=True).mean(axis=(1, 2))
    return light


def _divided(spot: ReferenceSpectrum, factor: float) -> ReferenceSpectrum:
    if factor == 1 or spot.is_trusted:
        return spot
    values = np.minimum(spot.values / factor, BRIGHTEST)
    if isinstance(spot.spectrum, Spectrum):
        return replace(spot, spectrum=replace(spot.spectrum, values=values))
    return replace(spot, spectrum=values)


def _moved_by(shift: Shift) -> str:
    return f"moved by {shift[0]} rows and {shift[1]} columns, where the photo has"
