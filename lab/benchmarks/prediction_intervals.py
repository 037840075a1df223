"""Coverage and width of the 90 % prediction intervals.

`python -m lab.benchmarks.prediction_intervals FOLDER [--charts FOLDER] [--model NAME] [--simulated
N]`

FOLDER holds reflectance cubes of real scenes. Each is photographed, and so are simulated scenes of
spectra that no model has seen, which calibrated nothing. *Before* is the band of one factor for all
wavelengths, without doubts and without the error of an instrument, in the same run. Photos of
charts by real cameras, with the places of their patches as in the README of that folder, show what
bands hold where nothing calibrates them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from lab.benchmarks import common
from lab.simulated import SceneSimulator
from napari_mst.analysis.library import colour_checker
from napari_mst.base.arrays import Floats, Mask
from napari_mst.cube.metrics import core_pixels, mrae
from napari_mst.models import MODELS, load_model
from napari_mst.models.cards import CAMERA
from napari_mst.photo.cameras import GRID, Acquisition
from napari_mst.reconstruction.model_intervals import half_widths, margins, photo_interval
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.training.inputs import INPUTS, Input, camera_inputs
from napari_mst.training.scenes import Scene, read_scenes
from napari_mst.training.scoring import RENDERED

ONE_FACTOR = {"mstpp-srgb": 1.89, "pixelwise-srgb": 2.365, "mstpp-camera": 1.983}
"""The factors of the cards when there was one for all bands."""

KINDS = {kind.name: kind for kind in INPUTS}
PHOTOS = ("clean", "noise 1e-3", "JPEG 75", "JPEG 50")
OTHERS = ("balance +500 K", "balance -500 K", "another camera")
CAMERA_PHOTOS = [
    kind
    for kind in camera_inputs(Acquisition("Nikon_D5100", "D50"))
    if kind.name in ("clean", "noise 1e-3")
]
DIMMEST = 0.01
STRIDE = 3  # of the pixels that are counted
SEED = 77  # calibration has another
REACH = 9  # pixels to each side of the centre of a patch

Side = Floats


@dataclass(frozen=True)
class Chart:
    """A photo of a ColorChecker: centres of its patches along the photo's columns and rows."""

    file: str
    x: tuple[int, ...]
    y: tuple[int, ...]
    is_turned_left: bool

    def patch(self, column: int, row: int) -> int:
        """The place in `colour_checker` of the patch at these places of `x` and `y`.

        Both charts lie on their side, so that a column of the photo is a row of the chart.
        """
        return (5 - row) * 4 + column if self.is_turned_left else row * 4 + 3 - column


CHARTS = (
    Chart(
        "colorchecker-classic-mini.jpg", (69, 126, 183, 240), (91, 148, 206, 264, 321, 380), True
    ),
    Chart("classic.png", (58, 115, 172, 225), (58, 115, 170, 226, 282, 330), False),
)


def held(truth: Side, lower: Side, upper: Side) -> Mask:
    """True where *truth* lies in the band."""
    return np.asarray((truth >= lower) & (truth <= upper))


def before(estimate: Side, name: str) -> tuple[Side, Side]:
    """The band of one factor around *estimate* (B, H, W)."""
    below, above = (ONE_FACTOR[name] * side for side in margins(estimate))
    return np.maximum(estimate - below, 0), estimate + above


def after(estimate: Side, band: Mapping[str, Any]) -> tuple[Side, Side]:
    """The band that the history of a cube tells, around *estimate* (B, H, W)."""
    below, above = half_widths(estimate, band, GRID)
    return np.maximum(estimate - below, 0), estimate + above


class Tally:
    """Adds up what bands hold, scene by scene."""

    def __init__(self) -> None:
        self.covered: list[Floats] = []
        self.widths: list[float] = []

    def add(self, truth: Side, estimate: Side, sides: tuple[Side, Side]) -> None:
        """Count the core pixels of one scene."""
        core = core_pixels(truth)
        if not core.any():
            return
        lower, upper = (side[:, core] for side in sides)
        self.covered.append(held(truth[:, core], lower, upper).mean(axis=1))
        width = (upper - lower) / estimate[:, core].clip(DIMMEST)
        self.widths.append(float(width.mean()))

    def __str__(self) -> str:
        by_band = np.mean(self.covered, axis=0)
        worst = min(float(scene.mean()) for scene in self.covered)
        least = int(by_band.argmin())
        return (
            f"{by_band.mean():.3f}  least band {by_band[least]:.2f} ({GRID[least]:.0f} nm)  "
            f"least scene {worst:.2f}  width {np.mean(self.widths):.2f}"
        )


def show(
    name: str,
    kind: Input,
    scenes: Sequence[Scene],
    calibrated_by: str = RENDERED,
) -> None:
    """Print the two lines of one kind of photo."""
    model = load_model(name)
    reconstructor = Reconstructor(
        model, "cpu", acquisition=kind.acquisition, calibrated_by=calibrated_by
    )
    tallies = {"before": Tally(), "after": Tally()}
    every = np.s_[:, ::STRIDE, ::STRIDE]
    for scene in scenes:
        cube = reconstructor.reconstruct(kind.photo(scene.cube, scene.name))
        truth = scene.cube[every]
        estimate = np.ascontiguousarray(cube.data[every])
        tallies["before"].add(truth, estimate, before(estimate, name))
        tallies["after"].add(truth, estimate, after(estimate, cube.provenance.error_band))
    state = "" if calibrated_by else ", uncalibrated"
    for label, tally in tallies.items():
        print(f"{name:15} {kind.name + state:30} {label:7} {tally}", flush=True)


def simulated_scenes(count: int) -> Iterator[Scene]:
    """Scenes of spectra that no model has seen, and that calibrated nothing."""
    simulator = SceneSimulator(SEED, 96, held_out=True)
    for index in range(count):
        cube = simulator.draw(1)[1][0].numpy()
        yield Scene(f"simulated {index}", cube, np.ones(cube.shape[1:], bool))


def show_scenes(title: str, scenes: Sequence[Scene], models: Sequence[str]) -> None:
    """Print the table of some scenes for all *models*."""
    print(f"\n{title}: share of core values in the band")
    for name in models:
        if MODELS[name].needs_camera:
            for kind in CAMERA_PHOTOS:
                show(name, kind, scenes)
            continue
        for photo in PHOTOS:
            show(name, KINDS[photo], scenes)
        for photo in OTHERS:
            show(name, KINDS[photo], scenes, calibrated_by="")


def show_chart(name: str, folder: Path, chart: Chart) -> None:
    """Print what the bands of one photo of a chart hold."""
    cube = Reconstructor(load_model(name), "cpu").reconstruct(folder / chart.file)
    patches = colour_checker()
    truth, estimate = [], []
    for column, x in enumerate(chart.x):
        for row, y in enumerate(chart.y):
            part = cube.data[:, y - REACH : y + REACH + 1, x - REACH : x + REACH + 1]
            estimate.append(np.median(part, axis=(1, 2)))
            spectrum = patches[chart.patch(column, row)]
            truth.append(np.interp(GRID, spectrum.wavelengths, spectrum.values))
    true = np.array(truth, np.float32).T[:, :, None]
    found = np.array(estimate, np.float32).T[:, :, None]
    bands = {
        "before": before(found, name),
        "as if exactly rendered": after(found, photo_interval(MODELS[name], "noise")),
        "uncalibrated": after(found, photo_interval(MODELS[name], CAMERA)),
    }
    print(f"{name:15} {chart.file}: MRAE {mrae(found, true):.2f}; {cube.provenance.calibration}")
    for label, sides in bands.items():
        width = float(((sides[1] - sides[0]) / found.clip(DIMMEST)).mean())
        print(f"{'':15} {label:30} {held(true, *sides).mean():.2f}  width {width:.2f}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = common.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--charts", type=Path)
    parser.add_argument("--model", action="append", choices=ONE_FACTOR)
    parser.add_argument("--simulated", type=int, default=24, help="scenes (default: 24)")
    options = parser.parse_args()
    models = options.model or list(ONE_FACTOR)
    show_scenes(f"scenes of {options.folder.name}", list(read_scenes(options.folder)), models)
    show_scenes("simulated scenes", list(simulated_scenes(options.simulated)), models)
    if options.charts:
        print("\nphotos of charts by real cameras: share of 24 x 31 values in the band")
        srgb_models = [name for name in models if not MODELS[name].needs_camera]
        for name, chart in product(srgb_models, CHARTS):
            show_chart(name, options.charts, chart)


if __name__ == "__main__":
    main()
