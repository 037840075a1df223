"""Non-local Bayes: the definition, the kernel, the same bits in any tile, gaps, and the scale."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from napari_mst import Photo
from napari_mst.base.errors import Cancelled
from napari_mst.base.progress import Progress
from napari_mst.denoising import nl_bayes
from napari_mst.denoising.nl_bayes import NLBayes, denoised_pixels, denoised_where_read
from napari_mst.denoising.numpy_bayes import FIRST, SECOND, estimates
from napari_mst.denoising.sensor_noise import SensorNoise, estimated_noise
from napari_mst.engine.kernels.patch_groups import REACH, Grid, Stage
from napari_mst.engine.windows import Window

Floats = NDArray[np.float32]
NOISE = SensorNoise(2e-3, 1e-5)
HOW = NLBayes(NOISE)
SHAPE = (150, 173)  # more than a tile each way
WINDOW = Window(30, 50, 50, 80)


def light() -> NDArray[np.float64]:
    """Linear light (3, H, W): waves, and an edge."""
    down, right = np.indices(SHAPE)
    waves = 0.4 + 0.2 * np.sin(right / 9) * np.cos(down / 14)
    return np.stack([waves, 0.8 * waves, 0.3 + 0.2 * (right > 60)])


def noisy(*, has_gap: bool = False) -> Photo:
    linear = light()
    random = np.random.default_rng(0).standard_normal(linear.shape)
    linear += random * np.sqrt(NOISE.gain * linear + NOISE.floor)
    if has_gap:
        linear[:, 70:73, 90] = np.nan
    return Photo.from_array(np.moveaxis(linear, 0, -1).astype(np.float32), encoding="linear")


@pytest.fixture(params=["NumPy", "numba"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reference in NumPy, and the compiled kernel."""
    if request.param == "NumPy":
        monkeypatch.setattr(nl_bayes, "fastest", lambda: estimates)
    else:
        pytest.importorskip("numba")
    name: str = request.param
    return name


@pytest.mark.parametrize(
    "window", [Window(0, 6, 0, 7), Window(120, 134, 121, 140), Window(147, 150, 160, 173)]
)
@pytest.mark.parametrize("has_gap", [False, True])
def test_a_pixel_has_the_same_bits_in_any_window(window: Window, has_gap: bool, way: str) -> None:
    own = noisy(has_gap=has_gap)
    around = window.grown(9).clipped(SHAPE)
    larger = denoised_pixels(own, HOW, around)
    down, across = window.inside(around)
    found = denoised_pixels(own, HOW, window)
    assert_array_equal(found, larger[:, down, across])
    if way == "numba":
        whole = denoised_pixels(own, HOW)
        assert_array_equal(found, whole[:, window.rows, window.columns])
        lazy = denoised_where_read(own, HOW)
        assert_array_equal(found, lazy[:, window.rows, window.columns])


@pytest.mark.parametrize("stage", [FIRST, SECOND])
def test_the_kernel_gives_the_sums_of_numpy(stage: Stage) -> None:
    kernel = pytest.importorskip("napari_mst.denoising.kernel")
    starts = 28
    side = starts + 2 * REACH + 5
    down, right = np.indices((side, side))
    image = np.stack([20 * np.sin(right / 3), 9.0 * (down > 32), np.cos(down / 5)])
    image += np.random.default_rng(0).standard_normal(image.shape)
    image[:, :26, :26] = 1  # groups of all patches in reach, whose filter is followed by others
    first, last = REACH, REACH + starts - 1
    barred = np.full((side, side), np.inf, np.float32)
    barred[first : last + 1, first : last + 1] = 0
    barred[12:15, 10:13] = np.inf  # a pixel that is unknown
    grid = Grid(first, last + 1, first, last + 1, 3, first, first, last, last)
    given = image.astype(np.float32), image.astype(np.float32), barred, grid, stage
    found, expected = kernel.estimates_by_kernel(*given), estimates(*given)
    assert_array_equal(found[3], expected[3])
    assert_allclose(found, expected, rtol=0, atol=1e-5 * expected[3].max() * 30)


def test_one_group_is_the_formula_of_the_paper() -> None:
    """The patches of a group, less what their covariance calls noise, where only one is made."""
    side = 2 * REACH + 3
    random = np.random.default_rng(1)
    image = (4 * random.standard_normal((3, 2 * side, 2 * side))).astype(np.float32)
    barred = np.full(image.shape[1:], np.inf, np.float32)
    barred[:-2, :-2] = 0
    at = REACH + 2
    grid = Grid(at, at + 1, at, at + 1, 1, 0, 0, 99, 99)
    found = estimates(image, image, barred, grid, SECOND)
    corners = [(y, x) for y in range(2, 2 + 15) for x in range(2, 2 + 15)]
    patches = np.array([image[:, y : y + 3, x : x + 3].ravel() for y, x in corners], np.float64)
    own = image[:, at : at + 3, at : at + 3].ravel()
    nearest = np.argsort(np.square(patches - own).sum(axis=1))[: SECOND.count]
    group = patches[nearest]
    covariance = np.cov(group.T)
    mean = group.mean(axis=0)
    kept = covariance @ np.linalg.inv(covariance + np.eye(27))
    expected = np.zeros_like(found)
    for index, patch in zip(nearest, mean + (group - mean) @ kept.T, strict=True):
        y, x = corners[index]
        expected[:3, y : y + 3, x : x + 3] += patch.reshape(3, 3, 3)
        expected[3, y : y + 3, x : x + 3] += 1
    assert_allclose(found, expected, atol=1e-4)


def test_most_of_the_noise_goes_and_edges_stay() -> None:
    found = denoised_pixels(noisy(), HOW)
    before, after = (np.abs(each - light()) for each in (noisy().pixels, found))
    assert np.sqrt(np.square(after).mean()) < 0.3 * np.sqrt(np.square(before).mean())
    edge = np.s_[2, :, 59:63]
    assert after[edge].mean() < 0.5 * before[edge].mean()


def test_light_is_the_mean_of_what_was_stabilised() -> None:
    signal = np.linspace(0.02, 1, 9)
    random = np.random.default_rng(0).standard_normal((100_000, 1))
    values = signal + random * NOISE.sigma(1) * np.sqrt((signal + 5e-3) / 1.005)
    means = NOISE.stabilised(values.astype(np.float32)).mean(axis=0)
    assert_allclose(NOISE.light(means), signal, rtol=3e-3)
    assert NOISE.light(np.zeros(1)) == 0


def test_unknown_pixels_stay_as_they_are_and_change_no_other() -> None:
    found = denoised_pixels(noisy(has_gap=True), HOW)
    assert (found[:, 70:73, 90] == 0).all()
    near = np.s_[:, 64:79, 84:97]
    known = noisy(has_gap=True).valid
    assert known is not None
    off = np.abs(found - light())[near][:, known[near[1:]]]
    assert off.max() < 0.15


def test_a_pixel_that_no_group_reaches_guides_the_second_stage_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guides = []

    def unreached(noisy: Floats, guide: Floats, *_: object) -> Floats:
        guides.append(guide)
        return np.zeros((4, *noisy.shape[1:]), np.float32)

    monkeypatch.setattr(nl_bayes, "fastest", lambda: unreached)
    own = noisy()
    found = denoised_pixels(own, HOW, WINDOW)
    assert_array_equal(found, own.pixels[:, WINDOW.rows, WINDOW.columns])
    assert_array_equal(guides[0], guides[1])


def test_eight_bits_become_sixteen() -> None:
    codes = np.rint(255 * np.moveaxis(noisy().pixels, 0, -1).clip(0, 1)).astype(np.uint8)
    own = Photo.from_array(codes)
    found = denoised_pixels(own, HOW, Window(0, 20, 0, 20))
    assert found.dtype == np.uint16
    assert np.abs(found / 257 - own.pixels[:, :20, :20]).mean() < 10
    assert (found % 257).any()


@pytest.mark.parametrize("gains", [(1.0, 1.0, 1.0), (2.0, 1.0, 1.5)])
def test_a_balanced_photo_is_denoised_as_its_sensor_saw_it(
    gains: tuple[float, float, float],
) -> None:
    factors = np.array(gains, np.float32)[:, None, None]
    own = noisy()
    balanced = Photo.from_array(
        np.moveaxis(own.pixels * factors, 0, -1), encoding="linear", full_scale=1.0
    )
    noise = estimated_noise(balanced, gains=gains)
    assert noise is not None
    assert noise.sigma() == pytest.approx(NOISE.sigma(), rel=0.12)
    found = denoised_pixels(balanced, NLBayes(NOISE, gains=gains), WINDOW)
    expected = denoised_pixels(own, HOW, WINDOW)
    assert_allclose(found / factors, expected, rtol=1e-3, atol=1e-3)


def test_it_is_cancelled_soon() -> None:
    with pytest.raises(Cancelled):
        denoised_pixels(noisy(), HOW, None, Progress(is_cancelled=lambda: True))
