"""A scatter counts every pixel once, and an outline in it finds the pixels back."""

import numpy as np
import pytest

from napari_mst.analysis.maps import components
from napari_mst.analysis.regions import Region
from napari_mst.analysis.scatter import CELLS, OUTSIDE, scatter
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube


@pytest.fixture
def cube() -> SpectralCube:
    random = np.random.default_rng(3)
    data = random.random((4, 60, 80), dtype=np.float32)
    data[1, :, 40:] += 3
    data[2, 0, 0] = np.nan
    return SpectralCube(data, np.array([500.0, 550, 600, 650]))


def test_the_density_is_that_of_numpy(cube: SpectralCube) -> None:
    found = scatter(cube, "r500", "r550")
    edges = [np.linspace(axis.low, axis.high, CELLS + 1) for axis in (found.x, found.y)]
    expected, *_ = np.histogram2d(cube.data[0].ravel(), cube.data[1].ravel(), bins=edges)
    # A value on the border of two cells may be rounded into either.
    assert np.abs(found.whole_density.T - expected).sum() <= 4
    mask = np.zeros(cube.shape[1:], dtype=bool)
    mask[:, 40:] = True
    assert (
        found.density(Region.of_mask(mask)).sum()
        == mask.sum() - (found.cells[mask] == OUTSIDE).sum()
    )


def test_an_outline_finds_the_pixels_back(cube: SpectralCube) -> None:
    found = scatter(cube, "r500", "r550")
    inside = found.inside([(-1, 2), (2, 2), (2, 5), (-1, 5)])
    seen = found.cells != OUTSIDE
    expected = (np.indices(cube.shape[1:])[1] >= 40) & seen
    np.testing.assert_array_equal(inside, expected)
    x, y = found.place(5, 60) or (0, 0)
    assert x == pytest.approx(cube.data[0, 5, 60], abs=found.x.step)
    assert y == pytest.approx(cube.data[1, 5, 60], abs=found.y.step)


def test_a_pixel_without_a_number_lies_nowhere(cube: SpectralCube) -> None:
    found = scatter(cube, "r500", "r600")
    assert found.cells[0, 0] == OUTSIDE
    assert found.place(0, 0) is None
    assert not found.inside([(-9, -9), (9, -9), (9, 9), (-9, 9)])[0, 0]
    assert found.left_out == pytest.approx((found.cells == OUTSIDE).mean())


def test_components_and_formulas_are_values(cube: SpectralCube) -> None:
    found = scatter(cube, "PC 1", "r550 - r500")
    first, second = components(cube, 1).data[0], cube.data[1] - cube.data[0]
    x, y = found.place(30, 50) or (0, 0)
    assert (x, y) == pytest.approx((first[30, 50], second[30, 50]), abs=found.x.step)


@pytest.mark.parametrize(
    ("x", "match"), [("r900", "r900"), ("PC 7", "components"), ("log(0 - r500)", "numbers")]
)
def test_what_cannot_be_had_is_refused(cube: SpectralCube, x: str, match: str) -> None:
    with pytest.raises(SpectrumError, match=match):
        scatter(cube, x, "r500")


def test_an_outline_around_nothing_is_refused(cube: SpectralCube) -> None:
    with pytest.raises(SpectrumError):
        scatter(cube, "r500", "r550").inside([(0, 0), (1, 1)])
