"""Non-local means of any image, and the pixels that one of its pixels attends to.

Letters: C channels, K values, H rows, W columns.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.base.arrays import Doubles, Mask
from napari_mst.base.errors import DenoisingError, check_pixel
from napari_mst.base.memory import check_room
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube.parts import plain_array
from napari_mst.denoising.as_attention import attention, tokens
from napari_mst.denoising.streaming import Filter, averaged, working_bytes

_TOKEN_COPIES = 4  # of all tokens, while the weights of one pixel are computed
_ADVICE = "Take a part of the image or a smaller distance."


def non_local_means(  # noqa: PLR0913 (public, its options by name)
    image: ArrayLike,
    h: float,
    *,
    patch: int = 5,
    distance: int | None = 9,
    sigma: float = 0.0,
    value: ArrayLike | None = None,
    progress: ProgressLike = None,
) -> Doubles:
    """Each pixel of *image* as the mean of the pixels whose surroundings look like its own.

    Pixel q weighs exp(-max(d(p, q) - 2 sigma^2, 0) / h^2) in the mean of pixel p. d is the squared
    difference of the patches around both, its mean over channels and pixels; a Gaussian weighs the
    pixels of a patch, and the image is reflected at its edges. `denoising.as_attention` writes the
    same as self-attention.

    Parameters
    ----------
    image
        (C, H, W), a photo or a cube: its patches are compared. A pixel that is NaN or infinite in
        any channel is NaN in the result and weighs nothing; patches that reach into it see 0.
    h
        The difference of patches at which a weight falls to 1/e, in the unit of *image*: 0.4 to 1
        times the standard deviation of its noise. To sum distances over channels, give h / sqrt(C).
    patch
        Pixels along each side of a patch, an odd number; 1 compares single pixels.
    distance
        Pixels to each side that a pixel looks at: its window has 2 *distance* + 1, less at the
        edges. None looks at the whole image, which takes time as the square of its pixels.
    sigma
        The standard deviation of the noise, in the unit of *image*.
    value
        (K, H, W), the numbers to average with these weights: a cube that the photo *image* guides.
        None averages *image* itself.
    progress
        A `Progress`, or a function of the share that is done.

    Returns
    -------
    (K, H, W) float64, within 1e-6 of the largest value; exact to rounding without numba.

    Raises
    ------
    DenoisingError
        If a number is impossible, or *image* and *value* do not fit together.
    OutOfMemory
        If the result is larger than the free memory.
    Cancelled
        Soon after *progress* was cancelled.

    Notes
    -----
    ============  ==============================
    image, value  any unit, such as 0-1
    h, sigma      in the unit of *image*
    returns       float64 in the unit of *value*
    ============  ==============================

    References
    ----------
    Buades, Coll & Morel, CVPR 2005, doi:10.1109/CVPR.2005.38.

    Examples
    --------
    >>> noisy = np.random.default_rng(0).normal(0.5, 0.1, (3, 16, 16))
    >>> smooth = nm.non_local_means(noisy, h=0.1, sigma=0.1)
    >>> round(float(noisy.std()), 2), round(float(smooth.std()), 2)
    (0.1, 0.01)
    """
    pixels = _planes(image, "image")
    values = pixels if value is None else _guided(value, pixels)
    using = _filter(h, patch, distance, sigma, pixels.shape)
    working = working_bytes(pixels.shape[2], len(pixels), len(values), using)
    # A float64 copy of the values, and the result.
    needed = working + 16 * values.size
    check_room(f"{_size(pixels)} pixels", needed, _ADVICE, in_gigabytes=True)
    is_known = np.isfinite(pixels).all(axis=0) & np.isfinite(values).all(axis=0)

    def image_rows(start: int, stop: int) -> NDArray[np.generic]:
        return np.where(is_known[start:stop], pixels[:, start:stop], 0.0)

    return averaged(image_rows, values.astype(np.float64), is_known, using, as_progress(progress))


@dataclass(frozen=True, eq=False)
class WindowWeights:
    """The weights that one pixel gives to the pixels of its window.

    Attributes
    ----------
    weights
        (h, w), not negative; they add up to 1.
    top, left
        The row and the column of the first of them in the image.
    """

    weights: Doubles
    top: int
    left: int

    @property
    def effective(self) -> float:
        """The number of pixels that an equal mean of as little noise would have: 1 / sum w^2."""
        return float(1 / np.square(self.weights).sum())

    def over(self, height: int, width: int) -> Doubles:
        """The weights as an image of *height* x *width* pixels, 0 outside of the window."""
        rows, columns = self.weights.shape
        image = np.zeros((height, width))
        image[self.top : self.top + rows, self.left : self.left + columns] = self.weights
        return image


def non_local_weights(  # noqa: PLR0913 (public, its options by name)
    image: ArrayLike,
    row: int,
    column: int,
    h: float,
    *,
    patch: int = 5,
    distance: int | None = 9,
    sigma: float = 0.0,
) -> WindowWeights:
    """The pixels that the pixel at *row*, *column* attends to, and how much.

    They are the weights of `non_local_means` with the same options, which describes them; pixels
    that are not finite weigh nothing.

    Raises
    ------
    DenoisingError
        If a number is impossible, or the pixel lies outside of *image* or is not finite.

    Notes
    -----
    ========  ======================================
    image     any unit, such as 0-1
    h, sigma  in the unit of *image*
    returns   (h, w) float64, 0-1, which add up to 1
    ========  ======================================

    Examples
    --------
    >>> image = np.zeros((1, 8, 8))
    >>> image[:, :, 4:] = 1
    >>> window = nm.non_local_weights(image, row=3, column=1, h=0.2, patch=1, distance=3)
    >>> window.weights.shape, round(window.effective)
    ((7, 5), 28)
    """
    pixels = _planes(image, "image")
    _, height, width = pixels.shape
    using = _filter(h, patch, distance, sigma, pixels.shape)
    side = 2 * using.halo + 1
    count = min(side, height) * min(side, width)
    numbers = len(pixels) * using.patch**2
    needed = 8 * _TOKEN_COPIES * count * numbers
    check_room(f"{count} tokens of {numbers} numbers", needed, _ADVICE, in_gigabytes=True)
    check_pixel(DenoisingError, row, column, (height, width))
    is_known = np.isfinite(pixels).all(axis=0)
    if not is_known[row, column]:
        raise DenoisingError(
            f"Expected a finite pixel, got NaN or infinity at {row}, {column}. Choose another one."
        )
    return _pixel_weights(np.where(is_known, pixels, 0.0), is_known, (row, column), using)


def _filter(
    h: float, patch: int, distance: int | None, sigma: float, shape: tuple[int, ...]
) -> Filter:
    """Return the filter for an image of *shape* (C, H, W), or raise `DenoisingError`."""
    longest = max(shape[1:])
    if distance is not None and not 0 <= distance < longest:
        raise DenoisingError(
            f"Expected a distance of 0 to {longest - 1} for an image of {shape[1]} x {shape[2]} "
            f"pixels, got {distance}. Give None for the whole image."
        )
    return Filter(h, patch, longest - 1 if distance is None else distance, sigma)


def _planes(image: ArrayLike, name: str) -> NDArray[np.generic]:
    planes = plain_array(image)
    if planes.ndim != 3 or 0 in planes.shape or planes.dtype.kind not in "buif":
        raise DenoisingError(
            f"Expected real numbers of shape (channels, rows, columns) as {name}, "
            f"got {planes.dtype} of shape {planes.shape}. Put the channels first."
        )
    return planes


def _guided(value: ArrayLike, image: NDArray[np.generic]) -> NDArray[np.generic]:
    """The planes of *value*, which the *image* guides; raises `DenoisingError` if sizes differ."""
    planes = _planes(value, "value")
    if planes.shape[1:] != image.shape[1:]:
        raise DenoisingError(
            f"Expected a value of {_size(image)} pixels like the image, got {_size(planes)}. "
            "Give one of the same size."
        )
    return planes


def _size(planes: NDArray[np.generic]) -> str:
    _, height, width = planes.shape
    return f"{height} x {width}"


def _pixel_weights(
    pixels: Doubles, is_known: Mask, place: tuple[int, int], using: Filter
) -> WindowWeights:
    """The weights of the pixel at *place*: one row of the attention, over its window only."""
    row, column = place
    top = max(row - using.distance, 0)
    left = max(column - using.distance, 0)
    window = np.s_[top : row + using.distance + 1, left : column + using.distance + 1]
    height, width = is_known[window].shape
    # With the border of its patches around it; where the image ends, it is reflected as always.
    border = using.border
    padded = np.pad(pixels, ((0, 0), (border, border), (border, border)), mode="reflect")
    wide = padded[:, top : top + height + 2 * border, left : left + width + 2 * border]
    keys = tokens(wide, using)
    query = keys[None, (row - top) * width + column - left]
    weights = attention(query, keys, using).reshape(height, width)
    weights = np.where(is_known[window], weights, 0.0)
    return WindowWeights(weights / weights.sum(), top, left)
