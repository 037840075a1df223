"""Cubes as pictures: as an eye sees them under a light, or three bands with stretched contrast.

A `Recipe` says how the bands of a cube become red, green and blue; `paint` applies it a few rows at
a time, to the whole image or to a part. The methods `render` and `composite` of a cube combine the
two. Pictures are 8-bit sRGB (IEC 61966-2-1:1999).

Letters: B bands, H rows, W columns; n bands that a picture uses; k rows of a strip.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_mst.base.arrays import Array, Codes, Singles, doubles, singles
from napari_mst.base.errors import CubeError, shown
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.curves import NANOMETRES, extent
from napari_mst.cube.gaps import good_bands, known
from napari_mst.cube.illuminants import DAYLIGHT, Light, colour_weights, illuminant_title
from napari_mst.cube.lazy import planes_of, sample_of
from napari_mst.cube.parts import DEFAULT_BANDS, PlainCube

VISIBLE = (450.0, 650.0)
"""Range (nm) that a cube must cover to have a colour; the eye sees little outside it."""

INFRARED: tuple[float, ...] = (860.0, 650.0, 550.0)
"""nm; the false colours of infrared film, which shows plants in red."""

SHARES = (0.8, 0.5, 0.2)
"""Positions of red, green and blue within the range of wavelengths, as a last resort."""

PERCENTILES = (1.0, 99.0)
"""Percentiles of the valid pixels that a stretch maps to black and white."""

BRIGHTNESS = (0.25, 0.75)
"""Bounds of the median brightness of a composite: with rounding it stays within .2 to .8."""

SAMPLES = 2**16
"""Approximate number of pixels that determine a stretch."""

STRIP = 2**22
"""Approximate count of numbers processed at a time: 16 MB of float32."""


class Tone(NamedTuple):
    """Tone curve of a picture, from linear red, green and blue to codes.

    Attributes
    ----------
    black, white
        (3,) numbers that become 0 and 255.
    power
        Exponent of the encoded value (0-1); below 1 it brightens the midtones.
    """

    black: Singles
    white: Singles
    power: float = 1.0


AS_IT_IS = Tone(np.zeros(3, np.float32), np.ones(3, np.float32))
"""0 is black and 1 is white, as for reflectance."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """Recipe of a picture: how the bands of a cube become colours.

    Attributes
    ----------
    title
        Title for people: "CIE colour, D65" or "850, 650, 550 nm".
    bands
        (n,) indices of the bands that are read.
    weights
        (n, 3), from these bands to linear red, green and blue.
    """

    title: str
    bands: NDArray[np.int_]
    weights: Singles
    tone: Tone = AS_IT_IS


Slices = tuple[slice, slice]
"""Rows and columns of the image, perhaps only every *n*-th."""

WHOLE = (slice(None), slice(None))


# ------------------------------------------------------------------------------------- recipes


def rendering(
    cube: PlainCube,
    light: Light,
    *,
    is_chromatically_adapted: bool = True,
    full_scale: float | None = None,
) -> Recipe:
    """The recipe of a reflectance *cube* under *light*; see `SpectralCube.render`."""
    if full_scale is None and cube.quantity != "reflectance":
        raise CubeError(
            "Expected a cube of reflectance to render under a light, "
            f"got {shown(cube.quantity, 40) or 'numbers of unknown meaning'}. "
            "Give the stored value of a white surface as the full scale."
        )
    scale = 1.0 if full_scale is None else full_scale
    if not 0 < scale < np.inf:
        raise CubeError(
            f"Expected a full scale above 0, got {scale:g}. Give the value of a white surface."
        )
    recipe = _seen(cube, light, is_chromatically_adapted)
    return replace(recipe, weights=recipe.weights / np.float32(scale))


def composite_of(cube: PlainCube, wavelengths: Sequence[float] | None = None) -> Recipe:
    """The recipe of the best picture of *cube*, or of three bands; see `SpectralCube.composite`."""
    if wavelengths is not None:
        return _stretched(cube, _of_wavelengths(cube, wavelengths))
    if has_colour(cube):
        seen = _seen(cube, DAYLIGHT, is_chromatically_adapted=True)
        return _stretched(cube, seen, is_reflectance=cube.quantity == "reflectance")
    return _stretched(cube, _of_bands(cube, best_bands(cube)))


def has_colour(cube: PlainCube) -> bool:
    """True if the good bands of *cube* cover what an eye sees: 450-650 nm."""
    if cube.unit != NANOMETRES:
        return False
    good = cube.wavelengths[good_bands(cube)]
    return len(good) > 2 and bool(good.min() <= VISIBLE[0] and good.max() >= VISIBLE[1])


def best_bands(cube: PlainCube) -> list[int]:
    """The bands to show as red, green and blue: from the header, or in false colours."""
    named = _named_bands(cube)
    if named is not None:
        return named
    good = good_bands(cube)
    at = cube.wavelengths[good]
    low = float(at.min())
    high = float(at.max())
    colours = INFRARED
    # Infrared film records green, red and near infrared; other ranges are divided evenly.
    if cube.unit != NANOMETRES or low > INFRARED[2] or high < INFRARED[0]:
        colours = tuple(low + share * (high - low) for share in SHARES)
    return [int(good[np.abs(at - colour).argmin()]) for colour in colours]


def _named_bands(cube: PlainCube) -> list[int] | None:
    """The default bands of the header, if it names one or three existing bands."""
    named = cube.metadata.get(DEFAULT_BANDS, ())
    # Formats other than ENVI keep the field as text or as a list.
    words = named.strip("{}[]() ").split(",") if isinstance(named, str) else named
    try:
        bands = [int(word) - 1 for word in words]
    except (TypeError, ValueError):
        return None
    if len(bands) == 1:
        bands *= 3
    is_there = all(0 <= band < len(cube.wavelengths) for band in bands)
    return bands if len(bands) == 3 and is_there else None


def _of_wavelengths(cube: PlainCube, wavelengths: Sequence[float]) -> Recipe:
    at, of_cube = doubles(wavelengths), cube.wavelengths
    if at.shape != (3,) or not ((at >= of_cube.min()) & (at <= of_cube.max())).all():
        given = ", ".join(f"{wavelength:g}" for wavelength in at.ravel()[:4])
        raise CubeError(
            f"Expected three wavelengths within {extent(of_cube, cube.unit)}, red "
            f"first, got {given}. Choose some that the cube has."
        )
    return _of_bands(cube, [cube.nearest_band(colour) for colour in at])


def _of_bands(cube: PlainCube, bands: Sequence[int]) -> Recipe:
    places = ", ".join(f"{cube.wavelengths[band]:.4g}" for band in bands)
    used, where = np.unique(bands, return_inverse=True)
    weights = np.zeros((len(used), 3), dtype=np.float32)
    weights[where, np.arange(3)] = 1
    return Recipe(f"{places} {shown(cube.unit, 20)}", used, weights)


# -------------------------------------------------------------------------------------- colour


def _seen(cube: PlainCube, light: Light, is_chromatically_adapted: bool) -> Recipe:
    """Linear sRGB of reflectance 0-1 under *light*."""
    if not has_colour(cube):
        raise CubeError(
            f"Expected wavelengths that cover {VISIBLE[0]:g}-{VISIBLE[1]:g} nm for a colour, got "
            f"{extent(cube.wavelengths, cube.unit)}. Make a composite of bands instead."
        )
    good = good_bands(cube)
    weights = colour_weights(
        cube.wavelengths[good], light, is_chromatically_adapted=is_chromatically_adapted
    )
    is_used = np.abs(weights).max(axis=1) > 1e-7 * np.abs(weights).max()
    title = f"CIE colour, {illuminant_title(light)}"
    return Recipe(title, good[is_used], weights[is_used].astype(np.float32))


# --------------------------------------------------------------------------------------- tones


def _stretched(cube: PlainCube, recipe: Recipe, *, is_reflectance: bool = False) -> Recipe:
    """*recipe* with the tone that suits the pixels of *cube*."""
    colours = _sample(cube, recipe)
    if not colours.size:
        return recipe
    # True colours of reflectance stay, unless they are too dark or too bright to see.
    if is_reflectance and BRIGHTNESS[0] <= _median(colours, AS_IT_IS) <= BRIGHTNESS[1]:
        return recipe
    black, white = np.percentile(colours, PERCENTILES, axis=1).astype(np.float32)
    if is_reflectance:
        # One range for all channels, from 0, changes the brightness but no hue.
        black, white = np.zeros_like(black), np.full_like(white, white.max())
    middle = np.median(colours, axis=1).astype(np.float32)
    width = np.maximum(white - black, np.abs(middle) * np.float32(1e-6))
    width = np.where(width > 0, width, np.float32(1))
    # A value shared by more than half of the pixels must not become black or white: a flat channel
    # is shown in the middle.
    tone = Tone(
        np.where(middle <= black, middle - width, black),
        np.where(middle >= white, middle + width, white),
    )
    median = _median(colours, tone)
    wanted = min(max(median, BRIGHTNESS[0]), BRIGHTNESS[1])
    if wanted != median and 0 < median < 1:
        tone = tone._replace(power=float(np.log(wanted) / np.log(median)))
    return replace(recipe, tone=tone)


def _median(colours: Singles, tone: Tone) -> float:
    """Median brightness (0-1), the mean of the channels, of linear *colours* (3, n) with *tone*."""
    return float(np.median(_encoded(colours.T, tone).mean(axis=1)))


def _sample(cube: PlainCube, recipe: Recipe) -> Singles:
    """Linear colours of valid pixels all over the image, (3, n).

    Pixels that are NaN, ignored by the file, or zero in all channels are left out: the frame of a
    map, or of a rotated cube, shows nothing of the scene.
    """
    parts = [_mixed(cube, recipe, part) for part in sample_of(cube.data, SAMPLES)]
    mixed = np.concatenate([part.reshape(3, -1) for part in parts], axis=1)
    is_valid = np.isfinite(mixed).all(axis=0) & mixed.any(axis=0)
    return mixed[:, is_valid]


# ------------------------------------------------------------------------------------ painting


def paint(
    cube: PlainCube, recipe: Recipe, part: Slices = WHOLE, progress: Progress = NO_PROGRESS
) -> Codes:
    """The picture of *part* of *cube* by *recipe*, (H, W, 3) sRGB; unknown pixels are black.

    Raises `Cancelled` soon after *progress* is cancelled.
    """
    sides = zip(part, cube.data.shape[1:], strict=True)
    lines, columns = (range(*at.indices(side)) for at, side in sides)
    picture = np.empty((len(lines), len(columns), 3), dtype=np.uint8)
    step = max(1, STRIP // max(1, len(recipe.bands) * len(columns)))
    progress.reach(0.0)
    for start in range(0, len(lines), step):
        rows = lines[start : start + step]
        strip = slice(rows.start, rows[-1] + 1, rows.step), part[1]
        linear = np.moveaxis(_mixed(cube, recipe, strip), 0, -1)
        codes = np.rint(255 * _encoded(linear, recipe.tone))
        picture[start : start + len(rows)] = np.nan_to_num(codes)
        progress.reach((start + len(rows)) / len(lines))
    return picture


def _mixed(cube: PlainCube, recipe: Recipe, part: Slices) -> Singles:
    """Linear red, green and blue of *part*, (3, k, W); NaN where a number is missing."""
    planes = planes_of(cube.data, recipe.bands.tolist(), *part)
    values = known(planes, cube.metadata).astype(np.float32, copy=False)
    bands, rows, columns = values.shape
    # NaN stays NaN, and needs no warning.
    with np.errstate(invalid="ignore", over="ignore"):
        mixed = recipe.weights.T @ values.reshape(bands, -1)
    return mixed.reshape(3, rows, columns)


def _encoded(linear: Singles, tone: Tone) -> Singles:
    """sRGB values (0-1) of *linear* colours (..., 3) with *tone*; NaN stays NaN."""
    scaled = linear - tone.black
    scaled /= tone.white - tone.black
    encoded = linear_to_srgb(np.clip(scaled, 0, 1, out=scaled))
    if tone.power != 1:
        encoded = encoded ** np.float32(tone.power)
    return encoded.astype(np.float32, copy=False)


# ------------------------------------------------------------------------------- small pictures


def strided(data: Array, side: int) -> Singles:
    """Every n-th pixel of *data* (B, H, W), so that the longer side has at most *side* pixels."""
    step = -(-max(data.shape[1:]) // side)
    return singles(data[:, ::step, ::step])


def thumbnail(sample: Singles, cube: PlainCube) -> Codes:
    """The composite (h, w, 3) of *sample* (B, h, w), some pixels of *cube*."""
    small = PlainCube(sample, cube.wavelengths, cube.unit, cube.quantity, metadata=cube.metadata)
    return paint(small, composite_of(small))
