"""Photos of every depth, and functions that make files and arrays of them, for these tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tifffile
from numpy.typing import ArrayLike, NDArray
from PIL import Image

_RNG = np.random.default_rng(0)
RGB8 = _RNG.integers(0, 256, (12, 17, 3)).astype(np.uint8)
RGB16 = _RNG.integers(0, 65536, (12, 17, 3)).astype(np.uint16)
RGBF = _RNG.random((12, 17, 3)).astype(np.float32)
GREY8 = RGB8[..., 0]
DEPTHS = (RGB8, RGB16, RGBF)

Array = NDArray[Any]
Make = Callable[[Path], Any]


def planar(image: Array) -> Array:
    rows, columns = image.shape[:2]
    in_colour = np.broadcast_to(image.reshape(rows, columns, -1), (rows, columns, 3))
    return np.moveaxis(in_colour, -1, 0)


def array(value: ArrayLike) -> Make:
    return lambda _: value


def pillow(image: Array, name: str, mode: str | None = None, **options: Any) -> Make:
    def make(folder: Path) -> Path:
        picture = Image.fromarray(image)
        (picture.convert(mode) if mode else picture).save(folder / name, **options)
        return folder / name

    return make


def tiff(image: Array, **options: Any) -> Make:
    def make(folder: Path) -> Path:
        tifffile.imwrite(folder / "photo.tif", image, **options)
        return folder / "photo.tif"

    return make


def png16(image: Array) -> Make:
    return raw("photo.png", bytes(imagecodecs.png_encode(np.ascontiguousarray(image))))


def raw(name: str, content: bytes) -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def turned(orientation: int, name: str) -> Make:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return pillow(RGB8, name, exif=exif)
