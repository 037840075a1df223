"""Parts that several benchmarks share: their arguments, times, and photos by the sensor of a camera."""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from napari_mst.photo.cameras import unbalanced_response
from napari_mst.photo.photo import Photo
from napari_mst.training.scenes import read_scenes

Array = NDArray[Any]
FULL = 65535


def parser(text: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a benchmark."""
    return argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def cube_parser(text: str | None, rounds: int) -> argparse.ArgumentParser:
    """The same, with the size of a cube, how often to measure, and where to write files."""
    own = parser(text)
    own.add_argument("--pixels", default="4000x3000")
    own.add_argument("--bands", type=int, default=31)
    own.add_argument("--rounds", type=int, default=rounds)
    own.add_argument("--folder", help="where to write (default: the system's temporary folder)")
    return own


def sides(text: str) -> tuple[int, int]:
    """Two numbers from "4000x3000"."""
    first, second = map(int, text.split("x"))
    return first, second


def seconds(
    call: Callable[[], object],
    rounds: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """The time of each of some *rounds* of *call*."""
    times = []
    for _ in range(rounds):
        begun = clock()
        call()
        times.append(clock() - begun)
    return times


def coarse_scenes(folder: Path, step: int = 4) -> list[Array]:
    """The reflectance (31, H, W) of all scenes in *folder*, each *step*-th pixel."""
    return [scene.cube[:, ::step, ::step].astype(float) for scene in read_scenes(folder)]


def sensor(cube: Array, camera: str, light: str, level: float = 1.0) -> Array:
    """The values (3, H, W) of a sensor, white at *level* in its brightest channel, not clipped."""
    response = unbalanced_response(camera, light)
    scale = level / response.sum(axis=0).max()
    return np.einsum("bhw,bc->chw", cube, response * scale, optimize=True)


def sensor_photo(values: Array) -> Photo:
    """The values (3, H, W) of a sensor as a linear photo of 16 bits."""
    codes = np.rint(values.clip(0, 1) * FULL).astype(np.uint16)
    return Photo.from_array(np.moveaxis(codes, 0, -1), encoding="linear", full_scale=float(FULL))


def scaled_spectra(network: Any, response: Array, balanced: Array, cube: Array) -> Array:
    """The spectra of *balanced* values (3, H, W), scaled once to those of *cube*.

    The pixelwise *network* is told the *response* (31, 3) of the camera in its light.
    """
    network.set_response(torch.from_numpy(response))
    with torch.inference_mode():
        values = torch.from_numpy(balanced.clip(0, 4).astype(np.float32))
        spectra = network(values[None])[0].numpy()
    bright = cube.min(axis=0) > 0.02
    return np.asarray(spectra * np.median(cube[:, bright] / spectra[:, bright].clip(1e-3)))
