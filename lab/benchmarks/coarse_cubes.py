"""The gain of coarse cubes on estimates of real scenes, in register and not.

`python -m lab.benchmarks.coarse_cubes FOLDER`

Each scene in FOLDER is photographed, reconstructed with `pixelwise-srgb`, and refined to a cube of
few blocks. `python -m lab known FOLDER` prints what reference spectra bring.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lab.benchmarks import common
from lab.reference_spectra import taken_of
from napari_mst.base.arrays import Doubles, Floats
from napari_mst.cube import SpectralCube
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.coarse_cube import refine_with_cube
from napari_mst.training.inputs import INPUTS
from napari_mst.training.scenes import read_scenes

COARSE = (8, 16, 32)
SHIFTS = ((0, 0), (2, -2))
MOST_SHIFT = 4


def block_means(data: Floats, count: int) -> Floats:
    """Means (B, count, count) of blocks that divide the image."""
    bands, rows, columns = data.shape
    blocks = data.reshape(bands, count, rows // count, count, columns // count)
    return np.asarray(blocks.mean(axis=(2, 4)))


def moved(data: Floats, shift: tuple[int, int]) -> Floats:
    """*data* (B, H, W) as a camera sees it that is off by *shift* pixels."""
    _, rows, columns = data.shape
    around = ((0, 0), (MOST_SHIFT, MOST_SHIFT), (MOST_SHIFT, MOST_SHIFT))
    padded = np.pad(data, around, mode="edge")
    top, left = (MOST_SHIFT + by for by in shift)
    return padded[:, top : top + rows, left : left + columns]


def show(title: str, errors: Sequence[tuple[float, float]], before: Doubles) -> None:
    """One line: MRAE and core MRAE in the mean, the worst scene, and the worst of all changes."""
    values = np.array(errors)
    ratio = values[:, 0] / before[:, 0]
    mean, core = values.mean(axis=0)
    print(
        f"{title:44}{mean:8.4f}{core:8.4f}   worst scene {values[:, 0].max():.3f}   "
        f"after/before at most {ratio.max():.2f}",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = common.parser(__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore")  # real and false food have one colour and two spectra
    model = Reconstructor(load_model("pixelwise-srgb"), "cpu")
    all_taken = [taken_of(scene, INPUTS[0], model) for scene in read_scenes(folder)]
    print(f"{len(all_taken)} scenes{'MRAE':>43}{'core':>8}")
    before = np.array([taken.errors(taken.cube.data) for taken in all_taken])
    show("nothing known", [tuple(row) for row in before], before)
    for count in COARSE:
        for shift in SHIFTS:
            errors = []
            for taken in all_taken:
                coarse = block_means(moved(taken.scene.cube, shift), count)
                better = refine_with_cube(taken.cube, taken.photo, SpectralCube(coarse, GRID))
                errors.append(taken.errors(better.data))
            show(f"coarse {count} x {count}, moved by {shift[0]}, {shift[1]}", errors, before)


if __name__ == "__main__":
    main()
