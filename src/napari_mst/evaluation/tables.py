"""How well methods do on real scenes: `napari-mst evaluate FOLDER`.

A scene is a reflectance cube from a multispectral camera. Its photo is rendered to 8-bit sRGB under D65, cleanly and in
all the ways of `INPUTS`, reconstructed, and compared with it. Letters: B bands, H rows, W columns.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_to_srgb, render_srgb
from napari_mst.evaluation.baselines import GRID, Method
from napari_mst.evaluation.camera_inputs import CameraInput
from napari_mst.evaluation.degradations import INPUTS, Input
from napari_mst.evaluation.scenes import Scene, read_scenes, resampled
from napari_mst.formats.text import text_cell
from napari_mst.metrics import (
    colour_difference,
    core_bands,
    core_mrae,
    core_pixels,
    mrae,
    psnr,
    rmse,
    spectral_angle,
)
from napari_mst.photo.cameras import Capture
from napari_mst.photo.photo import Encoding, Photo

METRICS: Mapping[str, Callable[[NDArray[np.floating], NDArray[np.floating]], float]] = {
    "MRAE": mrae,
    "core MRAE": partial(core_mrae, wavelengths=GRID),
    "RMSE": rmse,
    "PSNR (dB)": psnr,
    "SAM (deg)": spectral_angle,
    "dE D65": partial(colour_difference, wavelengths=GRID, light="D65"),
    "dE A": partial(colour_difference, wavelengths=GRID, light="A"),
}
"""By label; dE is CIEDE2000 of the spectra re-rendered under an illuminant."""

SHOWN = "in 1 code"
"""Label of the share of unclipped pixels whose re-rendered colour is within one 8-bit code of the photo's."""

COVERED = "in band"
"""Label of the share of core values that lie in the 90 % error band: for methods that have one."""

CLEAN = INPUTS[0]


@dataclass(frozen=True)
class Score:
    """The metrics of one method on one input of one scene ("mean": their mean over the scenes).

    *covered* (31,): share of the core pixels whose true value lies in the 90 % error band, band by band; None without.
    """

    method: str
    input: str
    scene: str
    values: Mapping[str, float]
    covered: NDArray[np.floating] | None = None


def score(
    methods: Mapping[str, Method], inputs: Sequence[Input | CameraInput], scenes: Iterable[Scene]
) -> Iterator[Score]:
    """The metrics of every method on every input of every scene; each photo is the same for all methods."""
    for scene in scenes:
        for kind in inputs:
            codes = kind.photograph(scene.cube, GRID, scene.name)
            counted = scene.valid & kind.counted(codes)
            for name, method in methods.items():
                estimate = method(codes)
                values = compared(estimate / kind.exposure, scene.cube, counted)
                values[SHOWN] = _shown(estimate, codes, counted)
                covered = _covered(
                    method, estimate, scene.cube * np.float32(kind.exposure), counted
                )
                values[COVERED] = (
                    np.nan if covered is None else float(covered[core_bands(GRID)].mean())
                )
                yield Score(name, kind.name, scene.name, values, covered)


def compared(
    estimate: NDArray[np.floating], reference: NDArray[np.floating], counted: NDArray[np.bool_]
) -> dict[str, float]:
    """All metrics of *estimate* over the pixels that count (H, W); NaN without any."""
    if not counted.any():
        return dict.fromkeys(METRICS, np.nan)
    if not counted.all():
        estimate, reference = estimate[:, counted][..., None], reference[:, counted][..., None]
    return {label: metric(estimate, reference) for label, metric in METRICS.items()}


def by_input(scores: Iterable[Score]) -> list[Score]:
    """The scores and their means, input by input, each method's scenes together."""
    scores = list(scores)
    averages = means(scores)
    order = {(one.input, one.method): place for place, one in enumerate(averages)}
    return sorted([*scores, *averages], key=lambda one: order[one.input, one.method])


def means(scores: Iterable[Score]) -> list[Score]:
    """The mean over the scenes of every method and input, input by input in the order of the scores."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for one in scores:
        groups.setdefault((one.input, one.method), []).append(one)
    return [
        Score(
            method,
            kind,
            "mean",
            {
                label: _mean([row.values[label] for row in rows])
                for label in (*METRICS, SHOWN, COVERED)
            },
            _mean_band([row.covered for row in rows if row.covered is not None]),
        )
        for (kind, method), rows in groups.items()
    ]


def evaluate(method: Method, folder: Path, kind: Input | CameraInput = CLEAN) -> dict[str, float]:
    """Mean of each metric over the scenes in *folder*.

    Raises
    ------
    CubeFileError
        If there is no scene, or one cannot be used.
    """
    (mean,) = means(score({"": method}, [kind], read_scenes(folder)))
    return {label: value for label, value in mean.values.items() if not np.isnan(value)}


class ModelMethod:
    """A model by its name in `MODELS` or its file, with or without the correction of its colours.

    With a *capture* its photos are linear, else 8-bit sRGB.
    """

    def __init__(
        self,
        name: str,
        device: str = "cpu",
        correct_colour: bool = True,
        capture: Capture | None = None,
    ) -> None:
        from napari_mst.models import load_model
        from napari_mst.reconstruction.reconstructor import Reconstructor

        self._reconstructor = Reconstructor(
            load_model(name), device, correct_colour=correct_colour, capture=capture
        )

    def __call__(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.floating]:
        """Stored values (3, H, W) -> reflectance (31, H, W)."""
        encoding: Encoding = "srgb" if self._reconstructor.capture is None else "linear"
        cube = self._reconstructor.reconstruct(Photo.from_array(codes, encoding=encoding))
        return resampled(cube.data, cube.wavelengths)

    def is_within(
        self, estimate: NDArray[np.floating], reference: NDArray[np.floating]
    ) -> NDArray[np.bool_] | None:
        """Where (31, H, W) the reference lies in the error band of *estimate*; None if the model has no band."""
        from napari_mst.reconstruction.error_bands import margins

        card = self._reconstructor.model.card
        if not card.error_factor or not np.array_equal(card.wavelengths, GRID):
            return None
        below, above = (card.error_factor * margin for margin in margins(estimate))
        return np.asarray((reference >= estimate - below) & (reference <= estimate + above))


def model_method(
    name: str, device: str = "cpu", correct_colour: bool = True, capture: Capture | None = None
) -> ModelMethod:
    """See `ModelMethod`."""
    return ModelMethod(name, device, correct_colour, capture)


def table(scores: Sequence[Score]) -> str:
    """The scores for a person: one line a method and scene under the name of each input."""
    lines, kind = [], ""
    for one in scores:
        if one.input != kind:
            kind = one.input
            lines += ["", f"{kind:36}" + "".join(f"{label:>11}" for label in one.values)]
        name = one.method if one.scene == "mean" else f"{one.method} {one.scene}"
        lines.append(f"{name[:35]:36}" + "".join(f"{value:11.4f}" for value in one.values.values()))
    return "\n".join(lines[1:])


def coverage_table(scores: Iterable[Score]) -> str:
    """The share of core pixels in the error band, band by band: one line a score that has one; "" if none has."""
    lines = [f"{'in the 90 % error band, at nm':44}" + "".join(f"{nm:5.0f}" for nm in GRID)]
    for one in scores:
        if one.covered is not None:
            name = f"{one.method}, {one.input}, {one.scene}"
            lines.append(f"{name[:43]:44}" + "".join(f"{share:5.2f}" for share in one.covered))
    return "\n".join(lines) if len(lines) > 1 else ""


def write_csv(path: Path, scores: Iterable[Score]) -> None:
    """One line a score: method, input, scene, and its metrics."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "method",
                "input",
                "scene",
                *METRICS,
                SHOWN,
                COVERED,
                *(f"{COVERED} {nm:g}" for nm in GRID),
            ]
        )
        for one in scores:
            covered = [] if one.covered is None else one.covered.tolist()
            names = [text_cell(name) for name in (one.method, one.input, one.scene)]
            writer.writerow([*names, *one.values.values(), *covered])


def _shown(
    estimate: NDArray[np.floating], codes: NDArray[np.unsignedinteger], counted: NDArray[np.bool_]
) -> float:
    """NaN for photos that are not 8-bit sRGB."""
    pixels = counted & ((codes > 0) & (codes < 255)).all(axis=0)
    shown = np.rint(linear_to_srgb(render_srgb(estimate, GRID).clip(0, 1)) * 255)
    is_near = (np.abs(shown - codes) <= 1).all(axis=0)
    return float(is_near[pixels].mean()) if pixels.any() and codes.dtype == np.uint8 else np.nan


def _covered(
    method: Method,
    estimate: NDArray[np.floating],
    reference: NDArray[np.floating],
    counted: NDArray[np.bool_],
) -> NDArray[np.floating] | None:
    pixels = counted & core_pixels(reference)
    within = method.is_within(estimate, reference) if isinstance(method, ModelMethod) else None
    return None if within is None or not pixels.any() else within[:, pixels].mean(axis=1)


def _mean_band(covered: Sequence[NDArray[np.floating]]) -> NDArray[np.floating] | None:
    return np.mean(covered, axis=0) if covered else None


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
