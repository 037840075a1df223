"""Scores of methods on real scenes: `napari-mst evaluate FOLDER`.

A scene is a reflectance cube from a multispectral camera. Its photo is rendered to 8-bit sRGB under
D65, cleanly and in all the ways of `INPUTS`, reconstructed, and compared with the scene.
Letters: B bands, H rows, W columns.
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
"""The words that say why a photo of the tables shows colours exactly."""

ON_CPU = RunOptions(device="cpu")

UNCOVERED = np.full(len(GRID), np.nan)
"""The shares in the prediction interval, band by band, of a method that has none."""


class ModelMethod:
    """A model as a method: by its name in `MODELS` or its file.

    Parameters
    ----------
    options
        How it is run; the camera and the light are None for photos in 8-bit sRGB.
    """

    def __init__(self, name: str, options: RunOptions = ON_CPU) -> None:
        options = replace(options, calibrated_by=RENDERED)
        self._reconstructor = Reconstructor(load_model(name), **vars(options))
        self._band: Mapping[str, Any] = {}

    def __call__(self, codes: NDArray[np.unsignedinteger]) -> Floats:
        """Stored values (3, H, W) -> reflectance (31, H, W)."""
        encoding: Encoding = "srgb" if self._reconstructor.acquisition is None else "linear"
        cube = self._reconstructor.reconstruct(Photo.from_array(codes, encoding=encoding))
        self._band = cube.provenance.error_band
        return resampled(cube.data, cube.wavelengths)

    def covered(self, estimate: Floats, reference: Floats, counted: Mask) -> Floats:
        """The share that `COVERED` labels, band by band (31,), where the core pixels count.

        The interval belongs to the photo that was taken last: it depends on whether that was a
        JPEG. NaN if the model has no band, or no pixel counts.
        """
        pixels = counted & core_pixels(reference)
        is_on_grid = np.array_equal(self._reconstructor.model.card.wavelengths, GRID)
        if not self._band or not is_on_grid or not pixels.any():
            return UNCOVERED
        below, above = half_widths(estimate, self._band, GRID)
        is_within = (reference >= estimate - below) & (reference <= estimate + above)
        return is_within[:, pixels].mean(axis=1)


def matrix_method(matrix: Floats) -> Method:
    """The method that multiplies linear sRGB by *matrix*, (B, 3)."""

    def estimate(codes: Codes) -> Floats:
        linear = srgb_to_linear(codes / 255)
        return np.einsum("bc,chw->bhw", matrix, linear, optimize=True)

    return estimate


def least_squares() -> Method:
    """Least squares 3 -> 31 on the measured reflectances that also train the bundled models."""
    return matrix_method(linear_estimate(measured_reflectances(), srgb_response(GRID)))


def linear_method(acquisition: Acquisition) -> Method:
    """Least squares for linear 16-bit photos by this camera in this light."""
    matrix = linear_estimate(measured_reflectances(), acquisition.response)
    return lambda codes: np.einsum("bc,chw->bhw", matrix, codes / 65535, optimize=True).clip(0)


BASELINES: dict[str, Callable[[], Method]] = {"least squares 3 to 31": least_squares}
"""Estimates that models for sRGB are compared with: functions that make a method."""


METRICS: Mapping[str, Callable[[Floats, Floats], float]] = {
    "MRAE": mrae,
    "core MRAE": partial(core_mrae, wavelengths=GRID),
    "RMSE": rmse,
    "PSNR (dB)": psnr,
    "SAM (deg)": spectral_angle,
    "dE D65": partial(colour_difference, wavelengths=GRID, light="D65"),
    "dE A": partial(colour_difference, wavelengths=GRID, light="A"),
}
"""The metrics by their labels; dE is CIEDE2000 of the spectra re-rendered under an illuminant."""

SHOWN = "in 1 code"
"""Label of the share of unclipped pixels whose colour comes back within one 8-bit code."""

COVERED = "in band"
"""Label of the share of core values in the 90 % prediction interval, for methods that have one."""

LABELS = (*METRICS, SHOWN, COVERED)


@dataclass(frozen=True)
class Score:
    """The metrics of one method on one input of one scene, or their mean over the scenes ("mean").

    *covered* (31,) is, band by band, the share of the core pixels whose true value lies in the 90 %
    prediction interval; NaN for a method without a band.
    """

    method: str
    input: str
    scene: str
    values: Mapping[str, float]
    covered: Floats


def score(
    methods: Mapping[str, Method], inputs: Sequence[Input], scenes: Iterable[Scene]
) -> Iterator[Score]:
    """The metrics of every method on every input of every scene.

    Each photo is the same for all methods.
    """
    for scene in scenes:
        for kind in inputs:
            codes = kind.photograph(scene.cube, scene.name)
            counted = scene.valid & kind.counted(codes)
            # A photo of twice the light shows twice the reflectance.
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
    """All metrics of *estimate* over the pixels that count (H, W); NaN without any."""
    if not counted.any():
        return dict.fromkeys(METRICS, np.nan)
    if not counted.all():
        estimate = estimate[:, counted][..., None]
        reference = reference[:, counted][..., None]
    return {label: metric(estimate, reference) for label, metric in METRICS.items()}


def by_input(scores: Iterable[Score], averages: Sequence[Score]) -> list[Score]:
    """The scores and their *averages*, input by input, each method's scenes together."""
    order = {(mean.input, mean.method): place for place, mean in enumerate(averages)}
    return sorted([*scores, *averages], key=lambda each: order[each.input, each.method])


def means(scores: Iterable[Score]) -> list[Score]:
    """The mean over the scenes of every method and input, in the order of the scores."""
    return [mean_score(rows) for rows in grouped(scores)]


def grouped(scores: Iterable[Score]) -> list[list[Score]]:
    """The scores of each method and input together, in the order of the scores."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for each in scores:
        groups.setdefault((each.input, each.method), []).append(each)
    return list(groups.values())


def table(scores: Sequence[Score]) -> str:
    """The scores as text: under the name of each input one line for each method and scene."""
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
    """Write one line for each score: method, input, scene, and its values by these *labels*."""
    by_band = [f"{COVERED} {nm:g}" for nm in GRID]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "input", "scene", *labels, *by_band])
        for each in scores:
            names = [text_cell(name) for name in (each.method, each.input, each.scene)]
            writer.writerow([*names, *(each.values[label] for label in labels), *each.covered])


def _shown(estimate: Floats, codes: NDArray[np.unsignedinteger], counted: Mask) -> float:
    """The share that `SHOWN` labels; NaN for photos that are not 8-bit sRGB."""
    pixels = counted & ((codes > 0) & (codes < 255)).all(axis=0)
    if codes.dtype != np.uint8 or not pixels.any():
        return np.nan
    shown = np.rint(linear_to_srgb(render_srgb(estimate, GRID).clip(0, 1)) * 255)
    is_near = (np.abs(shown - codes) <= 1).all(axis=0)
    return float(is_near[pixels].mean())


def mean_score(rows: Sequence[Score]) -> Score:
    """The mean of the scores of one method on one input."""
    values = {label: _known_mean([row.values[label] for row in rows]) for label in rows[0].values}
    by_band = zip(*(row.covered for row in rows), strict=True)
    covered = np.array([_known_mean(shares) for shares in by_band])
    return Score(rows[0].method, rows[0].input, "mean", values, covered)


def _known_mean(values: Sequence[float]) -> float:
    """The mean of the values that are not NaN; NaN if there is none."""
    numbers = [value for value in values if not np.isnan(value)]
    return float(np.mean(numbers)) if numbers else float("nan")
