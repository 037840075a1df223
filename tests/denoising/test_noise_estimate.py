"""The noise of a photo: the estimate is right on simulated photos, and finds none in texture."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import nnls

import napari_mst as nm
from napari_mst.base.arrays import Doubles, Floats
from napari_mst.base.errors import Cancelled
from napari_mst.base.progress import Progress
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.denoising.sensor_noise import SensorNoise, _not_negative
from napari_mst.training.inputs import INPUTS
from napari_mst.training.scenes import read_scenes


def light(rows: int = 160, columns: int = 240) -> Doubles:
    """Linear light (3, rows, columns): patches of many colours, with shading and some texture."""
    random = np.random.default_rng(1)
    patches = random.uniform(0.04, 0.8, (3, rows // 20, columns // 20)).repeat(20, 1).repeat(20, 2)
    shading = 1 + 0.1 * np.sin(np.arange(columns) / 15) * np.cos(np.arange(rows) / 22)[:, None]
    texture = np.ones((rows, columns))
    texture[: rows // 3] += 0.2 * random.standard_normal((rows // 3, columns))
    return patches * shading * texture.clip(0)


def photo_of(linear: Floats) -> nm.Photo:
    codes = np.rint(linear_to_srgb(linear.clip(0, 1)) * 255).astype(np.uint8)
    return nm.Photo.from_array(np.moveaxis(codes, 0, -1))


def with_noise(linear: Floats, gain: float, floor: float) -> Floats:
    random = np.random.default_rng(2)
    return linear + random.standard_normal(linear.shape) * np.sqrt(gain * linear + floor)


@pytest.mark.parametrize(
    ("gain", "floor"), [(2e-4, 0.0), (1e-3, 0.0), (4e-3, 0.0), (1e-3, 1e-4), (0.0, 1e-3)]
)
def test_the_noise_of_a_simulated_photo_is_found_within_15_per_cent(
    gain: float, floor: float
) -> None:
    found = nm.estimated_noise(photo_of(with_noise(light(), gain, floor)))
    assert found is not None
    true = SensorNoise(gain, floor)
    for signal in (0.1, 0.18, 0.5):
        assert found.sigma(signal) == pytest.approx(true.sigma(signal), rel=0.15)


def test_floats_and_linear_photos_have_the_noise_of_their_light() -> None:
    noisy = with_noise(light(), 1e-3, 0.0)
    linear = nm.Photo.from_array(np.moveaxis(noisy, 0, -1), encoding="linear")
    found = nm.estimated_noise(linear)
    assert found is not None
    assert found.sigma() == pytest.approx(SensorNoise(1e-3, 0).sigma(), rel=0.15)


def test_texture_of_one_colour_is_no_noise() -> None:
    shadows = 1 + 0.2 * np.random.default_rng(3).standard_normal((160, 240)).clip(-3, 3)
    found = nm.estimated_noise(photo_of(np.array([0.3, 0.2, 0.1])[:, None, None] * shadows))
    assert found is not None
    assert found.codes < 1


def test_the_rounding_of_8_bits_is_no_noise() -> None:
    found = nm.estimated_noise(photo_of(light()))
    assert found is not None
    assert found.codes < 0.05


def test_too_few_pixels_tell_no_noise() -> None:
    assert nm.estimated_noise(photo_of(light(20, 20))) is None
    assert nm.estimated_noise(nm.Photo.from_array(np.full((99, 99, 3), 255, np.uint8))) is None
    assert nm.estimated_noise(nm.Photo.from_array(np.zeros((3, 5, 3), np.uint8))) is None


def test_noise_has_a_deviation_of_one_on_the_stabilised_scale() -> None:
    noise = SensorNoise(2e-3, 1e-4)
    levels = np.array([0.05, 0.2, 0.7])[:, None]
    samples = levels + np.random.default_rng(4).standard_normal((3, 20_000)) * np.sqrt(
        2e-3 * levels + 1e-4
    )
    np.testing.assert_allclose(noise.stabilised(samples).std(axis=1), 1, atol=0.04)
    assert SensorNoise(0, 1e-4).stabilised(np.array([0.5])) == pytest.approx(50, rel=1e-3)


def test_codes_are_those_of_srgb_at_middle_grey() -> None:
    slope = linear_to_srgb(np.array([0.181])) - linear_to_srgb(np.array([0.179]))
    expected = 0.01 * float(slope[0]) / 0.002 * 255
    assert SensorNoise(0, 1e-4).codes == pytest.approx(expected, rel=1e-3)


def test_a_cancel_ends_it() -> None:
    with pytest.raises(Cancelled):
        nm.estimated_noise(photo_of(light()), Progress(is_cancelled=lambda: True))


@pytest.mark.parametrize("name", ["beads", "cloth"])
def test_noise_among_texture_of_many_colours_is_found_within_15_per_cent(
    name: str, shared_data: Path
) -> None:
    (scene,) = read_scenes(shared_data / f"cave/{name}.npz")
    weak = next(kind for kind in INPUTS if kind.name == "noise 2e-4")
    photo = nm.Photo.from_array(weak.photograph(scene.cube, scene.name))
    found = nm.estimated_noise(photo)
    assert found is not None
    assert found.sigma() == pytest.approx(SensorNoise(weak.noise, 0).sigma(), rel=0.15)


@pytest.mark.parametrize("seed", range(40))
def test_a_line_of_factors_that_are_not_negative_is_that_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms, wanted = rng.random((9, 2)), rng.normal(0, 1, 9)
    np.testing.assert_allclose(_not_negative(terms, wanted), nnls(terms, wanted)[0], atol=1e-12)
