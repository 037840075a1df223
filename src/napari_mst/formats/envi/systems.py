"""Coordinate systems in ENVI's words and in Esri's WKT, from and to EPSG codes.

Systems are named as Esri and EPSG name them. The definitions are Esri's, as in ENVI: UTM on four
datums, latitude and longitude on these, and Web Mercator.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from napari_mst.georeference import Georeference

_WEB_MERCATOR = 3857


@dataclass(frozen=True)
class Datum:
    """A geodetic datum.

    Attributes
    ----------
    envi, name, utm
        Its names in ENVI (empty if it has none), in Esri's WKT, and in Esri's names of UTM zones.
    spheroid
        Its ellipsoid, as Esri's WKT has it.
    code
        The EPSG code of latitude and longitude on it.
    north, south
        The EPSG code that UTM zone 0 would have; 0 where there are no such zones.
    zones
        The zones that EPSG has.
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
        """Esri's definition of latitude and longitude on this datum."""
        return (
            f'GEOGCS["GCS_{self.name}",DATUM["D_{self.name}",SPHEROID[{self.spheroid}]],'
            'PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]'
        )

    def utm_wkt(self, zone: int, hemisphere: str) -> str:
        """Esri's definition of a UTM zone; *hemisphere* is N or S.

        A zone is 6 degrees wide, and the first one lies 180 to 174 degrees west.
        """
        # South of the equator 10,000 km are added, so that no coordinate is negative.
        northing = 0.0 if hemisphere == "N" else 10_000_000.0
        return (
            f'PROJCS["{self.utm}_UTM_Zone_{zone}{hemisphere}",{self.geographic_wkt},'
            'PROJECTION["Transverse_Mercator"],'
            f'PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",{northing}],'
            f'PARAMETER["Central_Meridian",{6.0 * zone - 183.0}],PARAMETER["Scale_Factor",0.9996],'
            'PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]'
        )

    def code_of(self, zone: int, *, is_south: bool) -> int:
        """The EPSG code of a UTM *zone*; 0 if EPSG has none."""
        base = self.south if is_south else self.north
        return base + zone if base and zone in self.zones else 0


_WGS84 = Datum(
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
    Datum(
        envi="North America 1983",
        name="North_American_1983",
        utm="NAD_1983",
        spheroid='"GRS_1980",6378137.0,298.257222101',
        code=4269,
        north=26900,
        south=0,
        zones=range(1, 24),
    ),
    Datum(
        envi="North America 1927",
        name="North_American_1927",
        utm="NAD_1927",
        spheroid='"Clarke_1866",6378206.4,294.978698213898',
        code=4267,
        north=26700,
        south=0,
        zones=range(1, 23),
    ),
    Datum(
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
    f'PROJCS["WGS_1984_Web_Mercator_Auxiliary_Sphere",{_WGS84.geographic_wkt},'
    'PROJECTION["Mercator_Auxiliary_Sphere"],'
    'PARAMETER["False_Easting",0.0],PARAMETER["False_Northing",0.0],'
    'PARAMETER["Central_Meridian",0.0],'
    'PARAMETER["Standard_Parallel_1",0.0],PARAMETER["Auxiliary_Sphere_Type",0.0],UNIT["Meter",1.0]]'
)


@dataclass(frozen=True)
class System:
    """A coordinate system as ENVI names it.

    Attributes
    ----------
    kind
        The first word of `map info`.
    place
        What follows the sizes of a pixel there.
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
    if wkt and not code:
        if wkt.upper().startswith("GEOGCS"):
            return System("Geographic Lat/Lon", wkt=wkt)
        return System(UNKNOWN.kind, UNKNOWN.place, wkt)
    if code == _WEB_MERCATOR:
        return System("Mercator_1SP", wkt=_WEB_MERCATOR_WKT)
    for datum in _DATUMS:
        system = _system_on(datum, code)
        if system is not None:
            return system
    # A directory of GeoTIFF keys has 4 numbers of its own and 4 for each key; one key alone cannot
    # name a system.
    has_system = len(georeference.directory) > 8 or bool(code)
    return None if has_system else UNKNOWN


def code_of_wkt(wkt: str) -> tuple[int, bool]:
    """The EPSG code of a definition, and True if it is latitude and longitude.

    (0, False) if the definition has no code that is known.
    """
    authority = re.search(r'AUTHORITY\["EPSG", ?"?(\d{4,5})"?\]\s*\]\s*$', wkt)
    if authority:
        return int(authority.group(1)), wkt.upper().startswith("GEOGCS")
    # ENVI and Esri give no codes, but always the same text for the same system.
    return _known_definitions().get(wkt, (0, False))


def code_of_items(items: Sequence[str]) -> tuple[int, bool]:
    """As `code_of_wkt`, from the items of a `map info` that has no definition beside it."""
    kind = items[0].lower()
    place = list(items[7:])
    datum = next((datum for datum in _DATUMS if datum.envi and datum.envi in place), None)
    if datum is None:
        return 0, False
    if kind.startswith("geographic"):
        return datum.code, True
    if not kind.startswith("utm") or not place[0].isdecimal():
        return 0, False
    return datum.code_of(int(place[0]), is_south=place[1:2] == ["South"]), False


def _system_on(datum: Datum, code: int) -> System | None:
    """The system with the EPSG *code*, if it is one on this *datum*."""
    named = (datum.envi,) if datum.envi else ()
    if code == datum.code:
        return System("Geographic Lat/Lon", named, datum.geographic_wkt)
    for base, hemisphere in ((datum.north, "North"), (datum.south, "South")):
        zone = code - base
        if base and zone in datum.zones:
            wkt = datum.utm_wkt(zone, hemisphere[0])
            return System("UTM", (str(zone), hemisphere, *named), wkt)
    return None


def _known_definitions() -> dict[str, tuple[int, bool]]:
    """Every definition that we write, with its EPSG code and whether it is geographic."""
    known = {_WEB_MERCATOR_WKT: (_WEB_MERCATOR, False)}
    for datum in _DATUMS:
        known[datum.geographic_wkt] = (datum.code, True)
        for zone in datum.zones:
            for hemisphere in "NS":
                code = datum.code_of(zone, is_south=hemisphere == "S")
                if code:
                    known[datum.utm_wkt(zone, hemisphere)] = (code, False)
    return known
