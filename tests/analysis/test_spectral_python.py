"""Classes, clusters, components, anomalies and ratios, judged by `spectral` on the whole image."""

import logging
from typing import Any

import numpy as np
import pytest
import spectral
from numpy.testing import assert_allclose, assert_array_equal
from tests.analysis.conftest import curve

from napari_mst.analysis import maps, statistics, strips
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import NO_PROGRESS
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum

WAVELENGTHS = np.linspace(400, 700, 8)
RNG = np.random.default_rng(11)
SHAPE = (40, 30)


def scene() -> SpectralCube:
    """Four materials in patches, with shading and noise."""
    materials = RNG.uniform(0.1, 0.9, (4, 8))
    labels = RNG.integers(0, 4, (8, 6)).repeat(5, axis=0).repeat(5, axis=1)
    data = materials[labels] * RNG.uniform(0.5, 1, (*SHAPE, 1)) + RNG.normal(0, 0.02, (*SHAPE, 8))
    return SpectralCube(np.moveaxis(data, 2, 0).astype(np.float32), WAVELENGTHS)


CUBE = scene()
IMAGE = np.moveaxis(CUBE.data, 0, -1).astype(float)
PICKS = [Spectrum(WAVELENGTHS, CUBE.data[:, row, 2]) for row in (2, 12, 22)]
HOLES = np.zeros(SHAPE, dtype=bool)
HOLES[:2] = HOLES[7, 9] = True


def with_holes() -> SpectralCube:
    data = CUBE.data.copy()
    data[3, HOLES] = np.nan
    return SpectralCube(data, WAVELENGTHS)


@pytest.fixture(autouse=True, params=[64, 2**20])
def _strips(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule holds in many strips and in one."""
    monkeypatch.setattr(strips, "STRIP_NUMBERS", request.param)


def test_classes_are_the_nearest_angles_of_spectral() -> None:
    expected = np.degrees(
        spectral.spectral_angles(IMAGE, np.stack([pick.values for pick in PICKS]))
    )
    labels = maps.classes(CUBE, PICKS, angle=8).data
    assert_array_equal(labels, np.where(expected.min(axis=2) <= 8, expected.argmin(axis=2) + 1, 0))
    assert 0 < (labels == 0).sum() < labels.size
    assert [labels[row, 2] for row in (2, 12, 22)] == [1, 2, 3]


def test_class_of_black_and_of_no_number_is_zero() -> None:
    cube = with_holes()
    cube.data[:, 30, 20] = 0
    labels = maps.classes(cube, PICKS, angle=180).data
    expected = HOLES.copy()
    expected[30, 20] = True
    assert_array_equal(labels == 0, expected)


def test_spectra_of_other_wavelengths_count_where_they_overlap() -> None:
    fine = np.linspace(480, 900, 400)
    pick = Spectrum(fine, np.interp(fine, WAVELENGTHS, CUBE.data[:, 2, 2]))
    inside = WAVELENGTHS >= 480
    member = np.interp(WAVELENGTHS[inside], fine, pick.values)
    expected = np.degrees(spectral.spectral_angles(IMAGE[..., inside], member[None]))[..., 0]
    for angle in (5, 10, 20):
        labels = maps.classes(CUBE, [pick], angle=angle).data
        assert_array_equal(labels == 1, expected <= angle)


def test_classes_do_not_depend_on_the_order_of_the_bands() -> None:
    order = np.array([3, 0, 6, 1, 7, 2, 5, 4])
    shuffled = SpectralCube(CUBE.data[order], WAVELENGTHS[order])
    # The outer bands, now anywhere, are not covered.
    inner = [Spectrum(pick.wavelengths[1:-1], pick.values[1:-1]) for pick in PICKS]
    labels, expected = (maps.classes(cube, inner).data for cube in (shuffled, CUBE))
    assert_array_equal(labels, expected)
    assert len(np.unique(labels)) == 4


@pytest.mark.parametrize(("has_holes", "rounds"), [(False, 30), (True, 30), (False, 2)])
def test_clusters_are_those_of_spectral(
    has_holes: bool, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "ROUNDS", rounds)
    cube, good = (with_holes(), ~HOLES) if has_holes else (CUBE, np.ones(SHAPE, dtype=bool))
    start = statistics._first_centres(cube, 5, NO_PROGRESS)
    labels, _ = spectral.kmeans(IMAGE[good][None], 5, rounds, start_clusters=start)
    found = maps.clusters(cube, 5)
    assert_array_equal(found.data[good], labels[0] + 1)
    assert not found.data[~good].any()
    assert found.names[0] == "cluster 1"


@pytest.mark.parametrize("seed", range(5))
def test_clusters_separate_materials_the_darkest_first(seed: int) -> None:
    at = np.arange(400.0, 701, 10)
    leaf = 0.04 + 0.06 * np.exp(-(((at - 550) / 35) ** 2)) + 0.4 / (1 + np.exp((705 - at) / 12))
    soil = np.linspace(0.1, 0.35, 31)
    water = 0.06 * np.exp(-(((at - 480) / 70) ** 2))
    paint = 0.05 + 0.6 / (1 + np.exp((590 - at) / 12))
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 5, (64, 48))
    spectra = np.stack([leaf, soil, water, paint, np.full(31, 0.9)])[truth]
    image = spectra + rng.normal(0, 0.005, spectra.shape)
    found = maps.clusters(SpectralCube(np.moveaxis(image, 2, 0).astype(np.float32), at), 5)
    pairs = set(zip(truth.ravel().tolist(), found.data.ravel().tolist(), strict=True))
    assert len(pairs) == 5
    brightness = [image[found.data == label].mean() for label in range(1, 6)]
    assert brightness == sorted(brightness)


def test_clusters_write_nothing_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spectral")
    maps.clusters(CUBE, 3)
    assert not caplog.records
    assert logging.getLogger("spectral").level == logging.INFO


@pytest.mark.parametrize("has_holes", [False, True])
def test_principal_components_are_those_of_spectral(has_holes: bool) -> None:
    cube, good = (with_holes(), ~HOLES) if has_holes else (CUBE, np.ones(SHAPE, dtype=bool))
    judge = spectral.principal_components(IMAGE[good][None])
    made = maps.components(cube, 3)
    bands = made.data
    explained = judge.eigenvalues[:3] / judge.eigenvalues.sum()
    assert [*made.titles] == [f"PC {1 + at} ({share:.1%})" for at, share in enumerate(explained)]
    expected = judge.reduce(num=3).transform(IMAGE[good])
    # A component may as well point the other way.
    signs = np.sign((bands[:, good].T * expected).sum(axis=0))
    assert_allclose(bands[:, good].T, expected * signs, atol=1e-6)
    assert np.isnan(bands[:, ~good]).all()


@pytest.mark.parametrize("has_holes", [False, True])
def test_anomalies_are_those_of_spectral(has_holes: bool) -> None:
    cube, good = (with_holes(), ~HOLES) if has_holes else (CUBE, np.ones(SHAPE, dtype=bool))
    found = maps.anomalies(cube).data
    assert_allclose(found[good], spectral.rx(IMAGE[good]), rtol=1e-5)
    assert np.isnan(found[~good]).all()


def test_anomalies_of_too_few_pixels_are_refused_and_of_few_are_doubted() -> None:
    pixels = SpectralCube(RNG.random((8, 1, 80)), WAVELENGTHS)
    assert maps.anomalies(pixels).note == ""
    doubted = maps.anomalies(SpectralCube(pixels.data[..., :79], WAVELENGTHS))
    assert doubted.note == "79 pixels are too few for 8 bands: an anomaly hides itself."
    assert np.ptp(maps.anomalies(SpectralCube(pixels.data[..., :10], WAVELENGTHS)).data) > 0.01
    with pytest.raises(SpectrumError, match="more than 9 usable pixels for 8 bands, got 9,"):
        maps.anomalies(SpectralCube(pixels.data[..., :9], WAVELENGTHS))


def test_constant_cube_has_no_anomalies_and_no_variance() -> None:
    cube = SpectralCube(np.full((3, 4, 5), 0.25, dtype=np.float32), np.array([400.0, 500, 600]))
    assert not maps.anomalies(cube).data.any()
    made = maps.components(cube, 3)
    assert not made.data.any()
    assert made.titles[0] == "PC 1 (0.0%)"
    assert set(maps.clusters(cube, 2).data.ravel()) == {1}


def test_normalised_difference_is_spectrals_ndvi() -> None:
    found = maps.normalised_difference(CUBE, 705 - 10, 600).data
    assert_allclose(found, spectral.ndvi(IMAGE, CUBE.nearest_band(600), 7), rtol=1e-6)
    assert np.isnan(maps.normalised_difference(with_holes(), 695, 530).data[HOLES]).all()


EMPTY = SpectralCube(np.full((2, 3, 3), np.nan), np.array([400.0, 500]))
DARK = Spectrum(WAVELENGTHS, np.zeros(8), name="dark")


@pytest.mark.parametrize(
    ("run", "of", "message"),
    [
        (maps.clusters, (EMPTY,), "two or more pixels that are numbers"),
        (maps.components, (EMPTY,), "1 to 2 components"),
        (maps.components, (EMPTY, 2), "two or more pixels that are numbers"),
        (maps.anomalies, (EMPTY,), "two or more pixels that are numbers"),
        (maps.clusters, (CUBE, 1), "2 to 65535 clusters, got 1"),
        (maps.components, (CUBE, 9), "1 to 8 components, got 9"),
        (maps.classes, (CUBE, []), "one or more spectra"),
        (maps.classes, (CUBE, [curve([900.0, 950], [1.0, 2])]), "two or more bands"),
        (maps.classes, (CUBE, [DARK]), "not all zero, got 'dark'"),
    ],
)
def test_what_cannot_be_mapped_is_refused(run: Any, of: Any, message: str) -> None:
    with pytest.raises(SpectrumError, match=message):
        run(*of)


@pytest.mark.parametrize("has_holes", [False, True])
def test_noise_fractions_are_those_of_spectral_and_lead_back(has_holes: bool) -> None:
    cube = with_holes() if has_holes else CUBE
    bands, ratios, _ = statistics.separated(cube, 3)
    back, *_ = statistics.separated(cube, 8, is_back=True)
    assert_allclose(back, np.where(np.isnan(back), np.nan, cube.data), atol=1e-5)
    if has_holes:
        assert np.isnan(bands[:, HOLES]).all()
        return
    judge = spectral.mnf(spectral.calc_stats(IMAGE), spectral.noise_from_diffs(IMAGE))
    assert_allclose(ratios, judge.napc.eigenvalues[:3] - 1, rtol=1e-6)
    expected = np.moveaxis(judge.reduce(IMAGE, num=3), 2, 0)
    signs = np.sign((bands * expected).sum(axis=(1, 2)))
    assert_allclose(bands, signs[:, None, None] * expected, rtol=1e-4, atol=1e-4)
    less, *_ = statistics.separated(cube, 3, is_back=True)
    assert_allclose(np.moveaxis(less, 0, 2), judge.denoise(IMAGE, num=3), atol=1e-5)


@pytest.mark.parametrize("count", [2, 4, 7])
def test_hysime_finds_the_number_of_spectra_that_a_scene_is_mixed_of(count: int) -> None:
    rng = np.random.default_rng(count)
    # Smooth shares: the noise is what neighbours differ by.
    places = np.moveaxis(np.mgrid[:1:60j, :1:60j], 0, 2)
    waves = np.exp(3 * np.sin(places @ rng.uniform(-7, 7, (2, count)) + np.arange(count)))
    shares = waves / waves.sum(axis=2, keepdims=True)
    mixed = shares @ rng.uniform(0.1, 0.9, (count, 40))
    data = np.moveaxis(mixed + rng.normal(0, 0.002, mixed.shape), 2, 0)
    cube = SpectralCube(data, np.linspace(400, 1000, 40))
    assert maps.noise_fractions(cube).note == f"HySime finds {count} dimensions in this cube."
    assert f"has the {count} components" in maps.without_noise(cube).note
    clean = maps.without_noise(cube).data - np.moveaxis(mixed, 2, 0)
    assert clean.std() < 0.6 * 0.002


def test_bands_without_noise_have_no_noise_fraction() -> None:
    with pytest.raises(SpectrumError, match="noise of its own in every band"):
        maps.noise_fractions(SpectralCube(np.repeat(CUBE.data[:1], 2, 0), WAVELENGTHS[:2]), 2)
