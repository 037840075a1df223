"""What cameras see: their measured sensitivities, the lights that they were used in, and the response that these make.

Sensitivities and lights are at 400, 410, ..., 700 nm; origins and licences: `data/README.md`. Letters: B bands.
"""

import csv
import difflib
import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import illuminant, srgb_response
from napari_mst.errors import CameraError

CAMERA_RGB = "linear RGB of a camera and an illuminant"
"""What `camera_response` renders, in the words of a model card: the camera and the illuminant have to be told."""

SRGB, DAYLIGHT = "sRGB", "D65"
BALANCED, OF_SENSOR = "as stored", "by the sensitivities"
"""Whose white balance a photo has: its own, so that white is grey; or none, and the camera's is computed."""

GRID = np.arange(400.0, 701, 10)
_EQUAL, _TABULATED = "E", (DAYLIGHT, "A")
_SHOWN = 60


@dataclass(frozen=True)
class Capture:
    """How a linear photo came about: which camera and which illuminant it was, each a name or a file.

    Attributes
    ----------
    camera, illuminant
        See `camera_response`; names become as they are listed.
    white
        Value, as stored, of a surface of reflectance 1 (in green, if the photo is not balanced); 0: full scale.
    balance
        `BALANCED`, or `OF_SENSOR` for the values of the sensor as they are.

    Raises
    ------
    CameraError
        If the white is no number above 0, or there is no such balance, camera or illuminant.
    """

    camera: str
    illuminant: str
    white: float = 0.0
    balance: str = BALANCED

    def __post_init__(self) -> None:
        if not (math.isfinite(self.white) and self.white >= 0):
            raise CameraError(
                f"Expected the stored value of a white surface, above 0, got {self.white!r}."
            )
        if self.balance not in (BALANCED, OF_SENSOR):
            raise CameraError(
                f"Expected a balance {BALANCED!r} or {OF_SENSOR!r}, got {self.balance!r}."
            )
        object.__setattr__(self, "camera", spelled(self.camera))
        object.__setattr__(self, "illuminant", spelled(self.illuminant))
        self.response  # noqa: B018 (a wrong name is refused where it was written)

    @property
    def response(self) -> NDArray[np.float64]:
        """(31, 3): what a balanced photo shows of a reflectance, white being (1, 1, 1)."""
        return camera_response(self.camera, self.illuminant)

    @property
    def gains(self) -> NDArray[np.float64]:
        """(3,): what the channels of the photo have to be multiplied by to be balanced."""
        return np.ones(3) if self.balance == BALANCED else np.asarray(1 / self.white_of_sensor)

    @property
    def white_of_sensor(self) -> NDArray[np.float64]:
        """(3,): what the sensor gives of a white surface, green being 1."""
        return np.asarray(unbalanced_response(self.camera, self.illuminant).sum(axis=0))


@functools.cache
def load_cameras() -> Mapping[str, NDArray[np.float64]]:
    """Spectral sensitivities (31, 3) at `GRID` of cameras, by name in the order of the alphabet."""
    return _load("cameras31.npz")


@functools.cache
def load_illuminants() -> Mapping[str, NDArray[np.float64]]:
    """Relative spectral power (31,) at `GRID` of illuminants, by name: D65, D50 and A first."""
    known = (
        {name: illuminant(name, GRID) for name in _TABULATED}
        | {_EQUAL: np.ones(len(GRID))}
        | dict(_load("lights31.npz"))
    )
    first = (DAYLIGHT, "D50", "A")
    return MappingProxyType(
        {name: known[name] for name in (*first, *sorted(set(known) - set(first), key=str.lower))}
    )


def camera_response(camera: str, light: str) -> NDArray[np.float64]:
    """(31, 3) of a *camera* under a *light*, white-balanced: reflectance 1 becomes (1, 1, 1).

    A camera is a name of `load_cameras`, "sRGB" (the CIE observer and the sRGB matrix), or a CSV file of wavelength,
    red, green, blue; a light is a name of `load_illuminants`, or a CSV file of wavelength, power. Names may be spelled
    with spaces, and in capitals or not.

    Raises
    ------
    CameraError
        If there is no such camera or light, or its file is none.
    """
    weighted = unbalanced_response(camera, light)
    return np.asarray(weighted / weighted.sum(axis=0))


def unbalanced_response(camera: str, light: str) -> NDArray[np.float64]:
    """`camera_response` as the sensor gives it: of a white, green is 1 and the others what they are beside it."""
    camera, power = spelled(camera), _light(spelled(light))
    if camera == SRGB:
        weighted = srgb_response(GRID) / illuminant(DAYLIGHT, GRID)[:, None] * power[:, None]
    else:
        weighted = _sensitivities(camera) * power[:, None]
    return np.asarray(weighted / weighted[:, 1].sum())


def matching_camera(make: str, model: str) -> str:
    """The camera of `load_cameras` that a file names as EXIF does; "" if there is none of exactly this name."""
    known = {_plain(name): name for name in load_cameras()}
    brand = make.split()[0] if make.split() else ""
    return known.get(_plain(model), known.get(_plain(brand + model), ""))


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def spelled(name: str) -> str:
    """A camera or illuminant as it is listed, of "nikon d5100" Nikon_D5100; any other *name* unchanged."""
    return _listed().get(_plain(name), name)


@functools.cache
def _listed() -> Mapping[str, str]:
    return {_plain(name): name for name in (*load_cameras(), *load_illuminants(), SRGB)}


def named(name: str) -> str:
    """*name* for a record: of a file, its name and the beginning of its sha256."""
    path = Path(name)
    if name in load_cameras() or name in load_illuminants() or not path.is_file():
        return name
    return f"{path.name} ({hashlib.sha256(path.read_bytes()).hexdigest()[:12]})"


def _light(name: str) -> NDArray[np.float64]:
    known = load_illuminants()
    return known[name] if name in known else _table(name, 1, "light", known)[:, 0]


def _sensitivities(name: str) -> NDArray[np.float64]:
    known = load_cameras()
    return known[name] if name in known else _table(name, 3, "camera", known)


def _table(name: str, columns: int, what: str, known: Mapping[str, object]) -> NDArray[np.float64]:
    """Columns of a CSV file at `GRID`; its lines that are not all numbers are left out."""
    path, shown = Path(name), name[-_SHOWN:]
    if not path.is_file():
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or list(known)[:3]
        raise CameraError(
            f"Expected a CSV file or a {what} as {', '.join(near)}, got {shown!r}. Check the spelling: "
            f"`napari-mst cameras` lists {len(known)}."
        )
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = [row for row in map(_numbers, csv.reader(file)) if row]
    if len(rows) < 2 or any(len(row) != columns + 1 for row in rows):
        raise CameraError(
            f"Expected rows of {columns + 1} numbers, nm first, in {path.name[-_SHOWN:]!r}, got others."
        )
    table = np.array(sorted(rows))
    if table[0, 0] > GRID[0] or table[-1, 0] < GRID[-1] or not (table[:, 1:].sum(axis=0) > 0).all():
        raise CameraError(
            f"Expected positive values from 400 to 700 nm in {path.name[-_SHOWN:]!r}, got others."
        )
    return np.stack([np.interp(GRID, table[:, 0], column) for column in table[:, 1:].T], axis=1)


def _numbers(row: Sequence[str]) -> list[float]:
    try:
        return [float(text) for text in row]
    except ValueError:
        return []


def _load(name: str) -> Mapping[str, NDArray[np.float64]]:
    path = resources.files("napari_mst").joinpath(f"data/{name}")
    with path.open("rb") as stream, np.load(stream) as archive:
        names = sorted((key for key in archive if key != "wavelength"), key=str.lower)
        return MappingProxyType({key: archive[key].astype(np.float64) for key in names})
