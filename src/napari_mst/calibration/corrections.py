"""Corrections of a photo: white balance, colours, and flat field.

Spectral cameras are calibrated by a flat field: at each pixel of a channel, reflectance is

    (photo - dark) / (white - dark)

which removes vignetting, uneven light and the white balance. Letters: H rows, W columns, n pixels.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from napari_mst.base.arrays import Doubles, Mask, Singles
from napari_mst.base.errors import PhotoError, shown
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.photo.cameras import BALANCED, Acquisition
from napari_mst.photo.photo import Photo, PhotoLike, as_photo

_DARKEST = 0.01  # share of the brightest white below which a pixel of the frame is unusable
_LEAST_LIGHT = 0.01  # of full scale, less than any useful exposure
_CLIPPED = 0.98
_MOST_CLIPPED = 0.001


@dataclass(frozen=True, eq=False)
class FlatField:
    """A photo of a *white* surface that fills the frame, and optionally a *dark* frame.

    Both are linear and taken like the photos: with the same camera, lens, aperture and light; the
    dark frame with the same exposure and the lens covered. Files and arrays are taken as linear.

    Raises
    ------
    PhotoError
        If a frame is not linear, if the frames differ in size, or if the white frame is clipped or
        hardly brighter than the dark one, in which case they may be swapped.

    Notes
    -----
    ===================  ============================================================
    white, dark, frames  linear photos: uint16 0-65535 or float 0-1
    check()              a linear photo of the size of the frames
    corrected()          float32, linear, balanced: 1 is as bright as the white frame
    ===================  ============================================================

    Examples
    --------
    >>> white = nm.Photo.from_array(np.full((4, 5, 3), 0.8), encoding="linear")
    >>> photo = nm.Photo.from_array(np.full((4, 5, 3), 0.2), encoding="linear")
    >>> flat = nm.FlatField(white)
    >>> flat.corrected(photo).pixels[:, 0, 0]
    array([0.25, 0.25, 0.25], dtype=float32)
    >>> flat.check(photo)
    >>> flat.corrected(photo).sha256 == flat.sha256_of(photo.sha256)
    True
    """

    white: Photo
    dark: Photo | None = None

    def __init__(self, white: PhotoLike, dark: PhotoLike | None = None) -> None:
        object.__setattr__(self, "white", as_photo(white, "linear"))
        object.__setattr__(self, "dark", None if dark is None else as_photo(dark, "linear"))
        for frame in self.frames:
            self.check(frame)
        white = self.white.rows(linear=True)
        clipped = float((white >= _CLIPPED).any(axis=0).mean())
        if clipped > _MOST_CLIPPED:
            raise PhotoError(
                f"Expected a white frame below the saturation of the sensor, got {clipped:.1%} of "
                "its pixels clipped. Expose it less."
            )
        light = white.mean(axis=(1, 2))
        if self.dark is not None:
            light -= self.dark.rows(linear=True).mean(axis=(1, 2))
        if light.min() < _LEAST_LIGHT:
            raise PhotoError(
                "Expected a white frame brighter than the dark one, got one that is "
                f"{light.min():.1%} of full scale above it. "
                "Swap the frames, or take them again."
            )

    @property
    def frames(self) -> tuple[Photo, ...]:
        """The white frame, and the dark frame if there is one."""
        return (self.white,) if self.dark is None else (self.white, self.dark)

    def sha256_of(self, photo_sha256: str) -> str:
        """Return the sha256 of a corrected photo, from the sha256 of the original."""
        return sha256_after(photo_sha256, " ".join(frame.sha256 for frame in self.frames))

    def corrected(self, photo: PhotoLike) -> Photo:
        """Divide *photo* by the white frame: float32, linear, and balanced.

        Pixels where the white frame is dark become invalid.

        Raises
        ------
        PhotoError
            If the photo is not linear, or differs in size from the frames.
        """
        photo = as_photo(photo, "linear")
        self.check(photo)
        pixels = np.empty((3, *photo.shape), dtype=np.float32)
        valid = np.ones(photo.shape, bool) if photo.valid is None else photo.valid.copy()
        for channel in range(3):
            scale = self._less_dark(self.white, channel)
            is_lit = scale > _DARKEST * scale.max()
            valid &= is_lit
            shares = self._less_dark(photo, channel) / np.where(is_lit, scale, 1)
            pixels[channel] = shares
        pixels[:, ~valid] = 0
        return replace(
            photo,
            pixels=pixels,
            full_scale=1.0,
            sha256=self.sha256_of(photo.sha256),
            valid=None if valid.all() else valid,
            assumptions=(*photo.assumptions, self._note(valid)),
            shot=photo.shot and replace(photo.shot, neutral=(1.0, 1.0, 1.0), is_flat=True),
        )

    def check(self, photo: PhotoLike) -> None:
        """Raise `PhotoError` if *photo* is not linear, or differs in size."""
        photo = as_photo(photo, "linear")
        if photo.encoding != "linear":
            raise PhotoError(
                "Expected linear photos for a flat field, got sRGB-encoded "
                f"{shown(photo.name, 60)}. Give RAW files, or say that the values are linear."
            )
        if photo.shape != self.white.shape:
            (rows, columns), (height, width) = self.white.shape, photo.shape
            raise PhotoError(
                f"Expected photos and frames of one size, got {rows} x {columns} and "
                f"{height} x {width}. Take them with the same camera and settings."
            )

    def _less_dark(self, photo: Photo, channel: int) -> Singles:
        values = photo.pixels[channel] / np.float32(photo.full_scale)
        if self.dark is None:
            return values
        return values - self.dark.pixels[channel] / np.float32(self.dark.full_scale)

    def _note(self, valid: Mask) -> str:
        names = " less ".join(shown(frame.name, 40) or "an array" for frame in self.frames)
        missing = int(valid.size - np.count_nonzero(valid))
        left_out = f"; {missing} pixels, where that is dark, are left out" if missing else ""
        return f"The photo was divided by the white frame {names}{left_out}."


Recolour = Callable[[Doubles], Doubles]
"""Changes linear colours (n, 3)."""

_ROWS = 64


def recoloured(
    photo: Photo, recolour: Recolour, note: str, sha256: str, exact_by: str = ""
) -> Photo:
    """Return *photo* in float32 sRGB, 0-1, changed by *recolour*, with one more *note*.

    *exact_by* names the chart or greys that make its colours exact, if any.
    """
    pixels = np.empty((3, *photo.shape), dtype=np.float32)
    for top in range(0, photo.shape[0], _ROWS):
        bottom = min(top + _ROWS, photo.shape[0])
        linear = photo.light(top, bottom).astype(np.float64)
        right = recolour(linear.reshape(3, -1).T).clip(0, 1)
        pixels[:, top:bottom] = linear_to_srgb(right).T.reshape(linear.shape)
    if photo.valid is not None:
        pixels[:, ~photo.valid] = 0
    return replace(
        photo,
        pixels=pixels,
        full_scale=1.0,
        sha256=sha256,
        assumptions=(*photo.assumptions, note),
        is_corrected=True,
        exact_by=exact_by or photo.exact_by,
        unconverted=None,
    )


def check_srgb(photo: Photo, what: str) -> None:
    """Raise `PhotoError` if *photo* is not in sRGB, so that its *what* cannot be corrected."""
    if photo.encoding != "srgb":
        raise PhotoError(
            f"Expected an sRGB photo to correct its {what}, got linear values. "
            "Give their camera and light instead."
        )


def sha256_after(photo_sha256: str, what: str) -> str:
    """Return the sha256 of a photo after the step *what*, from the sha256 of the original."""
    return hashlib.sha256(f"{photo_sha256} {what}".encode()).hexdigest()


def balancing_gains(photo: Photo, acquisition: Acquisition) -> Doubles:
    """White-balance gains (3,) of *photo* for *acquisition*.

    "As stored" means the balance in the file for RAW photos, and gains of 1 for other photos.

    Raises
    ------
    PhotoError
        If a RAW photo should be balanced as stored, but its file does not state the balance.
    """
    if photo.shot is None or acquisition.balance != BALANCED:
        return acquisition.gains
    gains = photo.shot.gains
    if gains is None:
        raise PhotoError(
            f"Expected the white balance of the camera in {photo.name[-60:]}, got none. "
            "Show a grey patch, or say that the photo is unbalanced."
        )
    return gains
