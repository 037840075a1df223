"""Photos that lie on their side or in a mirror: every kind of file is turned upright."""

import struct
import zlib
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image
from tests.photo.conftest import (
    GREY8,
    RGB8,
    RGB16,
    RGBF,
    Array,
    Make,
    pillow,
    planar,
    png16,
    raw,
    tiff,
    turned,
)

from napari_mst.photo.files import orientation
from napari_mst.photo.orientation import upright
from napari_mst.photo.photo import Photo

PHOTO_NAMES = ("a.png", "a.jpg", "a.webp", "a.tif")


@pytest.mark.parametrize("name", PHOTO_NAMES)
@pytest.mark.parametrize("asked", range(1, 9))
def test_a_program_that_ignores_the_orientation_can_undo_it(
    asked: int, name: str, tmp_path: Path
) -> None:
    path = turned(asked, name)(tmp_path)
    as_stored = iio.imread(path)
    assert orientation(path) == asked
    assert_array_equal(planar(upright(as_stored, asked)), Photo.read(path).pixels)


STORED_AS: dict[str, tuple[Array, dict[str, Any]]] = {
    "16-bit": (RGB16, {"photometric": "rgb"}),
    "tiled": (RGB16, {"photometric": "rgb", "tile": (16, 16)}),
    "planar": (np.moveaxis(RGB8, -1, 0), {"photometric": "rgb", "planarconfig": "separate"}),
    "float": (RGBF, {"photometric": "rgb"}),
    "grey": (GREY8, {"photometric": "minisblack"}),
    "white-is-zero": (GREY8, {"photometric": "miniswhite"}),
    "palette": (
        GREY8,
        {
            "photometric": "palette",
            "colormap": np.arange(768, dtype=np.uint16).reshape(3, 256) * 85,
        },
    ),
    "cmyk": (np.dstack([RGB8, GREY8]), {"photometric": "separated"}),
}


@pytest.mark.parametrize("asked", [3, 6, 7])
@pytest.mark.parametrize("stored", STORED_AS.values(), ids=STORED_AS)
def test_every_kind_of_tiff_is_turned_upright(
    stored: tuple[Array, dict[str, Any]], asked: int, tmp_path: Path
) -> None:
    image, options = stored
    as_stored = Photo.read(tiff(image, **options)(tmp_path))
    turned_tiff = tiff(image, extratags=[(274, "H", 1, asked, True)], **options)(tmp_path)
    expected = np.moveaxis(upright(np.moveaxis(as_stored.pixels, 0, -1), asked), -1, 0)
    assert_array_equal(Photo.read(turned_tiff).pixels, expected)
    assert orientation(turned_tiff) == asked


def test_a_16_bit_png_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    chunk = b"eXIf" + exif.tobytes().removeprefix(b"Exif\0\0")
    encoded = png16(RGB16)(tmp_path).read_bytes()
    after_header = 33
    path = tmp_path / "turned.png"
    path.write_bytes(
        encoded[:after_header]
        + struct.pack(">I", len(chunk) - 4)
        + chunk
        + struct.pack(">I", zlib.crc32(chunk))
        + encoded[after_header:]
    )
    assert_array_equal(Photo.read(path).pixels, planar(np.rot90(RGB16, -1)))
    assert orientation(path) == 6


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(pillow(RGB8, "a.png"), id="no-exif"),
        pytest.param(turned(9, "a.jpg"), id="unknown-value"),
        pytest.param(pillow(RGB8, "a.png", exif=b"Exif\0\0no TIFF"), id="damaged-exif"),
        pytest.param(raw("text.png", b"no pixels here"), id="no-image"),
        pytest.param(raw("a.tif", b"II*\0"), id="damaged-tiff"),
        pytest.param(lambda folder: folder / "nowhere.png", id="missing"),
    ],
)
def test_a_file_that_does_not_say_is_upright(make: Make, tmp_path: Path) -> None:
    assert orientation(make(tmp_path)) == 1
