"""The commands `evaluate`, which tests models on real scenes, and `train`, which makes models."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tqdm import tqdm

from napari_mst.base.atomic_save import check_targets
from napari_mst.base.errors import CameraError, ModelError
from napari_mst.cli.console import note
from napari_mst.formats.read_options import AS_THE_FILE_SAYS, ReadOptions
from napari_mst.models import MODELS
from napari_mst.photo.cameras import Acquisition, spelled
from napari_mst.reconstruction.options import DEFAULTS, RunOptions
from napari_mst.training.settings import FitSettings, TrainingPlan

if TYPE_CHECKING:
    from napari_mst.training.inputs import Input
    from napari_mst.training.scenes import Scene
    from napari_mst.training.scoring import Method, Score
    from napari_mst.training.sources import TrainingSource

HELD_OUT = "held-out"
"""Stands for all cameras that no model was trained with."""


@dataclass(frozen=True)
class EvaluationPhotos:
    """The photos on which models are evaluated.

    Attributes
    ----------
    input : NAME
        a kind of photo, such as clean or 'JPEG 75'; may be repeated (default: all)
    camera : NAME|FILE
        evaluate mstpp-camera on linear photos from this camera; may be repeated; held-out stands
        for all cameras that were never used in training
    illuminant : NAME|FILE
        light of these photos; may be repeated (default: D65)
    """

    input: tuple[str, ...] = ()
    camera: tuple[Annotated[str, spelled], ...] = ()
    illuminant: tuple[Annotated[str, spelled], ...] = ()

    def trials(self) -> "list[tuple[Acquisition | None, list[Input]]]":
        """Return the kinds of photos for each camera and light, or for sRGB without a camera.

        Raises `CameraError` or `ModelError` for an unknown name.
        """
        from napari_mst.training.inputs import HELD_OUT_CAMERAS, INPUTS, camera_inputs

        if not self.camera:
            if self.illuminant:
                raise CameraError("Expected --camera with --illuminant, got none. Add it.")
            return [(None, chosen_inputs(self.input, INPUTS))]
        named = chain(*(HELD_OUT_CAMERAS if name == HELD_OUT else [name] for name in self.camera))
        acquisitions = [Acquisition(*each) for each in product(named, self.illuminant or ["D65"])]
        return [(each, chosen_inputs(self.input, camera_inputs(each))) for each in acquisitions]


SRGB_PHOTOS = EvaluationPhotos()
"""All kinds of sRGB photos."""


def evaluate(
    folder: Path,
    *,
    model: tuple[str, ...] = (),
    no_baselines: bool = False,
    options: Annotated[RunOptions, ("correct_colour", "denoise", "device")] = DEFAULTS,
    photos: EvaluationPhotos = SRGB_PHOTOS,
    full_scale: float | None = None,
    per_scene: bool = False,
    csv: Path | None = None,
    reading: ReadOptions = AS_THE_FILE_SAYS,
) -> None:
    """Evaluate models on photos of real scenes, and print a table.

    Parameters
    ----------
    folder
        folder of reflectance cubes at 400-700 nm, in any format; or one cube
    model : NAME|FILE
        a model; may be repeated (default: all bundled models except examples)
    no_baselines
        leave out the baselines
    full_scale : VALUE
        stored value that stands for reflectance 1
    per_scene
        print every scene as well as the mean
    csv : FILE
        write every scene and the means to this file

    Examples
    --------
    napari-mst evaluate cubes/ --input clean
    napari-mst evaluate CAVE/ --wavelengths 400:700
    napari-mst evaluate cubes/ --camera Nikon_D5100 --csv scores.csv
    """
    # Wrong names and empty folders are refused before the first trial, which takes long.
    trials = photos.trials()
    from napari_mst.training import scoring
    from napari_mst.training.scenes import read_scenes, scene_files

    scene_count = len(scene_files(folder))
    if csv:
        check_targets([csv], overwrite=True)
    scores: list[Score] = []
    for acquisition, inputs in trials:
        methods = _methods(acquisition, model, options, not no_baselines)
        judged = scoring.score(methods, inputs, noted(read_scenes(folder, full_scale, reading)))
        total = scene_count * len(inputs) * len(methods)
        title = f"{acquisition.camera} {acquisition.illuminant}" if acquisition is not None else ""
        bar = tqdm(judged, desc=title, total=total, unit="photo")
        scores += [replace(row, scene=f"{row.scene} {title}".rstrip()) for row in bar]
    averages = scoring.means(scores)
    if csv:
        scoring.write_csv(csv, [*scores, *averages])
    rows = scoring.by_input(scores, averages) if per_scene else averages
    print(scoring.table(rows))


def _methods(
    acquisition: Acquisition | None, names: Sequence[str], options: RunOptions, has_baselines: bool
) -> "dict[str, Method]":
    """Return the models with these *names*, and the baselines, for sRGB or an *acquisition*."""
    from napari_mst.training.scoring import BASELINES, ModelMethod, linear_method

    methods: dict[str, Method] = {}
    if has_baselines and acquisition is None:
        methods |= {name: make() for name, make in BASELINES.items()}
    elif has_baselines and acquisition is not None:
        methods["least squares"] = linear_method(acquisition)
    if not names:
        bundled = [card for card in MODELS.values() if card.file and not card.is_example]
        names = [card.name for card in bundled if card.needs_camera == (acquisition is not None)]
    options = replace(options, acquisition=acquisition)
    return methods | {name: ModelMethod(name, options) for name in names}


def noted(scenes: "Iterable[Scene]") -> "Iterator[Scene]":
    """Yield scenes after printing their notes."""
    for scene in scenes:
        for text in scene.notes:
            note(text)
        yield scene


def chosen_inputs(names: Sequence[str], kinds: "Sequence[Input]") -> "list[Input]":
    """Return the *kinds* with these *names*; all if there are no names."""
    if not names:
        return list(kinds)
    by_name = {kind.name: kind for kind in kinds}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        choices = ", ".join(map(repr, by_name))
        raise ModelError(
            f"Expected an input of {choices}, got {', '.join(unknown)!r}. Choose one of them."
        )
    return [by_name[name] for name in names]


TUNING_STEPS = 4_000
"""Steps for tuning a model that has learnt most of its task already."""

FIRST = FitSettings(size=64, learning_rate=1e-3)
"""Default settings of a fit."""

HERE = TrainingPlan()
"""Trains a new network into the default file in the working folder."""


OFFERED = (
    *("batch", "size", "stages", "attention", "window", "norm_before_attention"),
    *("learning_rate", "seed"),
)
"""Settings offered to the user."""


def train_model(
    *,
    plan: TrainingPlan = HERE,
    steps: int | None = None,
    settings: Annotated[FitSettings, OFFERED] = FIRST,
) -> None:
    """Train a model, and print the path of its file.

    Parameters
    ----------
    steps
        number of steps (default: 26000; 4000 with --from)

    Examples
    --------
    napari-mst train --cubes cubes/ --from mstpp-srgb -o mine.safetensors
    napari-mst train --cubes cubes/ --attention window --steps 8000 -o window.safetensors
    napari-mst train --cubes cubes/ --network mst-l -o mst-l.safetensors
    napari-mst train --cubes CAVE/ --wavelengths 400:700 -o cave.safetensors

    Notes
    -----
    Several GPUs or processes: torchrun --nproc-per-node 2 --no-python napari-mst train
    """
    trained(plan, settings, steps)


def trained(
    plan: TrainingPlan,
    settings: FitSettings,
    steps: int | None,
    source: "TrainingSource | None" = None,
) -> None:
    """Train, by default on the cubes of *plan*, and print the path of the file."""
    if plan.start and settings.attention_options:
        raise ModelError(
            "Expected --attention, --window or --norm-before-attention for a new network, got "
            "--from, whose model has its own. Leave one out."
        )
    from napari_mst.training.train import train  # imports torch

    if steps is None:
        steps = TUNING_STEPS if plan.start else FIRST.steps
    # A short fit must not spend all of its steps on warm-up.
    settings = replace(settings, steps=steps, warm_up=min(FIRST.warm_up, steps // 10 + 1))
    # An older file is replaced; this only checks, before hours of work, that it can be written.
    check_targets([plan.output], overwrite=True)
    # With several processes, only the first has written the file.
    if train(plan, settings, source) is not None:
        print(plan.output)
