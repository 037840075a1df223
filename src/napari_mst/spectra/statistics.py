"""Maps from statistics of all pixels: k-means clusters, principal components and anomalies (RX).

Pixels with a value that is not a number get the label 0, or NaN, and count nowhere. Letters: B
bands, H rows, W columns; k clusters; n components.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Map, Spectrum, Values
from napari_mst.spectra.strips import check_enough, pixels
from napari_mst.watch import Watch, Watched, watching

MOST_CLUSTERS = 2**16 - 1
"""Labels are 16-bit, and 0 means no cluster."""


def cluster(
    cube: SpectralCube,
    count: int = 10,
    iterations: int = 20,
    watch: Watched = None,
) -> tuple[NDArray[np.uint16], list[Spectrum]]:
    """k-means: *count* clusters of pixels with similar values.

    Gives their labels (H, W), from 1 on and 0 where a value is not a number, and the mean spectrum
    of each cluster.

    The first centres lie evenly along the diagonal from the least to the largest values. The search
    ends when no pixel changes its cluster, or after *iterations*. A cluster may stay empty; its
    centre then stays where it began.

    Raises
    ------
    SpectrumError
        If *count* is not within 2 to 65535, or no pixel is a number in all bands.
    Cancelled
        Soon after *watch* was cancelled.
    """
    if not 2 <= count <= MOST_CLUSTERS:
        raise SpectrumError(f"Expected 2 to {MOST_CLUSTERS} clusters, got {count}.")
    watch = watching(watch)
    passes = iterations + 1
    centres = _first_centres(cube, count, watch.part(0, 1 / passes))
    labels = np.zeros(cube.shape[1:], dtype=np.uint16)
    for number in range(1, passes):
        part = watch.part(number / passes, (number + 1) / passes)
        if not _improve(cube, labels, centres, part):
            break
    watch.reach(1.0)
    spectra = [
        Spectrum(cube.wavelengths, centre, cube.unit, f"cluster {number}")
        for number, centre in enumerate(centres, 1)
    ]
    return labels, spectra


def _first_centres(cube: SpectralCube, count: int, watch: Watch) -> Values:
    """(k, B) centres, evenly from the least to the largest values, as `spectral.kmeans` begins."""
    low = np.full(cube.shape[0], np.inf)
    high = np.full(cube.shape[0], -np.inf)
    for _, good, values in pixels(cube, watch):
        if good.any():
            low = np.minimum(low, values.min(axis=0))
            high = np.maximum(high, values.max(axis=0))
    if not np.isfinite(low).all():
        check_enough(0)
    step = (high - low) / (count - 1)
    return np.asarray(low + np.arange(count)[:, None] * step)


def _improve(cube: SpectralCube, labels: NDArray[np.uint16], centres: Values, watch: Watch) -> bool:
    """Give each pixel its nearest centre, then move the centres; False if no label changed.

    *labels* (H, W) and *centres* (k, B) are changed in place; without a new label, no centre moves.
    """
    from spectral import kmeans

    count = len(centres)
    sums = np.zeros_like(centres)
    sizes = np.zeros(count)
    has_changed = False
    for rows, good, values in pixels(cube, watch):
        if not good.any():
            continue
        with _quiet_spectral():
            nearest, means = kmeans(values[None], count, 1, start_clusters=centres)
        members = np.bincount(nearest[0], minlength=count)
        sums += means * members[:, None]
        sizes += members
        numbers = nearest[0] + 1
        has_changed |= bool((labels[rows][good] != numbers).any())
        labels[rows][good] = numbers
    if has_changed:
        np.divide(sums, sizes[:, None], out=centres, where=sizes[:, None] > 0)
    return has_changed


@contextmanager
def _quiet_spectral() -> Iterator[None]:
    """Silence the library: each call of `spectral.kmeans` writes two lines to standard error."""
    logger = logging.getLogger("spectral")
    level_before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level_before)


def principal_components(
    cube: SpectralCube,
    count: int = 3,
    watch: Watched = None,
) -> tuple[Map, Values]:
    """The first *count* principal components of the pixels of *cube*, the largest variance first.

    Returns the value of each pixel, (n, H, W), with a mean of zero; and the share of the whole
    variance that each component explains, (n,).

    Raises
    ------
    SpectrumError
        If *count* is not within 1 to B, or fewer than two pixels are numbers in all bands.
    Cancelled
        Soon after *watch* was cancelled.
    """
    if not 1 <= count <= cube.shape[0]:
        raise SpectrumError(f"Expected 1 to {cube.shape[0]} components, got {count}.")
    watch = watching(watch)
    components = _statistics(cube, watch.part(0, 0.5)).principal_components
    reduced = components.reduce(num=count)
    bands = np.full((count, *cube.shape[1:]), np.nan, dtype=np.float32)
    for rows, good, values in pixels(cube, watch.part(0.5, 1)):
        bands[:, rows][:, good] = reduced.transform(values).T
    # The pixels of a constant cube have no variance: each component then explains nothing.
    variance = components.eigenvalues.sum() or 1
    return bands, components.eigenvalues[:count] / variance


def anomalies(cube: SpectralCube, watch: Watched = None) -> Map:
    """RX: the squared Mahalanobis distance of each pixel from all pixels of *cube*, (H, W).

    Reed & Yu, IEEE Trans. Acoust. Speech Signal Process. 38 (1990) 1760, doi:10.1109/29.60107.

    Raises
    ------
    SpectrumError
        If fewer than two pixels are numbers in all bands.
    Cancelled
        Soon after *watch* was cancelled.
    """
    from spectral import rx

    watch = watching(watch)
    statistics = _statistics(cube, watch.part(0, 0.5))
    result = np.full(cube.shape[1:], np.nan, dtype=np.float32)
    for rows, good, values in pixels(cube, watch.part(0.5, 1)):
        result[rows][good] = rx(values, background=statistics)
    return result


def _statistics(cube: SpectralCube, watch: Watch) -> Any:
    """Mean and covariance of all pixels as `spectral.GaussianStats`, merged strip by strip.

    Chan, Golub & LeVeque, The American Statistician 37 (1983) 242, doi:10.2307/2683386.
    """
    from spectral import GaussianStats

    bands = cube.shape[0]
    count = 0
    mean = np.zeros(bands)
    squares = np.zeros((bands, bands))
    for _, _, values in pixels(cube, watch):
        new = len(values)
        if not new:
            continue
        step = values.mean(axis=0) - mean
        values -= mean + step
        squares += values.T @ values + np.outer(step, step) * (count * new / (count + new))
        mean += step * (new / (count + new))
        count += new
    check_enough(count)
    return GaussianStats(mean, squares / (count - 1), count)
