"""A cube in notebooks and figures."""

import base64
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from napari_mst.base.arrays import Codes
from napari_mst.base.errors import CubeError, SpectrumError
from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.cube.colour import linear_to_srgb, render_srgb
from napari_mst.cube.spectrum import Spectrum

WAVELENGTHS = np.arange(400.0, 701, 10)
DATA = np.random.default_rng(0).random((31, 20, 30), dtype=np.float32)
CUBE = SpectralCube(DATA, WAVELENGTHS, provenance=Provenance(model="<b>bold</b>"))


def picture_in(html: str) -> Codes:
    (content,) = re.findall(r"base64,([^']+)'", html)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


def test_a_notebook_shows_the_colours_of_a_reflectance_cube() -> None:
    expected = np.clip(linear_to_srgb(render_srgb(DATA, WAVELENGTHS)), 0, 1) * 255
    picture = picture_in(CUBE._repr_html_())
    assert_allclose(picture, expected.transpose(1, 2, 0), atol=1)


def test_a_notebook_shows_the_history_as_text() -> None:
    html = CUBE._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<b>bold" not in html


def test_the_picture_of_a_large_cube_reads_few_pixels(tmp_path: Path) -> None:
    data = np.lib.format.open_memmap(
        tmp_path / "large.npy", mode="w+", dtype=np.uint8, shape=(3, 3000, 2000)
    )
    picture = picture_in(SpectralCube(data, np.array([500.0, 550, 600]))._repr_html_())
    assert max(picture.shape) <= 256


@pytest.mark.parametrize(
    "cube",
    [
        SpectralCube(np.full((4, 5, 6), np.nan), np.arange(4.0), unit=BAND_INDEX),
        SpectralCube(np.zeros((1, 1, 1), np.uint8), np.array([550.0])),
        SpectralCube(np.ones((3, 2, 2), np.float32), np.array([900.0, 1500, 2400]), quantity=""),
    ],
    ids=["no numbers", "one number", "infrared"],
)
def test_every_cube_has_a_page_in_a_notebook(cube: SpectralCube) -> None:
    assert picture_in(cube._repr_html_()).shape[:2] == cube.shape[1:]


@pytest.fixture
def pyplot() -> Iterator[Any]:
    """matplotlib's pyplot, whose figures are closed at the end."""
    module = pytest.importorskip("matplotlib.pyplot")
    yield module
    module.close("all")


@pytest.mark.parametrize("backend", ["inline", "agg"])
def test_a_notebook_shows_a_figure_once(
    pyplot: Any, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr(pyplot, "get_backend", lambda: backend)
    figures: list[Any] = [CUBE.plot(), Spectrum(WAVELENGTHS, WAVELENGTHS).plot().figure]
    for figure in figures:
        assert figure.number in pyplot.get_fignums()
        with pytest.raises(NotImplementedError):  # IPython goes on, and shows it as a value
            figure._ipython_display_()
        # Those that pyplot still holds are shown below the cell.
        assert (figure.number in pyplot.get_fignums()) == (backend != "inline")


@pytest.mark.usefixtures("pyplot")
def test_a_figure_shows_the_picture_and_the_spectra_of_pixels() -> None:
    figure = CUBE.plot([(3, 4), (19, 29)])
    picture, curves = figure.axes
    assert [line.get_label() for line in curves.lines] == ["3, 4", "19, 29"]
    assert_array_equal(curves.lines[1].get_ydata(), DATA[:, 19, 29])
    marks = [(np.ravel(mark.get_ydata()), np.ravel(mark.get_xdata())) for mark in picture.lines]
    assert_array_equal(marks, [[[3], [4]], [[19], [29]]])
    assert CUBE.plot().axes[0].images


def test_a_pixel_beside_the_image_is_refused() -> None:
    with pytest.raises(CubeError, match="got row 20"):
        CUBE.plot([(20, 0)])


@pytest.mark.usefixtures("pyplot")
def test_a_spectrum_is_drawn_with_its_bounds() -> None:
    values = np.linspace(0, 1, 31)
    bounds: dict[str, Any] = {"lower": values - 0.1, "upper": values + 0.1}
    axes = Spectrum(WAVELENGTHS, values, name="leaf", colour="#00ff00", **bounds).plot()
    assert_array_equal(axes.lines[0].get_ydata(), values)
    assert axes.lines[0].get_color() == "#00ff00"
    assert axes.get_xlabel() == "wavelength (nm)"
    assert len(axes.collections) == 1
    assert Spectrum(WAVELENGTHS, values).plot(axes) is axes
    assert len(axes.lines) == 2


@pytest.mark.parametrize(
    ("library", "make", "advice"),
    [
        ("matplotlib.figure", CUBE.plot, r"napari-mst\[figures\]"),
        ("matplotlib.figure", Spectrum(WAVELENGTHS, WAVELENGTHS).plot, r"napari-mst\[figures\]"),
        ("xarray", CUBE.to_xarray, r"napari-mst\[xarray\]"),
        ("hyperspy.signals", CUBE.to_hyperspy, "pip install hyperspy"),
    ],
)
def test_without_its_library_it_says_how_to_install_it(
    library: str, make: Callable[[], object], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises((CubeError, SpectrumError), match=advice):
        make()
