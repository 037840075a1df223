"""The spectra of all labels at once, judged by `region_spectrum`, numpy and scikit-image."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.analysis.conftest import bounds

from napari_mst.analysis import label_means
from napari_mst.analysis.comparison import compare_labels, compare_region
from napari_mst.analysis.label_means import Spread
from napari_mst.analysis.regions import Region, label_spectra, region_spectrum
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube

SHAPE = (37, 53)
RNG = np.random.default_rng(11)
WAVELENGTHS = np.array([400.0, 450, 520, 600, 700])
CUBE = SpectralCube(RNG.random((5, *SHAPE), dtype=np.float32), WAVELENGTHS)
SPARSE = np.array([-7, 0, 3, 4, 900, 2**31 - 1])


def scattered() -> np.ndarray:
    """Labels with wide gaps between them, whose pixels lie anywhere."""
    return SPARSE[RNG.integers(len(SPARSE), size=SHAPE)].astype(np.int32)


def cells() -> np.ndarray:
    row, column = np.indices(SHAPE)
    return ((row // 5) * 100 + column // 7) * (row % 5 > 0)


@pytest.fixture(autouse=True, params=[60, 2**16])
def _strips(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole images, and a row at a time."""
    monkeypatch.setattr(label_means, "READ_PIXELS", 4 * request.param)
    monkeypatch.setattr(label_means, "BLOCK_PIXELS", request.param)


def check(cube: SpectralCube, labels: np.ndarray, spread: Spread = "std") -> None:
    found = label_spectra(cube, labels, spread, cube_name="cube", pixel_area=(0.25, "um^2"))
    assert list(found) == [value for value in np.unique(labels).tolist() if value]
    for value, one in found.items():
        region = Region.of_label(labels, value)
        expected = region_spectrum(
            cube, region, spread, cube_name="cube", pixel_area=(0.25, "um^2")
        )
        assert_allclose(one.values, expected.values, rtol=1e-9, atol=1e-12)
        if expected.lower is None:
            assert one.lower is None
        else:
            assert_allclose(bounds(one), bounds(expected), rtol=1e-9, atol=1e-9)
        assert (one.name, one.spread, one.origin) == (
            expected.name,
            expected.spread,
            expected.origin,
        )


@pytest.mark.parametrize("labels", [scattered(), cells(), cells().astype(np.uint64), cells() > 200])
@pytest.mark.parametrize("spread", ["std", ""])
def test_every_label_is_read_as_its_region_is(labels: np.ndarray, spread: Any) -> None:
    check(CUBE, labels, spread)


def test_what_is_no_number_is_left_out_label_by_label() -> None:
    data, labels = CUBE.data.copy(), cells()
    data[2, :6, :8] = np.nan  # whole labels without a band, and parts of others
    data[:, 7, 9] = np.inf  # a dead pixel
    data[:, labels == 402] = np.nan  # a label without any number
    check(SpectralCube(data, WAVELENGTHS), labels, "std")


def test_an_image_of_background_has_no_labels() -> None:
    found = label_spectra(CUBE, np.zeros(SHAPE, int))
    assert len(found) == 0
    with pytest.raises(KeyError):
        found[0]


def test_the_background_and_labels_that_are_not_there_are_no_keys() -> None:
    found = label_spectra(CUBE, cells())
    assert all(number not in found for number in (0, 99, 10**9))


@pytest.mark.parametrize(
    "labels", [np.zeros((3, 4), int), np.zeros(SHAPE), np.zeros((1, *SHAPE), int)]
)
def test_labels_of_another_size_or_kind_are_refused(labels: np.ndarray) -> None:
    with pytest.raises(SpectrumError, match="Expected an image of whole numbers of 37 x 53 pixels"):
        label_spectra(CUBE, labels)


def test_every_label_is_compared_as_its_region_is() -> None:
    labels, data = scattered(), CUBE.data.copy()
    data[:, :4, :4] = 0.001  # dark
    data[1, 5, 5] = np.nan
    reference = SpectralCube(data, WAVELENGTHS)
    cube = SpectralCube(CUBE.data + RNG.normal(0, 0.1, CUBE.shape).astype(np.float32), WAVELENGTHS)
    found = compare_labels(cube, reference, labels)
    assert list(found) == [value for value in SPARSE if value]
    for value, one in found.items():
        expected = compare_region(cube, reference, Region.of_label(labels, value))
        scores, others = ((c.mrae, c.rmse, c.angle, c.pixels) for c in (one, expected))
        assert_allclose(scores, others, rtol=1e-9)
        assert_allclose(one.error.values, expected.error.values, rtol=1e-9)
        assert_allclose(bounds(one.error), bounds(expected.error), rtol=1e-9)
        assert one.error.origin == expected.error.origin
