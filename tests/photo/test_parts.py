"""Parts of a photo: regions, photos averaged down, and samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst.base.errors import PhotoError
from napari_mst.photo.photo import Encoding, Photo, Rectangle

RNG = np.random.default_rng(0)


def test_a_region_is_those_pixels_and_means_the_same() -> None:
    pixels = RNG.integers(0, 4000, (9, 7, 3)).astype(np.uint16)
    part = Photo.from_array(pixels).cropped((2, 5, 1, 7))
    assert_array_equal(part.pixels, np.moveaxis(pixels[2:5, 1:7], -1, 0))
    assert part.full_scale == 65535


@pytest.mark.parametrize("region", [(0, 10, 0, 7), (3, 3, 0, 7), (-1, 4, 0, 7)])
def test_a_region_beyond_the_photo_is_refused(region: Rectangle) -> None:
    with pytest.raises(PhotoError, match="Expected a region within 9 rows x 7 columns"):
        Photo.from_array(np.zeros((9, 7, 3), np.uint8)).cropped(region)


@pytest.mark.parametrize("encoding", ["srgb", "linear"])
def test_a_reduced_photo_keeps_the_mean_of_its_linear_light(encoding: Encoding) -> None:
    photo = Photo.from_array(RNG.random((31, 47, 3), dtype=np.float32), encoding=encoding)
    small = photo.reduced(100)
    assert small.shape == (8, 12)
    whole = photo.rows(0, 31, linear=True).mean(axis=(1, 2))
    assert_allclose(small.rows(0, 8, linear=True).mean(axis=(1, 2)), whole, rtol=1e-5)


def test_a_reduced_photo_by_a_whole_factor_holds_the_means_of_blocks() -> None:
    pixels = RNG.random((12, 16, 3), dtype=np.float32)
    small = Photo.from_array(pixels, encoding="linear").reduced(12)
    blocks = np.moveaxis(pixels, -1, 0).reshape(3, 3, 4, 4, 4).mean(axis=(2, 4))
    assert_allclose(small.pixels, blocks, rtol=1e-5)


def test_pixels_that_are_left_out_do_not_darken_a_reduced_photo() -> None:
    pixels = np.full((8, 8, 3), 0.5, np.float32)
    pixels[:3, :5] = np.nan
    small = Photo.from_array(pixels).reduced(16)
    assert small.valid is not None
    assert small.valid.sum() == 14
    assert_allclose(small.pixels[:, small.valid], 0.5, rtol=1e-5)


def test_a_small_photo_is_not_enlarged() -> None:
    photo = Photo.from_array(RNG.integers(0, 256, (5, 4, 3), dtype=np.uint8))
    small = photo.reduced(10_000)
    assert_allclose(small.rows(0, 5, linear=True), photo.rows(0, 5, linear=True), atol=1e-6)


def test_a_sample_is_made_of_squares_from_corner_to_corner_and_of_all_of_a_small_photo() -> None:
    photo = Photo.from_array(np.arange(30 * 50 * 3).reshape(30, 50, 3) % 251)
    sample = photo.sampled(2, 8)
    assert sample.shape == (16, 16)
    assert_array_equal(sample.pixels[:, :8, :8], photo.pixels[:, :8, :8])
    assert_array_equal(sample.pixels[:, 8:, 8:], photo.pixels[:, 22:, 42:])
    assert photo.cropped((0, 15, 0, 50)).sampled(2, 8).shape == (15, 16)
