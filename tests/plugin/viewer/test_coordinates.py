"""The coordinates in the status bar, against those of rasterio."""

from pathlib import Path

import numpy as np
import pytest
from napari.components import ViewerModel

import napari_mst as nm
from napari_mst.plugin.viewer.canvas_mouse import EarthStatus

rasterio = pytest.importorskip("rasterio")

TURNED = (20.0, 5.0, 399960.0, 5.0, -20.0, 4300020.0)
SYSTEMS = {
    "UTM": ("EPSG:32633", (30.0, 0.0, 399960.0, 0.0, -30.0, 4300020.0), "m"),
    "turned": ("EPSG:32633", TURNED, "m"),
    "degrees": ("EPSG:4326", (0.001, 0.0, 12.5, 0.0, -0.001, 45.5), "deg"),
}


@pytest.mark.parametrize("suffix", [".tif", ".hdr"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_status_bar_has_the_coordinates_and_their_unit(
    name: str, suffix: str, tmp_path: Path
) -> None:
    crs, transform, unit = SYSTEMS[name]
    path = tmp_path / ("cube.tif" if suffix == ".tif" else "cube.img")
    driver = "GTiff" if suffix == ".tif" else "ENVI"
    shape = {"count": 3, "height": 6, "width": 8, "dtype": "float32"}
    place = {"crs": crs, "transform": rasterio.Affine(*transform)}
    with rasterio.open(path, "w", driver=driver, **shape, **place) as file:
        file.write(np.ones((3, 6, 8), np.float32))
        x, y = file.xy(2, 5)
    viewer = ViewerModel()
    data, arguments, _ = nm.read_cube(path.with_suffix(suffix)).to_layer_data()
    layer = viewer.add_image(data, **arguments)
    helper = EarthStatus(viewer)
    viewer.cursor.position = layer.data_to_world((0, 2, 5))
    viewer.status = layer.get_status(viewer.cursor.position, world=True)
    said = viewer.status["coordinates"]
    assert said.startswith("[0, 2, 5]: 1")
    words = said.replace(",", "").split()
    at = words.index("x")
    assert float(words[at + 1]) == pytest.approx(x)
    assert float(words[at + 4]) == pytest.approx(y)
    assert words[at + 2] == words[at + 5] == unit
    assert words[-1] == f"({crs})"
    viewer.cursor.position = layer.data_to_world((0, 2, 50))
    viewer.status = dict(viewer.status, coordinates="beside it")
    assert viewer.status["coordinates"] == "beside it"
    assert helper.viewer is viewer
