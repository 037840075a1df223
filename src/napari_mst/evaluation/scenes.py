"""Real scenes: a folder of reflectance cubes of any format that we read, brought to 400, 410, ..., 700 nm.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeFileError
from napari_mst.evaluation.baselines import GRID
from napari_mst.formats import find_format, read_cube
from napari_mst.messages import shown

_STEP = 10.0
_TOO_BRIGHT = 2.0


@dataclass(frozen=True, eq=False)
class Scene:
    """A reflectance cube (31, H, W) float32 at `GRID`; *valid* (H, W) is False where it is unknown, and the cube 0."""

    name: str
    cube: NDArray[np.float32]
    valid: NDArray[np.bool_]
    notes: tuple[str, ...] = ()


def scene_files(folder: Path) -> list[Path]:
    """The cubes in *folder* by name, or *folder* itself where it is one.

    Raises
    ------
    CubeFileError
        If there is none.
    """
    if find_format(folder):
        return [folder]
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    cubes = [(path, find_format(path)) for path in paths]
    found = [
        path
        for path, form in cubes
        if form and (form.name != "envi" or path.suffix.lower() == ".hdr")
    ]
    if not found:
        raise CubeFileError(
            f"Expected cube files in {shown(folder.name or folder)}, got none. Choose another folder."
        )
    return found


def read_scenes(folder: Path, full_scale: float | None = None) -> Iterator[Scene]:
    """Every cube in *folder*, by name; *full_scale* is the stored value that stands for reflectance 1.

    Without it that is 1 for floats and the largest number of the type for unsigned integers, and a note says so.

    Raises
    ------
    CubeFileError
        If there is no cube, or one is damaged, does not reach from 400 to 700 nm, or is no reflectance.
    """
    for path in scene_files(folder):
        yield scene_of(read_cube(path), path.stem, full_scale)


def scene_of(cube: SpectralCube, name: str, full_scale: float | None = None) -> Scene:
    """*cube* as a scene: see `read_scenes`."""
    scale, notes = (full_scale, ()) if full_scale else _guessed_scale(cube.data.dtype, name)
    bands = _bands_between(cube, name)
    data = np.asarray(cube.data[bands], dtype=np.float32) / np.float32(scale)
    valid = np.isfinite(data).all(axis=0)
    data[:, ~valid] = 0
    if valid.any() and np.percentile(data[:, valid], 99) > _TOO_BRIGHT:
        brightest = np.percentile(data[:, valid], 99)
        raise CubeFileError(
            f"Expected reflectance of about 0 to 1 in {shown(name)}, got {brightest:.3g}. Give --full-scale."
        )
    return Scene(name, resampled(data, cube.wavelengths[bands]), valid, notes)


def resampled(data: NDArray[np.float32], wavelengths: ArrayLike) -> NDArray[np.float32]:
    """*data* (B, H, W) at `GRID`: between its bands where they are coarse, their weighted mean where they are fine.

    A band of the result weighs those within 10 nm, less the further they are; on the grid itself nothing changes.
    """
    at = np.asarray(wavelengths, dtype=np.float64)
    if np.array_equal(at, GRID):
        return np.ascontiguousarray(data, dtype=np.float32)
    between = np.stack([np.interp(GRID, at, unit) for unit in np.eye(len(at))], axis=1)
    near = (1 - np.abs(GRID[:, None] - at) / _STEP).clip(0)
    is_fine = (near > 0).sum(axis=1, keepdims=True) > 2
    weights = np.where(is_fine, near / near.sum(axis=1, keepdims=True).clip(1e-9), between)
    return np.einsum("gb,bhw->ghw", weights.astype(np.float32), data, optimize=True)


def _bands_between(cube: SpectralCube, name: str) -> NDArray[np.intp]:
    """Indices, by wavelength, of the bands that the grid needs."""
    low, high = GRID[0], GRID[-1]
    order = np.argsort(cube.wavelengths, kind="stable")
    at = cube.wavelengths[order]
    if not cube.has_wavelengths or at[0] > low + _STEP or at[-1] < high - _STEP:
        span = f"{at[0]:g} to {at[-1]:g} {cube.unit}"
        raise CubeFileError(
            f"Expected bands from {low:g} to {high:g} nm in {shown(name)}, got {span}. Leave it out."
        )
    return np.asarray(order[(at >= low - 2 * _STEP) & (at <= high + 2 * _STEP)])


def _guessed_scale(dtype: np.dtype[Any], name: str) -> tuple[float, tuple[str, ...]]:
    if dtype.kind == "f":
        return 1.0, ()
    if dtype.kind != "u":
        raise CubeFileError(
            f"Expected floats or unsigned integers in {shown(name)}, got {dtype}. Give --full-scale."
        )
    most = float(np.iinfo(dtype).max)
    return most, (f"{shown(name)}: {most:g} was taken as reflectance 1.",)
