"""Colour consistency: spectra show the colours of a photo to within a code, without its noise."""

from typing import Literal
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import napari_mst
from napari_mst.base.errors import Cancelled
from napari_mst.base.progress import Progress
from napari_mst.cube.colour import linear_to_srgb, render_srgb, srgb_response, srgb_to_linear
from napari_mst.cube.lazy import mapped
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.reconstruction.colour_fidelity import correction, photo_noise
from napari_mst.reconstruction.colour_fidelity.code_cells import (
    HALF_CODE,
    Bounds,
    ColourCheck,
    has_kernels,
    linear_light,
    srgb_codes,
)
from napari_mst.reconstruction.colour_fidelity.correction import correct_colours
from napari_mst.reconstruction.colour_fidelity.moving import move, moved_into
from napari_mst.training.inputs import Input

WAVELENGTHS = np.arange(400.0, 701, 10)
RESPONSE = srgb_response(WAVELENGTHS)


def scene(rows: int = 80, columns: int = 96) -> np.ndarray:
    """Smooth reflectances of many colours, between 0.05 and 0.75."""
    along = (
        np.arange(31)[:, None, None] / 5
        + np.linspace(0, 9, columns)
        + np.linspace(0, 7, rows)[:, None]
    )
    return (0.4 + 0.35 * np.sin(along)).astype(np.float32)


def codes_of(cube: np.ndarray) -> np.ndarray:
    linear = render_srgb(cube, WAVELENGTHS).clip(0, 1)
    return np.asarray(np.rint(linear_to_srgb(linear) * 255), dtype=np.uint8)


def shifted(cube: np.ndarray) -> np.ndarray:
    """An estimate of the right kind and another colour."""
    return np.asarray(cube * np.linspace(0.9, 1.1, 31, dtype=np.float32)[:, None, None])


def test_spectra_that_show_the_photo_already_are_not_touched() -> None:
    cube = scene()
    estimate = cube.copy()
    correction = correct_colours(estimate, Photo.from_array(codes_of(cube)), RESPONSE)
    assert (estimate == cube).all(
        axis=0
    ).mean() > 0.9  # the others lie at the very edge of their cells
    assert_allclose(estimate, cube, atol=1e-3)
    assert correction.colour_error.max() <= 0.501


def test_quality_is_the_distance_of_the_uncorrected_colour_in_codes() -> None:
    cube = scene()
    photo, estimate = codes_of(cube), shifted(cube)
    exact = linear_to_srgb(render_srgb(estimate, WAVELENGTHS).clip(0, 1)) * 255
    quality = correct_colours(estimate, Photo.from_array(photo), RESPONSE).colour_error
    assert quality.dtype == np.float32
    assert_allclose(quality, np.abs(exact - photo).max(axis=0), atol=0.01)


def test_clipped_channels_only_bound_one_side() -> None:
    bright = np.full((31, 9, 9), 1.4, np.float32)
    dark = np.zeros((31, 9, 9), np.float32)
    for estimate, code in ((bright, 255), (dark, 0)):
        before = estimate.copy()
        quality = correct_colours(
            estimate, Photo.from_array(np.full((9, 9, 3), code, np.uint8)), RESPONSE
        ).colour_error
        assert_array_equal(estimate, before)
        assert (quality < 1e-3).all()
    grey = np.full((31, 9, 9), 0.5, np.float32)
    correct_colours(grey, Photo.from_array(np.full((9, 9, 3), 255, np.uint8)), RESPONSE)
    assert render_srgb(grey, WAVELENGTHS).min() > 0.99


def test_change_is_the_smallest_that_reaches_the_cell_over_the_root_of_the_spectrum() -> None:
    spectra = scene()[:, :1, :50].reshape(31, -1).astype(np.float64)
    target = RESPONSE.T @ spectra + 0.01
    change = moved_into(spectra, Bounds(target, target + 0.01), RESPONSE) - spectra
    root = spectra**0.25
    expected = [
        scale * np.linalg.lstsq(RESPONSE.T * scale, np.full(3, 0.01), rcond=None)[0]
        for scale in root.T
    ]
    assert_allclose(change, np.transpose(expected), atol=1e-6)


def test_channels_of_which_nothing_is_known_do_not_hold_the_others_back() -> None:
    spectrum = np.full((31, 1), 0.5)
    low, high = np.full((3, 1), -np.inf), np.full((3, 1), np.inf)
    low[0] = RESPONSE[:, 0] @ spectrum + 0.02
    change = moved_into(spectrum, Bounds(low, high), RESPONSE) - spectrum
    expected, *_ = np.linalg.lstsq(RESPONSE[:, :1].T, np.full(1, 0.02), rcond=None)
    assert_allclose(change[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("encoding", ["srgb", "linear"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32"])
def test_photo_of_every_depth_and_encoding_is_met_to_within_half_its_code(
    kind: str, encoding: Encoding
) -> None:
    cube = scene(16, 20)
    linear = render_srgb(cube, WAVELENGTHS).clip(0, 1)
    values = linear_to_srgb(linear) if encoding == "srgb" else linear
    full = {"uint8": 255, "uint16": 65535, "float32": 1}[kind]
    stored = (np.rint(values * full) if full > 1 else values).astype(kind)
    estimate = shifted(cube)
    correct_colours(estimate, Photo.from_array(stored, encoding=encoding), RESPONSE)
    shown = render_srgb(estimate, WAVELENGTHS).clip(0, 1)
    shown = linear_to_srgb(shown) if encoding == "srgb" else shown
    half = 0.5 / (full if full > 1 else 65535)
    assert np.abs(shown - stored / full).max() <= half + 3e-6


def test_noise_that_was_removed_stays_away_and_a_wrong_colour_is_still_corrected() -> None:
    cube = scene(4, 4).repeat(33, axis=1).repeat(33, axis=2)
    noisy = Input("noisy", noise=1e-3).photograph(cube, "a")
    estimate = cube.copy()
    correction = correct_colours(estimate, Photo.from_array(noisy), RESPONSE)
    assert "its noise" in correction.text
    assert np.abs(estimate - cube).mean() < 0.02 * np.abs(cube).mean()
    wrong = np.asarray(cube * np.float32(0.7))
    correct_colours(wrong, Photo.from_array(noisy), RESPONSE)
    assert np.abs(wrong - cube).mean() < 0.6 * np.abs(0.3 * cube).mean()


def on_black(cube: np.ndarray, size: int = 30) -> np.ndarray:
    """A square of *cube* on a black ground, which clips the noise of a photo nearly everywhere."""
    background = np.zeros_like(cube)
    background[:, 8 : 8 + size, 8 : 8 + size] = cube[:, :size, :size]
    return background


@pytest.mark.parametrize("noise", [2e-4, 1e-3, 4e-3])
def test_noise_does_not_come_back_where_nearly_all_pixels_are_clipped(noise: float) -> None:
    cube = on_black(scene(64, 64))
    photo = Input("noisy", noise=noise).photograph(cube, "a")
    estimate = cube.copy()
    correction = correct_colours(estimate, Photo.from_array(photo), RESPONSE)
    assert "its noise" in correction.text
    assert np.abs(estimate - cube).mean() < 1e-3 * np.abs(cube).mean()


def test_noise_that_the_network_removed_from_the_colours_alone_is_told_by_them() -> None:
    cube = scene(64, 64)
    clean = linear_to_srgb(render_srgb(cube, WAVELENGTHS).clip(0, 1)) * 255
    noise = 2 * np.random.default_rng(0).standard_normal(clean.shape)
    colour_noise = noise - noise.mean(axis=0)
    correction = correct_colours(
        cube, Photo.from_array(np.rint(clean + colour_noise).astype(np.uint8)), RESPONSE
    )
    assert "its noise" in correction.text


def test_what_is_off_by_much_more_than_a_weak_noise_is_corrected() -> None:
    cube = scene(64, 64)
    noisy = Input("noisy", noise=2e-4).photograph(cube, "a")
    estimate = cube.copy()
    estimate[:, 30, 30] *= 0.5
    assert np.abs(codes_of(estimate).astype(int) - codes_of(cube)).max() > 40
    correct_colours(estimate, Photo.from_array(noisy), RESPONSE)
    distance = np.abs(codes_of(estimate).astype(int) - codes_of(cube)).max(axis=0)
    assert distance[30, 30] < 12
    assert np.median(distance) == 0


@pytest.mark.parametrize(("kept", "is_noise"), [(0.6, False), (0.1, True)])
def test_grain_that_all_channels_share_is_noise_only_where_nearly_all_of_it_was_removed(
    kept: float, is_noise: bool
) -> None:
    grain = 0.08 * np.random.default_rng(0).standard_normal((80, 96)).astype(np.float32)
    photo, estimate = codes_of(scene() * (1 + grain)), scene() * (1 + kept * grain)
    correction = correct_colours(estimate, Photo.from_array(photo), RESPONSE)
    assert ("its noise" in correction.text) == is_noise
    assert (codes_of(estimate) == photo).all() != is_noise


def test_linear_photos_are_matched_to_8_bits_and_noisy_ones_not_at_all() -> None:
    cube = scene(4, 4).repeat(33, axis=1).repeat(33, axis=2)
    linear = render_srgb(cube, WAVELENGTHS).clip(0, 1)
    rounded = Photo.from_array(np.rint(linear * 65535).astype(np.uint16), encoding="linear")
    near, wrong = cube * np.float32(1.001), np.asarray(cube * np.float32(0.7))
    expected = near.copy()
    assert (
        "half a code of 8 bits: 0.0%"
        in correct_colours(near, rounded, RESPONSE, least=HALF_CODE).text
    )
    assert_array_equal(near, expected)
    correct_colours(wrong, rounded, RESPONSE, least=HALF_CODE)
    shown = render_srgb(wrong, WAVELENGTHS).clip(0, 1)
    assert np.abs(linear_to_srgb(shown) - linear_to_srgb(linear)).max() * 255 < 0.51
    grain = np.random.default_rng(0).normal(size=linear.shape) * np.sqrt(1e-3 * linear)
    noisy = Photo.from_array((linear + grain).clip(0, 1).astype(np.float32), encoding="linear")
    estimate = cube.copy()
    assert (
        "any distance, for its noise"
        in correct_colours(estimate, noisy, RESPONSE, least=HALF_CODE).text
    )
    assert_array_equal(estimate, cube)


def in_blocks(side: int) -> np.ndarray:
    """A scene of 128 x 128 pixels under another light in each block."""
    light = np.random.default_rng(1).uniform(0.4, 1, (128 // side,) * 2)
    return (scene(128, 128) * np.kron(light, np.ones((side, side)))).astype(np.float32)


def test_jpeg_errors_that_were_removed_stay_away(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = in_blocks(4)
    compressed = Input("JPEG", quality=50).photograph(cube, "a")
    photo, estimate, exact = Photo.from_array(compressed), cube.copy(), cube.copy()
    correction = correct_colours(estimate, photo, RESPONSE)
    assert "JPEG errors" in correction.text
    monkeypatch.setattr(photo_noise, "FEWEST", np.inf)
    correct_colours(exact, photo, RESPONSE)
    assert np.abs(estimate - cube).mean() < 0.5 * np.abs(exact - cube).mean()


@pytest.mark.parametrize("quality", [50, 75, 90])
@pytest.mark.parametrize("corner", [(0, 0), (3, 5)])
def test_jpeg_is_told_in_small_photos_and_wherever_they_were_cropped(
    quality: int, corner: tuple[int, int]
) -> None:
    cube = in_blocks(4)
    compressed = Input("JPEG", quality=quality).photograph(cube, "a")
    top, left = corner
    part = (slice(None), slice(top, top + 48), slice(left, left + 56))
    before = cube[part].copy()
    after = before.copy()
    correction = correct_colours(after, Photo.from_array(compressed[part]), RESPONSE)
    assert "JPEG errors" in correction.text
    assert_allclose(after, before, atol=1e-3)


def test_clean_photo_with_blocks_of_its_own_is_no_jpeg() -> None:
    cube = in_blocks(8)
    assert "half a code" in correct_colours(cube, Photo.from_array(codes_of(cube)), RESPONSE).text


def test_a_colour_that_no_surface_shows_leaves_the_estimate() -> None:
    cube = np.full((31, 9, 9), 0.5, np.float32)
    red = Photo.from_array(
        np.array([1.0, 0.0, 0.0], np.float32) * np.ones((9, 9, 1), np.float32), encoding="linear"
    )
    overlapping = (RESPONSE + RESPONSE.sum(axis=1, keepdims=True)) / 4
    corrected = cube.copy()
    correct_colours(corrected, red, overlapping.astype(np.float32))
    assert_array_equal(corrected, cube)


def test_unknown_pixels_have_no_quality() -> None:
    values = np.full((5, 6, 3), 0.5, np.float32)
    values[2, 3] = np.nan
    quality = correct_colours(scene(5, 6), Photo.from_array(values), RESPONSE).colour_error
    assert np.isnan(quality[2, 3])
    assert np.isnan(quality).sum() == 1


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (7, 7), (8, 300)])
def test_any_size_can_be_corrected(size: tuple[int, int]) -> None:
    cube = scene(*size)
    estimate = shifted(cube)
    correct_colours(estimate, Photo.from_array(np.moveaxis(codes_of(cube), 0, -1)), RESPONSE)
    assert_array_equal(codes_of(estimate), codes_of(cube))
    assert estimate.min() >= 0


@pytest.mark.parametrize("noise", [0, 2e-4, 4e-3])
def test_any_photo_comes_out_the_same_in_blocks_of_any_size_and_however_many_work_on_it(
    noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube = scene(72, 90)
    photo = Photo.from_array(Input("noisy", noise=noise).photograph(cube, "a"))
    first, second = (np.asarray(cube * np.float32(0.8)) for _ in range(2))
    shares: list[float] = []
    one = correct_colours(first, photo, RESPONSE, Progress(shares.append))
    monkeypatch.setattr("napari_mst.reconstruction.colour_fidelity.code_cells.THREADS", 1)
    monkeypatch.setattr("napari_mst.reconstruction.colour_fidelity.code_cells.BLOCK_PIXELS", 500)
    other = correct_colours(second, photo, RESPONSE)
    assert_array_equal(first, second)
    assert_array_equal(one.colour_error, other.colour_error)
    assert one.text == other.text
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize("size", [(1, 1), (3, 7), (2, 64), (5, 201)], ids=str)
@pytest.mark.parametrize("kind", ["narrow", "open", "dark", "beyond any surface"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_compiled_kernels_move_spectra_as_numpy_does(
    size: tuple[int, int], kind: str, order: Literal["C", "F"]
) -> None:
    data = np.random.default_rng(1).uniform(0, 0.8, (31, *size[:1], size[1] + 3))
    spectra = data.astype(np.float32)[:, :, 1:-2]  # as a part of a cube lies in it
    if not has_kernels(spectra):
        pytest.skip("numba is not installed, or has no kernels for this processor")
    response = RESPONSE.astype(np.float32, order=order)
    shown = np.einsum("bc,bhw->chw", response, spectra)
    cells = cells_near(shown, kind)
    is_outside = ((shown < cells.low) | (shown > cells.high)).any(axis=0)
    expected = spectra.astype(np.float64)
    expected[:, is_outside] = moved_into(
        expected[:, is_outside], Bounds(*(each[:, is_outside] for each in cells)), RESPONSE
    )
    before = spectra.copy()
    black = Photo.from_array(np.zeros((*size, 3), np.uint8))
    check = ColourCheck(spectra, black, response, 0)
    assert move(check, slice(None), shown, cells) == is_outside.sum()
    assert_array_equal(spectra[:, ~is_outside], before[:, ~is_outside])
    # A colour that is off by just as much as counts as within may take one step more, or not.
    assert_allclose(spectra, expected, atol=5e-6)
    assert (kind == "beyond any surface") == bool((spectra == before).all())


def cells_near(shown: np.ndarray, kind: str) -> Bounds:
    """Cells around other colours than those *shown* (C, h, w), but for every fifth pixel."""
    wanted = np.asarray(shown * {"dark": 0.02, "beyond any surface": 9.0}.get(kind, 0.9))
    wanted.reshape(3, -1)[:, 1::5] = shown.reshape(3, -1)[:, 1::5]
    low, high = wanted - np.float32(1e-3), wanted + np.float32(1e-3)
    if kind == "open":
        low[0], high[1] = -np.inf, np.inf
    return Bounds(low, high)


@pytest.mark.parametrize("values", [np.linspace(-1, 2, 999), np.full(5, np.nan)], ids=["", "NaN"])
def test_compiled_kernels_encode_and_decode_light_as_numpy_does(values: np.ndarray) -> None:
    light = values.astype(np.float32)
    if not has_kernels(light):
        pytest.skip("numba is not installed, or has no kernels for this processor")
    codes = linear_to_srgb(light.clip(0, 1).astype(np.float64)) * 255
    assert_allclose(srgb_codes(light), codes, atol=5e-5)
    exact = srgb_to_linear(light.astype(np.float64))
    assert_allclose(linear_light(light), exact, atol=1e-7, rtol=5e-7)


def test_cancel_is_heard_before_anything_is_moved() -> None:
    """For a cube in a file, the sample alone that tells the noise takes seconds to read."""
    data = scene()
    shares: list[float] = []
    with pytest.raises(Cancelled):
        correct_colours(
            data, Photo.from_array(codes_of(data)), RESPONSE, Progress(shares.append, lambda: True)
        )
    asked = [False, True]
    with pytest.raises(Cancelled):
        correct_colours(
            data,
            Photo.from_array(codes_of(data)),
            RESPONSE,
            Progress(shares.append, lambda: asked.pop(0)),
        )
    assert (asked, shares) == ([], [])


@pytest.mark.parametrize(
    ("brightness", "colour"), [(3.5, 1.0), (0.1, 0.55)], ids=["texture", "weak in the colours"]
)
def test_differences_that_are_mostly_brightness_or_small_are_no_noise(
    brightness: float, colour: float
) -> None:
    cube = scene()
    directions = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([[3], [2], [6]])
    sizes = np.array([brightness, colour, colour])[:, None, None]
    grain = np.random.default_rng(0).normal(size=(3, *cube.shape[1:])) * sizes
    codes = linear_to_srgb(render_srgb(cube, WAVELENGTHS).clip(0, 1)) * 255 + np.tensordot(
        directions.T, grain, axes=1
    )
    photo = Photo.from_array(np.rint(codes.clip(0, 255) * 257).astype(np.uint16))
    assert "within half a code" in correct_colours(cube, photo, RESPONSE).text


def test_the_quality_of_a_photo_too_large_for_memory_lies_in_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    photo = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    reconstructor = napari_mst.Reconstructor(napari_mst.load_model("pixelwise-srgb"), "cpu")
    expected = reconstructor.reconstruct(photo).colour_error
    in_file = Mock(wraps=mapped)
    monkeypatch.setattr(correction, "MAX_PIXELS", 7)
    monkeypatch.setattr(correction, "mapped", in_file)
    quality = reconstructor.reconstruct(photo).colour_error
    in_file.assert_called_once_with((40, 30), np.float32)
    assert expected is not None
    assert_array_equal(quality, expected)
