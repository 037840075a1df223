"""Non-local means of photos: one pixel as the whole photo, refusals."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from napari_mst import Photo
from napari_mst.base.errors import DenoisingError
from napari_mst.denoising.non_local_means import non_local_weights
from napari_mst.denoising.photo_denoising import (
    BEST_H,
    DISTANCE,
    LEAST_CODES,
    PATCH,
    ROUNDING,
    Denoising,
    denoised_photo,
    denoising_to_look_at,
)
from napari_mst.denoising.sensor_noise import SensorNoise, estimated_noise

HOW = Denoising(SensorNoise(1e-3, 1e-5), 1.2)
PIXELS = [(0, 0), (3, 39), (15, 20), (29, 1)]


def photo(rows: int = 30, columns: int = 40, *, has_gap: bool = False) -> Photo:
    values = np.random.default_rng(0).random((rows, columns, 3)).astype(np.float32)
    if has_gap:
        values[14, 19] = np.nan
    return Photo.from_array(values, encoding="linear")


@pytest.mark.parametrize("has_gap", [False, True])
@pytest.mark.parametrize(("row", "column"), PIXELS)
def test_weights_of_a_pixel_make_the_pixel_of_the_denoised_photo(
    row: int, column: int, has_gap: bool
) -> None:
    own = photo(has_gap=has_gap)
    image = HOW.stabilised(own)
    if own.valid is not None:
        image = np.where(own.valid, image, np.nan)
    found = non_local_weights(image, row, column, HOW.h, patch=PATCH, distance=DISTANCE, sigma=1.0)
    weights = found.over(30, 40)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    expected = (own.pixels * weights).sum((1, 2))
    whole = denoised_photo(own, HOW).pixels[:, row, column]
    np.testing.assert_allclose(expected, whole, rtol=1e-6)


def test_a_photo_without_noise_is_looked_at_with_eight_codes_and_its_pixels_share_weight() -> None:
    sample = Photo.read(Path(__file__).parents[2] / "sample_data" / "coffee.jpg")
    noise = estimated_noise(sample)
    assert noise is not None
    assert noise.codes < ROUNDING
    how = denoising_to_look_at(sample)
    assert how.codes == pytest.approx(LEAST_CODES)
    image = how.stabilised(sample.cropped((184, 217, 284, 317)))
    assert non_local_weights(image, 16, 16, how.h, patch=PATCH, sigma=1.0).effective > 20
    # The scale is about that of codes.
    assert 200 < how.noise.codes * how.stabilised(sample).max() < 300


def test_a_photo_whose_noise_cannot_be_measured_is_looked_at_like_one_without() -> None:
    clipped = Photo.from_array(np.full((64, 64, 3), 255, np.uint8))
    assert estimated_noise(clipped) is None
    assert denoising_to_look_at(clipped).codes == pytest.approx(LEAST_CODES)


def test_a_noisy_photo_is_looked_at_as_a_run_denoises_it() -> None:
    noisy = np.random.default_rng(1).normal(0.4, 0.1, (64, 72, 3)).astype(np.float32)
    seen = Photo.from_array(noisy, encoding="linear")
    assert denoising_to_look_at(seen).h == pytest.approx(BEST_H)
    assert denoising_to_look_at(seen).noise == estimated_noise(seen)
    assert denoising_to_look_at(seen, 30.0).codes == pytest.approx(30)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: denoising_to_look_at(photo(), 0.0), "Expected h above 0"),
        (lambda: denoising_to_look_at(photo(), -1.0), "Expected h above 0"),
        (lambda: denoising_to_look_at(photo(), float("nan")), "Expected h above 0"),
    ],
)
def test_what_cannot_be_denoised_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(DenoisingError, match=message):
        call()
