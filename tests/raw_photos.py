"""Writes small RAW photos as cameras do: DNGs with a mosaic or with all colours, and thumbnails."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray

Array = NDArray[Any]

BLACK, WHITE = 64, 4064
BAYER = (0, 1, 1, 2)
# Fujifilm's pattern, as its cameras write it
XTRANS = (
    *(1, 2, 1, 1, 0, 1),
    *(0, 1, 0, 2, 1, 2),
    *(1, 2, 1, 1, 0, 1),
    *(1, 0, 1, 1, 2, 1),
    *(2, 1, 2, 0, 1, 0),
    *(1, 0, 1, 1, 2, 1),
)
MATRIX = (0.8198, -0.2239, -0.0724, -0.4871, 1.2389, 0.2798, -0.1043, 0.2050, 0.7181)
SHORT, LONG, RATIONAL, SIGNED, TEXT, BYTE = 3, 4, 5, 10, 2, 1
EXIF = 34665
PLACEHOLDER = 34666  # tifffile writes no tag of an EXIF directory
EXPOSURE = {33434: (1, 60), 33437: (8, 1), 37386: (50, 1)}  # 1/60 s, f/8, 50 mm
ISO = (34855, 100)


@dataclass(frozen=True)
class Camera:
    """What a DNG tells of its camera and its exposure."""

    make: str = "NIKON CORPORATION"
    model: str = "NIKON D5100"
    neutral: tuple[float, float, float] | None = (0.5, 1.0, 0.6)
    orientation: int = 1

    @property
    def tags(self) -> list[tuple[Any, ...]]:
        tags: list[tuple[Any, ...]] = [
            (271, TEXT, 0, self.make, True),
            (272, TEXT, 0, self.model, True),
            (274, SHORT, 1, self.orientation, True),
            (PLACEHOLDER, LONG, 1, 0, True),
            (50706, BYTE, 4, (1, 4, 0, 0), True),
            (50708, TEXT, 0, self.model, True),
            (50721, SIGNED, 9, rationals(MATRIX), True),
            (50778, SHORT, 1, 21, True),
        ]
        if self.neutral is not None:
            tags.append((50728, RATIONAL, 3, rationals(self.neutral), True))
        return tags


def rationals(values: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(number for value in values for number in (round(value * 10_000), 10_000))


def mosaic(image: Array, pattern: tuple[int, ...] = BAYER) -> Array:
    """What a sensor with this pattern sees of *image* (H, W, 3)."""
    side = round(len(pattern) ** 0.5)
    rows, columns = np.indices(image.shape[:2])
    colours = np.reshape(pattern, (side, side))[rows % side, columns % side]
    return np.take_along_axis(image, colours[..., None], axis=2)[..., 0]


def stored(image: Array) -> Array:
    """The numbers that a sensor stores for shares of its saturation."""
    return np.round(np.asarray(image) * (WHITE - BLACK) + BLACK).astype(np.uint16)


def write_dng(
    path: Path,
    image: Array,
    camera: Camera = Camera(),
    *,
    pattern: tuple[int, ...] = BAYER,
    thumbnail: Array | None = None,
    is_reduced: bool = True,
) -> Path:
    """A DNG of *image* (H, W, 3), in shares of saturation, perhaps with a small picture first."""
    side = round(len(pattern) ** 0.5)
    tags = [
        (33421, SHORT, 2, (side, side), True),
        (33422, BYTE, len(pattern), pattern, True),
        (50714, SHORT, 1, BLACK, True),
        (50717, LONG, 1, WHITE, True),
    ]
    raw = stored(mosaic(image, pattern))
    with tifffile.TiffWriter(path) as file:
        if thumbnail is None:
            file.write(raw, photometric=32803, extratags=[*camera.tags, *tags], metadata=None)
        else:
            file.write(
                thumbnail,
                photometric="rgb",
                subfiletype=int(is_reduced),
                subifds=1,
                extratags=camera.tags,
                metadata=None,
            )
            file.write(raw, photometric=32803, extratags=tags, metadata=None)
    return with_exposure(path)


def with_exposure(path: Path) -> Path:
    """The same file with the exposure in an EXIF directory at its end."""
    start = path.stat().st_size
    rows = [struct.pack("<HHII", tag, RATIONAL, 1, 0) for tag in EXPOSURE]
    rows.insert(2, struct.pack("<HHIHH", ISO[0], SHORT, 1, ISO[1], 0))
    values = start + 2 + 12 * len(rows) + 4
    for number, (tag, _) in enumerate(EXPOSURE.items()):
        row = struct.pack("<HHII", tag, RATIONAL, 1, values + 8 * number)
        rows[number + (number >= 2)] = row
    numbers = [struct.pack("<II", *value) for value in EXPOSURE.values()]
    directory = [struct.pack("<H", len(rows)), *rows, bytes(4), *numbers]
    with path.open("ab") as file:
        file.write(b"".join(directory))
    with tifffile.TiffFile(path, mode="r+") as tiff:
        place = tiff.pages.first.tags[PLACEHOLDER].offset
        tiff.filehandle.seek(place)
        tiff.filehandle.write(struct.pack("<HHII", EXIF, LONG, 1, start))
    return path


def write_linear_dng(path: Path, image: Array, camera: Camera = Camera()) -> Path:
    """A DNG whose pixels have all colours, as converters write it."""
    levels = [(50714, SHORT, 3, (BLACK,) * 3, True), (50717, LONG, 3, (WHITE,) * 3, True)]
    with tifffile.TiffWriter(path) as file:
        file.write(
            stored(image), photometric=34892, extratags=[*camera.tags, *levels], metadata=None
        )
    return with_exposure(path)
