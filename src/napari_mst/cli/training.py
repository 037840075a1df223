"""The commands `evaluate`, how well models do on real scenes, and `train`, a new or tuned model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tqdm import tqdm

from napari_mst.cli.arguments import DONE
from napari_mst.cli.console import note
from napari_mst.cli.options import FullScale
from napari_mst.crash_safe import check_targets
from napari_mst.errors import CameraError, ModelError
from napari_mst.models import MODELS
from napari_mst.option import Only, Option
from napari_mst.photo.cameras import Capture, spelled
from napari_mst.reconstruction.options import DEFAULTS, RunOptions
from napari_mst.training.settings import FitSettings, TrainingPlan

if TYPE_CHECKING:
    from napari_mst.training.inputs import Input
    from napari_mst.training.scenes import Scene
    from napari_mst.training.tables import Method, Score

    # Camera and light of the photos, "" for sRGB; their kinds; and what loads the methods, which
    # takes time and memory.
    _Trial = tuple[str, Sequence[Input], Callable[[], dict[str, Method]]]

HELD_OUT = "held-out"
"""The word for all cameras that no model was trained with."""


@dataclass(frozen=True)
class Evaluate:
    """Scenes, the models that are judged on photos of them, and the table that is printed."""

    folder: Annotated[
        Path,
        Option(
            "folder of reflectance cubes at 400-700 nm, in any format; or one cube",
            is_positional=True,
        ),
    ]
    model: Annotated[
        tuple[str, ...],
        Option(
            "a model; may be repeated (default: all bundled ones but examples)",
            "NAME|FILE",
            is_repeated=True,
        ),
    ] = ()
    no_baselines: Annotated[bool, Option("leave out the estimates to compare with")] = False
    options: Annotated[RunOptions, Only("correct_colour", "denoise", "device")] = DEFAULTS
    input: Annotated[
        tuple[str, ...],
        Option(
            "a kind of photo, as clean or 'JPEG 75'; may be repeated (default: all)",
            "NAME",
            is_repeated=True,
        ),
    ] = ()
    full_scale: FullScale = None
    camera: Annotated[
        tuple[str, ...],
        Option(
            "judge mstpp-camera on linear photos of this camera; may be repeated; "
            f"{HELD_OUT} stands for all cameras that it was never trained with",
            "NAME|FILE",
            parse=spelled,
            is_repeated=True,
        ),
    ] = ()
    illuminant: Annotated[
        tuple[str, ...],
        Option(
            "light of these photos; may be repeated (default: D65)",
            "NAME|FILE",
            parse=spelled,
            is_repeated=True,
        ),
    ] = ()
    per_scene: Annotated[bool, Option("print every scene, not only the mean")] = False
    csv: Annotated[Path | None, Option("write every scene and the means to this file", "FILE")] = (
        None
    )

    examples = (
        "evaluate cubes/ --input clean",
        "evaluate cubes/ --camera Nikon_D5100 --csv scores.csv",
    )

    def __post_init__(self) -> None:
        if self.illuminant and not self.camera:
            raise CameraError("Expected --camera with --illuminant, got none. Add it.")

    def run(self) -> int:
        """Judge the models, and print the table."""
        from napari_mst.training import tables
        from napari_mst.training.scenes import read_scenes, scene_files

        # A wrong name, or an empty folder, is refused before the first trial, which takes long.
        trials = list(self._trials())
        scene_count = len(scene_files(self.folder))
        if self.csv:
            check_targets([self.csv], overwrite=True)
        scores: list[Score] = []
        for title, inputs, make_methods in trials:
            methods = make_methods()
            scenes = noted(read_scenes(self.folder, self.full_scale))
            judged = tables.score(methods, inputs, scenes)
            total = scene_count * len(inputs) * len(methods)
            bar = tqdm(judged, desc=title, total=total, unit="photo")
            scores += [replace(row, scene=f"{row.scene} {title}".rstrip()) for row in bar]
        averages = tables.means(scores)
        if self.csv:
            tables.write_csv(self.csv, [*scores, *averages])
        rows = tables.by_input(scores, averages) if self.per_scene else averages
        print(tables.table(rows))
        coverage = tables.coverage_table(rows)
        if coverage:
            print(f"\n{coverage}")
        return DONE

    def _trials(self) -> "Iterator[_Trial]":
        """One trial for sRGB photos, or one for every camera under every illuminant."""
        from napari_mst.training.inputs import HELD_OUT_CAMERAS, INPUTS, camera_inputs

        if not self.camera:
            yield "", chosen_inputs(self.input, INPUTS), self._srgb_methods
            return
        named = (HELD_OUT_CAMERAS if name == HELD_OUT else [name] for name in self.camera)
        for camera, light in product(chain(*named), self.illuminant or ["D65"]):
            capture = Capture(camera, light)
            inputs = chosen_inputs(self.input, camera_inputs(capture))
            yield f"{camera} {light}", inputs, partial(self._camera_methods, capture)

    def _srgb_methods(self) -> "dict[str, Method]":
        from napari_mst.training.tables import BASELINES, ModelMethod

        methods: dict[str, Method] = {}
        if not self.no_baselines:
            methods |= {name: make() for name, make in BASELINES.items()}
        bundled = [card for card in MODELS.values() if card.file and not card.is_example]
        names = self.model or [card.name for card in bundled if not card.needs_camera]
        return methods | {name: ModelMethod(name, self.options) for name in names}

    def _camera_methods(self, capture: Capture) -> "dict[str, Method]":
        from napari_mst.training.tables import ModelMethod, linear_method

        methods: dict[str, Method] = {}
        if not self.no_baselines:
            methods["least squares"] = linear_method(capture)
        options = replace(self.options, capture=capture)
        names = self.model or ("mstpp-camera",)
        return methods | {name: ModelMethod(name, options) for name in names}


def noted(scenes: "Iterable[Scene]") -> "Iterator[Scene]":
    """Pass scenes on, after the notes about each are printed."""
    for scene in scenes:
        for text in scene.notes:
            note(text)
        yield scene


def chosen_inputs(names: Sequence[str], kinds: "Sequence[Input]") -> "list[Input]":
    """The *kinds* with these *names*; all if there are no names."""
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
"""Steps for a model that is tuned: it knows most of its task already."""

FIRST = FitSettings(size=64, learning_rate=1e-3)
"""The settings of a fit for which the user chooses none."""


@dataclass(frozen=True)
class Train:
    """A training to run, and the settings of its fit."""

    plan: TrainingPlan = field(default_factory=TrainingPlan)
    steps: Annotated[
        int | None,
        Option(f"number of steps (default: {FIRST.steps}; {TUNING_STEPS} with --from)"),
    ] = None
    attention: Annotated[
        str | None,
        Option(
            "who attends to whom in a new network: spectral (channels, default), window, shifted, "
            "overlapping (pixels of windows), hybrid (spectral and shifted windows), global (all "
            "pixels), none",
            "KIND",
        ),
    ] = None
    settings: Annotated[
        FitSettings,
        Only("batch", "size", "stages", "norm_before_attention", "learning_rate", "seed"),
    ] = FIRST

    examples = (
        "train --cubes cubes/ --from mstpp-srgb -o mine.safetensors",
        "train --attention window --steps 8000 -o window.safetensors",
    )
    more = "Several GPUs or processes: torchrun --nproc-per-node 2 --no-python napari-mst train"

    def __post_init__(self) -> None:
        is_asked_for = (self.attention, self.settings.norm_before_attention) != (None, None)
        if self.plan.start and is_asked_for:
            raise ModelError(
                "Expected --attention or --norm-before-attention for a new network, got --from, "
                "whose model has its own. Leave one out."
            )

    def run(self) -> int:
        """Train the model, and print the path of its file."""
        from napari_mst.training.train import train  # imports torch

        settings = self._settings()
        self._note_padding(settings)
        # An older file is replaced; this only asks, before hours of work, if it can be written.
        check_targets([self.plan.output], overwrite=True)
        # Of several processes, only the first has written the file.
        if train(self.plan, settings) is not None:
            print(self.plan.output)
        return DONE

    def _settings(self) -> FitSettings:
        steps = self.steps
        if steps is None:
            steps = TUNING_STEPS if self.plan.start else FIRST.steps
        return replace(
            self.settings,
            steps=steps,
            attention=self.attention or FIRST.attention,
            # A short fit must not spend all its steps warming up.
            warm_up=min(FIRST.warm_up, steps // 10 + 1),
        )

    def _note_padding(self, settings: FitSettings) -> None:
        """Note that the photos of a new network are padded until windows divide them."""
        from napari_mst.networks.hyperparameters import Hyperparameters  # imports torch

        multiple = Hyperparameters(attention=settings.attention).multiple
        padded = -(-settings.size // multiple) * multiple
        if padded != settings.size and not self.plan.start:
            note(
                f"Windows do not divide photos of {settings.size} x {settings.size}, so the "
                f"network pads them to {padded} x {padded}. --size {padded} takes as long and "
                "shows it more."
            )
