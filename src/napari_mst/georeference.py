"""The place of an image on earth: an affine transform and a coordinate system, as GeoTIFF has them.

Source: OGC GeoTIFF 1.1 (19-008r4); user-defined systems as GDAL and ArcGIS write them. A cube keeps
its georeference as text in `metadata["georeference"]`. Rows and columns count from the outer corner
of the first pixel.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

FIELD = "georeference"
"""The key of `SpectralCube.metadata` that holds `Georeference.to_json`."""

PIXEL_SCALE = 33550
TIE_POINTS = 33922
TRANSFORMATION = 34264
KEY_DIRECTORY = 34735
KEY_DOUBLES = 34736
KEY_TEXT = 34737
TAGS = (PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, KEY_DIRECTORY, KEY_DOUBLES, KEY_TEXT)
"""The tags of GeoTIFF, by their numbers in a TIFF."""

# Keys of the directory, and their values.
_MODEL_TYPE = 1024
_RASTER_TYPE = 1025
_GEOGRAPHIC_TYPE = 2048
_PROJECTED_TYPE = 3072
_PROJECTED_CITATION = 3073
_IS_PROJECTED = 1
_IS_GEOGRAPHIC = 2
_USER_DEFINED = 32767
_IS_AREA = 1
_IS_POINT = 2

_WKT_MARK = "ESRI PE String = "  # in a citation, before the definition of a system
_FEWEST_POINTS = 2  # tie points that tell a place by themselves; one alone needs a scale
_POINT = 6  # numbers of a tie point

Transform = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): x = a column + b row + c, y = d column + e row + f."""

_Line = tuple[float, float]  # (scale, offset): how rows, or columns, are renumbered


@dataclass(frozen=True)
class Georeference:
    """The place of an image on earth.

    Attributes
    ----------
    transform
        From columns and rows to coordinates; None where only tie points or the system are known.
    tie_points
        (column, row, height, x, y, z) of several points, one after the other, where there is no
        transform.
    directory, doubles, text
        The coordinate system, as the three GeoTIFF tags of keys hold it; empty where it is unknown.
    """

    transform: Transform | None = None
    tie_points: tuple[float, ...] = ()
    directory: tuple[int, ...] = ()
    doubles: tuple[float, ...] = ()
    text: str = ""

    @classmethod
    def from_tags(cls, tags: Mapping[int, Any]) -> "Georeference | None":
        """The georeference that the GeoTIFF *tags* of an image (code: value) tell.

        None if they tell nothing, or nothing that makes sense.
        """
        try:
            directory = tuple(int(value) for value in tags.get(KEY_DIRECTORY, ()))
            doubles = tuple(float(value) for value in _sequence(tags.get(KEY_DOUBLES, ())))
            keys = cls(directory=directory, doubles=doubles, text=str(tags.get(KEY_TEXT, "")))
            points = tuple(float(value) for value in tags.get(TIE_POINTS, ()))
            transform = _transform_of(tags, points)
        except (TypeError, ValueError, IndexError):
            return None
        if transform is not None or len(points) < _FEWEST_POINTS * _POINT:
            points = ()
        # Numbers of points count from the centre of the first pixel, ours from its corner.
        shift = 0.5 if keys.is_point else 0.0
        stored = replace(keys, transform=transform, tie_points=points)
        found = stored._shifted(shift, shift)
        return found if found != cls() else None

    @classmethod
    def from_json(cls, text: str) -> "Georeference | None":
        """The inverse of `to_json`; None for other text."""
        try:
            stored = json.loads(text)
            transform = stored.get("transform")
            return cls(
                transform=_checked(transform) if transform else None,
                tie_points=tuple(float(value) for value in stored.get("tie_points", ())),
                directory=tuple(int(value) for value in stored.get("directory", ())),
                doubles=tuple(float(value) for value in stored.get("doubles", ())),
                text=str(stored.get("text", "")),
            )
        except (ValueError, TypeError, AttributeError):
            return None

    @classmethod
    def of_code(cls, transform: Transform, code: int, *, is_geographic: bool) -> Self:
        """On the coordinate system with the EPSG *code*."""
        model = _IS_GEOGRAPHIC if is_geographic else _IS_PROJECTED
        key = _GEOGRAPHIC_TYPE if is_geographic else _PROJECTED_TYPE
        directory = _directory((_MODEL_TYPE, model), (_RASTER_TYPE, _IS_AREA), (key, code))
        return cls(transform, directory=directory)

    @classmethod
    def of_wkt(cls, transform: Transform, wkt: str) -> Self:
        """On the coordinate system that *wkt* (Esri's) defines.

        It is written into the citation, where GDAL and ArcGIS look for it.
        """
        text = f"{_WKT_MARK}{wkt}|"
        version, revision, minor, count, *keys = _directory(
            (_MODEL_TYPE, _USER_DEFINED), (_RASTER_TYPE, _IS_AREA)
        )
        citation = (_PROJECTED_CITATION, KEY_TEXT, len(text), 0)
        directory = (version, revision, minor, count + 1, *keys, *citation)
        return cls(transform, directory=directory, text=text)

    @property
    def is_point(self) -> bool:
        """True if a number stands for the centre of its pixel rather than for its area."""
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

    def cropped(self, top: int, left: int) -> Self:
        """The georeference of the part of the image that begins at row *top* and column *left*."""
        return self._shifted(-left, -top)

    def scaled(self, rows: float, columns: float) -> Self:
        """The georeference of the image averaged down: a pixel is *rows* x *columns* old ones."""
        transform = None
        if self.transform is not None:
            a, b, c, d, e, f = self.transform
            transform = (a * columns, b * rows, c, d * columns, e * rows, f)
        points = _renumbered(
            self.tie_points, lambda column: column / columns, lambda row: row / rows
        )
        return replace(self, transform=transform, tie_points=points)

    def turned(self, orientation: int, rows: int, columns: int) -> Self:
        """The georeference of the image after its EXIF *orientation* was undone.

        *rows* x *columns* is the size of the image that results.
        """
        flips_rows = orientation in (3, 4, 7, 8)
        flips_columns = orientation in (2, 3, 6, 7)
        row: _Line = (-1.0, float(rows)) if flips_rows else (1.0, 0.0)
        column: _Line = (-1.0, float(columns)) if flips_columns else (1.0, 0.0)
        transform, points = self.transform, self.tie_points
        if orientation in (5, 6, 7, 8):
            transform, points = _swapped(transform, points)
        if transform is not None:
            transform = _flipped(transform, row, column)
        points = _renumbered(
            points,
            lambda old: column[0] * old + column[1],
            lambda old: row[0] * old + row[1],
        )
        return replace(self, transform=transform, tie_points=points)

    def tags(self) -> dict[int, tuple[str, Any]]:
        """The GeoTIFF tags (code: type and value).

        Without rotation they are a scale and a tie point, as GDAL writes them.
        """
        shift = -0.5 if self.is_point else 0.0
        stored = self._shifted(shift, shift)
        found: dict[int, tuple[str, Any]] = {}
        if stored.transform is not None:
            a, b, c, d, e, f = stored.transform
            # North is up, and no row is mirrored: what a scale and a tie point can say.
            if b == d == 0 and a > 0 > e:
                found[PIXEL_SCALE] = ("d", (a, -e, 0.0))
                found[TIE_POINTS] = ("d", (0.0, 0.0, 0.0, c, f, 0.0))
            else:
                last_rows = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
                found[TRANSFORMATION] = ("d", (a, b, 0.0, c, d, e, 0.0, f, *last_rows))
        elif stored.tie_points:
            found[TIE_POINTS] = ("d", stored.tie_points)
        if self.directory:
            found[KEY_DIRECTORY] = ("H", self.directory)
        if self.doubles:
            found[KEY_DOUBLES] = ("d", self.doubles)
        if self.text:
            found[KEY_TEXT] = ("s", self.text)
        return found

    def to_json(self) -> str:
        """One line of JSON without the empty fields."""
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    def _key(self, wanted: int) -> int:
        """The value of a key that is a short number; 0 if there is none."""
        entries = zip(*(self.directory[first::4] for first in (4, 5, 7)), strict=False)
        return next((value for key, place, value in entries if (key, place) == (wanted, 0)), 0)

    def _shifted(self, columns: float, rows: float) -> Self:
        """The place of the image, with *columns* and *rows* added to the numbers of every pixel."""
        transform = self.transform
        if transform is not None:
            a, b, c, d, e, f = transform
            transform = (a, b, c - a * columns - b * rows, d, e, f - d * columns - e * rows)
        points = _renumbered(
            self.tie_points, lambda column: column + columns, lambda row: row + rows
        )
        return replace(self, transform=transform, tie_points=points)


def _renumbered(
    points: tuple[float, ...],
    column_of: Callable[[float], float],
    row_of: Callable[[float], float],
) -> tuple[float, ...]:
    """Tie *points* in which each column and each row has a new number, made of the old one."""
    numbers = list(points)
    numbers[0::_POINT] = [column_of(column) for column in points[0::_POINT]]
    numbers[1::_POINT] = [row_of(row) for row in points[1::_POINT]]
    return tuple(numbers)


def _swapped(
    transform: Transform | None, points: tuple[float, ...]
) -> tuple[Transform | None, tuple[float, ...]]:
    """A transform and tie points with rows for columns, and columns for rows."""
    numbers = list(points)
    numbers[0::_POINT] = points[1::_POINT]
    numbers[1::_POINT] = points[0::_POINT]
    if transform is not None:
        a, b, c, d, e, f = transform
        transform = (b, a, c, e, d, f)
    return transform, tuple(numbers)


def _flipped(transform: Transform, row: _Line, column: _Line) -> Transform:
    """*transform* for pixels whose row was row[0] * row' + row[1], and so for their column."""
    a, b, c, d, e, f = transform
    across, right = column
    down, bottom = row
    x = c + a * right + b * bottom
    y = f + d * right + e * bottom
    return (a * across, b * down, x, d * across, e * down, y)


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
    """Six finite numbers, of which no pixel is empty; None for others."""
    a, b, c, d, e, f = (float(value) for value in values)
    is_sound = all(map(math.isfinite, (a, b, c, d, e, f))) and a * e != b * d
    return (a, b, c, d, e, f) if is_sound else None


def _sequence(value: Any) -> Any:
    """A tag of one number comes as that number."""
    return value if isinstance(value, tuple | list) else (value,)


def _directory(*keys: tuple[int, int]) -> tuple[int, ...]:
    """The tag of *keys* (number and value), in ascending order, as the standard has them.

    Their values are short numbers, which lie in the tag itself.
    """
    entries = [number for key, value in keys for number in (key, 0, 1, value)]
    return (1, 1, 0, len(keys), *entries)
