"""Cubes as colour images: three wavelengths, or what an eye sees, and its distance from a photo.

Letters: B bands, H rows, W columns.
"""

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.colour import linear_to_srgb, render_srgb
from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.photo.photo import Photo, as_photo
from napari_mst.spectra.ratios import band_near
from napari_mst.spectra.spectrum import Map
from napari_mst.spectra.strips import strips
from napari_mst.watch import IsCancelled, Progress, Watch

VISIBLE = (450.0, 650.0)
"""Nanometres that a cube must cover to have a true colour; the eye sees little outside them."""
STRETCHED_PIXELS = 2**20
"""About how many pixels are looked at for the percentiles of `composite`."""


def composite(
    cube: SpectralCube,
    wavelengths: tuple[float, float, float],
    percentiles: tuple[float, float] = (2, 98),
) -> NDArray[np.float32]:
    """The bands nearest to three *wavelengths* as red, green and blue, (H, W, 3) of 0-1.

    Each band is stretched on its own, from its lower percentile at 0 to its upper one at 1. In a
    large image, the percentiles are those of every n-th pixel. Values that are not numbers are 0.

    Raises
    ------
    SpectrumError
        If a wavelength is outside those of the cube, or the percentiles are not two rising ones.
    """
    low, high = percentiles
    if not 0 <= low < high <= 100:
        raise SpectrumError(
            f"Expected two rising percentiles within 0-100, got {low:g} and {high:g}."
        )
    bands = [band_near(cube, wavelength) for wavelength in wavelengths]
    return np.stack([_stretched(np.asarray(cube.data[band]), low, high) for band in bands], axis=-1)


def true_colour(
    cube: SpectralCube, progress: Progress | None = None, is_cancelled: IsCancelled | None = None
) -> NDArray[np.uint8]:
    """*cube* in daylight (D65) as the CIE 1931 observer sees it: (H, W, 3) 8-bit sRGB.

    Its numbers are taken as reflectances. Colours outside sRGB are clipped; pixels that are not
    numbers are black.

    Raises
    ------
    SpectrumError
        If the wavelengths do not cover 450-650 nm.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    _check_visible(cube)
    image = np.zeros((*cube.shape[1:], 3), dtype=np.uint8)
    for rows, strip in strips(cube, Watch(progress, is_cancelled)):
        encoded = np.round(255 * _seen(cube, strip))
        image[rows] = np.where(np.isfinite(encoded), encoded, 0).astype(np.uint8)
    return image


def colour_difference(
    cube: SpectralCube,
    photo: Photo | str | PathLike[str] | ArrayLike,
    progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
) -> Map:
    """CIEDE2000 difference of the true colour of *cube* from *photo* of the same size, (H, W).

    A difference of about 1 is just visible. Both are clipped to sRGB; a pixel is NaN where either
    is not a number. ISO/CIE 11664-6:2022; computed by scikit-image.

    Raises
    ------
    SpectrumError
        If the sizes differ, *photo* does not have three channels, or the wavelengths do not cover
        450-650 nm.
    Cancelled
        Soon after *is_cancelled* returned true.
    """
    color = _skimage_color()
    _check_visible(cube)
    source = as_photo(photo)
    _check_size(cube, source)
    result = np.empty(cube.shape[1:], dtype=np.float32)
    for rows, strip in strips(cube, Watch(progress, is_cancelled)):
        seen = color.rgb2lab(_seen(cube, strip))
        shot = color.rgb2lab(_shot(source, rows))
        result[rows] = color.deltaE_ciede2000(seen, shot)
        if source.valid is not None:
            result[rows][~source.valid[rows]] = np.nan
    return result


def _seen(cube: SpectralCube, strip: NDArray[np.float64]) -> NDArray[np.float64]:
    """sRGB of a strip of the cube, (k, W, 3) of 0-1."""
    linear = np.clip(render_srgb(strip, cube.wavelengths), 0, 1).astype(np.float64)
    return np.moveaxis(np.asarray(linear_to_srgb(linear), dtype=np.float64), 0, -1)


def _shot(photo: Photo, rows: slice) -> NDArray[np.float64]:
    """sRGB of some rows of the photo, (k, W, 3) of 0-1."""
    linear = photo.rows(rows.start, rows.stop, linear=True).astype(np.float64)
    encoded = np.asarray(linear_to_srgb(np.clip(linear, 0, 1)), dtype=np.float64)
    return np.moveaxis(encoded, 0, -1)


def _stretched(band: NDArray[Any], low: float, high: float) -> NDArray[np.float32]:
    sample = band.reshape(-1)[:: max(1, band.size // STRETCHED_PIXELS)].astype(np.float64)
    sample = sample[np.isfinite(sample)]
    dark, bright = np.percentile(sample, (low, high)) if sample.size else (0.0, 1.0)
    width = np.float32(bright - dark or 1)  # a constant band has no width
    stretched = (band.astype(np.float32) - np.float32(dark)) / width
    return np.clip(np.where(np.isfinite(stretched), stretched, 0), 0, 1)


def _check_size(cube: SpectralCube, photo: Photo) -> None:
    channels = len(photo.pixels)
    if photo.shape != cube.shape[1:] or channels != 3:
        raise SpectrumError(
            f"Expected an RGB photo of {cube.shape[1]} x {cube.shape[2]} pixels, "
            f"got {channels} channels of {photo.shape[0]} x {photo.shape[1]}. "
            "Take the photo that the cube was made from."
        )


def _check_visible(cube: SpectralCube) -> None:
    low, high = cube.wavelengths.min(), cube.wavelengths.max()
    if not cube.has_wavelengths or low > VISIBLE[0] or high < VISIBLE[1]:
        raise SpectrumError(
            f"Expected wavelengths that cover {VISIBLE[0]:g}-{VISIBLE[1]:g} nm for the true "
            f"colour, got {low:g}-{high:g} {cube.unit}. "
            "Make a composite of three wavelengths instead."
        )


def _skimage_color() -> Any:
    try:
        from skimage import color
    except ImportError:
        raise SpectrumError(
            "Expected scikit-image for colour differences, got none. "
            'Run: pip install "napari-mst[spectra]"'
        ) from None
    return color
