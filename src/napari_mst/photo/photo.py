"""Photos: files and arrays of any depth and layout, kept as stored, with all assumptions.

Letters: H rows, W columns, C channels.

At any depth, values count as sRGB-encoded (IEC 61966-2-1) unless ``encoding="linear"`` is given.
RAW photos are always linear, and so are floats that are mostly below 1 but reach beyond 2, since
sRGB has no such values. Files have 8 or 16 bits or floats (TIFF, PNG, HEIC), sensor values (RAW),
or 8 bits as decoded by Pillow. The orientation (EXIF, TIFF) is applied, and the colours of a file
in another colour space are converted to sRGB (`profiles`).
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.base.arrays import Array, Doubles, Floats, Mask, Singles
from napari_mst.base.errors import PhotoError, shown
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import linear_to_srgb, srgb_to_linear
from napari_mst.cube.georeference import Georeference
from napari_mst.photo.files import decode_file, georeference_in, is_jpeg, zarr_image
from napari_mst.photo.profiles import ColourSpace, Unconverted, in_srgb
from napari_mst.photo.raw import SATURATED, Shot
from napari_mst.photo.values import (
    BLOCK_ROWS,
    as_array,
    channels_last,
    digest,
    interpret,
    meanings,
    pixel_edges,
    stored_extrema,
    sums_between,
)

Encoding = Literal["srgb", "linear"]
_MOST_OF_BYTES = 255
Rectangle = tuple[int, int, int, int]
"""First row, row after the last, first column, column after the last."""


@dataclass(frozen=True, eq=False)
class Photo:
    """An RGB photo, created by `read` or `from_array`.

    Attributes
    ----------
    pixels
        (3, H, W) uint8, uint16 or float32 as stored: a read-only view where possible.
    full_scale
        The stored value that means 1.0.
    encoding
        Encoding of `pixels`: "srgb" or "linear".
    name
        Name of the file or layer.
    sha256
        Checksum of the file's bytes, or of an array's shape, dtype and values, regardless of
        strides and byte order.
    valid
        (H, W), False where a pixel was NaN, infinite or masked (it is 0 in `pixels`); None if all
        pixels are valid.
    assumptions
        One sentence for each conversion, omission or guess.
    georeference
        The place of the image on earth; None if unknown.
    is_jpeg
        True if the photo was read from a JPEG file; always False for an array.
    exact_by
        The reason why the colours are exact: more than 8 bits, which cameras hardly ever write
        except in RAW files; or a correction by a chart or greys. "" for any other photo, whose
        light, exposure and tone curve are unknown. The software named in a file does not count,
        since both editors and renderers write it.
    is_corrected
        True once the white balance or the colours were corrected; the white is then trusted.
    shot
        The circumstances of a RAW photo; None for any other photo. Its pixels are linear sensor
        values without white balance, with saturation at 65535.
    unconverted
        The pixels before the conversion to sRGB, for `light`; None if the conversion lost nothing.

    Notes
    -----
    ====================  =========================================================================
    pixels                uint8 0-255, uint16 0-65535, or float32 where `full_scale` is 1.0
    valid                 (H, W) bool
    from_array()          uint8 0-255, uint16 0-65535, float 0-1 (or 0-255, 0-65535); sRGB, or
                          linear on request
    read()                files of 8 or 16 bits or floats as sRGB, or linear on request; RAW as
                          linear 0-65535
    rows()                (3, rows, W) float32 0-1; floats may exceed 1
    light()               (3, rows, W) float32, linear; below 0 or above 1 where outside sRGB
    at_full_scale()       (H, W) bool
    extrema()             0-1; floats may exceed 1
    cropped(), sampled()  as stored
    in_srgb()             as stored; floats 0-1
    reduced()             float32 0-1, in the same encoding
    ====================  =========================================================================

    Examples
    --------
    >>> photo = nm.Photo.from_array(np.full((4, 6, 3), 128, np.uint8))
    >>> photo.shape, photo.encoding, photo.full_scale
    ((4, 6), 'srgb', 255.0)
    >>> round(photo.extrema()[1], 3), photo.rows(0, 1, linear=True)[:, 0, 0].round(3)
    (0.502, array([0.216, 0.216, 0.216], dtype=float32))
    >>> round(photo.light().max().item(), 3), photo.at_full_scale(0.99).any().item()
    (0.216, False)
    >>> photo.cropped((0, 2, 0, 3)).shape, photo.reduced(6).shape, photo.sampled(1, 2).shape
    ((2, 3), (2, 3), (2, 2))
    """

    pixels: Array
    full_scale: float
    encoding: Encoding
    name: str = ""
    sha256: str = ""
    valid: Mask | None = None
    assumptions: tuple[str, ...] = ()
    georeference: Georeference | None = None
    is_jpeg: bool = False
    shot: Shot | None = None
    is_corrected: bool = False
    exact_by: str = ""
    unconverted: Unconverted | None = None

    def __repr__(self) -> str:
        """One line: name, size, type and encoding."""
        rows, columns = self.shape
        kind = f"{self.pixels.dtype} {self.encoding}"
        return f"<Photo {shown(self.name or 'without a name', 40)}: {rows} x {columns}, {kind}>"

    @classmethod
    def read(cls, path: str | PathLike[str], *, encoding: Encoding | None = None) -> Self:
        """Read an image file: JPEG, HEIC, PNG, TIFF, WebP, AVIF, BMP, GIF, PPM or JPEG 2000.

        A colour space stated in the file, such as Display P3 or Adobe RGB, is converted to sRGB,
        unless *encoding* is "linear": then the values are used unchanged.

        RAW photos (DNG, NEF, CR2, CR3, ARW, RAF, RW2, ORF ...) need the extra `raw`. With the extra
        `zarr`, folders NAME.zarr are read, an OME-Zarr image or an array, as by `from_array`.

        Raises
        ------
        PhotoError
            If the file is missing, damaged, not an image, larger than 178 megapixels (except for a
            TIFF, which is decoded into a file), coded for a high dynamic range, or holds several
            images; or if it is a RAW photo that LibRaw does not know, or that is read as sRGB.

        Examples
        --------
        >>> from PIL import Image
        >>> Image.fromarray(np.full((4, 6, 3), 128, np.uint8)).save("photo.png")
        >>> nm.Photo.read("photo.png").pixels.shape
        (3, 4, 6)
        """
        file = Path(path)
        notes: list[str] = []
        try:
            _check_encoding(encoding)
            if file.suffix.lower() == ".zarr" and file.is_dir():
                return cls.from_array(zarr_image(file), encoding=encoding, name=file.name)
            pixels, sha256, shot, space = decode_file(file, notes)
            if shot is not None:
                if encoding == "srgb":
                    raise PhotoError(  # noqa: TRY301 (named below)
                        "Expected linear values of a RAW photo, got encoding 'srgb'. "
                        "Leave the encoding out."
                    )
                encoding = "linear"
            place = georeference_in(file, notes) if shot is None else None
            scale = None if shot is None else float(SATURATED)
            photo = cls._of(pixels, "srgb" if space and not encoding else encoding, scale, notes)
            photo = photo if space is None else photo.in_srgb(space)
        except PhotoError as error:
            raise PhotoError(f"{file.name[-60:]}: {error}") from error.__cause__
        return replace(
            photo,
            name=file.name,
            sha256=sha256,
            georeference=place,
            shot=shot,
            is_jpeg=is_jpeg(file),
        )

    @classmethod
    def from_array(
        cls,
        array: ArrayLike,
        *,
        encoding: Encoding | None = None,
        full_scale: float | None = None,
        name: str = "",
    ) -> Self:
        """A photo from an array (H, W), (H, W, C) or (C, H, W), which is not changed.

        C is 1, 3 or 4, or 2 (grey and alpha) as the last axis. Of a multiscale image, a sequence of
        arrays of several sizes, the first and largest level is used.

        Raises
        ------
        PhotoError
            If the array is empty, has another shape, is not real-valued, or has no finite pixel.
        """
        _check_encoding(encoding)
        pixels = as_array(array)
        notes: list[str] = []
        photo = cls._of(channels_last(pixels, notes), encoding, full_scale, notes)
        return replace(photo, name=name, sha256=digest(pixels))

    @classmethod
    def _of(
        cls, image: Array, encoding: Encoding | None, full_scale: float | None, notes: list[str]
    ) -> Self:
        """The photo in *image*; assumptions are added to *notes*."""
        pixels, scale, valid, is_light = interpret(image, full_scale, encoding, notes)
        encoding = encoding or ("linear" if is_light else "srgb")
        # 8-bit values may be stored in a wider type.
        is_of_bytes = image.dtype.kind in "bui" and scale <= _MOST_OF_BYTES
        exact_by = "" if is_of_bytes else f"{image.dtype} values"
        return cls(
            pixels, scale, encoding, valid=valid, assumptions=tuple(notes), exact_by=exact_by
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, (H, W)."""
        _, rows, columns = self.pixels.shape
        return rows, columns

    def rows(self, start: int = 0, stop: int | None = None, *, linear: bool) -> Singles:
        """Rows *start* to *stop*, or to the end: (3, rows, W) float32, C-contiguous, 0-1.

        Floats may overshoot, and masked pixels are 0. *linear* decodes sRGB to linear light;
        otherwise the rows are the stored values over `full_scale`.
        """
        stop = self.shape[0] if stop is None else stop
        out = np.empty((3, stop - start, self.shape[1]), dtype=np.float32)
        is_encoded = linear and self.encoding == "srgb"
        for top in range(start, stop, BLOCK_ROWS):
            bottom = min(top + BLOCK_ROWS, stop)
            out[:, top - start : bottom - start] = self._block(top, bottom, is_encoded)
        return out

    def light(self, start: int = 0, stop: int | None = None) -> Singles:
        """Linear sRGB of rows *start* to *stop*, (3, rows, W), without clipping to the gamut.

        A saturated red of Display P3 has a red above 1 and a green below 0.
        """
        if self.unconverted is None:
            return self.rows(start, stop, linear=True)
        pixels, space = self.unconverted
        stored = np.moveaxis(pixels[:, start:stop], 0, -1) / np.float32(self.full_scale)
        linear = srgb_to_linear(in_srgb(stored, space, []))
        return np.ascontiguousarray(np.moveaxis(linear, -1, 0))

    def at_full_scale(self, share: float) -> Mask:
        """Mask (H, W) of pixels with a channel at *share* of full scale (linear) or more.

        All False for floats, which may exceed full scale.
        """
        if self.pixels.dtype.kind != "u":
            return np.zeros(self.shape, bool)
        stored = self.pixels if self.unconverted is None else self.unconverted.pixels
        values = replace(self, pixels=stored, unconverted=None).rows(linear=True)
        return np.asarray((values >= share).any(axis=0))

    def check_linear(self) -> None:
        """Refuse pixels that are clearly not linear light, in spite of their `encoding`.

        Raises
        ------
        PhotoError
            If the pixels have 8 bits.

        Examples
        --------
        >>> nm.Photo.from_array(np.full((4, 6, 3), 0.2), encoding="linear").check_linear()
        """
        if self.pixels.dtype == np.uint8:
            raise PhotoError(
                "Expected linear values of 16 bits or floats, got 8 bits, which are nearly always "
                "sRGB-encoded. Develop the raw file to a linear 16-bit TIFF, "
                "or say that these are linear."
            )

    def extrema(self) -> tuple[float, float]:
        """Smallest and largest value of the valid pixels, as from `rows(..., linear=False)`."""
        low, high = stored_extrema(np.moveaxis(self.pixels, 0, -1), self.valid)
        scale = np.float32(self.full_scale)
        return float(np.float32(low) / scale), float(np.float32(high) / scale)

    def cropped(self, rectangle: Rectangle) -> Self:
        """The part of the photo in *rectangle*, as a view of the pixels.

        Raises
        ------
        PhotoError
            If the rectangle is empty or reaches beyond the photo.
        """
        top, bottom, left, right = rectangle
        rows, columns = self.shape
        if not (0 <= top < bottom <= rows and 0 <= left < right <= columns):
            raise PhotoError(
                f"Expected a region within {rows} rows x {columns} columns, "
                f"got rows {top} to {bottom}, columns {left} to {right}. "
                "Choose one that lies on the photo."
            )
        return replace(
            self,
            pixels=self.pixels[:, top:bottom, left:right],
            valid=None if self.valid is None else self.valid[top:bottom, left:right],
            georeference=self.georeference.cropped(top, left) if self.georeference else None,
            unconverted=self.unconverted
            and self.unconverted._replace(
                pixels=self.unconverted.pixels[:, top:bottom, left:right]
            ),
        )

    def in_srgb(self, space: ColourSpace) -> Self:
        """The photo, whose pixels are colours in *space*, converted to sRGB.

        A photo of linear light only gets a note.

        Examples
        --------
        >>> from napari_mst.photo.profiles import of_coding
        >>> photo = nm.Photo.from_array(np.full((4, 6, 3), 128, np.uint8))
        >>> photo.in_srgb(of_coding(12, 13)).assumptions[-1]
        'The colours were converted from Display P3 to sRGB.'
        """
        if self.encoding == "linear":
            note = f"The file states {space.name}: its values were taken as linear light instead."
            return replace(self, assumptions=(*self.assumptions, note))
        notes: list[str] = []
        is_grey = self.pixels.strides[0] == 0  # one channel, broadcast to three
        stored = np.moveaxis(self.pixels[:1] if is_grey else self.pixels, 0, -1)
        is_float = stored.dtype.kind == "f"
        scaled = stored / np.float32(self.full_scale) if is_float else stored
        image = in_srgb(scaled, space, notes)
        if self.valid is not None:
            image[~self.valid] = 0
        is_clipped = not (is_float or is_grey) and space.channels == 3
        return replace(
            self,
            pixels=np.moveaxis(np.broadcast_to(image, (*self.shape, 3)), -1, 0),
            full_scale=1.0 if is_float else self.full_scale,
            assumptions=(*self.assumptions, *notes),
            unconverted=Unconverted(self.pixels, space) if is_clipped else None,
        )

    def reduced(self, pixels: int, progress: Progress = NO_PROGRESS) -> Self:
        """The photo averaged down to about *pixels* pixels, in linear light.

        Each pixel is the mean of the valid pixels that it covers.

        Raises
        ------
        Cancelled
            If *progress* is cancelled.
        """
        rows, columns = self.shape
        factor = max(math.sqrt(rows * columns / pixels), 1.0)
        row_edges = pixel_edges(rows, factor)
        column_edges = pixel_edges(columns, factor)
        small = len(row_edges) - 1, len(column_edges) - 1
        encoded = np.empty((len(self.pixels), *small), np.float32)
        weights = np.empty(small)
        # Row by row: memory for all sums at once would stay with the process during a run.
        for row, (top, bottom) in enumerate(pairwise(row_edges)):
            progress.check()
            *sums, weights[row] = self._weighted_sums(top, bottom, column_edges)
            means = np.array(sums) / np.where(weights[row] > 0, weights[row], 1)
            encoded[:, row] = linear_to_srgb(means) if self.encoding == "srgb" else means
        row_step, column_step = rows / small[0], columns / small[1]
        place = self.georeference
        return replace(
            self,
            pixels=encoded,
            full_scale=1.0,
            valid=None if self.valid is None else weights > 0,
            georeference=place.scaled(row_step, column_step) if place else None,
            unconverted=None,
        )

    def sampled(self, number: int, side: int) -> Self:
        """A mosaic of *number* x *number* squares of *side* pixels, spread over the photo.

        A photo that is not larger than the mosaic is returned whole.
        """
        mosaic = self.pixels
        for axis in (1, 2):
            length = mosaic.shape[axis]
            if length > number * side:
                first = np.linspace(0, length - side, number).astype(int)
                mosaic = mosaic.take((first[:, None] + np.arange(side)).ravel(), axis)
        return replace(self, pixels=mosaic, valid=None, georeference=None, unconverted=None)

    def _weighted_sums(self, top: float, bottom: float, edges: Doubles) -> Doubles:
        """Sums of the channels and of the valid area, (C + 1, n), over rows *top* to *bottom*.

        The columns of each sum lie between two neighbours of *edges* (n + 1,).
        """
        first = math.floor(top)
        last = math.ceil(bottom)
        at = np.arange(first, last)
        share = np.minimum(at + 1, bottom) - np.maximum(at, top)  # of each row that lies within
        is_valid = np.ones(self.shape[1]) if self.valid is None else self.valid[first:last]
        area = share[:, None] * is_valid
        return sums_between(self.rows(first, last, linear=True), area, edges)

    def _block(self, top: int, bottom: int, is_encoded: bool) -> Floats:
        block = self.pixels[:, top:bottom]
        if block.dtype.kind == "u":
            return meanings(block.dtype.itemsize * 8, self.full_scale, is_encoded)[block]
        scaled = block / np.float32(self.full_scale)
        return srgb_to_linear(scaled) if is_encoded else scaled


PhotoLike = Photo | str | PathLike[str] | ArrayLike
"""A photo, its file, or an array."""


def as_photo(source: PhotoLike, encoding: Encoding | None = None) -> Photo:
    """*source* as a photo: a path is read, an array is wrapped, and a photo stays unchanged.

    *encoding* applies to a file or an array; by default `Photo` guesses it.
    """
    if isinstance(source, Photo):
        return source
    if isinstance(source, str | PathLike):
        return Photo.read(source, encoding=encoding)
    if isinstance(source, SpectralCube):
        # As an array, a cube with three bands or columns would pass for a photo.
        raise PhotoError(
            "Expected a photo, got a spectral cube. Give the photo that it was made from."
        )
    return Photo.from_array(source, encoding=encoding)


def _check_encoding(encoding: str | None) -> None:
    if encoding not in (None, "srgb", "linear"):
        raise PhotoError(f"Expected encoding 'srgb' or 'linear', got {encoding!r}.")
