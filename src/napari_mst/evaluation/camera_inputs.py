"""The linear photos that a model for cameras is tried on, and the estimate that it has to beat.

Letters: B bands, H rows, W columns.
"""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.colour import linear_estimate
from napari_mst.evaluation.baselines import Method, measured_reflectances
from napari_mst.photo.cameras import Capture

_FULL = 65535


@dataclass(frozen=True)
class CameraInput:
    """One kind of linear, white-balanced 16-bit photo.

    Attributes
    ----------
    name
        For the table and the command line.
    capture
        The camera, and the illuminant.
    exposure
        Factor on the light.
    noise
        Variance of the sensor noise over the linear signal of green. In the other channels it is
        larger by as much as their gains are.
    """

    name: str
    capture: Capture
    exposure: float = 1.0
    noise: float = 0.0

    def photograph(
        self, cube: NDArray[np.floating], _: ArrayLike, scene: str = ""
    ) -> NDArray[np.uint16]:
        """The photo (3, H, W) of a reflectance cube (31, H, W); *scene* seeds its noise."""
        response = self.capture.response
        linear = np.einsum("bhw,bc->chw", cube, response, optimize=True) * self.exposure
        # The same scene has the same noise in every run, and another one in every kind of photo.
        random = np.random.default_rng([zlib.crc32(scene.encode()), zlib.crc32(self.name.encode())])
        gains = (1 / self.capture.white_of_sensor)[:, None, None]
        deviation = np.sqrt(self.noise * gains * linear.clip(0))
        linear = linear + random.standard_normal(linear.shape) * deviation
        return np.rint(linear.clip(0, 1) * _FULL).astype(np.uint16)

    def counted(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
        """The pixels (H, W) that count: those that another exposure has not clipped."""
        return np.asarray((codes < _FULL).all(axis=0) | (self.exposure == 1))


def camera_inputs(capture: Capture) -> tuple[CameraInput, ...]:
    """All kinds of photos for one capture."""
    return (
        CameraInput("clean", capture),
        CameraInput("noise 2e-4", capture, noise=2e-4),
        CameraInput("noise 1e-3", capture, noise=1e-3),
        CameraInput("noise 4e-3", capture, noise=4e-3),
        CameraInput("+2 stops", capture, exposure=4.0),
        CameraInput("-2 stops", capture, exposure=0.25),
    )


def linear_method(capture: Capture) -> Method:
    """The best linear estimate for this camera and illuminant.

    It is fitted to the reflectances that also train the networks.
    """
    matrix = linear_estimate(measured_reflectances(), capture.response)
    return lambda codes: np.einsum("bc,chw->bhw", matrix, codes / _FULL, optimize=True).clip(0)
