"""Cameras: their measured sensitivities, the lights in which they are used, and their response.

Some cameras are sold under several names; `data/aliases.json` lists those found in EXIF.
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
"""Name of the rendering of `camera_response` in model cards.

A model with this card needs the camera and the illuminant.
"""

SRGB = "sRGB"
"""Name of the ideal camera: the CIE observer followed by the sRGB matrix."""

DAYLIGHT = "D65"

ESTIMATED = "estimate"
"""Illuminant of an `Acquisition` to be estimated from each photo: see `nm.light.estimate`."""

BALANCED = "as stored"
"""White balance of a photo whose white is neutral, and of a RAW file with a stored balance."""

OF_SENSOR = "by the sensitivities"
"""White balance of an unbalanced photo: it is computed from the camera's sensitivities."""


GRID = WAVELENGTHS
"""Wavelengths (nm) of all sensitivities and lights."""

EQUAL = "E"
"""Illuminant of equal power at all wavelengths."""

CHART = "chart"
"""First word of a camera known from a chart; its shares of components follow."""

_TABULATED = (DAYLIGHT, "A", EQUAL)  # illuminants in `colour`
_FIRST = (DAYLIGHT, "D50", "A")  # the most common illuminants head the list
_SHOWN = 60  # most characters of a name in a message


@dataclass(frozen=True)
class Acquisition:
    """The camera and the illuminant of a linear photo, each a name or a file.

    Attributes
    ----------
    camera, illuminant
        See `camera_response`; names take their listed spelling. The illuminant may be `ESTIMATED`.
    white
        Stored value of a surface of reflectance 1 (of its green, if the photo is not balanced);
        0 means full scale.
    balance
        `BALANCED`, or `OF_SENSOR` for plain sensor values; or the photo's red, green and blue of a
        white surface in one text: "0.52 1 0.67".
    references
        Places in the photo and their reflectances, which help to estimate the illuminant, as in
        `light.estimate`.

    Raises
    ------
    CameraError
        If the white is negative or not finite, or the balance, camera or illuminant is unknown.

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
        # A wrong name is refused at once.
        camera_response(self.camera, DAYLIGHT if self.is_estimated else self.illuminant)

    @property
    def is_estimated(self) -> bool:
        """True if the illuminant is still unknown, so that there is no response."""
        return self.illuminant == ESTIMATED

    @property
    def sensor(self) -> Sequence[Sequence[float]] | Doubles:
        """(31, 3), from reflectance to sensor values; the green of white is 1."""
        return unbalanced_response(self.camera, self.illuminant)

    @property
    def response(self) -> Doubles:
        """(31, 3), from reflectance to the colour in a balanced photo; white is (1, 1, 1)."""
        return np.asarray(self.sensor / self.white_of_sensor)

    @property
    def gains(self) -> Doubles:
        """White-balance gains (3,) of the photo."""
        if self.balance == BALANCED:
            return np.ones(3)
        if self.balance == OF_SENSOR:
            return 1 / self.white_of_sensor
        return 1 / _measured_white(self.balance)

    @property
    def white_of_sensor(self) -> Doubles:
        """Sensor values (3,) of a white surface, with green 1."""
        return np.asarray(np.sum(self.sensor, axis=0))


@dataclass(frozen=True)
class RecordedCapture(Acquisition):
    """An `Acquisition` from a history, whose camera or light file may no longer exist.

    Attributes
    ----------
    sensor
        (31, 3) the response that was used, as from `unbalanced_response`.
    """

    sensor: Sequence[Sequence[float]] = ()

    def __post_init__(self) -> None:
        """Skip the checks, which ran when the photo was reconstructed."""


def load_cameras() -> Mapping[str, Doubles]:
    """Spectral sensitivities (31, 3) at `GRID` of cameras, by name in alphabetical order."""
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
    "daylight 5600 K", a mixture such as "0.7 A + 0.3 F11", or a CSV file of wavelength, power.
    Case, spaces and punctuation in names do not matter.

    Raises
    ------
    CameraError
        If the camera or light is unknown, or its file holds something else.
    """
    weighted = unbalanced_response(camera, light)
    return weighted / weighted.sum(axis=0)


def light_power(light: str) -> Doubles:
    """Relative spectral power (31,) at `GRID` of a *light*; see `camera_response` for its names."""
    return _light(spelled(light))


def unbalanced_response(camera: str, light: str) -> Doubles:
    """`camera_response` without white balance: only the green of a white surface is 1."""
    camera = spelled(camera)
    power = _light(spelled(light))[:, None]
    if camera == SRGB:
        # The response of sRGB includes daylight already.
        weighted = srgb_response(GRID) / illuminant(DAYLIGHT, GRID)[:, None] * power
    else:
        weighted = _sensitivities(camera) * power
    return weighted / weighted[:, 1].sum()


def sensor_white(camera: str, light: str) -> Doubles:
    """Sensor values (3,) of a white surface under *light*, with green 1."""
    return unbalanced_response(camera, light).sum(axis=0)


def white_text(values: Doubles) -> str:
    """The balance of an `Acquisition` in whose photo a white surface has *values* (3,)."""
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
    """The camera of `load_cameras` with this *make* and *model* in EXIF; "" if there is none.

    Names and aliases must match exactly. Some models include their brand.
    """
    file = resources.files("napari_mst").joinpath("data", "aliases.json")
    aliases = json.loads(file.read_text(encoding="utf-8"))
    names = {plain(name): name for name in load_cameras()}
    names |= {plain(alias): name for alias, name in aliases.items()}
    brand = next(iter(make.split()), "")
    spellings = (plain(name) for name in (model, brand + model, make + model))
    return next((names[name] for name in spellings if name in names), "")


def spelled(name: str) -> str:
    """The listed spelling of a camera or illuminant: Nikon_D5100 for "nikon d5100".

    Other names stay unchanged.
    """
    return _listed().get(plain(name), name)


@functools.cache
def _listed() -> Mapping[str, str]:
    return {plain(name): name for name in (*load_cameras(), *load_illuminants(), SRGB, ESTIMATED)}


def named(name: str) -> str:
    """*name* for a record; a file becomes its file name and the beginning of its sha256."""
    if not is_file(name):
        return name
    path = Path(name)
    return f"{path.name} ({hashlib.sha256(path.read_bytes()).hexdigest()[:12]})"


def is_file(name: str) -> bool:
    """True if the camera or illuminant *name* is a file."""
    return name not in load_cameras() and name not in load_illuminants() and names_a_file(name)


def _light(name: str) -> Doubles:
    lights = load_illuminants()
    if name == BY_CHART:
        # The response from the chart includes the light already.
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
    """Name of a camera whose response under equal light has these *shares* of components."""
    return " ".join([CHART, *(f"{share:.5f}" for share in shares)])


class ChartResponses(NamedTuple):
    """Balanced responses of 52 cameras under 15 lights, from which a chart identifies a camera.

    *mean* (3, 31) and *components* (12, 3, 31) are their principal components at 400, 410, ...,
    700 nm; *spread* (12,) is the standard deviations of the shares.
    """

    mean: Doubles
    components: Doubles
    spread: Doubles

    def response(self, shares: Doubles) -> Doubles:
        """The response (3, 31) with these *shares* (12,) of the components."""
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
    """The file *name* of a light or camera (*kind*); raises `CameraError` if it is missing."""
    if names_a_file(name):
        return Path(name)
    raise CameraError(
        f"Expected a CSV file or a {kind} as {nearest(name, listed)}, got {name[-_SHOWN:]!r}. "
        f"Check the spelling: `napari-mst cameras` lists {len(listed)}."
    )
