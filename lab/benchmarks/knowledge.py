"""What a person knows of an ordinary photo, and what it is worth: from nothing to a chart.

    python -m lab.benchmarks.knowledge CAVE_FOLDER [--charts FOLDER] [--model NAME ...]

Photos are those by a camera of `lab.benchmarks.ordinary`, two of each scene, with a ColorChecker
Classic laid into a corner, which does not count. With --chart-exposure they are exposed for the
chart, as somebody who lays one in would do: half as much until none of its patches clips. Known is
nothing; its grey of reflectance 0.19; all its six greys; four spectra of the scene; or the chart.
Patches either correct the photo or are reference spectra of its cube. The two real photos of
--charts judge on the 18 patches that are no greys, but for the chart, which they need themselves.
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
from lab.benchmarks.ordinary import CHART_PHOTOS, SEED, Tally, chart_patches
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
from napari_mst.photo.cameras import GRID
from napari_mst.training.scenes import read_scenes

PHOTOS = 2
SIDE = 20  # pixels of a patch; 10 at half size
GREYS = range(18, 24)
ONE = 21
SPECTRA = 4
WINDOW = 5
CHART = np.asarray(CHARTS["classic"].reflectances)

Way = Callable[["Known", Reconstructor], SpectralCube]


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


def with_greys(references: Known, reconstructor: Reconstructor, patches: list[int]) -> SpectralCube:
    """The cube of the photo that these greys corrected."""
    scale = calibrate_greys(references.photo, references.greys(patches))
    return reconstructor.reconstruct(scale.corrected(references.photo))


def with_patches(
    references: Known, reconstructor: Reconstructor, patches: list[int]
) -> SpectralCube:
    """The cube that these patches corrected, as reference spectra."""
    spots = [
        ReferenceSpectrum(round(row), round(column), Spectrum(GRID, CHART[patch]), WINDOW)
        for patch, (row, column) in zip(patches, references.centres[patches], strict=True)
    ]
    return refine(reconstructor.reconstruct(references.photo), references.photo, spots)


def with_spectra(references: Known, reconstructor: Reconstructor) -> SpectralCube:
    """The cube that the spectra of the spots corrected."""
    return refine(reconstructor.reconstruct(references.photo), references.photo, references.spots)


def with_chart(references: Known, reconstructor: Reconstructor) -> SpectralCube:
    """The cube that the whole chart corrected."""
    corners = [tuple(references.centres[patch].tolist()) for patch in (0, 5, 23, 18)]
    first, second, third, fourth = corners
    calibration = calibrate(references.photo, Chart((first, second, third, fourth)))
    photo = calibration.corrected(references.photo)
    return refine(reconstructor.reconstruct(photo), photo, calibration)


WAYS: dict[str, Way] = {
    "nothing": lambda references, reconstructor: reconstructor.reconstruct(references.photo),
    "one grey": lambda references, reconstructor: with_greys(references, reconstructor, [ONE]),
    "six greys": lambda references, reconstructor: with_greys(references, reconstructor, [*GREYS]),
    "four spectra": with_spectra,
    "chart": with_chart,
    "one grey, as a reference": lambda known, model: with_patches(known, model, [ONE]),
    "six greys, as references": lambda known, model: with_patches(known, model, [*GREYS]),
    "chart, as references": lambda known, model: with_patches(known, model, [*range(24)]),
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


def known_photos(folder: Path, for_chart: bool) -> Iterator[tuple[Known, Array]]:
    """Photos with what is known of them, and what they show; 0 where the chart lies."""
    for scene in read_scenes(folder):
        random = torch.Generator().manual_seed(SEED + zlib.crc32(scene.name.encode()))
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
            spots = spots_of(truth, SEED + index)
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


def sides_of(cube: SpectralCube) -> tuple[Array, Array] | None:
    """The lower and the upper spectra of the 90 % intervals."""
    lower, upper = prediction_intervals(cube)
    return np.asarray(lower.data), np.asarray(upper.data)


def judge(way: Way, reconstructor: Reconstructor, photos: list[tuple[Known, Array]]) -> Tally:
    """The errors on simulated photos."""
    tally = Tally()
    for references, truth in photos:
        cube = way(references, reconstructor)
        tally.add(np.asarray(cube.data), truth, sides_of(cube))
    return tally


def judge_charts(way: Way, reconstructor: Reconstructor, folder: Path) -> Iterator[Tally]:
    """The errors on the coloured patches of each real photo."""
    for chart in CHART_PHOTOS:
        photo = Photo.read(folder / chart.file)
        centres = np.array(chart.centres(), float)
        spectra = np.asarray(CHARTS["classic"].reflectances)
        spots = [
            ReferenceSpectrum(*map(round, centres[patch]), Spectrum(GRID, spectra[patch]), 9)
            for patch in (2, 8, 13, 14)
        ]
        cube = way(Known(photo, centres, spots), reconstructor)
        sides = sides_of(cube)
        tally = Tally()
        lower, upper = (chart_patches(side, chart)[:, :18] for side in sides or ())
        found = chart_patches(np.asarray(cube.data), chart)[:, :18]
        tally.add(found, spectra.T[:, :18, None], (lower, upper))
        yield tally


def main() -> None:
    """Print the table."""
    parser = common.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--charts", type=Path)
    parser.add_argument("--model", action="append")
    parser.add_argument("--chart-exposure", action="store_true")
    parser.add_argument("--known", action="append", choices=[*WAYS], help="only these rows")
    options = parser.parse_args()
    print("| model | known | MRAE | after one gain | SAM | held, least band | charts |")
    print("|---|---|---|---|---|---|---|")
    photos = [*known_photos(options.folder, options.chart_exposure)]
    for name in options.model or ("mstpp-srgb",):
        reconstructor = Reconstructor(load_model(name), "cpu")
        for title in options.known or WAYS:
            way = WAYS[title]
            if title == "chart" and not options.chart_exposure:
                continue  # refused, where a patch is clipped
            tally = judge(way, reconstructor, photos)
            real = ""
            if options.charts and not title.startswith(("four spectra", "chart")):
                tallies = judge_charts(way, reconstructor, options.charts)
                real = "; ".join(str(each).rstrip(" |").replace(" |", ",") for each in tallies)
            print(f"| `{name}` | {title} | {tally} {real} |", flush=True)


if __name__ == "__main__":
    main()
