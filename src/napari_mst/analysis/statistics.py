"""Maps from statistics of all pixels: clusters, components, anomalies (RX), noise and denoising.

Pixels with a value that is not finite get the label 0 or NaN, and are ignored otherwise. Letters: B
bands, H rows, W columns; k clusters; n components.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Imported first, so that the formula comes first in the table and in the window.
from napari_mst.analysis import band_maps as band_maps
from napari_mst.analysis.map_kind import Map, MapKind, Number
from napari_mst.analysis.strips import check_enough, new_planes, pixels, put, raw_strips, strips
from napari_mst.base.arrays import Array, Doubles, Floats, Mask, Singles
from napari_mst.base.errors import DenoisingError, SpectrumError
from napari_mst.base.progress import Progress, ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.denoising.photo_denoising import BEST_H, DISTANCE, PATCH
from napari_mst.denoising.streaming import Filter, averaged

MOST_CLUSTERS = 2**16 - 1
"""Labels are 16-bit, and 0 means no cluster."""

ROUNDS = 20
"""Largest number of k-means iterations."""

SAMPLE = 2**16
"""Approximate number of pixels from which the first k-means centres are drawn."""

FEW = 10
"""Pixels per band below which a covariance is poor: Swain & Davis, Remote Sensing: The
Quantitative Approach (1978), ask for 10 to 100."""

_MEDIAN_OF_NORMAL = 0.6745
"""Median magnitude of normal values with a standard deviation of 1."""
_LEAST_NOISE = 1e-6  # share of the largest noise: a noiseless band would outweigh all others
_WORST = 1e12  # largest condition number of a covariance with a meaningful inverse


@MapKind(
    "k-means clusters",
    "Pixels with similar values are grouped into this many clusters.",
    content="labels",
    number=Number("count", "Clusters", 6, 2, 200),
)
def clusters(cube: SpectralCube, count: int = 6, *, progress: ProgressLike = None) -> Map:
    """Label the pixels by *count* clusters of similar values, found by k-means.

    Labels start at 1; 0 marks pixels with a value that is not finite. The first centres are pixels
    drawn by k-means++ with a fixed seed, numbered from dark to bright. The search ends when no
    pixel changes its cluster, or after 20 rounds. Clusters may stay empty if pixels are equal.

    Raises
    ------
    SpectrumError
        If *count* is not within 2 to 65535, or if no pixel is finite in all bands.
    Cancelled
        Soon after *progress* was cancelled.
    """
    count = int(count)
    if not 2 <= count <= MOST_CLUSTERS:
        raise SpectrumError(f"Expected 2 to {MOST_CLUSTERS} clusters, got {count}.")
    progress = as_progress(progress)
    passes = ROUNDS + 1
    centres = _first_centres(cube, count, progress.step(0, passes))
    labels = np.zeros(cube.shape[1:], dtype=np.uint16)
    # Sums and sizes of the clusters; cluster 0 collects the pixels outside all clusters.
    sums, sizes = np.zeros((count + 1, cube.shape[0])), np.zeros((count + 1, 1))
    for number in range(1, passes):
        before = labels.copy()
        part = progress.step(number, passes)
        for rows, strip in raw_strips(cube, part):
            values = strip.reshape(len(strip), -1)
            old = before[rows].reshape(-1)
            new = _nearest(values, centres)
            changed = np.flatnonzero(new != old)
            if changed.size:
                changes = np.zeros((count + 1, changed.size))
                places = np.arange(changed.size)
                changes[new[changed], places] = 1
                changes[old[changed], places] -= 1
                sums += changes @ values[:, changed].T.astype(np.float64)
                sizes += changes.sum(axis=1, keepdims=True)
                labels[rows] = new.reshape(-1, cube.shape[2])
        if np.array_equal(labels, before):
            break
        np.divide(sums[1:], sizes[1:], out=centres, where=sizes[1:] > 0)
    progress.reach(1.0)
    return Map(cube, labels, names=tuple(f"cluster {number}" for number in range(1, count + 1)))


def _first_centres(cube: SpectralCube, count: int, progress: Progress) -> Doubles:
    """Draw centres (k, B), dark to bright, from pixels by greedy k-means++ with a fixed seed.

    The chance of drawing a pixel is proportional to its squared distance from the nearest centre;
    the best of a few draws is kept, as in scikit-learn: Arthur & Vassilvitskii, "k-means++: the
    advantages of careful seeding", SODA 2007.
    """
    rng = np.random.default_rng(0)
    share = SAMPLE / (cube.shape[1] * cube.shape[2])
    few = [
        values[:, rng.random(good.shape)[good] < share]
        for _, good, values in pixels(cube, progress.part(0, 0.5))
    ]
    sample = np.concatenate(few, axis=1)
    if sample.shape[1] == 0:
        check_enough(0)
    # Centred values lose fewer digits in squared distances.
    mean = sample.mean(axis=1, keepdims=True)
    sample -= mean
    squares = np.square(sample).sum(axis=0)

    def distances(drawn: NDArray[np.int_]) -> Doubles:
        products = sample[:, drawn].T @ sample
        return np.maximum(squares[drawn, None] + squares - 2 * products, 0)

    first = rng.integers(sample.shape[1], size=1)
    chosen, closest = [int(first[0])], distances(first)[0]
    for number in range(1, count):
        heaps = np.cumsum(closest)
        drawn = np.searchsorted(heaps, rng.random(2 + int(np.log(count))) * heaps[-1])
        drawn = np.minimum(drawn, len(heaps) - 1)
        nearer = np.minimum(closest, distances(drawn))
        best = int(nearer.sum(axis=1).argmin())
        chosen.append(int(drawn[best]))
        closest = nearer[best]
        progress.reach(0.5 + 0.5 * number / count)
    centres = (sample[:, chosen] + mean).T
    return centres[np.argsort(centres.sum(axis=1), kind="stable")]


def _nearest(values: Array, centres: Doubles) -> NDArray[np.uint16]:
    """Return the labels (n,) of the nearest *centres* (k, B); 0 where a value is not finite."""
    kind = np.result_type(values, np.float32)
    # The nearest centre c has the largest c x - c^2 / 2.
    scores = centres.astype(kind) @ values.astype(kind, copy=False)
    scores -= (np.square(centres).sum(axis=1, keepdims=True) / 2).astype(kind)
    best = scores[0].copy()
    nearest: NDArray[np.uint16] = np.isfinite(best).astype(np.uint16)
    for number, score in enumerate(scores[1:], 2):
        np.putmask(nearest, score > best, np.uint16(number))
        np.maximum(best, score, out=best)
    return nearest


@MapKind(
    "Principal components",
    "The directions in which the pixels differ most, with the share of the variance that each "
    "explains. Each component is a separate picture.",
    number=Number("count", "Components", 3, 1, 20),
    is_of_spectra=True,
)
def components(cube: SpectralCube, count: int = 3, *, progress: ProgressLike = None) -> Map:
    """The first *count* principal components, by decreasing variance, each with mean zero.

    Raises
    ------
    SpectrumError
        If *count* is not within 1 to B, or if fewer than two pixels are finite in all bands.
    Cancelled
        Soon after *progress* was cancelled.
    """
    count = int(count)
    if not 1 <= count <= cube.shape[0]:
        raise SpectrumError(f"Expected 1 to {cube.shape[0]} components, got {count}.")
    progress = as_progress(progress)
    # The precision of the cube is enough for the large components, and takes half the time.
    read = partial(pixels, kind=np.result_type(cube.data.dtype, np.float32))
    found = statistics_of(cube, progress.part(0, 0.5), read).principal_components
    axes = found.eigenvectors[:, :count].T
    bands = _projected(cube, axes, found.stats.mean, progress.part(0.5, 1))
    # A constant cube has no variance, so its components explain nothing.
    shares = found.eigenvalues[:count] / (found.eigenvalues.sum() or 1)
    titles = (f"PC {number} ({share:.1%})" for number, share in enumerate(shares, 1))
    return Map(cube, bands, tuple(titles))


def _projected(
    cube: SpectralCube, axes: Doubles, mean: Doubles, progress: Progress, *, is_back: bool = False
) -> Singles:
    """Project the pixels, less their *mean* (B,), on *axes* (n, B): (n, H, W).

    With *is_back* the projections are bands again, and the mean is added.
    """
    kind = np.result_type(cube.data.dtype, np.float32)
    axes, mean = axes.astype(kind), mean[:, None].astype(kind)
    bands = new_planes(len(axes), cube)
    for rows, good, values in pixels(cube, progress, None):
        projected = axes @ (values - mean)
        if is_back:
            projected += mean
        put(bands[:, rows], good, projected)
    return bands


@MapKind(
    "Minimum noise fraction",
    "The directions in which the signal is largest beside the noise, with that ratio.",
    number=Number("count", "Components", 3, 1, 20),
    is_of_spectra=True,
)
def noise_fractions(cube: SpectralCube, count: int = 3, *, progress: ProgressLike = None) -> Map:
    """The first *count* components by signal-to-noise ratio, in units of the noise.

    Noise is estimated from differences between diagonal neighbours: Green et al., IEEE Trans.
    Geosci. Remote Sens. 26 (1988) 65, doi:10.1109/36.3001. The note gives the number of dimensions
    that HySime finds.

    Raises
    ------
    SpectrumError
        If *count* is not within 0 to B, if fewer than two pixels are finite in all bands, or if a
        band has no noise.
    Cancelled
        Soon after *progress* was cancelled.
    """
    bands, ratios, dimensions = separated(cube, int(count), progress=progress)
    titles = (f"MNF {number} (SNR {ratio:.3g})" for number, ratio in enumerate(ratios, 1))
    note = f"HySime finds {dimensions} dimensions in this cube."
    return Map(cube, bands, tuple(titles), note=note)


@MapKind(
    "Denoised by MNF",
    "A cube of its first components of the minimum noise fraction alone. 0 takes as many as HySime "
    "finds.",
    content="cube",
    number=Number("count", "Components; 0: as many as HySime finds", 0, 0, 1000),
)
def without_noise(cube: SpectralCube, count: int = 0, *, progress: ProgressLike = None) -> Map:
    """*cube* rebuilt from its first *count* components alone: see `noise_fractions`."""
    values, ratios, _ = separated(cube, int(count), is_back=True, progress=progress)
    note = f"The cube has the {len(ratios)} components of its largest signal over noise (MNF)."
    return Map(cube, values, note=note)


def separated(
    cube: SpectralCube, count: int, *, is_back: bool = False, progress: ProgressLike = None
) -> tuple[Singles, Doubles, int]:
    """Return the planes (n, H, W) of `noise_fractions`, ratios (n,), and the dimensions by HySime.

    A ratio is signal variance over noise variance.

    Parameters
    ----------
    count
        Number of components; 0 stands for the dimensions that HySime finds.
    is_back
        Return the cube (B, H, W) rebuilt from these components instead of the planes.
    """
    if not 0 <= count <= cube.shape[0]:
        raise SpectrumError(f"Expected 0 to {cube.shape[0]} components, got {count}.")
    progress = as_progress(progress)
    signal = statistics_of(cube, progress.part(0, 0.3))
    noise = statistics_of(cube, progress.part(0.3, 0.6), _differences)
    noise.cov = noise.cov / 2
    if np.linalg.cond(noise.cov) > _WORST:
        raise SpectrumError(
            "Expected noise of its own in every band, got less: bands that are interpolated or "
            "estimated have none. Take principal components."
        )
    dimensions = _dimensions(signal)
    count = count or dimensions
    whitening = noise.sqrt_inv_cov
    # `spectral.mnf` uses `eig` instead, whose results may be complex by rounding.
    powers, turns = np.linalg.eigh(whitening @ signal.cov @ whitening)
    kept = turns[:, ::-1][:, :count]
    axes = kept.T @ whitening
    if is_back:
        axes = noise.sqrt_cov @ kept @ axes
    values = _projected(cube, axes, signal.mean, progress.part(0.6, 1), is_back=is_back)
    return values, powers[::-1][:count] - 1, dimensions


def _dimensions(statistics: Any) -> int:
    """Estimate, by HySime, the number of spectra that the pixels mix.

    Bioucas-Dias & Nascimento, IEEE Trans. Geosci. Remote Sens. 46 (2008) 2435,
    doi:10.1109/TGRS.2008.918089.
    """
    count = statistics.nsamples
    both = statistics.cov * (count - 1) / count + np.outer(statistics.mean, statistics.mean)
    # The noise of a band is the part that no mixture of other bands explains. One inverse gives the
    # noise of all bands.
    inverse = np.linalg.pinv(both)
    share = inverse / np.diag(inverse)[:, None]
    noise = np.diag(share @ both @ share.T)
    signal = np.eye(len(both)) - share
    _, axes = np.linalg.eigh(signal @ both @ signal.T)
    powers = np.einsum("bn,bc,cn->n", axes, both, axes)
    noises = np.einsum("bn,b,bn->n", axes, noise, axes)
    return max(1, int((2 * noises < powers).sum()))


def _differences(cube: SpectralCube, progress: Progress) -> Iterator[tuple[slice, Mask, Doubles]]:
    """Yield differences between diagonal neighbours in the form in which `pixels` yields pixels."""
    above = np.empty((cube.shape[0], 0, cube.shape[2]))
    for rows, strip in strips(cube, progress):
        both = np.concatenate([above, strip], axis=1)
        steps = both[:, :-1, :-1] - both[:, 1:, 1:]
        good = np.isfinite(steps.sum(axis=0))
        yield rows, good, steps[:, good]
        above = strip[:, -1:]


@MapKind(
    "Anomalies (RX)", "How far each pixel is from all others, as RX measures it.", colormap="magma"
)
def anomalies(cube: SpectralCube, *, progress: ProgressLike = None) -> Map:
    """Squared Mahalanobis distance (RX) of each pixel from all pixels of *cube*.

    Reed & Yu, IEEE Trans. Acoust. Speech Signal Process. 38 (1990) 1760, doi:10.1109/29.60107.

    Raises
    ------
    SpectrumError
        If no more than B + 1 pixels are finite in all bands: all would be equally far.
    Cancelled
        Soon after *progress* was cancelled.
    """
    progress = as_progress(progress)
    statistics = statistics_of(cube, progress.part(0, 0.5))
    bands, count = cube.shape[0], statistics.nsamples
    if count <= bands + 1:
        raise SpectrumError(
            f"Expected more than {bands + 1} usable pixels for {bands} bands, got {count}, which "
            "are all equally far from their mean. Take a larger cube, or fewer bands."
        )
    note = f"{count} pixels are too few for {bands} bands: an anomaly hides itself."
    mean = statistics.mean[:, None]
    result = np.full(cube.shape[1:], np.nan, dtype=np.float32)
    for rows, good, values in pixels(cube, progress.part(0.5, 1)):
        values -= mean
        result[rows][good] = np.einsum("bn,bn->n", statistics.inv_cov @ values, values)
    return Map(cube, result, note=note if count < FEW * bands else "")


def statistics_of(cube: SpectralCube, progress: Progress, read: Any = pixels) -> Any:
    """Return mean and covariance of all pixels, or of what *read* yields: `spectral.GaussianStats`.

    Sums are taken of differences from the first pixels, since squares of values far from zero would
    hide a small variance.
    """
    from spectral import GaussianStats

    count = 0
    origin = total = squares = np.zeros(())
    for _, good, values in read(cube, progress):
        if not good.any():
            continue
        origin = origin if count else values.mean(axis=1)
        values -= origin[:, None]
        total = total + values.sum(axis=1, dtype=np.float64)
        squares = squares + values @ values.T
        count += values.shape[1]
    check_enough(count)
    covariance = (squares - np.outer(total, total) / count) / (count - 1)
    return GaussianStats(origin + total / count, covariance, count)


@MapKind(
    "Denoised",
    "A cube in which each pixel is the mean of those around it that look alike (non-local means).",
    content="cube",
    number=Number("h", "h", BEST_H, 0.1, 10.0, 1, "x noise"),
)
def denoised(cube: SpectralCube, h: float = BEST_H, *, progress: ProgressLike = None) -> Map:
    """*cube* with every pixel replaced by the mean of similar pixels around it.

    *h* is in units of the noise of each band, by which patches are compared. NaN stays NaN.

    Raises
    ------
    DenoisingError
        If *h* is not above 0, or the cube has no measurable noise.
    Cancelled
        As soon as *progress* is cancelled.
    """
    using = Filter(h, PATCH, DISTANCE, sigma=1.0)
    data = np.asarray(cube.data)
    is_known = np.isfinite(data).all(axis=0)
    noise = band_noise(data, is_known)
    if not noise.max() > 0:
        raise DenoisingError(
            "Expected a cube with noise, got one whose neighbouring pixels are equal. "
            "Leave it as it is."
        )
    scale = np.maximum(noise, _LEAST_NOISE * noise.max())[:, None, None]

    def image(start: int, stop: int) -> Doubles:
        return np.where(is_known[start:stop], data[:, start:stop], 0.0) / scale

    note = f"The cube was denoised by non-local means, h = {h:g} x the noise of its bands."
    return Map(cube, averaged(image, data, is_known, using, as_progress(progress)), note=note)


def band_noise(data: Floats, is_known: Mask) -> Doubles:
    """Estimate the noise (B,) of each band of *data* (B, H, W), as a standard deviation.

    The estimate uses differences along both diagonals of 2 x 2 pixels, which cancel slow changes,
    and their median, which texture hardly affects: Donoho & Johnstone, Biometrika 81 (1994) 425,
    doi:10.1093/biomet/81.3.425.
    """
    is_whole = is_known[:-1, :-1] & is_known[:-1, 1:] & is_known[1:, :-1] & is_known[1:, 1:]
    noise = np.zeros(len(data))
    for index, band in enumerate(data.astype(np.float64, copy=False) if is_whole.any() else ()):
        detail = (band[:-1, :-1] - band[:-1, 1:] - band[1:, :-1] + band[1:, 1:]) / 2
        noise[index] = np.median(np.abs(detail[is_whole])) / _MEDIAN_OF_NORMAL
    return noise
