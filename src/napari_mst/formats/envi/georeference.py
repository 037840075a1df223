"""The georeference of ENVI headers (`map info`, `coordinate system string`) and a `Georeference`.

Coordinate systems are named as Esri and EPSG name them. The definitions (`data/systems.json`) are
Esri's, as in ENVI: UTM on four datums, latitude and longitude on these, and Web Mercator.

Sources: NV5 Geospatial, "ENVI Header Files"; GDAL's ENVI driver, which takes the coordinate system
string before the map info, and turns by the rotation.
"""

import functools
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, NamedTuple

from napari_mst.cube import SpectralCube
from napari_mst.cube.curves import number
from napari_mst.cube.georeference import FIELD, Georeference, Transform, code_of
from napari_mst.cube.parts import without


class System(NamedTuple):
    """A coordinate system as ENVI names it.

    Attributes
    ----------
    kind
        The first word of `map info`.
    place
        The items that follow the sizes of a pixel there.
    wkt
        The `coordinate system string`; empty if there is none.
    """

    kind: str
    place: tuple[str, ...] = ()
    wkt: str = ""


UNKNOWN = System("Arbitrary", ("0", "North"))
"""Coordinates without a system."""


def system_of(georeference: Georeference) -> System | None:
    """The coordinate system in ENVI's words; None if it is one that we cannot define."""
    code = georeference.code
    wkt = georeference.wkt
    if code in _systems():
        return _systems()[code]
    if wkt and not code:
        is_geographic = wkt.upper().startswith("GEOGCS")
        return System("Geographic Lat/Lon", wkt=wkt) if is_geographic else UNKNOWN._replace(wkt=wkt)
    # A directory of GeoTIFF keys has 4 numbers of its own and 4 for each key; one key alone cannot
    # name a system.
    return None if code or len(georeference.directory) > 8 else UNKNOWN


def _code(wkt: str, items: Sequence[str]) -> tuple[int, bool]:
    """The EPSG code of the system that *wkt* defines, and True if it is latitude and longitude.

    Without a definition it is the system that the *items* of a `map info` name. (0, False) if no
    code is known.
    """
    stated = code_of(wkt)
    if stated[0]:
        return stated
    for code, system in _systems().items():
        is_kind = items[0].lower().startswith(system.kind.split()[0].lower())
        # Beside a zone and its hemisphere stands the datum, if ENVI has a name for it.
        is_named = is_kind and len(system.place) in (1, 3) and set(system.place) <= set(items[7:])
        # ENVI and Esri give no codes, but always the same text for the same system.
        if system.wkt == wkt if wkt else is_named:
            return code, system.kind.startswith("Geographic")
    return 0, False


@functools.cache
def _systems() -> dict[int, System]:
    """The systems that we can define, by their EPSG codes."""
    file = resources.files("napari_mst").joinpath("data", "systems.json")
    stored = json.loads(file.read_text(encoding="utf-8"))
    return {
        int(code): System(kind, tuple(place), wkt) for code, (kind, place, wkt) in stored.items()
    }


MAP_INFO, SYSTEM, PROJECTION = "map info", "coordinate system string", "projection info"
FIELDS = (MAP_INFO, SYSTEM, PROJECTION)
"""The fields of an ENVI header that say where the image lies."""

# The share of a pixel's size by which the two sides of a turned pixel may differ: rounding only.
_TOLERANCE = 1e-9


def envi_fields(georeference: Georeference) -> tuple[dict[str, str], list[str]]:
    """The fields of an ENVI header that mean *georeference*.

    Returns
    -------
    The fields, and a sentence for everything that they cannot hold.
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
    # ENVI counts pixels from 1: the coordinates are those of the outer corner of the first one.
    texts = [system.kind, "1", "1", *map(repr, (x, y, width, height)), *system.place]
    texts += [f"rotation={angle!r}" for angle in rotation]
    fields = {MAP_INFO: "{" + ", ".join(texts) + "}"}
    if system.wkt:
        fields[SYSTEM] = "{" + system.wkt + "}"
    return fields, lost


def in_envi(cube: SpectralCube) -> SpectralCube:
    """*cube* with the fields of an ENVI header for its own georeference.

    The cube's history says what those cannot hold (see `with_losses`).
    """
    georeference = Georeference.from_json(str(cube.metadata.get(FIELD)))
    if georeference is None:
        return cube
    fields, lost = envi_fields(georeference)
    others = without(cube.metadata, FIELDS)
    return with_losses(replace(cube, metadata=others | fields), lost)


def read_from_envi(fields: Mapping[str, Any], *, is_sealed: bool = False) -> dict[str, Any]:
    """The *fields* of a header with one georeference, in the words of GeoTIFF.

    It is our own text where the header is as we wrote it, else that of ENVI: another program that
    cut or moved the image changes `map info`, and copies our text as it was. A `map info` that
    makes no sense, or whose coordinate system is not known, stays text.
    """
    if is_sealed and FIELD in fields:
        return without(fields, FIELDS)
    fields = without(fields, [FIELD])
    items = [item.strip() for item in str(fields.get(MAP_INFO, "")).strip("{} ").split(",")]
    wkt = str(fields.get(SYSTEM, "")).strip("{} ")
    code, is_geographic = _code(wkt, items)
    transform = _transform(items)
    if transform is None:
        return fields
    if code:
        place = Georeference.of_code(transform, code, is_geographic=is_geographic)
    elif wkt:
        place = Georeference.of_wkt(transform, wkt)
    elif items[0].lower().startswith(("arbitrary", "pixel")):
        place = Georeference(transform)
    else:
        return fields
    return {**without(fields, FIELDS), FIELD: place.to_json()}


def with_losses(cube: SpectralCube, lost: Sequence[str]) -> SpectralCube:
    """*cube* whose history says what of its georeference is *lost* in the file that is saved.

    The person who saves it is warned as well.
    """
    if not lost:
        return cube
    for sentence in lost:
        warnings.warn(sentence, stacklevel=2)
    former = cube.provenance.assumptions
    # A cube that is saved twice says it once.
    new = [sentence for sentence in lost if sentence not in former]
    provenance = replace(cube.provenance, assumptions=(*former, *new))
    return replace(cube, provenance=provenance)


def _transform(items: Sequence[str]) -> Transform | None:
    """The transform that the items of `map info` give; None if they make no sense.

    They give the coordinates of one pixel, counted from 1 at its outer corner.
    """
    values = [number(item) for item in items[1:7]]
    if len(values) < 6 or not all(map(math.isfinite, values)) or 0 in values[4:]:
        return None
    column, row, x, y, width, height = values
    degrees = next((_degrees(item) for item in items if item.lower().startswith("rotation")), 0.0)
    turn = -math.radians(degrees)
    cosine = math.cos(turn)
    sine = math.sin(turn)
    a, b, d, e = cosine * width, -sine * width, -sine * height, -cosine * height
    # As GDAL reads 180 degrees: an image whose first row is the southernmost, and not mirrored.
    if abs(degrees) == 180:
        a, b, d, e = width, 0.0, 0.0, height
    c = x - a * (column - 1) - b * (row - 1)
    f = y - d * (column - 1) - e * (row - 1)
    return (a, b, c, d, e, f)


def _degrees(item: str) -> float:
    degrees = number(item.partition("=")[2])
    return degrees if math.isfinite(degrees) else 0.0


def _placed(transform: Transform | None) -> tuple[float, ...] | None:
    """x and y of the first corner, the size of a pixel, and a rotation where there is one.

    None if `map info` cannot say it.
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
