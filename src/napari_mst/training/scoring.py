"""Scores of methods on real scenes: `napari-mst evaluate FOLDER`.

A scene is a reflectance cube from a multispectral camera. It is rendered to 8-bit sRGB photos under
D65, of every kind in `INPUTS`; the photos are reconstructed and compared with the scene. Letters: B
bands, H rows, W columns.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.base.arrays import Array, Codes, Floats, Mask
from napari_mst.cube.colour import (
    linear_estimate,
    linear_to_srgb,
    measured_reflectances,
    render_srgb,
    srgb_response,
    srgb_to_linear,
)
from napari_mst.cube.metrics import (
    colour_difference,
    core_bands,
    core_mrae,
    core_pixels,
    mrae,
    psnr,
    rmse,
    spectral_angle,
)
from napari_mst.formats.wavelengths import text_cell
from napari_mst.models import load_model
from napari_mst.photo.cameras import GRID, Acquisition
from napari_mst.photo.photo import Encoding, Photo
from napari_mst.reconstruction.model_intervals import half_widths
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.training.inputs import Input
from napari_mst.training.scenes import Scene, resampled

Method = Callable[[Array], Floats]
"""Stored values (3, H, W) of a photo -> reflectance (31, H, W) at `GRID`."""

RENDERED = "rendering it from the scene"
"""Reason why photos in the tables show exact colours."""

ON_CPU = RunOptions(device="cpu")

UNCOVERED = np.full(len(GRID), np.nan)
"""Coverage by band of a method without a prediction interval."""


class ModelMethod:
    """A model as a method: by its name in `MODELS` or its file.

    Parameters
    ----------
    options
        Options of the runs; camera and light are None for 8-bit sRGB photos.
    """

    def __init__(self, name: str, options: RunOptions = ON_CPU) -> None:
        options = replace(options, calibrated_by=RENDERED)
        self._reconstructor = Reconstructor(load_model(name), **vars(options))
        self._band: Mapping[str, Any] = {}

    def __call__(self, codes: NDArray[np.unsignedinteger]) -> Floats:
        """Reconstruct reflectance (31, H, W) from stored values (3, H, W)."""
        encoding: Encoding = "srgb" if self._reconstructor.acquisition is None else "linear"
        cube = self._reconstructor.reconstruct(Photo.from_array(codes, encoding=encoding))
        self._band = cube.provenance.error_band
        return resampled(cube.data, cube.wavelengths)

    def covered(self, estimate: Floats, reference: Floats, counted: Mask) -> Floats:
        """Return the coverage (31,) of the interval, band by band, over counted core pixels.

        The interval is that of the most recent photo, since it depends on whether the photo was a
        JPEG. NaN if the model has no interval, or no pixel counts.
        """
        pixels = counted & core_pixels(reference)
        is_on_grid = np.array_equal(self._reconstructor.model.card.wavelengths, GRID)
        if not self._band or not is_on_grid or not pixels.any():
            return UNCOVERED
        below, above = half_widths(estimate, self._band, GRID)
        is_within = (reference >= estimate - below) & (reference <= estimate + above)
        return is_within[:, pixels].mean(axis=1)


def matrix_method(matrix: Floats) -> Method:
    """Return the method that multiplies linear sRGB by *matrix* (B, 3)."""

    def estimate(codes: Codes) -> Floats:
        linear = srgb_to_linear(codes / 255)
        return np.einsum("bc,chw->bhw", matrix, linear, optimize=True)

    return estimate


def least_squares() -> Method:
    """Return least squares 3 -> 31 on the measured reflectances that train the bundled models."""
    return matrix_method(linear_estimate(measured_reflectances(), srgb_response(GRID)))


def linear_method(acquisition: Acquisition) -> Method:
    """Return least squares for linear 16-bit photos from this camera in this light."""
    matrix = linear_estimate(measured_reflectances(), acquisition.response)
    return lambda codes: np.einsum("bc,chw->bhw", matrix, codes / 65535, optimize=True).clip(0)


BASELINES: dict[str, Callable[[], Method]] = {"least squares 3 to 31": least_squares}
"""Constructors of the baselines with which models for sRGB are compared."""


METRICS: Mapping[str, Callable[[Floats, Floats], float]] = {
    "MRAE": mrae,
    "core MRAE": partial(core_mrae, wavelengths=GRID),
    "RMSE": rmse,
    "PSNR (dB)": psnr,
    "SAM (deg)": spectral_angle,
    "dE D65": partial(colour_difference, wavelengths=GRID, light="D65"),
    "dE A": partial(colour_difference, wavelengths=GRID, light="A"),
}
"""Metrics by label; dE is CIEDE2000 of the spectra re-rendered under an illuminant."""

SHOWN = "in 1 code"
"""Label for the share of unclipped pixels whose colour is reproduced to one 8-bit code."""

COVERED = "in band"
"""Label for the share of core values in the 90 % prediction interval, if the method has one."""

LABELS = (*METRICS, SHOWN, COVERED)


@dataclass(frozen=True)
class Score:
    """Metrics of one method on one input of one scene, or their mean over scenes ("mean").

    *covered* (31,) is the share of core pixels, band by band, whose true value lies in the 90 %
    prediction interval; NaN for methods without an interval.
    """

    method: str
    input: str
    scene: str
    values: Mapping[str, float]
    covered: Floats


def score(
    methods: Mapping[str, Method], inputs: Sequence[Input], scenes: Iterable[Scene]
) -> Iterator[Score]:
    """Yield the metrics of every method on every input of every scene.

    All methods see the same photos.
    """
    for scene in scenes:
        for kind in inputs:
            codes = kind.photograph(scene.cube, scene.name)
            counted = scene.valid & kind.counted(codes)
            # A photo with twice the light shows twice the reflectance.
            exposed = scene.cube * np.float32(kind.exposure)
            for name, method in methods.items():
                estimate = method(codes)
                values = compared(estimate / kind.exposure, scene.cube, counted)
                values[SHOWN] = _shown(estimate, codes, counted)
                covered = UNCOVERED
                if isinstance(method, ModelMethod):
                    covered = method.covered(estimate, exposed, counted)
                values[COVERED] = float(covered[core_bands(GRID)].mean())
                yield Score(name, kind.name, scene.name, values, covered)


def compared(estimate: Floats, reference: Floats, counted: Mask) -> dict[str, float]:
    """Return all metrics of *estimate* over the *counted* pixels (H, W); NaN if there are none."""
    if not counted.any():
        return dict.fromkeys(METRICS, np.nan)
    if not counted.all():
        estimate = estimate[:, counted][..., None]
        reference = reference[:, counted][..., None]
    return {label: metric(estimate, reference) for label, metric in METRICS.items()}


def by_input(scores: Iterable[Score], averages: Sequence[Score]) -> list[Score]:
    """Sort scores and their *averages* by input, keeping the scenes of each method together."""
    order = {(mean.input, mean.method): place for place, mean in enumerate(averages)}
    return sorted([*scores, *averages], key=lambda each: order[each.input, each.method])


def means(scores: Iterable[Score]) -> list[Score]:
    """Average over scenes for every method and input, in the order of the scores."""
    return [mean_score(rows) for rows in grouped(scores)]


def grouped(scores: Iterable[Score]) -> list[list[Score]]:
    """Group the scores by method and input, in the order of the scores."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for each in scores:
        groups.setdefault((each.input, each.method), []).append(each)
    return list(groups.values())


def table(scores: Sequence[Score]) -> str:
    """Format scores as text: below the name of each input, one line per method and scene."""
    lines = []
    kind = ""
    for each in scores:
        if each.input != kind:
            kind = each.input
            labels = "".join(f"{label:>11}" for label in each.values)
            lines += ["", f"{kind:36}{labels}"]
        name = each.method if each.scene == "mean" else f"{each.method} {each.scene}"
        values = "".join(f"{value:11.4f}" for value in each.values.values())
        lines.append(f"{name[:35]:36}{values}")
    return "\n".join(lines[1:])


def write_csv(path: Path, scores: Iterable[Score], labels: Sequence[str] = LABELS) -> None:
    """Write a line for each score: method, input, scene, and the values with these *labels*."""
    by_band = [f"{COVERED} {nm:g}" for nm in GRID]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "input", "scene", *labels, *by_band])
        for each in scores:
            names = [text_cell(name) for name in (each.method, each.input, each.scene)]
            writer.writerow([*names, *(each.values[label] for label in labels), *each.covered])


def _shown(estimate: Floats, codes: NDArray[np.unsignedinteger], counted: Mask) -> float:
    """Return the share labelled `SHOWN`; NaN for photos that are not 8-bit sRGB."""
    pixels = counted & ((codes > 0) & (codes < 255)).all(axis=0)
    if codes.dtype != np.uint8 or not pixels.any():
        return np.nan
    shown = np.rint(linear_to_srgb(render_srgb(estimate, GRID).clip(0, 1)) * 255)
    is_near = (np.abs(shown - codes) <= 1).all(axis=0)
    return float(is_near[pixels].mean())


def mean_score(rows: Sequence[Score]) -> Score:
    """Average the scores of one method on one input."""
    values = {label: _known_mean([row.values[label] for row in rows]) for label in rows[0].values}
    by_band = zip(*(row.covered for row in rows), strict=True)
    covered = np.array([_known_mean(shares) for shares in by_band])
    return Score(rows[0].method, rows[0].input, "mean", values, covered)


def _known_mean(values: Sequence[float]) -> float:
    """Average the values that are not NaN; NaN if there are none."""
    numbers = [value for value in values if not np.isnan(value)]
    return float(np.mean(numbers)) if numbers else float("nan")
