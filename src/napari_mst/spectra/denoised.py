"""Cubes denoised by non-local means: by their own spectra, or guided by the photo.

Letters: B bands, H rows, W columns.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.denoising.blocks import Doubles
from napari_mst.denoising.non_local_means import checked
from napari_mst.denoising.photos import DISTANCE, PATCH, denoising_of, guided
from napari_mst.denoising.streaming import Filter, averaged
from napari_mst.errors import DenoisingError
from napari_mst.photo.photo import Photo
from napari_mst.watch import Watch

_MEDIAN_OF_NORMAL = 0.6745
"""The median of the magnitudes of numbers with a standard deviation of 1."""

_LEAST_NOISE = 1e-6  # a share of the largest noise: a band without any would outweigh all others


class DenoisedCube(NamedTuple):
    """Values (B, H, W) float32, NaN where the cube or its guide has no value, and how they came."""

    values: NDArray[np.float32]
    note: str


def denoised(cube: SpectralCube, h: float, watch: Watch) -> DenoisedCube:
    """*cube*, each pixel the mean of those around it whose spectra and surroundings are alike.

    *h* is in units of the noise of each band, by which patches are compared.

    Raises
    ------
    DenoisingError
        If *h* is not above 0, or the cube has no noise to tell.
    Cancelled
        As soon as *watch* says so.
    """
    checked(h, PATCH, None, 1.0, cube.shape)
    data = np.asarray(cube.data)
    known = np.isfinite(data).all(axis=0)
    noise = band_noise(data, known)
    if not noise.max() > 0:
        raise DenoisingError(
            "Expected a cube with noise, got one whose neighbouring pixels are equal. "
            "Let its photo guide, or leave it as it is."
        )
    scale = np.maximum(noise, _LEAST_NOISE * noise.max())[:, None, None]

    def image(start: int, stop: int) -> Doubles:
        scaled: Doubles = np.where(known[start:stop], data[:, start:stop], 0.0) / scale
        return scaled

    using = Filter(h, PATCH, DISTANCE, sigma=1.0)
    note = f"The cube was denoised by non-local means, h = {h:g} x the noise of its bands."
    return DenoisedCube(averaged(image, data, known, using, watch), note)


def denoised_by_photo(cube: SpectralCube, photo: Photo, h: float, watch: Watch) -> DenoisedCube:
    """*cube*, averaged with the weights of the *photo* on its pixels; *h* is in units of its noise.

    Raises
    ------
    DenoisingError
        If *h* is not above 0, the sizes differ, or the photo cannot tell its noise.
    Cancelled
        As soon as *watch* says so.
    """
    how = denoising_of(photo, h, watch)
    values = guided(photo, np.asarray(cube.data), how, watch)
    return DenoisedCube(values, f"The cube was denoised, guided by its photo: {how}.")


def band_noise(data: NDArray[np.floating], known: NDArray[np.bool_]) -> Doubles:
    """The standard deviation of the noise of each band of *data* (B, H, W): (B,).

    It is that of differences along both diagonals of 2 x 2 pixels, which cancel whatever changes
    slowly, by their median, which texture hardly moves: Donoho & Johnstone, Biometrika 81 (1994)
    425, doi:10.1093/biomet/81.3.425.
    """
    if min(known.shape) < 2:
        return np.zeros(len(data))
    is_whole = known[:-1, :-1] & known[:-1, 1:] & known[1:, :-1] & known[1:, 1:]
    if not is_whole.any():
        return np.zeros(len(data))
    noise = np.empty(len(data))
    for index, band in enumerate(data.astype(np.float64, copy=False)):
        detail = (band[:-1, :-1] - band[:-1, 1:] - band[1:, :-1] + band[1:, 1:]) / 2
        noise[index] = np.median(np.abs(detail[is_whole])) / _MEDIAN_OF_NORMAL
    return noise
