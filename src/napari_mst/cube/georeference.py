"""Georeferences: the affine transform and the coordinate system of an image, as in GeoTIFF.

Source: OGC GeoTIFF 1.1 (19-008r4); user-defined systems as GDAL and ArcGIS write them. Names, codes
and definitions of systems come from PROJ (https://proj.org) through pyproj, which is imported only
for images with a system. A cube keeps its georeference as text in `metadata["georeference"]`. Rows
and columns count from the outer corner of the first pixel.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from napari_mst.base.arrays import Array, doubles, even_step
from napari_mst.base.errors import shown

if TYPE_CHECKING:
    from pyproj import CRS

FIELD = "georeference"
"""Key of `SpectralCube.metadata` for the text of `Georeference.to_json`."""

COUNTS = ("column", "row")
"""Long names of coordinates that only count pixels and give no place on earth."""

PIXEL_SCALE = 33550
TIE_POINTS = 33922
TRANSFORMATION = 34264
KEY_DIRECTORY = 34735
KEY_DOUBLES = 34736
KEY_TEXT = 34737
TAGS = (PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, KEY_DIRECTORY, KEY_DOUBLES, KEY_TEXT)
"""Codes of the GeoTIFF tags in a TIFF."""

# Keys of the directory and their values.
_MODEL_TYPE = 1024
_RASTER_TYPE = 1025
_GEOGRAPHIC_TYPE = 2048
_PROJECTED_TYPE = 3072
_PROJECTED_CITATION = 3073
_LENGTH = 3076
_METRE = 9001
_UNITS = {"metre": "m", "degree": "deg"}
_IS_PROJECTED = 1
_IS_GEOGRAPHIC = 2
_USER_DEFINED = 32767
_IS_AREA = 1
_IS_POINT = 2

_WKT_MARK = "ESRI PE String = "  # precedes the definition of a system in a citation
_POINT = 6  # count of numbers in a tie point

Transform = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): x = a column + b row + c, y = d column + e row + f."""

_UNEVEN = 0.1  # of a pixel, the rounding of coordinates in float32

_Line = tuple[float, float]  # (scale, offset): old row or column = scale * new + offset


@dataclass(frozen=True)
class Georeference:
    """The place of an image on earth.

    Attributes
    ----------
    transform
        From columns and rows to coordinates; None if only the system is known.
    directory, doubles, text
        The coordinate system, as in the three GeoTIFF tags for keys; empty if it is unknown.
    """

    transform: Transform | None = None
    directory: tuple[int, ...] = ()
    doubles: tuple[float, ...] = ()
    text: str = ""

    @classmethod
    def from_tags(cls, tags: Mapping[int, Any]) -> "Georeference | None":
        """The georeference in the GeoTIFF *tags* (code: value) of an image.

        None if it is missing or makes no sense.
        """
        try:
            directory = tuple(map(int, tags.get(KEY_DIRECTORY, ())))
            doubles = tags.get(KEY_DOUBLES, ())
            # tifffile gives a tag of one number as that number.
            doubles = tuple(map(float, doubles if isinstance(doubles, tuple | list) else [doubles]))
            keys = cls(directory=directory, doubles=doubles, text=str(tags.get(KEY_TEXT, "")))
            points = tuple(map(float, tags.get(TIE_POINTS, ())))
            transform = _transform_of(tags, points)
        except (TypeError, ValueError, IndexError):
            return None
        # Point coordinates start at the centre of the first pixel, ours at its corner.
        shift = 0.5 if keys.is_point else 0.0
        stored = replace(keys, transform=transform)
        placed = stored._renumbered((1.0, -shift), (1.0, -shift))
        return placed if placed != cls() else None

    @classmethod
    def from_json(cls, text: str) -> "Georeference | None":
        """The inverse of `to_json`; None for other text."""
        try:
            stored = json.loads(text)
            transform = stored.get("transform")
            return cls(
                _checked(transform) if transform else None,
                tuple(map(int, stored.get("directory", ()))),
                tuple(map(float, stored.get("doubles", ()))),
                str(stored.get("text", "")),
            )
        except (ValueError, TypeError, AttributeError):
            return None

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, Any]) -> "Georeference | None":
        """The georeference in the *metadata* of a cube; None without one."""
        return cls.from_json(str(metadata.get(FIELD)))

    @classmethod
    def of_code(cls, transform: Transform | None, code: int, *, is_geographic: bool) -> Self:
        """A georeference in the coordinate system with the EPSG *code*."""
        model = _IS_GEOGRAPHIC if is_geographic else _IS_PROJECTED
        key = _GEOGRAPHIC_TYPE if is_geographic else _PROJECTED_TYPE
        return cls(transform, directory=_directory(model, (key, 0, 1, code)))

    @classmethod
    def of_wkt(cls, transform: Transform | None, wkt: str) -> Self:
        """A georeference in the system that *wkt* defines; `checked` finds its EPSG code.

        The definition is stored in the citation, where GDAL and ArcGIS look for it.
        """
        text = f"{_WKT_MARK}{wkt}|"
        directory = _directory(_USER_DEFINED, (_PROJECTED_CITATION, KEY_TEXT, len(text), 0))
        return cls(transform, directory=directory, text=text)

    @classmethod
    def of_grid(cls, x: Array, y: Array, mapping: Mapping[str, Any]) -> Self | None:
        """A georeference from the centres of columns and rows and a CF grid *mapping*.

        None if the centres are not numbers, or not evenly spaced.
        """
        if x.dtype.kind not in "iuf" or y.dtype.kind not in "iuf":
            return None
        x, y = doubles(x), doubles(y)
        wkt = str(mapping.get("crs_wkt", mapping.get("spatial_ref", "")))
        a, e = even_step(x, _UNEVEN), even_step(y, _UNEVEN)
        if min(x.size, y.size) < 2 or not a * e:
            return None
        transform = (a, 0.0, float(x[0]) - a / 2, 0.0, e, float(y[0]) - e / 2)
        return cls.of_wkt(transform, wkt) if wkt else cls(transform)

    @property
    def is_point(self) -> bool:
        """True if a number belongs to the centre of its pixel rather than to its area."""
        return self._key(_RASTER_TYPE) == _IS_POINT

    @property
    def code(self) -> int:
        """The EPSG code of the coordinate system; 0 if it has none."""
        of_model = {_IS_PROJECTED: _PROJECTED_TYPE, _IS_GEOGRAPHIC: _GEOGRAPHIC_TYPE}
        key = of_model.get(self._key(_MODEL_TYPE), _PROJECTED_TYPE)
        code = self._key(key)
        return code if 0 < code < _USER_DEFINED else 0

    @property
    def wkt(self) -> str:
        """The definition of the coordinate system in Esri's WKT; empty if the file has none."""
        _, mark, rest = self.text.partition(_WKT_MARK)
        return rest.partition("|")[0].strip("\0 ") if mark else ""

    @property
    def unit(self) -> str:
        """The unit of the coordinates, "m" or "deg"; empty for any other or unknown unit."""
        if self._key(_MODEL_TYPE) == _IS_GEOGRAPHIC:
            return "deg"
        system = self.system()
        if system is None:
            return "m" if self._key(_LENGTH) == _METRE else ""
        return _UNITS.get(system.axis_info[0].unit_name, "") if system.axis_info else ""

    def system(self) -> "CRS | None":
        """The coordinate system; None if PROJ neither knows it nor can read it."""
        if not (self.code or self.wkt):
            return None
        from pyproj import CRS
        from pyproj.exceptions import CRSError

        try:
            return CRS.from_epsg(self.code) if self.code else CRS.from_wkt(self.wkt)
        except CRSError:
            return None

    @classmethod
    def on(cls, transform: Transform | None, system: "CRS") -> Self:
        """A georeference in *system*, by its EPSG code, else by its definition in Esri's WKT."""
        if code := system.to_epsg():
            return cls.of_code(transform, code, is_geographic=system.is_geographic)
        return cls.of_wkt(transform, system.to_wkt("WKT1_ESRI") or system.to_wkt())

    def checked(self) -> tuple[Self, list[str]]:
        """The georeference with its system as PROJ knows it, and warnings.

        A system that does not exist, or whose definition cannot be read, is left out with a
        warning.
        """
        if not (self.code or self.wkt):
            return self, []
        system = self.system()
        if system is None:
            name = f"EPSG:{self.code}" if self.code else f"'{shown(self.wkt, 60)}'"
            return type(self)(self.transform), [unknown_system(name)]
        if self.code:
            return self, []
        return type(self).on(self.transform, system), []

    def at(self, row: float, column: float) -> tuple[float, float]:
        """The coordinates (x, y) of a place in the image."""
        a, b, c, d, e, f = self.transform or (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
        return a * column + b * row + c, d * column + e * row + f

    def cropped(self, top: int, left: int) -> Self:
        """The georeference of the part of the image that begins at row *top* and column *left*."""
        return self._renumbered((1.0, left), (1.0, top))

    def scaled(self, rows: float, columns: float) -> Self:
        """The georeference of the reduced image, whose pixels are *rows* x *columns* old ones."""
        return self._renumbered((columns, 0.0), (rows, 0.0))

    def tags(self) -> dict[int, tuple[str, Any]]:
        """The GeoTIFF tags (code: type and value).

        An unrotated transform becomes a scale and a tie point, as GDAL writes it.
        """
        shift = 0.5 if self.is_point else 0.0
        stored = self._renumbered((1.0, shift), (1.0, shift))
        tags: dict[int, tuple[str, Any]] = {}
        if stored.transform is not None:
            a, b, c, d, e, f = stored.transform
            # North is up and no row is mirrored, so a scale and a tie point suffice.
            if b == d == 0 and a > 0 > e:
                tags[PIXEL_SCALE] = ("d", (a, -e, 0.0))
                tags[TIE_POINTS] = ("d", (0.0, 0.0, 0.0, c, f, 0.0))
            else:
                last_rows = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
                tags[TRANSFORMATION] = ("d", (a, b, 0.0, c, d, e, 0.0, f, *last_rows))
        keys = {
            KEY_DIRECTORY: ("H", self.directory),
            KEY_DOUBLES: ("d", self.doubles),
            KEY_TEXT: ("s", self.text),
        }
        return tags | {code: tag for code, tag in keys.items() if tag[1]}

    def to_json(self) -> str:
        """One line of JSON without the empty fields."""
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    def _key(self, number: int) -> int:
        """The value of a key that holds a short number; 0 if the key is missing."""
        entries = zip(*(self.directory[first::4] for first in (4, 5, 7)), strict=False)
        return next((value for key, place, value in entries if (key, place) == (number, 0)), 0)

    def _renumbered(self, columns: _Line, rows: _Line) -> Self:
        """The georeference of an image whose pixels are numbered differently."""
        (across, left), (down, top) = columns, rows
        transform = self.transform
        if transform is not None:
            a, b, _, d, e, _ = transform
            x, y = self.at(top, left)
            transform = (a * across, b * down, x, d * across, e * down, y)
        return replace(self, transform=transform)


def unknown_system(name: str) -> str:
    """The warning about a file's unknown coordinate system *name*."""
    return (
        f"The coordinate system {name} is not known; "
        "the place on earth is kept as bare coordinates."
    )


def _transform_of(tags: Mapping[int, Any], points: tuple[float, ...]) -> Transform | None:
    if TRANSFORMATION in tags:
        a, b, _, c, d, e, _, f, *_ = (float(value) for value in tags[TRANSFORMATION])
        return _checked([a, b, c, d, e, f])
    if PIXEL_SCALE not in tags or len(points) < _POINT:
        return None
    width, height = (abs(float(value)) for value in tags[PIXEL_SCALE][:2])
    column, row, _, x, y, _ = points[:_POINT]
    return _checked([width, 0.0, x - column * width, 0.0, -height, y + row * height])


def _checked(values: Any) -> Transform | None:
    """A transform of six finite numbers in which pixels have an area; else None."""
    a, b, c, d, e, f = (float(value) for value in values)
    is_sound = all(map(math.isfinite, (a, b, c, d, e, f))) and a * e != b * d
    return (a, b, c, d, e, f) if is_sound else None


def _directory(model: int, key: tuple[int, int, int, int]) -> tuple[int, ...]:
    """The key directory: the keys of pixels that are areas, and *key*, in ascending order.

    A key consists of its number, the tag that holds its value, and the value's length and offset. A
    short number is stored in the key itself: (number, 0, 1, value).
    """
    area = (_RASTER_TYPE, 0, 1, _IS_AREA)
    return (1, 1, 0, 3, _MODEL_TYPE, 0, 1, model, *area, *key)
