"""netCDF and HDF5 against xarray, h5py and GDAL, laid out as EMIT's reflectance is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import rasterio
import xarray
from numpy.testing import assert_allclose, assert_array_equal

from napari_mst.base.arrays import Array
from napari_mst.base.errors import CubeFileError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.cube.lazy import Lazy
from napari_mst.formats import numbers, read_cube, write_cube

RNG = np.random.default_rng(0)
PLACE = Georeference.of_code((30.0, 0, 5e5, 0, -30.0, 4e6), 32632, is_geographic=False)
CUBE = SpectralCube(
    RNG.random((5, 9, 7), dtype=np.float32),
    np.linspace(400, 700, 5),
    provenance=Provenance("m"),
    metadata={FIELD: PLACE.to_json(), "bbl": (1, 1, 0, 1, 1), "data ignore value": -1.0},
)


def test_xarray_and_gdal_read_what_we_write(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "a.nc", CUBE)
    array = xarray.open_dataarray(path, engine="h5netcdf")
    assert_array_equal(array.values, CUBE.data)
    assert_array_equal(array.wavelength, CUBE.wavelengths)
    assert array.wavelength.attrs["units"] == "nm"
    assert float(array.x[0]) == 5e5 + 15
    assert array.encoding["missing_value"] == -1
    with rasterio.open(f"netcdf:{path}:reflectance") as judge:
        assert_array_equal(judge.read(), CUBE.data)
        assert judge.transform[:6] == PLACE.transform
        assert judge.crs == rasterio.CRS.from_epsg(32632)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_gdal_reads_a_cube_without_a_place_upright(tmp_path: Path) -> None:
    bare = replace(CUBE, metadata={})
    path = write_cube(tmp_path / "a.nc", bare)
    with rasterio.open(f"netcdf:{path}:reflectance") as judge:
        assert_array_equal(judge.read(), bare.data)
    assert read_cube(path).metadata == {}


def test_metadata_survive_here_and_by_way_of_xarray(tmp_path: Path) -> None:
    direct = read_cube(write_cube(tmp_path / "a.nc", CUBE))
    array = CUBE.to_xarray()
    array.transpose("y", "x", "wavelength").to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    for cube in (direct, read_cube(tmp_path / "b.nc")):
        assert_array_equal(cube.data, CUBE.data)
        assert (cube.metadata, cube.provenance) == (CUBE.metadata, CUBE.provenance)


def test_what_another_program_derived_is_no_damage(tmp_path: Path) -> None:
    array = xarray.open_dataarray(write_cube(tmp_path / "a.nc", CUBE), engine="h5netcdf")
    (array * 2).assign_attrs(array.attrs).to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    assert_array_equal(read_cube(tmp_path / "b.nc").data, CUBE.data * 2)


def test_bands_without_wavelengths_come_first_whatever_their_number(tmp_path: Path) -> None:
    bare = SpectralCube(
        np.arange(9 * 4 * 3, dtype=np.int16).reshape(9, 4, 3), np.arange(9.0), "band", ""
    )
    cube = read_cube(write_cube(tmp_path / "a.nc", bare))
    assert_array_equal(cube.data, bare.data)
    assert not cube.has_wavelengths


def emit(path: Path, numbers: Array) -> Path:
    """As the granules of EMIT L2A are laid out (EMITL2ARFL, version 1)."""
    bands = numbers.shape[-1]
    with h5py.File(path, "w") as file:
        stored = file.create_dataset("reflectance", data=numbers, chunks=True, compression="gzip")
        stored.attrs["_FillValue"] = np.array([-9999.0], np.float32)
        stored.attrs["long_name"] = "Surface Reflectance"
        group = file.create_group("sensor_band_parameters")
        group["wavelengths"] = np.linspace(381, 2493, bands, dtype=np.float32)
        group["wavelengths"].attrs["units"] = "nm"
        group["fwhm"] = np.full(bands, 8.5, np.float32)
        group["good_wavelengths"] = (np.arange(bands) % 2).astype(np.float32)
        for name in ("lat", "lon", "elev"):
            file[f"location/{name}"] = RNG.random(numbers.shape[:2])
    return path


def test_emit_has_its_wavelengths_good_bands_and_fill_value(tmp_path: Path) -> None:
    numbers = RNG.random((20, 30, 12), dtype=np.float32)
    numbers[0, 0] = -9999
    cube = read_cube(emit(tmp_path / "EMIT_L2A_RFL.nc", numbers))
    assert_array_equal(cube.data, np.moveaxis(numbers, -1, 0))
    assert (cube.unit, cube.quantity) == ("nm", "reflectance")
    assert cube.wavelengths[0] == 381
    assert cube.metadata == {
        "fwhm": (8.5,) * 12,
        "bbl": (0, 1) * 6,
        "data ignore value": -9999,
    }


FILTERS: list[dict[str, Any]] = [
    {"compression": "gzip"},
    {"compression": "gzip", "shuffle": True, "fletcher32": True},
    {"compression": "lzf", "shuffle": True},
    {},
]


@pytest.mark.parametrize("userblock", [0, 512])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_chunks_are_read_where_they_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any], userblock: int
) -> None:
    monkeypatch.setattr(numbers, "LAZY_BYTES", 100)
    wanted = RNG.integers(0, 999, (20, 30, 6)).astype(">i2")
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=userblock) as file:
        stored = file.create_dataset("r", (20, 30, 6), ">i2", chunks=(8, 7, 4), **filters)
        stored[:16] = wanted[:16]
    with (tmp_path / "a.h5").open("r+b") as raw:
        raw.write(b"MATLAB"[: userblock and None])
    path = (tmp_path / "a.h5").rename(tmp_path / ("a.mat" if userblock else "a.nc"))
    wanted[16:] = 0
    judge = h5py.File(path)["r"][()]
    assert_array_equal(judge, wanted)
    cube = read_cube(path, band_axis=0 if userblock else -1)
    assert isinstance(cube.data, Lazy)
    axes = (2, 1, 0) if userblock else (2, 0, 1)
    assert_array_equal(cube.data, judge.transpose(axes))
    assert_array_equal(cube.data[3:5, ::-2, 11], judge.transpose(axes)[3:5, ::-2, 11])
    assert "10 are not in the file" in cube.metadata["warnings"][0]


def test_a_chunk_that_is_damaged_later_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "LAZY_BYTES", 100)
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("r", data=RNG.random((5, 20, 30)), chunks=(5, 8, 8), fletcher32=True)
        place = file["r"].id.get_chunk_info_by_coord((0, 8, 8)).byte_offset
    damaged = bytearray(path.read_bytes())
    damaged[place + 9] ^= 1
    path.write_bytes(damaged)
    cube = read_cube(path)
    assert_array_equal(cube.data[:, 0, 0], h5py.File(path)["r"][:, 0, 0])
    with pytest.raises(CubeFileError, match="Expected a complete file"):
        cube.data[0, 9]


@pytest.mark.parametrize("way", ["WKT 2 behind coordinates", "WKT 1 of GDAL", "latitudes"])
def test_the_place_of_a_foreign_file_is_what_gdal_sees(tmp_path: Path, way: str) -> None:
    path = tmp_path / "a.nc"
    crs = rasterio.crs.CRS.from_epsg(4326 if way == "latitudes" else 32632)
    names = ("lat", "lon") if way == "latitudes" else ("y", "x")
    y, x = 48 - np.arange(20) * 3e-4, 11 + np.arange(30) * 3e-4
    if way != "latitudes":
        y, x = 4e6 - np.arange(20) * 30.0, 5e5 + np.arange(30) * 30.0
    wkt = crs.to_wkt(version="WKT2_2019" if "2" in way else "WKT1_GDAL")
    array = xarray.DataArray(
        RNG.random((5, 20, 30)),
        {"band": np.arange(5), names[0]: y, names[1]: x},
        ("band", *names),
        "r",
        {"grid_mapping": f"crs: {names[1]} {names[0]}" if "2" in way else "crs"},
    )
    for name, axis in zip(names, "yx", strict=True):
        array[name].attrs["standard_name"] = f"projection_{axis}_coordinate"
        if way == "latitudes":
            array[name].attrs |= {"units": f"degrees_{'north' if axis == 'y' else 'east'}"}
            array[name].attrs["standard_name"] = "latitude" if axis == "y" else "longitude"
    about = {"crs_wkt" if "2" in way else "spatial_ref": wkt}
    if way != "latitudes":
        about["grid_mapping_name"] = "transverse_mercator"
    dataset = array.to_dataset().assign(crs=((), np.int32(0), about))
    dataset.to_netcdf(path, engine="h5netcdf")
    place = Georeference.from_json(read_cube(path).metadata[FIELD])
    assert place is not None
    with rasterio.open(f"netcdf:{path}:r") as judge:
        assert_allclose(place.transform or (), judge.transform[:6], rtol=1e-9, atol=1e-9)
    assert place.code == crs.to_epsg()


SCALES = {"Vnir": (np.float32(-0.25), np.float32(0.25)), "Swir": (np.float32(0), np.float32(1))}
"""The reflectances that 0 and 65535 stand for in each cube of PRISMA."""


def prisma(path: Path, vnir: Array, swir: Array) -> Path:
    """As the products of PRISMA of level 2D are laid out (lines x bands x samples)."""
    with h5py.File(path, "w") as file:
        for name, cube, centres in (
            ("Vnir", vnir, [1000.0, 700.0, 400.0, 0.0]),
            ("Swir", swir, [2000.0, 1100.0, 950.0]),
        ):
            fields = file.require_group("HDFEOS/SWATHS/PRS_L2D_HCO/Data Fields")
            fields.create_dataset(f"{name.upper()}_Cube", data=cube, chunks=True, compression=4)
            fields[f"{name.upper()}_PIXEL_L2_ERR_MATRIX"] = np.zeros(cube.shape, "u1")
            file.attrs[f"List_Cw_{name}"] = np.array(centres, "f4")
            file.attrs[f"List_Fwhm_{name}"] = np.array(centres, "f4") / 100
            file.attrs[f"L2Scale{name}Min"], file.attrs[f"L2Scale{name}Max"] = SCALES[name]
        file.attrs["Epsg_Code"] = np.int64(32632)
        for corner, x, y in (("UL", 0, 0), ("LR", 29, 19)):  # centres of pixels
            file.attrs[f"Product_{corner}corner_easting"] = np.float32(5e5 + 30 * x)
            file.attrs[f"Product_{corner}corner_northing"] = np.float32(4e6 - 30 * y)
    return path


@pytest.mark.parametrize("most", [100, 2**28], ids=["lazy", "in memory"])
def test_prisma_gives_one_cube_of_both_spectrometers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(numbers, "LAZY_BYTES", most)
    vnir, swir = (RNG.integers(1, 65535, (20, bands, 30)).astype("u2") for bands in (4, 3))
    vnir[0, :, 0] = 0
    cube = read_cube(prisma(tmp_path / "PRS_L2D_STD_20200101.he5", vnir, swir))
    assert isinstance(cube.data, Lazy) == (most == 100)
    assert_array_equal(cube.wavelengths, [400, 700, 1000, 1100, 2000])
    near = [vnir[:, at] / 131070 - 0.25 for at in (2, 1, 0)]
    wanted = np.array([*near, swir[:, 1] / 65535, swir[:, 0] / 65535])
    wanted[:3, 0, 0] = np.nan
    assert_allclose(cube.data, wanted, rtol=1e-6)
    assert_allclose(cube.spectrum(3, 4).values, wanted[:, 3, 4], rtol=1e-6)
    assert cube.quantity == "reflectance"
    assert_allclose(cube.metadata["fwhm"], cube.wavelengths / 100)
    place = Georeference.from_json(cube.metadata[FIELD])
    assert place == replace(PLACE, transform=(30.0, 0, 5e5 - 15, 0, -30.0, 4e6 + 15))


def test_older_and_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "old.nc").write_bytes(b"CDF\x01" + bytes(100))
    with pytest.raises(CubeFileError, match="nccopy -k nc4"):
        read_cube(tmp_path / "old.nc")
    whole = write_cube(tmp_path / "a.nc", replace(CUBE, metadata={})).read_bytes()
    (tmp_path / "torn.nc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CubeFileError, match="complete netCDF-4"):
        read_cube(tmp_path / "torn.nc")
