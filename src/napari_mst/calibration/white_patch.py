"""White level, white balance and light of a linear photo, from a grey patch in it.

Letters: H rows, W columns, L lights.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_mst.base.arrays import Doubles, Mask
from napari_mst.base.errors import CameraError, PhotoError, check_pixel
from napari_mst.cube.colour import stored
from napari_mst.engine.windows import Window
from napari_mst.photo.cameras import (
    BALANCED,
    OF_SENSOR,
    Acquisition,
    load_illuminants,
    sensor_white,
    white_text,
)
from napari_mst.photo.photo import Photo, PhotoLike, Rectangle, as_photo

PatchPlace = tuple[int, int] | Rectangle
"""Row and column of a pixel; or first row, one past the last, first column, one past the last."""

GREY_CARD = 0.2
"""Reflectance of a grey card; makers print them at 0.18 to 0.2."""

OFF_DAYLIGHT = "The photo seems to have a white"
"""Beginning of the note on an sRGB photo whose white is far from D65."""

_WINDOW = 0.01  # side of the square around a pixel, as a share of the photo's longer side
_SIDES = (3, 31)
_MIDDLE = (0.45, 0.55)  # middle part of a white frame, as shares of its sides
_CLIPPED = 0.98  # share of full scale from which on a value may be clipped
_MOST_CLIPPED = 0.02
_DARKEST = 0.002
_MOST_UNEVEN = 0.35  # spread of half of the values, as a share of their median
# Degrees between sensor colours, measured on a ColorChecker under D65, A and F11 with three
# cameras: its greys lie within 1.8 of a light, and mixed lights within 3. Most colours lie further
# off, but orange and sky blue are close to lights, too, 20 degrees from the white of the camera.
_FROM_LIGHTS = 4.0
FROM_START = 18.0
_ALIKE = 1.0  # degrees within which the more usual light wins; D65 and F7 are 0.5 apart


@dataclass(frozen=True)
class GreyPatch:
    """A grey or white surface in a photo.

    Attributes
    ----------
    place
        A pixel, around which a square of 1 % of the photo's longer side is used, or a rectangle.
    reflectance
        Share of light that the patch reflects at all wavelengths; by default that of a grey card.

    Notes
    -----
    ===========  =====================================
    place        pixels of the photo
    reflectance  above 0, to 1.5: about 0.2 for a grey card
    ===========  =====================================

    Examples
    --------
    >>> nm.light.GreyPatch((120, 80), reflectance=0.18)
    GreyPatch(place=(120, 80), reflectance=0.18)
    """

    place: PatchPlace
    reflectance: float = GREY_CARD

    def __post_init__(self) -> None:
        if not (math.isfinite(self.reflectance) and 0 < self.reflectance <= 1.5):
            raise PhotoError(
                f"Expected the reflectance of a grey patch, 0 to 1, got {self.reflectance!r}. "
                "Give 0.18 for a grey card."
            )


def acquisition_from_patch(
    photo: PhotoLike,
    patch: GreyPatch,
    camera: str = "",
    illuminant: str = "",
    start: str = BALANCED,
) -> Acquisition:
    """Determine camera, light, white level and balance of *photo* from a grey patch in it.

    Parameters
    ----------
    photo
        A linear photo: RAW, or values known to be linear.
    camera
        A name or a file, see `Acquisition`; by default the camera named in a RAW file.
    illuminant
        By default the usual light whose white is nearest to the patch. It must be named if the
        values were balanced already.
    start
        `BALANCED`: the white stored in the file is about right, so a patch far from it is not grey.
        `OF_SENSOR`: the values are those of the sensor, under any light.

    Raises
    ------
    PhotoError
        If the photo is not linear, or the patch is clipped, dark, uneven, outside, or not grey.
    CameraError
        If camera or illuminant is unknown, or neither named nor found.

    Notes
    -----
    =======  ==========================================
    photo    RAW, or linear uint16 0-65535 or float 0-1
    returns  `white` as stored in the photo
    =======  ==========================================

    Examples
    --------
    >>> card = nm.Acquisition("Nikon_D5100", "D65").white_of_sensor * 0.18
    >>> photo = nm.Photo.from_array(np.full((40, 60, 3), card), encoding="linear")
    >>> patch = nm.light.GreyPatch((20, 30), reflectance=0.18)
    >>> start = "by the sensitivities"
    >>> acquisition = nm.light.acquisition_from_patch(photo, patch, "Nikon_D5100", start=start)
    >>> acquisition.illuminant, round(acquisition.white, 2)
    ('D65', 1.0)
    """
    photo = as_photo(photo)
    camera = camera or (photo.shot.camera if photo.shot else "")
    if not camera:
        raise CameraError(
            "Expected the camera of the photo, got none. `napari-mst cameras` lists the names."
        )
    if photo.encoding != "linear":
        raise PhotoError(
            "Expected a linear photo to measure its white in, got sRGB-encoded values. "
            "Open the RAW file, or say that the values are linear."
        )
    values = patch_values(photo, patch.place)
    light = _light_of(photo, values, camera, start)
    if not (illuminant or light):
        raise CameraError(
            "Expected the illuminant of a photo that is balanced already, got none. "
            "Name it, or say that the photo is unbalanced, if it is."
        )
    white = float(values[1] / patch.reflectance * photo.full_scale)
    return Acquisition(camera, illuminant or light, white, white_text(values))


def _light_of(photo: Photo, values: Doubles, camera: str, start: str) -> str:
    """Return the light implied by a patch with *values* (3,); "" if the photo is balanced.

    Raises `PhotoError` if the patch is not grey, being far from the white that the camera found.
    """
    shot = photo.shot
    # Only unbalanced values reveal the light by their white.
    if not (start == OF_SENSOR if shot is None else not shot.is_flat):
        _check_grey(angle_between(values, np.ones(3)), FROM_START, "the photo's own white")
        return ""
    light = _nearest_light(values, camera)
    if start == BALANCED and shot is not None and shot.gains is not None:
        off = angle_between(values * shot.gains, np.ones(3))
        _check_grey(off, FROM_START, "the camera's own white")
    return light


def acquisition_from_frame(
    frame: Photo, reflectance: float = 1.0, camera: str = "", illuminant: str = ""
) -> Acquisition:
    """Determine camera and light of photos divided by a white *frame*, from its middle.

    White is then at 1, and balanced.

    Raises
    ------
    PhotoError, CameraError
        As `acquisition_from_patch`.
    """
    rows, columns = frame.shape
    edges = [round(share * side) for side in (rows, columns) for share in _MIDDLE]
    top, bottom, left, right = edges
    middle = (top, max(bottom, top + 1), left, max(right, left + 1))
    patch = GreyPatch(middle, reflectance)
    # A frame shows only white, so the white that the camera found in it is meaningless.
    seen = acquisition_from_patch(frame, patch, camera, illuminant, OF_SENSOR)
    return Acquisition(seen.camera, seen.illuminant, 1 / reflectance)


def patch_values(photo: Photo, place: PatchPlace, doubts: list[str] | None = None) -> Doubles:
    """Return the median (3,) of a patch, in linear shares of full scale.

    A patch that is clipped, dark or uneven is refused. With a list of *doubts* it is used, and the
    reason is added to the list.

    Raises
    ------
    PhotoError
        If the patch is clipped, dark, uneven or outside the photo.
    """
    part = photo.cropped(rectangle_of(photo.shape, place))
    values = part.light().reshape(3, -1).astype(np.float64)
    is_clipped = part.at_full_scale(_CLIPPED).ravel()
    if part.valid is not None:
        is_valid = part.valid.ravel()
        values, is_clipped = values[:, is_valid], is_clipped[is_valid]
    try:
        _check_values(values, is_clipped)
    except PhotoError as error:
        if doubts is None or not values.any():
            raise
        doubts.append(f"A patch was believed, though it is odd: {error}")
    return np.median(values, axis=1)


def rectangle_of(shape: tuple[int, int], place: PatchPlace) -> Rectangle:
    """Return the pixels of a patch in a photo of *shape* (H, W); `PhotoError` if it is outside."""
    if len(place) == 4:
        return place
    row, column = place
    check_pixel(PhotoError, row, column, shape)
    side = int(np.clip(round(_WINDOW * max(shape)), *_SIDES))
    return Window(row, row + 1, column, column + 1).grown(side // 2).clipped(shape)


def _check_values(values: Doubles, is_clipped: Mask) -> None:
    """Raise `PhotoError` for an unusable patch (3, n); *is_clipped* (n,) marks clipped pixels."""
    clipped = float(is_clipped.mean()) if values.size else 0.0
    if clipped > _MOST_CLIPPED:
        raise PhotoError(
            "Expected a grey patch below the saturation of the sensor, got one with "
            f"{clipped:.0%} of its pixels clipped. Choose a darker patch, or expose less."
        )
    low, middle, high = (
        np.percentile(values, (25, 50, 75), axis=1) if values.size else np.zeros((3, 3))
    )
    if not middle.min() > _DARKEST:
        raise PhotoError(
            f"Expected a grey patch above the noise, got {middle.min():.2%} of full scale. "
            "Choose a brighter one."
        )
    unevenness = float(((high - low) / middle).max())
    if unevenness > _MOST_UNEVEN:
        raise PhotoError(
            f"Expected an even patch, got values that spread by {unevenness:.0%}. "
            "Choose the middle of a plain one."
        )


def _nearest_light(values: Doubles, camera: str) -> str:
    """Return the usual light whose white is closest to *values* of this camera.

    Among lights that are almost equally close, the first in the list wins, being the most usual.
    """
    # All lamps of the CIE would not improve spectra, and would let more colours pass for grey.
    lights = [name for name in load_illuminants() if name not in stored("lamps31.npz")]
    whites = np.stack([sensor_white(camera, light) for light in lights])
    # Angles of balanced colours, so that a weak channel counts as much as the others.
    angles = angle_between(whites / whites[0], values / whites[0])
    nearest = float(angles.min())
    _check_grey(nearest, _FROM_LIGHTS, "white under any usual light")
    return next(light for light, off in zip(lights, angles, strict=True) if off <= nearest + _ALIKE)


def _check_grey(off: float, most: float, what: str) -> None:
    if off > most:
        raise PhotoError(
            f"Expected a grey patch, got one that is {off:.0f} degrees off {what}. "
            "Choose another; if it is grey, say that the photo is unbalanced and name the light."
        )


def angle_between(first: Doubles, second: Doubles) -> Any:
    """Return the angle in degrees between *first* (..., 3) and *second* (3,)."""
    cosine = first @ second / (np.linalg.norm(first, axis=-1) * np.linalg.norm(second))
    return np.rad2deg(np.arccos(np.clip(cosine, -1, 1)))
