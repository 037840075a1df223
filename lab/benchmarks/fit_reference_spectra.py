"""Fit the default kernels of `napari_mst.references` to simulated scenes, and print them.

    python -m lab.benchmarks.fit_reference_spectra [--scenes 160] [--size 128] [--photos]

With --photos they are those of `mstpp-photo`, on photos as cameras make them of these scenes.

A real scene differs from a plain simulated one: its materials are related, they vary within an
object, and the instrument that measures the truth has a gain and stray light of its own. All of
that is drawn anew for every scene, by judgement and not by any real scene, so that those can judge.
The kernel is fitted by the error of what spots of 3 x 3 pixels tell about all other pixels,
relative to the error of the estimate: 1, 4, 16 and 64 random spots, and the 4 and 16 that the
kernel itself suggests.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lab.benchmarks import common
from lab.ordinary_photos import draw_processing, photograph_scene
from lab.simulated import Curriculum, SceneSimulator
from napari_mst.base.arrays import Doubles, Floats, Indices, Singles
from napari_mst.cube.colour import linear_to_srgb, render_srgb
from napari_mst.cube.metrics import CORE_MEAN, core_pixels
from napari_mst.models import load_model
from napari_mst.models.cards import PHOTOGRAPHED
from napari_mst.photo.cameras import GRID
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.process import (
    Kernel,
    Spots,
    band_scale,
    corrected,
    errors_of,
    features_of_spectra,
    fitted_kernel,
    posterior,
    scaled_bands,
)
from napari_mst.references.suggestions import Design

START = Kernel(
    everywhere=0.01,
    colour=0.01,
    place=0.01,
    chroma_length=0.5,
    brightness_length=1.0,
    place_length=0.3,
    place_colour=3.0,
    noise=0.0002,
)
"""Round numbers."""
COUNTS = (1, 4, 16, 64)
SUGGESTED = (4, 16)
BAND_COUNTS = (4, 8, 24)
BAND_SCENES = 40
LEAST_NOISE = 1e-4  # 1 %: simulated truths have hardly any, and no instrument is better
STEPS = (1.0, 0.5, 0.25)
POINTS = 200
BANDS = len(GRID)
LEAST_BRIGHT = 0.3  # share of its pixels that a scene must have to measure


class RelatedMaterials(SceneSimulator):
    """Scenes whose materials are mixtures of a few pigments, but for one in five."""

    def _pick(self, count: int) -> Tensor:
        kind = float(self._uniform(1))
        several = super()._pick(max(count, 8))
        if kind < 0.2:
            return several[:count]
        base = several[: self._integer(3, 8)]
        shares = -torch.log(self._uniform(count, len(base)).clamp_min(1e-6))
        shares = shares.square()
        shares = shares / shares.sum(1, keepdim=True)
        mixed = shares @ base
        subtractive = torch.exp(shares @ torch.log(base.clamp_min(0.003)))
        return torch.where(self._uniform(count, 1) < 0.5, mixed, subtractive)


@dataclass(frozen=True, eq=False)
class Sample:
    """Spots and pixels of one scene: their features (n, 6), estimates and truths (n, 31)."""

    spots: Doubles
    spot_errors: Doubles
    pixels: Doubles
    estimate: Doubles
    truth: Doubles

    @property
    def error(self) -> float:
        """Mean relative error of the estimate."""
        return float((np.abs(self.estimate - self.truth) / self.truth).mean())


def smooth_shape(random: np.random.Generator) -> Doubles:
    """A smooth curve over the bands (31, 1, 1), about -1 to 1."""
    nodes = random.normal(size=6)
    curve = np.interp(np.linspace(0, 5, BANDS), np.arange(6), nodes)
    return curve[:, None, None]


def smooth_field(random: np.random.Generator, size: int) -> Doubles:
    """A smooth image (size, size), about -1 to 1, with 2 to 8 bumps across."""
    cells = int(random.integers(2, 9))
    nodes = torch.from_numpy(random.normal(size=(1, 1, cells, cells)))
    grown = torch.nn.functional.interpolate(
        nodes, size=(size, size), mode="bicubic", align_corners=True
    )
    return np.asarray(grown[0, 0])


def disturbed(cube: Doubles, random: np.random.Generator) -> Singles:
    """*cube* with variation within objects, and an instrument's gain, stray light and noise."""
    logs = smooth_shape(random) * random.uniform(0, 0.1)
    for _ in range(4):
        field = smooth_field(random, cube.shape[1]) * random.uniform(0, 0.12)
        logs = logs + smooth_shape(random) * field
    stray = random.uniform(0, 0.01) * np.exp(0.5 * smooth_shape(random))
    noise = random.normal(size=cube.shape) * random.uniform(0, 0.004)
    return (cube * np.exp(logs) + stray + noise).clip(0, 1.5).astype(np.float32)


def samples(count: int, size: int, seed: int, of_cameras: bool = False) -> list[Sample]:
    """Samples of *count* scenes, exactly rendered or photographed as cameras do."""
    random = np.random.default_rng(seed)
    simulator = RelatedMaterials(
        seed, size, held_out=True, curriculum=Curriculum(degraded=0, grain=1e-5)
    )
    model = Reconstructor(load_model(PHOTOGRAPHED if of_cameras else "pixelwise-srgb"), "cpu")
    draws = torch.Generator().manual_seed(seed)
    found: list[Sample] = []
    while len(found) < count:
        truth = disturbed(simulator.draw(1)[1][0].double().numpy(), random)
        if core_pixels(truth).mean() < LEAST_BRIGHT:
            continue
        if of_cameras:
            processing = draw_processing(1, draws, held_out=True, kind="camera")
            photo, truth = photograph_scene(truth, processing, draws)
        else:
            light = render_srgb(truth, GRID).clip(0, 1)
            photo = np.rint(linear_to_srgb(light) * 255).astype(np.uint8)
        estimate = model.reconstruct(np.moveaxis(photo, 0, -1)).data
        found.append(sampled(truth, estimate, random))
    return found


def sampled(truth: Floats, estimate: Floats, random: np.random.Generator) -> Sample:
    """Spots of 3 x 3 pixels, and single pixels, at random places."""
    size = truth.shape[1]
    inner = np.zeros((size, size), dtype=bool)
    inner[1:-1, 1:-1] = core_pixels(truth)[1:-1, 1:-1]
    spots = random.choice(np.flatnonzero(inner), POINTS)
    means = [_window_means(cube, spots) for cube in (truth, estimate)]
    pixels = random.choice(np.flatnonzero((truth > 0.02).all(axis=0)), POINTS)
    at = [np.stack(np.divmod(places, size), axis=1) / size for places in (spots, pixels)]
    flat = [cube.reshape(BANDS, -1).T[pixels].astype(np.float64) for cube in (truth, estimate)]
    return Sample(
        features_of_spectra(means[1], at[0], GRID),
        errors_of(means[0], means[1]),
        features_of_spectra(flat[1], at[1], GRID),
        flat[1],
        flat[0],
    )


def _window_means(cube: Floats, spots: Indices) -> Doubles:
    rows, columns = np.divmod(spots, cube.shape[2])
    shifts = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    values = [cube[:, rows + down, columns + right].T for down, right in shifts]
    return np.mean(values, axis=0, dtype=np.float64)


def loss(kernel: Kernel, scenes: Sequence[Sample]) -> float:
    """Error that is left, as a share of the estimate's: mean over scenes and sets of spots."""
    left = []
    for scene in scenes:
        order = suggested(kernel, scene)
        chosen = [np.arange(count) for count in COUNTS]
        chosen += [order[:count] for count in SUGGESTED]
        left += [remaining(kernel, scene, spots) / scene.error for spots in chosen]
    return float(np.mean(left))


def remaining(kernel: Kernel, scene: Sample, spots: Indices) -> float:
    """Mean relative error of *scene* with the truth known at some of its *spots*."""
    references = Spots(scene.spots[spots], scene.spot_errors[spots], np.zeros(len(spots)))
    process = posterior(kernel, references, np.ones(BANDS))
    better = corrected(scene.estimate, process.shift(scene.pixels))
    return float((np.abs(better - scene.truth) / scene.truth).mean())


def suggested(kernel: Kernel, scene: Sample) -> Indices:
    """The spots of *scene* that *kernel* would measure first."""
    design = Design(kernel, scene.spots, scene.pixels, np.zeros(len(scene.spots)))
    return np.array([design.next_best() for _ in range(max(SUGGESTED))])


def fitted(scenes: Sequence[Sample]) -> Kernel:
    """The kernel of the least loss, along one hyperparameter after the other."""
    kernel, best = START, loss(START, scenes)
    for step in STEPS:
        for name in asdict(kernel):
            for factor in (np.exp(step), np.exp(-step)):
                kernel, best = _along(kernel, best, name, factor, scenes)
        print(f"step {step}: {best:.4f}", flush=True)
    return kernel


def _along(
    kernel: Kernel, best: float, name: str, factor: float, scenes: Sequence[Sample]
) -> tuple[Kernel, float]:
    while True:
        changes: dict[str, Any] = {name: getattr(kernel, name) * factor}
        tried = replace(kernel, **changes)
        if tried.noise < LEAST_NOISE:
            return kernel, best
        value = loss(tried, scenes)
        if value >= best:
            return kernel, best
        kernel, best = tried, value


def scaled(kernel: Kernel, scenes: Sequence[Sample]) -> tuple[Kernel, Doubles]:
    """*kernel* in squared log reflectance, and the factor of each band (31,), whose mean is 1.

    The loss does not change with the scale of all variances together; the errors at the spots tell
    it.
    """
    squares = []
    for scene in scenes:
        count = COUNTS[-1]
        errors = scene.spot_errors[:count]
        among = kernel(scene.spots[:count], scene.spots[:count]) + kernel.noise * np.eye(count)
        squares.append(np.einsum("nb,nb->b", errors, np.linalg.solve(among, errors)) / count)
    bands = np.mean(squares, axis=0)
    variances = {
        name: value * float(bands.mean())
        for name, value in asdict(kernel).items()
        if "length" not in name and name != "place_colour"
    }
    return replace(kernel, **variances), bands / bands.mean()


def band_factor(scenes: Sequence[Sample]) -> float:
    """Standard deviations that hold nine in ten values, with the defaults in use."""
    needed = []
    for scene in scenes:
        for count in BAND_COUNTS:
            spots = Spots(scene.spots[:count], scene.spot_errors[:count], np.zeros(count))
            kernel = fitted_kernel(spots)
            scale = scaled_bands(kernel, spots, band_scale(GRID))
            process = posterior(kernel, spots, scale)
            better = corrected(scene.estimate, process.shift(scene.pixels))
            deviation = np.sqrt(process.variance(scene.pixels)[:, None] * scale)
            is_core = scene.truth.mean(axis=1) >= CORE_MEAN
            needed.append((np.abs(errors_of(scene.truth, better)) / deviation)[is_core].ravel())
    return float(np.quantile(np.concatenate(needed), 0.9))


def main() -> None:
    """Print the defaults."""
    parser = common.parser(__doc__)
    parser.add_argument("--scenes", type=int, default=160)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=76)
    parser.add_argument("--photos", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    drawn = samples(options.scenes, options.size, options.seed, options.photos)
    print(f"error of the estimate: {np.mean([scene.error for scene in drawn]):.4f}", flush=True)
    kernel, bands = scaled(fitted(drawn), drawn)
    for name, value in asdict(kernel).items():
        print(f"    {name}={value:.3g},")
    print(np.array2string(bands, precision=2, separator=", "))
    unseen = samples(BAND_SCENES, options.size, options.seed + 1, options.photos)
    print(f"band factor, with the defaults in use: {band_factor(unseen):.2f}")


if __name__ == "__main__":
    main()
