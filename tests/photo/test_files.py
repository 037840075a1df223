"""Photo files for those who show them: pixels that other programs change, and several pages."""

from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import tifffile
from PIL import Image
from tests.photo.conftest import Make, pillow, png16, raw, tiff

from napari_mst.photo.files import decode_file, is_shown_otherwise
from napari_mst.photo.photo import Photo
from napari_mst.photo.photo_pages import shown_pages

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)


def saved(name: str, mode: str = "RGB", asked: int = 1) -> Make:
    exif = Image.Exif()
    exif[274] = asked
    return pillow(PIXELS, name, mode, exif=exif)


def stack(photometric: str, asked: int = 1, **options: Any) -> Make:
    grey = photometric.startswith("min")
    pixels = np.moveaxis(PIXELS, -1, 0) if "planarconfig" in options else PIXELS
    options |= {"photometric": photometric, "extratags": [(274, 3, 1, asked, True)]}
    return tiff(PIXELS[..., 0] if grey else pixels, metadata=None, **options)


ALIKE = {
    "jpeg": saved("a.jpg"),
    "grey": saved("a.jpg", "L"),
    "png": saved("a.png"),
    "palette": saved("a.png", "P"),
    "alpha": saved("a.png", "RGBA"),
    "black-white": saved("a.png", "1"),
    "webp": saved("a.webp"),
    "tiff": stack("rgb"),
    "tiff-grey": stack("minisblack"),
    "planar": stack("rgb", planarconfig="separate"),
}
OTHERWISE = {
    "jpeg-turned": saved("a.jpg", asked=6),
    "png-mirrored": saved("a.png", asked=2),
    "webp-turned": saved("a.webp", asked=8),
    "tiff-turned": stack("rgb", asked=3),
    "cmyk": saved("a.jpg", "CMYK"),
    "cmyk-tiff": saved("a.tif", "CMYK"),
    "palette-tiff": saved("a.tif", "P"),
    "inverted": stack("miniswhite"),
    "lab": saved("a.tif", "LAB"),
    "png-16": png16(PIXELS.astype(np.uint16) * 201),
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
    assert not is_shown_otherwise(raw("a.jpg", b"no photo")(tmp_path))
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
        shown_pages(tmp_path / "pages.tif"), np.rot90(pages, -1, axes=(1, 2))
    )


@pytest.mark.parametrize(
    "make",
    [saved("a.jpg", asked=6), stack("rgb"), stack("minisblack")],
    ids=["jpeg-turned", "tiff", "tiff-grey"],
)
def test_a_photo_of_one_page_is_what_it_is_elsewhere(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path)
    np.testing.assert_array_equal(shown_pages(path), decode_file(path, [])[0])
