"""The pixels that stand for a photo: means of cells without clipped pixels, and highlights."""

import numpy as np
from numpy.testing import assert_allclose

from napari_mst.base.arrays import Singles
from napari_mst.calibration.light.seeing import sampled
from napari_mst.photo.photo import Photo

SIDE, CELL = 4, 8  # so that every pixel is read once
DULL = (0.10, 0.20, 0.40)
HIGHLIGHT = (0.80, 0.60, 0.30)


def photo(pixels: Singles) -> Photo:
    return Photo.from_array(pixels, encoding="linear", full_scale=1.0)


def plain() -> Singles:
    return np.full((SIDE * CELL, SIDE * CELL, 3), DULL, np.float32)


def test_a_highlight_of_four_pixels_is_the_brightest_part_of_its_cell_alone() -> None:
    pixels = plain()
    pixels[9:11, 17:19] = HIGHLIGHT
    sample = sampled(photo(pixels), SIDE)
    assert_allclose(sample.brightest[:, 1, 2], HIGHLIGHT, atol=1e-6)
    of_highlight = 4 / CELL**2
    mean = (1 - of_highlight) * np.array(DULL) + of_highlight * np.array(HIGHLIGHT)
    assert_allclose(sample.means[:, 1, 2], mean, atol=1e-6)
    for cells in (sample.means, sample.brightest):
        assert_allclose(cells[:, 0, 0], DULL, atol=1e-6)
    assert sample.is_known.all()


def test_clipped_pixels_are_left_out_and_a_cell_of_them_is_not_known() -> None:
    pixels = plain()
    pixels[:CELL, :CELL] = 1  # all of a cell
    pixels[CELL : 2 * CELL, :CELL] = 1  # all but two pixels of another
    pixels[CELL, :2] = HIGHLIGHT
    sample = sampled(photo(pixels), SIDE)
    assert not sample.is_known[0, 0]
    assert sample.is_known.sum() == SIDE**2 - 1
    for cells in (sample.means, sample.brightest):
        assert_allclose(cells[:, 1, 0], HIGHLIGHT, atol=1e-6)
        assert not cells[:, 0, 0].any()
