"""What a person knows of an ordinary photo, and what it is worth: from nothing to a chart.

    python -m lab.benchmarks.knowledge CAVE_FOLDER [--charts FOLDER] [--as-metered] [--seed NUMBER]

Photos are those by a camera of `lab.benchmarks.ordinary`, two of each scene, with a ColorChecker
Classic laid into a corner, which does not count. They are exposed for the chart, as somebody who
lays one in would do: half as much until none of its patches clips. With --as-metered they are not,
and there is no row of the chart, which would be refused. Known is nothing; its grey of reflectance
0.19; its six greys; its white patch alone; four spectra of the scene; or the chart. The product takes
them as reference spectra of the cube of `mstpp-photo`, and the chart also as a correction of the
photo for `mstpp-srgb`. The two real photos of --charts judge on the 18 patches that are no greys,
but for the chart, which they need themselves.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from lab.benchmarks import common
from lab.benchmarks.common import Array
from lab.benchmarks.ordinary import CHART_PHOTOS, SEED, Sides, Tally, chart_patches
from lab.ordinary_photos import draw_processing, photograph_scene
from napari_mst import (
    Chart,
    Photo,
    Reconstructor,
    ReferenceSpectrum,
    Spectrum,
    calibrate,
    load_model,
    prediction_intervals,
    refine,
)
from napari_mst.calibration.chart import CHARTS
from napari_mst.calibration.grey_scale import calibrate_greys
from napari_mst.calibration.light import GreyPatch
from napari_mst.cube.cube import SpectralCube
from napari_mst.cube.metrics import DARK
from napari_mst.models.cards import PHOTOGRAPHED, RENDERED
from napari_mst.photo.cameras import GRID
from napari_mst.training.scenes import read_scenes

PHOTOS = 2
SIDE = 20  # pixels of a patch; 10 at half size
GREYS = range(18, 24)
ONE = 21
SPECTRA = 4

Models = dict[str, Reconstructor]
Way = Callable[["Known", Models], SpectralCube]


class Known(NamedTuple):
    """A photo, and what is known of it.

    *centres* (24, 2) are those of the chart, and *spots* pixels and their spectra.
    """

    photo: Photo
    centres: Array
    spots: list[ReferenceSpectrum]

    def greys(self, patches: list[int]) -> list[GreyPatch]:
        """The grey patches of these numbers."""
        reflectances = np.asarray(CHARTS["classic"].reflectances).mean(axis=1)
        return [
            GreyPatch((round(row), round(column)), float(reflectances[patch]))
            for patch, (row, column) in zip(patches, self.centres[patches], strict=True)
        ]


def with_greys(known: Known, models: Models, patches: list[int]) -> SpectralCube:
    """The cube that these greys corrected."""
    scale = calibrate_greys(known.photo, known.greys(patches))
    return refine(models[PHOTOGRAPHED].reconstruct(known.photo), known.photo, scale)


def with_spectra(known: Known, models: Models) -> SpectralCube:
    """The cube that the spectra of the spots corrected."""
    return refine(models[PHOTOGRAPHED].reconstruct(known.photo), known.photo, known.spots)


def with_chart(known: Known, models: Models) -> SpectralCube:
    """The cube that the whole chart corrected."""
    corners = [tuple(known.centres[patch].tolist()) for patch in (0, 5, 23, 18)]
    first, second, third, fourth = corners
    calibration = calibrate(known.photo, Chart((first, second, third, fourth)))
    photo = calibration.corrected(known.photo)
    return refine(models[RENDERED].reconstruct(photo), photo, calibration)


WAYS: dict[str, Way] = {
    "nothing": lambda known, models: models[PHOTOGRAPHED].reconstruct(known.photo),
    "one grey": lambda known, models: with_greys(known, models, [ONE]),
    "six greys": lambda known, models: with_greys(known, models, [*GREYS]),
    "four spectra": with_spectra,
    "chart": with_chart,
    "white patch": lambda known, models: with_greys(known, models, [GREYS[0]]),
}


def with_chart_laid_in(cube: Array) -> tuple[Array, Array]:
    """*cube* (31, H, W) with a chart in its corner, on black; and the centres of its patches."""
    laid = cube.copy()
    laid[:, : 4 * SIDE + 4, : 6 * SIDE + 4] = 0.03
    centres = []
    for patch, spectrum in enumerate(np.asarray(CHARTS["classic"].reflectances)):
        top, left = 4 + SIDE * (patch // 6), 4 + SIDE * (patch % 6)
        laid[:, top : top + SIDE - 4, left : left + SIDE - 4] = spectrum[:, None, None]
        centres.append((top + SIDE / 2 - 2.5, left + SIDE / 2 - 2.5))
    return laid, np.array(centres)


def known_photos(folder: Path, for_chart: bool, seed: int) -> Iterator[tuple[Known, Array]]:
    """Photos with what is known of them, and what they show; 0 where the chart lies."""
    for scene in read_scenes(folder):
        random = torch.Generator().manual_seed(seed + zlib.crc32(scene.name.encode()))
        processing = draw_processing(PHOTOS, random, held_out=True, kind="camera")
        laid, centres = with_chart_laid_in(scene.cube)
        for index in range(PHOTOS):
            one = processing.of(index)
            codes, truth = photograph_scene(laid, one, random)
            step = laid.shape[1] // truth.shape[1]
            while for_chart and is_clipped(codes, (centres + 0.5) / step - 0.5):
                one = replace(one, aim=one.aim / 2)
                codes, truth = photograph_scene(laid, one, random)
            truth = truth.copy()
            truth[:, : (4 * SIDE + 4) // step + 1, : (6 * SIDE + 4) // step + 1] = 0
            photo = Photo.from_array(np.moveaxis(codes, 0, -1))
            spots = spots_of(truth, seed + index)
            yield Known(photo, (centres + 0.5) / step - 0.5, spots), truth


def is_clipped(codes: Array, centres: Array) -> bool:
    """True if a patch of the chart is clipped."""
    return any(
        (codes[:, row - 2 : row + 3, column - 2 : column + 3] >= 250).any()
        for row, column in np.rint(centres).astype(int)
    )


def spots_of(truth: Array, seed: int) -> list[ReferenceSpectrum]:
    """Four random pixels that are bright enough, and their spectra."""
    rows, columns = np.nonzero((truth > 2 * DARK).all(axis=0))
    picked = np.random.default_rng(seed).choice(len(rows), SPECTRA, replace=False)
    return [
        ReferenceSpectrum(
            int(row), int(column), Spectrum(GRID, truth[:, row, column].astype(float))
        )
        for row, column in zip(rows[picked], columns[picked], strict=True)
    ]


def sides_of(cube: SpectralCube, *, shape_only: bool) -> Sides:
    """The lower and the upper spectra of the 90 % intervals."""
    lower, upper = prediction_intervals(cube, shape_only=shape_only)
    return np.asarray(lower.data), np.asarray(upper.data)


def judge(way: Way, models: Models, photos: list[tuple[Known, Array]]) -> Tally:
    """The errors on simulated photos."""
    tally = Tally()
    for known, truth in photos:
        cube = way(known, models)
        both = [sides_of(cube, shape_only=shape) for shape in (False, True)]
        tally.add(np.asarray(cube.data), truth, *both)
    return tally


def judge_charts(way: Way, models: Models, folder: Path) -> Iterator[Tally]:
    """The errors on the coloured patches of each real photo."""
    for chart in CHART_PHOTOS:
        photo = Photo.read(folder / chart.file)
        centres = np.array(chart.centres(), float)
        spectra = np.asarray(CHARTS["classic"].reflectances)
        cube = way(Known(photo, centres, []), models)
        tally = Tally()
        (lower, upper), (low, high) = (
            [chart_patches(side, chart)[:, :18] for side in sides_of(cube, shape_only=shape)]
            for shape in (False, True)
        )
        found = chart_patches(np.asarray(cube.data), chart)[:, :18]
        tally.add(found, spectra.T[:, :18, None], (lower, upper), (low, high))
        yield tally


def main() -> None:
    """Print the table."""
    parser = common.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--charts", type=Path)
    parser.add_argument("--as-metered", action="store_true")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    print("| known | MRAE | after one gain | SAM | held, least band; of the shape | charts |")
    print("|---|---|---|---|---|---|")
    photos = [*known_photos(options.folder, not options.as_metered, options.seed)]
    names = (PHOTOGRAPHED, RENDERED)
    models = {name: Reconstructor(load_model(name), "cpu") for name in names}
    for title, way in WAYS.items():
        if title == "chart" and options.as_metered:
            continue
        tally = judge(way, models, photos)
        real = ""
        if options.charts and title not in ("four spectra", "chart"):
            tallies = judge_charts(way, models, options.charts)
            real = "; ".join(str(each).rstrip(" |").replace(" |", ",") for each in tallies)
        print(f"| {title} | {tally} {real} |", flush=True)


if __name__ == "__main__":
    main()
