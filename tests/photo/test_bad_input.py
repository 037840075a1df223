"""Photos in every layout that the world has: what is taken, what is said, and what is refused."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps
from tests.photo.conftest import (
    GREY8,
    RGB8,
    RGB16,
    RGBF,
    Array,
    Make,
    array,
    pillow,
    planar,
    png16,
    raw,
    tiff,
    turned,
)

from napari_mst.base.errors import PhotoError
from napari_mst.photo.photo import as_photo


def dask_array(value: Array) -> Make:
    return lambda _: pytest.importorskip("dask.array").from_array(value, chunks=5)


def zarr_array(value: Array) -> Make:
    return lambda _: pytest.importorskip("zarr").array(value)


def ome_set(*, lost: bool = False) -> Make:
    """A photo of three channels, each in a file of its own; perhaps the second is *lost*."""

    def make(folder: Path) -> Path:
        planes = "".join(
            f'<TiffData FirstC="{at}" IFD="0"><UUID FileName="{at}.tif">{at}</UUID></TiffData>'
            for at in range(3)
        )
        for at in range(3):
            text = (
                f'<OME UUID="{at}"><Image><Pixels DimensionOrder="XYCZT" SizeC="3" SizeT="1" '
                f'SizeX="17" SizeY="12" SizeZ="1">{planes}</Pixels></Image></OME>'
            )
            tifffile.imwrite(folder / f"{at}.tif", GREY8, description=text, metadata=None)
        if lost:
            (folder / "1.tif").unlink()
        return folder / "0.tif"

    return make


def cut(make: Make, share: float) -> Make:
    def shortened(folder: Path) -> Path:
        path: Path = make(folder)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        return path

    return shortened


def enlarged(make: Make) -> Make:
    """A TIFF whose header claims 3.6 gigapixels."""

    def lie(folder: Path) -> Path:
        path: Path = make(folder)
        with tifffile.TiffFile(path, mode="r+") as file:
            for tag in ("ImageWidth", "ImageLength"):
                file.pages.first.tags[tag].overwrite(60_000)
        return path

    return lie


def as_pillow_shows(make: Make) -> Make:
    def shown(folder: Path) -> Array:
        with Image.open(make(folder)) as picture:
            return planar(np.asarray(ImageOps.exif_transpose(picture).convert("RGB")))

    return shown


def random(rows: int, columns: int) -> Array:
    return np.random.default_rng(1).integers(0, 256, (rows, columns, 3)).astype(np.uint8)


GREY, ALPHA = "photo is grey", "(alpha) was dropped"
CMYK = pillow(RGB8, "cmyk.jpg", "CMYK")
PALETTE = pillow(RGB8, "palette.png", "P")
BIT = (GREY8 > 99) * np.uint8(255)
HOLE = np.zeros(RGB8.shape, bool)
HOLE[3, 4, 1] = True
STACK = np.stack([RGB8] * 4)
OTHER_PAGE = Image.fromarray(RGB8[::-1])
IHDR = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
PNG_BOMB = (
    b"\x89PNG\r\n\x1a\n"
    + struct.pack(">I", 13)
    + IHDR
    + struct.pack(">I", zlib.crc32(IHDR))
    + b"\0\0\1\0IDAT"
)

ACCEPTED = {
    "047-grey-array": (array(GREY8), planar(GREY8), GREY),
    "047-grey-file": (pillow(GREY8, "grey.png"), planar(GREY8), GREY),
    "047-grey-16": (png16(RGB16[..., 0]), planar(RGB16[..., 0]), GREY),
    "048-alpha-array": (array(np.dstack([RGB8, GREY8])), planar(RGB8), ALPHA),
    "048-alpha-file": (pillow(np.dstack([RGB8, GREY8]), "alpha.png"), planar(RGB8), ALPHA),
    "048-alpha-16": (png16(np.dstack([RGB16, RGB16[..., 0]])), planar(RGB16), ALPHA),
    "048-alpha-tiff": (tiff(np.dstack([RGB8, GREY8]), photometric="rgb"), planar(RGB8), ALPHA),
    "049-cmyk": (CMYK, as_pillow_shows(CMYK), "CMYK"),
    "049-palette": (PALETTE, as_pillow_shows(PALETTE), ""),
    "049-grey-alpha": (pillow(np.dstack([GREY8, GREY8]), "la.png"), planar(GREY8), ALPHA),
    "049-one-bit": (pillow(GREY8 > 99, "bit.png"), planar(BIT), GREY),
    "049-one-bit-array": (array(GREY8 > 99), planar(BIT), GREY),
    "049-white-is-zero": (tiff(GREY8, photometric="miniswhite"), planar(255 - GREY8), GREY),
    **{
        f"050-exif-{orientation}-{name}": (
            turned(orientation, name),
            as_pillow_shows(turned(orientation, name)),
            "",
        )
        for orientation in range(1, 9)
        for name in ("a.png", "a.jpg", "a.webp", "a.tif")
    },
    "050-exif-damaged": (
        pillow(RGB8, "a.png", exif=b"Exif\0\0no TIFF"),
        planar(RGB8),
        "EXIF data is damaged",
    ),
    "051-png": (png16(RGB16), planar(RGB16), ""),
    "051-tiff": (tiff(RGB16, photometric="rgb"), planar(RGB16), ""),
    "051-tiff-lzw": (
        tiff(RGB16, photometric="rgb", compression="lzw", predictor=True),
        planar(RGB16),
        "",
    ),
    "051-tiff-float": (
        tiff(RGBF, photometric="rgb", compression="zlib", predictor=3),
        planar(RGBF),
        "sRGB-encoded",
    ),
    "052-array": (array(planar(RGB8)), planar(RGB8), ""),
    "052-tiff": (
        tiff(planar(RGB16), photometric="rgb", planarconfig="separate"),
        planar(RGB16),
        "",
    ),
    "052-imagej": (tiff(planar(RGB16), imagej=True), planar(RGB16), ""),
    "052-ambiguous": (array(RGB8[:3]), planar(RGB8[:3]), "rows, columns, channels"),
    "053-one-page": (array(RGB8[None]), planar(RGB8), ""),
    "054-constant": (array(np.full((5, 6, 3), 7, np.uint8)), np.full((3, 5, 6), 7), "constant"),
    "055-nan": (
        array(np.where(HOLE, np.nan, RGBF)),
        planar(np.where(HOLE.any(-1, keepdims=True), 0, RGBF)),
        "1 of 204",
    ),
    **{
        f"057-{rows}x{columns}-{name}": (make, planar(random(rows, columns)), "")
        for rows, columns in ((1, 1), (1, 9), (9, 1), (2, 2), (3, 4))
        for name, make in {
            "png": pillow(random(rows, columns), "a.png"),
            "tiff": tiff(random(rows, columns), photometric="rgb"),
        }.items()
    },
    "057-1x9-array": (array(random(1, 9)), planar(random(1, 9)), ""),
    "057-9x1-planar": (array(planar(random(9, 1))), planar(random(9, 1)), ""),
    "060-dask": (dask_array(RGB16), planar(RGB16), ""),
    "060-zarr": (zarr_array(RGB16), planar(RGB16), ""),
    "060-multiscale": (array([RGB16, RGB16[::2, ::2]]), planar(RGB16), ""),
    "061-wide-integers": (
        array(RGB8.astype(np.int64)),
        planar(RGB8),
        "int64 values were read as uint8",
    ),
    "062-only-the-extension-is-wrong": (pillow(RGB8, "a_png.jpg", format="PNG"), planar(RGB8), ""),
}

REFUSED = {
    "053-stack-tiff": (
        tiff(STACK, photometric="rgb"),
        "photo.tif: Expected one image, got a stack",
    ),
    "053-stack-imagej": (tiff(STACK[..., 0], imagej=True), "got a stack"),
    "053-stack-ome": (tiff(STACK[..., 0], ome=True), "got a stack"),
    "053-set-ome": (ome_set(), "got one in several files"),
    "053-lost-plane-ome": (ome_set(lost=True), "'1.tif', which is not beside it"),
    "053-stack-gif": (
        pillow(RGB8, "a.gif", save_all=True, append_images=[OTHER_PAGE]),
        "got 2 pages",
    ),
    "053-stack-array": (array(STACK[..., 0].repeat(2, 0)), r"shape \(8, 12, 17\).*one page"),
    "055-nothing-finite": (array(np.full((4, 4, 3), np.nan)), "only NaN"),
    "056-zero-size": (array(np.zeros((0, 8, 3))), "at least one pixel"),
    "061-negative": (array(np.full((4, 4), -1)), "0 to 65535"),
    "061-beyond-16-bits": (array(np.full((4, 4), 1e6)), "pass full_scale"),
    "062-truncated-png": (cut(pillow(RGB8, "a.png"), 0.6), "a.png: Expected an intact"),
    "062-truncated-png-16": (cut(png16(RGB16), 0.6), "intact"),
    "062-truncated-jpeg": (cut(pillow(RGB8, "a.jpg"), 0.8), "intact"),
    "062-truncated-tiff": (cut(tiff(RGB16), 0.6), "intact"),
    "062-truncated-imagej": (cut(tiff(planar(RGB16), imagej=True), 0.6), "intact"),
    "062-truncated-ome": (cut(tiff(planar(RGB16), ome=True), 0.6), "intact"),
    "062-empty": (raw("empty.jpg", b""), "got an empty one"),
    "062-renamed": (raw("text.png", b"no pixels here" * 20), "got something else"),
    "062-bomb-png": (raw("bomb.png", PNG_BOMB), "at most 178"),
    "062-bomb-tiff": (enlarged(tiff(RGB8)), "at most 178"),
    "062-missing": (lambda folder: folder / "nowhere.png", "got none"),
    "062-folder": (lambda folder: folder, "got none"),
    "062-words": (array(np.array(["red"])), "real numbers"),
    "062-complex": (array(np.zeros((4, 4), complex)), "real numbers"),
    "062-ragged": (array([[1, 2], [3]]), "array of numbers"),
    "062-cube": (
        tiff(np.zeros((31, 5, 6)), planarconfig="separate", photometric="minisblack"),
        "31.*a cube",
    ),
}

CASES = ACCEPTED | {name: (make, None, text) for name, (make, text) in REFUSED.items()}


@pytest.mark.parametrize(("make", "expected", "text"), CASES.values(), ids=CASES)
def test_bad_input(make: Make, expected: Array | Make | None, text: str, tmp_path: Path) -> None:
    source = make(tmp_path)
    if expected is None:
        with pytest.raises(PhotoError, match=text) as refusal:
            as_photo(source)
        assert len(str(refusal.value)) < 300
        return
    photo = as_photo(source)
    np.testing.assert_array_equal(
        photo.pixels, expected(tmp_path) if callable(expected) else expected
    )
    assert text in " ".join(photo.assumptions)
    assert text or not photo.assumptions
