"""The mean of a large region that is dragged, against reading all of it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.spectra.conftest import bounds

from napari_mst.cube import SpectralCube
from napari_mst.spectra import incremental_means
from napari_mst.spectra.incremental_means import MovingMeans
from napari_mst.spectra.regions import Region, pixel_blocks, region_spectrum
from napari_mst.spectra.spectrum import Values

RNG = np.random.default_rng(3)
CUBE = SpectralCube(RNG.random((5, 60, 80), dtype=np.float32), np.arange(5.0))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental_means, "LARGE", 10)


def polygon(step: float) -> Region:
    """One whose last corner moves."""
    return Region.of_polygon(
        [(2, 3), (4, 70), (50, 60), (40 + step, 10 - step / 2)], CUBE.shape[1:]
    )


def test_a_region_that_moves_is_read_as_if_it_stood_and_only_its_changes_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    means = MovingMeans()
    whole: list[Region] = []

    def counted(data: NDArray[Any], region: Region) -> Iterator[Values]:
        whole.append(region)
        return pixel_blocks(data, region)

    monkeypatch.setattr("napari_mst.spectra.incremental_means.pixel_blocks", counted)
    for step in np.concatenate([np.arange(0, 15, 0.7), np.arange(15, -20, -1.3)]):
        region = polygon(step)
        known = means.mean_and_std("a", CUBE, region)
        spectrum = region_spectrum(CUBE, region, known=known)
        expected = region_spectrum(CUBE, region)
        np.testing.assert_allclose(spectrum.values, expected.values, rtol=1e-12)
        np.testing.assert_allclose(bounds(spectrum), bounds(expected), rtol=1e-10)
        assert spectrum.origin == expected.origin
    assert len(whole) == 1


def test_another_region_another_cube_and_a_jump_are_read_as_a_whole() -> None:
    means, other = MovingMeans(), SpectralCube(CUBE.data + 1, CUBE.wavelengths)
    far = Region.of_polygon([(30, 30), (30, 50), (58, 50)], CUBE.shape[1:])
    for slot, cube, region in (
        ("a", CUBE, polygon(0)),
        ("b", CUBE, far),
        ("b", other, far),
        ("b", other, polygon(0)),
    ):
        found = means.mean_and_std(slot, cube, region)
        assert found is not None
        mean, deviation = found
        expected = region_spectrum(cube, region)
        np.testing.assert_allclose(mean, expected.values, rtol=1e-12)
        np.testing.assert_allclose(mean + deviation, bounds(expected)[1], rtol=1e-10)


def test_what_is_not_a_number_is_left_to_the_whole_reading() -> None:
    data = CUBE.data.copy()
    data[2, 41, 12] = np.nan
    cube, means = SpectralCube(data, CUBE.wavelengths), MovingMeans()
    inside, outside = polygon(8), polygon(-8)
    assert means.mean_and_std("a", cube, outside) is not None
    assert means.mean_and_std("a", cube, inside) is None
    found = means.mean_and_std("a", cube, outside)
    assert found is not None
    np.testing.assert_allclose(found[0], region_spectrum(cube, outside).values, rtol=1e-12)
