"""The photos that a method is tried on: clean, noisy, compressed, badly exposed or balanced.

An `Input` makes the 8-bit sRGB photo of a reflectance cube, always the same one for the same scene.
A new kind is one row of `INPUTS`. Letters: B bands, H rows, W columns.
"""

import functools
import io
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from napari_mst.colour import XYZ_TO_SRGB, illuminant, linear_to_srgb, render_srgb, srgb_response
from napari_mst.photo.cameras import GRID, load_cameras
from napari_mst.simulation.spectra import load_reflectances

D65_KELVIN = 6504.0
MID_GREY = 0.18
"""Linear light at which a tone curve turns: what photographers expose for."""


@dataclass(frozen=True)
class Input:
    """One kind of photo of a scene in daylight (D65).

    Attributes
    ----------
    name
        For the table and the command line.
    exposure
        Factor on the light before anything else; clipped pixels then do not count.
    kelvin
        The daylight that the camera's white balance took the light for.
    camera
        A camera of `load_cameras` whose values a 3 x 3 matrix takes to sRGB; "" for the CIE
        observer, by which sRGB is defined.
    noise
        Variance of the sensor noise over the linear signal: its standard deviation is
        sqrt(noise x signal).
    quality
        Quality of the JPEG compression; None for no compression.
    contrast
        The tone curve of the camera: an exponent on linear light over mid grey (0.18), above 1 for
        the steeper curve that most cameras have.
    """

    name: str
    exposure: float = 1.0
    kelvin: float = D65_KELVIN
    camera: str = ""
    noise: float = 0.0
    quality: int | None = None
    contrast: float = 1.0

    def photograph(
        self, cube: NDArray[np.floating], wavelengths: ArrayLike, scene: str = ""
    ) -> NDArray[np.uint8]:
        """The photo (3, H, W) of a reflectance cube (B, H, W); *scene* seeds its noise."""
        gains = (self.exposure * self._gains())[:, None, None]
        linear = self._rendered(cube, np.asarray(wavelengths)) * gains
        # The same scene has the same noise in every run, and another one in every kind of photo.
        random = np.random.default_rng([zlib.crc32(scene.encode()), zlib.crc32(self.name.encode())])
        deviation = np.sqrt(self.noise * linear.clip(0))
        linear = linear + random.standard_normal(linear.shape) * deviation
        shown = MID_GREY * (linear.clip(0, 1) / MID_GREY) ** self.contrast
        codes = np.rint(linear_to_srgb(shown.clip(0, 1)) * 255).astype(np.uint8)
        return codes if self.quality is None else _compressed(codes, self.quality)

    def counted(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
        """The pixels (H, W) that count: those that another exposure has not clipped."""
        return np.asarray((codes < 255).all(axis=0) | (self.exposure == 1))

    def _rendered(
        self, cube: NDArray[np.floating], wavelengths: NDArray[np.float64]
    ) -> NDArray[np.floating]:
        """Linear sRGB (3, H, W) of the cube under D65."""
        if not self.camera:
            return render_srgb(cube, wavelengths)
        response = response_at(self.camera, tuple(wavelengths))
        return np.einsum("bhw,bc->chw", cube, response, optimize=True)

    def _gains(self) -> NDArray[np.float64]:
        """The gains (3,) of the white balance; green keeps its own."""
        gains = daylight_white(D65_KELVIN) / daylight_white(self.kelvin)
        return np.asarray(gains / gains[1])


INPUTS: tuple[Input, ...] = (
    Input("clean"),
    Input("noise 2e-4", noise=2e-4),
    Input("noise 1e-3", noise=1e-3),
    Input("noise 4e-3", noise=4e-3),
    Input("JPEG 75", quality=75),
    Input("JPEG 50", quality=50),
    Input("noise 1e-3, JPEG 75", noise=1e-3, quality=75),
    Input("+2 stops", exposure=4.0),
    Input("-2 stops", exposure=0.25),
    Input("balance +500 K", kelvin=D65_KELVIN + 500),
    Input("balance -500 K", kelvin=D65_KELVIN - 500),
    Input("another camera", camera="Nikon_D5100"),
)


@functools.cache
def response_at(camera: str, wavelengths: tuple[float, ...]) -> NDArray[np.float64]:
    """The response (B, 3) that takes reflectance under D65 to linear sRGB as *camera* gives it.

    It is white-balanced, and has the best 3 x 3 matrix: that is fitted to the measured reflectances
    and keeps white white.
    """
    _, sources = load_reflectances()
    spectra = np.concatenate(list(sources.values())).astype(np.float64)
    raw = load_cameras()[camera] * illuminant("D65", GRID)[:, None]
    raw = raw / raw.sum(axis=0)
    matrix, *_ = np.linalg.lstsq(spectra @ raw, spectra @ srgb_response(GRID), rcond=None)
    response = raw @ (matrix / matrix.sum(axis=0))
    at = np.asarray(wavelengths)
    # A camera sees nothing outside the wavelengths at which it was measured.
    channels = [np.interp(at, GRID, channel, left=0, right=0) for channel in response.T]
    sampled = np.stack(channels, axis=-1)
    return np.asarray(sampled / sampled.sum(axis=0))


def daylight_white(kelvin: float) -> NDArray[np.float64]:
    """Linear sRGB (3,) of CIE daylight of 4000 to 25000 K. CIE 15:2018."""
    # CIE 15 gives one polynomial in 1 / kelvin up to 7000 K, and another one above.
    if kelvin <= 7000:
        factors = (0.244063, 0.09911e3, 2.9678e6, -4.6070e9)
    else:
        factors = (0.237040, 0.24748e3, 1.9018e6, -2.0064e9)
    x = sum(factor / kelvin**power for power, factor in enumerate(factors))
    y = -3.0 * x**2 + 2.87 * x - 0.275
    return np.asarray(XYZ_TO_SRGB @ [x / y, 1, (1 - x - y) / y])


def _compressed(codes: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    stream = io.BytesIO()
    Image.fromarray(np.moveaxis(codes, 0, -1)).save(stream, "jpeg", quality=quality)
    return np.moveaxis(np.asarray(Image.open(stream)), -1, 0)
