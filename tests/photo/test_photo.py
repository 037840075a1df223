"""Photos in every layout that the world has, judged by Pillow, rasterio (GDAL) and colour-science."""

import os
import struct
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import colour
import imagecodecs
import imageio.v3 as iio
import numpy as np
import pytest
import rasterio
import tifffile
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps

from napari_mst.errors import PhotoError
from napari_mst.photo.files import camera_named_in, orientation, upright
from napari_mst.photo.photo import Photo, as_photo

_RNG = np.random.default_rng(0)
RGB8 = _RNG.integers(0, 256, (12, 17, 3)).astype(np.uint8)
RGB16 = _RNG.integers(0, 65536, (12, 17, 3)).astype(np.uint16)
RGBF = _RNG.random((12, 17, 3)).astype(np.float32)
GREY8 = RGB8[..., 0]
DEPTHS = (RGB8, RGB16, RGBF)

Array = NDArray[Any]
Make = Callable[[Path], Any]


def planar(image: Array) -> Array:
    return np.moveaxis(
        np.broadcast_to(image.reshape(*image.shape[:2], -1), (*image.shape[:2], 3)), -1, 0
    )


def array(value: Array) -> Make:
    return lambda _: value


def dask_array(value: Array) -> Make:
    return lambda _: pytest.importorskip("dask.array").from_array(value, chunks=5)


def zarr_array(value: Array) -> Make:
    return lambda _: pytest.importorskip("zarr").array(value)


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
    return raw("photo.png", imagecodecs.png_encode(np.ascontiguousarray(image)))


def raw(name: str, content: bytes) -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def cut(make: Make, share: float) -> Make:
    def shortened(folder: Path) -> Path:
        path = make(folder)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        return path

    return shortened


def enlarged(make: Make) -> Make:
    """A TIFF whose header claims 3.6 gigapixels."""

    def lie(folder: Path) -> Path:
        path = make(folder)
        with tifffile.TiffFile(path, mode="r+b") as file:
            for tag in ("ImageWidth", "ImageLength"):
                file.pages[0].tags[tag].overwrite(60_000)
        return path

    return lie


def turned(orientation: int, name: str) -> Make:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return pillow(RGB8, name, exif=exif)


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
        None,
        "photo.tif: Expected one image, got a stack",
    ),
    "053-stack-imagej": (tiff(STACK[..., 0], imagej=True), None, "got a stack"),
    "053-stack-ome": (tiff(STACK[..., 0], ome=True), None, "got a stack"),
    "053-stack-gif": (
        pillow(RGB8, "a.gif", save_all=True, append_images=[OTHER_PAGE]),
        None,
        "got 2 pages",
    ),
    "053-stack-array": (array(STACK[..., 0].repeat(2, 0)), None, r"shape \(8, 12, 17\).*one page"),
    "055-nothing-finite": (array(np.full((4, 4, 3), np.nan)), None, "only NaN"),
    "056-zero-size": (array(np.zeros((0, 8, 3))), None, "at least one pixel"),
    "061-negative": (array(np.full((4, 4), -1)), None, "0 to 65535"),
    "061-beyond-16-bits": (array(np.full((4, 4), 1e6)), None, "pass full_scale"),
    "062-truncated-png": (cut(pillow(RGB8, "a.png"), 0.6), None, "a.png: Expected an intact"),
    "062-truncated-png-16": (cut(png16(RGB16), 0.6), None, "intact"),
    "062-truncated-jpeg": (cut(pillow(RGB8, "a.jpg"), 0.8), None, "intact"),
    "062-truncated-tiff": (cut(tiff(RGB16), 0.6), None, "intact"),
    "062-truncated-imagej": (cut(tiff(planar(RGB16), imagej=True), 0.6), None, "intact"),
    "062-truncated-ome": (cut(tiff(planar(RGB16), ome=True), 0.6), None, "intact"),
    "062-empty": (raw("empty.jpg", b""), None, "got an empty one"),
    "062-renamed": (raw("text.png", b"no pixels here" * 20), None, "got something else"),
    "062-bomb-png": (raw("bomb.png", PNG_BOMB), None, "at most 178"),
    "062-bomb-tiff": (enlarged(tiff(RGB8)), None, "at most 178"),
    "062-missing": (lambda folder: folder / "nowhere.png", None, "got none"),
    "062-folder": (lambda folder: folder, None, "got none"),
    "062-words": (array(np.array(["red"])), None, "real numbers"),
    "062-complex": (array(np.zeros((4, 4), complex)), None, "real numbers"),
    "062-ragged": (array([[1, 2], [3]]), None, "array of numbers"),
    "062-cube": (
        tiff(np.zeros((31, 5, 6)), planarconfig="separate", photometric="minisblack"),
        None,
        "31.*a cube",
    ),
}

CASES = ACCEPTED | REFUSED


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


PHOTO_NAMES = ("a.png", "a.jpg", "a.webp", "a.tif")


@pytest.mark.parametrize("name", PHOTO_NAMES)
@pytest.mark.parametrize("asked", range(1, 9))
def test_a_program_that_ignores_the_orientation_can_undo_it(
    asked: int, name: str, tmp_path: Path
) -> None:
    path = turned(asked, name)(tmp_path)
    as_stored = iio.imread(path)
    assert orientation(path) == asked
    np.testing.assert_array_equal(planar(upright(as_stored, asked)), Photo.read(path).pixels)


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
    np.testing.assert_array_equal(Photo.read(turned_tiff).pixels, expected)
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
    np.testing.assert_array_equal(Photo.read(path).pixels, planar(np.rot90(RGB16, -1)))
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


@pytest.mark.parametrize(
    "make", [png16(RGB16), tiff(RGB16, photometric="rgb", tile=(16, 16))], ids=["png", "tiff"]
)
def test_gdal_reads_the_same_16_bits(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path)
    with (
        warnings.catch_warnings(action="ignore"),
        rasterio.open(path) as judge,
    ):  # it has no place on earth
        np.testing.assert_array_equal(Photo.read(path).pixels, judge.read())


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "read-only": lambda image: np.frombuffer(image.tobytes(), image.dtype).reshape(image.shape),
    "strided": lambda image: image.repeat(2, 1)[:, ::2],
    "negative-strides": lambda image: np.ascontiguousarray(image[::-1, ::-1])[::-1, ::-1],
    "big-endian": lambda image: image.astype(image.dtype.newbyteorder(">")),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("image", DEPTHS, ids=lambda image: image.dtype.name)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_memory_layout_changes_nothing(layout: Callable[[Array], Array], image: Array) -> None:
    plain, other = Photo.from_array(image), Photo.from_array(layout(image))
    for linear in (False, True):
        np.testing.assert_array_equal(
            plain.rows(3, 9, linear=linear), other.rows(3, 9, linear=linear)
        )
    assert plain.sha256 == other.sha256
    assert plain.extrema() == other.extrema()


@pytest.mark.parametrize("image", DEPTHS, ids=lambda image: image.dtype.name)
def test_array_is_neither_copied_nor_changed(image: Array) -> None:
    before = image.copy()
    photo = Photo.from_array(image)
    photo.rows(0, 12, linear=True)
    np.testing.assert_array_equal(image, before)
    assert np.shares_memory(photo.pixels, image)
    assert not photo.pixels.flags.writeable


@pytest.mark.parametrize("image", DEPTHS, ids=lambda image: image.dtype.name)
def test_rows_decode_srgb_as_colour_science_does(image: Array) -> None:
    full_scale = 1 if image.dtype.kind == "f" else np.iinfo(image.dtype).max
    encoded = planar(image)[:, 2:7] / full_scale
    photo = Photo.from_array(image)
    np.testing.assert_allclose(photo.rows(2, 7, linear=False), encoded, rtol=1e-6)
    np.testing.assert_allclose(
        photo.rows(2, 7, linear=True), colour.models.eotf_sRGB(encoded), rtol=2e-6
    )
    linear = Photo.from_array(image, encoding="linear")
    np.testing.assert_array_equal(linear.rows(2, 7, linear=True), photo.rows(2, 7, linear=False))


@pytest.mark.parametrize("image", DEPTHS, ids=lambda image: image.dtype.name)
def test_rows_and_extrema_do_not_depend_on_the_strips(image: Array) -> None:
    photo = Photo.from_array(image.repeat(20, axis=0))
    whole = photo.rows(0, 240, linear=True)
    strips = [photo.rows(top, min(top + 70, 240), linear=True) for top in range(0, 240, 70)]
    np.testing.assert_array_equal(whole, np.concatenate(strips, axis=1))
    assert whole.flags.c_contiguous
    stored = photo.rows(0, 240, linear=False)
    assert photo.extrema() == (stored.min(), stored.max())


@pytest.mark.parametrize(
    ("image", "full_scale", "note"),
    [
        pytest.param(RGBF, 1, "", id="float-to-1"),
        pytest.param(RGBF * 1.03, 1, "beyond full scale", id="float-with-overshoot"),
        pytest.param(RGBF * 255, 255, "255 was taken as full scale", id="float-to-255"),
        pytest.param(
            RGBF.astype(np.float64) * 60000, 65535, "65535 was taken", id="float-to-65535"
        ),
        pytest.param(RGBF.astype(np.float16), 1, "", id="half"),
        pytest.param(RGB16, 65535, "", id="16-bit"),
        pytest.param(RGB16 // 16, 65535, "12 bits", id="12-bit"),
    ],
)
def test_full_scale_is_guessed_by_the_documented_rule(
    image: Array, full_scale: float, note: str
) -> None:
    photo = Photo.from_array(image, encoding="srgb")
    assert photo.full_scale == full_scale
    assert note in " ".join(photo.assumptions)
    assert bool(note) == bool(photo.assumptions)


def test_full_scale_that_is_given_is_taken() -> None:
    photo = Photo.from_array(RGB16 // 16, full_scale=4095)
    np.testing.assert_allclose(
        photo.rows(0, 12, linear=False), planar(RGB16 // 16) / 4095, rtol=1e-6
    )
    assert not photo.assumptions


@pytest.mark.parametrize(
    "keywords", [{"full_scale": 0}, {"full_scale": np.nan}, {"encoding": "gamma"}]
)
def test_impossible_options_are_refused(keywords: dict[str, Any]) -> None:
    with pytest.raises(PhotoError, match=f"Expected .*{next(iter(keywords))}"):
        Photo.from_array(RGB8, **keywords)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_pixel_that_is_not_finite_is_masked_and_counts_for_nothing(bad: float) -> None:
    image = RGBF + 0.5
    image[3, 4, 1] = bad
    photo = Photo.from_array(image)
    assert photo.valid is not None
    assert np.argwhere(~photo.valid).tolist() == [[3, 4]]
    assert photo.rows(3, 4, linear=True)[:, 0, 4].tolist() == [0, 0, 0]
    others = np.delete(image.reshape(-1, 3), 3 * 17 + 4, axis=0)
    assert photo.extrema() == (others.min(), others.max())
    assert "1 of 204 pixels" in photo.assumptions[0]
    assert np.isfinite(image).sum() == image.size - 1


def test_hundred_megapixels_cost_no_second_copy() -> None:
    image = np.zeros((8000, 12500, 3), np.uint8)
    image[-1, -1] = 255
    tracemalloc.start()
    photo = Photo.from_array(image)
    photo.rows(0, 64, linear=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6


def test_foreign_colour_profile_is_mentioned(tmp_path: Path) -> None:
    for space, mentions in (("sRGB", 0), ("LAB", 1)):
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile(space)).tobytes()
        Image.fromarray(RGB8).save(tmp_path / "a.png", icc_profile=profile)
        tifffile.imwrite(tmp_path / "a.tif", RGB8, photometric="rgb", iccprofile=profile)
        for name in ("a.png", "a.tif"):
            assert (
                " ".join(Photo.read(tmp_path / name).assumptions).count("colour profile")
                == mentions
            )


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.png")
    return folder / "pipe.png"


def endless_device(folder: Path) -> Path:
    (folder / "zero.png").symlink_to("/dev/zero")
    return folder / "zero.png"


@pytest.mark.skipif("sys.platform == 'win32'", reason="Windows has no such files")
@pytest.mark.usefixtures("ends_soon")
@pytest.mark.parametrize("make", [pipe, endless_device])
def test_a_photo_that_may_never_end_is_refused_unread(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(PhotoError, match=f"{path.name}: .*got a pipe or a device"):
        Photo.read(path)
    assert orientation(path) == 1
    assert camera_named_in(path) == ("", "")


def test_file_is_named_and_hashed(tmp_path: Path) -> None:
    path = pillow(RGB8, "a.png")(tmp_path)
    photo = as_photo(str(path))
    assert (photo.name, len(photo.sha256)) == ("a.png", 64)
    assert as_photo(photo) is photo
    assert Photo.from_array(RGB8).sha256 != Photo.from_array(RGB8 ^ 1).sha256


def test_a_region_is_those_pixels_and_means_the_same():
    pixels = _RNG.integers(0, 4000, (9, 7, 3)).astype(np.uint16)
    part = Photo.from_array(pixels).cropped((2, 5, 1, 7))
    np.testing.assert_array_equal(part.pixels, np.moveaxis(pixels[2:5, 1:7], -1, 0))
    assert part.full_scale == 65535


@pytest.mark.parametrize("region", [(0, 10, 0, 7), (3, 3, 0, 7), (-1, 4, 0, 7)])
def test_a_region_beyond_the_photo_is_refused(region):
    with pytest.raises(PhotoError, match="Expected a region within 9 rows x 7 columns"):
        Photo.from_array(np.zeros((9, 7, 3), np.uint8)).cropped(region)


@pytest.mark.parametrize("encoding", ["srgb", "linear"])
def test_a_reduced_photo_keeps_the_mean_of_its_linear_light(encoding):
    photo = Photo.from_array(_RNG.random((31, 47, 3), dtype=np.float32), encoding=encoding)
    small = photo.reduced(100)
    assert small.shape == (8, 12)
    means = [p.rows(0, p.shape[0], linear=True).mean(axis=(1, 2)) for p in (photo, small)]
    np.testing.assert_allclose(*means, rtol=1e-5)


def test_a_reduced_photo_by_a_whole_factor_holds_the_means_of_blocks():
    pixels = _RNG.random((12, 16, 3), dtype=np.float32)
    small = Photo.from_array(pixels, encoding="linear").reduced(12)
    blocks = np.moveaxis(pixels, -1, 0).reshape(3, 3, 4, 4, 4).mean(axis=(2, 4))
    np.testing.assert_allclose(small.pixels, blocks, rtol=1e-5)


def test_pixels_that_are_left_out_do_not_darken_a_reduced_photo():
    pixels = np.full((8, 8, 3), 0.5, np.float32)
    pixels[:3, :5] = np.nan
    small = Photo.from_array(pixels).reduced(16)
    assert small.valid.sum() == 14
    np.testing.assert_allclose(small.pixels[:, small.valid], 0.5, rtol=1e-5)


def test_a_small_photo_is_not_enlarged():
    photo = Photo.from_array(_RNG.integers(0, 256, (5, 4, 3), dtype=np.uint8))
    small = photo.reduced(10_000)
    np.testing.assert_allclose(
        small.rows(0, 5, linear=True), photo.rows(0, 5, linear=True), atol=1e-6
    )


def test_a_sample_is_made_of_squares_from_corner_to_corner_and_of_all_of_a_small_photo():
    photo = Photo.from_array(np.arange(30 * 50 * 3).reshape(30, 50, 3) % 251)
    sample = photo.sampled(2, 8)
    assert sample.shape == (16, 16)
    np.testing.assert_array_equal(sample.pixels[:, :8, :8], photo.pixels[:, :8, :8])
    np.testing.assert_array_equal(sample.pixels[:, 8:, 8:], photo.pixels[:, 22:, 42:])
    assert photo.cropped((0, 15, 0, 50)).sampled(2, 8).shape == (15, 16)
