"""A ColorChecker is found in a photo, by the squares that a library sees."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.calibration.test_chart_calibration import CHARTS as CLICKED

from napari_mst import Chart, Photo, calibrate, find_chart
from napari_mst.base.errors import PhotoError
from napari_mst.calibration.chart import CHARTS, grids

REAL = Path(__file__).parents[2] / "../shared/data/charts"


@pytest.mark.parametrize("kind", CHARTS)
def test_grid_goes_through_the_squares_though_the_outline_is_off(kind: str) -> None:
    chart = Chart(((100.0, 110.0), (130.0, 690.0), (520.0, 650.0), (490.0, 120.0)), kind)
    rng = np.random.default_rng(3)
    squares = chart.centres + rng.normal(0, 0.5, chart.centres.shape)
    seen = squares[rng.random(len(squares)) < 0.7]  # the library misses some, and sees others
    elsewhere = rng.random((5, 2)) * 90
    true = np.array(chart.corners)
    outline = true + (true - true.mean(axis=0)) * 0.16 + 4
    fits = grids(outline, np.concatenate([seen, elsewhere]), CHARTS[kind])
    matched, corners = max(fits)
    assert matched >= 0.9 * len(seen)
    np.testing.assert_allclose(corners, chart.corners, atol=2)


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "colour_checker_detection", None)
    with pytest.raises(PhotoError, match=r"pip install 'napari-mst\[charts\]', or give the four"):
        find_chart(Photo.from_array(np.full((30, 40, 3), 90, np.uint8)))


@pytest.mark.parametrize("name", CLICKED)
def test_charts_of_real_photos_are_found_as_they_were_clicked(name: str) -> None:
    pytest.importorskip("colour_checker_detection", reason="the extra `charts`")
    if not REAL.is_dir():
        pytest.skip("the photos of charts are not here")
    photo = Photo.read(REAL / name)
    found = calibrate(photo, find_chart(photo))
    clicked = calibrate(photo, Chart(CLICKED[name]))
    # The clicks are on a grid that is upright, which one of the charts is not quite.
    assert np.abs(found.chart.centres - clicked.chart.centres).max() < 12
    assert found.means.left_out < 1.02 * clicked.means.left_out


def test_photo_without_a_chart_is_refused() -> None:
    pytest.importorskip("colour_checker_detection", reason="the extra `charts`")
    with pytest.raises(PhotoError, match="Expected a ColorChecker Classic in the photo, found"):
        find_chart(Photo.from_array(np.full((60, 80, 3), 90, np.uint8)))
