"""The worth of a corrected white balance: sRGB photos of real scenes in light that is not D65.

    python -m lab.benchmarks.white_balance CAVE_FOLDER

Each scene of CAVE_FOLDER is photographed by a camera that takes every light
for D65. Errors are MRAE of the cubes of `mstpp-srgb`.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.benchmarks import common
from lab.benchmarks.charts import encoded_photo
from napari_mst import Photo, Reconstructor, load_model
from napari_mst.base.arrays import Array
from napari_mst.calibration.balancing import WhiteBalance, white_balance
from napari_mst.cube.colour import illuminant, srgb_response
from napari_mst.cube.metrics import mrae
from napari_mst.photo.cameras import GRID, light_power

LIGHTS = (
    *("D65", "daylight 5500 K", "D50", "Planck 4000 K", "Planck 3300 K", "A"),
    *("daylight 9000 K", "F2", "F11"),
)


class Outcome(NamedTuple):
    """Errors as the photo is, by its estimated white, and by its true one; and what was told."""

    as_it_is: float
    estimated: float
    true: float
    degrees: float
    is_far: bool


def true_white(light: str) -> WhiteBalance:
    """White in the photos of `encoded_photo`."""
    power = light_power(light) / illuminant("D65", GRID)
    red, green, blue = (srgb_response(GRID) * power[:, None]).sum(axis=0).tolist()
    return WhiteBalance((red, green, blue))


def outcome(reconstructor: Reconstructor, cube: Array, light: str) -> Outcome:
    """The outcome for one scene in one *light*."""
    photo = encoded_photo(cube, light, 1.0)

    def error(seen: Photo) -> float:
        return mrae(reconstructor.reconstruct(seen).data, cube)

    told = white_balance(photo)
    return Outcome(
        as_it_is=error(photo),
        estimated=error(told.corrected(photo)),
        true=error(true_white(light).corrected(photo)),
        degrees=told.degrees,
        is_far=told.is_far,
    )


def main(folder: Path) -> None:
    """Print the mean errors of each light, then what the threshold is worth."""
    reconstructor = Reconstructor(load_model("mstpp-srgb"), "cpu")
    cubes = common.coarse_scenes(folder)
    outcomes = []
    for light in LIGHTS:
        found = [outcome(reconstructor, cube, light) for cube in cubes]
        means = Outcome(*np.mean(found, axis=0).tolist())
        print(
            f"{light:16}: as it is {means.as_it_is:.3f}, estimated {means.estimated:.3f}, "
            f"true {means.true:.3f}; told {means.degrees:.0f} degrees off D65, "
            f"far {means.is_far:.2f}",
            flush=True,
        )
        outcomes += found
    table = np.array(outcomes)
    is_far = table[:, 4] > 0
    far = table[is_far]
    better = float((far[:, 1] < far[:, 0]).mean())
    in_daylight = int(is_far[: len(cubes)].sum())
    print(f"{len(far)} of {len(table)} whites are told to be far from D65: {better:.0%} better")
    print(f"their error as it is {far[:, 0].mean():.3f}, corrected {far[:, 1].mean():.3f}")
    print(f"{in_daylight} of {len(cubes)} photos in D65 are among them")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
