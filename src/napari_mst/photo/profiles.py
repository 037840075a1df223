"""The colour space stated in a photo file, and its conversion to sRGB.

A file states its colour space as an ICC profile (ICC.1:2022), by code points (PNG third edition,
HEIF and AVIF: ITU-T H.273), or in EXIF (DCF 2.0: "R03" is Adobe RGB). Code points are turned into a
profile, and LittleCMS (from imagecodecs) applies every profile with relative colorimetric intent.
Integers are clipped to the gamut of sRGB; floats and `Photo.light` keep values beyond it.

Letters: H rows, W columns, C channels.
"""

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import imagecodecs
import numpy as np
import tifffile
from PIL import ExifTags, Image, ImageCms

from napari_mst.base.arrays import Array
from napari_mst.base.errors import PhotoError, shown
from napari_mst.cube.colour import srgb_to_linear

_BLOCK = 2**18
"""Number of pixels converted at a time."""
_CODE = 1 / 255
"""Largest difference from sRGB for a profile to count as sRGB."""
_EXACT = imagecodecs.CMS.FLAGS.NOOPTIMIZE
"""Without this flag, LittleCMS interpolates 16-bit values in a coarse table, up to 5 % off."""

_CHANNELS = {b"GRAY": ("gray", 1), b"RGB ": ("rgb", 3), b"CMYK": ("cmyk", 4)}
"""Colour spaces of profiles for photos, by bytes 16 to 19 of the profile."""

_D65 = (0.3127, 0.3290)
_SRGB = (*_D65, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)
_ADOBE = (*_D65, 0.64, 0.33, 0.21, 0.71, 0.15, 0.06)
_ADOBE_GAMMA = 563 / 256
_PRIMARIES = {
    1: _SRGB,
    4: (0.310, 0.316, 0.67, 0.33, 0.21, 0.71, 0.14, 0.08),
    5: (*_D65, 0.64, 0.33, 0.29, 0.60, 0.15, 0.06),
    6: (*_D65, 0.630, 0.340, 0.310, 0.595, 0.155, 0.070),
    7: (*_D65, 0.630, 0.340, 0.310, 0.595, 0.155, 0.070),
    9: (*_D65, 0.708, 0.292, 0.170, 0.797, 0.131, 0.046),
    11: (0.314, 0.351, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060),
    12: (*_D65, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060),
}
"""x and y of white, red, green and blue, by number in table 2 of H.273."""
_NAMES = {1: "BT.709", 9: "BT.2020", 11: "DCI-P3", 12: "Display P3"}
_UNSPECIFIED = 2
_SRGB_CURVE = 13
_GAMMAS = {4: 2.2, 5: 2.8, 8: 1.0}
_VIDEO = (1, 6, 11, 14, 15)  # table 3 of H.273: the curve of BT.709
_HIGH_RANGE = {16: "PQ", 18: "HLG"}
_UNCALIBRATED, _EXIF_ADOBE = 65535, 2  # values of ColorSpace; some cameras write the second

_STEPS = 4096
_PNG_CHUNKS = 8  # bytes before the first chunk
_CODING_BOX = b"colrnclx"
_HEAD = 1 << 16  # bytes at the start of an AVIF file that contain its properties

ToneCurve = float | tuple[float, ...] | None
"""Exponent of a decoding curve, its table of linear values, or None for sRGB's curve."""


@dataclass(frozen=True)
class ColourSpace:
    """A colour space other than sRGB.

    Attributes
    ----------
    name
        Name for people.
    profile
        ICC profile; b"" if there is no usable description.
    """

    name: str
    profile: bytes = b""

    @property
    def channels(self) -> int:
        """Number of colour channels; 0 without a usable description."""
        return _CHANNELS.get(self.profile[16:20], ("", 0))[1]


class Unconverted(NamedTuple):
    """Integers (3, H, W) as stored in a file, before colours outside sRGB are clipped."""

    pixels: Array
    space: ColourSpace


DAMAGED = ColourSpace("a damaged colour profile")


def space_in(
    head: tifffile.TiffPage | Image.Image, file: BinaryIO | None = None
) -> ColourSpace | None:
    """The colour space stated in the *head* of an image; None for sRGB, or if none is stated.

    *file* is the file of the image, unless that is a TIFF.

    Raises
    ------
    PhotoError
        If the values are coded for a high dynamic range (PQ, HLG) or for the narrow range of video.
    """
    if isinstance(head, tifffile.TiffPage):
        profile = head.tags.valueof("InterColorProfile")
        exif = head.tags.valueof("ExifTag") or {}
        index = (exif.get("InteroperabilityTag") or {}).get("InteroperabilityIndex", "")
        return of_profile(profile) if profile else _of_exif(exif.get("ColorSpace"), index)
    info = head.info
    coding = _coding_in(head, file) if file else None
    profile = info.get("icc_profile")
    # In a PNG the code points take precedence, elsewhere the profile.
    if coding and (head.format == "PNG" or not profile):
        return of_coding(*coding)
    if profile:
        return of_profile(profile)
    if "srgb" in info:
        return None
    if "gamma" in info or "chromaticity" in info:
        return _of_png(info.get("gamma"), info.get("chromaticity"))
    try:
        fields = head.getexif()
        index = fields.get_ifd(ExifTags.IFD.Interop).get(ExifTags.Interop.InteropIndex, "")
        return _of_exif(fields.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.ColorSpace), index)
    except (SyntaxError, ValueError, TypeError):  # damage is reported with the orientation
        return None


def in_srgb(pixels: Array, space: ColourSpace, notes: list[str]) -> Array:
    """*pixels*, (H, W) or (H, W, C), converted to sRGB; *notes* gets a sentence about it.

    The pixels are uint8, uint16, or floats with full scale 1. Grey stays grey, and alpha stays
    unchanged. If the profile is damaged, or has other channels, all pixels stay unchanged.
    """
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    colours = channels - (channels == 2 or (channels == 4 and space.channels != 4))
    is_grey = colours == 1
    if space.channels != colours and not (is_grey and space.channels == 3):
        notes.append(f"The file states {space.name}: its values were taken as sRGB.")
        return pixels
    notes.append(f"The colours were converted from {space.name} to sRGB.")
    given = pixels[..., None] if pixels.ndim == 2 else pixels
    kept = 0 if space.channels == 4 else channels - colours
    made = 1 if is_grey else 3
    result = np.empty((*given.shape[:2], made + kept), pixels.dtype)
    rows = max(1, _BLOCK // given.shape[1])
    for top in range(0, len(given), rows):
        block = given[top : top + rows]
        colour = np.broadcast_to(block[..., :colours], (*block.shape[:2], space.channels))
        result[top : top + rows, :, :made] = _transformed(colour, space.profile)[..., -made:]
        result[top : top + rows, :, made:] = block[..., channels - kept :]
    return result[..., 0] if pixels.ndim == 2 else result


@functools.lru_cache(maxsize=16)
def of_profile(profile: bytes, name: str = "") -> ColourSpace | None:
    """The colour space of an ICC *profile*; None if it equals sRGB, whatever its name."""
    try:
        channels = _CHANNELS[profile[16:20]][1]
        steps = np.linspace(0, 255, 6).astype(np.uint8)
        codes = np.stack(np.meshgrid(*[steps] * channels), -1).reshape(1, -1, channels)
        # As floats, inks would be per cent.
        colours = codes if channels == 4 else codes / np.float32(255)
        seen = _transformed(colours, profile)
    except (imagecodecs.CmsError, KeyError, ValueError):
        return DAMAGED
    is_srgb = channels != 4 and bool(np.abs(seen - colours).max() < _CODE)
    return None if is_srgb else ColourSpace(name or _name_of(profile), profile)


def of_coding(primaries: int, curve: int, is_full: bool = True) -> ColourSpace | None:
    """The colour space with *primaries* and *curve* of H.273; None if both are unspecified.

    Raises
    ------
    PhotoError
        See `space_in`.
    """
    if not is_full or curve in _HIGH_RANGE:
        got = _HIGH_RANGE.get(curve, "the narrow one of video")
        raise PhotoError(
            f"Expected a photo of standard dynamic range, got one coded as {got}. "
            "Export it as JPEG, PNG or TIFF in standard range (SDR)."
        )
    if primaries == _UNSPECIFIED:
        primaries = 1
    named = f"{_NAMES.get(primaries, f'primaries {primaries}')} with curve {curve} of H.273"
    if curve in (_UNSPECIFIED, _SRGB_CURVE):
        decoding: ToneCurve = None
        named = _NAMES.get(primaries, named)
    elif curve in _VIDEO:
        decoding = _bt709()
    else:
        decoding = _GAMMAS.get(curve, 0.0)
    if primaries not in _PRIMARIES or decoding == 0:
        return ColourSpace(f"an unknown colour space ({named})")
    return _of_primaries(named, _PRIMARIES[primaries], decoding)


def _of_exif(colour_space: Any, index: Any) -> ColourSpace | None:
    """The colour space by the EXIF fields ColorSpace and InteroperabilityIndex."""
    text = index.decode("ascii", "replace") if isinstance(index, bytes) else str(index)
    if text.startswith("R03") or colour_space == _EXIF_ADOBE:
        return _of_primaries("Adobe RGB (named by EXIF only)", _ADOBE, _ADOBE_GAMMA)
    if colour_space == _UNCALIBRATED:
        return ColourSpace("colours other than sRGB, but not which")
    return None


def _of_png(gamma: float | None, chromaticity: Sequence[float] | None) -> ColourSpace | None:
    """The colour space by the chunks gAMA and cHRM of a PNG, either of which may be missing."""
    places = _SRGB if chromaticity is None else tuple(chromaticity)
    is_like_srgb = bool(np.abs(np.subtract(places, _SRGB)).max() < 0.001)
    # The value that the specification prescribes for sRGB.
    if is_like_srgb and gamma is not None and abs(gamma - 1 / 2.2) < 0.001:
        return None
    if gamma is not None and gamma <= 0:
        return DAMAGED
    curve = None if gamma is None else 1 / gamma
    shown_gamma = "" if curve is None else f", gamma {curve:.3g}"
    name = "sRGB primaries" if is_like_srgb else "the primaries of its PNG"
    return _of_primaries(f"{name}{shown_gamma}", places, curve)


def _of_primaries(name: str, places: Sequence[float], curve: ToneCurve) -> ColourSpace | None:
    """The colour space with white, red, green and blue at *places* (x, y) and a *curve*."""
    if curve is None:
        curve = tuple(srgb_to_linear(np.linspace(0, 1, _STEPS)).tolist())
    is_table = isinstance(curve, tuple)
    options: dict[str, Any] = {}
    options["transferfunction" if is_table else "gamma"] = (
        np.array(curve, np.float32) if is_table else curve
    )
    try:
        profile = imagecodecs.cms_profile(
            "rgb", whitepoint=places[:2], primaries=places[2:], **options
        )
    except (imagecodecs.CmsError, ValueError):
        return DAMAGED
    return of_profile(profile, name)


@functools.cache
def _bt709() -> tuple[float, ...]:
    """Linear values of evenly spaced ITU-R BT.709 codes."""
    codes = np.linspace(0, 1, _STEPS)
    linear = np.where(codes < 0.081, codes / 4.5, ((codes + 0.099) / 1.099) ** (1 / 0.45))
    return tuple(linear.tolist())


def _coding_in(head: Image.Image, file: BinaryIO) -> tuple[int, int, bool] | None:
    """Primaries, curve and range, as numbered in H.273, of a PNG or AVIF *file*."""
    at = file.tell()  # where Pillow will continue
    try:
        if head.format == "AVIF":
            file.seek(0)
            _, found, box = file.read(_HEAD).partition(_CODING_BOX)
            return (int.from_bytes(box[:2]), int.from_bytes(box[2:4]), True) if found else None
        return _coding_in_png(file) if head.format == "PNG" else None
    finally:
        file.seek(at)


def _coding_in_png(file: BinaryIO) -> tuple[int, int, bool] | None:
    file.seek(_PNG_CHUNKS)
    while len(start := file.read(8)) == 8 and start[4:] != b"IDAT":
        length = int.from_bytes(start[:4])
        if start[4:] == b"cICP" and length == 4:
            primaries, curve, _, is_full = file.read(length)
            return primaries, curve, bool(is_full)
        file.seek(length + 4, io.SEEK_CUR)  # past the checksum
    return None


def _name_of(profile: bytes) -> str:
    """The description in an ICC *profile*."""
    try:
        name = ImageCms.getProfileDescription(ImageCms.ImageCmsProfile(io.BytesIO(profile)))
    except (ImageCms.PyCMSError, OSError):
        name = ""
    return shown(name.strip(), 60) or "a colour profile without a name"


def _transformed(colours: Array, profile: bytes) -> Array:
    """The sRGB (H, W, 3) of *colours* (H, W, C) in *profile*. Raises `CmsError`."""
    kind, channels = _CHANNELS[profile[16:20]]
    return imagecodecs.cms_transform(
        np.ascontiguousarray(colours if channels > 1 else colours[..., 0]),
        profile,
        _srgb(),
        colorspace=kind,
        outcolorspace="rgb",
        intent=imagecodecs.CMS.INTENT.RELATIVE_COLORIMETRIC,
        flags=0 if colours.dtype == np.uint8 else _EXACT,
    )


@functools.cache
def _srgb() -> bytes:
    return bytes(imagecodecs.cms_profile("srgb"))
