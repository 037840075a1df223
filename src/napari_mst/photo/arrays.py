"""Arrays of any layout, as pixels with their channels last.

Letters: H rows, W columns, C channels.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.errors import PhotoError
from napari_mst.photo.files import Pixels

BLOCK_ROWS = 64
"""Rows that are worked on at a time: few enough that their copies are small."""


def as_array(source: ArrayLike) -> Pixels:
    """*source* as an array of real numbers, which keeps its mask; of a multiscale image level 0."""
    if _is_multiscale(source):
        source = source[0]
    try:
        array = np.asanyarray(source)
    except (TypeError, ValueError) as error:
        raise PhotoError(
            f"Expected an array of numbers, got {type(source).__name__}. Pass (H, W, 3)."
        ) from error
    if array.dtype.kind not in "buif":
        raise PhotoError(
            f"Expected real numbers, got {array.dtype} values. Convert the array first."
        )
    return array if np.ma.is_masked(array) else np.asarray(array)


def channels_last(array: Pixels, notes: list[str]) -> Pixels:
    """*array* as (H, W) or (H, W, C).

    Where the first and the last axis could both be channels, the last is taken, which *notes* say.
    """
    while array.ndim > 3 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[2] in (3, 4):
        if array.shape[0] in (3, 4):
            notes.append(f"Shape {array.shape} was read as rows, columns, channels.")
        return array
    if array.ndim == 3 and array.shape[0] in (1, 3, 4):
        return np.moveaxis(array, 0, -1)
    if array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 2)):
        return array
    raise PhotoError(
        f"Expected an array (H, W), (H, W, 3) or (3, H, W), got shape {array.shape}. "
        "Pass one page of a stack."
    )


def digest(array: Pixels) -> str:
    """The sha256 of shape, dtype, values and mask, whatever the strides and the byte order."""
    found = hashlib.sha256(f"{array.shape} {array.dtype.name}".encode())
    if np.ma.is_masked(array):
        found.update(np.ma.getmaskarray(array).tobytes())
    for part in np.ma.filled(array, 0):
        found.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
    return found.hexdigest()


def stored_extrema(image: Pixels, valid: NDArray[np.bool_] | None) -> tuple[float, float]:
    """Least and largest stored value of the *valid* pixels of (H, W, C); None means all of them."""
    lows, highs = [], []
    for top in range(0, len(image), BLOCK_ROWS):
        block = image[top : top + BLOCK_ROWS]
        if valid is not None:
            block = block[valid[top : top + BLOCK_ROWS]]
        if block.size:
            lows.append(block.min())
            highs.append(block.max())
    return float(min(lows)), float(max(highs))


def _is_multiscale(source: ArrayLike) -> TypeGuard[Sequence[ArrayLike]]:
    """True if *source* is a sequence of arrays of several sizes.

    napari's own sequence of levels would become its smallest level as an array.
    """
    if not isinstance(source, Sequence):
        return False
    shapes = [getattr(level, "shape", None) for level in source]
    return None not in shapes and len(set(shapes)) > 1
