"""Simulated photos in linear, white-balanced RGB, by many cameras under many lights.

Letters: N photos, B bands, H rows, W columns.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lab.simulated import SceneSimulator
from napari_mst.photo.cameras import Acquisition, load_illuminants, unbalanced_response
from napari_mst.training.inputs import HELD_OUT_CAMERAS, training_cameras

TRAINING_LIGHTS = (
    "D65",
    "D50",
    "A",
    "B",
    "C",
    "D55",
    "D75",
    "E",
    "F11",
    "F2",
    "F7",
    "flash",
    "horizon",
    "office-fluorescent",
    "tungsten",
)
"""The illuminants of the photos, in the order in which a seed draws them."""

# Shares of the photos whose light is a mixture of two, and of those with noise.
_MIXED = 0.5
_NOISY = 0.5
_BITS = (8, 12, 14, 16)


class CameraSimulator(SceneSimulator):
    """Draws scenes as a `SceneSimulator` does; each call draws a camera and a light as well.

    `response` (31, 3) is that of the photos that were drawn last, and `gains` (3,) are those of its
    white balance.

    Parameters
    ----------
    held_out
        Draw the spectra and the cameras that training never sees.
    """

    def __init__(self, seed: int, size: int = 64, held_out: bool = False) -> None:
        super().__init__(seed, size, held_out)
        cameras = HELD_OUT_CAMERAS if held_out else training_cameras()
        raw = np.stack([unbalanced_response(name, "E") for name in cameras])
        references = load_illuminants()
        lights = np.stack([references[name] for name in TRAINING_LIGHTS])
        self._raw = torch.from_numpy(raw).float()
        self._lights = torch.from_numpy(lights).float()
        self._lights /= self._lights.mean(1, keepdim=True)
        self.gains = torch.ones(3)

    def restart(self, seed: int) -> None:
        """Draw from now on what a new simulator with this *seed* would draw."""
        self._random.manual_seed(seed)

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """*count* photos of one camera under one light, and the reflectance that they show.

        Photos are linear and white-balanced.
        """
        responses, gains = self.draw_responses(1)
        self.response = responses[0]
        self.gains = gains[0]
        return super().draw(count)

    def draw_with(self, acquisition: Acquisition) -> tuple[Tensor, Tensor]:
        """One photo of this camera under this light."""
        self.response = torch.from_numpy(acquisition.response).float()
        self.gains = torch.from_numpy(1 / acquisition.white_of_sensor).float()
        return super().draw(1)

    def draw_responses(self, count: int) -> tuple[Tensor, Tensor]:
        """White-balanced responses (N, 31, 3) of cameras under lights.

        Returns
        -------
        The responses, and the gains (N, 3) that balance them; that of green is 1.
        """
        camera = torch.randint(len(self._raw), (count,), generator=self._random)
        first = self._draw_lights(count)
        second = self._draw_lights(count)
        share = self._often(_MIXED, count, 1)
        light = first + share * (second - first)
        weighted = self._raw[camera] * light[..., None]
        white = weighted.sum(1)
        return weighted / white[:, None], white[:, 1:2] / white

    def _draw_lights(self, count: int) -> Tensor:
        """The spectra (count, 31) of *count* lights."""
        drawn = torch.randint(len(self._lights), (count,), generator=self._random)
        return self._lights[drawn]

    def draw_pixels_of(self, responses: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """*count* clean pixels without neighbours for each of N responses, and their reflectances.

        Pixels are (N, 3, count, 1), reflectances (N, 31, count, 1).
        """
        spectra = self.draw_spectra(len(responses) * count).view(len(responses), count, -1).mT
        return (responses.mT @ spectra).clamp(0, 1)[..., None], spectra[..., None]

    def photograph(self, scene: Tensor) -> Tensor:
        """Apparent reflectance -> linear RGB with the noise of the sensor, clipped and rounded."""
        n = len(scene)
        linear = torch.einsum("nbhw,bc->nchw", scene, self.response)
        gains = self.gains.clamp_min(0.2)[:, None, None]
        shot = self._log_uniform(n, 1e-4, 5e-3)
        read = self._log_uniform(n, 1e-8, 1e-5)
        # White balance multiplies noise too: shot noise, a variance over signal, by the gain, and
        # read noise, a variance, by its square.
        deviation = (shot * gains * linear.clamp_min(0) + read * gains**2).sqrt()
        noise = self._normal(*linear.shape) * deviation
        noisy = linear + noise * (self._uniform(n, 1, 1, 1) < _NOISY)
        steps = 2.0 ** _BITS[self._integer(0, len(_BITS) - 1)] - 1
        return (noisy.clamp(0, 1) * steps).round() / steps


class CameraScenes:
    """A `TrainingSource` of simulated photos, those of each draw by one camera under one light.

    `response` is that of the photos that were drawn last.

    Parameters
    ----------
    size
        Rows and columns of a photo.
    set_response
        Called with the response before the photos are given out.
    """

    def __init__(self, seed: int, size: int, set_response: Callable[[Tensor], None]) -> None:
        self._seed = seed
        self._set_response = set_response
        self._training = CameraSimulator(seed, size, held_out=False)
        self._held_out = CameraSimulator(seed, size, held_out=True)
        self.response = self._training.response

    def draw(self, index: int, count: int, progress: float) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Training photos, as a `TrainingSource` gives them, at any *progress* the same."""
        # Draws of one seed never meet those of the next.
        return self._drawn(self._training, self._seed * 10_000_000 + index, count)

    def held_out(self, index: int = 0, count: int = 1) -> tuple[Tensor, Tensor]:
        """Photos to judge by, as a `TrainingSource` gives them; each *index* has another camera."""
        return self._drawn(self._held_out, self._seed + index, count)

    def _drawn(self, simulator: CameraSimulator, seed: int, count: int) -> tuple[Tensor, Tensor]:
        simulator.restart(seed)
        photos, cubes = simulator.draw(count)
        self.response = simulator.response
        self._set_response(self.response)
        return photos, cubes
