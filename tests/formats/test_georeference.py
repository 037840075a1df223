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

from napari_mst.cube import SpectralCube
from napari_mst.cube.georeference import (
    FIELD,
    KEY_DIRECTORY,
    PIXEL_SCALE,
    TIE_POINTS,
    TRANSFORMATION,
    Georeference,
)
from napari_mst.formats import read_cube, write_cube
from napari_mst.formats.envi.georeference import envi_fields, read_from_envi
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


UTM_HEAD = "UTM, 1.5, 2.5, 500000, 5400000, 2, 2"
DEGREES = "Geographic Lat/Lon, 1, 1, 15, 48, 2, 3"
ALBERS = "Albers Conical Equal Area, 1, 1, -900000, 2000000, 30, 30"
OF_ALBERS = "9, 6378137.0, 6356752.3, 23, -96, 0, 0, 29.5, 45.5, NAD83, Albers"
OF_LAMBERT = "4, 6378137.0, 6356752.3, 46.5, 3, 700000, 6600000, 49, 44, RGF93, Lambert"
NAMED = {
    f"{UTM_HEAD}, 33, South, WGS-84, units=Meters": "EPSG:32733",
    f"{UTM_HEAD}, 13, North, WGS84, units=Meters": "EPSG:32613",
    f"{UTM_HEAD}, 13, North, wgs-84": "EPSG:32613",
    f"{UTM_HEAD}, 13, North, D_WGS_1984": "EPSG:32613",
    f"{UTM_HEAD}, 10, North, GCS_North_American_1983": "EPSG:26910",
    f"{UTM_HEAD}, 10, North, NAD83, units=Meters": "EPSG:26910",
    f"{UTM_HEAD}, 10, North, North America 1927": "EPSG:26710",
    f"{UTM_HEAD}, 33, North, ETRS89, units=Meters": "EPSG:25833",
    f"{UTM_HEAD}, 55, South, GDA2020": "EPSG:7855",
    f"{UTM_HEAD}, 23, South, SIRGAS 2000": "EPSG:31983",
    f"{DEGREES}, North America 1983, units=Degrees": "EPSG:4269",
    f"{DEGREES}, European 1950": "EPSG:4230",
    f"{DEGREES}, Ordnance Survey of Great Britain '36": "EPSG:4277",
    "State Plane (NAD 83), 1, 1, 300000, 90000, 2, 2, 3104, units=Meters": "EPSG:32118",
    f"{ALBERS}, NAD83| {OF_ALBERS}": "EPSG:5070",
    f"Lambert Conformal Conic, 1, 1, 7e5, 6.6e6, 2, 2, RGF93| {OF_LAMBERT}": "EPSG:2154",
}


@pytest.mark.parametrize(("text", "crs"), NAMED.items())
def test_map_info_alone_names_the_system_in_any_spelling(
    tmp_path: Path, text: str, crs: str
) -> None:
    info, _, projection = text.partition("|")
    fields = {"map info": f"{{{info}}}", "projection info": f"{{{projection}}}"}
    metadata, doubts = read_from_envi(fields)
    assert not doubts
    cube = SpectralCube(RGB, WAVELENGTHS, metadata=metadata)
    place = Georeference.from_json(metadata[FIELD])
    assert place is not None
    assert place.transform is not None
    for name in ("a.hdr", "a.tif"):
        assert_on_earth(write_cube(tmp_path / name, cube), crs, Affine(*place.transform))


def test_a_turned_image_is_turned_about_its_reference_pixel(tmp_path: Path) -> None:
    """GDAL agrees where that is the first pixel, and else turns about another one (`findings`)."""
    header = write_cube(tmp_path / "a.hdr", SpectralCube(RGB, WAVELENGTHS))
    head, places = header.read_text(), []
    for column, row in ((1, 1), (3, 2)):
        info = f"UTM, {column}, {row}, 500000, 5400000, 2, 2, 33, North, WGS-84, rotation=30"
        header.write_text(f"{head}map info = {{{info}}}\n")
        place = Georeference.from_json(read_cube(header).metadata[FIELD])
        assert place is not None
        assert place.transform is not None
        places.append(Affine(*place.transform))
        assert places[-1] @ (column - 1, row - 1) == pytest.approx((500000, 5400000))
        if column == 1:
            assert on_earth(header)[1].almost_equals(places[0], precision=1e-6)
    first, other = places
    assert other[:2] + other[3:5] == first[:2] + first[3:5]


def test_feet_are_as_gdal_takes_them(tmp_path: Path) -> None:
    info = "State Plane (NAD 83), 1, 1, 984250, 295275, 2, 2, 3104, units=Feet"
    header = write_cube(tmp_path / "a.hdr", SpectralCube(RGB, WAVELENGTHS))
    header.write_text(f"{header.read_text()}map info = {{{info}}}\n")
    again = write_cube(tmp_path / "b.tif", read_cube(header))
    with rasterio.open(tmp_path / "a.img") as judge, rasterio.open(again) as ours:
        assert judge.crs.linear_units_factor[1] == pytest.approx(0.3048)
        assert ours.crs.linear_units_factor[1] == pytest.approx(0.3048)
        assert ours.transform == judge.transform


@pytest.mark.parametrize(
    "text",
    [
        f"{UTM_HEAD}, 13, North, Area 51, units=Meters",
        f"{UTM_HEAD}, 13, North",
        f"{UTM_HEAD}, 99, North, WGS-84",
        f"{UTM_HEAD}, 13, North, WGS-84, units=Leagues",
        f"{DEGREES}, +proj=longlat",
        "State Plane (NAD 27), 1, 1, 5, 7, 2, 2, 9999",
        "Hotine Oblique Mercator A, 1, 1, 5, 7, 2, 2, WGS-84",
    ],
)
def test_a_system_that_is_not_known_leaves_the_transform_and_a_sentence(text: str) -> None:
    metadata, (doubt,) = read_from_envi({"map info": f"{{{text}}}"})
    place = Georeference.from_json(metadata[FIELD])
    assert place is not None
    assert place.transform is not None
    assert not place.code
    assert text.split(",")[0] in doubt


AREAS, OF_A_USER = (1025, 0, 1, 1), (1024, 0, 1, 32767)
"""GeoTIFF keys: numbers stand for areas; the model of the coordinate system is one of a user."""


@pytest.mark.parametrize(
    ("keys", "missed"),
    [
        (AREAS, []),
        (AREAS + OF_A_USER, ["The coordinate system of the image"]),
        ((3072, 0, 1, 29999), ["EPSG:29999"]),
    ],
)
def test_envi_misses_a_system_only_where_keys_name_one(
    keys: tuple[int, ...], missed: list[str]
) -> None:
    place = Georeference((1, 0, 5, 0, -1, 7), (1, 1, 0, len(keys) // 4, *keys))
    fields, lost = envi_fields(place)
    assert fields["map info"].startswith("{Arbitrary, ")
    assert [each.partition(" has no definition")[0] for each in lost] == missed


def test_a_code_that_does_not_exist_is_said(tmp_path: Path) -> None:
    place = Georeference.of_code((1, 0, 5, 0, -1, 7), 29999, is_geographic=False)
    cube = SpectralCube(RGB, WAVELENGTHS, metadata={FIELD: place.to_json()})
    again = read_cube(write_cube(tmp_path / "a.tif", cube))
    assert "EPSG:29999 is not known" in again.metadata["warnings"][0]
    assert_on_earth(write_cube(tmp_path / "b.tif", again), None, Affine(1, 0, 5, 0, -1, 7))
    photo = Photo.read(tmp_path / "a.tif")
    assert any("EPSG:29999 is not known" in note for note in photo.assumptions)
    with pytest.warns(UserWarning, match="EPSG:29999 has no definition here"):
        write_cube(tmp_path / "a.hdr", cube)


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
    fields, _ = read_from_envi({"map info": info.partition("= ")[2]})
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


def test_map_info_that_makes_no_sense_stays_text(tmp_path: Path) -> None:
    fields, (doubt,) = read_from_envi({"map info": "{UTM, 1, 1, here, there, 2, 2, 33, North}"})
    assert "here, there" in doubt
    cube = SpectralCube(RGB, WAVELENGTHS, metadata=fields)
    with pytest.warns(UserWarning, match="place of '{UTM, 1, 1, here"):
        again = read_cube(write_cube(tmp_path / "a.tif", cube))
    assert again.metadata == cube.metadata
    assert "map info" not in cube.crop((2, 5), (4, 6)).metadata


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
