"""Photos and cubes for a fit, simulated from the user's cubes for any camera.

Letters: N photos, B bands, H rows, W columns.
"""

from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from napari_mst.base.arrays import Singles
from napari_mst.base.errors import CubeFileError, shown
from napari_mst.cube.colour import srgb_response
from napari_mst.photo.cameras import GRID, Acquisition
from napari_mst.training.inputs import Input
from napari_mst.training.scenes import Scene

HELD_OUT_SCENES = 32
USUAL = 0.4
"""Share of held-out photos with noise, and of those with JPEG."""

# Of the rows of every cube, at the bottom.
_SHARE_HELD_OUT = 0.2
_BRIGHTEST = 1.2
_LEAST_NOISE, _MOST_NOISE = 2e-4, 5e-3
_WORST_JPEG, _BEST_JPEG = 40, 95
_AHEAD = 4  # draws that each process prepares: enough if a draw takes longer than a step

Draw = tuple[Tensor, Tensor]
"""Photos (N, 3, H, W) and their cubes (N, 31, H, W)."""

DrawRequest = tuple[int, int, float]
"""Arguments of `TrainingSource.draw`: index, count and progress."""


class TrainingSource(Protocol):
    """Provides linear photos (N, 3, H, W) and their cubes (N, 31, H, W), reproducibly by index."""

    response: Tensor
    """(31, 3) matrix from reflectance to camera values; white is (1, 1, 1)."""

    def draw(self, index: int, count: int, progress: float) -> Draw:
        """Return *count* photos and cubes to train on; *progress* is the share of the fit done."""

    def held_out(self) -> Draw:
        """Return photos and cubes that are never trained on, always the same."""


def degraded_at(progress: float) -> float:
    """Return the share of photos with noise, and of those with JPEG, which falls during the fit.

    *progress* is the completed share of the fit.
    """
    return 0.6 - 0.25 * progress


class Cubes:
    """Squares of *size* pixels from real scenes, with simulated noise and JPEG.

    Squares are rotated, mirrored and exposed at random, and photographed by the camera of
    *acquisition*, by default in sRGB. The bottom fifth of every scene is held out. All scenes stay
    in memory.

    Raises
    ------
    CubeFileError
        If a scene is too small.
    """

    def __init__(
        self, scenes: Iterable[Scene], seed: int, size: int, acquisition: Acquisition | None = None
    ) -> None:
        response = srgb_response(GRID) if acquisition is None else acquisition.response
        self.response = torch.from_numpy(response).float()
        self._acquisition = acquisition
        self._seed = seed
        self._size = size
        self._trained: list[Singles] = []
        self._held_out: list[Singles] = []
        for scene in scenes:
            _, height, width = scene.cube.shape
            rows = height - max(size, round(_SHARE_HELD_OUT * height))
            if min(rows, width) < size:
                sides = " x ".join(map(str, scene.cube.shape[1:]))
                raise CubeFileError(
                    f"Expected {2 * size} x {size} pixels in {shown(scene.name)}, got {sides}."
                )
            self._trained.append(scene.cube[:, :rows])
            self._held_out.append(scene.cube[:, rows:])

    def __len__(self) -> int:
        return len(self._trained)

    def draw(self, index: int, count: int, progress: float) -> Draw:
        """Return photos and cubes to train on, see `TrainingSource.draw`."""
        seed = [self._seed, index]
        return self._photographed(self._trained, seed, count, degraded_at(progress))

    def held_out(self) -> Draw:
        """Return photos and cubes that are never trained on."""
        return self._photographed(self._held_out, [self._seed], HELD_OUT_SCENES, USUAL)

    def _photographed(
        self, cubes: Sequence[Singles], seed: Sequence[int], count: int, degraded: float
    ) -> Draw:
        """Return photos of random squares of *cubes*, and the squares; larger cubes have more."""
        random = np.random.default_rng(seed)
        areas = np.array([cube[0].size for cube in cubes])
        chosen = random.choice(len(cubes), count, p=areas / areas.sum())
        squares = [self._square(cubes[place], random) for place in chosen]
        photos = [self._photo(square, degraded, random) for square in squares]
        return torch.from_numpy(np.stack(photos)), torch.from_numpy(np.stack(squares))

    def _square(self, cube: Singles, random: np.random.Generator) -> Singles:
        """Return a random square (31, size, size) of the *cube*."""
        size = self._size
        _, height, width = cube.shape
        top = random.integers(height - size + 1)
        left = random.integers(width - size + 1)
        square = cube[:, top : top + size, left : left + size]
        square = np.rot90(square, int(random.integers(4)), (1, 2))
        if random.integers(2):
            square = square[:, :, ::-1]
        return (square * np.float32(2 ** random.uniform(-1, 0.5))).clip(0, _BRIGHTEST)

    def _photo(self, square: Singles, degraded: float, random: np.random.Generator) -> Singles:
        """Return a photo (3, size, size) of *square* in linear light."""
        is_noisy, is_jpeg = random.random(2) < degraded
        # Log-uniform.
        noise = _LEAST_NOISE * (_MOST_NOISE / _LEAST_NOISE) ** random.random()
        quality = int(random.integers(_WORST_JPEG, _BEST_JPEG + 1))
        kind = Input(
            "training",
            noise=noise if is_noisy else 0.0,
            quality=quality if is_jpeg else None,
            acquisition=self._acquisition,
        )
        return kind.photo(square, str(random.integers(2**62))).rows(linear=True)


def drawn(
    source: TrainingSource, requests: Sequence[DrawRequest], processes: int = 0
) -> Generator[Draw, None, None]:
    """Yield the draws of *source* for *requests*, drawn here or in advance by some *processes*.

    A draw depends only on its request, so a fit sees the same photos whichever process draws them.
    """
    if not processes:
        yield from (source.draw(*request) for request in requests)
        return
    # Processes are spawned, since forking a program with torch threads may hang.
    ahead: Any = DataLoader(
        cast("Dataset[DrawRequest]", requests),
        batch_size=None,
        collate_fn=partial(_draw, source),
        num_workers=processes,
        prefetch_factor=_AHEAD,
        multiprocessing_context="spawn",
    )
    yield from ahead


def _draw(source: TrainingSource, request: DrawRequest) -> Draw:
    return source.draw(*request)
