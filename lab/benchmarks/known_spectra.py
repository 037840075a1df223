"""The gain of known spectra and coarse cubes on estimates of real scenes.

`python -m lab.benchmarks.known_spectra FOLDER [--prototype FOLDER] [--part spectra|coarse|photos]`

Each scene in FOLDER is photographed, reconstructed with `pixelwise-srgb`, and adapted. Spots are 3
x 3 pixels, random among those whose truth is bright, or suggested from photo and estimate alone.
With the folder of the prototype `known_spectra.py`, its figures for the very same spots stand
beside.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation.companion import adapt_to_cube
from napari_mst.colour import srgb_response
from napari_mst.cube import SpectralCube
from napari_mst.evaluation.inputs import INPUTS
from napari_mst.evaluation.known_spectra import Spots, Taken, taken_of, window_means
from napari_mst.evaluation.scenes import Scene, read_scenes
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.consistency.correction import correct_colours
from napari_mst.reconstruction.reconstructor import Reconstructor

COUNTS = (1, 4, 8, 24, 96)
SUGGESTED = (1, 4, 8, 24)
NOISY = (1, 4, 24)
COARSE = (8, 16, 32)
SHIFTS = ((0, 0), (2, -2))
MOST_SHIFT = 4
KINDS = {kind.name: kind for kind in INPUTS}
PHOTOS = ("noise 1e-3", "JPEG 75")


Method = Callable[[Taken, Spots], NDArray[np.floating]]


def ours(taken: Taken, spots: Spots) -> NDArray[np.floating]:
    """The adapted numbers."""
    return np.asarray(taken.adapted(spots).data)


class Prototype:
    """The prototype `known_spectra.py` in a folder, with the colours moved back by today's code."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        self._module: Any = import_module("known_spectra")

    def __call__(self, taken: Taken, spots: Spots) -> NDArray[np.floating]:
        """The cube (31, H, W) that it makes of known spectra at *spots*."""
        codes = window_means(taken.photo.pixels, spots)
        values = [window_means(cube, spots) for cube in (taken.cube.data, taken.scene.cube)]
        return self._corrected(taken, codes, spots, values)

    def coarse(self, taken: Taken, coarse: NDArray[np.floating]) -> NDArray[np.floating]:
        """What it makes of a coarse cube (31, n, n), whose blocks divide the photo."""
        count = coarse.shape[1]
        centres = np.stack(np.divmod(np.arange(count**2), count), axis=1) + 0.5
        codes = block_means(taken.photo.pixels.astype(np.float64), count).reshape(3, -1).T
        estimate = block_means(taken.cube.data, count)
        values = [cube.reshape(len(GRID), -1).T for cube in (estimate, coarse)]
        return self._corrected(taken, codes, centres * taken.photo.shape[0] / count, values)

    def _corrected(
        self,
        taken: Taken,
        codes: NDArray[np.floating],
        places: NDArray[Any],
        values: Sequence[NDArray[np.floating]],
    ) -> NDArray[np.floating]:
        longer = max(taken.photo.shape)
        spots = self._module.features(codes, places / longer)
        pixels = taken.photo.pixels.reshape(3, -1).T.astype(np.float64)
        everywhere = np.indices(taken.photo.shape).reshape(2, -1).T / longer
        at = self._module.features(pixels, everywhere)
        flat = taken.cube.data.reshape(len(GRID), -1).T.astype(np.float64)
        better, _ = self._module.corrected(flat, at, spots, *values)
        data = np.ascontiguousarray(better.T.reshape(taken.cube.shape), dtype=np.float32)
        correct_colours(data, taken.photo, srgb_response(GRID))
        return data


def block_means(data: NDArray[np.floating], count: int) -> NDArray[np.floating]:
    """Means (B, count, count) of blocks that divide the image."""
    bands, rows, columns = data.shape
    blocks = data.reshape(bands, count, rows // count, count, columns // count)
    return np.asarray(blocks.mean(axis=(2, 4)))


def moved(data: NDArray[np.floating], shift: tuple[int, int]) -> NDArray[np.floating]:
    """*data* (B, H, W) as a camera sees it that is off by *shift* pixels."""
    _, rows, columns = data.shape
    around = ((0, 0), (MOST_SHIFT, MOST_SHIFT), (MOST_SHIFT, MOST_SHIFT))
    padded = np.pad(data, around, mode="edge")
    top, left = (MOST_SHIFT + by for by in shift)
    return padded[:, top : top + rows, left : left + columns]


def show(title: str, errors: Sequence[tuple[float, float]], before: NDArray[np.float64]) -> None:
    """One line: MRAE and core MRAE in the mean, the worst scene, and the worst of all changes."""
    values = np.array(errors)
    ratio = values[:, 0] / before[:, 0]
    mean, core = values.mean(axis=0)
    print(
        f"{title:44}{mean:8.4f}{core:8.4f}   worst scene {values[:, 0].max():.3f}   "
        f"after/before at most {ratio.max():.2f}",
        flush=True,
    )


def show_bands(title: str, cubes: Sequence[SpectralCube], all_taken: Sequence[Taken]) -> None:
    """Share of core values in the band, and its width over the estimate."""
    bands = [taken.band(cube) for cube, taken in zip(cubes, all_taken, strict=True)]
    judged = [band for band in bands if band is not None]
    by_band = np.mean([band.covered for band in judged], axis=0)
    width = np.mean([band.width for band in judged])
    print(f"{title:44}covers {by_band.mean():.3f}, width {width:.3f}; by band:")
    print("   " + " ".join(f"{share:.2f}" for share in by_band), flush=True)


def spectra_table(all_taken: Sequence[Taken], prototype: Prototype | None) -> None:
    """Random and suggested spots on clean photos, and bands."""
    before = np.array([taken.errors(taken.cube.data) for taken in all_taken])
    show("nothing known", [tuple(row) for row in before], before)
    show_bands("bands, nothing known", [taken.cube for taken in all_taken], all_taken)
    for count in COUNTS:
        cubes = [taken.adapted(taken.random_spots(count)) for taken in all_taken]
        pairs = list(zip(all_taken, cubes, strict=True))
        show(f"{count} random", [taken.errors(cube.data) for taken, cube in pairs], before)
        show_bands(f"bands, {count} random", cubes, all_taken)
        if prototype is not None:
            spots = [(taken, taken.random_spots(count)) for taken in all_taken]
            errors = [taken.errors(prototype(taken, at)) for taken, at in spots]
            show(f"{count} random, prototype", errors, before)
    for count in SUGGESTED:
        errors = [taken.errors(ours(taken, taken.suggested_spots(count))) for taken in all_taken]
        show(f"{count} suggested", errors, before)


def coarse_table(all_taken: Sequence[Taken], prototype: Prototype | None) -> None:
    """Coarse cubes, in register and not."""
    before = np.array([taken.errors(taken.cube.data) for taken in all_taken])
    for count in COARSE:
        for shift in SHIFTS:
            errors, theirs = [], []
            for taken in all_taken:
                coarse = block_means(moved(taken.scene.cube, shift), count)
                better = adapt_to_cube(taken.cube, taken.photo, SpectralCube(coarse, GRID))
                errors.append(taken.errors(better.data))
                if prototype is not None:
                    theirs.append(taken.errors(prototype.coarse(taken, coarse)))
            title = f"coarse {count} x {count}, moved by {shift[0]}, {shift[1]}"
            show(title, errors, before)
            if theirs:
                show(f"{title}, prototype", theirs, before)


def photos_table(
    scenes: Sequence[Scene], model: Reconstructor, prototype: Prototype | None
) -> None:
    """Noisy and compressed photos."""
    methods: dict[str, Method] = {"": ours}
    if prototype is not None:
        methods[", prototype"] = prototype
    for name in PHOTOS:
        all_taken = [taken_of(scene, KINDS[name], model) for scene in scenes]
        before = np.array([taken.errors(taken.cube.data) for taken in all_taken])
        show(f"{name}, nothing known", [tuple(row) for row in before], before)
        for count in NOISY:
            for label, method in methods.items():
                spots = [(taken, taken.random_spots(count)) for taken in all_taken]
                errors = [taken.errors(method(taken, at)) for taken, at in spots]
                show(f"{name}, {count} random{label}", errors, before)
            cubes = [taken.adapted(taken.random_spots(count)) for taken in all_taken]
            show_bands(f"{name}, bands, {count} random", cubes, all_taken)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prototype", type=Path)
    parser.add_argument("--part", action="append", choices=("spectra", "coarse", "photos"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # real and false food have one colour and two spectra
    parts = options.part or ("spectra", "coarse", "photos")
    prototype = Prototype(options.prototype) if options.prototype else None
    scenes = list(read_scenes(options.folder))
    model = Reconstructor(load_model("pixelwise-srgb"), "cpu")
    print(f"{len(scenes)} scenes{'MRAE':>43}{'core':>8}")
    all_taken = [taken_of(scene, KINDS["clean"], model) for scene in scenes]
    if "spectra" in parts:
        spectra_table(all_taken, prototype)
    if "coarse" in parts:
        coarse_table(all_taken, prototype)
    if "photos" in parts:
        photos_table(scenes, model, prototype)


if __name__ == "__main__":
    main()
