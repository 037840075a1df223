"""From spectra to maps: classes, clusters, components and anomalies of a whole cube, by the `spectral` library.

Pixels with a value that is not a number are 0 in maps of labels and NaN in the others, and count nowhere.
The cube is worked on a few rows at a time; `progress` is told the share that is done, `is_cancelled` is asked as often.
T. Boggs, Spectral Python, https://www.spectralpython.net. Letters: B bands, H rows, W columns; n pixels.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Spectrum, Values
from napari_mst.spectra.strips import pixels
from napari_mst.spectra.transforms import resampled
from napari_mst.watch import IsCancelled, Progress, Watch

Map = NDArray[np.float32]
LARGEST_ANGLE = 10.0
"""Degrees: the default threshold of `classify`."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Labels (H, W), 1 for the first spectrum and so on, 0 for none; and the angle to the nearest one in degrees."""

    labels: NDArray[np.uint16]
    angles: Map


@dataclass(frozen=True, eq=False)
class Clusters:
    """Labels (H, W), 1 to the number of clusters, 0 for no numbers; and the mean spectrum of each cluster."""

    labels: NDArray[np.uint16]
    centres: tuple[Spectrum, ...]


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """Components of a cube, the one of most variance first.

    Attributes
    ----------
    bands
        (n, H, W), the value of each pixel; their mean is zero.
    explained
        (n,), the share of all variance that each explains, 0-1.
    directions
        (n, B), the unit vector of each.
    """

    bands: Map
    explained: Values
    directions: Values


def classify(
    cube: SpectralCube,
    spectra: Sequence[Spectrum],
    threshold: float = LARGEST_ANGLE,
    progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
) -> Classes:
    """Give each pixel the spectrum with the smallest spectral angle, if that is at most *threshold* degrees.

    The angle is that over the bands within the range of all *spectra*, which are interpolated to them. A pixel that
    is zero everywhere has no angle.
    Kruse et al., Remote Sens. Environ. 44 (1993) 145, doi:10.1016/0034-4257(93)90013-N.

    Raises
    ------
    SpectrumError
        If there are no spectra, they share fewer than two bands with the cube, or one is zero there.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    angles_of = _spectral().spectral_angles
    bands, members = _members(cube, spectra)
    labels = np.zeros(cube.shape[1:], dtype=np.uint16)
    angles = np.full(cube.shape[1:], np.nan, dtype=np.float32)
    for rows, good, values in pixels(_of_bands(cube, bands), Watch(progress, is_cancelled)):
        lit = values.any(axis=1)
        good[good] = lit
        if lit.any():
            found = np.degrees(angles_of(values[None, lit], members)[0])
            angle = found.min(axis=1)
            angles[rows][good] = angle
            labels[rows][good] = np.where(angle <= threshold, found.argmin(axis=1) + 1, 0)
    return Classes(labels, angles)


def cluster(
    cube: SpectralCube,
    count: int = 10,
    iterations: int = 20,
    progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
) -> Clusters:
    """k-means: *count* clusters of pixels with similar values, from centres evenly along the diagonal of all values.

    It ends when no pixel changes its cluster, or after *iterations*. A cluster may stay empty; its centre is then
    where it began.

    Raises
    ------
    SpectrumError
        If *count* is not within 2 to 65535, or no pixel is a number in all bands.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    if not 2 <= count < 2**16:
        raise SpectrumError(f"Expected 2 to {2**16 - 1} clusters, got {count}.")
    kmeans, watch = _spectral().kmeans, Watch(progress, is_cancelled)
    passes = iterations + 1
    centres = _diagonal(cube, count, watch.part(0, 1 / passes))
    labels = np.zeros(cube.shape[1:], dtype=np.uint16)
    for iteration in range(iterations):
        sums, sizes = np.zeros_like(centres), np.zeros(count)
        has_changed = False
        for rows, good, values in pixels(
            cube, watch.part((iteration + 1) / passes, (iteration + 2) / passes)
        ):
            if good.any():
                with _quiet():
                    found, means = kmeans(values[None], count, 1, start_clusters=centres)
                members = np.bincount(found[0], minlength=count)
                sums += means * members[:, None]
                sizes += members
                has_changed |= bool((labels[rows][good] != found[0] + 1).any())
                labels[rows][good] = found[0] + 1
        if not has_changed:
            break
        np.divide(sums, sizes[:, None], out=centres, where=sizes[:, None] > 0)
    watch.reach(1.0)
    spectra = [
        Spectrum(cube.wavelengths, centre, cube.unit, f"cluster {number}")
        for number, centre in enumerate(centres, 1)
    ]
    return Clusters(labels, tuple(spectra))


def principal_components(
    cube: SpectralCube,
    count: int = 3,
    progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
) -> PrincipalComponents:
    """The first *count* principal components of the pixels of *cube*, and the share of variance that each explains.

    Raises
    ------
    SpectrumError
        If *count* is not within 1 to B, or fewer than two pixels are numbers in all bands.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    if not 1 <= count <= cube.shape[0]:
        raise SpectrumError(f"Expected 1 to {cube.shape[0]} components, got {count}.")
    watch = Watch(progress, is_cancelled)
    components = _statistics(cube, watch.part(0, 0.5)).principal_components
    reduced = components.reduce(num=count)
    bands = np.full((count, *cube.shape[1:]), np.nan, dtype=np.float32)
    for rows, good, values in pixels(cube, watch.part(0.5, 1)):
        bands[:, rows][:, good] = reduced.transform(values).T
    explained = components.eigenvalues[:count] / (components.eigenvalues.sum() or 1)
    return PrincipalComponents(
        bands, explained, np.ascontiguousarray(components.eigenvectors[:, :count].T)
    )


def anomalies(
    cube: SpectralCube, progress: Progress | None = None, is_cancelled: IsCancelled | None = None
) -> Map:
    """RX: the squared Mahalanobis distance of each pixel from all pixels of *cube*, (H, W).

    Reed & Yu, IEEE Trans. Acoust. Speech Signal Process. 38 (1990) 1760, doi:10.1109/29.60107.

    Raises
    ------
    SpectrumError
        If fewer than two pixels are numbers in all bands.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    watch = Watch(progress, is_cancelled)
    statistics = _statistics(cube, watch.part(0, 0.5))
    result = np.full(cube.shape[1:], np.nan, dtype=np.float32)
    for rows, good, values in pixels(cube, watch.part(0.5, 1)):
        result[rows][good] = _spectral().rx(values, background=statistics)
    return result


def band_ratio(cube: SpectralCube, numerator: float, denominator: float) -> Map:
    """Ratio of the bands nearest to two wavelengths (in the unit of *cube*), (H, W); NaN where it divides by zero."""
    return _quotient(_band(cube, numerator), _band(cube, denominator))


def normalised_difference(cube: SpectralCube, first: float, second: float) -> Map:
    """(a - b) / (a + b) of the bands a, b nearest to two wavelengths, (H, W); NaN where a + b is zero."""
    a, b = _band(cube, first), _band(cube, second)
    return _quotient(a - b, a + b)


def band_near(cube: SpectralCube, wavelength: float) -> int:
    """Index of the band nearest to *wavelength*. Raises `SpectrumError` outside the range of the cube."""
    low, high = cube.wavelengths.min(), cube.wavelengths.max()
    if not low <= wavelength <= high:
        raise SpectrumError(
            f"Expected a wavelength within {low:g}-{high:g} {cube.unit}, got {wavelength:g}."
        )
    return cube.nearest_band(wavelength)


def _quotient(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> Map:
    result = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    result[~np.isfinite(result)] = np.nan
    return result.astype(np.float32)


def _band(cube: SpectralCube, wavelength: float) -> NDArray[np.float64]:
    return np.asarray(cube.data[band_near(cube, wavelength)]).astype(np.float64)


def _members(cube: SpectralCube, spectra: Sequence[Spectrum]) -> tuple[NDArray[np.bool_], Values]:
    """Which bands of *cube* all *spectra* cover, and the (n, bands) values of these there."""
    if not spectra:
        raise SpectrumError(
            "Expected one or more spectra to classify by, got none. Pin some on the image."
        )
    bands = np.ones(cube.shape[0], dtype=bool)
    for spectrum in spectra:
        bands &= cube.unit == spectrum.unit
        bands &= (cube.wavelengths >= spectrum.wavelengths.min()) & (
            cube.wavelengths <= spectrum.wavelengths.max()
        )
    if bands.sum() < 2:
        raise SpectrumError(
            "Expected spectra that share two or more bands with the cube, got others. Choose others."
        )
    members = np.stack(
        [resampled(spectrum, cube.wavelengths[bands]).values for spectrum in spectra]
    )
    bad = ~np.isfinite(members).all(axis=1) | ~members.any(axis=1)
    if bad.any():
        name = spectra[int(bad.argmax())].name
        raise SpectrumError(
            f"Expected spectra of numbers that are not all zero, got {name[:60]!r}. Leave it out."
        )
    return bands, members


def _of_bands(cube: SpectralCube, bands: NDArray[np.bool_]) -> SpectralCube:
    if bands.all():
        return cube
    first, last = np.flatnonzero(bands)[[0, -1]]
    return SpectralCube(cube.data[first : last + 1], cube.wavelengths[first : last + 1], cube.unit)


def _diagonal(cube: SpectralCube, count: int, watch: Watch) -> Values:
    """*count* centres evenly from the least to the largest values, (count, B), as `spectral.kmeans` begins."""
    low, high = np.full(cube.shape[0], np.inf), np.full(cube.shape[0], -np.inf)
    for _, good, values in pixels(cube, watch):
        if good.any():
            low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
    if not np.isfinite(low).all():
        raise _no_numbers(0)
    return np.asarray(low + np.arange(count)[:, None] * ((high - low) / (count - 1)))


def _statistics(cube: SpectralCube, watch: Watch) -> Any:
    """`spectral.GaussianStats` of all pixels: mean and covariance, merged over strips.

    Chan, Golub & LeVeque, The American Statistician 37 (1983) 242, doi:10.2307/2683386.
    """
    bands = cube.shape[0]
    count, mean, squares = 0, np.zeros(bands), np.zeros((bands, bands))
    for _, _, values in pixels(cube, watch):
        if not (new := len(values)):
            continue
        step = values.mean(axis=0) - mean
        values -= mean + step
        squares += values.T @ values + np.outer(step, step) * (count * new / (count + new))
        mean += step * (new / (count + new))
        count += new
    if count < 2:
        raise _no_numbers(count)
    return _spectral().GaussianStats(mean, squares / (count - 1), count)


def _no_numbers(count: int) -> SpectrumError:
    return SpectrumError(f"Expected two or more pixels that are numbers in all bands, got {count}.")


@contextmanager
def _quiet() -> Iterator[None]:
    """`spectral.kmeans` writes two lines to standard error each time."""
    logger = logging.getLogger("spectral")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _spectral() -> Any:
    try:
        import spectral
    except ImportError:
        raise SpectrumError(
            'Expected spectral for maps, got none. Run: pip install "napari-mst[spectra]"'
        ) from None
    return spectral
