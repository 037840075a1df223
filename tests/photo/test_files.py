"""Photo files for those who show them: pixels that other programs change, and several pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import imagecodecs
import imageio.v3 as iio
import numpy as np
import pytest
import tifffile
from PIL import Image

from napari_mst.photo.files import decode_file, decode_pages, is_shown_otherwise
from napari_mst.photo.photo import Photo

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
Make = Callable[[Path], Path]


def pillow(name: str, mode: str = "RGB", asked: int = 1) -> Make:
    def make(folder: Path) -> Path:
        exif = Image.Exif()
        exif[274] = asked
        Image.fromarray(PIXELS).convert(mode).save(folder / name, exif=exif)
        return folder / name

    return make


def tiff(photometric: str, asked: int = 1, **options: Any) -> Make:
    def make(folder: Path) -> Path:
        grey = photometric.startswith("min")
        pixels = np.moveaxis(PIXELS, -1, 0) if "planarconfig" in options else PIXELS
        tag = (274, 3, 1, asked, True)
        tifffile.imwrite(
            folder / "a.tif",
            PIXELS[..., 0] if grey else pixels,
            photometric=photometric,
            extratags=[tag],
            metadata=None,
            **options,
        )
        return folder / "a.tif"

    return make


def png16(folder: Path) -> Path:
    (folder / "deep.png").write_bytes(imagecodecs.png_encode(PIXELS.astype(np.uint16) * 201))
    return folder / "deep.png"


def text(folder: Path) -> Path:
    (folder / "a.jpg").write_text("no photo")
    return folder / "a.jpg"


ALIKE = {
    "jpeg": pillow("a.jpg"),
    "grey": pillow("a.jpg", "L"),
    "png": pillow("a.png"),
    "palette": pillow("a.png", "P"),
    "alpha": pillow("a.png", "RGBA"),
    "black-white": pillow("a.png", "1"),
    "webp": pillow("a.webp"),
    "tiff": tiff("rgb"),
    "tiff-grey": tiff("minisblack"),
    "planar": tiff("rgb", planarconfig="separate"),
}
OTHERWISE = {
    "jpeg-turned": pillow("a.jpg", asked=6),
    "png-mirrored": pillow("a.png", asked=2),
    "webp-turned": pillow("a.webp", asked=8),
    "tiff-turned": tiff("rgb", asked=3),
    "cmyk": pillow("a.jpg", "CMYK"),
    "cmyk-tiff": pillow("a.tif", "CMYK"),
    "palette-tiff": pillow("a.tif", "P"),
    "inverted": tiff("miniswhite"),
    "lab": pillow("a.tif", "LAB"),
    "png-16": png16,
}


@pytest.mark.parametrize("make", [*ALIKE.values(), *OTHERWISE.values()], ids=[*ALIKE, *OTHERWISE])
def test_it_is_known_which_photos_imageio_gives_with_other_pixels(
    make: Make, tmp_path: Path
) -> None:
    path = make(tmp_path)
    ours, theirs = Photo.read(path), Photo.from_array(iio.imread(path))
    assert is_shown_otherwise(path) == (not np.array_equal(ours.pixels, theirs.pixels))
    assert is_shown_otherwise(path) == (make in OTHERWISE.values())


def test_a_file_that_is_no_photo_is_not_shown_otherwise(tmp_path: Path) -> None:
    assert not is_shown_otherwise(text(tmp_path))
    assert not is_shown_otherwise(tmp_path / "missing.png")


@pytest.mark.parametrize("planar", [False, True], ids=["pixels", "planes"])
def test_all_pages_of_a_photo_are_read_upright(tmp_path: Path, planar: bool) -> None:
    pages = np.random.default_rng(1).integers(0, 256, (4, 20, 30, 3), dtype=np.uint8)
    stored = np.moveaxis(pages, -1, 1) if planar else pages
    layout: dict[str, Any] = {"planarconfig": "separate"} if planar else {}
    tifffile.imwrite(
        tmp_path / "pages.tif",
        stored,
        photometric="rgb",
        extratags=[(274, 3, 1, 6, True)],
        **layout,
    )
    np.testing.assert_array_equal(
        decode_pages(tmp_path / "pages.tif", []), np.rot90(pages, -1, axes=(1, 2))
    )


@pytest.mark.parametrize(
    "make",
    [pillow("a.jpg", asked=6), tiff("rgb"), tiff("minisblack")],
    ids=["jpeg-turned", "tiff", "tiff-grey"],
)
def test_a_photo_of_one_page_is_what_it_is_elsewhere(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path)
    np.testing.assert_array_equal(decode_pages(path, []), decode_file(path, [])[0])
