"""The georeference of ENVI headers (`map info`, `coordinate system string`), from and to a `Georeference`.

Sources: NV5 Geospatial, "ENVI Header Files"; GDAL's ENVI driver, which takes the coordinate system string before the
map info, and turns by the rotation. Systems are named as Esri and EPSG do.
"""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from napari_mst.cube import SpectralCube
from napari_mst.formats.wavelengths import number
from napari_mst.georeference import FIELD, Georeference, Transform
from napari_mst.messages import shown

MAP_INFO, SYSTEM, PROJECTION = "map info", "coordinate system string", "projection info"
FIELDS = (MAP_INFO, SYSTEM, PROJECTION)

_WEB_MERCATOR = 3857
_TOLERANCE = 1e-9
"""Share of a pixel's size by which a rotation may fail to be one."""


@dataclass(frozen=True)
class _Datum:
    """A geodetic datum: its name in ENVI (empty if it has none) and Esri, its ellipsoid, and EPSG codes.

    `north` and `south` are the codes of UTM zone 0, 0 where there are no such zones; `zones` are those that EPSG has.
    """

    envi: str
    name: str
    utm: str
    spheroid: str
    code: int
    north: int
    south: int
    zones: range

    @property
    def geographic_wkt(self) -> str:
        return (
            f'GEOGCS["GCS_{self.name}",DATUM["D_{self.name}",SPHEROID[{self.spheroid}]],'
            'PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]'
        )

    def utm_wkt(self, zone: int, hemisphere: str) -> str:
        """Esri's definition of a zone: 6 degrees wide, the first in the middle of 180 to 174 degrees west."""
        northing = 0.0 if hemisphere == "N" else 10_000_000.0
        return (
            f'PROJCS["{self.utm}_UTM_Zone_{zone}{hemisphere}",{self.geographic_wkt},PROJECTION["Transverse_Mercator"],'
            f'PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",{northing}],'
            f'PARAMETER["Central_Meridian",{6.0 * zone - 183.0}],PARAMETER["Scale_Factor",0.9996],'
            'PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]'
        )


_WGS84 = _Datum(
    envi="WGS-84",
    name="WGS_1984",
    utm="WGS_1984",
    spheroid='"WGS_1984",6378137.0,298.257223563',
    code=4326,
    north=32600,
    south=32700,
    zones=range(1, 61),
)
_DATUMS = (
    _WGS84,
    _Datum(
        envi="North America 1983",
        name="North_American_1983",
        utm="NAD_1983",
        spheroid='"GRS_1980",6378137.0,298.257222101',
        code=4269,
        north=26900,
        south=0,
        zones=range(1, 24),
    ),
    _Datum(
        envi="North America 1927",
        name="North_American_1927",
        utm="NAD_1927",
        spheroid='"Clarke_1866",6378206.4,294.978698213898',
        code=4267,
        north=26700,
        south=0,
        zones=range(1, 23),
    ),
    _Datum(
        envi="",
        name="ETRS_1989",
        utm="ETRS_1989",
        spheroid='"GRS_1980",6378137.0,298.257222101',
        code=4258,
        north=25800,
        south=0,
        zones=range(28, 39),
    ),
)
_WEB_MERCATOR_WKT = (
    f'PROJCS["WGS_1984_Web_Mercator_Auxiliary_Sphere",{_WGS84.geographic_wkt},PROJECTION["Mercator_Auxiliary_Sphere"],'
    'PARAMETER["False_Easting",0.0],PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",0.0],'
    'PARAMETER["Standard_Parallel_1",0.0],PARAMETER["Auxiliary_Sphere_Type",0.0],UNIT["Meter",1.0]]'
)


@dataclass(frozen=True)
class _System:
    """A coordinate system as ENVI names it: the first word of `map info`, what follows the sizes, and its WKT."""

    kind: str
    place: tuple[str, ...] = ()
    wkt: str = ""


def georeference_of(metadata: Mapping[str, Any]) -> Georeference | None:
    """The georeference of a cube: its own, else what the fields of an ENVI header say; None if there is none."""
    if FIELD in metadata:
        return Georeference.from_json(str(metadata[FIELD]))
    items = [item.strip() for item in str(metadata.get(MAP_INFO, "")).strip("{} ").split(",")]
    transform = _transform(items)
    if transform is None:
        return None
    wkt = str(metadata.get(SYSTEM, "")).strip("{} ")
    code, is_geographic = _code_of_wkt(wkt) if wkt else _code_of_items(items)
    if code:
        return Georeference.of_code(transform, code, is_geographic=is_geographic)
    return Georeference.of_wkt(transform, wkt) if wkt else Georeference(transform)


def envi_fields(georeference: Georeference) -> tuple[dict[str, str], list[str]]:
    """The fields of an ENVI header that mean *georeference*, and a sentence for everything that they cannot hold."""
    lost = []
    system = _system_of(georeference)
    if system is None:
        lost.append(
            f"{_named(georeference)} has no definition here that ENVI could read: coordinates have no system."
        )
        system = _System("Arbitrary", ("0", "North"))
    if georeference.is_point:
        lost.append("That numbers stand for points, not areas, is not kept by ENVI.")
    placed = _placed(georeference.transform)
    if placed is None:
        lost.append(
            "Tie points, and pixels that are not squares turned as a whole, have no place in ENVI's map info."
        )
        return {}, lost
    x, y, width, height, *rotation = placed
    texts = [system.kind, "1", "1", *map(repr, (x, y, width, height)), *system.place]
    texts += [f"rotation={angle!r}" for angle in rotation]
    fields = {MAP_INFO: "{" + ", ".join(texts) + "}"}
    return fields | ({SYSTEM: "{" + system.wkt + "}"} if system.wkt else {}), lost


def _transform(items: list[str]) -> Transform | None:
    """From the items of `map info`, which give the coordinates of one pixel, counted from 1 at the outer corner."""
    values = [number(item) for item in items[1:7]]
    if len(values) < 6 or not all(map(math.isfinite, values)) or 0 in values[4:]:
        return None
    column, row, x, y, width, height = values
    angles = [
        number(item.partition("=")[2]) for item in items if item.lower().startswith("rotation")
    ]
    degrees = angles[0] if angles and math.isfinite(angles[0]) else 0.0
    turn = -math.radians(degrees)
    a, b = math.cos(turn) * width, -math.sin(turn) * width
    d, e = -math.sin(turn) * height, -math.cos(turn) * height
    if abs(degrees) in (
        0,
        180,
    ):  # as GDAL reads 180 degrees: an image whose first row is the southernmost
        a, b, d, e = width, 0.0, 0.0, height if degrees else -height
    return (a, b, x - a * (column - 1) - b * (row - 1), d, e, y - d * (column - 1) - e * (row - 1))


def _placed(transform: Transform | None) -> tuple[float, ...] | None:
    """x and y of the first corner, the size of a pixel, and a rotation where there is one; None if ENVI has no such."""
    if transform is None:
        return None
    a, b, c, d, e, f = transform
    if b == d == 0 and a > 0:
        return (c, f, a, -e) if e < 0 else (c, f, a, e, 180.0)
    side = math.hypot(a, b)
    is_turned_square = max(abs(a + e), abs(b - d)) <= _TOLERANCE * side
    degrees = -math.degrees(math.atan2(-b, a))
    return (c, f, side, side, degrees) if is_turned_square and abs(degrees) < 180 else None


def _code_of_wkt(wkt: str) -> tuple[int, bool]:
    """The EPSG code of a definition, and whether it is geographic; (0, False) if it has none that is known."""
    is_geographic = wkt.upper().startswith("GEOGCS")
    authority = re.search(r'AUTHORITY\["EPSG", ?"?(\d{4,5})"?\]\s*\]\s*$', wkt)
    if authority:
        return int(authority.group(1)), is_geographic
    known = {_WEB_MERCATOR_WKT: (_WEB_MERCATOR, False)}
    for datum in _DATUMS:
        known[datum.geographic_wkt] = (datum.code, True)
        for zone in datum.zones:
            known[datum.utm_wkt(zone, "N")] = (datum.north + zone, False)
            if datum.south:
                known[datum.utm_wkt(zone, "S")] = (datum.south + zone, False)
    return known.get(wkt, (0, False))


def _code_of_items(items: list[str]) -> tuple[int, bool]:
    """As `_code_of_wkt`, of a `map info` without a coordinate system string."""
    kind, *place = [items[0].lower(), *items[7:]]
    datum = next((datum for datum in _DATUMS if datum.envi and datum.envi in place), None)
    if datum is None:
        return 0, False
    if kind.startswith("geographic"):
        return datum.code, True
    zone = int(place[0]) if kind.startswith("utm") and place[0].isdecimal() else 0
    base = datum.south if place[1:2] == ["South"] else datum.north
    return (base + zone, False) if base and zone in datum.zones else (0, False)


def _system_of(georeference: Georeference) -> _System | None:
    """The coordinate system in ENVI's words; None if it has one that we cannot define."""
    code, wkt = georeference.code, georeference.wkt
    if wkt and not code:
        kind = "Geographic Lat/Lon" if wkt.upper().startswith("GEOGCS") else "Arbitrary"
        return _System(kind, () if kind != "Arbitrary" else ("0", "North"), wkt)
    if code == _WEB_MERCATOR:
        return _System("Mercator_1SP", wkt=_WEB_MERCATOR_WKT)
    for datum in _DATUMS:
        named = (datum.envi,) * bool(datum.envi)
        if code == datum.code:
            return _System("Geographic Lat/Lon", named, datum.geographic_wkt)
        for base, hemisphere in ((datum.north, "North"), (datum.south, "South")):
            zone = code - base
            if base and zone in datum.zones:
                return _System(
                    "UTM", (str(zone), hemisphere, *named), datum.utm_wkt(zone, hemisphere[0])
                )
    has_system = len(georeference.directory) > 8 or bool(code)
    return None if has_system else _System("Arbitrary", ("0", "North"))


def _named(georeference: Georeference) -> str:
    return (
        f"EPSG:{georeference.code}" if georeference.code else "The coordinate system of the image"
    )


def in_envi(cube: SpectralCube) -> SpectralCube:
    """*cube* with the fields of an ENVI header for its own georeference; what they cannot hold is said (see `told`)."""
    georeference = georeference_of(cube.metadata) if FIELD in cube.metadata else None
    if georeference is None:
        return cube
    fields, lost = envi_fields(georeference)
    others = {key: value for key, value in cube.metadata.items() if key not in FIELDS}
    return told(replace(cube, metadata=others | fields), lost)


def read_from_envi(fields: Mapping[str, Any], *, is_sealed: bool) -> dict[str, Any]:
    """The *fields* of a header with one georeference: our own text where the header is as we wrote it, else ENVI's.

    Another program that cut or moved the image changes `map info`, and copies our text as it was.
    """
    outdated = FIELDS if is_sealed else (FIELD,)
    return {
        key: value for key, value in fields.items() if FIELD not in fields or key not in outdated
    }


def in_tiff(cube: SpectralCube) -> tuple[SpectralCube, list[tuple[int, str, int, Any, bool]]]:
    """*cube*, and its georeference as tags for tifffile; what they cannot hold is said (see `told`)."""
    georeference = georeference_of(cube.metadata)
    info = str(cube.metadata.get(MAP_INFO, "")).strip("{} ")
    has_system = bool(info) and not info.lower().startswith(("arbitrary", "pixel"))
    if georeference is None:
        lost = ["The 'map info' of the cube makes no sense; it is kept as text only."] * bool(info)
        return told(cube, lost), []
    if has_system and FIELD not in cube.metadata and not georeference.directory:
        cube = told(
            cube,
            [
                f"The coordinate system of '{shown(info, 60)}' is not known; it is kept as text only."
            ],
        )
    tags = [
        (code, kind, 0 if kind == "s" else len(value), value, True)
        for code, (kind, value) in sorted(georeference.tags().items())
    ]
    return cube, tags


def told(cube: SpectralCube, lost: Sequence[str]) -> SpectralCube:
    """*cube* whose history says what of its georeference was *lost* in this file; who saves it is warned as well."""
    for sentence in lost:
        warnings.warn(sentence, stacklevel=2)
    known = cube.provenance.assumptions
    assumptions = (*known, *(sentence for sentence in lost if sentence not in known))
    return (
        replace(cube, provenance=replace(cube.provenance, assumptions=assumptions))
        if lost
        else cube
    )
