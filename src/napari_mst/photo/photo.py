"""Photos: files and arrays of any depth and layout, kept as they were stored, and what was assumed about them.

Letters: H rows, W columns, C channels.

What a value means (`full_scale` is the stored value that stands for 1.0):

- uint8: 255. uint16: 65535, with a note where nothing exceeds 4095 (perhaps 12 bits). bool: black and white.
- wider or signed integers: as uint8 or uint16, whichever holds the largest value.
- floats: 1 where the largest value is at most 2 (so that an overshoot changes nothing), else 255, else 65535.
- `full_scale=` overrides all of these for arrays.

Whatever the depth, values are taken as sRGB-encoded (IEC 61966-2-1) unless ``encoding="linear"`` is given. Files hold
8 or 16 bits or floats (TIFF, PNG), or what Pillow decodes (8 bits). Orientation (EXIF, TIFF) is applied.
"""

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.colour import linear_to_srgb, srgb_to_linear
from napari_mst.errors import PhotoError
from napari_mst.georeference import Georeference
from napari_mst.photo.files import decode_file, georeference_in
from napari_mst.watch import UNWATCHED, Watch

Encoding = Literal["srgb", "linear"]
Pixels = NDArray[Any]
Rectangle = tuple[int, int, int, int]
"""The first row and one past the last, the first column and one past the last."""

_BLOCK = 64
"""Rows that are converted at a time."""

_TWELVE_BITS = 4095
_OVERSHOOT = 2.0


@dataclass(frozen=True, eq=False)
class Photo:
    """An RGB photo. `read` and `from_array` make one.

    Attributes
    ----------
    pixels
        (3, H, W) uint8, uint16 or float32 as stored: a read-only view where possible.
    full_scale
        The stored value that means 1.0.
    encoding
        How `pixels` are encoded: "srgb" or "linear".
    name
        Name of the file or layer.
    sha256
        Of the file's bytes, or of an array's shape, dtype and values (whatever its strides and byte order).
    valid
        (H, W), False where a pixel was NaN or infinite (it is 0 in `pixels`); None where all are finite.
    assumptions
        One sentence for a person for everything that was converted, dropped or guessed.
    georeference
        Where the pixels lie on earth; None where nothing says so.
    """

    pixels: Pixels
    full_scale: float
    encoding: Encoding
    name: str = ""
    sha256: str = ""
    valid: NDArray[np.bool_] | None = None
    assumptions: tuple[str, ...] = ()
    georeference: Georeference | None = None

    @classmethod
    def read(cls, path: str | PathLike[str], *, encoding: Encoding | None = None) -> Self:
        """Read an image file: PNG, JPEG, TIFF, WebP, BMP and whatever else Pillow decodes.

        Raises
        ------
        PhotoError
            If the file is missing, damaged, not an image, larger than 178 megapixels, or holds several images.
        """
        file, notes = Path(path), list[str]()
        try:
            pixels, sha256 = decode_file(file, notes)
            interpreted = _interpret(pixels, encoding, None, notes)
            return cls(
                name=file.name, sha256=sha256, georeference=georeference_in(file), **interpreted
            )
        except PhotoError as error:
            raise PhotoError(f"{file.name[-60:]}: {error}") from error.__cause__

    @classmethod
    def from_array(
        cls,
        array: ArrayLike,
        *,
        encoding: Encoding | None = None,
        full_scale: float | None = None,
        name: str = "",
    ) -> Self:
        """Take (H, W), (H, W, C) or (C, H, W) with C = 1, 3 or 4 (or grey and alpha last); the array is not changed.

        Of a multiscale image (a sequence of arrays of several sizes) the first, full level is taken.

        Raises
        ------
        PhotoError
            If the array is empty, of another shape, not of real numbers, or has no finite pixel.
        """
        pixels, notes = _as_array(array), list[str]()
        interpreted = _interpret(_channels_last(pixels, notes), encoding, full_scale, notes)
        return cls(name=name, sha256=_digest(pixels), **interpreted)

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W)."""
        _, rows, columns = self.pixels.shape
        return rows, columns

    def rows(self, start: int, stop: int, *, linear: bool) -> NDArray[np.float32]:
        """Rows *start* to *stop*: (3, rows, W) float32, C-contiguous, 0-1 (floats may overshoot); masked pixels are 0.

        *linear* decodes sRGB to linear light; without it these are the stored values over `full_scale`.
        """
        out = np.empty((3, stop - start, self.shape[1]), dtype=np.float32)
        is_encoded = linear and self.encoding == "srgb"
        for top in range(start, stop, _BLOCK):
            bottom = min(top + _BLOCK, stop)
            out[:, top - start : bottom - start] = self._block(top, bottom, is_encoded)
        return out

    def check_linear(self) -> None:
        """Refuse what is plainly no linear light, whatever *encoding* it was given: 8 bits.

        Raises
        ------
        PhotoError
            If the pixels have 8 bits.
        """
        if self.pixels.dtype == np.uint8:
            raise PhotoError(
                "Expected linear values of 16 bits or floats, got 8 bits, which are nearly always sRGB-encoded. "
                "Develop the raw file to a linear 16-bit TIFF, or say that these are linear."
            )

    def extrema(self) -> tuple[float, float]:
        """Least and largest value over all channels of the valid pixels, as `rows(..., linear=False)` gives them."""
        low, high = _extrema(np.moveaxis(self.pixels, 0, -1), self.valid)
        scale = np.float32(self.full_scale)
        return float(np.float32(low) / scale), float(np.float32(high) / scale)

    def cropped(self, rectangle: Rectangle) -> Self:
        """The pixels of *rectangle*: a view, which means what the whole photo means.

        Raises
        ------
        PhotoError
            If the rectangle is empty or reaches beyond the photo.
        """
        top, bottom, left, right = rectangle
        rows, columns = self.shape
        if not (0 <= top < bottom <= rows and 0 <= left < right <= columns):
            raise PhotoError(
                f"Expected a region within {rows} rows x {columns} columns, got rows {top} to {bottom}, "
                f"columns {left} to {right}. Choose one that lies on the photo."
            )
        valid = None if self.valid is None else self.valid[top:bottom, left:right]
        georeference = self.georeference.cropped(top, left) if self.georeference else None
        return replace(
            self,
            pixels=self.pixels[:, top:bottom, left:right],
            valid=valid,
            georeference=georeference,
        )

    def reduced(self, pixels: int, watch: Watch = UNWATCHED) -> Self:
        """The photo as about *pixels* pixels: each the mean, in linear light, of the valid part of what it covers.

        Raises `Cancelled` as soon as *watch* says so.
        """
        rows, columns = self.shape
        factor = max(math.sqrt(rows * columns / pixels), 1.0)
        row_edges, column_edges = (
            np.linspace(0, length, max(round(length / factor), 1) + 1) for length in (rows, columns)
        )
        rows_of_sums = []
        for top, bottom in pairwise(row_edges):
            watch.check()
            rows_of_sums.append(self._weighted_sums(top, bottom, column_edges))
        sums = np.stack(rows_of_sums, axis=1)
        weights = sums[-1]
        means = sums[:-1] / np.where(weights > 0, weights, 1)
        encoded = linear_to_srgb(means) if self.encoding == "srgb" else means
        valid = None if self.valid is None else weights > 0
        steps = rows / (len(row_edges) - 1), columns / (len(column_edges) - 1)
        georeference = self.georeference.scaled(*steps) if self.georeference else None
        return replace(
            self,
            pixels=encoded.astype(np.float32),
            full_scale=1.0,
            valid=valid,
            georeference=georeference,
        )

    def sampled(self, number: int, side: int) -> Self:
        """A mosaic of *number* x *number* squares of *side* pixels from all over the photo; all of it, if no larger."""
        mosaic = self.pixels
        for axis in (1, 2):
            length = mosaic.shape[axis]
            if length > number * side:
                first = np.linspace(0, length - side, number).astype(int)
                mosaic = mosaic.take((first[:, None] + np.arange(side)).ravel(), axis)
        return replace(self, pixels=mosaic, valid=None, georeference=None)

    def _weighted_sums(
        self, top: float, bottom: float, edges: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Sums of the channels, and of the valid area, over rows *top* to *bottom* between *edges*: (C + 1, n)."""
        first, last = math.floor(top), math.ceil(bottom)
        at = np.arange(first, last)
        share = np.minimum(at + 1, bottom) - np.maximum(at, top)
        area = share[:, None] * (
            np.ones(self.shape[1]) if self.valid is None else self.valid[first:last]
        )
        linear = self.rows(first, last, linear=True)
        sums = np.concatenate([np.einsum("crw,rw->cw", linear, area), area.sum(axis=0)[None]])
        totals = np.concatenate([np.zeros((len(sums), 1)), sums.cumsum(axis=1)], axis=1)
        return np.diff(
            [np.interp(edges, np.arange(totals.shape[1]), total) for total in totals], axis=1
        )

    def _block(self, top: int, bottom: int, is_encoded: bool) -> NDArray[np.floating[Any]]:
        block = self.pixels[:, top:bottom]
        if block.dtype.kind == "u":
            return _lookup_table(block.dtype.itemsize * 8, self.full_scale, is_encoded)[block]
        scaled = block / np.float32(self.full_scale)
        return srgb_to_linear(scaled) if is_encoded else scaled


def as_photo(source: Photo | str | PathLike[str] | ArrayLike) -> Photo:
    """A photo as it is, a path read, an array taken: see `Photo.read` and `Photo.from_array`."""
    if isinstance(source, Photo):
        return source
    if isinstance(source, str | PathLike):
        return Photo.read(source)
    return Photo.from_array(source)


@functools.lru_cache(maxsize=8)
def _lookup_table(bits: int, full_scale: float, is_encoded: bool) -> NDArray[np.float32]:
    values = np.arange(2**bits, dtype=np.float32) / np.float32(full_scale)
    return np.asarray(srgb_to_linear(values) if is_encoded else values, dtype=np.float32)


# Arrays


def _as_array(source: ArrayLike) -> Pixels:
    if _is_multiscale(source):
        source = source[0]
    try:
        array = np.asarray(source)
    except (TypeError, ValueError) as error:
        raise PhotoError(
            f"Expected an array of numbers, got {type(source).__name__}. Pass (H, W, 3)."
        ) from error
    if array.dtype.kind not in "buif":
        raise PhotoError(
            f"Expected real numbers, got {array.dtype} values. Convert the array first."
        )
    return array


def _is_multiscale(source: ArrayLike) -> TypeGuard[Sequence[ArrayLike]]:
    """Whether this is a sequence of arrays of several sizes; napari's own, seen as an array, is its smallest level."""
    shapes = (
        [getattr(level, "shape", None) for level in source] if isinstance(source, Sequence) else []
    )
    return None not in shapes and len(set(shapes)) > 1


def _channels_last(array: Pixels, notes: list[str]) -> Pixels:
    """(H, W) or (H, W, C). Where the first and the last axis could both be channels it is the last."""
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
        f"Expected an array (H, W), (H, W, 3) or (3, H, W), got shape {array.shape}. Pass one page of a stack."
    )


def _digest(array: Pixels) -> str:
    digest = hashlib.sha256(f"{array.shape} {array.dtype.name}".encode())
    for part in array:
        digest.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


# What the stored values mean


def _interpret(
    image: Pixels, encoding: Encoding | None, full_scale: float | None, notes: list[str]
) -> dict[str, Any]:
    """Fields of the `Photo` that (H, W) or (H, W, C) values are."""
    if encoding not in (None, "srgb", "linear"):
        raise PhotoError(f"Expected encoding 'srgb' or 'linear', got {encoding!r}.")
    if full_scale is not None and not (math.isfinite(full_scale) and full_scale > 0):
        raise PhotoError(f"Expected a positive full_scale, got {full_scale!r}.")
    if 0 in image.shape:
        raise PhotoError(f"Expected a photo of at least one pixel, got shape {image.shape}.")
    image = _supported_dtype(_without_alpha(image, notes), notes)
    image, valid = _masked(image, notes)
    low, high = _extrema(image, valid)
    scale = _guess_full_scale(image.dtype, high, notes) if full_scale is None else float(full_scale)
    if low == high:
        notes.append("The photo is constant: there is nothing to see in it.")
    if image.dtype.kind == "f":
        notes += _float_notes(low / scale, high / scale, encoding)
    pixels = np.moveaxis(np.broadcast_to(image, (*image.shape[:2], 3)), -1, 0)
    return {
        "pixels": pixels,
        "full_scale": scale,
        "encoding": encoding or "srgb",
        "valid": valid,
        "assumptions": tuple(notes),
    }


def _without_alpha(image: Pixels, notes: list[str]) -> Pixels:
    """(H, W, 1) or (H, W, 3) of any (H, W) or (H, W, 1 to 4)."""
    image = image[..., None] if image.ndim == 2 else image
    channels = image.shape[2]
    if channels not in (1, 2, 3, 4):
        raise PhotoError(
            f"Expected 1, 3 or 4 channels, got {channels}. Open a spectral cube as a cube."
        )
    if channels in (1, 2):
        notes.append("The photo is grey: its values were used for red, green and blue.")
    if channels in (2, 4):
        notes.append("The last channel (alpha) was dropped.")
    return image[..., : channels - 1 + channels % 2]


def _supported_dtype(image: Pixels, notes: list[str]) -> Pixels:
    """The same numbers as uint8, uint16 or float32; True is 255."""
    kind = image.dtype.kind
    if kind == "b":
        return image * np.uint8(255)
    if kind == "f":
        with np.errstate(over="ignore"):
            return image.astype(np.float32, copy=False)
    if kind == "u" and image.dtype.itemsize <= 2:
        return image
    low, high = int(image.min()), int(image.max())
    if low < 0 or high > np.iinfo(np.uint16).max:
        raise PhotoError(
            f"Expected whole numbers 0 to 65535, got {low} to {high}. Scale them, or pass floats 0 to 1."
        )
    target = np.dtype(np.uint8 if high <= np.iinfo(np.uint8).max else np.uint16)
    notes.append(f"{image.dtype.name} values were read as {target.name}.")
    return image.astype(target)


def _masked(image: Pixels, notes: list[str]) -> tuple[Pixels, NDArray[np.bool_] | None]:
    """The image with 0 in pixels that are not finite in all channels, and where they are finite (None: everywhere)."""
    if image.dtype.kind != "f":
        return image, None
    valid = np.isfinite(image[..., 0])
    for channel in range(1, image.shape[2]):
        valid &= np.isfinite(image[..., channel])
    missing = valid.size - np.count_nonzero(valid)
    if missing == 0:
        return image, None
    if missing == valid.size:
        raise PhotoError("Expected a photo, got only NaN or infinite pixels.")
    notes.append(
        f"{missing} of {valid.size} pixels are NaN or infinite: they are left out, also of the cube."
    )
    return np.where(valid[..., None], image, np.float32(0)), valid


def _extrema(image: Pixels, valid: NDArray[np.bool_] | None) -> tuple[float, float]:
    """Least and largest stored value of the valid pixels of (H, W, C)."""
    lows, highs = [], []
    for top in range(0, len(image), _BLOCK):
        block = image[top : top + _BLOCK]
        block = block if valid is None else block[valid[top : top + _BLOCK]]
        if block.size:
            lows.append(block.min())
            highs.append(block.max())
    return float(min(lows)), float(max(highs))


def _guess_full_scale(dtype: np.dtype[Any], high: float, notes: list[str]) -> float:
    if dtype.kind == "u":
        scale = float(np.iinfo(dtype).max)
        if dtype.itemsize == 2 and 0 < high <= _TWELVE_BITS:
            notes.append(
                f"No value exceeds {_TWELVE_BITS}: if these are 12 bits, the photo is 16 times too dark."
            )
        return scale
    for limit, scale in ((_OVERSHOOT, 1.0), (255.0, 255.0), (65535.0, 65535.0)):
        if high <= limit:
            if scale > 1:
                notes.append(f"Float values reach {high:g}: {scale:g} was taken as full scale.")
            return scale
    raise PhotoError(
        f"Expected float values up to 65535, got {high:g}. Scale them to 0-1, or pass full_scale."
    )


def _float_notes(low: float, high: float, encoding: Encoding | None) -> list[str]:
    notes = []
    if encoding is None:
        notes.append("Float values were taken as sRGB-encoded, not as linear light.")
    if low < 0 or high > 1:
        notes.append(f"Values beyond full scale ({low:.3g} to {high:.3g}) were kept.")
    return notes
