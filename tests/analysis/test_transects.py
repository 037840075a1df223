"""The spectra along a line are those that scikit-image reads, in true distances."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import ArrayLike
from skimage.measure import profile_line

from napari_mst.analysis.maps import formula
from napari_mst.analysis.transects import transect
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube


@pytest.fixture
def cube() -> SpectralCube:
    data = np.random.default_rng(1).random((5, 150, 200), dtype=np.float32)
    return SpectralCube(data, np.array([450.0, 500, 550, 600, 650]))


def test_a_line_is_that_of_another_program(cube: SpectralCube) -> None:
    start, stop = (3, 5), (123, 165)  # 200 pixels long
    found = transect(cube, [start, stop])
    expected = [profile_line(band, start, stop, order=1, mode="nearest") for band in cube.data]
    assert_allclose(found.values, expected, atol=1e-5)
    assert_allclose(found.distances, np.arange(201))
    index = formula(cube, "r650 / r450").data
    along = found.along("r650 / r450")
    assert along[0] == pytest.approx(index[3, 5])
    assert along[-1] == pytest.approx(index[123, 165])


def test_distances_follow_the_corners_and_the_size_of_a_pixel(cube: SpectralCube) -> None:
    found = transect(cube, [(10, 10), (10, 20), (30, 20)], pixel_size=(2, 3), unit="mm")
    assert found.distances[-1] == pytest.approx(10 * 3 + 20 * 2)
    table = found.table("r500")
    assert list(table)[:5] == ["distance (mm)", "row", "column", "r500", "450 nm"]
    assert_array_equal(table["500 nm"], table["r500"])


def test_a_place_beyond_the_image_is_a_gap(cube: SpectralCube) -> None:
    found = transect(cube, [(5, 190), (5, 210)])
    assert_array_equal(np.isnan(found.values[0]), found.places[:, 1] > 199.5)


def test_only_the_surroundings_of_the_line_are_read(cube: SpectralCube) -> None:
    read = []

    class Counted(np.ndarray):
        def __getitem__(self, key: Any) -> Any:
            part = super().__getitem__(key)
            read.append(np.size(part))
            return np.asarray(part)

    lazy = replace(cube, data=cube.data.view(Counted))
    read.clear()
    found = transect(lazy, [(0, 0), (149, 149)])
    assert np.isfinite(found.values).all()
    assert 0 < max(read) <= 5 * 66 * 66


@pytest.mark.parametrize(
    ("vertices", "match"),
    [([(3, 3), (3, 3)], "a point"), ([(-9, 3), (-9, 30)], "beside"), ([3, 4], "vertices")],
)
def test_what_is_no_line_is_refused(cube: SpectralCube, vertices: ArrayLike, match: str) -> None:
    with pytest.raises(SpectrumError, match=match):
        transect(cube, vertices)
