"""Cubes denoised by non-local means: by their own spectra, or guided by the photo.

Letters: B bands, H rows, W columns.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import SpectralCube
from napari_mst.denoising.blocks import Doubles
from napari_mst.denoising.photos import DISTANCE, PATCH, denoising_of, guided
from napari_mst.denoising.streaming import Filter, averaged
from napari_mst.errors import DenoisingError
from napari_mst.photo.photo import Photo
from napari_mst.watch import Watch

_MEDIAN_OF_NORMAL = 0.6745
"""The median of the magnitudes of numbers with a standard deviation of 1."""

_LEAST_NOISE = 1e-6  # a share of the largest noise: a band without any would outweigh all others


Denoised = tuple[NDArray[np.float32], str]
"""Values (B, H, W), NaN where the cube or its guide has no value, and how they came."""


def denoised(cube: SpectralCube, h: float, watch: Watch) -> Denoised:
    """*cube* with each pixel replaced by the mean of nearby pixels that look like it.

    *h* is in units of the noise of each band, by which patches are compared.

    Raises
    ------
    DenoisingError
        If *h* is not above 0, or the cube has no measurable noise.
    Cancelled
        As soon as *watch* says so.
    """
    using = Filter(h, PATCH, DISTANCE, sigma=1.0)
    data = np.asarray(cube.data)
    is_known = np.isfinite(data).all(axis=0)
    noise = band_noise(data, is_known)
    if not noise.max() > 0:
        raise DenoisingError(
            "Expected a cube with noise, got one whose neighbouring pixels are equal. "
            "Let its photo guide, or leave it as it is."
        )
    scale = np.maximum(noise, _LEAST_NOISE * noise.max())[:, None, None]

    def image(start: int, stop: int) -> Doubles:
        scaled: Doubles = np.where(is_known[start:stop], data[:, start:stop], 0.0) / scale
        return scaled

    note = f"The cube was denoised by non-local means, h = {h:g} x the noise of its bands."
    return averaged(image, data, is_known, using, watch), note


def denoised_by_photo(cube: SpectralCube, photo: Photo, h: float, watch: Watch) -> Denoised:
    """*cube*, averaged with the weights of the *photo* on its pixels; *h* is in units of its noise.

    Raises
    ------
    DenoisingError
        If *h* is not above 0, the sizes differ, or the noise of the photo cannot be measured.
    Cancelled
        As soon as *watch* says so.
    """
    how = denoising_of(photo, h, watch)
    values = guided(photo, np.asarray(cube.data), how, watch)
    return values, f"The cube was denoised, guided by its photo: {how}."


def band_noise(data: NDArray[np.floating], is_known: NDArray[np.bool_]) -> Doubles:
    """The standard deviation of the noise of each band of *data* (B, H, W): (B,).

    It is that of differences along both diagonals of 2 x 2 pixels, which cancel slow
    changes, by their median, which texture hardly moves: Donoho & Johnstone, Biometrika 81 (1994)
    425, doi:10.1093/biomet/81.3.425.
    """
    if min(is_known.shape) < 2:
        return np.zeros(len(data))
    is_whole = is_known[:-1, :-1] & is_known[:-1, 1:] & is_known[1:, :-1] & is_known[1:, 1:]
    if not is_whole.any():
        return np.zeros(len(data))
    noise = np.empty(len(data))
    for index, band in enumerate(data.astype(np.float64, copy=False)):
        detail = (band[:-1, :-1] - band[:-1, 1:] - band[1:, :-1] + band[1:, 1:]) / 2
        noise[index] = np.median(np.abs(detail[is_whole])) / _MEDIAN_OF_NORMAL
    return noise
