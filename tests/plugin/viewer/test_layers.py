"""A photo out of a layer, and a cube layer that lies exactly on it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import rasterio
from napari.components import ViewerModel
from napari.layers import Image
from napari.layers._source import layer_source
from numpy.testing import assert_allclose, assert_array_equal
from rasterio.transform import Affine
from tests.plugin.in_viewer import cube_in

from napari_mst.cube import SpectralCube
from napari_mst.cube.layer import contrast_limits
from napari_mst.photo.photo import Photo
from napari_mst.plugin.viewer.bands import Bands
from napari_mst.plugin.viewer.layer_photos import LayerPhoto
from napari_mst.plugin.viewer.layers import band_of, cube_layer, cube_of, go_to
from napari_mst.plugin.viewer.placement import Placement

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
PLANES = np.moveaxis(PIXELS, -1, 0)
TRANSFORM: dict[str, Any] = {
    "scale": (0.5, 0.25),
    "translate": (7.0, -3.0),
    "rotate": 30,
    "shear": [0.2],
    "affine": [[1, 0.1, 4], [0, 1, 2], [0, 0, 1]],
    "units": ("um", "um"),
}


def cube(wavelengths: Any = range(400, 701, 10), rows: int = 6, columns: int = 8) -> SpectralCube:
    at = np.array(wavelengths, dtype=np.float64)
    return SpectralCube(np.zeros((len(at), rows, columns), np.float32), at)


def layer_of(cube: SpectralCube, placement: Placement | None = None) -> Image:
    data, arguments, _ = cube_layer(cube, "cube", placement)
    return Image(data, **arguments)


@pytest.mark.parametrize(
    ("data", "arguments", "point"),
    [
        pytest.param(PIXELS, {"rgb": True}, (0, 0), id="rgb"),
        pytest.param(np.stack([PIXELS + 1, PIXELS]), {"rgb": True}, (1, 0, 0), id="second page"),
        pytest.param(
            np.stack([PLANES + 1, PLANES]), {"rgb": False}, (1, 0, 0, 0), id="second page, planar"
        ),
        pytest.param(PLANES, {"rgb": False}, (2, 0, 0), id="planar"),
        pytest.param(dask.array.from_array(PIXELS), {"rgb": True}, (0, 0), id="dask"),
        pytest.param(
            [PIXELS, PIXELS[::2, ::2]], {"rgb": True, "multiscale": True}, (0, 0), id="multiscale"
        ),
    ],
)
def test_a_layer_of_any_kind_gives_the_same_photo(data: Any, arguments: Any, point: Any) -> None:
    photo = LayerPhoto.of(Image(data, name="photo", **arguments), point).read()
    assert_array_equal(photo.pixels, PLANES)
    assert photo.name == "photo"


def test_the_page_of_a_stack_follows_the_slider_in_world_units_and_is_said() -> None:
    stack = Image(
        np.stack([np.full((4, 5), page, np.uint8) for page in range(4)]), scale=(10, 1, 1)
    )
    layer_photo = LayerPhoto.of(stack, (20.0, 0.0, 0.0))
    stack.data = stack.data + 1
    photo = layer_photo.read()
    assert (photo.pixels == 2).all(), "as it was when it was asked for"
    assert "This is page 2 of a stack; each page is a photo of its own." in photo.assumptions


@pytest.mark.parametrize("leading", [0, 1], ids=["photo", "stack"])
def test_a_cube_lies_exactly_on_its_photo(leading: int) -> None:
    transform = TRANSFORM
    if leading:
        rotate, affine = np.eye(3), np.eye(4)
        rotate[1:, 1:] = Image(np.zeros((2, 2)), **TRANSFORM).rotate
        affine[1:, 1:] = TRANSFORM["affine"]
        more = {
            "scale": (2.0, 0.5, 0.25),
            "translate": (1.0, 7.0, -3.0),
            "units": ("second", "um", "um"),
        }
        transform = {**more, "rotate": rotate, "affine": affine, "shear": [0.0, 0.0, 0.2]}
    photo = Image(np.zeros((2,) * leading + (6, 8, 3), np.uint8), rgb=True, **transform)
    layer = layer_of(cube(), Placement.of(photo))
    for pixel in [(0, 0), (5, 0), (0, 7), (2, 3)]:
        expected = photo.data_to_world((0,) * leading + pixel)[-2:]
        assert_allclose(layer.data_to_world((0, *pixel))[-2:], expected, atol=1e-9)
    assert [str(unit) for unit in layer.units[-2:]] == ["micrometer", "micrometer"]


def test_a_cube_beside_a_stack_of_photos_leaves_napari_the_units_of_both() -> None:
    viewer = ViewerModel()
    viewer.add_image(np.zeros((2, 6, 8, 3), np.uint8), rgb=True)
    viewer.add_layer(layer_of(cube()))
    assert viewer.layers.extent.units is not None  # else napari warns


def test_the_slider_of_a_cube_stands_at_wavelengths() -> None:
    viewer = ViewerModel()
    layer = viewer.add_layer(layer_of(cube()))
    go_to(viewer, layer, 553)
    Bands.of(viewer)
    assert (viewer.dims.range[0].start, viewer.dims.range[0].stop, viewer.dims.range[0].step) == (
        400,
        700,
        10,
    )
    assert layer.axis_labels[0] == "wavelength (nm)"
    assert band_of(layer, viewer.dims.point) == 15
    assert viewer.dims.axis_labels[0] == "550 nm"
    go_to(viewer, layer, 620)
    assert viewer.dims.axis_labels[0] == "620 nm"
    viewer.add_points([[1, 2]])  # napari writes the labels of its layers again
    assert viewer.dims.axis_labels[0] == "620 nm"
    viewer.add_layer(layer_of(cube()))
    assert (viewer.dims.point[0], viewer.dims.axis_labels[0]) == (620, "620 nm")
    assert not viewer.canvas.overlays.current_slice.visible


@pytest.mark.parametrize(
    ("wavelengths", "told"),
    [
        (np.arange(900, 1701, 100.0), "1300 nm"),
        (np.arange(500, 601, 10.0), "550 nm"),
        ([1.0, 10, 100], "10 nm"),
    ],
)
def test_a_cube_that_opens_is_seen_wherever_the_slider_stands(
    wavelengths: Sequence[float], told: str
) -> None:
    viewer = ViewerModel()
    Bands.of(viewer)
    go_to(viewer, viewer.add_layer(layer_of(cube())), 700)
    bands = np.asarray(wavelengths, dtype=np.float64)
    other = SpectralCube(np.ones((len(bands), 6, 8), np.float32), bands)
    layer = viewer.add_layer(layer_of(other))
    assert layer._slice.image.raw.max() == 1
    assert viewer.dims.axis_labels[0] == told


def test_wavelengths_do_not_rescale_an_image_that_is_measured_in_micrometres() -> None:
    viewer = ViewerModel()
    photo = viewer.add_image(PIXELS, rgb=True, scale=(0.5, 0.5), units=("um", "um"))
    viewer.add_layer(layer_of(cube(), Placement.of(photo)))
    assert viewer.dims.range[-2].stop == pytest.approx(2.5)
    assert viewer.dims.range[0].stop == 700
    assert viewer.layers[-1].axis_labels[0] == "wavelength (nm)"


@pytest.mark.parametrize(
    "wavelengths", [[400, 410, 450], [700, 600, 500]], ids=["uneven", "descending"]
)
def test_bands_that_no_slider_can_measure_are_counted(wavelengths: list[float]) -> None:
    layer = layer_of(cube(wavelengths))
    assert (layer.axis_labels[0], layer.scale[0], layer.translate[0]) == ("band", 1, 0)


def test_contrast_limits_are_one_range_for_all_bands_and_pass_over_nan() -> None:
    data = np.linspace(0.1, 0.9, 3 * 50 * 50, dtype=np.float32).reshape(3, 50, 50)
    data[1, 3, 3] = np.nan
    low, high = contrast_limits(data)
    assert low == 0
    assert high == pytest.approx(0.9, abs=2e-3)
    assert contrast_limits(np.full((1, 2, 2), np.nan)) == (0.0, 1.0)
    assert contrast_limits(np.zeros((1, 2, 2))) == (0.0, 1.0)


def test_the_cube_of_a_layer_holds_the_data_of_the_layer() -> None:
    layer = layer_of(cube())
    assert cube_of(layer) is layer.metadata["napari_mst"]
    layer.data = layer.data + 1
    assert cube_in(layer).data is layer.data
    layer.data = layer.data[:3]
    assert cube_of(layer) is None
    assert cube_of(Image(PIXELS, rgb=True)) is None


def ortho(path: Path) -> np.ndarray:
    """A GeoTIFF photo at *path*; returns its pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    place = {"crs": "EPSG:32633", "transform": Affine(0.05, 0, 500_000, 0, -0.05, 5_400_000)}
    size = {"height": 12, "width": 10, "count": 3, "dtype": "uint8"}
    with rasterio.open(path, "w", driver="GTiff", photometric="RGB", **size, **place) as file:
        file.write(np.moveaxis(pixels, -1, 0))
    return pixels


def layer_of_file(path: Path, pixels: np.ndarray) -> Image:
    with layer_source(path=str(path), reader_plugin="napari"):
        return Image(pixels, rgb=True)


def test_a_photo_of_a_file_with_a_place_on_earth_keeps_it(tmp_path: Path) -> None:
    pixels = ortho(tmp_path / "ortho.tif")
    photo = LayerPhoto.of(layer_of_file(tmp_path / "ortho.tif", pixels), (0, 0)).read()
    assert photo.georeference == Photo.read(tmp_path / "ortho.tif").georeference
    assert photo.georeference is not None
    cut = LayerPhoto.of(layer_of_file(tmp_path / "ortho.tif", pixels[2:]), (0, 0)).read()
    assert cut.georeference is None
