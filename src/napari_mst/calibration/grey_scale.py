"""Balance, exposure and tone curve of an sRGB photo, from grey patches of known reflectance.

Cameras apply tone curves that nobody publishes. This module assumes the curve of film, which
compresses highlights and deepens shadows. For encoded light y and reflectance r,

    log r = a + (log y - log(1 + s (1 - y))) / n

One grey patch determines the exposure a; n and s then take typical values. Each further patch
refines the curve: the most probable a, n and s, plus most of the residual, as a monotonic curve
through the patches. The spread of n and s comes from `lab/ordinary_photos.py`, and was tested on
two chart photos from real cameras.

`mstpp-photo` estimates the tone curve itself. Greys then serve as reference spectra of its cube:
see `references.refining.refine`.

Letters: n pixels or patches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import numpy as np

from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import PhotoError
from napari_mst.calibration.corrections import check_srgb, recoloured, sha256_after
from napari_mst.calibration.white_patch import FROM_START, GreyPatch, angle_between, patch_values
from napari_mst.photo.photo import Photo, PhotoLike, as_photo

BRIGHT = 0.8
"""Share of full scale above which a patch is a poor anchor, since curves are flat there."""

LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Shares of linear red, green and blue in luminance (IEC 61966-2-1)."""

_POWER = (0.2, 0.2)  # mean and standard deviation of log n
_SHOULDER = (-0.5, 1.2)  # of log s
_NOISE = 0.04  # of the logarithm of a patch
_KEPT = 0.8  # share of the residual of the curve that is corrected as well
_USABLE = (0.003, 0.965)  # range of linear light in which a patch shows the curve
_GRID = np.linspace(np.log(1e-4), 0, 1024)


@dataclass(frozen=True)
class GreyScale:
    """The tone curve, exposure and white balance of an sRGB photo, which `corrected` undoes.

    Attributes
    ----------
    gains
        Red, green and blue of grey in linear sRGB, relative to their geometric mean.
    light, reflectances
        Linear light and reflectance of each patch; darkest first.
    patches
        The patches that are neither clipped nor black.
    warnings
        A sentence for each doubt about a patch; doubtful patches are used nevertheless.

    Notes
    -----
    ============  =====================================================
    gains         (3,) factors
    light         shares of full scale
    reflectances  0-1
    corrected()   float32 0-1, sRGB; a white surface is at full scale
    ============  =====================================================

    Examples
    --------
    >>> photo = nm.Photo.from_array(np.full((40, 60, 3), 0.6))
    >>> scale = nm.light.calibrate_greys(photo, [nm.light.GreyPatch((20, 30), reflectance=0.2)])
    >>> corrected = scale.corrected(photo)
    >>> corrected.rows(linear=True)[:, 20, 30].round(2)
    array([0.2, 0.2, 0.2], dtype=float32)
    >>> corrected.sha256 == scale.sha256_of(photo.sha256)
    True
    """

    gains: tuple[float, float, float]
    light: tuple[float, ...]
    reflectances: tuple[float, ...]
    patches: tuple[GreyPatch, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Describe the patches, and the error of mid grey in stops."""
        count = len(self.light)
        name = f"{count} grey patches" if count > 1 else "one grey patch"
        shown = np.exp(np.interp(np.log(0.2), self._reflectance, _GRID))
        stops = float(np.log2(shown / 0.2))
        return (
            f"{name}: mid grey was {abs(stops):.1f} stops too {'dark' if stops < 0 else 'bright'}"
        )

    def corrected(self, photo: PhotoLike) -> Photo:
        """Return *photo*, of the same camera, exposure and light, as if rendered exactly.

        Raises
        ------
        PhotoError
            If the photo is not in sRGB.
        """
        photo = as_photo(photo)
        check_srgb(photo, "tone curve")
        note = " ".join([f"The tone curve and the white were corrected by {self}.", *self.warnings])
        sha256 = self.sha256_of(photo.sha256)
        return recoloured(photo, self._undone, note, sha256, "corrected by greys")

    def sha256_of(self, photo_sha256: str) -> str:
        """Return the sha256 of a corrected photo, from the sha256 of the original."""
        numbers = f"{self.gains} {self.light} {self.reflectances}"
        return sha256_after(photo_sha256, f"greys {numbers}")

    @cached_property
    def _reflectance(self) -> Doubles:
        """Log reflectance at the log light of `_GRID`, ascending."""
        light, target = np.array(self.light), np.log(self.reflectances)
        curve = _fitted_curve(light, target)
        left_over = target - curve(light)
        smooth = np.interp(_GRID, np.log(light), left_over) * _KEPT if len(light) > 2 else 0.0
        if len(light) == 1:
            smooth = left_over[0]  # a single patch is matched exactly
        return np.maximum.accumulate(curve(np.exp(_GRID)) + smooth)

    def _undone(self, colours: Doubles) -> Doubles:
        """Return linear *colours* (n, 3) as an exact rendering would show them."""
        balanced = np.maximum(colours / np.array(self.gains), np.exp(_GRID[0]))
        luminance = balanced @ np.array(LUMINANCE)
        channels = self._straight(balanced)
        # Some cameras apply the curve to each channel, some to luminance, most in between.
        kept_hue = balanced * (self._straight(luminance) / luminance)[:, None]
        return np.asarray(np.sqrt(channels * kept_hue))

    def _straight(self, light: Doubles) -> Doubles:
        """Return the reflectance of surfaces of this *light*."""
        logs = np.log(light)
        # Beyond the grid, where a gain is below 1, the curve continues as a straight line.
        return np.asarray(np.exp(np.interp(logs, _GRID, self._reflectance) + logs.clip(0)))


def calibrate_greys(photo: PhotoLike, patches: Sequence[GreyPatch]) -> GreyScale:
    """Determine balance, exposure and tone curve of an sRGB *photo* from grey *patches* in it.

    One grey card is enough for the exposure. A scale of three to six greys, from black to white,
    also gives the curve. All named patches are used; `GreyScale.warnings` reports doubtful ones.

    Raises
    ------
    PhotoError
        If the photo is not in sRGB, if there is no patch, or if a patch lies outside or is black.

    Notes
    -----
    =======  ==========================================================
    photo    sRGB: uint8 0-255, uint16, float 0-1
    patches  pixels of the photo (row, column); reflectance, 0.2 for a grey card
    =======  ==========================================================

    Examples
    --------
    >>> photo = nm.Photo.from_array(np.full((40, 60, 3), 0.6))
    >>> str(nm.light.calibrate_greys(photo, [nm.light.GreyPatch((20, 30))]))
    'one grey patch: mid grey was 0.7 stops too bright'
    """
    photo = as_photo(photo)
    check_srgb(photo, "tone curve")
    if not patches:
        raise PhotoError("Expected at least one grey patch, got none. Give the place of one.")
    warnings: list[str] = []
    values = np.array([patch_values(photo, patch.place, warnings) for patch in patches])
    values = values.clip(1e-4)  # a channel may be black
    reflectances = np.array([patch.reflectance for patch in patches])
    usable = (values.min(axis=1) > _USABLE[0]) & (values.max(axis=1) < _USABLE[1])
    if not usable.any():
        usable[values.max(axis=1).argmin()] = True
    values, reflectances = values[usable], reflectances[usable]
    kept = tuple(compress(patches, usable))
    left_out = len(patches) - len(kept)
    if left_out:
        warnings.append(f"Clipped or black patches tell no curve: {left_out} left out.")
    order = np.argsort(reflectances, kind="stable")
    values, reflectances = values[order], reflectances[order]
    logs = np.log(values)
    mean = logs.mean(axis=1)
    gains = np.exp((logs - mean[:, None]).mean(axis=0))
    warnings += _doubts(values, mean)
    red, green, blue = gains.tolist()
    # A patch of higher reflectance that is no brighter in the photo adds nothing to the curve.
    rising = np.flatnonzero(np.diff(np.maximum.accumulate(mean), prepend=-np.inf) > 0)
    light = tuple(np.exp(mean[rising]).tolist())
    scale = tuple(reflectances[rising].tolist())
    return GreyScale((red, green, blue), light, scale, kept, tuple(warnings))


def _doubts(values: Doubles, mean: Doubles) -> list[str]:
    """Return sentences about patches that are coloured, too bright, or in the wrong order."""
    doubts = []
    off = float(angle_between(values, np.ones(3)).max())
    if off > FROM_START:
        doubts.append(f"A patch is {off:.0f} degrees off grey: is it one?")
    if len(values) == 1 and values.max() > BRIGHT:
        doubts.append(
            f"The patch is at {values.max():.0%} of full scale, where curves of cameras are flat: "
            "a grey card tells the exposure better than a white sheet."
        )
    if (np.diff(mean) <= 0).any():
        doubts.append("A patch that should be brighter is not: check the reflectances.")
    return doubts


def _fitted_curve(light: Doubles, target: Doubles) -> "_Curve":
    """Fit the most probable curve to the *light* (n,) of patches with log reflectances *target*."""
    from scipy.optimize import least_squares

    def residuals(numbers: Doubles) -> Doubles:
        _, power, shoulder = numbers
        prior = [(power - _POWER[0]) / _POWER[1], (shoulder - _SHOULDER[0]) / _SHOULDER[1]]
        return np.concatenate([(_Curve(*numbers)(light) - target) / _NOISE, prior])

    usual = np.array([0.0, _POWER[0], _SHOULDER[0]])
    usual[0] = np.median(target - _Curve(*usual)(light))
    return _Curve(*least_squares(residuals, usual).x)


@dataclass(frozen=True)
class _Curve:
    """Log reflectance as a function of light; see the module docstring."""

    exposure: float
    log_power: float
    log_shoulder: float

    def __call__(self, light: Doubles) -> Doubles:
        bent = np.log(light) - np.log1p(np.exp(self.log_shoulder) * (1 - np.minimum(light, 1)))
        return np.asarray(self.exposure + bent / np.exp(self.log_power))
