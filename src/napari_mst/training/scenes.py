"""Real scenes: reflectance cubes in any supported format, resampled to 400, 410, ..., 700 nm.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.base.arrays import DType, Indices, Mask, Singles, doubles, singles
from napari_mst.base.errors import CubeFileError, shown
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import averaging
from napari_mst.formats import find_format
from napari_mst.formats.read_options import AS_THE_FILE_SAYS, ReadOptions
from napari_mst.photo.cameras import GRID

_STEP = 10.0
# If the brightest hundredth of a scene reflects more than this, its scale was misjudged.
_TOO_BRIGHT = 2.0


@dataclass(frozen=True, eq=False)
class Scene:
    """A reflectance cube (31, H, W) float32 at `GRID`.

    *valid* (H, W) is False where the reflectance is unknown and the cube 0.
    """

    name: str
    cube: Singles
    valid: Mask
    notes: tuple[str, ...] = ()


def scene_files(folder: Path) -> list[Path]:
    """Return the cubes in *folder*, sorted by name, or *folder* itself if it is a cube.

    Raises
    ------
    CubeFileError
        If there is no cube.
    """
    if find_format(folder):
        return [folder]
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    files = []
    for path in paths:
        form = find_format(path)
        # Both files of an ENVI raster are recognised, but only its header counts.
        is_data_of_envi = form is not None and form.name == "envi" and path.suffix.lower() != ".hdr"
        if form is not None and not is_data_of_envi:
            files.append(path)
    if not files:
        name = shown(folder.name or folder)
        raise CubeFileError(f"Expected cube files in {name}, got none. Choose another folder.")
    return files


def read_scenes(
    folder: Path, full_scale: float | None = None, reading: ReadOptions = AS_THE_FILE_SAYS
) -> Iterator[Scene]:
    """Yield every cube in *folder* as a scene, sorted by name.

    Parameters
    ----------
    full_scale
        Stored value of reflectance 1. By default 1 for floats, and the largest value of the type
        for unsigned integers, with a note.
    reading
        Answers to questions that the files leave open.

    Raises
    ------
    CubeFileError
        If there is no cube; or if a cube is damaged, does not cover 400-700 nm, or is not
        reflectance.
    """
    for path in scene_files(folder):
        yield scene_of(reading.read(path), path.stem, full_scale)


def scene_of(cube: SpectralCube, name: str, full_scale: float | None = None) -> Scene:
    """Convert *cube* to a scene: see `read_scenes`."""
    notes: tuple[str, ...] = ()
    if not full_scale:
        full_scale, notes = _guessed_scale(cube.data.dtype, name)
    bands = _bands_between(cube, name)
    data = singles(cube.data[bands]) / np.float32(full_scale)
    valid = np.isfinite(data).all(axis=0)
    data[:, ~valid] = 0
    brightest = np.percentile(data[:, valid], 99) if valid.any() else 0.0
    if brightest > _TOO_BRIGHT:
        raise CubeFileError(
            f"Expected reflectance of about 0 to 1 in {shown(name)}, got {brightest:.3g}. "
            "Give --full-scale."
        )
    return Scene(name, resampled(data, cube.wavelengths[bands]), valid, notes)


def resampled(data: Singles, wavelengths: ArrayLike) -> Singles:
    """Resample *data* (B, H, W) to `GRID`; data on the grid stay unchanged.

    Other bands are interpolated or averaged, see `averaging`.
    """
    at = doubles(wavelengths)
    if np.array_equal(at, GRID):
        return np.ascontiguousarray(data, dtype=np.float32)
    weights = averaging(GRID, at).astype(np.float32)
    return np.einsum("gb,bhw->ghw", weights, data, optimize=True)


def _bands_between(cube: SpectralCube, name: str) -> Indices:
    """Return the indices of the bands that the grid needs, by wavelength."""
    low, high = GRID[0], GRID[-1]
    order = np.argsort(cube.wavelengths, kind="stable")
    at = cube.wavelengths[order]
    if not cube.has_wavelengths or at[0] > low + _STEP or at[-1] < high - _STEP:
        span = f"{at[0]:g} to {at[-1]:g} {cube.unit}"
        raise CubeFileError(
            f"Expected bands from {low:g} to {high:g} nm in {shown(name)}, got {span}. "
            "Leave it out."
        )
    return order[(at >= low - 2 * _STEP) & (at <= high + 2 * _STEP)]


def _guessed_scale(dtype: DType, name: str) -> tuple[float, tuple[str, ...]]:
    """Return the stored value of reflectance 1, and notes about it."""
    if dtype.kind == "f":
        return 1.0, ()
    if dtype.kind != "u":
        raise CubeFileError(
            f"Expected floats or unsigned integers in {shown(name)}, got {dtype}. "
            "Give --full-scale."
        )
    most = float(np.iinfo(dtype).max)
    return most, (f"{shown(name)}: {most:g} was taken as reflectance 1.",)
