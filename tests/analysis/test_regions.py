"""Region spectra against numpy on whole masks and scikit-image."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from skimage.draw import polygon2mask
from skimage.measure import regionprops
from tests.analysis.conftest import bounds

from napari_mst.analysis import label_means
from napari_mst.analysis.regions import Region, point_spectrum, region_spectrum
from napari_mst.base.errors import SpectrumError
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Origin, Spectrum

SHAPE = (37, 53)
RNG = np.random.default_rng(7)
CUBE = SpectralCube(
    RNG.random((5, *SHAPE), dtype=np.float32), np.array([400.0, 450, 520, 600, 700])
)
MASKS = {
    "everything": np.ones(SHAPE, dtype=bool),
    "one pixel": np.arange(37 * 53).reshape(SHAPE) == 999,
    "a disc": np.hypot(*np.mgrid[-18:19, -26:27]) < 15,
    "scattered": RNG.random(SHAPE) < 0.1,
}


def whole(region: Region) -> np.ndarray:
    mask = np.zeros(SHAPE, dtype=bool)
    height, width = region.mask.shape
    mask[region.row : region.row + height, region.column : region.column + width] = region.mask
    return mask


def read(data: Any, name: str, spread: Any = "std") -> Spectrum:
    """The spectrum of one of `MASKS` on a cube of *data*."""
    return region_spectrum(
        SpectralCube(data, CUBE.wavelengths), Region.of_mask(MASKS[name]), spread
    )


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("block", [1, 64, 2**20])
def test_mean_and_std_are_numpys(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_means, "BLOCK_PIXELS", block)
    monkeypatch.setattr(label_means, "READ_PIXELS", 7 * block)
    mask = MASKS[name]
    spectrum = region_spectrum(
        CUBE, Region.of_mask(mask, name), cube_name="cube", pixel_area=(0.25, "m2")
    )
    values = CUBE.data[:, mask].astype(float)
    assert_allclose(spectrum.values, values.mean(axis=1), rtol=1e-12)
    lower, upper = bounds(spectrum)
    deviation = values.std(axis=1)
    assert_allclose(upper - spectrum.values, deviation, rtol=1e-9, atol=1e-15)
    assert_allclose(spectrum.values - lower, deviation, rtol=1e-9, atol=1e-15)
    assert (spectrum.name, spectrum.spread, spectrum.unit) == (name, "std", "nm")
    pixels = int(mask.sum())
    origin = Origin("cube", region=name, pixels=pixels, area=pixels / 4, area_unit="m2")
    assert spectrum.origin == origin


def test_a_label_is_that_of_regionprops() -> None:
    labels = RNG.integers(0, 4, SHAPE) * (np.arange(53) // 10)
    image = np.moveaxis(CUBE.data, 0, -1).astype(float)
    for judge in regionprops(labels, image):
        found = Region.of_label(labels, judge.label)
        height, width = found.mask.shape
        assert (found.row, found.column, found.row + height, found.column + width) == judge.bbox
        assert_array_equal(found.mask, judge.image)
        spectrum = region_spectrum(CUBE, found)
        assert_allclose(spectrum.values, judge.intensity_mean, rtol=1e-12)
        deviation = bounds(spectrum)[1] - spectrum.values
        assert_allclose(deviation, judge.intensity_std, rtol=1e-9)
        assert spectrum.origin.pixels == judge.area
        assert spectrum.name == f"label {judge.label}"
        assert_array_equal(whole(found), labels == judge.label)


def test_polygon_is_scikit_images() -> None:
    """Polygons around a point, and triangles with corners on pixels and edges through them."""
    rng = np.random.default_rng(3)
    for corners in range(3, 60):
        angles = np.linspace(0, 2 * np.pi, corners, endpoint=False)
        radii = rng.uniform(1, 30, corners)
        outline = rng.uniform(-5, 50, 2) + np.stack(
            [radii * np.sin(angles), radii * np.cos(angles)], axis=1
        )
        assert_is_scikit_images(outline)
        assert_is_scikit_images(rng.integers(-9, 50, (3, 2)))

    for edges in (
        [(2, 3), (2, 10), (9, 10), (9, 3)],
        [(0, 0), (0, 52), (36, 52), (36, 0)],
        [(-4, -4), (50, 10), (10, 70)],
    ):
        assert_is_scikit_images(np.array(edges))


def assert_is_scikit_images(corners: NDArray[Any]) -> None:
    expected = polygon2mask(SHAPE, corners)
    if expected.any():
        assert_array_equal(whole(Region.of_polygon(corners, SHAPE)), expected)
    else:
        with pytest.raises(SpectrumError, match="got none"):
            Region.of_polygon(corners, SHAPE)


def test_polygon_is_kept_in_the_origin() -> None:
    corners = ((2.0, 3.5), (2.0, 10.0), (9.0, 10.0))
    assert (
        region_spectrum(CUBE, Region.of_polygon(corners, SHAPE, "leaf")).origin.vertices == corners
    )


@pytest.mark.parametrize("window", [1, 3, 5, 9])
@pytest.mark.parametrize("pixel", [(0, 0), (36, 52), (1, 30), (20, 20)])
def test_window_is_cut_at_the_borders(window: int, pixel: tuple[int, int]) -> None:
    (row, column), half = pixel, window // 2
    rows = slice(max(0, row - half), row + half + 1)
    columns = slice(max(0, column - half), column + half + 1)
    spectrum = point_spectrum(CUBE, row, column, window, name="a", colour="#102030")
    values = CUBE.data[:, rows, columns].reshape(5, -1)
    assert_allclose(spectrum.values, values.mean(axis=1, dtype=float), rtol=1e-12)
    assert (spectrum.name, spectrum.colour) == ("a", "#102030")
    count = values.shape[1]
    expected = Origin(row=row, column=column, window=window, pixels=count, area=count)
    assert spectrum.origin == expected
    assert (spectrum.lower is None) == (window == 1)


def test_pixels_that_are_no_numbers_are_left_out_and_counted() -> None:
    data = CUBE.data.copy()
    data[2, 4, 5] = np.nan
    data[0, 4, 6] = np.inf
    data[3] = np.nan  # a bad band, which costs no pixels
    spectrum = read(data, "everything")
    assert (spectrum.origin.pixels, spectrum.origin.excluded) == (data[0].size - 1, 1)
    assert spectrum.origin.area == data[0].size
    lower, upper = bounds(spectrum)
    for band in (0, 1, 2, 4):
        good = data[band][np.isfinite(data[band])].astype(float)
        for bound, expected in ((spectrum.values, 0), (upper, 1), (lower, -1)):
            assert_allclose(bound[band], good.mean() + expected * good.std(), rtol=1e-9)
    assert np.isnan(spectrum.values[3])


def test_region_without_numbers_is_nan_and_counts_no_pixels() -> None:
    cube = SpectralCube(np.full((2, 4, 4), np.nan), np.array([400.0, 500]))
    spectrum = region_spectrum(cube, Region.of_mask(np.ones((4, 4))))
    assert np.isnan([spectrum.values, *bounds(spectrum)]).all()
    assert (spectrum.origin.pixels, spectrum.origin.excluded) == (0, 16)


@pytest.mark.parametrize("dtype", ["u1", ">i2", "u4", "f2", ">f4", "f8"])
def test_any_type_of_number_is_averaged_in_double_precision(dtype: str) -> None:
    data = (CUBE.data * 100).astype(dtype)
    spectrum = read(data, "a disc")
    assert_allclose(
        spectrum.values, data[:, MASKS["a disc"]].astype(float).mean(axis=1), rtol=1e-12
    )


def test_large_offsets_do_not_spoil_the_deviation() -> None:
    data = CUBE.data.astype(float) + 1e8
    spectrum = read(data, "everything")
    deviation = bounds(spectrum)[1] - spectrum.values
    assert_allclose(deviation, data.reshape(5, -1).std(axis=1), rtol=1e-6)


class Spy(np.ndarray):
    """Remembers which rows and columns of it are read."""

    read: list[tuple[slice, ...]]

    def __getitem__(self, key: Any) -> Any:
        self.read.append(key)
        return np.asarray(self)[key]


def test_only_the_bounding_box_is_read() -> None:
    data = CUBE.data.view(Spy)
    data.read = []
    read(data, "a disc")
    rows, columns = np.nonzero(MASKS["a disc"])
    for _, read_rows, read_columns in data.read:
        assert rows.min() <= read_rows.start < read_rows.stop <= rows.max() + 1
        assert (read_columns.start, read_columns.stop) == (columns.min(), columns.max() + 1)
    assert data.read


def test_mapped_and_chunked_cubes_give_the_same_numbers(tmp_path: Path) -> None:
    CUBE.data.tofile(tmp_path / "cube.img")
    mapped = np.memmap(tmp_path / "cube.img", np.float32, "r", shape=CUBE.shape)
    chunked = dask.array.from_array(CUBE.data, chunks=(2, 10, 10))
    expected = read(CUBE.data, "scattered")
    for data in (mapped, chunked):
        found = read(data, "scattered")
        assert_array_equal(found.values, expected.values)
        assert_array_equal(found.upper, expected.upper)


REFUSED: dict[str, Callable[[], object]] = {
    "pixels of the image in the region 'a', got none": lambda: Region.of_mask(np.zeros(SHAPE), "a"),
    "shape \\(rows, columns\\), got \\(3,\\)": lambda: Region.of_mask([1, 1, 1]),
    "in the region 'label 9', got none": lambda: Region.of_label(np.zeros(SHAPE, dtype=int), 9),
    "3 or more": lambda: Region.of_polygon([(1, 1), (2, 2)], SHAPE),
    "got none": lambda: Region.of_polygon([(-9, -9), (-5, -9), (-5, -2)], SHAPE),
    "within 37 rows x 53 columns, got row 37": lambda: point_spectrum(CUBE, 37, 0),
    "window of 1, 3, 5": lambda: point_spectrum(CUBE, 3, 0, 4),
    "region within 37 rows x 53 columns, got rows 30-39": lambda: region_spectrum(
        CUBE, Region(30, 0, np.ones((10, 2), dtype=bool))
    ),
    "Expected spread": lambda: read(CUBE.data, "a disc", "variance"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_region_is_refused(message: str) -> None:
    with pytest.raises(SpectrumError, match=message):
        REFUSED[message]()
