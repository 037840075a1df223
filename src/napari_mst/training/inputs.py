"""Simulated photos for evaluation: clean, noisy, compressed, badly exposed or balanced.

An `Input` renders a reflectance cube as an 8-bit sRGB photo, or as the linear 16-bit photo of a
named camera. Photos of the same scene are reproducible. A new kind is a row of `INPUTS`. Letters: H
rows, W columns.
"""

import functools
import io
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from napari_mst.base.arrays import Codes, Doubles, Floats, Mask
from napari_mst.cube.colour import (
    XYZ_TO_SRGB,
    illuminant,
    linear_to_srgb,
    measured_reflectances,
    render_srgb,
    srgb_response,
)
from napari_mst.photo.cameras import GRID, Acquisition, load_cameras
from napari_mst.photo.lights import daylight_chromaticity
from napari_mst.photo.photo import Encoding, Photo

HELD_OUT_CAMERAS = (
    "Canon_EOS_5D_Mark_III",
    "Canon_PowerShot_S90",
    "Fujifilm_X-T4",
    "Hasselblad_L2D-20c",
    "Nikon_D5100",
    "Nikon_D850",
    "Panasonic_DC-GX9",
    "Sony_ILCE-7RM4",
)
"""Cameras reserved for evaluation, which take no training photos."""

D65_KELVIN = 6504.0
MID_GREY = 0.18
"""Linear light at the pivot of a tone curve, for which photographers expose."""

_FULL = 65535


@dataclass(frozen=True)
class Input:
    """A kind of photo of a scene: 8-bit sRGB in daylight (D65), or linear from a known camera.

    Attributes
    ----------
    name
        Name in tables and on the command line.
    exposure
        Factor on the light before all other effects; pixels that it clips do not count.
    noise
        Variance of the sensor noise over the linear signal (of green, if the channels differ): the
        standard deviation is sqrt(noise x signal).
    kelvin
        Daylight assumed by the camera's white balance.
    camera
        A camera from `load_cameras`, whose values a 3 x 3 matrix takes to sRGB; "" for the CIE
        observer, which defines sRGB.
    quality
        Quality of JPEG compression; None for no compression.
    contrast
        Tone curve of the camera, as an exponent on linear light over mid grey (0.18); above 1 for
        the steeper curve of most cameras.
    acquisition
        Camera and light of linear, white-balanced 16-bit photos, to which the four fields above do
        not apply. White-balance gains amplify the noise of red and blue. None for sRGB.
    """

    name: str
    exposure: float = 1.0
    noise: float = 0.0
    kelvin: float = D65_KELVIN
    camera: str = ""
    quality: int | None = None
    contrast: float = 1.0
    acquisition: Acquisition | None = None

    def photograph(self, cube: Floats, scene: str = "") -> NDArray[np.unsignedinteger]:
        """Return the photo (3, H, W) of a reflectance cube (31, H, W) at `GRID`.

        *scene* seeds the noise.
        """
        if self.acquisition is None:
            return self._encoded(cube, scene)
        linear = np.einsum("bhw,bc->chw", cube, self.acquisition.response, optimize=True)
        gains = (1 / self.acquisition.white_of_sensor)[:, None, None]
        noisy = self._noisy(linear * self.exposure, scene, gains)
        return np.rint(noisy.clip(0, 1) * _FULL).astype(np.uint16)

    def photo(self, cube: Floats, scene: str = "") -> Photo:
        """Return the same photo as a `Photo`."""
        encoding: Encoding = "linear" if self.acquisition else "srgb"
        return Photo.from_array(self.photograph(cube, scene), encoding=encoding)

    def counted(self, codes: NDArray[np.unsignedinteger]) -> Mask:
        """Return a mask (H, W) of the pixels that count: those not clipped by another exposure."""
        full = np.iinfo(codes.dtype).max
        return np.asarray((codes < full).all(axis=0) | (self.exposure == 1))

    def _encoded(self, cube: Floats, scene: str) -> Codes:
        gains = (self.exposure * self._gains())[:, None, None]
        linear = self._noisy(self._rendered(cube) * gains, scene)
        shown = MID_GREY * (linear.clip(0, 1) / MID_GREY) ** self.contrast
        codes = np.rint(linear_to_srgb(shown.clip(0, 1)) * 255).astype(np.uint8)
        return codes if self.quality is None else jpeg(codes, quality=self.quality)

    def _noisy(self, linear: Floats, scene: str, gains: Floats | float = 1.0) -> Floats:
        """Add noise to *linear* (3, H, W), with variances that grow with the channels' *gains*."""
        # A scene has the same noise in every run, but different noise in every kind of photo.
        random = np.random.default_rng([zlib.crc32(scene.encode()), zlib.crc32(self.name.encode())])
        deviation = np.sqrt(self.noise * gains * linear.clip(0))
        return linear + random.standard_normal(linear.shape) * deviation

    def _rendered(self, cube: Floats) -> Floats:
        """Return linear sRGB (3, H, W) of the cube under D65."""
        if not self.camera:
            return render_srgb(cube, GRID)
        return np.einsum("bhw,bc->chw", cube, response_in_srgb(self.camera), optimize=True)

    def _gains(self) -> Doubles:
        """Return the gains (3,) of the white balance; that of green is 1."""
        gains = daylight_white(D65_KELVIN) / daylight_white(self.kelvin)
        return gains / gains[1]


INPUTS: tuple[Input, ...] = (
    Input("clean"),
    *(Input(f"noise {noise}", noise=float(noise)) for noise in ("2e-4", "1e-3", "4e-3")),
    Input("JPEG 75", quality=75),
    Input("JPEG 50", quality=50),
    Input("noise 1e-3, JPEG 75", noise=1e-3, quality=75),
    Input("+2 stops", exposure=4.0),
    Input("-2 stops", exposure=0.25),
    Input("balance +500 K", kelvin=D65_KELVIN + 500),
    Input("balance -500 K", kelvin=D65_KELVIN - 500),
    Input("another camera", camera="Nikon_D5100"),
)


def jpeg(codes: Codes, **options: Any) -> Codes:
    """Compress and decompress *codes* (3, H, W) as JPEG, with Pillow's *options*."""
    stream = io.BytesIO()
    Image.fromarray(np.moveaxis(codes, 0, -1)).save(stream, "jpeg", **options)
    return np.moveaxis(np.asarray(Image.open(stream, formats=("JPEG",))), -1, 0)


def camera_inputs(acquisition: Acquisition) -> tuple[Input, ...]:
    """Return all kinds of photos for one acquisition, without those that exist only as sRGB."""
    return tuple(
        Input(each.name, each.exposure, each.noise, acquisition=acquisition)
        for each in INPUTS
        if each == Input(each.name, each.exposure, each.noise)
    )


def training_cameras() -> list[str]:
    """Return the cameras of training photos."""
    return [name for name in load_cameras() if name not in HELD_OUT_CAMERAS]


@functools.cache
def response_in_srgb(camera: str) -> Doubles:
    """Return the response (31, 3) from reflectance under D65 to linear sRGB as *camera* renders it.

    The response is white-balanced, with the 3 x 3 matrix that best fits measured reflectances and
    preserves white.
    """
    spectra = measured_reflectances()
    raw = load_cameras()[camera] * illuminant("D65", GRID)[:, None]
    raw = raw / raw.sum(axis=0)
    matrix, *_ = np.linalg.lstsq(spectra @ raw, spectra @ srgb_response(GRID), rcond=None)
    return raw @ (matrix / matrix.sum(axis=0))


def daylight_white(kelvin: float) -> Doubles:
    """Return linear sRGB (3,) of CIE daylight of 4000 to 25000 K."""
    x, y = daylight_chromaticity(kelvin)
    return XYZ_TO_SRGB @ [x / y, 1, (1 - x - y) / y]
