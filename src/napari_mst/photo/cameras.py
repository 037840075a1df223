"""Cameras: their measured sensitivities, the lights that they are used in, and their response.

Some cameras are sold under several names: `data/aliases.json` has those that they write into EXIF.
Sensitivities and lights are at 400, 410, ..., 700 nm. `data/README.md` gives their origins and
licences.
"""

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import CameraError, shown
from napari_mst.cube.colour import illuminant, srgb_response, stored
from napari_mst.cube.illuminants import measured, names_a_file, nearest, numbers_of, plain, table_of
from napari_mst.cube.provenance import BY_CHART
from napari_mst.cube.spectrum import Spectrum
from napari_mst.photo.lights import WAVELENGTHS, made_light

CAMERA_RGB = "linear RGB of a camera and an illuminant"
"""The rendering of `camera_response`, in the words of a model card.

A model of this card needs the camera and the illuminant.
"""

SRGB = "sRGB"
"""The name of the camera that sees as the CIE observer does, through the sRGB matrix."""

DAYLIGHT = "D65"

ESTIMATED = "estimate"
"""The illuminant of an `Acquisition` that each photo has to show: see `nm.light.estimate`."""

BALANCED = "as stored"
"""The white balance of a photo whose white is grey, and of a RAW file that stores its own."""

OF_SENSOR = "by the sensitivities"
"""The white balance of a photo that has none: the camera's is computed."""


GRID = WAVELENGTHS
"""Wavelengths (nm) of all sensitivities and lights."""

EQUAL = "E"
"""The illuminant of equal power at all wavelengths."""

CHART = "chart"
"""The first word of a camera that a chart gave: its shares of components follow."""

_TABULATED = (DAYLIGHT, "A", EQUAL)  # illuminants that `colour` knows
_FIRST = (DAYLIGHT, "D50", "A")  # illuminants that head the list, being those asked for most
_SHOWN = 60  # characters of a name in a message


@dataclass(frozen=True)
class Acquisition:
    """The camera and the illuminant of a linear photo, each a name or a file.

    Attributes
    ----------
    camera, illuminant
        See `camera_response`; names become as they are listed. The illuminant may be `ESTIMATED`.
    white
        Value, as stored, of a surface of reflectance 1 (in green, if the photo is not balanced);
        0 means full scale.
    balance
        `BALANCED`, or `OF_SENSOR` for the values of the sensor as they are; or what the photo has
        for a white surface, red, green and blue in one text: "0.52 1 0.67".
    references
        Places in the photo and their reflectances, which tell an estimated illuminant, as
        `light.estimate` takes them.

    Raises
    ------
    CameraError
        If the white is negative or not finite, or there is no such balance, camera or illuminant.

    Notes
    -----
    ===============  ==============================================================================
    white            a stored value: up to 255 for 8 bits, 65535 for 16 bits, 1 for floats; 0: full
                     scale
    references       reflectance, 0 to about 1; wavelengths in nm
    response         (31, 3): reflectance 0-1 to linear RGB 0-1
    sensor           (31, 3): reflectance 0-1 to values of the sensor, green of white being 1
    gains            (3,) factors, 1 for a photo that is balanced
    white_of_sensor  (3,) linear, green being 1
    ===============  ==============================================================================

    Examples
    --------
    >>> shot = nm.Acquisition("nikon d5100", "D65", white=52000, balance="by the sensitivities")
    >>> shot.camera
    'Nikon_D5100'
    >>> shot.gains.round(2)
    array([1.72, 1.  , 1.17])
    """

    camera: str
    illuminant: str
    white: float = 0.0
    balance: str = BALANCED
    references: Mapping[Any, Spectrum | float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.white) and self.white >= 0):
            raise CameraError(
                f"Expected the stored value of a white surface, above 0, got {self.white!r}."
            )
        if self.balance not in (BALANCED, OF_SENSOR):
            object.__setattr__(self, "balance", white_text(_measured_white(self.balance)))
        object.__setattr__(self, "camera", spelled(self.camera))
        object.__setattr__(self, "illuminant", spelled(self.illuminant))
        # A wrong name is refused where it was written.
        camera_response(self.camera, DAYLIGHT if self.is_estimated else self.illuminant)

    @property
    def is_estimated(self) -> bool:
        """True if the illuminant is not known yet, so that there is no response."""
        return self.illuminant == ESTIMATED

    @property
    def sensor(self) -> Sequence[Sequence[float]] | Doubles:
        """(31, 3): takes a reflectance to the values of the sensor; only green of white is 1."""
        return unbalanced_response(self.camera, self.illuminant)

    @property
    def response(self) -> Doubles:
        """(31, 3): takes a reflectance to the colour in a balanced photo; white is (1, 1, 1)."""
        return np.asarray(self.sensor / self.white_of_sensor)

    @property
    def gains(self) -> Doubles:
        """(3,): factors of the channels of the photo that balance it."""
        if self.balance == BALANCED:
            return np.ones(3)
        if self.balance == OF_SENSOR:
            return 1 / self.white_of_sensor
        return 1 / _measured_white(self.balance)

    @property
    def white_of_sensor(self) -> Doubles:
        """(3,): the values of the sensor for a white surface, green being 1."""
        return np.asarray(np.sum(self.sensor, axis=0))


@dataclass(frozen=True)
class RecordedCapture(Acquisition):
    """An `Acquisition` from a history; a file that held its camera or light may be gone.

    Attributes
    ----------
    sensor
        (31, 3) the response that was used, as `unbalanced_response` gives it.
    """

    sensor: Sequence[Sequence[float]] = ()

    def __post_init__(self) -> None:
        """Skip the checks of names and numbers, which ran when the photo was reconstructed."""


def load_cameras() -> Mapping[str, Doubles]:
    """Spectral sensitivities (31, 3) at `GRID` of cameras, by name in the order of the alphabet."""
    return stored("cameras31.npz")


@functools.cache
def load_illuminants() -> Mapping[str, Doubles]:
    """Relative spectral power (31,) at `GRID` of illuminants, by name: D65, D50 and A first."""
    lights = {name: illuminant(name, GRID) for name in _TABULATED}
    lights |= {**stored("lights31.npz"), **stored("lamps31.npz")}
    others = sorted(set(lights) - set(_FIRST), key=str.lower)
    return MappingProxyType({name: lights[name] for name in (*_FIRST, *others)})


def camera_response(camera: str, light: str) -> Doubles:
    """(31, 3) of a *camera* under a *light*, white-balanced: reflectance 1 becomes (1, 1, 1).

    A camera is a name of `load_cameras`, "sRGB" (the CIE observer and the sRGB matrix), or a CSV
    file of wavelength, red, green, blue. A light is a name of `load_illuminants`, "Planck 3200 K",
    "daylight 5600 K", a mixture as "0.7 A + 0.3 F11", or a CSV file of wavelength, power. Names
    may be spelled with spaces, and in capitals or not.

    Raises
    ------
    CameraError
        If there is no such camera or light, or its file holds something else.
    """
    weighted = unbalanced_response(camera, light)
    return weighted / weighted.sum(axis=0)


def light_power(light: str) -> Doubles:
    """Relative spectral power (31,) at `GRID` of a *light*, as `camera_response` takes it."""
    return _light(spelled(light))


def unbalanced_response(camera: str, light: str) -> Doubles:
    """`camera_response` as the sensor gives it: only the green of a white surface is 1."""
    camera = spelled(camera)
    power = _light(spelled(light))[:, None]
    if camera == SRGB:
        # The response of sRGB holds daylight already.
        weighted = srgb_response(GRID) / illuminant(DAYLIGHT, GRID)[:, None] * power
    else:
        weighted = _sensitivities(camera) * power
    return weighted / weighted[:, 1].sum()


def sensor_white(camera: str, light: str) -> Doubles:
    """(3,): the values of the sensor for a white surface under *light*, green being 1."""
    return unbalanced_response(camera, light).sum(axis=0)


def white_text(values: Doubles) -> str:
    """The balance of an `Acquisition` whose photo has *values* (3,) for a white surface."""
    return " ".join(f"{value:.6g}" for value in values / values[1])


def _measured_white(text: str) -> Doubles:
    """The values (3,) of a white surface, from the text of a balance."""
    values = np.array(numbers_of(text.replace(",", " ").split()))
    if values.shape != (3,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise CameraError(
            f"Expected a balance {BALANCED!r} or {OF_SENSOR!r}, or three numbers, "
            f"got {text[:_SHOWN]!r}."
        )
    return values


def matching_camera(make: str, model: str) -> str:
    """The camera of `load_cameras` with this *make* and *model*, as EXIF has them.

    "" if none has exactly this name, or is sold under it elsewhere. Some models name their brand
    themselves.
    """
    file = resources.files("napari_mst").joinpath("data", "aliases.json")
    aliases = json.loads(file.read_text(encoding="utf-8"))
    names = {plain(name): name for name in load_cameras()}
    names |= {plain(alias): name for alias, name in aliases.items()}
    brand = next(iter(make.split()), "")
    spellings = (plain(name) for name in (model, brand + model, make + model))
    return next((names[name] for name in spellings if name in names), "")


def spelled(name: str) -> str:
    """*name* as the camera or illuminant is listed: Nikon_D5100 for "nikon d5100".

    Any other name is unchanged.
    """
    return _listed().get(plain(name), name)


@functools.cache
def _listed() -> Mapping[str, str]:
    return {plain(name): name for name in (*load_cameras(), *load_illuminants(), SRGB, ESTIMATED)}


def named(name: str) -> str:
    """*name* for a record; a file becomes its name and the beginning of its sha256."""
    if not is_file(name):
        return name
    path = Path(name)
    return f"{path.name} ({hashlib.sha256(path.read_bytes()).hexdigest()[:12]})"


def is_file(name: str) -> bool:
    """True if the camera or illuminant *name* names a file."""
    return name not in load_cameras() and name not in load_illuminants() and names_a_file(name)


def _light(name: str) -> Doubles:
    lights = load_illuminants()
    if name == BY_CHART:
        # The response that the chart gave holds the light already.
        return lights[EQUAL]
    if name in lights:
        return lights[name]
    made = made_light(name, lambda part: lights.get(spelled(part)))
    if made is None:
        made = np.interp(GRID, *table_of(_file(name, "light", [*lights])))
    return made


def _sensitivities(name: str) -> Doubles:
    cameras = load_cameras()
    if name in cameras:
        return cameras[name]
    if name.startswith(f"{CHART} "):
        return _by_chart(name)
    path = _file(name, "camera", [*cameras])
    wavelengths, values = measured(path, columns=3)
    if not (values.sum(axis=0) > 0).all():
        raise CameraError(
            f"Expected red, green and blue above 0 in {shown(path.name)}, got others. "
            "Measure them again."
        )
    return np.stack([np.interp(GRID, wavelengths, column) for column in values.T], axis=1)


def chart_camera(shares: Sequence[float]) -> str:
    """The name of a camera whose response under equal light has these *shares* of components."""
    return " ".join([CHART, *(f"{share:.5f}" for share in shares)])


class ChartResponses(NamedTuple):
    """Responses of 52 cameras under 15 lights, all balanced, by which a chart knows a camera.

    *mean* (3, 31) and *components* (12, 3, 31) are their principal components at 400, 410, ...,
    700 nm, and *spread* (12,) the standard deviations of the shares.
    """

    mean: Doubles
    components: Doubles
    spread: Doubles

    def response(self, shares: Doubles) -> Doubles:
        """(3, 31): the response with these *shares* (12,) of the components."""
        return self.mean + np.tensordot(shares, self.components, axes=1)


@functools.cache
def chart_responses() -> ChartResponses:
    """The responses of `data/chart31.npz`."""
    data = stored("chart31.npz")
    return ChartResponses(*(data[name] for name in ChartResponses._fields))


def _by_chart(name: str) -> Doubles:
    shares = np.array(numbers_of(name.split()[1:]))
    responses = chart_responses()
    if shares.shape != responses.spread.shape or not np.isfinite(shares).all():
        raise CameraError(
            f"Expected {len(responses.spread)} numbers of a camera that a chart gave, "
            f"got {name[:_SHOWN]!r}. Calibrate again."
        )
    return responses.response(shares).T


def _file(name: str, kind: str, listed: Sequence[str]) -> Path:
    """The file of a light or camera (*kind*) that is not *listed*."""
    if names_a_file(name):
        return Path(name)
    raise CameraError(
        f"Expected a CSV file or a {kind} as {nearest(name, listed)}, got {name[-_SHOWN:]!r}. "
        f"Check the spelling: `napari-mst cameras` lists {len(listed)}."
    )
