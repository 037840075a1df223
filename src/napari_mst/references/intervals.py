"""Prediction intervals of refined cubes, which enclose nine in ten true spectra.

The posterior of the process gives the uncertainty of the corrected log reflectance, by pixel and by
band. It needs the cube and its history, but not the photo, since the features of a pixel come from
the colour of its spectrum. Letters: B bands, H rows, W columns, k pixels.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Array, Doubles, Floats, Singles, doubles
from napari_mst.base.errors import CubeError
from napari_mst.base.progress import Progress, ProgressLike, as_progress
from napari_mst.base.threads import threads_of_cpu
from napari_mst.cube import SpectralCube
from napari_mst.cube.lazy import mapped
from napari_mst.reconstruction import model_intervals as of_models
from napari_mst.reconstruction.colour_fidelity.code_cells import each_block
from napari_mst.reconstruction.model_intervals import instrument_error
from napari_mst.references import refinement_record
from napari_mst.references.colour_views import Part, features_of, spectra_of
from napari_mst.references.process import (
    BAND_FACTOR,
    OFFSET,
    Posterior,
    features_of_spectra,
    posterior,
)

_Take = Callable[[slice, Floats, Floats], None]
"""Receives rows of a cube, and the lower and upper spectra (B, rows, W) around them."""

_DIMMEST = 0.01
"""Smallest mean reflectance by which a width is divided."""

_REASON = ", by what the reference spectra leave open"

_MEASUREMENTS = 2
"""Measurements with an instrument's error: that of a reference, and the one that verifies."""


class _Doubt(NamedTuple):
    """The doubts about a refined cube: from the *process*, *hidden* errors and the *instrument*.

    A calibration by the reference spectra themselves fits these better than other colours, and
    single pixels of a noisy photo or a JPEG are off: *hidden* (B,) is the variance of the log
    reflectance.

    The error of an *instrument* (B,), such as stray light or a dark signal, is similar all over a
    scene. It is learnt together with other errors, and its variance falls with the number of
    reference spectra.
    """

    process: Posterior
    hidden: Doubles
    instrument: Doubles


def prediction_intervals(
    cube: SpectralCube,
    progress: ProgressLike = None,
    *,
    shape_only: bool = False,
) -> tuple[SpectralCube, SpectralCube]:
    """Return the lower and upper cube of 90 % around *cube*, refined or not: float32, 0 or more.

    With *shape_only*, the interval concerns spectra after the best single gain for the photo, since
    the brightness of `mstpp-photo` cubes is uncertain until a grey patch is named.

    Raises
    ------
    CubeError
        If the cube is not refined and its model has no calibrated interval, or if the record of its
        refinement is damaged.
    Cancelled
        Soon after *progress* was cancelled.

    Notes
    -----
    =======  ===========================================
    cube     reflectance, from a reconstruction
    returns  two cubes of float32 reflectance, 0 or more
    =======  ===========================================

    Examples
    --------
    >>> photo = np.full((4, 6, 3), 128, np.uint8)
    >>> cube = nm.Reconstructor(nm.load_model("pixelwise-srgb")).reconstruct(photo)
    >>> lower, upper = nm.prediction_intervals(cube)
    >>> print(*(each.spectrum(0, 0).values[15].round(2) for each in (lower, cube, upper)))
    0.11 0.22 0.32
    """
    known = of_models.of_shape(cube) if shape_only and not _is_refined(cube) else cube
    return _intervals(known, as_progress(progress), np.empty)


def intervals_in_files(cube: SpectralCube, progress: Progress) -> tuple[SpectralCube, SpectralCube]:
    """Like `prediction_intervals`, but in temporary files, to save memory before writing."""
    return _intervals(cube, progress, mapped)


def _intervals(
    cube: SpectralCube, progress: Progress, room: Callable[..., Array]
) -> tuple[SpectralCube, SpectralCube]:
    """Compute both cubes, in arrays made by *room*."""
    lower, upper = (room(cube.shape, np.float32) for _ in range(2))

    def take(rows: slice, below: Floats, above: Floats) -> None:
        lower[:, rows] = below
        upper[:, rows] = above

    _each_strip(cube, take, progress)
    reason = _REASON if _is_refined(cube) else of_models.reason_of(cube)
    return (
        of_models.side_of(cube, lower, "Lower", reason),
        of_models.side_of(cube, upper, "Upper", reason),
    )


def interval_width(
    cube: SpectralCube,
    progress: ProgressLike = None,
) -> Singles:
    """Return the width (H, W) of the 90 % interval of *cube* relative to the spectrum; float32.

    Width and spectrum are averaged over the bands: 0.2 means about 10 % to each side. NaN where the
    cube is NaN. Means below 0.01 count as 0.01, to avoid division by almost nothing.

    Raises
    ------
    CubeError, Cancelled
        As `prediction_intervals`.
    """
    width = np.empty(cube.shape[1:], dtype=np.float32)

    def take(rows: slice, below: Floats, above: Floats) -> None:
        mean = doubles(cube.data[:, rows]).mean(axis=0)
        width[rows] = (above - below).mean(axis=0) / np.maximum(mean, _DIMMEST)

    _each_strip(cube, take, as_progress(progress))
    return width


def _each_strip(cube: SpectralCube, take: _Take, progress: Progress) -> None:
    """Pass the spectra around *cube* to *take*, strip by strip; several strips run at a time."""
    doubt = _doubt_of(cube)
    points = 0 if doubt is None else len(doubt.process.points)
    of_part = _by_model(cube) if doubt is None else partial(_by_references, cube, doubt)

    def around(strip: tuple[slice, Part]) -> None:
        rows, part = strip
        take(rows, *of_part(part))

    strips = list(Part.whole(cube.shape[1:]).strips(points))
    each_block(around, strips, progress, threads_of_cpu())


def _by_model(cube: SpectralCube) -> Callable[[Part], Sequence[Floats]]:
    write = of_models.side_writer(cube)

    def of_part(part: Part) -> Sequence[Floats]:
        numbers = np.asarray(cube.data[part.key], dtype=np.float32)
        sides = np.empty((2, *numbers.shape), np.float32)
        write(numbers, sides)
        return [*sides]

    return of_part


def _by_references(cube: SpectralCube, doubt: _Doubt, part: Part) -> Sequence[Floats]:
    spectra = spectra_of(cube, part)
    both = _around(spectra, features_of(cube, part, spectra), doubt)
    return [side.T.reshape(-1, *part.shape) for side in both]


def interval_of(cube: SpectralCube, row: int, column: int) -> of_models.IntervalSides | None:
    """Return lower and upper spectrum (B,) of 90 % around one pixel of *cube*, or None.

    Notes
    -----
    =======  =============================================
    cube     reflectance, from a reconstruction
    returns  two spectra of float32 reflectance, 0 or more
    =======  =============================================

    Examples
    --------
    >>> photo = np.full((4, 6, 3), 128, np.uint8)
    >>> cube = nm.Reconstructor(nm.load_model("pixelwise-srgb")).reconstruct(photo)
    >>> lower, upper = nm.interval_of(cube, row=0, column=0)
    >>> lower.shape, bool((lower < upper).all())
    ((31,), True)
    """
    doubt = _doubt_of(cube)
    if doubt is None:
        return of_models.model_spectrum_band(cube, row, column)
    spectrum = cube.spectrum(row, column).values[None]
    place = np.array([[row, column]]) / max(cube.shape[1:])
    features = features_of_spectra(spectrum, place, cube.wavelengths)
    lower, upper = _around(spectrum, features, doubt)
    return lower[0].astype(np.float32), upper[0].astype(np.float32)


def has_interval(cube: SpectralCube) -> bool:
    """True if *cube* is refined, or its model has a calibrated interval at its wavelengths."""
    return _is_refined(cube) or of_models.has_model_band(cube)


def _is_refined(cube: SpectralCube) -> bool:
    is_side = bool(of_models.interval_side(cube))
    return bool(cube.provenance.refinement) and cube.has_wavelengths and not is_side


def _doubt_of(cube: SpectralCube) -> _Doubt | None:
    """Return the doubts about *cube*; None if it was not refined."""
    refinement = refinement_record.from_record(cube.provenance) if _is_refined(cube) else None
    if refinement is None:
        return None
    if len(refinement.band_scale) != len(cube.wavelengths):
        raise CubeError(
            f"Expected {len(refinement.band_scale)} bands, as when the cube was refined, got "
            f"{len(cube.wavelengths)}. Take the prediction intervals before bands are cut away."
        )
    share = np.sqrt(_MEASUREMENTS / max(len(refinement.spots), 1))
    instrument = share * instrument_error(cube.wavelengths)
    return _Doubt(
        posterior(refinement.kernel, refinement.spots, refinement.band_scale),
        refinement.hidden(cube.wavelengths),
        instrument,
    )


def _around(spectra: Doubles, features: Doubles, doubt: _Doubt) -> tuple[Doubles, Doubles]:
    """Return lower and upper spectra (k, B) around *spectra* with these *features*."""
    process, hidden, instrument = doubt
    variance = process.variance(features)[:, None] * process.band_scale + hidden
    factor = np.exp(BAND_FACTOR * np.sqrt(variance))
    raised = spectra + OFFSET
    # Independent errors add in quadrature.
    fall = np.hypot(raised * (1 - 1 / factor), instrument)
    rise = np.hypot(raised * (factor - 1), instrument)
    return np.maximum(spectra - fall, 0), spectra + rise
