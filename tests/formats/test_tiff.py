"""TIFF stacks against GDAL (rasterio) and tifffile: we read theirs, and they read ours."""

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rasterio
import rasterio.shutil
import tifffile
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from PIL import Image, ImageSequence
from tests.formats.conftest import bad_input, refuse

from napari_mst.base.errors import SaveError
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.cube.lazy import Lazy
from napari_mst.formats import find_format, numbers, read_cube, write_cube
from napari_mst.formats.cube_record import CHANGED
from napari_mst.formats.tiff import reading, writing
from napari_mst.photo.planes import whole_series

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
WAVELENGTHS = np.linspace(400.0, 700.123456789, 31)
DATA = np.arange(31 * 50 * 40, dtype=np.float32).reshape(31, 50, 40)
FIELDS = {
    "description": "caf\xe9 <&> {x}\n",
    "band names": tuple(f"<{i}>\x01" for i in range(31)),
    "fwhm": (1.5,) * 31,
}
CUBE = SpectralCube(
    DATA, WAVELENGTHS, provenance=Provenance("m", versions={"a": "1"}), metadata=FIELDS
)


def test_tifffile_reads_what_we_save(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "a.tif", CUBE)
    assert read_cube(path).metadata == FIELDS
    with tifffile.TiffFile(path) as judge:
        assert judge.series[0].axes == "CYX"
        assert np.array_equal(judge.asarray(), DATA)
        assert not judge.is_bigtiff
        # libvips mixes the bands of longer strips.
        assert judge.pages.first.rowsperstrip == 1


def test_gdal_reads_31_bands_with_wavelengths(tmp_path: Path) -> None:
    cube = SpectralCube(DATA, WAVELENGTHS, metadata={"data ignore value": 7.0, "fwhm": (2.5,) * 31})
    with rasterio.open(write_cube(tmp_path / "a.tif", cube)) as judge:
        assert np.array_equal(judge.read(), DATA)
        assert [
            float(judge.tags(band)["wavelength"]) for band in judge.indexes
        ] == WAVELENGTHS.tolist()
        assert judge.tags(31, ns="IMAGERY") == {
            "CENTRAL_WAVELENGTH_UM": "0.700123457",
            "FWHM_UM": "0.0025",
        }
        assert judge.descriptions[0] == "400 nm"
        assert judge.nodata == 7.0


def test_imagej_has_a_page_a_band_with_its_wavelength(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "a.imagej.tif", SpectralCube(DATA, WAVELENGTHS))
    with tifffile.TiffFile(path) as judge:
        found = judge.imagej_metadata or {}
        assert (len(judge.pages), found["channels"], found["images"]) == (31, 31, 31)
        assert found["Labels"][:2] == ["400 nm", "410.004 nm"]
        assert np.array_equal(judge.asarray(), DATA)
    with Image.open(path) as picture:
        for band, page in enumerate(ImageSequence.Iterator(picture)):
            assert np.array_equal(np.asarray(page), DATA[band])
    with pytest.raises(SaveError, match=r"numbers that a \.imagej\.tif file can hold"):
        write_cube(tmp_path / "b.imagej.tif", SpectralCube(DATA.astype("f8"), WAVELENGTHS))


IMAGEJ = shutil.which("imagej")
MACRO = """
open(getArgument());
getDimensions(w, h, c, z, t);
setSlice(2);
print(w, h, c * z * t, bitDepth(), getInfo("slice.label"), getPixel(3, 4));
"""


@pytest.mark.skipif(IMAGEJ is None, reason="ImageJ is not installed")
@pytest.mark.parametrize(("kind", "depth"), [("f4", 32), ("u2", 16), ("u1", 8)])
def test_imagej_opens_what_we_save_for_it(tmp_path: Path, kind: str, depth: int) -> None:
    cube = SpectralCube((DATA % 256).astype(kind), WAVELENGTHS)
    path = write_cube(tmp_path / "a.imagej.tif", cube)
    (tmp_path / "look.ijm").write_text(MACRO)
    command = [str(IMAGEJ), "-b", str(tmp_path / "look.ijm"), str(path)]
    # Debian's script ends with 1 whatever happens.
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (
        done.stdout.splitlines()[-1].split()
        == f"40 50 31 {depth} 410.004 nm {int(cube.data[1, 4, 3])}".split()
    )


def test_the_names_of_imagej_and_ome_are_read(tmp_path: Path) -> None:
    names = ["red edge", "blue"]
    imagej: dict[str, Any] = {"imagej": True, "metadata": {"axes": "CYX", "Labels": names}}
    ome: dict[str, Any] = {"ome": True, "metadata": {"axes": "CYX", "Channel": {"Name": names}}}
    for options in (imagej, ome):
        tifffile.imwrite(tmp_path / "a.tif", DATA[:2], photometric="minisblack", **options)
        assert read_cube(tmp_path / "a.tif").metadata["band names"] == tuple(names)


@pytest.mark.parametrize("interleave", ["band", "pixel"])
@pytest.mark.parametrize(
    "dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "c8"]
)
def test_what_gdal_writes_is_read_exactly(tmp_path: Path, dtype: str, interleave: str) -> None:
    data = (np.arange(5 * 6 * 7).reshape(5, 6, 7) - 90).astype(dtype)
    profile = {
        "count": 5,
        "height": 6,
        "width": 7,
        "dtype": data.dtype,
        "interleave": interleave,
        "BIGTIFF": "YES",
    }
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", nodata=3, **profile) as judge:
        judge.write(data)
        for band in judge.indexes:
            judge.update_tags(band, wavelength=str(band / 10), wavelength_units="Micrometers")
    cube = read_cube(tmp_path / "a.tif")
    assert np.array_equal(cube.data, np.abs(data) if dtype == "c8" else data)
    assert cube.data.flags.c_contiguous
    assert cube.wavelengths.tolist() == [100, 200, 300, 400, 500]
    assert cube.metadata["data ignore value"] == 3


def test_what_gdal_derives_from_our_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    source = write_cube(tmp_path / "a.tif", CUBE)
    with rasterio.open(source) as judge:
        profile = judge.profile | {"count": 2, "photometric": "minisblack"}
        with rasterio.open(tmp_path / "b.tif", "w", **profile) as derived:
            derived.write(DATA[3:5] + 1)
            derived.update_tags(**judge.tags())
            for band in (1, 2):
                derived.update_tags(band, **judge.tags(band + 3))
    cube = read_cube(tmp_path / "b.tif")
    assert np.array_equal(cube.data, DATA[3:5] + 1)
    assert cube.wavelengths.tolist() == WAVELENGTHS[3:5].tolist()
    assert (cube.provenance, CHANGED in cube.metadata["warnings"]) == (Provenance(), True)


def test_a_huge_file_is_a_big_tiff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "CLASSIC_BYTES", 1000)
    with tifffile.TiffFile(write_cube(tmp_path / "big.tif", CUBE)) as judge:
        assert judge.is_bigtiff


@bad_input("037-truncated")
def test_refuse_truncated(tmp_path: Path) -> None:
    path = write_cube(tmp_path / "cut.tif", CUBE)
    whole = path.read_bytes()
    for part in (0.05, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(len(whole) * part)])
        refuse(path, "cut.tif")


@pytest.mark.parametrize("level", ["L1C", "L2A"])
def test_the_metadata_of_enmap_describe_its_image(tmp_path: Path, level: str) -> None:
    stored = np.random.default_rng(0).integers(0, 9999, (4, 6, 8)).astype("i2")
    stored[:, 0, 0] = -32768
    path = tmp_path / f"ENMAP01-____{level}-DT0001_20220724T104526Z-SPECTRAL_IMAGE.TIF"
    place = rasterio.Affine(30, 0, 5e5, 0, -30, 4e6)
    profile = {"crs": "EPSG:32633", "transform": place, "dtype": "int16"}
    with rasterio.open(path, "w", count=4, height=6, width=8, driver="GTiff", **profile) as file:
        file.write(stored)
    gains = [1e-4] * 4 if level == "L2A" else [0.01, 0.02, 0.03, 0.04]
    offset = 0 if level == "L2A" else -0.5
    bands = "".join(
        f'<bandID number="{at + 1}"><wavelengthCenterOfBand>{418.416 + 100 * at}'
        f"</wavelengthCenterOfBand><FWHMOfBand>6.9</FWHMOfBand><GainOfBand>{gain}</GainOfBand>"
        f"<OffsetOfBand>{offset}</OffsetOfBand></bandID>"
        for at, gain in enumerate(gains)
    )
    Path(str(path).replace("SPECTRAL_IMAGE.TIF", "METADATA.XML")).write_text(
        f"<level_X><base><level>{level}</level></base><specific><backgroundValue>-32768"
        f"</backgroundValue><bandCharacterisation>{bands}</bandCharacterisation></specific></level_X>"
    )
    cube = read_cube(path)
    wanted = stored * np.array(gains)[:, None, None] + offset
    wanted[:, 0, 0] = np.nan
    assert_allclose(cube.data, wanted, rtol=1e-6)
    assert_allclose(cube.wavelengths, 418.416 + 100 * np.arange(4))
    assert (cube.unit, cube.metadata["fwhm"]) == ("nm", (6.9,) * 4)
    assert cube.quantity == ("reflectance" if level == "L2A" else "")
    assert "warnings" not in cube.metadata
    found = Georeference.from_json(cube.metadata[FIELD])
    assert found is not None
    assert (found.code, found.transform) == (32633, place[:6])


LAYOUTS: list[dict[str, Any]] = [
    {"planarconfig": "separate", "compression": "zlib", "predictor": True, "rowsperstrip": 7},
    {"planarconfig": "contig", "compression": "zlib", "tile": (16, 32)},
    {"planarconfig": "separate", "tile": (16, 32)},
    {"compression": "zlib", "rowsperstrip": 20},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_tiles_and_strips_are_read_where_they_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: dict[str, Any]
) -> None:
    monkeypatch.setattr(numbers, "LAZY_BYTES", 100)
    wanted = np.random.default_rng(0).integers(0, 99, (9, 50, 70)).astype("u2")
    is_contig = layout.get("planarconfig") == "contig"
    stored = np.moveaxis(wanted, 0, -1) if is_contig else wanted
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, stored, photometric="minisblack", **layout)
    cube = read_cube(path)
    assert isinstance(cube.data, Lazy)
    assert_array_equal(cube.data, wanted)
    assert_array_equal(cube.data[:, 49, 69], wanted[:, 49, 69])
    assert_array_equal(cube.data[3:5, ::-3], wanted[3:5, ::-3])


@bad_input("037-planes")
def test_refuse_lost_planes(tmp_path: Path) -> None:
    tifffile.imwrite(
        tmp_path / "a.tif",
        DATA[0],
        description="ImageJ=1.11a\nimages=31\nchannels=31\n",
        metadata=None,
    )
    refuse(tmp_path / "a.tif", "Expected 31 planes in a.tif, got 1")


@bad_input("038-axis")
def test_find_the_band_axis(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    for data, options in (
        (DATA, {"photometric": "minisblack"}),
        (DATA, {"photometric": "minisblack", "planarconfig": "separate"}),
        (DATA, {"imagej": True}),
        (np.moveaxis(DATA, 0, 2), {"photometric": "minisblack", "planarconfig": "contig"}),
        (np.moveaxis(DATA, 0, 2), {"photometric": "minisblack"}),
        (np.moveaxis(DATA, 0, 2), {"photometric": "rgb"}),
        # Bands last by their letter, though each page is a row.
        (np.moveaxis(DATA, 0, 2), {"photometric": "minisblack", "metadata": {"axes": "YXC"}}),
        (
            DATA[:, :, :9],
            {"photometric": "minisblack", "metadata": {"wavelength": WAVELENGTHS.tolist()}},
        ),
    ):
        tifffile.imwrite(path, data, **options)
        bands = DATA[:, :, :9] if data.shape[2] == 9 else DATA
        assert np.array_equal(read_cube(path).data, bands)
    tifffile.imwrite(path, DATA[:, :31, :31])
    refuse(path, "Say which: band_axis=0 or -1")
    assert np.array_equal(read_cube(path, band_axis=-1).data, np.moveaxis(DATA[:, :31, :31], 2, 0))
    tifffile.imwrite(
        path, np.zeros((2, 3, 4, 5), "u1"), photometric="minisblack", metadata={"axes": "TZYX"}
    )
    refuse(path, "one stack of bands")


@bad_input("039-bands")
def test_accept_few_bands(tmp_path: Path) -> None:
    for bands in (1, 3, 4):
        cube = SpectralCube((DATA[:bands] % 256).astype("u1"), WAVELENGTHS[:bands])
        again = read_cube(write_cube(tmp_path / "a.tif", cube, overwrite=True))
        assert np.array_equal(again.data, cube.data)
        assert "warnings" not in again.metadata
        tifffile.imwrite(tmp_path / "b.tif", cube.data, photometric="minisblack", planarconfig=None)
        assert read_cube(tmp_path / "b.tif").shape == cube.shape


@bad_input("040-codec")
def test_name_the_missing_codec(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", DATA, compression="zlib", predictor=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.startswith(("imagecodecs", "tifffile"))]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "imagecodecs", None)
        refuse(tmp_path / "a.tif", "pip install imagecodecs")


@bad_input("041-bomb")
def test_refuse_bombs(tmp_path: Path) -> None:
    tifffile.imwrite(
        tmp_path / "a.tif",
        np.zeros((31, 2000, 2000), "u1"),
        compression="zlib",
        photometric="minisblack",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SMALL_BYTES", 0)
        patch.setattr(reading, "COMPRESSION_RATIO", 100)
        refuse(tmp_path / "a.tif", "got 124000000 declared")
    plain: dict[str, Any] = {"compression": "zlib", "photometric": "minisblack", "metadata": None}
    tifffile.imwrite(tmp_path / "c.tif", np.zeros((2, 64, 64), "u1"), **plain)
    with tifffile.TiffFile(tmp_path / "c.tif", mode="r+") as file:
        for page in file.pages:
            page.aspage().tags["ImageLength"].overwrite(2**20)
    refuse(tmp_path / "c.tif", "at most 67108864 bytes of numbers in c.tif, got 134217728 declared")
    tifffile.imwrite(
        tmp_path / "b.tif", DATA, photometric="minisblack", planarconfig="separate", metadata=None
    )
    with tifffile.TiffFile(tmp_path / "b.tif", mode="r+") as file:
        file.pages.first.tags["ImageLength"].overwrite(2**31)
    refuse(tmp_path / "b.tif", "b.tif")


@bad_input("037-chain")
def test_refuse_a_chain_of_pages_that_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    for flavour in ({}, {"bigtiff": True}, {"byteorder": ">"}):
        tifffile.imwrite(path, DATA[:5], photometric="minisblack", metadata=None, **flavour)
        whole = path.read_bytes()
        assert read_cube(path).shape == (5, 50, 40)
        with tifffile.TiffFile(path) as file:
            form, offsets = file.tiff, [page.offset for page in file.pages]
        links = [
            offset
            + form.tagnosize
            + struct.unpack_from(form.tagnoformat, whole, offset)[0] * form.tagsize
            for offset in offsets
        ]
        for link, target, match in (
            (links[1], offsets[0], "returns to byte"),
            (links[1], offsets[1], "returns to byte"),
            (links[4], offsets[2], "returns to byte"),
            (links[1], len(whole) + 1000, "beyond the end"),
            (links[1], len(whole) - 1, "beyond the end"),
        ):
            damaged = bytearray(whole)
            struct.pack_into(form.offsetformat, damaged, link, target)
            path.write_bytes(damaged)
            refuse(path, match)


@bad_input("041-entities")
def test_read_no_entities(tmp_path: Path) -> None:
    """Believe no XML that declares an entity: it can expand without end, or name a file."""
    path = tmp_path / "a.tif"
    declared = '<!DOCTYPE x [<!ENTITY w "455">]>'
    item = '<Item name="wavelength" sample="{}">{}</Item>'
    items = "".join(
        item.format(band, wavelength) for band, wavelength in enumerate(("400", "&w;", "500"))
    )
    xml = f"<GDALMetadata>{items}</GDALMetadata>"
    for text, wavelengths in (
        (xml.replace("&w;", "455"), [400, 455, 500]),
        (declared + xml, [0, 1, 2]),
    ):
        tifffile.imwrite(
            path,
            DATA[:3],
            metadata=None,
            photometric="minisblack",
            extratags=[(42112, 2, 0, text, True)],
        )
        assert read_cube(path).wavelengths.tolist() == wavelengths
    tifffile.imwrite(
        path,
        DATA[:3],
        ome=True,
        metadata={"axes": "CYX", "Channel": {"EmissionWavelength": [400, 455, 500]}},
    )
    with tifffile.TiffFile(path) as file:
        ome = file.ome_metadata or ""
    start, root = ome[: ome.index("<OME")], ome[ome.index("<OME") :]
    for text, wavelengths in (
        (ome, [400, 455, 500]),
        (start + declared + root.replace("455", "&w;"), [0, 1, 2]),
    ):
        tifffile.imwrite(path, DATA[:3], metadata=None, photometric="minisblack", description=text)
        assert read_cube(path).wavelengths.tolist() == wavelengths


@bad_input("037-type")
def test_refuse_a_type_of_numbers_that_cannot_be_read(tmp_path: Path) -> None:
    """tifffile only logs a tag of an unknown type: floats would be read as integers."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, DATA[:3], metadata=None, photometric="minisblack", planarconfig="separate"
    )
    with tifffile.TiffFile(path) as file:
        tag = file.pages.first.tags["SampleFormat"].offset
    damaged = bytearray(path.read_bytes())
    damaged[tag + 2] = 62
    path.write_bytes(damaged)
    refuse(path, "TiffTag 339")


UUIDS = [f"urn:uuid:{band:08}-1111-1111-1111-111111111111" for band in range(4)]


def ome_xml(band: int, named: str, planes: str = "0123", more: str = "") -> str:
    """OME-XML of the file of one *band* in a set of four, whose files are *named* so."""
    data = "".join(
        f'<TiffData FirstC="{plane}" IFD="0" PlaneCount="1">'
        f'<UUID FileName="{named.format(plane)}">{UUIDS[int(plane)]}</UUID></TiffData>'
        for plane in planes
    )
    return (
        f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{UUIDS[band]}">'
        f'{more}<Image ID="Image:0"><Pixels DimensionOrder="XYCZT" ID="Pixels:0" SizeC="4" '
        'SizeT="1" SizeX="40" SizeY="50" SizeZ="1" Type="float">'
        + "".join(f'<Channel ID="C:{at}" EmissionWavelength="{400 + at}"/>' for at in range(4))
        + f"{data}</Pixels></Image></OME>"
    )


def write_ome_set(folder: Path, named: str = "{}.ome.tif", **options: Any) -> Path:
    """A set of four bands, one in each file, as Bio-Formats writes it; the first of its files."""
    folder.mkdir(exist_ok=True)
    plain: dict[str, Any] = {"metadata": None, "photometric": "minisblack", **options}
    for band in range(4):
        text = ome_xml(band, named)
        tifffile.imwrite(folder / f"{band}.ome.tif", DATA[band], description=text, **plain)
    return folder / "0.ome.tif"


@pytest.mark.parametrize("compression", [None, "zlib", "lzw", "zstd"])
def test_a_set_of_one_file_a_channel_is_read_whole(tmp_path: Path, compression: str | None) -> None:
    cube = read_cube(write_ome_set(tmp_path, compression=compression))
    assert np.array_equal(cube.data, DATA[:4])
    assert cube.wavelengths.tolist() == [400, 401, 402, 403]


def test_each_plane_of_a_set_is_read_from_its_own_file(tmp_path: Path) -> None:
    """tifffile reads all from the first file where each plane would follow the one before."""
    path = write_ome_set(tmp_path)
    with tifffile.TiffFile(path) as file:
        start = file.pages.first.dataoffsets[0]
    for band in range(1, 4):
        place = start + band * DATA[band].nbytes
        other = tmp_path / f"{band}.ome.tif"
        other.write_bytes(other.read_bytes().ljust(place, b"\0") + DATA[band].tobytes())
        with tifffile.TiffFile(other, mode="r+") as file:
            file.pages.first.tags["StripOffsets"].overwrite(place)
    path.write_bytes(path.read_bytes() + b"text" * DATA[0].size)
    assert np.array_equal(read_cube(path).data, DATA[:4])


@bad_input("037-set")
def test_refuse_sets_that_are_not_whole(tmp_path: Path) -> None:
    """Give no zeros for planes that are missing, and no numbers from any other file."""
    for kind, compression in (("raw", None), ("zlib", "zlib")):
        path = write_ome_set(tmp_path / kind, compression=compression)
        (tmp_path / kind / "2.ome.tif").unlink()
        refuse(path, "planes in '2.ome.tif', which is not beside it")
        tifffile.imwrite(tmp_path / kind / "2.ome.tif", DATA[2], metadata=None)
        refuse(path, "planes in '2.ome.tif', which is of another set")
    outside = write_ome_set(tmp_path / "inside", f"..{'/'}{{}}.ome.tif")
    write_ome_set(tmp_path)
    refuse(outside, "planes in '../1.ome.tif', which is not beside it")
    write_ome_set(tmp_path / "absolute", f"{tmp_path}/{{}}.ome.tif")
    refuse(tmp_path / "absolute" / "0.ome.tif", "got planes in '.*beside it")
    same: dict[str, Any] = {"metadata": None, "photometric": "minisblack"}
    for planes in ("013", "0113"):
        text = re.sub("<UUID.*?</UUID>", "", ome_xml(0, "", planes))
        text = re.sub('FirstC="(.)" IFD="0"', r'FirstC="\1" IFD="\1"', text)
        tifffile.imwrite(tmp_path / "a.ome.tif", DATA[:4], description=text, **same)
        refuse(tmp_path / "a.ome.tif", "got 3 of 4 planes")
    more = f'<BinaryOnly MetadataFile="0.ome.tif" UUID="{UUIDS[0]}"/>'
    tifffile.imwrite(tmp_path / "a.ome.tif", DATA[1], description=ome_xml(1, "", more=more), **same)
    refuse(tmp_path / "a.ome.tif", "a part of the set that '0.ome.tif' describes")
    tifffile.imwrite(
        tmp_path / "1.ome.tif", DATA[1] > 0, description=ome_xml(1, "{}.ome.tif"), **same
    )
    refuse(tmp_path / "0.ome.tif", "planes of several sizes or types")


def test_planes_that_micro_manager_never_wrote_are_missed() -> None:
    """Its index gives them the place 0, and tifffile gives zeros."""
    file = SimpleNamespace(filehandle=SimpleNamespace(path="a.tif"))
    plane = SimpleNamespace(offset=8, shape=(2, 2), dtype=DATA.dtype, parent=file)
    unwritten = SimpleNamespace(**vars(plane) | {"offset": 0})
    stack = SimpleNamespace(kind="mmstack", pages=[plane, unwritten])
    with pytest.raises(ValueError, match="1 of 2 planes"):
        whole_series(SimpleNamespace(ome_metadata=None, series=[stack]))  # type: ignore[arg-type]


@bad_input("042-photo")
def test_refuse_photos(tmp_path: Path) -> None:
    photo = np.zeros((20, 30, 3), "u1")
    for data, options in (
        (photo, {}),
        (np.zeros((20, 30, 4), "u2"), {"photometric": "rgb"}),
        (np.zeros((3, 20, 30), "u1"), {"photometric": "rgb", "planarconfig": "separate"}),
        (photo[..., 0], {"photometric": "palette", "colormap": np.zeros((3, 256), "u2")}),
    ):
        tifffile.imwrite(tmp_path / "a.tif", data, **options)
        refuse(tmp_path / "a.tif", "a spectral cube in a.tif, got a colour photo")


@bad_input("062-other")
def test_refuse_other_contents(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    for content in (b"", b"<html>", b"II*\0", b"II*\0\xff\xff\xff\xff"):
        path.write_bytes(content)
        assert (find_format(path) is None) == (not content.startswith(b"II"))
        refuse(path, "a.tif")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS sets no limits of memory")
def test_a_stack_that_does_not_fit_into_memory_is_not_called_damaged(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="limits of memory are a thing of POSIX")
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, np.zeros((31, 1000, 1000), "f4"), compression="zlib", photometric="minisblack"
    )
    code = f"""
import resource, psutil, tifffile, imagecodecs, scipy, h5py
from napari_mst.base.errors import OutOfMemory
from napari_mst.formats import read_cube
resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + 2**26,) * 2)
try:
    read_cube({str(path)!r})
except OutOfMemory as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Expected memory for a.tif, got too little. Close other programs.\n"


def foreign_tiff(path: Path, **options: Any) -> NDArray[np.uint16]:
    data = np.arange(4 * 6 * 7, dtype=np.uint16).reshape(4, 6, 7)
    tifffile.imwrite(
        path, data, photometric="minisblack", planarconfig="separate", metadata=None, **options
    )
    return data


HEADER = """ENVI
samples = 7
lines = 6
bands = 4
data type = 12
interleave = bsq
wavelength units = Micrometers
wavelength = {0.4, 0.5, 0.6, 0.7}
fwhm = {0.01, 0.01, 0.02, 0.02}
"""
SCALING = "reflectance scale factor = 10000\ndata ignore value = 5\n"
SCALED = HEADER + SCALING


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a.hdr", SCALED),
        ("a.HDR", SCALED + "file type = TIFF\n"),
        ("a.tif.hdr", SCALED),
        ("a.hdr", f"ENVI\n{SCALING}"),
    ],
)
def test_a_header_beside_a_tiff_is_used(tmp_path: Path, name: str, header: str) -> None:
    data = foreign_tiff(tmp_path / "a.tif")
    (tmp_path / name).write_text(header)
    cube = read_cube(tmp_path / "a.tif")
    expected = np.where(data == 5, np.nan, data / np.float64(10000)).astype(np.float32)
    assert_array_equal(cube.data, expected)
    assert cube.quantity == "reflectance"
    assert cube.metadata["applied scaling"] == "reflectance scale factor 10000"
    if "wavelength" in header:
        assert (cube.wavelengths.tolist(), cube.unit) == ([400, 500, 600, 700], "nm")
        assert cube.metadata["fwhm"] == (10, 10, 20, 20)
        assert "warnings" not in cube.metadata
    as_stored = read_cube(tmp_path / "a.tif", scale=False)
    assert_array_equal(as_stored.data, data)
    assert as_stored.metadata["data ignore value"] == 5


def test_a_header_of_another_image_is_not_used_for_a_tiff(tmp_path: Path) -> None:
    data = foreign_tiff(tmp_path / "a.tif")
    (tmp_path / "a.hdr").write_text(SCALED)
    (tmp_path / "a.img").write_bytes(data.tobytes())
    assert_array_equal(read_cube(tmp_path / "a.tif").data, data)
    (tmp_path / "a.img").unlink()
    for text, told in (
        (SCALED.replace("= 6", "= 60"), "another size"),
        (SCALED + "bbl = {", "damaged"),
    ):
        (tmp_path / "a.hdr").write_text(text)
        cube = read_cube(tmp_path / "a.tif")
        assert_array_equal(cube.data, data)
        assert any(told in warning for warning in cube.metadata["warnings"])
    (tmp_path / "a.hdr").write_text("#?RADIANCE")
    assert not any(
        "header" in warning for warning in read_cube(tmp_path / "a.tif").metadata["warnings"]
    )


def test_our_own_tiff_needs_no_header_beside_it(tmp_path: Path) -> None:
    cube = SpectralCube(foreign_tiff(tmp_path / "b.tif"), np.array([1.0, 2.0, 3.0, 4.0]))
    path = write_cube(tmp_path / "a.tif", cube)
    (tmp_path / "a.hdr").write_text(SCALED)
    again = read_cube(path)
    assert_array_equal(again.data, cube.data)
    assert again.wavelengths.tolist() == [1, 2, 3, 4]


def test_the_header_beside_a_tiff_counts_and_this_is_said(tmp_path: Path) -> None:
    text = '{"wavelengths": [1, 2, 3, 4], "wavelength_units": "nm"}'
    foreign_tiff(tmp_path / "a.tif", description=text)
    (tmp_path / "a.hdr").write_text(HEADER)
    cube = read_cube(tmp_path / "a.tif")
    assert cube.wavelengths.tolist() == [400, 500, 600, 700]
    said = "The wavelengths are those of the header beside the file."
    assert cube.metadata["warnings"] == (said,)


@pytest.mark.parametrize("description", ["[1, 2]", "31", '{"wavelength": 5}', "{"])
def test_json_of_others_that_lists_no_wavelengths_is_no_fault(
    description: str, tmp_path: Path
) -> None:
    tifffile.imwrite(
        tmp_path / "a.tif", np.zeros((9, 4, 5), np.float32), description=description, metadata=None
    )
    assert not read_cube(tmp_path / "a.tif", band_axis=0).has_wavelengths
