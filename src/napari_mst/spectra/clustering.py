"""Maps of clusters: pixels with similar values, grouped by k-means.

Pixels with a value that is not a number get the label 0. Letters: B bands, H rows, W columns; k
clusters.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Spectrum, Values
from napari_mst.spectra.strips import check_enough, pixels
from napari_mst.watch import Watch, Watched, watching

MOST_CLUSTERS = 2**16 - 1
"""Labels are 16-bit, and 0 means no cluster."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of the pixels of a cube.

    Attributes
    ----------
    labels
        (H, W), from 1 to the number of clusters; 0 where a value is not a number.
    centres
        The mean spectrum of each cluster.
    """

    labels: NDArray[np.uint16]
    centres: tuple[Spectrum, ...]


def cluster(
    cube: SpectralCube,
    count: int = 10,
    iterations: int = 20,
    watch: Watched = None,
) -> Clusters:
    """k-means: *count* clusters of pixels with similar values.

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
    return Clusters(labels, tuple(spectra))


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
            found, means = kmeans(values[None], count, 1, start_clusters=centres)
        members = np.bincount(found[0], minlength=count)
        sums += means * members[:, None]
        sizes += members
        numbers = found[0] + 1
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
