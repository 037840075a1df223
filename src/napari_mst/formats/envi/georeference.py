"""The georeference of ENVI headers (`map info`, `coordinate system string`) and a `Georeference`.

Sources: NV5 Geospatial, "ENVI Header Files"; GDAL's ENVI driver, which takes the coordinate system
string before the map info, and turns by the rotation.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from napari_mst.cube import SpectralCube
from napari_mst.curves import number
from napari_mst.formats.envi.systems import UNKNOWN, code_of_items, code_of_wkt, system_of
from napari_mst.georeference import FIELD, Georeference, Transform

MAP_INFO, SYSTEM, PROJECTION = "map info", "coordinate system string", "projection info"
FIELDS = (MAP_INFO, SYSTEM, PROJECTION)
"""The fields of an ENVI header that say where the image lies."""

# The share of a pixel's size by which the two sides of a turned pixel may differ: rounding only.
_TOLERANCE = 1e-9


def georeference_of(metadata: Mapping[str, Any]) -> Georeference | None:
    """The georeference of a cube, from its *metadata*; None if there is none.

    Its own, else the one that the fields of an ENVI header give.
    """
    if FIELD in metadata:
        return Georeference.from_json(str(metadata[FIELD]))
    items = [item.strip() for item in str(metadata.get(MAP_INFO, "")).strip("{} ").split(",")]
    transform = _transform(items)
    if transform is None:
        return None
    wkt = str(metadata.get(SYSTEM, "")).strip("{} ")
    code, is_geographic = code_of_wkt(wkt) if wkt else code_of_items(items)
    if code:
        return Georeference.of_code(transform, code, is_geographic=is_geographic)
    return Georeference.of_wkt(transform, wkt) if wkt else Georeference(transform)


def envi_fields(georeference: Georeference) -> tuple[dict[str, str], list[str]]:
    """The fields of an ENVI header that mean *georeference*.

    Returns
    -------
    The fields, and a sentence for everything that they cannot hold.
    """
    lost = []
    system = system_of(georeference)
    if system is None:
        lost.append(
            f"{_named(georeference)} has no definition here that ENVI could read: "
            "coordinates have no system."
        )
        system = UNKNOWN
    if georeference.is_point:
        lost.append("That numbers stand for points, not areas, is not kept by ENVI.")
    placed = _placed(georeference.transform)
    if placed is None:
        lost.append(
            "Tie points, and pixels that are not squares turned as a whole, "
            "have no place in ENVI's map info."
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
    georeference = georeference_of(cube.metadata) if FIELD in cube.metadata else None
    if georeference is None:
        return cube
    fields, lost = envi_fields(georeference)
    others = {key: value for key, value in cube.metadata.items() if key not in FIELDS}
    return with_losses(replace(cube, metadata=others | fields), lost)


def read_from_envi(fields: Mapping[str, Any], *, is_sealed: bool) -> dict[str, Any]:
    """The *fields* of a header with one georeference.

    Our own text where the header is as we wrote it, else the fields of ENVI: another program that
    cut or moved the image changes `map info`, and copies our text as it was.
    """
    if FIELD not in fields:
        return dict(fields)
    outdated = FIELDS if is_sealed else (FIELD,)
    return {key: value for key, value in fields.items() if key not in outdated}


def with_losses(cube: SpectralCube, lost: Sequence[str]) -> SpectralCube:
    """*cube* whose history says what of its georeference is *lost* in the file that is saved.

    The person who saves it is warned as well.
    """
    if not lost:
        return cube
    for sentence in lost:
        warnings.warn(sentence, stacklevel=2)
    known = cube.provenance.assumptions
    # A cube that is saved twice says it once.
    new = [sentence for sentence in lost if sentence not in known]
    provenance = replace(cube.provenance, assumptions=(*known, *new))
    return replace(cube, provenance=provenance)


def _transform(items: Sequence[str]) -> Transform | None:
    """The transform that the items of `map info` give; None if they make no sense.

    They give the coordinates of one pixel, counted from 1 at its outer corner.
    """
    values = [number(item) for item in items[1:7]]
    if len(values) < 6 or not all(map(math.isfinite, values)) or 0 in values[4:]:
        return None
    column, row, x, y, width, height = values
    a, b, d, e = _turned(width, height, _rotation(items))
    c = x - a * (column - 1) - b * (row - 1)
    f = y - d * (column - 1) - e * (row - 1)
    return (a, b, c, d, e, f)


def _rotation(items: Sequence[str]) -> float:
    """The rotation in degrees; 0 if none is given."""
    for item in items:
        if item.lower().startswith("rotation"):
            degrees = number(item.partition("=")[2])
            return degrees if math.isfinite(degrees) else 0.0
    return 0.0


def _turned(width: float, height: float, degrees: float) -> tuple[float, float, float, float]:
    """The coefficients a, b, d and e of a transform for pixels of that size, turned."""
    # Sines of whole turns are not quite 0, and an image that is not turned has to be exactly so.
    if degrees == 0:
        return width, 0.0, 0.0, -height
    # As GDAL reads 180 degrees: an image whose first row is the southernmost, and not mirrored.
    if abs(degrees) == 180:
        return width, 0.0, 0.0, height
    turn = -math.radians(degrees)
    cosine = math.cos(turn)
    sine = math.sin(turn)
    return cosine * width, -sine * width, -sine * height, -cosine * height


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


def _named(georeference: Georeference) -> str:
    if georeference.code:
        return f"EPSG:{georeference.code}"
    return "The coordinate system of the image"
