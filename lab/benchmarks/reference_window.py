"""Reference spectra in the window: the time from a mark to the picture, and what they bring on scenes.

`python -m lab.benchmarks.reference_window [--pixels 1000x1000 4000x3000] [--scenes FOLDER]
[--references 4 24]`

A pick becomes known through the state of the spectra dock, as a click does it. "look" is the time
until the picture and the curve of the pick have moved, "whole" until the exact cube is there, both
after the first mark, which also reads the photo. With a folder of scenes, each is photographed and
reconstructed with `pixelwise-srgb`; spots that the dock suggests become known from the true cube.
MRAE before and after is printed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from napari.components import ViewerModel
from tests.plugin.spectra.later import Later

from lab.benchmarks import common
from napari_mst.arrays import Codes, Singles
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.cube.colour import linear_to_srgb, render_srgb
from napari_mst.cube.metrics import mrae
from napari_mst.plugin.jobs.job import Job, run_now
from napari_mst.plugin.spectra.bench import Bench
from napari_mst.plugin.spectra.refiner import ADAPTED
from napari_mst.plugin.viewer.layers import cube_layer
from napari_mst.spectra.library import colour_checker

WAVELENGTHS = np.arange(400.0, 701.0, 10.0)


class Steps(Later):
    """Does only the newest work, and notes when the coarse cube of it is *shown*, in seconds.

    `looked` is the time then, `worked` that of the processor.
    """

    def __init__(self, shown: Callable[[], object]) -> None:
        super().__init__()
        self.shown = shown
        self.looked = self.worked = 0.0

    def do(self) -> None:
        """Do the newest work; older ones were dropped."""
        newest = self.waiting[-1]
        self.waiting = [replace(newest, on_preview=partial(self._look, newest))]
        super().do()

    def _look(self, job: Job, cube: SpectralCube) -> None:
        job.on_preview(cube)
        self.shown()
        self.looked, self.worked = time.perf_counter(), time.process_time()


def main() -> None:
    """Print both tables."""
    parser = common.parser(__doc__)
    parser.add_argument("--pixels", nargs="*", default=["1000x1000"], help="columns x rows")
    parser.add_argument("--references", nargs="*", type=int, default=[4, 24])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scenes", type=Path)
    options = parser.parse_args()
    for size in options.pixels:
        columns, rows = common.sides(size)
        for count in options.references:
            tell_times((rows, columns), count, options.rounds)
    if options.scenes is not None:
        tell_errors(options.scenes, options.references)


def tell_times(shape: tuple[int, int], count: int, rounds: int) -> None:
    """Time the change of one reference spectrum, beside *count* - 1 others."""
    steps = Steps(lambda: look_at(bench))
    truth = chart_like(shape)
    viewer, bench = opened(truth, photo_of(truth), estimate_of(truth), steps)
    places = np.random.default_rng(1).integers((2, 2), np.array(shape) - 2, (count, 2))
    for row, column in places.tolist():
        bench.pin((550.0, row, column))
    bench.finish()
    bench.references.mark(bench.entries, viewer.layers["truth"])
    bench.finish()
    begun = time.perf_counter()
    steps.do()
    first = steps.looked - begun
    looks, wholes, processor = [], [], []
    for _ in range(rounds):
        begun, before = time.perf_counter(), time.process_time()
        change_one(bench, steps)
        wholes.append(time.perf_counter() - begun)
        looks.append(steps.looked - begun)
        processor.append(steps.worked - before)
    show = viewer.layers["estimate" + ADAPTED]
    picture = seconds(lambda: np.asarray(show.data[15]))
    print(
        f"{shape[1]} x {shape[0]}, {count} known: first look {first:.2f} s, look "
        f"{np.median(looks):.2f} s ({np.median(processor):.2f} s of all cores), whole "
        f"{np.median(wholes):.2f} s, one band {picture:.3f} s"
    )


def change_one(bench: Bench, steps: Steps) -> None:
    """Make one pick known as something else, and have all of the cube follow."""
    flat = bench.entries[0].first
    bench.references.mark(bench.entries[:1], flat.with_values(flat.values.clip(0.01, 1) ** 0.95))
    bench.finish()
    steps.do()


def look_at(bench: Bench) -> None:
    """Draw the curves and the picture of the refined cube."""
    bench.finish()
    _ = np.asarray(bench.viewer.layers["estimate" + ADAPTED].data[15])


def tell_errors(folder: Path, counts: Sequence[int]) -> None:
    """MRAE before and after, with known spots that the dock suggests."""
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor
    from napari_mst.training.scenes import read_scenes

    reconstructor = Reconstructor(load_model("pixelwise-srgb"), "cpu")
    for scene in read_scenes(folder):
        truth = np.asarray(scene.cube, dtype=np.float32)
        photo = photo_of(truth)
        before = reconstructor.reconstruct(photo)
        found = [f"{scene.name:20} before {mrae(before.data, truth):.4f}"]
        for count in counts:
            viewer, bench = opened(truth, photo, before, run_now)
            bench.references.suggest(count)
            bench.finish()
            bench.references.mark(bench.chosen, viewer.layers["truth"])
            bench.finish()
            after = viewer.layers["estimate" + ADAPTED].data
            found.append(f"{count} known {mrae(after, truth):.4f}")
        print(", ".join(found), flush=True)


def opened(
    truth: Singles, photo: Codes, estimate: SpectralCube, start: Any
) -> tuple[ViewerModel, Bench]:
    """A viewer with the truth, the photo and the estimate, and the state of a dock."""
    viewer = ViewerModel()
    for cube, name in ((SpectralCube(truth, WAVELENGTHS), "truth"), (estimate, "estimate")):
        data, arguments, _ = cube_layer(cube, name)
        viewer.add_image(data, **arguments).visible = name == "estimate"
    viewer.add_image(photo, rgb=True, name="photo")
    viewer.layers.selection.active = viewer.layers["estimate"]
    bench = Bench(viewer, start_job=start)
    bench.attach()
    bench.finish()
    return viewer, bench


def chart_like(shape: tuple[int, int]) -> Singles:
    """24 materials in random squares, under light that falls off; (31, H, W)."""
    spectra = np.stack([one.values for one in colour_checker()]).astype(np.float32)
    rows, columns = np.indices(shape)
    squares = np.random.default_rng(0).integers(0, 24, (40, 40))
    materials = squares[rows * 40 // shape[0], columns * 40 // shape[1]]
    light = (1 - 0.2 * rows / shape[0]).astype(np.float32)
    data = np.empty((31, *shape), dtype=np.float32)
    for band, plane in enumerate(data):
        plane[:] = spectra[:, band][materials] * light
    return data


def photo_of(truth: Singles) -> Codes:
    """The photo (H, W, 3) of *truth*."""
    linear = np.clip(render_srgb(truth, WAVELENGTHS), 0, 1)
    return np.moveaxis(np.rint(255 * linear_to_srgb(linear)).astype(np.uint8), 0, -1)


def estimate_of(truth: Singles) -> SpectralCube:
    """The truth, off by a smooth curve."""
    off = (1 + 0.05 * np.sin(WAVELENGTHS / 35)).astype(np.float32)
    past = Provenance(model="fake", correction="colours corrected", source="photo")
    return SpectralCube(truth * off[:, None, None], WAVELENGTHS, provenance=past)


def seconds(work: Callable[[], Any]) -> float:
    """The time that *work* takes."""
    return common.seconds(work)[0]


if __name__ == "__main__":
    main()
