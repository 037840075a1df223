"""A cube as an array of xarray, and back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst.base.errors import CubeError
from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.cube.georeference import FIELD, Georeference

xarray = pytest.importorskip("xarray")

DATA = np.random.default_rng(0).random((3, 4, 5), dtype=np.float32)
PLACE = Georeference((30.0, 0.0, 5e5, 0.0, -30.0, 4e6))
CUBE = SpectralCube(
    DATA,
    np.array([500.0, 550, 600]),
    provenance=Provenance(model="mstpp-srgb", assumptions=("a sentence",)),
    metadata={FIELD: PLACE.to_json(), "fwhm": (1.0, 2.0, 3.0), "warnings": ("one",)},
)


def same(cube: SpectralCube, other: SpectralCube) -> bool:
    assert_array_equal(cube.data, other.data)
    assert_array_equal(cube.wavelengths, other.wavelengths)
    names = ("unit", "quantity", "provenance", "metadata")
    return all(getattr(cube, name) == getattr(other, name) for name in names)


def test_an_array_has_named_axes_with_cf_names_units_and_places() -> None:
    array = CUBE.to_xarray()
    assert array.dims == ("wavelength", "y", "x")
    assert array.wavelength.attrs["standard_name"] == "radiation_wavelength"
    assert array.wavelength.attrs["units"] == "nm"
    assert array.attrs["units"] == "1"
    assert_array_equal(array.x, 5e5 + 30 * (np.arange(5) + 0.5))
    assert_array_equal(array.y, 4e6 - 30 * (np.arange(4) + 0.5))
    assert np.shares_memory(array.data, DATA)


@pytest.mark.parametrize("text", ["", Georeference((30.0, 1.0, 5e5, 1.0, -30.0, 4e6)).to_json()])
def test_pixels_without_places_along_the_axes_are_counted_upright(text: str) -> None:
    cube = replace(CUBE, metadata={FIELD: text} if text else {})
    array = cube.to_xarray()
    assert array.x.values.tolist() == [0, 1, 2, 3, 4]
    assert array.y.values.tolist() == [0, -1, -2, -3]
    assert (array.x.attrs["axis"], array.y.attrs["axis"]) == ("X", "Y")
    assert same(SpectralCube.from_xarray(array), cube)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_a_cube_comes_back_from_axes_in_any_order(order: tuple[int, ...]) -> None:
    array = CUBE.to_xarray()
    turned = array.transpose(*(array.dims[axis] for axis in order))
    assert same(SpectralCube.from_xarray(turned), CUBE)


def test_a_cube_comes_back_from_a_netcdf_file(tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    CUBE.to_xarray().to_netcdf(tmp_path / "cube.nc", engine="h5netcdf")
    with xarray.open_dataarray(tmp_path / "cube.nc", engine="h5netcdf") as array:
        assert same(SpectralCube.from_xarray(array.load()), CUBE)


def test_a_cube_without_wavelengths_counts_its_bands() -> None:
    counted = replace(CUBE, wavelengths=np.arange(3.0), unit=BAND_INDEX)
    assert counted.to_xarray().dims == ("band", "y", "x")
    assert same(SpectralCube.from_xarray(counted.to_xarray()), counted)


def test_wavelengths_in_micrometres_become_nanometres() -> None:
    coordinate = ("wl", [0.5, 0.55, 0.6], {"units": "um"})
    array = xarray.DataArray(DATA, dims=("wl", "lat", "lon"), coords={"wl": coordinate})
    cube = SpectralCube.from_xarray(array)
    assert_allclose(cube.wavelengths, [500, 550, 600])
    assert cube.unit == "nm"
    assert cube.quantity == ""


def test_an_axis_of_any_name_is_the_spectral_one_by_its_cf_name() -> None:
    colour = ("colour", [500, 550, 600], {"standard_name": "radiation_wavelength", "units": "nm"})
    array = xarray.DataArray(DATA, dims=("colour", "y", "x"), coords={"colour": colour})
    assert_array_equal(SpectralCube.from_xarray(array).wavelengths, [500, 550, 600])


def test_wavelengths_beside_numbered_bands_are_taken() -> None:
    coordinates = {"band": [1, 2, 3], "wavelength": ("band", [500, 550, 600], {"units": "nm"})}
    array = xarray.DataArray(DATA, dims=("band", "y", "x"), coords=coordinates)
    assert_array_equal(SpectralCube.from_xarray(array).wavelengths, [500, 550, 600])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (DATA, "an xarray.DataArray, got ndarray"),
        (xarray.DataArray(DATA[0]), "three axes"),
        (xarray.DataArray(DATA, dims=("a", "b", "c")), "wavelength or band"),
        (
            xarray.DataArray(
                DATA, dims=("wavelength", "y", "x"), coords={"wavelength": [0.5, 0.6, 0.7]}
            ),
            "the unit of the coordinate wavelength",
        ),
    ],
)
def test_other_arrays_are_refused_in_a_sentence(given: Any, told: str) -> None:
    with pytest.raises(CubeError, match=told):
        SpectralCube.from_xarray(given)


def test_a_part_of_an_array_is_that_part_of_the_cube() -> None:
    part = SpectralCube.from_xarray(CUBE.to_xarray().isel(y=slice(2, 4), x=slice(1, 4)))
    expected = CUBE.crop(rows=(2, 4), columns=(1, 4))
    assert_array_equal(part.data, expected.data)
    assert part.metadata == expected.metadata
    assert part.provenance.cut


def test_what_names_other_pixels_or_bands_is_left_out() -> None:
    coarse = SpectralCube.from_xarray(CUBE.to_xarray().isel(x=slice(None, None, 2)))
    place = Georeference.from_json(coarse.metadata[FIELD])
    assert place is not None
    (a, b, c, d, e, f), code = PLACE.transform or (0.0,) * 6, PLACE.code
    assert (place.transform, place.code) == ((2 * a, b, c - a / 2, d, e, f), code)
    assert coarse.metadata["fwhm"] == (1.0, 2.0, 3.0)
    green = SpectralCube.from_xarray(CUBE.to_xarray().sel(wavelength=slice(500, 550)))
    assert green.metadata == {FIELD: PLACE.to_json(), "warnings": ("one",)}
