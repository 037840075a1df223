"""Stored numbers against xarray, GDAL and tifffile, laid out as instruments and programs do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import pytest
import rasterio
import tifffile
import xarray
from numpy.testing import assert_allclose, assert_array_equal
from rasterio.windows import Window
from scipy.io import savemat

from napari_mst.base.arrays import Array
from napari_mst.base.errors import ChoiceNeeded, CubeFileError
from napari_mst.cube import SpectralCube
from napari_mst.cube.gaps import known
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.formats import read_cube

RNG = np.random.default_rng(0)
WAVELENGTHS = np.linspace(400, 700, 4)
STORED = RNG.integers(-5, 120, (4, 6, 7)).astype("i1")
STORED[0, 0, :4] = -1, -2, 100, 101
FLOATS = RNG.random((4, 6, 7), dtype=np.float32)
FLOATS[0, 0, :2] = -9999, 1e20


def hdf5(path: Path, stored: Array, attributes: dict[str, Any]) -> Path:
    with h5py.File(path.with_suffix(".nc"), "w") as file:
        file["sr"] = stored
        file["sr"].attrs.update(attributes)
        file["wavelength"] = WAVELENGTHS
        file["wavelength"].attrs.update(units="nm", standard_name="radiation_wavelength")
    return path.with_suffix(".nc")


def values(cube: SpectralCube) -> Array:
    """The numbers of *cube*, NaN where the file has none."""
    return known(np.asarray(cube.data), cube.metadata)


CF: list[tuple[Array, dict[str, Any]]] = [
    (STORED, {"scale_factor": 0.5, "add_offset": np.float32(-3), "_FillValue": np.int8(-1)}),
    (STORED, {"_Unsigned": "true", "scale_factor": 0.5, "_FillValue": np.int8(-1)}),
    (STORED.view("u1"), {"_Unsigned": "false", "_FillValue": np.uint8(255), "scale_factor": 2.0}),
    (STORED, {"_Unsigned": "true"}),
    (STORED, {"missing_value": np.array([-1, -2], "i1")}),
    (FLOATS, {"_FillValue": np.float32(-9999), "missing_value": np.float32(1e20)}),
    (FLOATS, {"missing_value": np.float32(-9999)}),
]


@pytest.mark.filterwarnings("ignore:variable 'sr' has multiple fill values")
@pytest.mark.parametrize(("stored", "attributes"), CF, ids=range(len(CF)))
def test_packed_numbers_are_those_of_xarray(
    tmp_path: Path, stored: Array, attributes: dict[str, Any]
) -> None:
    path = hdf5(tmp_path / "a", stored, attributes)
    with xarray.open_dataset(path, engine="h5netcdf", phony_dims="sort") as judge:
        assert_allclose(values(read_cube(path)), judge.sr.values, rtol=1e-6)
    assert read_cube(path, scale=False).data.dtype.itemsize == stored.itemsize


@pytest.mark.parametrize(
    ("attributes", "gaps"),
    [
        ({"valid_range": np.array([0, 100], "i1")}, (STORED < 0) | (STORED > 100)),
        ({"valid_min": np.int8(0)}, STORED < 0),
        ({"valid_max": np.int8(100), "scale_factor": 0.01}, STORED > 100),
        # Of the type of the factor, not of the numbers: about the physical ones.
        (
            {"valid_range": np.array([0.0, 1.0]), "scale_factor": 0.01},
            (STORED < 0) | (STORED > 100),
        ),
    ],
)
def test_numbers_beyond_the_valid_range_are_gaps(
    tmp_path: Path, attributes: dict[str, Any], gaps: Array
) -> None:
    cube = read_cube(hdf5(tmp_path / "a", STORED, attributes))
    assert_array_equal(np.isnan(cube.data), gaps)


def test_texts_units_and_names_tell_what_the_numbers_are(tmp_path: Path) -> None:
    about = {"long_name": "surface reflectance", "units": "percent", "scale_factor": "0.1"}
    cube = read_cube(hdf5(tmp_path / "a", STORED, about))
    assert_allclose(cube.data, STORED / 1000, rtol=1e-6)
    assert cube.quantity == "reflectance"
    raw = read_cube(hdf5(tmp_path / "b", STORED, {"long_name": "surface reflectance"}))
    assert raw.quantity == ""
    assert "gives no scale" in raw.metadata["warnings"][0]
    flux = read_cube(hdf5(tmp_path / "c", FLOATS, {"units": "W m-2 sr-1 um-1"}))
    assert flux.quantity == "radiance"


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_xarray_has_its_axes_wavelengths_place_and_scale(
    tmp_path: Path, version: Any
) -> None:
    numbers = np.linspace(0, 1, 5 * 4 * 3).reshape(5, 4, 3)
    numbers[0, 0, 0] = np.nan
    array = xarray.DataArray(
        numbers,
        {
            "y": 4e6 - 10.0 * np.arange(5),
            "x": 5e5 + 10.0 * np.arange(4),
            "wavelength": ("wavelength", [0.4, 0.5, 0.7], {"units": "um"}),
        },
        ("y", "x", "wavelength"),
        "reflectance",
    )
    packed = {"dtype": "int16", "scale_factor": 1e-4, "_FillValue": -9999}
    encoding = {"reflectance": packed}
    array.to_dataset().to_zarr(
        tmp_path / "a.zarr", encoding=encoding, zarr_format=version, consolidated=False
    )
    cube = read_cube(tmp_path / "a.zarr")
    assert_allclose(cube.data, np.moveaxis(numbers, -1, 0), atol=5.1e-5)
    assert cube.wavelengths.tolist() == [400, 500, 700]
    assert cube.quantity == "reflectance"
    place = Georeference.from_json(cube.metadata[FIELD])
    assert place is not None
    assert place.transform == (10, 0, 5e5 - 5, 0, -10, 4e6 + 5)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("interleave", ["band", "pixel"])
def test_scale_and_offset_of_gdal_are_applied_to_each_band(tmp_path: Path, interleave: str) -> None:
    profile = {"count": 4, "height": 6, "width": 7, "dtype": "int16", "interleave": interleave}
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", nodata=-1, **profile) as file:
        file.write(STORED.astype("i2"))
        file.scales, file.offsets = [1e-4, 1e-4, 1e-4, 2e-4], [-0.1] * 4
    with rasterio.open(tmp_path / "a.tif") as judge:
        scales, offsets = (np.array(each)[:, None, None] for each in (judge.scales, judge.offsets))
        wanted = (judge.read(masked=True) * scales + offsets).filled(np.nan)
    assert_allclose(read_cube(tmp_path / "a.tif").data, wanted, rtol=1e-6)
    raw = read_cube(tmp_path / "a.tif", scale=False)
    assert_array_equal(raw.data, STORED)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("place", ["bands beside", "file beside", "file"])
def test_items_of_gdal_beside_and_in_a_file_are_those_of_rasterio(
    tmp_path: Path, place: str
) -> None:
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "count": 4, "height": 6, "width": 7, "dtype": "int8"}
    listed = "{400, 500, 600, 700}"
    with rasterio.open(path, "w", **profile) as file:
        file.write(STORED)
        if place == "file":
            file.update_tags(wavelength=listed, wavelength_units="Nanometers")
    items = f'<Metadata><MDI key="wavelength">{listed}</MDI></Metadata>'
    if place == "bands beside":
        items = "".join(
            f'<PAMRasterBand band="{band}"><Scale>0.5</Scale><Metadata>'
            f'<MDI key="wavelength">{at:g}</MDI></Metadata></PAMRasterBand>'
            for band, at in enumerate(WAVELENGTHS, 1)
        )
    if "beside" in place:
        (tmp_path / "a.tif.aux.xml").write_text(f"<PAMDataset>{items}</PAMDataset>")
    cube = read_cube(path)
    with rasterio.open(path) as judge:
        tags = judge.tags(4) if place == "bands beside" else judge.tags()
        assert tags["wavelength"] in ("700", listed)
        wanted = judge.read() * judge.scales[0]
    assert cube.wavelengths.tolist() == WAVELENGTHS.tolist()
    assert_array_equal(cube.data, wanted)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("compress", ["none", "deflate"])
@pytest.mark.parametrize("nodata", [-9999.0, float(np.finfo("f4").min)])
def test_tiles_that_gdal_leaves_out_hold_its_nodata(
    tmp_path: Path, nodata: float, compress: str
) -> None:
    path = tmp_path / "a.tif"
    options: dict[str, Any] = {"width": 64, "height": 48, "count": 4, "dtype": "float32"}
    options |= {"tiled": True, "blockxsize": 16, "blockysize": 16, "SPARSE_OK": True}
    with rasterio.open(
        path, "w", driver="GTiff", nodata=nodata, compress=compress, **options
    ) as judge:
        judge.write(np.ones((4, 16, 16), "f4"), window=Window(16, 0, 16, 16))
    cube = read_cube(path)
    with rasterio.open(path) as judge:
        assert_array_equal(cube.data, judge.read())
    assert np.isnan(values(cube)[:, 20, 20]).all()


def test_signed_numbers_of_imagej_are_those_of_its_calibration(tmp_path: Path) -> None:
    stored = RNG.integers(0, 65535, (4, 6, 7)).astype("u2")
    about = {"cf": 0, "c0": -32768.0, "c1": 1.0, "vunit": "Gray Value"}
    tifffile.imwrite(tmp_path / "a.tif", stored, imagej=True, metadata={"axes": "ZYX", **about})
    assert_array_equal(read_cube(tmp_path / "a.tif").data, stored - 32768.0)


def test_pages_that_were_written_one_by_one_are_the_bands(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for band in FLOATS:
            file.write(band)
    cube = read_cube(tmp_path / "a.tif")
    assert_array_equal(cube.data, FLOATS)
    assert "4 images of the file were taken for its bands" in cube.metadata["warnings"][0]


def neon(file: Any) -> None:
    stored = np.full((20, 25, 100), 3000, np.int16)
    stored[0, 0] = -9999
    site = file.create_group("WGEW/Reflectance")
    site["Reflectance_Data"] = stored
    about = {"Scale_Factor": 10000.0, "Data_Ignore_Value": -9999.0}
    site["Reflectance_Data"].attrs.update(about)
    site["Metadata/Spectral_Data/Wavelength"] = np.linspace(381.5, 2510, 100)
    site["Metadata/Spectral_Data/Wavelength"].attrs["Units"] = "nanometers"
    info = b"UTM, 1.000, 1.000, 257000.0, 4112000.0, 1.0, 1.0, 12, North, WGS-84, units=Meters"
    site["Metadata/Coordinate_System/Map_Info"] = info
    site["Metadata/Ancillary_Imagery/Weather_Quality_Indicator"] = np.zeros((20, 25, 3), "u1")


def tanager(file: Any) -> None:
    fields = file.create_group("HDFEOS/SWATHS/HYP/Data Fields")
    stored = np.full((100, 20, 25), 0.3, np.float32)
    stored[:, 0, 0] = -9999
    about = {"wavelengths": np.linspace(381.5, 2510, 100), "fwhm": np.full(100, 5.5)}
    about |= {"good_wavelengths": np.arange(100) % 2, "_FillValue": np.full(1, -9999, "f4")}
    fields["surface_reflectance"] = stored
    fields["surface_reflectance"].attrs.update(about)
    fields["surface_reflectance_uncertainty"] = stored


def hyperspy(file: Any) -> None:
    group = file.create_group("Experiments/reflectance")
    group["data"] = np.moveaxis(np.full((100, 20, 25), 0.3), 0, -1)
    for at, (size, start, scale, unit) in enumerate(
        [(20, 0, 1, "px"), (25, 0, 1, "px"), (100, 381.5, 21.5, "nm")]
    ):
        axis = group.create_group(f"axis-{at}").attrs
        axis.update(size=size, offset=start, scale=scale, units=unit, navigate=at < 2)


@pytest.mark.parametrize("write", [neon, tanager, hyperspy])
def test_products_open_without_a_question(tmp_path: Path, write: Callable[[Any], None]) -> None:
    path = tmp_path / ("a.hspy" if write is hyperspy else "a.h5")
    with h5py.File(path, "w") as file:
        write(file)
    cube = read_cube(path)
    assert cube.shape == (100, 20, 25)
    assert values(cube)[5, 5, 5] == pytest.approx(0.3)
    assert np.isnan(values(cube)[0, 0, 0]) == (write is not hyperspy)
    assert (cube.wavelengths[0], cube.wavelengths[-1]) == pytest.approx((381.5, 2510))
    if write is neon:
        place = Georeference.from_json(cube.metadata[FIELD])
        assert place is not None
        assert (place.code, place.transform) == (32612, (1, 0, 257000, 0, -1, 4112000))
    if write is tanager:
        assert cube.metadata["bbl"] == (0, 1) * 50


@pytest.mark.parametrize("word", ["bands", "wavelength", "lambda", "wl", "band"])
def test_a_dimension_without_values_names_the_axis_of_bands(tmp_path: Path, word: str) -> None:
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions = {"lines": 6, "samples": 4, word: 7}
        group = file.create_group("products")
        group.create_variable("Lt", ("lines", "samples", word), data=np.moveaxis(STORED, 0, 1))
    assert read_cube(tmp_path / "a.nc").shape == (7, 6, 4)


def test_a_side_array_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["sr"] = FLOATS
        file.create_dataset("wavelength", (4,), "f8", chunks=(4,))
    cube = read_cube(tmp_path / "a.h5")
    assert_array_equal(cube.data, FLOATS)
    assert "'wavelength' cannot be read, and was left out." in cube.metadata["warnings"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("standard_name", [1.0, 2.0]),
        ("units", np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])),
        ("units", h5py.Empty("S1")),
        ("scale_factor", h5py.Empty("f4")),
        ("_FillValue", "none"),
        ("valid_range", np.zeros((2, 2))),
        ("long_name", b"\xff\xfe"),
        ("grid_mapping", 5),
        ("fwhm", "nine"),
    ],
)
def test_an_attribute_of_another_type_than_its_word_has_is_left_out(
    tmp_path: Path, key: str, value: Any
) -> None:
    path = hdf5(tmp_path / "a", FLOATS, {key: value})
    with h5py.File(path, "a") as file:
        file["wavelength"].attrs[key] = value
    cube = read_cube(path)
    assert_array_equal(cube.data, FLOATS)
    assert cube.wavelengths[[0, -1]].tolist() == [400, 700]


def test_names_of_variables_are_listed_whole(tmp_path: Path) -> None:
    names = [f"a_group_with_a_name/of_the_instrument/cube_number_{number}" for number in range(9)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in names:
            file[name] = STORED
    with pytest.raises(ChoiceNeeded) as question:
        read_cube(tmp_path / "a.h5")
    assert f"{names[0]} 4x6x7" in str(question.value)
    assert len(str(question.value)) < 300
    assert question.value.choices == {name: f"{name}: 4 x 6 x 7" for name in names}


@pytest.mark.usefixtures("apart")
def test_both_axes_that_may_be_of_the_bands_are_described(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["cube"] = np.ones((4, 4, 6))
    with pytest.raises(ChoiceNeeded) as question:
        read_cube(tmp_path / "a.h5")
    described = {-1: "last: 6 bands of 4 x 4", 0: "first: 4 bands of 4 x 6"}
    assert (question.value.option, question.value.choices) == ("band_axis", described)


@pytest.mark.parametrize("name", ["wavelength_um", "Band_Wavelengths_um", "CentralWavelengthsUm"])
def test_other_names_of_wavelengths_may_end_in_their_unit(tmp_path: Path, name: str) -> None:
    cube = {"a": np.moveaxis(STORED, 0, -1), name: WAVELENGTHS / 1000}
    savemat(tmp_path / "a.mat", {**cube, "wavelength_error_um": np.ones(4)})
    found = read_cube(tmp_path / "a.mat")
    assert found.wavelengths.tolist() == WAVELENGTHS.tolist()
    assert found.shape == STORED.shape


def test_a_struct_of_matlab_holds_cube_wavelengths_and_scale(tmp_path: Path) -> None:
    struct = {
        "DataCube": np.moveaxis(STORED, 0, -1),
        "Wavelength": WAVELENGTHS / 1000,
        "WavelengthUnits": "Micrometers",
        "ReflectanceScaleFactor": 100.0,
        "DataIgnoreValue": -1.0,
    }
    savemat(tmp_path / "a.mat", {"s": struct})
    for variable in (None, "s/DataCube"):
        cube = read_cube(tmp_path / "a.mat", variable=variable)
        wanted = np.where(STORED == -1, np.nan, STORED / 100)
        assert_allclose(cube.data, wanted, rtol=1e-6)
        assert_allclose(cube.wavelengths, WAVELENGTHS)
        assert cube.quantity == "reflectance"


@pytest.mark.parametrize("name", ["a.mat", "a.h5", "a.tif", "a.zarr", "a.npz", "a.npy"])
@pytest.mark.parametrize("key", ["cube", "rad"])
def test_the_shortest_axis_is_taken_for_the_bands_and_this_is_said(
    tmp_path: Path, name: str, key: str
) -> None:
    numbers, path = np.zeros((31, 40, 50), np.float32), tmp_path / name
    write: dict[str, Callable[[], object]] = {
        ".tif": lambda: tifffile.imwrite(path, numbers),
        ".npz": lambda: np.savez(path, **{key: numbers}),  # type: ignore[arg-type] # NumPy's stubs
        ".npy": lambda: np.save(path, numbers),
        ".zarr": lambda: xarray.Dataset({key: (("a", "b", "c"), numbers)}).to_zarr(
            path, consolidated=False
        ),
    }

    def in_hdf5() -> None:
        with h5py.File(path, "w") as file:
            file[key] = numbers

    write.get(path.suffix, in_hdf5)()
    cube = read_cube(path)
    assert cube.shape == (31, 40, 50)
    assert any("first axis, the shortest" in each for each in cube.metadata["warnings"])
    asked = read_cube(path, band_axis=-1)
    assert asked.shape == (50, 31, 40)
    assert not any("shortest" in each for each in asked.metadata["warnings"])
    told = read_cube(path, wavelengths=np.linspace(400, 700, 50).tolist())
    assert told.shape == (50, 31, 40)
    assert "warnings" not in told.metadata


def test_wavelengths_and_their_unit_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, data=STORED, wl=WAVELENGTHS / 1000)
    assert read_cube(path).unit == "Unknown"
    assert_allclose(read_cube(path, unit="um").wavelengths, WAVELENGTHS)
    given = read_cube(path, wavelengths=slice(0.4, 0.7), unit="um", scale=0.01)
    assert_allclose(given.wavelengths, WAVELENGTHS)
    assert_allclose(given.data, STORED / 100, rtol=1e-6)
    np.savez(path, data=STORED, wavelengths=WAVELENGTHS)
    faults: tuple[tuple[dict[str, Any], str], ...] = (
        ({"wavelengths": [1.0, 2.0]}, "Expected 4 wavelengths, got 2"),
        ({"wavelengths": slice(0, 4)}, "above 0"),
        ({"wavelengths": slice(400, 700), "unit": "eV"}, "a unit of length"),
        ({"scale": -1.0}, "a scale above 0"),
    )
    for options, fault in faults:
        with pytest.raises(CubeFileError, match=fault):
            read_cube(path, **options)


@pytest.mark.parametrize(
    ("said", "listed", "meant"),
    [("Micrometers", "450, 550, 650, 850", "nm"), ("Nanometers", "0.45, 0.55, 0.65, 0.85", "um")],
)
def test_a_header_with_the_unit_of_another_file_is_not_believed(
    tmp_path: Path, said: str, listed: str, meant: str
) -> None:
    lines = ["ENVI", "samples = 7", "lines = 6", "bands = 4", "data type = 1", "interleave = bsq"]
    lines += [f"wavelength units = {said}", f"wavelength = {{{listed}}}"]
    (tmp_path / "a.hdr").write_text("\n".join(lines))
    (tmp_path / "a.img").write_bytes(bytes(4 * 6 * 7))
    cube = read_cube(tmp_path / "a.hdr")
    assert cube.wavelengths.tolist() == [450, 550, 650, 850]
    assert f"in {meant}, although the file says {said}" in cube.metadata["warnings"][0]


def test_an_axis_of_one_time_falls_away(tmp_path: Path) -> None:
    at = {"wavelength": ("wavelength", [0.4, 0.5, 0.7], {"units": "um"})}
    stored = FLOATS[None, :, :, :3]
    array = xarray.DataArray(stored, at, ("time", "y", "x", "wavelength"), "r")
    array.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    chunked = {"chunksizes": (1, 2, 2, 2)}
    array.to_netcdf(tmp_path / "b.nc", engine="h5netcdf", encoding={"r": chunked})
    array.to_zarr(tmp_path / "a.zarr", consolidated=False)
    for name in ("a.nc", "b.nc", "a.zarr"):
        cube = read_cube(tmp_path / name)
        assert_array_equal(cube.data, np.moveaxis(stored[0], -1, 0))
        assert cube.wavelengths.tolist() == [400, 500, 700]


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize(
    "items",
    [
        {"WAVELENGTH": 0.4, "WAVELENGTH_UNITS": "Micrometers"},
        {"center_wavelength": 400},
        {"CENTRAL_WAVELENGTH_NM": 400, "FWHM": 10},
    ],
)
def test_items_of_gdal_name_wavelengths_in_other_spellings(
    tmp_path: Path, items: dict[str, Any]
) -> None:
    path = tmp_path / "a.tif"
    options: dict[str, Any] = {"width": 7, "height": 6, "count": 4, "dtype": "float32"}
    with rasterio.open(path, "w", driver="GTiff", **options) as judge:
        judge.write(FLOATS)
        for band in range(4):
            first, *others = items.items()
            at = f"{first[1] * (1 + band / 4):g}"
            judge.update_tags(band + 1, **dict(others), **{first[0]: at})
    assert read_cube(path).wavelengths.tolist() == WAVELENGTHS.tolist()


@pytest.mark.parametrize("word", ["band", "channel", "spectral"])
def test_the_coordinate_of_the_bands_in_a_unit_of_length_is_their_wavelength(
    tmp_path: Path, word: str
) -> None:
    at = {word: (word, [0.4, 0.5, 0.7], {"units": "um"})}
    array = xarray.DataArray(np.zeros((5, 4, 3), "f4"), at, ("y", "x", word), "r")
    array.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    array.to_zarr(tmp_path / "a.zarr", consolidated=False)
    for name in ("a.nc", "a.zarr"):
        cube = read_cube(tmp_path / name)
        assert (cube.shape, cube.wavelengths.tolist()) == ((3, 5, 4), [400, 500, 700])
