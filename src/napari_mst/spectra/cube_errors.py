"""Errors of a whole cube against its reference: in total, by band, and as a map.

Only pixels that are numbers in both cubes count. Metrics: `napari_mst.metrics`.
Letters: H rows, W columns; b bands that are compared; n pixels.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.metrics import DARK, spectral_angles
from napari_mst.spectra.alignment import Alignment, align, numbers_in_both, relative_errors
from napari_mst.spectra.spectrum import Map, Values
from napari_mst.spectra.strips import strips
from napari_mst.watch import Watch, Watched, watching

Measure = Literal["difference", "rmse", "mrae", "angle"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
"""Every measure of `error_map`."""


@dataclass(frozen=True, eq=False)
class CubeErrors:
    """The errors of a cube against its reference.

    Attributes
    ----------
    mrae, rmse, psnr, angle
        Over all pixels and bands: `metrics.mrae`, `rmse`, `psnr` in dB and `spectral_angle` in
        degrees. MRAE and angle are NaN where no pixel is bright enough.
    wavelengths
        (b,) of the bands that were compared, in *unit*.
    band_mrae, band_rmse, band_psnr
        (b,) of each band alone.
    pixels
        How many pixels count.
    """

    mrae: float
    rmse: float
    psnr: float
    angle: float
    wavelengths: Values
    unit: str
    band_mrae: Values
    band_rmse: Values
    band_psnr: Values
    pixels: int


class _Sums:
    """Sums over the pixels that were added so far."""

    def __init__(self, bands: int, dark: float) -> None:
        self.dark = dark
        self.pixels = 0
        self.lit = 0
        self.squares = np.zeros(bands)
        self.relative = np.zeros(bands)
        self.angles = 0.0
        self.angled = 0

    def add(self, estimate: Values, reference: Values) -> None:
        """Add pixels, two arrays of (b, n)."""
        error = estimate - reference
        self.pixels += error.shape[1]
        self.squares += np.square(error).sum(axis=1)
        lit = (reference > self.dark).all(axis=0)
        self.lit += int(lit.sum())
        self.relative += (np.abs(error[:, lit]) / reference[:, lit]).sum(axis=1)
        angles = spectral_angles(estimate, reference, self.dark)
        angles = angles[~np.isnan(angles)]
        self.angles += float(angles.sum())
        self.angled += angles.size


def cube_errors(
    cube: SpectralCube,
    reference: SpectralCube,
    peak: float = 1.0,
    watch: Watched = None,
) -> CubeErrors:
    """Compare *cube* with *reference*, a few rows at a time; *peak* is the white of the PSNR.

    Raises
    ------
    SpectrumError
        If the images differ in size, share fewer than two bands, or no pixel is a number in both.
    Cancelled
        Soon after *watch* was cancelled.
    """
    alignment = align(cube, reference)
    sums = _Sums(int(alignment.bands.sum()), DARK)
    for strip in _pairs(cube, reference, alignment, watching(watch)):
        sums.add(strip.estimate[:, strip.is_good], strip.reference[:, strip.is_good])
    if not sums.pixels:
        raise SpectrumError(
            "Expected pixels that are numbers in both cubes, got none. Choose another reference."
        )
    # All bands have the same pixels, so a mean over bands is the mean over all values.
    band_rmse = np.sqrt(sums.squares / sums.pixels)
    rmse = float(np.sqrt(np.square(band_rmse).mean()))
    band_mrae = sums.relative / sums.lit if sums.lit else np.full(len(band_rmse), np.nan)
    return CubeErrors(
        mrae=float(band_mrae.mean()),
        rmse=rmse,
        psnr=float(_psnr(np.array(rmse), peak)),
        angle=sums.angles / sums.angled if sums.angled else float("nan"),
        wavelengths=cube.wavelengths[alignment.bands],
        unit=cube.unit,
        band_mrae=band_mrae,
        band_rmse=band_rmse,
        band_psnr=_psnr(band_rmse, peak),
        pixels=sums.pixels,
    )


def error_map(
    cube: SpectralCube,
    reference: SpectralCube,
    measure: Measure = "rmse",
    watch: Watched = None,
) -> Map:
    """The error of each pixel of *cube* against *reference*, (H, W), over the bands they share.

    *measure* is "difference" (mean of cube minus reference), "rmse", "mrae", or "angle" in degrees.
    A pixel is NaN where a value is not a number, and for the last two where the reference is dark
    (`metrics.DARK`).

    Raises
    ------
    SpectrumError
        If the images differ in size or share fewer than two bands, or *measure* is unknown.
    Cancelled
        Soon after *watch* was cancelled.
    """
    if measure not in _MEASURES:
        raise SpectrumError(f"Expected one of {', '.join(_MEASURES)}, got {str(measure)[:30]!r}.")
    measured = _MEASURES[measure]
    result = np.empty(cube.shape[1:], dtype=np.float32)
    alignment = align(cube, reference)
    for strip in _pairs(cube, reference, alignment, watching(watch)):
        strip.estimate[:, ~strip.is_good] = np.nan
        strip.reference[:, ~strip.is_good] = np.nan
        result[strip.rows] = measured(strip.estimate, strip.reference)
    return result


class _Strip(NamedTuple):
    """Some rows of both cubes at the compared bands, (b, k, W), and which pixels count, (k, W)."""

    rows: slice
    estimate: Values
    reference: Values
    is_good: NDArray[np.bool_]


def _pairs(
    cube: SpectralCube, reference: SpectralCube, alignment: Alignment, watch: Watch
) -> Iterator[_Strip]:
    """Both cubes strip by strip."""
    for rows, values in strips(cube, watch):
        estimate = alignment.of_estimate(values)
        stored = np.asarray(reference.data[:, rows]).astype(np.float64)
        expected = alignment.of_reference(stored)
        yield _Strip(rows, estimate, expected, numbers_in_both(estimate, expected))


def _psnr(rmse: NDArray[np.float64], peak: float) -> Values:
    with np.errstate(divide="ignore"):
        return np.asarray(20 * np.log10(peak / rmse))


def _mean_difference(estimate: Values, reference: Values) -> Values:
    return np.asarray((estimate - reference).mean(axis=0))


def _root_mean_square(estimate: Values, reference: Values) -> Values:
    return np.asarray(np.sqrt(np.square(estimate - reference).mean(axis=0)))


_MEASURES: dict[str, Callable[[Values, Values], Values]] = {
    "difference": _mean_difference,
    "rmse": _root_mean_square,
    "mrae": relative_errors,
    "angle": spectral_angles,
}
