"""Arrays of any layout as pixels with channels last, and the interpretation of stored values.

The interpretation is the stored value of 1.0 and the mask of unknown pixels. Every guess becomes a
note for the user. Letters: H rows, W columns, C channels.

`full_scale` is the stored value of 1.0:

- uint8: 255. uint16: 65535, with a note if nothing exceeds 4095 (perhaps 12 bits). bool: black and
  white.
- wider or signed integers: like uint8 or uint16, whichever holds the largest value.
- floats: 1 if the largest value is at most 2 (so that an overshoot changes nothing), or if most
  values above 0 are below 1 (light with highlights); else 255, else 65535.
- `full_scale=` overrides all of these for arrays.
"""

import functools
import hashlib
import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.base.arrays import Array, Doubles, DType, Floats, Mask, Singles, singles
from napari_mst.base.errors import PhotoError
from napari_mst.cube.colour import srgb_to_linear
from napari_mst.cube.lazy import mapped
from napari_mst.photo.raw import MAX_PIXELS

BLOCK_ROWS = 64
"""Rows processed at a time, few enough that their copies are small."""
_SLICES = 512  # rows or columns of a large array copied at a time, a usual side of chunks


def as_array(source: ArrayLike) -> Array:
    """*source*, or level 0 of a multiscale image, as an array of real numbers with its mask."""
    if _is_multiscale(source):
        source = source[0]
    try:
        array = _on_disk(source) if _is_large(source) else np.asanyarray(source)
    except (TypeError, ValueError) as error:
        raise PhotoError(
            f"Expected an array of numbers, got {type(source).__name__}. Pass (H, W, 3)."
        ) from error
    if array.dtype.kind not in "buif":
        raise PhotoError(
            f"Expected real numbers, got {array.dtype} values. Convert the array first."
        )
    return array if np.ma.is_masked(array) else np.asarray(array)


def _is_large(source: Any) -> bool:
    """True for an array of zarr, dask or h5py that is too large to be read into memory."""
    is_apart = hasattr(source, "dtype") and not isinstance(source, np.ndarray)
    return is_apart and math.prod(source.shape) > 3 * MAX_PIXELS


def _on_disk(source: Any) -> Array:
    """A copy of an array that is read by slicing, in a memory-mapped file."""
    copy = mapped(source.shape, source.dtype)
    axis = int(np.argmax(source.shape))
    for start in range(0, source.shape[axis], _SLICES):
        part = (*[slice(None)] * axis, slice(start, start + _SLICES))
        copy[part] = source[part]
    return copy


def channels_last(array: Array, notes: list[str]) -> Array:
    """*array* as (H, W) or (H, W, C).

    If both the first and the last axis could be channels, the last axis counts, and *notes* gets a
    note.
    """
    while array.ndim > 3 and 1 in array.shape:
        array = array.squeeze(array.shape.index(1))
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


def digest(array: Array) -> str:
    """The sha256 of shape, dtype, values and mask, regardless of strides and byte order."""
    checksum = hashlib.sha256(f"{array.shape} {array.dtype.name}".encode())
    if np.ma.is_masked(array):
        checksum.update(np.ma.getmaskarray(array).tobytes())
    for part in np.ma.filled(array, 0):
        checksum.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
    return checksum.hexdigest()


def stored_extrema(image: Array, valid: Mask | None) -> tuple[float, float]:
    """Smallest and largest stored value of the *valid* pixels (None for all) of (H, W, C)."""
    values = image if valid is None else image[valid]
    return float(values.min()), float(values.max())


def _is_multiscale(source: ArrayLike) -> TypeGuard[Sequence[ArrayLike]]:
    """True if *source* is a sequence of arrays of several sizes.

    As an array, napari's sequence of levels would become its smallest level.
    """
    if not isinstance(source, Sequence):
        return False
    shapes = [getattr(level, "shape", None) for level in source]
    return None not in shapes and len(set(shapes)) > 1


_UINT8 = np.iinfo(np.uint8).max
_UINT16 = np.iinfo(np.uint16).max
_TWELVE_BITS = 4095

# The largest float at a full scale of 1, so that an overshoot from sharpening changes nothing.
_OVERSHOOT = 2.0
_SAMPLES = 1_000_000
AS_CODES = "Float values were taken as sRGB-encoded, not as linear light."
AS_LIGHT = "They were taken as linear light: sRGB has no such values."


def interpret(
    image: Array, full_scale: float | None, encoding: str | None, notes: list[str]
) -> tuple[Array, float, Mask | None, bool]:
    """The interpretation of *image*, (H, W) or (H, W, C); assumptions are appended to *notes*.

    A full scale or encoding of None is guessed.

    Returns
    -------
    The `pixels`, the `full_scale` and `valid` of a `Photo`; and True if the values must be linear
    light, since no code is so far above white.

    Raises
    ------
    PhotoError
        If the image is empty, *full_scale* is impossible, or the values are not those of a photo.
    """
    if full_scale is not None and not (math.isfinite(full_scale) and full_scale > 0):
        raise PhotoError(f"Expected a positive full_scale, got {full_scale!r}.")
    if 0 in image.shape:
        raise PhotoError(f"Expected a photo of at least one pixel, got shape {image.shape}.")
    image, hidden = _unmasked(_without_alpha(image, notes))
    image, valid = _masked(_supported_dtype(image, notes), hidden, notes)
    low, high = stored_extrema(image, valid)
    is_float = image.dtype.kind == "f"
    is_light = is_float and full_scale is None and high > _OVERSHOOT and _is_mostly_below_1(image)
    if is_light:
        scale = 1.0
        notes.append(f"Float values reach {high:.3g}, but most are below 1: 1 was taken as white.")
    else:
        scale = float(full_scale or _guess_full_scale(image.dtype, high, notes))
    if low == high:
        notes.append("The photo is constant: there is nothing to see in it.")
    if is_float:
        if low < 0 or high > scale:
            span = f"{low / scale:.3g} to {high / scale:.3g}"
            notes.append(f"Values beyond full scale ({span}) were kept.")
        if encoding is None:
            notes.append(AS_LIGHT if is_light else AS_CODES)
    rows, columns, _ = image.shape
    # A view, so that a grey photo takes only the memory of one channel.
    in_colour = np.broadcast_to(image, (rows, columns, 3))
    return np.moveaxis(in_colour, -1, 0), scale, valid, is_light


def _without_alpha(image: Array, notes: list[str]) -> Array:
    """*image*, (H, W) or (H, W, 1 to 4), as (H, W, 1) or (H, W, 3)."""
    if image.ndim == 2:
        image = image[..., None]
    channels = image.shape[2]
    if channels not in (1, 2, 3, 4):
        raise PhotoError(
            f"Expected 1, 3 or 4 channels, got {channels}. Open a spectral cube as a cube."
        )
    is_grey = channels in (1, 2)
    if is_grey:
        notes.append("The photo is grey: its values were used for red, green and blue.")
    if channels in (2, 4):
        notes.append("The last channel (alpha) was dropped.")
    return image[..., :1] if is_grey else image[..., :3]


def _supported_dtype(image: Array, notes: list[str]) -> Array:
    """*image* as uint8, uint16 or float32 with the same numbers; True becomes 255."""
    kind = image.dtype.kind
    if kind == "b":
        return image * np.uint8(_UINT8)
    if kind == "f":
        # Numbers too large for float32 become infinite, and their pixels are left out.
        with np.errstate(over="ignore"):
            return image.astype(np.float32, copy=False)
    if kind == "u" and image.dtype.itemsize <= 2:
        return image
    low, high = int(image.min()), int(image.max())
    if low < 0 or high > _UINT16:
        raise PhotoError(
            f"Expected whole numbers 0 to 65535, got {low} to {high}. "
            "Scale them, or pass floats 0 to 1."
        )
    target = np.dtype(np.uint8 if high <= _UINT8 else np.uint16)
    notes.append(f"{image.dtype.name} values were read as {target.name}.")
    return image.astype(target)


def _unmasked(image: Array) -> tuple[Array, Mask | None]:
    """The image without its mask, 0 in pixels masked in any channel; and the mask of these."""
    if not np.ma.is_masked(image):
        return image, None
    hidden = np.asarray(np.ma.getmaskarray(image).any(axis=-1))
    return np.where(hidden[..., None], image.dtype.type(0), np.ma.getdata(image)), hidden


def _masked(image: Array, hidden: Mask | None, notes: list[str]) -> tuple[Array, Mask | None]:
    """The image with 0 in pixels that are *hidden* or not finite in every channel.

    Also returns the mask of the valid pixels, None if all are valid.
    """
    if image.dtype.kind != "f" and hidden is None:
        return image, None
    valid = np.ones(image.shape[:2], bool) if hidden is None else ~hidden
    if image.dtype.kind == "f":
        # Channel by channel, to avoid a mask of all channels.
        for channel in range(image.shape[2]):
            valid &= np.isfinite(image[..., channel])
    missing = valid.size - np.count_nonzero(valid)
    if missing == 0:
        return image, None
    if missing == valid.size:
        raise PhotoError("Expected a photo, got only NaN, infinite or masked pixels.")
    notes.append(
        f"{missing} of {valid.size} pixels are NaN, infinite or masked: "
        "they are left out, also of the cube."
    )
    return np.where(valid[..., None], image, image.dtype.type(0)), valid


def _guess_full_scale(dtype: DType, high: float, notes: list[str]) -> float:
    if dtype.kind == "u":
        if dtype.itemsize == 2 and 0 < high <= _TWELVE_BITS:
            notes.append(
                f"No value exceeds {_TWELVE_BITS}: if these are 12 bits, "
                "the photo is 16 times too dark."
            )
        return float(np.iinfo(dtype).max)
    for limit, scale in ((_OVERSHOOT, 1.0), (255.0, 255.0), (65535.0, 65535.0)):
        if high <= limit:
            if scale > 1:
                notes.append(f"Float values reach {high:g}: {scale:g} was taken as full scale.")
            return scale
    raise PhotoError(
        f"Expected float values up to 65535, got {high:g}. Scale them to 0-1, or pass full_scale."
    )


def _is_mostly_below_1(image: Array) -> bool:
    """True if most of the values above 0 are below 1.

    This holds for linear light with highlights or high contrast. Hardly any code from 0 to 255 or
    65535 lies below 1, even if much of the photo is black.
    """
    stride = max(1, int(math.sqrt(image.size / _SAMPLES)))
    sample = image[::stride, ::stride]
    fractions = np.count_nonzero((sample > 0) & (sample < 1))
    return bool(2 * fractions > np.count_nonzero(sample > 0))


def sums_between(values: Floats, area: Floats, edges: Doubles) -> Doubles:
    """Sums (C + 1, n) of *values* (C, H, W) weighted by *area* (H, W), and of *area*.

    Each sum covers all rows and the columns between two *edges* (n + 1,), which may cut pixels.
    """
    sums = np.concatenate([np.einsum("chw,hw->cw", values, area), area.sum(axis=0)[None]])
    # Cumulative sums from the left, interpolated between columns; their differences are the sums.
    totals = np.concatenate([np.zeros((len(sums), 1)), sums.cumsum(axis=1)], axis=1)
    columns = np.arange(totals.shape[1])
    return np.diff([np.interp(edges, columns, total) for total in totals], axis=1)


def pixel_edges(length: int, factor: float) -> Doubles:
    """Edges of new pixels that cover *length* old pixels, about *factor* each."""
    count = max(round(length / factor), 1)
    return np.linspace(0, length, count + 1)


@functools.lru_cache(maxsize=8)
def meanings(bits: int, full_scale: float, is_encoded: bool) -> Singles:
    """Decoded values of all integers of *bits* bits: a table is faster than decoding each pixel."""
    values = np.arange(2**bits, dtype=np.float32) / np.float32(full_scale)
    return singles(srgb_to_linear(values) if is_encoded else values)
