"""Georeferences of GeoTIFF photos in cubes, ENVI and TIFF, judged by GDAL (rasterio)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import spectral.io.envi as oracle
import tifffile
from rasterio.transform import Affine

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.georeference import (
    FIELD,
    KEY_DIRECTORY,
    PIXEL_SCALE,
    TIE_POINTS,
    TRANSFORMATION,
    Georeference,
)
from napari_mst.formats import read_cube, write_cube
from napari_mst.formats.envi.georeference import read_from_envi
from napari_mst.photo.photo import Photo

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings(
        "ignore:Use `@` matmul:PendingDeprecationWarning"
    ),  # rasterio itself does not yet
]
RGB = np.random.default_rng(0).integers(0, 256, (3, 6, 8), dtype=np.uint8)
PROFILE = {"count": 3, "height": 6, "width": 8, "dtype": "uint8"}
ENVI = {"driver": "ENVI", **PROFILE}
WAVELENGTHS = np.array([460.0, 550.0, 640.0])


def from_origin(x: float, y: float, width: float, height: float) -> Affine:
    return Affine(width, 0, x, 0, -height, y)


NORTH_UP = from_origin(500000.25, 5400000.5, 0.05, 0.1)
TURNED = Affine.translation(500000, 5400000) @ Affine.rotation(30) @ Affine.scale(0.05, -0.05)
SOUTH_UP = Affine(0.05, 0, 500000, 0, 0.05, 5400000)
SHEARED = Affine(1, 0.2, 5, 0.1, -1, 7)
ZONE = "EPSG:32633"
BOTH_DEFINE = {
    "EPSG:32633": NORTH_UP,
    "EPSG:32733": NORTH_UP,
    "EPSG:3857": NORTH_UP,
    "EPSG:25833": NORTH_UP,
    "EPSG:26910": NORTH_UP,
    "EPSG:26710": NORTH_UP,
    "EPSG:4326": from_origin(15, 48, 1e-6, 2e-6),
    "EPSG:4269": from_origin(-100, 48, 1e-6, 2e-6),
    "EPSG:4258": from_origin(15, 48, 1e-6, 2e-6),
}


def geotiff(path: Path, crs: str | None, transform: Affine | None, **more: object) -> Path:
    options = {"driver": "GTiff", "photometric": "RGB", **PROFILE, **more}
    with rasterio.open(path, "w", **options, crs=crs, transform=transform) as judge:
        judge.write(RGB)
    return path


def cube_of(photo: Photo) -> SpectralCube:
    assert photo.georeference is not None
    return SpectralCube(photo.pixels, WAVELENGTHS, metadata={FIELD: photo.georeference.to_json()})


def on_earth(path: Path) -> tuple[str | None, Affine]:
    """The coordinate system and transform that GDAL sees in a file of ours."""
    with rasterio.open(path.with_suffix(".img") if path.suffix == ".hdr" else path) as judge:
        crs = judge.crs.to_string() if judge.crs else None
        is_unknown = crs is not None and crs.startswith(
            'LOCAL_CS["Arbitrary"'
        )  # as GDAL says it of its own headers
        return None if is_unknown else crs, judge.transform


def assert_on_earth(path: Path, crs: str | None, transform: Affine) -> None:
    found_crs, found = on_earth(path)
    assert found_crs == crs
    assert found.almost_equals(transform, precision=1e-9)


@pytest.mark.parametrize(("crs", "transform"), BOTH_DEFINE.items())
def test_a_photo_keeps_its_place_through_both_formats(
    tmp_path: Path, crs: str, transform: Affine
) -> None:
    cube = cube_of(Photo.read(geotiff(tmp_path / "photo.tif", crs, transform)))
    for first, second in ((".hdr", ".tif"), (".tif", ".hdr")):
        once = write_cube(tmp_path / f"once{first}", cube)
        twice = write_cube(tmp_path / f"twice{second}", read_cube(once))
        for path in (once, twice):
            assert_on_earth(path, crs, transform)
            assert read_cube(path).metadata[FIELD] == cube.metadata[FIELD]
            assert "map info" not in read_cube(path).metadata


@pytest.mark.parametrize("crs", [*BOTH_DEFINE, "EPSG:2154", "EPSG:27700", "EPSG:3035", None])
def test_a_header_of_gdal_keeps_its_place_in_a_tiff(tmp_path: Path, crs: str | None) -> None:
    transform = BOTH_DEFINE.get(crs or "", NORTH_UP)
    with rasterio.open(tmp_path / "a.img", "w", **ENVI, crs=crs, transform=transform) as judge:
        judge.write(RGB)
    cube = read_cube(tmp_path / "a.hdr")
    for name in ("b.tif", "b.hdr"):
        assert_on_earth(write_cube(tmp_path / name, cube), crs, transform)
    assert read_cube(tmp_path / "b.tif").metadata == cube.metadata
    part = write_cube(tmp_path / "part.tif", cube.crop((2, 5), (4, 6)))
    assert_on_earth(part, crs, transform @ Affine.translation(4, 2))


def test_a_geographic_system_without_a_code_stays_geographic(tmp_path: Path) -> None:
    own = "+proj=longlat +a=6378000 +rf=300 +no_defs"
    place = Affine(0.1, 0, 15, 0, -0.1, 48)
    with rasterio.open(tmp_path / "a.img", "w", **ENVI, crs=own, transform=place) as judge:
        judge.write(RGB)
    cube = read_cube(tmp_path / "a.hdr")
    for name in ("b.tif", "c.hdr"):
        cube = read_cube(write_cube(tmp_path / name, cube))
    with rasterio.open(tmp_path / "c.img") as judge:
        assert judge.crs.is_geographic
        assert judge.transform.almost_equals(place)
    assert "map info = {Geographic Lat/Lon" in (tmp_path / "c.hdr").read_text()


def test_map_info_alone_tells_the_zone(tmp_path: Path) -> None:
    for text, crs in (
        ("{UTM, 1.5, 2.5, 500000, 5400000, 2, 3, 33, South, WGS-84, units=Meters}", "EPSG:32733"),
        (
            "{Geographic Lat/Lon, 1, 1, 15, 48, 2, 3, North America 1983, units=Degrees}",
            "EPSG:4269",
        ),
    ):
        cube = SpectralCube(RGB, WAVELENGTHS, metadata=read_from_envi({"map info": text}))
        _, expected = on_earth(write_cube(tmp_path / "a.hdr", cube, overwrite=True))
        assert_on_earth(write_cube(tmp_path / "a.tif", cube, overwrite=True), crs, expected)


def test_a_system_that_only_gdal_knows_is_said_to_be_lost_in_envi_but_kept_for_tiff(
    tmp_path: Path,
) -> None:
    cube = cube_of(Photo.read(geotiff(tmp_path / "photo.tif", "EPSG:2154", NORTH_UP)))
    with pytest.warns(UserWarning, match="EPSG:2154 has no definition here"):
        header = write_cube(tmp_path / "a.hdr", cube)
    assert_on_earth(header, None, NORTH_UP)
    again = read_cube(header)
    assert "EPSG:2154" in again.provenance.assumptions[0]
    assert_on_earth(write_cube(tmp_path / "a.tif", again), "EPSG:2154", NORTH_UP)


@pytest.mark.parametrize(
    ("transform", "is_kept_by_envi"),
    [
        (NORTH_UP, True),
        (TURNED, True),
        (SOUTH_UP, True),
        (SHEARED, False),
        (Affine(-1, 0, 5, 0, 1, 7), False),
    ],
)
def test_any_affine_transform_is_kept_or_said_to_be_lost(
    tmp_path: Path, transform: Affine, is_kept_by_envi: bool
) -> None:
    cube = cube_of(Photo.read(geotiff(tmp_path / "photo.tif", ZONE, transform)))
    assert_on_earth(write_cube(tmp_path / "a.tif", cube), ZONE, transform)
    if not is_kept_by_envi:
        with pytest.warns(UserWarning, match="no place in ENVI's map info"):
            write_cube(tmp_path / "a.hdr", cube)
        return
    header = write_cube(tmp_path / "a.hdr", cube)
    assert_on_earth(header, ZONE, transform)
    info = next(line for line in header.read_text().splitlines() if line.startswith("map info"))
    fields = read_from_envi({"map info": info.partition("= ")[2]})
    assert_on_earth(write_cube(tmp_path / "b.tif", replace(cube, metadata=fields)), ZONE, transform)


def test_numbers_that_stand_for_points_do_so_in_a_tiff(tmp_path: Path) -> None:
    path = geotiff(tmp_path / "photo.tif", ZONE, NORTH_UP)
    with rasterio.open(path, "r+") as judge:
        judge.update_tags(AREA_OR_POINT="Point")
    photo = Photo.read(path)
    assert photo.georeference is not None
    assert photo.georeference.is_point
    assert photo.georeference.transform == pytest.approx(NORTH_UP[:6], rel=1e-12)
    again = write_cube(tmp_path / "a.tif", cube_of(photo))
    assert_on_earth(again, ZONE, NORTH_UP)
    with rasterio.open(again) as judge:
        assert judge.tags()["AREA_OR_POINT"] == "Point"
    with pytest.warns(UserWarning, match="points, not areas"):
        assert_on_earth(write_cube(tmp_path / "a.hdr", cube_of(photo)), ZONE, NORTH_UP)


def test_a_region_and_a_smaller_copy_lie_where_they_are(tmp_path: Path) -> None:
    photo = Photo.read(geotiff(tmp_path / "photo.tif", ZONE, TURNED))
    part = photo.cropped((2, 6, 3, 8))
    assert_on_earth(
        write_cube(tmp_path / "part.tif", cube_of(part)), ZONE, TURNED @ Affine.translation(3, 2)
    )
    small = part.reduced(5)
    rows, columns = small.shape
    scaled = TURNED @ Affine.translation(3, 2) @ Affine.scale(5 / columns, 4 / rows)
    assert_on_earth(write_cube(tmp_path / "small.tif", cube_of(small)), ZONE, scaled)
    assert photo.sampled(2, 2).georeference is None


def test_a_photo_that_is_turned_upright_has_no_place(tmp_path: Path) -> None:
    plain = geotiff(tmp_path / "plain.tif", ZONE, SHEARED)
    with tifffile.TiffFile(plain) as file:
        codes = (TRANSFORMATION, KEY_DIRECTORY)
        found = {code: file.pages.first.tags[code] for code in codes}
        tags: list[tuple[int, str | int, int, Any, bool]] = [
            (code, tag.dtype, tag.count, tag.value, True) for code, tag in found.items()
        ]
    for asked in (1, 6):
        path = tmp_path / f"{asked}.tif"
        more = (274, "H", 1, asked, True)
        tifffile.imwrite(
            path, np.moveaxis(RGB, 0, -1), photometric="rgb", metadata=None, extratags=[*tags, more]
        )
        assert (Photo.read(path).georeference is None) == (asked == 6)


def test_a_header_that_another_program_wrote_from_ours_counts_as_it_is_now(tmp_path: Path) -> None:
    cube = cube_of(Photo.read(geotiff(tmp_path / "photo.tif", ZONE, NORTH_UP)))
    image = oracle.open(write_cube(tmp_path / "a.hdr", cube))
    moved = image.metadata | {
        "map info": ["UTM", "1", "1", "400000", "5300000", "2", "2", "33", "North", "WGS-84"]
    }
    oracle.save_image(
        tmp_path / "b.hdr", image[:, :], metadata=moved, interleave="bsq", byteorder=0
    )
    again = read_cube(tmp_path / "b.hdr")
    assert again.metadata[FIELD] != cube.metadata[FIELD]
    assert_on_earth(write_cube(tmp_path / "b.tif", again), ZONE, from_origin(400000, 5300000, 2, 2))


def test_a_tiff_of_others_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "count": 5, "height": 6, "width": 8, "dtype": "float32"}
    with rasterio.open(path, "w", **profile, crs="EPSG:2154", transform=TURNED) as judge:
        judge.write(np.zeros((5, 6, 8), np.float32))
    for suffix in (".tif", ".npz", ".mat", ".zarr"):
        again = read_cube(write_cube(tmp_path / f"b{suffix}", read_cube(path)))
        assert_on_earth(write_cube(tmp_path / f"c{suffix}.tif", again), "EPSG:2154", TURNED)


def test_map_info_that_makes_no_sense_stays_text(tmp_path: Path) -> None:
    fields = read_from_envi({"map info": "{UTM, 1, 1, here, there, 2, 2, 33, North}"})
    cube = SpectralCube(RGB, WAVELENGTHS, metadata=fields)
    with pytest.warns(UserWarning, match="place of '{UTM, 1, 1, here"):
        again = read_cube(write_cube(tmp_path / "a.tif", cube))
    assert again.metadata == cube.metadata
    fields = read_from_envi({"map info": "{State Plane (NAD 27), 1, 1, 5, 7, 2, 2, 3104}"})
    unknown = SpectralCube(RGB, WAVELENGTHS, metadata=fields)
    assert "map info" not in unknown.crop((2, 5), (4, 6)).metadata
    with pytest.warns(UserWarning, match="place of '{State Plane"):
        again = read_cube(write_cube(tmp_path / "b.tif", unknown))
    assert again.provenance != Provenance()


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {PIXEL_SCALE: (1.0, 1.0, 0.0)},
        {PIXEL_SCALE: (0.0, 0.0, 0.0), TIE_POINTS: (0.0,) * 6},
        {PIXEL_SCALE: 1.0, TIE_POINTS: (0.0,) * 6},
        {TRANSFORMATION: (1.0, 0.0)},
        {TRANSFORMATION: (np.nan,) * 16},
        {KEY_DIRECTORY: "text"},
    ],
)
def test_tags_that_make_no_sense_say_nothing(tags: dict[int, object]) -> None:
    assert Georeference.from_tags(tags) is None


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '{"transform": [1, 2]}', '{"directory": ["a"]}']
)
def test_text_that_makes_no_sense_says_nothing(text: str, tmp_path: Path) -> None:
    assert Georeference.from_json(text) is None
    cube = SpectralCube(RGB, WAVELENGTHS, metadata={FIELD: text})
    for name in ("a.tif", "a.hdr"):
        assert_on_earth(write_cube(tmp_path / name, cube), None, Affine.identity())
