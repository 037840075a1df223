"""Where a fit gets its photos and cubes from: simulated scenes, or the user's own cubes; and through which camera.

Letters: N photos, B bands, H rows, W columns.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from napari_mst.errors import CubeFileError
from napari_mst.evaluation.scenes import Scene
from napari_mst.messages import shown
from napari_mst.photo import cameras
from napari_mst.simulation.scenes import USUAL, Lesson, SceneSimulator

HELD_OUT_SCENES = 32
_SHARE_HELD_OUT = 0.2  # of the rows of every cube, at its bottom
_BRIGHTEST = 1.2


class Source(Protocol):
    """Gives linear photos (N, 3, H, W) and the cubes (N, 31, H, W) that they show; the same ones for the same index."""

    response: Tensor
    """(31, 3): what the camera sees of a reflectance, white being (1, 1, 1)."""

    def draw(self, index: int, count: int, lesson: Lesson) -> tuple[Tensor, Tensor]:
        """*count* photos and cubes to train on, as *lesson* wants them."""

    def held_out(self) -> tuple[Tensor, Tensor]:
        """Photos and cubes that are never trained on, always the same."""


class Simulated:
    """Simulated scenes of *size* pixels a side, seen with *response* (31, 3); by default the sRGB of daylight."""

    def __init__(self, seed: int, size: int, response: Tensor | None = None) -> None:
        self._seed, self._size = seed, size
        self.response = SceneSimulator(0).response if response is None else response

    def simulator(
        self, seed: int, held_out: bool = False, lesson: Lesson = USUAL
    ) -> SceneSimulator:
        """A simulator that sees with this response."""
        simulator = SceneSimulator(seed, self._size, held_out, lesson)
        simulator.response = self.response
        return simulator

    def draw(self, index: int, count: int, lesson: Lesson = USUAL) -> tuple[Tensor, Tensor]:
        """See `Source`."""
        return self.simulator(self._seed * 10_000_000 + index, lesson=lesson).draw(count)

    def held_out(self) -> tuple[Tensor, Tensor]:
        """See `Source`."""
        return self.simulator(self._seed, held_out=True).draw(HELD_OUT_SCENES)


class Cubes:
    """Squares of *size* pixels of real scenes, turned, mirrored and exposed at random, with simulated noise and JPEG.

    The bottom fifth of every scene is held out. All scenes are kept in memory.

    Raises
    ------
    CubeFileError
        If a scene is too small.
    """

    def __init__(self, scenes: Iterable[Scene], seed: int, size: int, response: Tensor) -> None:
        self.response, self._seed, self._size = response, seed, size
        self._trained, self._held_out = list[Tensor](), list[Tensor]()
        for scene in scenes:
            rows = scene.cube.shape[1] - max(size, round(_SHARE_HELD_OUT * scene.cube.shape[1]))
            if min(rows, scene.cube.shape[2]) < size:
                found = " x ".join(map(str, scene.cube.shape[1:]))
                raise CubeFileError(
                    f"Expected {2 * size} x {size} pixels in {shown(scene.name)}, got {found}."
                )
            self._trained.append(torch.from_numpy(scene.cube[:, :rows]))
            self._held_out.append(torch.from_numpy(scene.cube[:, rows:]))

    def __len__(self) -> int:
        return len(self._trained)

    def draw(self, index: int, count: int, lesson: Lesson = USUAL) -> tuple[Tensor, Tensor]:
        """See `Source`."""
        return self._photographed(self._trained, [self._seed, index], count, lesson)

    def held_out(self) -> tuple[Tensor, Tensor]:
        """See `Source`."""
        return self._photographed(self._held_out, [self._seed], HELD_OUT_SCENES, USUAL)

    def _photographed(
        self, cubes: Sequence[Tensor], seed: Sequence[int], count: int, lesson: Lesson
    ) -> tuple[Tensor, Tensor]:
        random = np.random.default_rng(seed)
        areas = np.array([cube[0].numel() for cube in cubes])
        chosen = random.choice(len(cubes), count, p=areas / areas.sum())
        squares = torch.stack([self._square(cubes[place], random) for place in chosen])
        simulator = SceneSimulator(int(random.integers(2**31)), self._size, lesson=lesson)
        simulator.response = self.response
        return simulator.photograph(squares), squares

    def _square(self, cube: Tensor, random: np.random.Generator) -> Tensor:
        size = self._size
        top, left = (int(random.integers(side - size + 1)) for side in cube.shape[1:])
        square = torch.rot90(
            cube[:, top : top + size, left : left + size], int(random.integers(4)), (1, 2)
        )
        square = square.flip(2) if random.integers(2) else square
        return (square * 2 ** random.uniform(-1, 0.5)).clamp(0, _BRIGHTEST)


def camera_response(camera: str, light: str) -> Tensor:
    """`napari_mst.photo.cameras.camera_response` as a tensor, (31, 3)."""
    return torch.from_numpy(cameras.camera_response(camera, light)).float()
