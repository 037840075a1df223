"""A cube as a layer of napari, described without napari."""

import subprocess
import sys

import numpy as np
import pytest

from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube

DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_a_layer_has_the_bands_and_the_wavelengths_on_their_axis() -> None:
    cube = SpectralCube(DATA, np.array([500.0, 550]))
    data, arguments, kind = cube.to_layer_data("leaf")
    assert (data is DATA, kind) == (True, "image")
    assert (arguments["name"], arguments["rgb"]) == ("leaf", False)
    assert (arguments["scale"], arguments["translate"]) == ((50, 1, 1), (500, 0, 0))
    assert arguments["axis_labels"] == ("wavelength (nm)", "y", "x")
    assert arguments["metadata"]["napari_mst"] is cube


@pytest.mark.parametrize(
    "cube",
    [
        SpectralCube(DATA, np.arange(2.0), unit=BAND_INDEX),
        SpectralCube(DATA, np.array([550.0, 500])),
    ],
    ids=["no wavelengths", "falling"],
)
def test_bands_without_even_wavelengths_are_counted(cube: SpectralCube) -> None:
    _, arguments, _ = cube.to_layer_data()
    assert (arguments["axis_labels"][0], arguments["scale"][0]) == ("band", 1)


@pytest.mark.parametrize(
    ("value", "limits"), [(0.3, (0, 0.3)), (0, (0, 1)), (-2, (-2, -1)), (np.nan, (0, 1))]
)
def test_a_cube_of_one_value_has_a_range_to_be_shown_in(
    value: float, limits: tuple[float, float]
) -> None:
    cube = SpectralCube(np.full_like(DATA, value), np.array([500.0, 550]))
    assert cube.to_layer_data()[1]["contrast_limits"] == pytest.approx(limits)


def test_a_layer_is_called_after_the_photo() -> None:
    wavelengths = np.array([500.0, 550])
    made = SpectralCube(DATA, wavelengths, provenance=Provenance(source="leaf.jpg"))
    assert made.to_layer_data()[1]["name"] == "leaf"
    assert SpectralCube(DATA, wavelengths).to_layer_data()[1]["name"] == "cube"


def test_neither_a_layer_nor_the_name_of_add_cube_needs_napari() -> None:
    code = (
        "import sys, numpy as np, napari_mst as nm\n"
        "nm.add_cube, nm.SpectralCube(np.ones((2, 3, 4)), [500, 550]).to_layer_data()\n"
        "assert not {'napari', 'qtpy'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
