"""Photos keep their values as stored, judged by rasterio (GDAL) and colour-science."""

import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import colour
import numpy as np
import pytest
import rasterio
import tifffile
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image, ImageCms
from tests.photo.conftest import DEPTHS, RGB8, RGB16, RGBF, Array, Make, pillow, planar, png16, tiff

from napari_mst.base.errors import PhotoError
from napari_mst.batch.jobs import find_photos
from napari_mst.cube.lazy import mapped
from napari_mst.photo import files, values
from napari_mst.photo.photo import Photo, as_photo


@pytest.mark.parametrize(
    "make", [png16(RGB16), tiff(RGB16, photometric="rgb", tile=(16, 16))], ids=["png", "tiff"]
)
def test_gdal_reads_the_same_16_bits(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path)
    # GDAL warns that it has no place on earth.
    with warnings.catch_warnings(action="ignore"), rasterio.open(path) as judge:
        assert_array_equal(Photo.read(path).pixels, judge.read())


@pytest.mark.parametrize(
    "make",
    [
        tiff(RGB16, photometric="rgb", tile=(16, 16)),
        tiff(RGB16, photometric="rgb", rowsperstrip=3, bigtiff=True, compression="zlib"),
        tiff(RGB16.transpose(2, 0, 1), photometric="rgb", planarconfig="separate"),
        tiff(RGB16[..., 0], photometric="miniswhite"),
        lambda _: pytest.importorskip("dask.array").from_array(RGB16, chunks=5),
        lambda folder: pytest.importorskip("zarr").create_array(str(folder / "a"), data=RGB16),
    ],
    ids=["tiles", "strips", "planes", "white-is-zero", "dask", "zarr"],
)
def test_a_photo_too_large_for_memory_lies_in_a_file(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path)
    small = as_photo(source)
    for module in (files, values):
        monkeypatch.setattr(module, "MAX_PIXELS", 7)
    in_file = Mock(wraps=mapped)
    for module in (files, values):
        monkeypatch.setattr(module, "mapped", in_file)
    large = as_photo(source)
    in_file.assert_called_once()
    assert_array_equal(large.pixels, small.pixels)
    assert (large.sha256, large.assumptions) == (small.sha256, small.assumptions)


def test_an_ome_zarr_is_read_at_its_finest_level(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    folder = tmp_path / "photo.zarr"
    group = zarr.open_group(folder, mode="w")
    levels = RGB16.transpose(2, 0, 1)[None, :, None], RGB16[None, None, ::2, ::2, 0]
    for name, level in zip("01", levels, strict=True):
        group.create_array(name, data=level)
    datasets = [{"path": name} for name in "01"]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"datasets": datasets}]}
    assert [photo for photo, _ in find_photos([folder], tmp_path / "cubes", print)] == [folder]
    assert_array_equal(Photo.read(folder).pixels, levels[0][0, :, 0])
    del group.attrs["ome"]
    with pytest.raises(PhotoError, match="Expected the image of an OME-Zarr or an array"):
        Photo.read(folder)


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
        assert_array_equal(plain.rows(3, 9, linear=linear), other.rows(3, 9, linear=linear))
    assert plain.sha256 == other.sha256
    assert plain.extrema() == other.extrema()


@pytest.mark.parametrize("image", DEPTHS, ids=lambda image: image.dtype.name)
def test_array_is_neither_copied_nor_changed(image: Array) -> None:
    before = image.copy()
    photo = Photo.from_array(image)
    photo.rows(0, 12, linear=True)
    assert_array_equal(image, before)
    assert np.shares_memory(photo.pixels, image)
    assert not photo.pixels.flags.writeable


@pytest.mark.parametrize("image", DEPTHS, ids=lambda image: image.dtype.name)
def test_rows_decode_srgb_as_colour_science_does(image: Array) -> None:
    full_scale = 1 if image.dtype.kind == "f" else np.iinfo(image.dtype).max
    encoded = planar(image)[:, 2:7] / full_scale
    photo = Photo.from_array(image)
    assert_allclose(photo.rows(2, 7, linear=False), encoded, rtol=1e-6)
    assert_allclose(photo.rows(2, 7, linear=True), colour.models.eotf_sRGB(encoded), rtol=2e-6)
    linear = Photo.from_array(image, encoding="linear")
    assert_array_equal(linear.rows(2, 7, linear=True), photo.rows(2, 7, linear=False))


@pytest.mark.parametrize("image", DEPTHS, ids=lambda image: image.dtype.name)
def test_rows_and_extrema_do_not_depend_on_the_strips(image: Array) -> None:
    photo = Photo.from_array(image.repeat(20, axis=0))
    whole = photo.rows(0, 240, linear=True)
    strips = [photo.rows(top, min(top + 70, 240), linear=True) for top in range(0, 240, 70)]
    assert_array_equal(whole, np.concatenate(strips, axis=1))
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


@pytest.mark.parametrize(
    ("image", "full_scale", "encoding"),
    [
        pytest.param(RGBF**4 * 3.5, 1, "linear", id="light-with-highlights"),
        pytest.param(np.where(RGBF > 0.99, 1e5, RGBF), 1, "linear", id="light-with-the-sun"),
        pytest.param(RGBF * 3.5, 255, "srgb", id="mostly-above-1"),
        pytest.param(np.where(RGBF > 0.9, RGB8, 0.0), 255, "srgb", id="codes-on-black"),
    ],
)
def test_floats_far_above_1_are_light_if_most_are_below_it_and_else_codes(
    image: Array, full_scale: float, encoding: str
) -> None:
    photo = Photo.from_array(image)
    assert (photo.full_scale, photo.encoding) == (full_scale, encoding)
    note, *_, meant = photo.assumptions
    assert f"reach {image.max():.3g}" in note
    assert ("taken as linear light" in meant) == (encoding == "linear")
    told = Photo.from_array(image, encoding="srgb")
    assert (told.full_scale, told.encoding) == (full_scale, "srgb")


def test_full_scale_that_is_given_is_taken() -> None:
    photo = Photo.from_array(RGB16 // 16, full_scale=4095)
    assert_allclose(photo.rows(0, 12, linear=False), planar(RGB16 // 16) / 4095, rtol=1e-6)
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


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "f4", "?"])
def test_pixel_that_a_mask_hides_is_left_out(dtype: str) -> None:
    plain = RGB8.astype(dtype)
    values = planar(plain).copy()
    values[:, 3, 4] = -9999 if dtype == "i4" else 0
    image = np.ma.array(values, mask=False)
    image[1, 3, 4] = np.ma.masked
    photo = Photo.from_array(image)
    assert photo.valid is not None
    assert np.argwhere(~photo.valid).tolist() == [[3, 4]]
    whole = Photo.from_array(plain)
    expected = whole.pixels.copy()
    expected[:, 3, 4] = 0
    assert_array_equal(photo.pixels, expected)
    assert (photo.pixels.dtype, photo.full_scale) == (whole.pixels.dtype, whole.full_scale)
    image[:, 3, 4] = np.ma.masked
    assert photo.sha256 != Photo.from_array(image).sha256
    with pytest.raises(PhotoError, match="only NaN, infinite or masked"):
        Photo.from_array(np.ma.array(plain, mask=True))


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
    spaces: tuple[tuple[Literal["sRGB", "LAB"], int], ...] = (("sRGB", 0), ("LAB", 1))
    for space, mentions in spaces:
        profile = ImageCms.ImageCmsProfile(ImageCms.createProfile(space)).tobytes()
        Image.fromarray(RGB8).save(tmp_path / "a.png", icc_profile=profile)
        tifffile.imwrite(tmp_path / "a.tif", RGB8, photometric="rgb", iccprofile=profile)
        for name in ("a.png", "a.tif"):
            notes = " ".join(Photo.read(tmp_path / name).assumptions)
            assert notes.count("colour profile") == mentions


def test_file_is_named_and_hashed(tmp_path: Path) -> None:
    path = pillow(RGB8, "a.png")(tmp_path)
    photo = as_photo(str(path))
    assert (photo.name, len(photo.sha256)) == ("a.png", 64)
    assert as_photo(photo) is photo
    assert Photo.from_array(RGB8).sha256 != Photo.from_array(RGB8 ^ 1).sha256


def test_photo_of_a_jpeg_file_knows_it(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    for name in ("photo.jpg", "photo.png", "photo.tif"):
        Image.fromarray(pixels).save(tmp_path / name)
        assert Photo.read(tmp_path / name).is_jpeg == (name == "photo.jpg")
    assert not Photo.from_array(pixels).is_jpeg
