"""Errors on ordinary photos, of which nobody says the light, the exposure or the tone curve.

    python -m lab.benchmarks.ordinary CAVE_FOLDER [--charts FOLDER] [--spectra FOLDER]
    python -m lab.benchmarks.ordinary --charts FOLDER --spread

Rows: photos of real scenes by kind (see `lab.ordinary_photos`; cameras and lights that no training
photo has), always the same; two real photos of ColorChecker charts, of which the chart is not used
(24 patches, with the places in the README of their folder); and the photos of the first trial, with
the cameras and lights in the files `cameras31.npz` and `illuminants31.npz` of --spectra. Columns:
MRAE, MRAE after the one best gain of each photo, SAM, and the share of the values inside the 90 %
intervals, all bands and the least one; then the same for the shape, after the one best gain. A
weights file may stand for the name of a model.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lab.benchmarks import common
from lab.benchmarks.common import Array
from lab.ordinary_photos import KINDS, LUMINANCE, draw_processing, photograph, photograph_scene
from napari_mst import Photo, Reconstructor, load_model, prediction_intervals
from napari_mst.calibration.chart import CHARTS
from napari_mst.cube.colour import linear_to_srgb, srgb_response, srgb_to_linear
from napari_mst.cube.metrics import DARK, spectral_angles
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.options import Denoise
from napari_mst.training.scenes import read_scenes

Sides = tuple[Array, Array]
"""Lower and upper spectra of intervals."""

DRAWS = {"camera": 6, "rendered": 1, "mixed light": 2, "coloured light": 2}
"""Photos of each scene, by kind."""

SEED = 4711
REACH = 9  # pixels to each side of the centre of a patch


class ChartPhoto(NamedTuple):
    """A photo of a ColorChecker Classic: the corners of its patches by rows and columns.

    *first* is the centre of dark skin, *along* the step to the next patch of a row of the chart,
    and *down* that to the next row; each is a row and a column of the photo.
    """

    file: str
    first: tuple[float, float]
    along: tuple[float, float]
    down: tuple[float, float]

    def centres(self) -> list[tuple[int, int]]:
        """Row and column of the centres of the 24 patches, row by row of the chart."""
        places = np.array(self.first) + [
            column * np.array(self.along) + row * np.array(self.down)
            for row in range(4)
            for column in range(6)
        ]
        return [(round(row), round(column)) for row, column in places]


CHART_PHOTOS = (
    ChartPhoto("colorchecker-classic-mini.jpg", (380, 69), (-57.8, 0), (0, 57)),
    ChartPhoto("classic.png", (58, 225), (54.4, 0), (0, -55.7)),
)


@dataclass
class Tally:
    """Adds up the errors of photos, each counting alike."""

    rows: list[tuple[float, float, float]] = field(default_factory=list)
    held: list[Array] = field(default_factory=list)
    shape_held: list[Array] = field(default_factory=list)

    def add(
        self,
        estimate: Array,
        truth: Array,
        sides: Sides | None,
        shape: Sides | None = None,
    ) -> None:
        """Count one photo: spectra (31, H, W), and the lower and the upper side around them.

        *shape* are the sides for the spectra after the one best gain of the photo.
        """
        lit = (truth > DARK).all(axis=0)
        found, true = estimate[:, lit].clip(1e-3), truth[:, lit]
        gain = np.median(true / found)
        errors = [float(np.abs(factor * found / true - 1).mean()) for factor in (1.0, gain)]
        self.rows.append((*errors, float(np.nanmean(spectral_angles(estimate, truth)[lit]))))
        if sides is not None:
            lower, upper = (side[:, lit] for side in sides)
            self.held.append(((true >= lower) & (true <= upper)).mean(axis=1))
        if shape is not None:
            lower, upper = (gain * side[:, lit] for side in shape)
            self.shape_held.append(((true >= lower) & (true <= upper)).mean(axis=1))

    def __str__(self) -> str:
        mrae, scaled, angle = np.mean(self.rows, axis=0)
        text = f"{mrae:.3f} | {scaled:.3f} | {angle:.1f}"
        if not self.held:
            return f"{text} | |"
        shares = [np.mean(held, axis=0) for held in (self.held, self.shape_held) if held]
        parts = [f"{by_band.mean():.2f}, {by_band.min():.2f}" for by_band in shares]
        return f"{text} | {'; '.join(parts)} |"


Estimate = tuple[Array, Sides | None, Sides | None]
"""Spectra, the sides of their intervals, and the sides for their shape."""

Estimator = Callable[[Photo], Estimate]


def estimator(name: str, denoise: Denoise = "auto") -> Estimator:
    """The cubes of a model, as the product makes them, with the sides of its intervals."""
    reconstructor = Reconstructor(load_model(name), "cpu", denoise=denoise)

    def estimate(photo: Photo) -> Estimate:
        cube = reconstructor.reconstruct(photo)
        if not cube.provenance.error_band:
            return np.asarray(cube.data), None, None
        sides, shape = (
            (np.asarray(lower.data), np.asarray(upper.data))
            for lower, upper in (
                prediction_intervals(cube),
                prediction_intervals(cube, shape_only=True),
            )
        )
        return np.asarray(cube.data), sides, shape

    return estimate


def bench_photos(folder: Path, kind: str) -> Iterator[tuple[Photo, Array]]:
    """The photos of one *kind* of all scenes, and what they show (31, H, W)."""
    for scene in read_scenes(folder):
        random = torch.Generator().manual_seed(SEED + zlib.crc32(f"{scene.name} {kind}".encode()))
        processing = draw_processing(DRAWS[kind], random, held_out=True, kind=kind)
        for index in range(len(processing)):
            codes, truth = photograph_scene(scene.cube, processing.of(index), random)
            yield Photo.from_array(np.moveaxis(codes, 0, -1)), truth


def judge(estimate: Estimator, photos: Iterator[tuple[Photo, Array]]) -> Tally:
    """The errors of all *photos*."""
    tally = Tally()
    for photo, truth in photos:
        spectra, sides, shape = estimate(photo)
        tally.add(spectra, truth, sides, shape)
    return tally


def chart_patches(planes: Array, chart: ChartPhoto) -> Array:
    """The medians (C, 24, 1) of *planes* (C, H, W) on the patches."""
    squares = [
        planes[:, row - REACH : row + REACH + 1, column - REACH : column + REACH + 1]
        for row, column in chart.centres()
    ]
    return np.stack([np.median(square, axis=(1, 2)) for square in squares], axis=1)[..., None]


def judge_chart(estimate: Estimator, folder: Path, chart: ChartPhoto) -> Tally:
    """The errors of the patches of one real photo."""
    spectra, *bands = estimate(Photo.read(folder / chart.file))
    patches: list[Sides] = [
        (chart_patches(lower, chart), chart_patches(upper, chart))
        for lower, upper in filter(None, bands)
    ]
    tally = Tally()
    truth = np.asarray(CHARTS["classic"].reflectances).T[:, :, None]
    tally.add(chart_patches(spectra, chart), truth, *(patches or [None]))
    return tally


class FirstTrial:
    """The photos by which the first trial of a network for ordinary photos was judged.

    Six photos of 6,000 pixels of each scene: exact matrix, no noise, no JPEG, one curve. They are
    kept as they were, so that its numbers stay comparable.
    """

    def __init__(self, spectra: Path) -> None:
        cameras, lights = (
            np.load(spectra / f"{name}31.npz") for name in ("cameras", "illuminants")
        )
        names = [name for name in cameras.files if name.startswith("r2a")]
        left_out = {"wavelength", "iset_daylightSpectra", "iset_blueLEDFlood", "iset_ledSixSpectra"}
        left_out |= {"iset_SixLEDs", "iset_LED385nm", "iset_LED405nm", "iset_LuxeonLEDSpectra"}
        others = [row for name in lights.files if name not in left_out for row in lights[name]]
        powers = np.stack([*lights["iset_daylightSpectra"][::27], *others])
        self._cameras = torch.from_numpy(np.stack([cameras[name] for name in names])[3::4]).float()
        power = torch.from_numpy(powers).float()
        self._lights = (power / power.mean(1, keepdim=True))[3::4]
        stored = np.load(spectra / "reflectance31.npz")
        tables = [stored[name] for name in stored.files if name != "wavelength"]
        self._spectra = torch.from_numpy(np.concatenate(tables)).float().clamp(0, 1)[::7]
        self._response = torch.from_numpy(srgb_response(GRID)).float()

    def photos(self, folder: Path) -> Iterator[tuple[Photo, Array]]:
        """The photos and what they show (31, 60, 100)."""
        random = torch.Generator().manual_seed(99)
        for scene in read_scenes(folder):
            pixels = torch.from_numpy(scene.cube.reshape(31, -1).T.copy())
            for _ in range(6):
                chosen = pixels[torch.randperm(len(pixels), generator=random)[:6000]]
                codes = torch.round(self._photograph(chosen, random) * 255).to(torch.uint8)
                truth = chosen.T.reshape(31, 60, 100).numpy()
                yield Photo.from_array(codes.numpy().reshape(60, 100, 3)), truth

    def _photograph(self, pixels: Tensor, random: torch.Generator) -> Tensor:
        """Encoded values (P, 3) of *pixels* (P, 31). The order of the draws must stay."""

        def normal(count: int = 1) -> Tensor:
            return torch.randn(count, generator=random)

        camera = self._cameras[torch.randint(len(self._cameras), (1,), generator=random)][0]
        light = self._lights[torch.randint(len(self._lights), (1,), generator=random)][0]
        sensitivity = camera * light[:, None]
        balanced = sensitivity / sensitivity.sum(0)
        wanted = self._spectra @ self._response
        matrix = torch.linalg.lstsq(self._spectra @ balanced, wanted).solution
        error = torch.exp(torch.cat([0.10 * normal(), 0.03 * normal(), -0.10 * normal()]))
        linear = (pixels @ balanced * error @ matrix).clamp_min(0)
        top = torch.quantile(linear @ LUMINANCE, 0.98).clamp_min(0.02)
        linear = linear * ((0.75 * (0.35 * normal()).exp()).clamp(0.2, 1.3) / top)
        saturation = (1.1 + 0.12 * normal()).clamp(0.8, 1.5)
        grey = (linear @ LUMINANCE)[:, None]
        linear = (grey + saturation * (linear - grey)).clamp(0, 1)
        encoded = torch.from_numpy(linear_to_srgb(linear.numpy()))
        strength = (0.5 + 0.35 * normal()).clamp(-0.3, 1.4)
        encoded = encoded + strength * (encoded**2 * (3 - 2 * encoded) - encoded) * 0.6
        return encoded.clamp(1e-4, 1) ** (0.1 * normal()).exp()


def show_spread(folder: Path) -> None:
    """Compare the greys of the two real photos with those of simulated ones, in stops."""
    reflectances = np.asarray(CHARTS["classic"].reflectances)
    surroundings = np.repeat([[0.05], [0.3], [0.8]], [6, 8, 4], axis=0) * np.ones(31)
    scene = torch.from_numpy(np.concatenate([reflectances, surroundings])).float()
    processing = draw_processing(1500, torch.Generator().manual_seed(SEED), kind="camera")
    simulated = photograph(scene.expand(1500, -1, -1), processing)[:, :24].numpy()
    grey = reflectances[18:].mean(axis=1)

    def stops(encoded: Array) -> Array:
        light = np.asarray(srgb_to_linear(encoded[:, 18:])).clip(1e-4)
        gains = np.log2(light.mean(axis=2) / grey)
        red, green, blue = np.moveaxis(np.log2(light[:, 1:4]).mean(axis=1), -1, 0)
        relative = [gains[:, step] - gains[:, 3] for step in (0, 1, 4, 5)]
        return np.stack([gains[:, 3], *relative, red - green, blue - green], axis=1)

    drawn = stops(simulated)
    real = []
    for chart in CHART_PHOTOS:
        planes = Photo.read(folder / chart.file).rows(linear=False)
        real.append(stops(chart_patches(planes, chart)[..., 0].T[None])[0])
    names = ("mid grey", "white - mid", "N8 - mid", "N3.5 - mid", "black - mid", "red", "blue")
    for index, name in enumerate(names):
        low, middle, high = np.percentile(drawn[:, index], (5, 50, 95))
        found = "  ".join(f"{each[index]:+.2f}" for each in real)
        print(f"{name:12} simulated {low:+.2f} {middle:+.2f} {high:+.2f}   real {found}")


def main() -> None:
    """Print the table."""
    parser = common.parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="reflectance cubes of real scenes")
    parser.add_argument("--charts", type=Path)
    parser.add_argument("--spectra", type=Path)
    parser.add_argument("--model", action="append")
    parser.add_argument("--spread", action="store_true")
    options = parser.parse_args()
    if options.spread:
        show_spread(options.charts)
        return
    print(
        "| model | photos | MRAE | after one gain | SAM | held, least band |\n|---|---|---|---|---|---|"
    )
    for name in options.model or ("mstpp-srgb", "pixelwise-srgb"):
        estimate = estimator(name)
        for kind in KINDS if options.folder else ():
            tally = judge(estimate, bench_photos(options.folder, kind))
            print(f"| `{name}` | {kind} | {tally}", flush=True)
        for chart in CHART_PHOTOS if options.charts else ():
            print(f"| | {chart.file} | {judge_chart(estimate, options.charts, chart)}", flush=True)
        if options.spectra and options.folder:
            tally = judge(estimate, FirstTrial(options.spectra).photos(options.folder))
            print(f"| | first trial | {tally}", flush=True)


if __name__ == "__main__":
    main()
