"""The worth of the check of reference spectra: one is exchanged, too bright or misplaced, or all are.

    python -m lab.benchmarks.wrong_spectra SCENES [KIND ...]

SCENES is a folder of reflectance cubes; KIND a kind of photo, as clean or 'JPEG 75'. For 1, 4 and
24 reference spectra it prints MRAE before, with what the check leaves, and with all as they are;
how often something is said; and the share of right spectra that are left out or moved.
"""

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from lab.reference_spectra import Taken, taken_of
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.reference_spectrum import ReferenceSpectrum
from napari_mst.references.refinement_record import reference_spectra
from napari_mst.references.refining import refine
from napari_mst.training.inputs import INPUTS
from napari_mst.training.scenes import read_scenes
from napari_mst.training.scoring import RENDERED

COUNTS = (1, 4, 24)
DRAWS = 2
OFF = 2  # pixels


def brighter(spot: ReferenceSpectrum) -> ReferenceSpectrum:
    """*spot*, measured 30 % too bright."""
    return replace(spot, spectrum=Spectrum(GRID, np.minimum(spot.values * 1.3, 1.9)))


def faults(
    taken: Taken, count: int, seed: int
) -> Iterator[tuple[str, list[ReferenceSpectrum], int]]:
    """Lists of reference spectra by their fault, and how many of each are wrong."""
    *right, other = taken.references(taken.random_spots(count + 1, seed))
    first, *rest = right
    yield "right", right, 0
    yield "one exchanged", [replace(first, spectrum=other.spectrum), *rest], 1
    yield "one 30 % too bright", [brighter(first), *rest], 1
    yield "all 30 % too bright", [brighter(spot) for spot in right], count
    rows, columns = (size - 1 for size in taken.photo.shape)
    moved = [
        replace(spot, row=min(spot.row + OFF, rows), column=min(spot.column + OFF, columns))
        for spot in right
    ]
    yield f"all {OFF} pixels off", moved, count


def refined(taken: Taken, references: list[ReferenceSpectrum]) -> tuple[SpectralCube, bool]:
    """The refined cube, and whether anything was said about the spectra."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cube = refine(taken.cube, taken.photo, references)
    return cube, bool(caught)


def main(folder: Path, names: list[str]) -> None:
    """Print the table of each kind of photo."""
    model = Reconstructor(load_model("pixelwise-srgb"), "cpu", calibrated_by=RENDERED)
    for kind in [kind for kind in INPUTS if kind.name in (names or ["clean"])]:
        rows: dict[tuple[int, str], list[tuple[float, ...]]] = {}
        scenes = []
        for scene in read_scenes(folder):
            scenes.append(scene.name)
            taken = taken_of(scene, kind, model)
            before, _ = taken.errors(taken.cube.data)
            for count in COUNTS:
                for seed in range(DRAWS):
                    for fault, references, wrong in faults(taken, count, seed):
                        cube, is_said = refined(taken, references)
                        places = {spot.place for spot in reference_spectra(cube.provenance)}
                        lost = sum(spot.place not in places for spot in references[min(wrong, 1) :])
                        trusting, _ = refined(
                            taken, [replace(k, is_certain=True) for k in references]
                        )
                        errors = (taken.errors(each.data)[0] for each in (cube, trusting))
                        share = lost / max(len(references) - min(wrong, 1), 1)
                        rows.setdefault((count, fault), []).append(
                            (before, *errors, is_said, share)
                        )
        print(f"{kind.name}, {DRAWS} draws of each of {', '.join(scenes)}")
        print(f"{'':32}{'before':>9}{'checked':>9}{'as it is':>9}{'said':>7}{'lost':>7}")
        for (count, fault), values in rows.items():
            means = np.mean(values, axis=0)
            numbers = "".join(f"{mean:9.4f}" for mean in means[:3])
            shares = "".join(f"{mean:7.2f}" for mean in means[3:])
            print(f"{f'{count} known, {fault}':32}{numbers}{shares}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
