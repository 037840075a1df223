"""The photos and cubes of a fit: of simulated scenes, or of the user's own cubes, by any camera.

Letters: N photos, B bands, H rows, W columns.
"""

from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from napari_mst.errors import CubeFileError, shown
from napari_mst.photo import cameras
from napari_mst.training.scenes import Scene
from napari_mst.training.simulated import USUAL, Curriculum, SceneSimulator

HELD_OUT_SCENES = 32
# Of the rows of every cube, at its bottom.
_SHARE_HELD_OUT = 0.2
_BRIGHTEST = 1.2
_AHEAD = 4  # draws that each process has ready: enough where one of them takes longer than a step

Draw = tuple[Tensor, Tensor]
"""Photos (N, 3, H, W) and the cubes (N, 31, H, W) that they show."""

Order = tuple[int, int, Curriculum]
"""The arguments of `LessonSource.draw`: index, count and lesson."""


class LessonSource(Protocol):
    """Gives linear photos (N, 3, H, W) and the cubes (N, 31, H, W) that they show.

    The same index gives the same photos.
    """

    response: Tensor
    """(31, 3), takes a reflectance to the values of the camera; white is (1, 1, 1)."""

    def draw(self, index: int, count: int, lesson: Curriculum) -> Draw:
        """*count* photos and cubes to train on, as *lesson* wants them."""

    def held_out(self) -> Draw:
        """Photos and cubes that are never trained on, always the same."""


class Simulated:
    """Simulated scenes of *size* pixels a side.

    They are seen with *response* (31, 3), by default that of sRGB in daylight.
    """

    def __init__(self, seed: int, size: int, response: Tensor | None = None) -> None:
        self._seed = seed
        self._size = size
        self.response = SceneSimulator(0).response if response is None else response

    def simulator(
        self, seed: int, held_out: bool = False, lesson: Curriculum = USUAL
    ) -> SceneSimulator:
        """A simulator that sees with this response."""
        simulator = SceneSimulator(seed, self._size, held_out, lesson)
        simulator.response = self.response
        return simulator

    def draw(self, index: int, count: int, lesson: Curriculum = USUAL) -> Draw:
        """Photos and cubes to train on, as `LessonSource.draw` gives them."""
        # Draws of one seed never meet those of the next.
        return self.simulator(self._seed * 10_000_000 + index, lesson=lesson).draw(count)

    def held_out(self) -> Draw:
        """Photos and cubes that are never trained on."""
        return self.simulator(self._seed, held_out=True).draw(HELD_OUT_SCENES)


class Cubes:
    """Squares of *size* pixels of real scenes, with simulated noise and JPEG.

    They are turned, mirrored and exposed at random. The bottom
    fifth of every scene is held out. All scenes are kept in memory.

    Raises
    ------
    CubeFileError
        If a scene is too small.
    """

    def __init__(self, scenes: Iterable[Scene], seed: int, size: int, response: Tensor) -> None:
        self.response = response
        self._seed = seed
        self._size = size
        self._trained: list[Tensor] = []
        self._held_out: list[Tensor] = []
        for scene in scenes:
            _, height, width = scene.cube.shape
            rows = height - max(size, round(_SHARE_HELD_OUT * height))
            if min(rows, width) < size:
                sides = " x ".join(map(str, scene.cube.shape[1:]))
                raise CubeFileError(
                    f"Expected {2 * size} x {size} pixels in {shown(scene.name)}, got {sides}."
                )
            self._trained.append(torch.from_numpy(scene.cube[:, :rows]))
            self._held_out.append(torch.from_numpy(scene.cube[:, rows:]))

    def __len__(self) -> int:
        return len(self._trained)

    def draw(self, index: int, count: int, lesson: Curriculum = USUAL) -> Draw:
        """Photos and cubes to train on, as `LessonSource.draw` gives them."""
        return self._photographed(self._trained, [self._seed, index], count, lesson)

    def held_out(self) -> Draw:
        """Photos and cubes that are never trained on."""
        return self._photographed(self._held_out, [self._seed], HELD_OUT_SCENES, USUAL)

    def _photographed(
        self, cubes: Sequence[Tensor], seed: Sequence[int], count: int, lesson: Curriculum
    ) -> Draw:
        """Squares of the *cubes*, and photos of them; larger cubes are drawn more often."""
        random = np.random.default_rng(seed)
        areas = np.array([cube[0].numel() for cube in cubes])
        chosen = random.choice(len(cubes), count, p=areas / areas.sum())
        squares = torch.stack([self._square(cubes[place], random) for place in chosen])
        simulator = SceneSimulator(int(random.integers(2**31)), self._size, lesson=lesson)
        simulator.response = self.response
        return simulator.photograph(squares), squares

    def _square(self, cube: Tensor, random: np.random.Generator) -> Tensor:
        """A square (31, size, size) of the *cube*."""
        size = self._size
        _, height, width = cube.shape
        top = int(random.integers(height - size + 1))
        left = int(random.integers(width - size + 1))
        square = cube[:, top : top + size, left : left + size]
        square = torch.rot90(square, int(random.integers(4)), (1, 2))
        if random.integers(2):
            square = square.flip(2)
        return (square * 2 ** random.uniform(-1, 0.5)).clamp(0, _BRIGHTEST)


def drawn(
    source: LessonSource, orders: Sequence[Order], processes: int = 0
) -> Generator[Draw, None, None]:
    """The draws of *source* for the *orders*, drawn here or ahead in some *processes*.

    A draw depends on its order alone, so a fit sees the same photos whichever process draws them.
    """
    if not processes:
        yield from (source.draw(*order) for order in orders)
        return
    # Processes are spawned: a fork of a program with threads of torch may hang.
    ahead: Any = DataLoader(
        cast("Dataset[Order]", orders),
        batch_size=None,
        collate_fn=partial(_draw, source),
        num_workers=processes,
        prefetch_factor=_AHEAD,
        multiprocessing_context="spawn",
    )
    yield from ahead


def _draw(source: LessonSource, order: Order) -> Draw:
    return source.draw(*order)


def response_tensor(camera: str, light: str) -> Tensor:
    """`napari_mst.photo.cameras.camera_response` as a tensor, (31, 3)."""
    return torch.from_numpy(cameras.camera_response(camera, light)).float()
