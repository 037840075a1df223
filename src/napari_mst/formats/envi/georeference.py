"""Converts `map info` and `coordinate system string` of ENVI headers to and from `Georeference`.

Coordinate systems come from PROJ, and are defined in Esri's WKT as in ENVI.

Sources: NV5 Geospatial, "ENVI Header Files"; GDAL's ENVI driver, which prefers the coordinate
system string to the map info, and applies the rotation.
"""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from napari_mst.base.errors import shown
from napari_mst.cube import SpectralCube
from napari_mst.cube.curves import number
from napari_mst.cube.georeference import FIELD, Georeference, Transform, unknown_system
from napari_mst.cube.parts import without

if TYPE_CHECKING:
    from pyproj import CRS


class System(NamedTuple):
    """A coordinate system in ENVI's words.

    Attributes
    ----------
    kind
        The first item of `map info`.
    place
        The items after the pixel sizes in `map info`.
    wkt
        The `coordinate system string`; empty if missing.
    """

    kind: str
    place: tuple[str, ...] = ()
    wkt: str = ""


UNKNOWN = System("Arbitrary", ("0", "North"))
"""Coordinates without a system."""


_DATUMS = {
    "WGS-84": "WGS 84",
    "North America 1983": "NAD83",
    "North America 1927": "NAD27",
    "Ordnance Survey of Great Britain '36": "OSGB36",
    "Geocentric Datum of Australia 1994": "GDA94",
    "Australian Geodetic 1984": "AGD84",
    "Nouvelle Triangulation Francaise IGN": "NTF",
    "SAD-69/Brazil": "SAD69",
}
"""Names of datums in ENVI and in PROJ."""

_OF_LATITUDE = "lat_0 lon_0 x_0 y_0"
_METHODS = {
    "3": f"tmerc {_OF_LATITUDE} k_0",
    "4": f"lcc {_OF_LATITUDE} lat_1 lat_2",
    "7": f"stere {_OF_LATITUDE} k_0",
    "9": f"aea {_OF_LATITUDE} lat_1 lat_2",
    "10": f"poly {_OF_LATITUDE}",
    "11": f"laea {_OF_LATITUDE}",
    "12": f"aeqd {_OF_LATITUDE}",
}
"""PROJ's method by the first number of `projection info`; parameters that follow the ellipsoid."""

_STATE_PLANES = {
    "state plane (nad 27)": ("NAD27", 10_000, " CS27 "),
    "state plane (nad 83)": ("NAD83", 10_030, "SPCS83 "),
}
"""State plane zones: datum, EPSG code of the projection of zone 0, and mark in its name."""

_FEET = {"": False, "meters": False, "feet": True}
"""Projected units and whether they are feet: international feet, as in GDAL."""


def system_of(georeference: Georeference) -> System | None:
    """The coordinate system in ENVI's words; None if we have no definition of it."""
    system = georeference.system()
    wkt = system.to_wkt("WKT1_ESRI") if system else None
    if system is None or not wkt:
        # A directory of GeoTIFF keys has 4 numbers and 4 more per key, and a single key cannot name
        # a system.
        is_named = georeference.code or len(georeference.directory) > 8
        return None if is_named else UNKNOWN
    name = system.geodetic_crs.name if system.geodetic_crs else ""
    datum = next((ours for ours, known in _DATUMS.items() if known == name), name)
    if system.is_geographic:
        return System("Geographic Lat/Lon", (datum,), wkt)
    if zone := system.utm_zone:
        hemisphere = "North" if zone.endswith("N") else "South"
        return System("UTM", (zone[:-1], hemisphere, datum), wkt)
    return UNKNOWN._replace(wkt=wkt)


def _named_system(items: Sequence[str], projection: Sequence[str]) -> "CRS | None":
    """The coordinate system named by the *items* of `map info` and by `projection info`.

    None if a part of it is unknown.
    """
    from pyproj import CRS
    from pyproj.crs import CoordinateOperation, ProjectedCRS  # type: ignore[attr-defined]
    from pyproj.crs.coordinate_system import Cartesian2DCS
    from pyproj.crs.enums import Cartesian2DCSAxis
    from pyproj.exceptions import CRSError

    unit = next((item[6:].strip().lower() for item in items if item.startswith("units=")), "")
    kind, places = items[0].lower(), [item for item in items[7:] if "=" not in item]
    method = _METHODS.get(projection[0], "").split()
    try:
        if kind.startswith("geographic"):
            return _geographic(places[0])
        if kind == "utm":
            half = {"n": "", "s": "+south"}[places[1][:1].lower()]
            operation = CRS.from_proj4(
                f"+proj=utm +zone={int(places[0])} {half}"
            ).coordinate_operation
            datum = places[2]
        elif kind in _STATE_PLANES:
            datum, first, mark = _STATE_PLANES[kind]
            operation = CoordinateOperation.from_epsg(first + int(places[0]))
            if mark not in operation.name:
                return None
        else:
            values = zip(method[1:], projection[3:], strict=False)
            words = " ".join(f"+{key}={float(value)!r}" for key, value in values)
            operation = CRS.from_proj4(f"+proj={method[0]} {words}").coordinate_operation
            datum = places[0]
        axes = Cartesian2DCSAxis.EASTING_NORTHING
        if _FEET[unit]:
            axes = Cartesian2DCSAxis.EASTING_NORTHING_FT
        return ProjectedCRS(
            operation, geodetic_crs=_geographic(datum), cartesian_cs=Cartesian2DCS(axes)
        )
    except (CRSError, LookupError, ValueError):
        return None


def _geographic(datum: str) -> "CRS":
    """Latitude and longitude on the *datum* in any spelling. Raises `CRSError`."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    name = _DATUMS.get(datum, datum)
    if name.startswith(("D_", "GCS_")):  # Esri's spelling
        name = name.partition("_")[2].replace("_", " ")
    # PROJ would also accept files and whole pipelines, but a header only names a datum.
    if not re.fullmatch(r"[\w ()-]+", name):
        raise CRSError(name)
    system = CRS.from_user_input(name)
    if not system.is_geographic:
        raise CRSError(name)
    return system


MAP_INFO, SYSTEM, PROJECTION = "map info", "coordinate system string", "projection info"
FIELDS = (MAP_INFO, SYSTEM, PROJECTION)
"""Fields of an ENVI header with the place of the image on earth."""

# Largest relative difference between the sides of a rotated pixel, which allows only rounding.
_TOLERANCE = 1e-9


def envi_fields(georeference: Georeference) -> tuple[dict[str, str], list[str]]:
    """*georeference* as fields of an ENVI header.

    Returns
    -------
    The fields, and a sentence for each fact that they cannot hold.
    """
    lost = []
    system = system_of(georeference)
    if system is None:
        code = georeference.code
        name = f"EPSG:{code}" if code else "The coordinate system of the image"
        lost.append(
            f"{name} has no definition here that ENVI could read: coordinates have no system."
        )
        system = UNKNOWN
    if georeference.is_point:
        lost.append("That numbers stand for points, not areas, is not kept by ENVI.")
    placed = _placed(georeference.transform)
    if placed is None:
        lost.append(
            "Pixels that are not squares turned as a whole have no place in ENVI's map info."
        )
        return {}, lost
    x, y, width, height, *rotation = placed
    # ENVI counts pixels from 1, and the coordinates refer to the outer corner of the first pixel.
    texts = [system.kind, "1", "1", *map(repr, (x, y, width, height)), *system.place]
    texts += [f"rotation={angle!r}" for angle in rotation]
    fields = {MAP_INFO: "{" + ", ".join(texts) + "}"}
    if system.wkt:
        fields[SYSTEM] = "{" + system.wkt + "}"
    return fields, lost


def in_envi(cube: SpectralCube) -> SpectralCube:
    """*cube* with ENVI header fields for its georeference.

    The history of the cube lists the facts that these fields cannot hold (see `with_losses`).
    """
    georeference = Georeference.of_metadata(cube.metadata)
    if georeference is None:
        return cube
    fields, lost = envi_fields(georeference)
    others = without(cube.metadata, FIELDS)
    return with_losses(replace(cube, metadata=others | fields), lost)


def read_from_envi(
    fields: Mapping[str, Any], *, is_sealed: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The *fields* of a header with a single georeference, in GeoTIFF's terms, and doubts.

    Our own text counts in an unchanged header of ours, else `map info`: a program that cuts or
    moves the image changes `map info` but copies our text unchanged. A `map info` that makes no
    sense stays text. If its coordinate system is unknown, the transform is kept.
    """
    if is_sealed and FIELD in fields:
        return without(fields, FIELDS), []
    fields = without(fields, [FIELD])
    items, projection = (
        [item.strip() for item in str(fields.get(key, "")).strip("{} ").split(",")]
        for key in (MAP_INFO, PROJECTION)
    )
    wkt = str(fields.get(SYSTEM, "")).strip("{} ")
    transform = _transform(items)
    if transform is None:
        doubt = f"The place on earth in '{shown(', '.join(items), 60)}' is not understood."
        return fields, [doubt] if MAP_INFO in fields else []
    place, doubts = Georeference(transform), list[str]()
    if wkt:
        place, doubts = Georeference.of_wkt(transform, wkt).checked()
    if not place.directory and not items[0].lower().startswith(("arbitrary", "pixel")):
        system = _named_system(items, projection)
        if system is not None:
            place, doubts = Georeference.on(transform, system), []
        elif not wkt:
            named = (item for item in (items[0], *items[7:]) if "=" not in item)
            doubts = [unknown_system(f"'{shown(', '.join(named), 60)}'")]
    return {**without(fields, FIELDS), FIELD: place.to_json()}, doubts


def with_losses(cube: SpectralCube, lost: Sequence[str]) -> SpectralCube:
    """*cube*, with the parts of its georeference that are *lost* in the file noted in its history.

    Also issues the notes as warnings.
    """
    if not lost:
        return cube
    for sentence in lost:
        warnings.warn(sentence, stacklevel=2)
    former = cube.provenance.assumptions
    # A cube that is saved twice gets each note once.
    new = [sentence for sentence in lost if sentence not in former]
    provenance = replace(cube.provenance, assumptions=(*former, *new))
    return replace(cube, provenance=provenance)


def _transform(items: Sequence[str]) -> Transform | None:
    """The transform in the items of `map info`; None if they make no sense.

    The items give the coordinates of the outer corner of one pixel, which is counted from 1.
    """
    values = [number(item) for item in items[1:7]]
    if len(values) < 6 or not all(map(math.isfinite, values)) or 0 in values[4:]:
        return None
    column, row, x, y, width, height = values
    turns = [item.partition("=")[2] for item in items if item.lower().startswith("rotation")]
    degrees = number(turns[0]) if turns else 0.0
    degrees = degrees if math.isfinite(degrees) else 0.0
    cosine, sine = math.cos(math.radians(degrees)), -math.sin(math.radians(degrees))
    a, b, d, e = cosine * width, -sine * width, -sine * height, -cosine * height
    # GDAL reads 180 degrees as an image with its southernmost row first, not mirrored.
    if abs(degrees) == 180:
        a, b, d, e = width, 0.0, 0.0, height
    c = x - a * (column - 1) - b * (row - 1)
    f = y - d * (column - 1) - e * (row - 1)
    return (a, b, c, d, e, f)


def _placed(transform: Transform | None) -> tuple[float, ...] | None:
    """x and y of the first corner, the pixel sizes and, if needed, a rotation.

    None if `map info` cannot express the transform.
    """
    if transform is None:
        return None
    a, b, c, d, e, f = transform
    if b == d == 0 and a > 0:
        return (c, f, a, -e) if e < 0 else (c, f, a, e, 180.0)
    side = math.hypot(a, b)
    is_turned_square = max(abs(a + e), abs(b - d)) <= _TOLERANCE * side
    degrees = -math.degrees(math.atan2(-b, a))
    if not is_turned_square or abs(degrees) >= 180:
        return None
    return (c, f, side, side, degrees)
