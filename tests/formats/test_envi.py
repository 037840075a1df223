"""ENVI rasters against GDAL (rasterio) and spectral: we read theirs, and they read ours."""

import itertools
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import rasterio
import spectral.io.envi as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_mst.base.arrays import Array
from napari_mst.base.errors import CubeFileError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.cube.lazy import Lazy
from napari_mst.formats import find_format, numbers, read_cube, write_cube
from napari_mst.formats.cube_record import CHANGED
from napari_mst.formats.envi.header import TYPES

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
NANOMETRES = np.array([400.0, 455.5, 512.123456789, 700.0])


def distinct_numbers(dtype: str, shape: tuple[int, ...] = (4, 5, 3)) -> Array:
    """Every value distinct, with the extremes of the type."""
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    info = np.iinfo(dtype) if values.dtype.kind in "iu" else np.finfo(dtype)
    values[0, 0, :2] = info.min, info.max
    return values + 1j * values if values.dtype.kind == "c" else values


LAYOUTS = list(itertools.product(TYPES, [0, 1], ["bsq", "bil", "bip"]))


@pytest.mark.parametrize(
    ("code", "byteorder", "interleave"),
    LAYOUTS,
    ids=[f"029-{TYPES[code]}-{o}-{i}" for code, o, i in LAYOUTS],
)
def test_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, byteorder: int, interleave: str
) -> None:
    expected = distinct_numbers(TYPES[code])
    path = tmp_path / "cube.hdr"
    oracle.save_image(
        path,
        np.moveaxis(expected, 0, 2),
        dtype=TYPES[code],
        interleave=interleave,
        byteorder=byteorder,
        ext=".raw",
    )
    with rasterio.open(tmp_path / "cube.raw") as judge:
        assert np.array_equal(judge.read(), expected)
    magnitude = np.abs(expected) if expected.dtype.kind == "c" else expected
    for lazy in (2**30, 0):
        monkeypatch.setattr(numbers, "LAZY_BYTES", lazy)
        cube = read_cube(path)
        assert cube.data.dtype.newbyteorder("=") == magnitude.dtype
        assert np.array_equal(cube.data, magnitude)
        assert isinstance(cube.data, Lazy) or cube.data.flags.c_contiguous


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", ">u2", "i4", "u4", "i8", "u8", "f2", "f4", ">f8"]
)
def test_what_we_write_is_read_exactly_by_gdal_and_spectral(tmp_path: Path, dtype: str) -> None:
    data = np.arange(60).reshape(4, 3, 5).swapaxes(1, 2).astype(dtype)
    path = write_cube(tmp_path / "cube.hdr", SpectralCube(data, NANOMETRES))
    with rasterio.open(path.with_suffix(".img")) as judge:
        assert np.array_equal(judge.read(), data)
        assert [
            float(judge.tags(band)["wavelength"]) for band in judge.indexes
        ] == NANOMETRES.tolist()
        assert judge.tags(1, ns="IMAGERY")["CENTRAL_WAVELENGTH_UM"] == "0.400"
    image = oracle.open(path)
    assert np.array_equal(np.moveaxis(image.open_memmap(), 2, 0), data)
    assert image.bands.centers == NANOMETRES.tolist()
    assert np.array_equal(read_cube(path).data, data)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(
    description=TEXT,
    names=st.lists(TEXT, min_size=2, max_size=2),
    key=NAMES,
    value=TEXT,
    source=TEXT,
)
def test_any_text_survives_and_injects_nothing(
    description: str, names: list[str], key: str, value: str, source: str
) -> None:
    fields = {key: value} | {"description": description, "band names": names}
    given_cube = SpectralCube(
        np.zeros((2, 1, 1), "f4"),
        np.array([400.0, 500.0]),
        provenance=Provenance(source=source),
        metadata=fields,
    )
    with tempfile.TemporaryDirectory() as folder:
        cube = read_cube(write_cube(Path(folder, "a.hdr"), given_cube))
        with rasterio.open(Path(folder, "a.img")) as judge:
            assert (judge.count, judge.width, judge.height) == (2, 1, 1)
    assert cube.shape == (2, 1, 1)
    assert cube.metadata.get("description", "") == description
    assert cube.metadata["band names"] == tuple(names)
    assert cube.provenance.source == source


def test_every_field_survives(tmp_path: Path) -> None:
    fields = {
        "description": "two\nlines",
        "band names": ("a, b", ""),
        "fwhm": (3.5, 4.0),
        "bbl": (1, 0),
        "default bands": (2, 1, 1),
        "data ignore value": -99.0,
        "map info": "{UTM, 1.000, 1.000, 612730.910, 4074488.708, 1.0, 1.0, 10, North, WGS-84, "
        "units=Meters}",
        "sensor type": "FENIX , Lumo",
        "applied scaling": "reflectance scale factor 10000",
    }
    provenance = Provenance(
        "mstpp-srgb", "ab" * 32, versions={"torch": "2"}, assumptions=("It was {sRGB}.",)
    )
    cube = SpectralCube(
        distinct_numbers("f4", (2, 3, 4)),
        np.array([460.0, 640.0]),
        "nm",
        "radiance",
        provenance,
        fields,
    )
    again = read_cube(write_cube(tmp_path / "a.hdr", cube))
    del fields["map info"]
    place = Georeference.from_json(again.metadata[FIELD])
    assert again.metadata == fields | {FIELD: again.metadata[FIELD]}
    assert place is not None
    assert (place.transform, place.code) == ((1, 0, 612730.91, 0, -1, 4074488.708), 32610)
    assert (again.provenance, again.quantity, again.unit) == (provenance, "radiance", "nm")
    with rasterio.open(tmp_path / "a.img") as judge:
        assert judge.nodata == -99.0
        assert judge.crs.to_epsg() == 32610


@pytest.mark.parametrize("unit", ["band", "Unknown", "Wavenumber", "\N{DEGREE SIGN} {x}"])
def test_a_unit_that_is_no_length_survives(tmp_path: Path, unit: str) -> None:
    cube = SpectralCube(np.zeros((3, 1, 2)), np.arange(3.0), unit)
    again = read_cube(write_cube(tmp_path / "a.hdr", cube))
    assert (again.unit, again.wavelengths.tolist()) == (unit, [0, 1, 2])


@pytest.mark.skipif("sys.platform == 'win32'", reason="Windows fills a sparse file with zeros")
def test_ten_gigabytes_open_at_once(tmp_path: Path) -> None:
    header = (
        "ENVI\nsamples=10000\nlines=8000\nbands=31\ndata type=4\nbyte order=0\ninterleave=bil\n"
    )
    (tmp_path / "big.hdr").write_text(header)
    with (tmp_path / "big.img").open("wb") as file:
        file.truncate(10000 * 8000 * 31 * 4)
    start = time.perf_counter()
    cube = read_cube(tmp_path / "big.hdr")
    assert cube.shape == (31, 8000, 10000)
    assert float(cube.data[30, 7999, 9999]) == 0
    assert time.perf_counter() - start < 5


REAL = {
    "enmap/cubus_gamsberg_subset.hdr": (189, 25, 10),
    "enmap/enmap_berlin.hdr": "one data file",
    "enmap/library_berlin.hdr": (
        "file type 'ENVI Standard' in library_berlin.hdr, got 'ENVI Spectral Library'"
    ),
    "hippo_specim/image.hdr": (450, 38, 23),
    "mvx/darkReference.hdr": (301, 1, 1020),
    "mvx/whiteReference.hdr": (301, 1, 1020),
    "plantcv/arcgis.hdr": "ENVI on the first line",
    "plantcv/corn-kernel-hyperspectral.hdr": (580, 31, 43),
    "plantcv/darkReference.hdr": "one data file",
    "plantcv/darkReference4.hdr": "interleave bsq, bil or bip in darkReference4.hdr, got 'bup'",
    "plantcv/darkReference_arcgis.hdr": "ENVI on the first line",
    "samson/Urban_F210.hdr": "one data file",
    "samson/samson_1.img.hdr": (156, 95, 95),
    "specim_fenix/Radiometric_8x2_1x1.hdr": (363, 1, 384),
    "specim_fenix/hypercloud.hdr": (
        "all required fields in hypercloud.hdr, got none for data type, interleave"
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_real_headers_end_as_the_catalogue_says(shared_data: Path, name: str) -> None:
    path, expected = shared_data / "envi" / name, REAL[name]
    assert (find_format(path) is None) == ("arcgis" in name)
    if isinstance(expected, str):
        with pytest.raises(CubeFileError, match=expected):
            read_cube(path)
        return
    cube = read_cube(path, scale=False)
    assert cube.shape == expected
    data = next(
        entry
        for entry in path.parent.iterdir()
        if entry.stem == path.stem.partition(".")[0] and entry != path
    )
    with rasterio.open(data) as judge:
        assert np.array_equal(cube.data, judge.read())
    if name == "hippo_specim/image.hdr":
        assert np.allclose(
            read_cube(path).data * 65535,
            np.where(cube.data == 0, np.nan, cube.data),
            equal_nan=True,
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("data type = 4", "data type = 3"),
        ("byte order = 0", "byte order = 1"),
        ("interleave = bsq", "interleave = bip"),
        ("samples = 3", "samples = 2"),
        ("700.0}", "710.0}"),
    ],
)
def test_a_header_of_ours_that_no_longer_fits_the_data_is_read_with_a_warning(
    tmp_path: Path, old: str, new: str
) -> None:
    path = write_cube(tmp_path / "a.hdr", SpectralCube(distinct_numbers("f4"), NANOMETRES))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert CHANGED in read_cube(path).metadata["warnings"]


def test_what_spectral_makes_of_our_file_is_read_with_a_warning(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "a.hdr", SpectralCube(distinct_numbers("f4"), NANOMETRES))
    image = oracle.open(path)
    oracle.save_image(
        tmp_path / "b.hdr", image, interleave="bip", byteorder=1, metadata=image.metadata
    )
    oracle.save_image(
        tmp_path / "c.hdr", image[:, :2], dtype="float32", byteorder=0, metadata=image.metadata
    )
    for name, expected in (
        ("b.hdr", distinct_numbers("f4")),
        ("c.hdr", distinct_numbers("f4")[:, :, :2]),
    ):
        cube = read_cube(tmp_path / name)
        np.testing.assert_array_equal(cube.data, expected)
        assert CHANGED in cube.metadata["warnings"]
