"""Scores of cubes that reference spectra corrected: `python -m lab known FOLDER --references 0,4`.

Each scene is photographed and reconstructed as for the table of the models. Then its true spectra
become known at a few spots of 3 x 3 pixels, and the cube is refined to them. Letters: B bands,
H rows, W columns, n spots.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from scipy.ndimage import binary_erosion
from tqdm import tqdm

from napari_mst.base.arrays import Doubles, Floats, Indices, Mask, Singles
from napari_mst.base.atomic_save import check_targets
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.cli.arguments import Command
from napari_mst.cli.training import chosen_inputs, noted
from napari_mst.cube import SpectralCube
from napari_mst.cube.metrics import core_mrae, core_pixels, mrae
from napari_mst.cube.spectrum import Spectrum
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.options import DEFAULTS, RunOptions
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.references.contradictions import ContradictingSpectra
from napari_mst.references.intervals import has_interval, prediction_intervals
from napari_mst.references.reference_spectrum import BRIGHTEST, ReferenceSpectrum
from napari_mst.references.refining import refine
from napari_mst.references.suggestions import MOST, suggest_measurements
from napari_mst.training.inputs import INPUTS, Input
from napari_mst.training.scenes import Scene, read_scenes, resampled, scene_files
from napari_mst.training.scoring import (
    RENDERED,
    UNCOVERED,
    Score,
    by_input,
    grouped,
    mean_score,
    table,
    write_csv,
)

WORST = "worst"
"""Label of MRAE after over before; in the mean, the largest ratio of all scenes."""

COVERAGE = "coverage"
"""Label of the share of true values in the 90 % prediction interval: all bands of core pixels."""

LEAST = "least"
"""Label of that share in the band that has the smallest one."""

WIDTH = "width"
"""Label of the mean width of the prediction interval over the estimate."""

LABELS = ("MRAE", "core MRAE", WORST, COVERAGE, LEAST, WIDTH)

Spots = Indices
"""Rows and columns (n, 2)."""

_DIMMEST = 0.01
"""Reflectance below which a width is not divided by the estimate: the ratio would mean nothing."""


@dataclass(frozen=True)
class SpotPlan:
    """The spots whose spectra become known: how many, and which.

    Attributes
    ----------
    counts
        The numbers of reference spectra, one line of the table for each.
    is_suggested
        Take the spots that `suggest_measurements` gives for photo and estimate; otherwise random
        ones.
    seed
        Draws the random spots, the same ones in every run.

    Raises
    ------
    SpectrumError
        If there are no counts, one is negative, or more are suggested than is possible.
    """

    counts: Sequence[int]
    is_suggested: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.counts or min(self.counts) < 0:
            raise SpectrumError(
                "Expected numbers of reference spectra from 0 up, got "
                f"{', '.join(map(str, self.counts)) or 'none'}. Give them as 0,1,4,24."
            )
        if self.is_suggested and max(self.counts) > MOST:
            raise SpectrumError(
                f"Expected at most {MOST} suggested spots, got {max(self.counts)}. Ask for fewer."
            )

    def title(self, count: int) -> str:
        """Names the line of the table for *count* reference spectra."""
        if count == 0:
            return "nothing known"
        return f"{count} suggested" if self.is_suggested else f"{count} random"


@dataclass(frozen=True, eq=False)
class Taken:
    """A scene, its photo, and the cube that was reconstructed from it.

    Attributes
    ----------
    exposure
        Factor on the light of the photo; it shows the reflectance of the scene times this.
    counted
        (H, W) pixels that count: known in the scene, and not clipped by another exposure.
    """

    scene: Scene
    exposure: float
    counted: Mask
    photo: Photo
    cube: SpectralCube

    @property
    def truth(self) -> Singles:
        """The reflectance (31, H, W) that the photo shows."""
        return self.scene.cube * np.float32(self.exposure)

    def errors(self, data: Floats) -> tuple[float, float]:
        """MRAE and core MRAE of *data* (31, H, W) over the pixels that count; NaN if none."""
        estimate = self._in_a_row(data / self.exposure)
        reference = self._in_a_row(self.scene.cube)
        return mrae(estimate, reference), core_mrae(estimate, reference, GRID)

    def band(self, cube: SpectralCube) -> tuple[Floats, float] | None:
        """The share of true core values in the interval of *cube* (31,), and its mean width.

        The width is a share of the estimate. None if there is no band, or no core pixel counts.
        """
        core = self.counted & core_pixels(self.truth)
        if not has_interval(cube) or not core.any():
            return None
        lower, upper = (_at_grid(side)[:, core] for side in prediction_intervals(cube))
        truth = self.truth[:, core]
        is_within = (truth >= lower) & (truth <= upper)
        widths = (upper - lower) / np.maximum(_at_grid(cube)[:, core], _DIMMEST)
        return is_within.mean(axis=1), float(widths.mean())

    def random_spots(self, count: int, seed: int = 0) -> Spots:
        """At most *count* spots (n, 2) among those whose truth is bright, drawn by *seed*."""
        bright = np.flatnonzero(self._measurable & core_pixels(self.truth))
        random = np.random.default_rng(seed)
        chosen = random.choice(bright, min(count, bright.size), replace=False)
        return np.stack(np.divmod(chosen, self.photo.shape[1]), axis=1)

    def suggested_spots(self, count: int) -> Spots:
        """At most *count* spots (n, 2) from photo and estimate alone.

        Those at which the scene itself holds no reflectance are left out.
        """
        spots = np.array(suggest_measurements(self.cube, self.photo, count=count))
        is_known = self._measurable & (self.truth.max(axis=0) > 0)
        return spots[is_known[spots[:, 0], spots[:, 1]]]

    def references(self, spots: Spots) -> list[ReferenceSpectrum]:
        """The true mean spectra of the 3 x 3 pixels around *spots*."""
        # Dark pixels of real cubes can be slightly negative, which no measured reflectance is.
        truths = window_means(self.truth, spots).clip(0)
        return [
            ReferenceSpectrum(int(row), int(column), Spectrum(GRID, values))
            for (row, column), values in zip(spots, truths, strict=True)
        ]

    def refined(self, spots: Spots) -> SpectralCube:
        """The cube with the truth known at *spots*; the cube itself without any."""
        with warnings.catch_warnings():
            # Real and false food have one colour and two spectra: true, and no news in a table.
            warnings.simplefilter("ignore", ContradictingSpectra)
            return refine(self.cube, self.photo, self.references(spots))

    @property
    def _measurable(self) -> Mask:
        """The mask (H, W) of spots whose 3 x 3 pixels, cut at the border, all count."""
        usable = self.counted & (self.truth <= BRIGHTEST).all(axis=0)
        return binary_erosion(usable, np.ones((3, 3)), border_value=1)

    def _in_a_row(self, data: Floats) -> Floats:
        """*data* (31, H, W), or (31, n, 1) if only n pixels count."""
        return data if self.counted.all() else data[:, self.counted][..., None]


def taken_of(scene: Scene, kind: Input, model: Reconstructor) -> Taken:
    """Photographs *scene* as *kind* says, and reconstructs it."""
    photo = kind.photo(scene.cube, scene.name)
    counted = scene.valid & kind.counted(photo.pixels)
    return Taken(scene, kind.exposure, counted, photo, model.reconstruct(photo))


def window_means(data: Floats, spots: Spots) -> Doubles:
    """Means (n, B) of *data* (B, H, W) over the 3 x 3 pixels around *spots*, cut at the border."""
    around = [
        data[:, max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] for row, column in spots
    ]
    means = [part.mean(axis=(1, 2)) for part in around]
    return np.array(means, dtype=np.float64).reshape(len(spots), len(data))


def score(
    models: Mapping[str, Reconstructor],
    inputs: Sequence[Input],
    scenes: Iterable[Scene],
    plan: SpotPlan,
) -> Iterator[Score]:
    """Judges every model on every input of every scene, once for each count of *plan*."""
    for scene in scenes:
        for kind in inputs:
            for name, model in models.items():
                taken = taken_of(scene, kind, model)
                before, _ = taken.errors(_at_grid(taken.cube))
                for count in plan.counts:
                    cube = taken.refined(_spots(taken, plan, count))
                    values, covered = _judged(taken, cube, before)
                    title = f"{name}, {plan.title(count)}"
                    yield Score(title, kind.name, scene.name, values, covered)


def means(scores: Iterable[Score]) -> list[Score]:
    """The mean over the scenes of every line, in the order of the scores.

    The ratio after/before is the largest one; the least coverage is that of the mean over scenes.
    """
    averages = []
    for rows in grouped(scores):
        mean = mean_score(rows)
        ratios = [row.values[WORST] for row in rows if not np.isnan(row.values[WORST])]
        extremes = {WORST: max(ratios, default=np.nan), LEAST: float(mean.covered.min())}
        averages.append(replace(mean, values={**mean.values, **extremes}))
    return averages


def _spots(taken: Taken, plan: SpotPlan, count: int) -> Spots:
    if count == 0:
        return np.empty((0, 2), dtype=np.intp)
    if plan.is_suggested:
        return taken.suggested_spots(count)
    return taken.random_spots(count, plan.seed)


def _judged(taken: Taken, cube: SpectralCube, before: float) -> tuple[dict[str, float], Floats]:
    """The values of `LABELS`, and the coverage (31,) band by band."""
    values = dict.fromkeys(LABELS, np.nan)
    values["MRAE"], values["core MRAE"] = taken.errors(_at_grid(cube))
    if before > 0:
        values[WORST] = values["MRAE"] / before
    band = taken.band(cube)
    if band is None:
        return values, UNCOVERED
    covered, values[WIDTH] = band
    values[COVERAGE] = float(covered.mean())
    values[LEAST] = float(covered.min())
    return values, covered


def _at_grid(cube: SpectralCube) -> Floats:
    return resampled(np.asarray(cube.data), cube.wavelengths)


def _counts(text: str) -> tuple[int, ...]:
    """Numbers of reference spectra from "0,1,4", each one once."""
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise ValueError(
            f"Expected numbers of reference spectra, got {shown(text)!r}. Give them as 0,1,4,24."
        ) from None


def judge_known(  # noqa: PLR0913 (its options)
    folder: Path,
    *,
    references: Annotated[tuple[int, ...], _counts] = (0, 1, 4, 24),
    suggested: bool = False,
    model: tuple[str, ...] = (),
    options: Annotated[RunOptions, ("correct_colour", "denoise", "device")] = DEFAULTS,
    input: tuple[str, ...] = (),  # noqa: A002
    full_scale: float | None = None,
    per_scene: bool = False,
    csv: Path | None = None,
) -> None:
    """Judge models whose cubes are corrected, and print the table.

    Parameters
    ----------
    folder
        folder of reflectance cubes at 400-700 nm; or one cube
    references : COUNTS
        correct each cube by this many true spectra of its scene, at random spots of 3 x 3 pixels,
        and judge that
    suggested
        take the spots that `napari-mst refine --suggest` would give
    model : NAME|FILE
        a model (default: pixelwise-srgb)
    input : NAME
        a kind of photo, as 'JPEG 75' (default: clean)
    full_scale : VALUE
        stored value that stands for reflectance 1
    per_scene
        print every scene, not only the mean
    csv : FILE
        write every scene and the means to this file

    Examples
    --------
    python -m lab known cubes/ --references 0,4,24 --suggested --csv known.csv

    Notes
    -----
    columns:
      worst      MRAE after over before, in the scene where this is largest
      coverage   share of true values in the 90 % prediction interval, all bands
      least      the same, in the band that has the smallest share
      width      mean width of the prediction interval over the estimate
    """
    plan = SpotPlan(references, suggested)
    kinds = chosen_inputs(input or [INPUTS[0].name], INPUTS)
    scene_count = len(scene_files(folder))
    if csv:
        check_targets([csv], overwrite=True)
    fields = vars(replace(options, calibrated_by=RENDERED))
    models = {
        name: Reconstructor(load_model(name), **fields) for name in model or ["pixelwise-srgb"]
    }
    scenes = noted(read_scenes(folder, full_scale))
    total = scene_count * len(kinds) * len(models) * len(references)
    scores = list(tqdm(score(models, kinds, scenes, plan), total=total, unit="cube"))
    averages = means(scores)
    if csv:
        write_csv(csv, [*scores, *averages], LABELS)
    rows = by_input(scores, averages) if per_scene else averages
    print(table(rows))


KNOWN = Command(
    "known", "judge cubes that reference spectra of their scenes corrected", judge_known
)
