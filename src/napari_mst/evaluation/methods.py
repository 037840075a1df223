"""Methods to judge: models, and the best linear estimate, which any network has to beat.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_estimate, srgb_response, srgb_to_linear
from napari_mst.evaluation.scenes import resampled
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID, Capture
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.reconstruction.error_bands import half_widths
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.simulation.spectra import measured_reflectances

Method = Callable[[NDArray[Any]], NDArray[np.floating]]
"""Stored values (3, H, W) of a photo -> reflectance (31, H, W) at `GRID`."""

RENDERED = "rendering it from the scene"
"""The words that say why a photo of the tables shows colours exactly."""

ON_CPU = RunOptions(device="cpu")


class ModelMethod:
    """A model as a method: by its name in `MODELS` or its file.

    Parameters
    ----------
    options
        How it is run; the camera and the light are None for photos in 8-bit sRGB.
    """

    def __init__(self, name: str, options: RunOptions = ON_CPU) -> None:
        options = replace(options, calibrated_by=RENDERED)
        self._reconstructor = Reconstructor(load_model(name), **vars(options))
        self._band: Mapping[str, Any] = {}

    def __call__(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.floating]:
        """Stored values (3, H, W) -> reflectance (31, H, W)."""
        encoding: Encoding = "srgb" if self._reconstructor.capture is None else "linear"
        cube = self._reconstructor.reconstruct(Photo.from_array(codes, encoding=encoding))
        self._band = cube.provenance.error_band
        return resampled(cube.data, cube.wavelengths)

    def is_within(
        self, estimate: NDArray[np.floating], reference: NDArray[np.floating]
    ) -> NDArray[np.bool_] | None:
        """True (31, H, W) where the reference lies in the error band of *estimate*.

        The band is that of the photo that was taken last: it depends on whether that was a JPEG.
        None if the model has no band.
        """
        if not self._band or not np.array_equal(self._reconstructor.model.card.wavelengths, GRID):
            return None
        below, above = half_widths(estimate, self._band, GRID)
        return np.asarray((reference >= estimate - below) & (reference <= estimate + above))


def matrix_method(matrix: NDArray[np.floating]) -> Method:
    """The method that multiplies linear sRGB by *matrix*, (B, 3)."""

    def estimate(codes: NDArray[np.uint8]) -> NDArray[np.floating]:
        linear = srgb_to_linear(codes / 255)
        return np.einsum("bc,chw->bhw", matrix, linear, optimize=True)

    return estimate


def least_squares() -> Method:
    """Least squares 3 -> 31 on the measured reflectances that also train the bundled models."""
    return matrix_method(linear_estimate(measured_reflectances(), srgb_response(GRID)))


def linear_method(capture: Capture) -> Method:
    """Least squares for linear 16-bit photos by this camera in this light."""
    matrix = linear_estimate(measured_reflectances(), capture.response)
    return lambda codes: np.einsum("bc,chw->bhw", matrix, codes / 65535, optimize=True).clip(0)


BASELINES: dict[str, Callable[[], Method]] = {"least squares 3 to 31": least_squares}
"""Estimates that models for sRGB are compared with: functions that make a method."""
