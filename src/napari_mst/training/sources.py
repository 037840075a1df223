"""Where a fit gets its photos and cubes from: simulated scenes, or the user's own cubes; and through which camera.

Letters: N photos, B bands, H rows, W columns.
"""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.colour import illuminant, srgb_response
from napari_mst.errors import CubeFileError
from napari_mst.formats.text import shown
from napari_mst.training.baselines import GRID
from napari_mst.training.scenes import Scene
from napari_mst.training.simulate import USUAL, Lesson, SceneSimulator
from napari_mst.training.spectra import load_cameras

HELD_OUT_SCENES = 32
SRGB, DAYLIGHT, EQUAL = "sRGB", "D65", "E"
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

    def simulator(self, seed: int, held_out: bool = False, lesson: Lesson = USUAL) -> SceneSimulator:
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
                raise CubeFileError(f"Expected {2 * size} x {size} pixels in {shown(scene.name)}, got {found}.")
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
        square = torch.rot90(cube[:, top : top + size, left : left + size], int(random.integers(4)), (1, 2))
        square = square.flip(2) if random.integers(2) else square
        return (square * 2 ** random.uniform(-1, 0.5)).clamp(0, _BRIGHTEST)


def camera_response(camera: str, light: str) -> Tensor:
    """(31, 3) of a *camera* under a *light*, white-balanced: reflectance 1 becomes (1, 1, 1).

    A camera is "sRGB" (the CIE observer and the sRGB matrix), a name of `load_cameras`, or a CSV file of wavelength,
    red, green, blue; a light is "D65", "A", "E" (equal energy), or a CSV file of wavelength, power.

    Raises
    ------
    CubeFileError
        If there is no such camera or light, or its file is none.
    """
    power = _light(light)
    if camera == SRGB:
        weighted = srgb_response(GRID) / illuminant(DAYLIGHT, GRID)[:, None] * power[:, None]
    else:
        weighted = _sensitivities(camera) * power[:, None]
    return torch.from_numpy(weighted / weighted.sum(axis=0)).float()


def _light(name: str) -> NDArray[np.float64]:
    if name == EQUAL:
        return np.ones(len(GRID))
    if name in (DAYLIGHT, "A"):
        return illuminant(name, GRID)
    return _table(name, 1, f"{DAYLIGHT}, A, {EQUAL}")[:, 0]


def _sensitivities(name: str) -> NDArray[np.float64]:
    wavelengths, cameras = load_cameras()
    if name in cameras:
        columns = cameras[name].T.astype(np.float64)
        return np.stack([np.interp(GRID, wavelengths, column) for column in columns], axis=1)
    return _table(name, 3, f"{SRGB}, {', '.join(cameras)}")


def _table(name: str, columns: int, known: str) -> NDArray[np.float64]:
    """Columns of a CSV file at `GRID`; its lines that are not all numbers are left out."""
    path = Path(name)
    if not path.is_file():
        raise CubeFileError(f"Expected a CSV file or one of {known:.200}, got {shown(name)}. Check the spelling.")
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in map(_numbers, csv.reader(file)) if row]
    if len(rows) < 2 or any(len(row) != columns + 1 for row in rows):
        raise CubeFileError(f"Expected rows of {columns + 1} numbers, nm first, in {shown(path.name)}, got others.")
    table = np.array(sorted(rows))
    if table[0, 0] > GRID[0] or table[-1, 0] < GRID[-1] or (table[:, 1:].sum(axis=0) <= 0).any():
        raise CubeFileError(f"Expected positive values from 400 to 700 nm in {shown(path.name)}, got others.")
    return np.stack([np.interp(GRID, table[:, 0], column) for column in table[:, 1:].T], axis=1)


def _numbers(row: Sequence[str]) -> list[float]:
    try:
        return [float(text) for text in row]
    except ValueError:
        return []
