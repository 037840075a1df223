"""Compares each reference spectrum with the photo at its place, before anything is learnt from it.

A spectrum whose colour is not that of the photo is looked for within a few pixels, and left out
where it is not found; a factor that all spectra share is a wrong white. Of many spectra, one that
the others contradict is left out as well. Letters: B bands, n spots.
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

# CIEDE2000 between a spectrum and the photo from which on they disagree: see
# lab/results/reference_spectra.md.
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


class ContradictingSpectra(UserWarning):
    """A reference spectrum contradicts the photo, or the other spectra."""


class Checked(NamedTuple):
    """The *references* to learn from, and the *doubts* about them and the others, in words."""

    references: list[ReferenceSpectrum]
    doubts: list[str]


def checked(
    cube: SpectralCube,
    view: ColourView | None,
    references: Sequence[ReferenceSpectrum],
    is_jpeg: bool,
) -> Checked:
    """*references* as far as they have the colours of the photo; all of them without a view.

    Those that a person insists on, and those that the photo was calibrated with, stay as they are.
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
    """The indices of *spots*, without those that all others together contradict.

    Each one is predicted by the others. The worst is left out as long as its squared error is far
    above the expected one, compared with those of the other spots; unless it *is_trusted* (n,).
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


def _comparison(
    cube: SpectralCube, view: ColourView, references: Sequence[ReferenceSpectrum], expected: Doubles
) -> Callable[[Shift], Doubles]:
    """Gives the CIEDE2000 (n,) of the colours *expected* (n, 3) from the photo beside their places.

    They are NaN where the photo is clipped, infinite where it ends.
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
    """The logarithms (3,) of what all spectra have too much, their brightness, and a sentence.

    If it differs between the channels, it is the white balance of the photo that is off. Then the
    spectra stay as they are, with a brightness of 1, and are compared without it.
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
    """The place in `_SHIFTS` of what most of the spectra that are off have in common, or 0."""
    best = int(np.nan_to_num(distances, nan=_FAR).clip(0, _FAR).mean(axis=1).argmin())
    before, after = ((distances[at] > limits).sum() for at in (0, best))
    return best if before >= _FEWEST and after <= _UNEXPLAINED * before else 0


def _allowing_for_photo(distances: Doubles, limits: Doubles, doubts: list[str]) -> Doubles:
    """The *limits* (n,) beyond which *distances* (n,) are unusual; adds to the *doubts*.

    Where most are off it is the photo that is wrong: a camera whose colours nobody calibrated.
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
    """Linear light (n, 3) of the photo in the spots, moved by *shift*; NaN where clipped."""
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
