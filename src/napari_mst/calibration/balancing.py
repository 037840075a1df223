"""Estimates and corrects the white balance of an sRGB photo.

Models for sRGB photos assume that a white surface is (1, 1, 1), as under D65. If the light has left
a colour cast, the linear photo is adapted by the Bradford transform: von Kries' rule on sharpened
cones. Lam, "Metamerism and colour constancy", PhD thesis, University of Bradford, 1985; the matrix
comes from ISO 15076-1:2010, annex E.

Letters: n pixels.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import PhotoError
from napari_mst.calibration.corrections import check_srgb, recoloured, sha256_after
from napari_mst.calibration.light.estimating import LightEstimate, estimate_light
from napari_mst.calibration.white_patch import angle_between
from napari_mst.cube.colour import XYZ_TO_SRGB
from napari_mst.cube.illuminants import BRADFORD
from napari_mst.photo.cameras import SRGB
from napari_mst.photo.photo import Photo, PhotoLike, as_photo

_DARKEST = 0.02
"""Smallest share of a channel in white; below it, noise and 8-bit steps dominate."""


@dataclass(frozen=True)
class WhiteBalance:
    """The colour of white in an sRGB photo, which `corrected` makes grey.

    Attributes
    ----------
    white
        Red, green and blue of a white surface in linear sRGB; only their ratios matter.
    source
        Origin of the white, in a few words.
    is_far
        True if correcting the photo is advisable: the white was measured, or it is so far from D65
        that an estimate cannot be entirely wrong.

    Raises
    ------
    PhotoError
        If the white is not three positive numbers.

    Notes
    -----
    ===========  ====================================================================
    white        linear sRGB; the largest value becomes 1
    matrix       (3, 3) from linear sRGB to linear sRGB
    degrees      angle between the white and the D65 white
    corrected()  float32 0-1, sRGB; white is as bright as its brightest channel was
    ===========  ====================================================================

    Examples
    --------
    >>> from napari_mst.calibration.balancing import WhiteBalance
    >>> orange = WhiteBalance((1.0, 0.6, 0.25), "a grey card")
    >>> round(orange.degrees), (orange.matrix @ orange.white).round(3)
    (26, array([1., 1., 1.]))
    >>> photo = nm.Photo.from_array(np.full((4, 6, 3), (0.5, 0.4, 0.26)))
    >>> better = orange.corrected(photo)
    >>> better.pixels[:, 0, 0].round(2)
    array([0.5 , 0.51, 0.51], dtype=float32)
    >>> better.sha256 == orange.sha256_of(photo.sha256)
    True
    """

    white: tuple[float, float, float]
    source: str = "the user"
    is_far: bool = True

    def __post_init__(self) -> None:
        values = np.array(self.white)
        if values.shape != (3,) or not (np.isfinite(values).all() and (values > 0).all()):
            raise PhotoError(
                f"Expected red, green and blue of white above 0, got {str(self.white)[:60]}. "
                "Give linear values of a white surface."
            )
        largest = max(self.white)
        red, green, blue = (max(float(value / largest), _DARKEST) for value in self.white)
        object.__setattr__(self, "white", (red, green, blue))

    @property
    def matrix(self) -> Doubles:
        """Matrix (3, 3) from linear colours of the photo to D65; white becomes (1, 1, 1)."""
        to_cones = BRADFORD @ np.linalg.inv(XYZ_TO_SRGB)
        # White keeps its brightest channel, so clipped pixels stay white.
        gains = to_cones.sum(axis=1) / (to_cones @ self.white)
        return np.linalg.inv(to_cones) * gains @ to_cones

    @property
    def degrees(self) -> float:
        """Angle between the white and the D65 white, (1, 1, 1)."""
        return float(angle_between(np.array(self.white), np.ones(3)))

    def __str__(self) -> str:
        """Describe the white and its source."""
        red, green, blue = self.white
        return (
            f"white {red:.2f} {green:.2f} {blue:.2f} in linear sRGB, {self.degrees:.0f} degrees "
            f"off D65, by {self.source}"
        )

    def corrected(self, photo: PhotoLike) -> Photo:
        """Return *photo* with the white made neutral, which its history records.

        Raises
        ------
        PhotoError
            If the photo is not in sRGB.
        """
        photo = as_photo(photo)
        check_srgb(photo, "white balance")
        note = f"The white balance was corrected: {self}."
        sha256 = self.sha256_of(photo.sha256)
        return recoloured(photo, lambda colours: colours @ self.matrix.T, note, sha256)

    def sha256_of(self, photo_sha256: str) -> str:
        """Return the sha256 of a corrected photo, from the sha256 of the original."""
        return sha256_after(photo_sha256, f"white balance {self.white}")


def white_balance(photo: PhotoLike) -> WhiteBalance:
    """Estimate the colour of white in an sRGB *photo* from all pixels.

    The estimate comes from `estimate_light`, with a median error of about 4 degrees. Check `is_far`
    before you trust it: a photo of one colour resembles a photo in coloured light. A grey patch in
    the photo is better, and gives the brightness as well: see `calibrate_greys`.

    Raises
    ------
    PhotoError
        If the photo is not in sRGB or has only black and clipped pixels.

    Notes
    -----
    =======  ======================================
    photo    sRGB: uint8 0-255, uint16, float 0-1
    returns  linear sRGB, the largest channel 1
    =======  ======================================

    Examples
    --------
    >>> photo = nm.Photo.from_array(np.full((40, 60, 3), (0.5, 0.4, 0.26)))
    >>> nm.light.white_balance(photo).is_far
    True
    """
    photo = as_photo(photo)
    check_srgb(photo, "white balance")
    return balance_for(estimate_light(photo, SRGB))


def balance_for(light: LightEstimate, name: str = "") -> WhiteBalance:
    """Return the white of an sRGB photo with an estimated *light*, averaged over its candidates.

    If the user chose the candidate *name*, the white is that of the candidate.
    """
    chosen = next((candidate for candidate in light.candidates if candidate.name == name), None)
    white = light.white if chosen is None else chosen.white
    source = f"an estimate of its light ({light.candidates[0].name})"
    if chosen is not None:
        source = f"{name}, chosen among the likely lights"
    # Sodium light lies outside sRGB: its blue is below 0.
    red, green, blue = white.clip(_DARKEST).tolist()
    return WhiteBalance((red, green, blue), source, light.is_far or chosen is not None)
