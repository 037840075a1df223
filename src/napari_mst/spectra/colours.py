"""Cubes as colour images: what an eye sees, and its distance from a photo.

Letters: B bands, H rows, W columns.
"""

from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.colour import linear_to_srgb
from napari_mst.cube import SpectralCube
from napari_mst.cube.pictures import VISIBLE, has_colour
from napari_mst.errors import SpectrumError
from napari_mst.illuminants import colour_weights
from napari_mst.photo.photo import Photo, as_photo
from napari_mst.spectra.spectrum import Map
from napari_mst.spectra.strips import strips
from napari_mst.watch import Watched, watching


def true_colour(cube: SpectralCube, watch: Watched = None) -> NDArray[np.uint8]:
    """*cube* in daylight (D65) as the CIE 1931 observer sees it: (H, W, 3) 8-bit sRGB.

    Its numbers are taken as reflectances. Colours outside sRGB are clipped; pixels that are not
    numbers are black.

    Raises
    ------
    SpectrumError
        If the wavelengths do not cover 450-650 nm.
    Cancelled
        Soon after *watch* was cancelled.
    """
    _check_visible(cube)
    return cube.render(full_scale=1.0, watch=watch)


def colour_difference(
    cube: SpectralCube,
    photo: Photo | str | PathLike[str] | ArrayLike,
    watch: Watched = None,
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
        Soon after *watch* was cancelled.
    """
    from skimage import color

    _check_visible(cube)
    source = as_photo(photo)
    _check_size(cube, source)
    result = np.empty(cube.shape[1:], dtype=np.float32)
    for rows, strip in strips(cube, watching(watch)):
        seen = color.rgb2lab(_seen(cube, strip))
        shot = color.rgb2lab(_shot(source, rows))
        result[rows] = color.deltaE_ciede2000(seen, shot)
        if source.valid is not None:
            result[rows][~source.valid[rows]] = np.nan
    return result


def _seen(cube: SpectralCube, strip: NDArray[np.float64]) -> NDArray[np.float64]:
    """sRGB of a strip of the cube, (k, W, 3) of 0-1."""
    weights = colour_weights(cube.wavelengths)
    linear = np.clip(np.moveaxis(strip, 0, -1) @ weights, 0, 1)
    return np.asarray(linear_to_srgb(linear), dtype=np.float64)


def _shot(photo: Photo, rows: slice) -> NDArray[np.float64]:
    """sRGB of some rows of the photo, (k, W, 3) of 0-1."""
    linear = photo.rows(rows.start, rows.stop, linear=True).astype(np.float64)
    encoded = np.asarray(linear_to_srgb(np.clip(linear, 0, 1)), dtype=np.float64)
    return np.moveaxis(encoded, 0, -1)


def _check_size(cube: SpectralCube, photo: Photo) -> None:
    channels = len(photo.pixels)
    if photo.shape != cube.shape[1:] or channels != 3:
        raise SpectrumError(
            f"Expected an RGB photo of {cube.shape[1]} x {cube.shape[2]} pixels, "
            f"got {channels} channels of {photo.shape[0]} x {photo.shape[1]}. "
            "Take the photo that the cube was made from."
        )


def _check_visible(cube: SpectralCube) -> None:
    if not has_colour(cube):
        low, high = cube.wavelengths.min(), cube.wavelengths.max()
        raise SpectrumError(
            f"Expected wavelengths that cover {VISIBLE[0]:g}-{VISIBLE[1]:g} nm for the true "
            f"colour, got {low:g}-{high:g} {cube.unit}. "
            "Make a composite of three wavelengths instead."
        )
