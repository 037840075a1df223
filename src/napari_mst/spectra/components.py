"""Maps from the mean and covariance of all pixels: principal components, and anomalies (RX).

Pixels with a value that is not a number are NaN and count nowhere. Letters: B bands, H rows, W
columns; n components.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.spectra.spectrum import Map, Values
from napari_mst.spectra.strips import check_enough, pixels
from napari_mst.watch import Watch, Watched, watching


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """Components of a cube, the one with the largest variance first.

    Attributes
    ----------
    bands
        (n, H, W), the value of each pixel; their mean is zero.
    explained
        (n,), the share of the whole variance that each component explains, 0-1.
    directions
        (n, B), the unit vector of each component.
    """

    bands: Map
    explained: Values
    directions: Values


def principal_components(
    cube: SpectralCube,
    count: int = 3,
    watch: Watched = None,
) -> PrincipalComponents:
    """The first *count* principal components of the pixels of *cube*.

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
    explained = components.eigenvalues[:count] / variance
    directions = np.ascontiguousarray(components.eigenvectors[:, :count].T)
    return PrincipalComponents(bands, explained, directions)


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
