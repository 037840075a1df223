"""The command `evaluate`: how well models do on real scenes, as a table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tqdm import tqdm

from napari_mst.cli.command import DONE
from napari_mst.cli.console import note
from napari_mst.cli.options import FullScale
from napari_mst.crash_safe import check_targets
from napari_mst.errors import CameraError, ModelError, SpectrumError
from napari_mst.messages import shown
from napari_mst.models import MODELS
from napari_mst.option import Only, Option
from napari_mst.photo.cameras import Capture, spelled
from napari_mst.reconstruction.options import DEFAULTS, RunOptions

if TYPE_CHECKING:
    from napari_mst.evaluation.inputs import PhotoKind
    from napari_mst.evaluation.methods import Method
    from napari_mst.evaluation.scenes import Scene
    from napari_mst.evaluation.tables import Score
    from napari_mst.reconstruction.reconstructor import Reconstructor

HELD_OUT = "held-out"
"""The word for all cameras that no model was trained with."""


def _counts(text: str) -> tuple[int, ...]:
    """Numbers of known spectra from "0,1,4", each one once."""
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise ValueError(
            f"Expected numbers of known spectra, got {shown(text)!r}. Give them as 0,1,4,24."
        ) from None


@dataclass(frozen=True)
class _Trial:
    """Methods to judge on the same photos of every scene.

    Attributes
    ----------
    title
        Camera and light of the photos; "" for sRGB.
    make_methods
        Loads the methods, which takes time and memory.
    inputs
        The kinds of photos.
    """

    title: str
    make_methods: "Callable[[], dict[str, Method]]"
    inputs: "Sequence[PhotoKind]"


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
    known: Annotated[
        tuple[int, ...] | None,
        Option(
            "as 0,1,4,24: correct each cube by this many true spectra of its scene, at random "
            "spots of 3 x 3 pixels, and judge that (clean photos, if no --input is given)",
            "COUNTS",
            parse=_counts,
        ),
    ] = None
    suggested: Annotated[
        bool, Option("with --known: the spots that `napari-mst adapt --suggest` would give")
    ] = False
    per_scene: Annotated[bool, Option("print every scene, not only the mean")] = False
    csv: Annotated[Path | None, Option("write every scene and the means to this file", "FILE")] = (
        None
    )

    examples = (
        "evaluate cubes/ --input clean",
        "evaluate cubes/ --known 0,4,24 --suggested --csv known.csv",
    )
    more = """\
columns with --known:
  worst      MRAE after over before, in the scene where this is largest
  coverage   share of true values in the 90 % error band, all bands
  least      the same, in the band that has the smallest share
  width      mean width of the error band over the estimate"""

    def __post_init__(self) -> None:
        if self.suggested and self.known is None:
            raise SpectrumError(
                "Expected --known with --suggested, got none. Add --known 0,1,4,24."
            )
        if self.known is not None and (self.camera or self.illuminant):
            raise SpectrumError(
                "Expected sRGB photos with --known, got --camera or --illuminant. Leave them out."
            )
        if self.illuminant and not self.camera:
            raise CameraError("Expected --camera with --illuminant, got none. Add it.")

    def run(self) -> int:
        """Judge the models, and print the table."""
        return self._run_models() if self.known is None else self._run_known(self.known)

    def _run_models(self) -> int:
        from napari_mst.evaluation import tables

        # A wrong name is refused here, before the first trial, which takes long.
        trials = list(self._trials())
        scene_count = self._checked_scene_count()
        scores = []
        for trial in trials:
            scores += self._scores(trial, scene_count)
        self._print(scores, tables.means(scores), tables.LABELS)
        return DONE

    def _run_known(self, counts: tuple[int, ...]) -> int:
        from napari_mst.evaluation import known_spectra
        from napari_mst.evaluation.inputs import INPUTS
        from napari_mst.evaluation.scenes import read_scenes

        plan = known_spectra.SpotPlan(counts, self.suggested)
        inputs = _chosen_inputs(self.input or [INPUTS[0].name], INPUTS)
        scene_count = self._checked_scene_count()
        models = self._reconstructors()
        scenes = _noted(read_scenes(self.folder, self.full_scale))
        found = known_spectra.score(models, inputs, scenes, plan)
        total = scene_count * len(inputs) * len(models) * len(plan.counts)
        scores = list(tqdm(found, desc="known spectra", total=total, unit="cube"))
        self._print(scores, known_spectra.means(scores), known_spectra.LABELS)
        return DONE

    def _checked_scene_count(self) -> int:
        """Counts the scenes, after the folder and the file of the table were found to be usable."""
        from napari_mst.evaluation.scenes import scene_files

        files = scene_files(self.folder)
        if self.csv:
            check_targets([self.csv], overwrite=True)
        return len(files)

    def _print(
        self,
        scores: "Sequence[Score]",
        averages: "Sequence[Score]",
        labels: Sequence[str],
    ) -> None:
        """Write the table to its file, and print it."""
        from napari_mst.evaluation import tables

        if self.csv:
            tables.write_csv(self.csv, [*scores, *averages], labels)
        rows = tables.by_input(scores, averages) if self.per_scene else averages
        print(tables.table(rows))
        coverage = tables.coverage_table(rows)
        if coverage:
            print(f"\n{coverage}")

    def _scores(self, trial: _Trial, scene_count: int) -> "list[Score]":
        """Judge every method of *trial* on every input and scene, with a progress bar."""
        from napari_mst.evaluation.scenes import read_scenes
        from napari_mst.evaluation.tables import score

        methods = trial.make_methods()
        scenes = _noted(read_scenes(self.folder, self.full_scale))
        total = scene_count * len(trial.inputs) * len(methods)
        found = score(methods, trial.inputs, scenes)
        bar = tqdm(found, desc=trial.title, total=total, unit="photo")
        return [replace(one, scene=f"{one.scene} {trial.title}".rstrip()) for one in bar]

    def _trials(self) -> Iterator[_Trial]:
        """One trial for sRGB photos, or one for every camera under every illuminant."""
        from napari_mst.evaluation.inputs import INPUTS, camera_inputs

        wanted = self.input or ()
        if not self.camera:
            yield _Trial("", self._srgb_methods, _chosen_inputs(wanted, INPUTS))
            return
        lights = self.illuminant or ["D65"]
        for camera, light in product(_cameras(self.camera), lights):
            capture = Capture(camera, light)
            inputs = _chosen_inputs(wanted, camera_inputs(capture))
            yield _Trial(f"{camera} {light}", partial(self._camera_methods, capture), inputs)

    def _srgb_methods(self) -> "dict[str, Method]":
        from napari_mst.evaluation.methods import BASELINES, ModelMethod

        methods: dict[str, Method] = {}
        if not self.no_baselines:
            methods |= {name: make() for name, make in BASELINES.items()}
        return methods | {name: ModelMethod(name, self.options) for name in self._srgb_models()}

    def _srgb_models(self) -> tuple[str, ...]:
        """Return the models of the user, or all bundled ones for sRGB photos but examples."""
        bundled = [card for card in MODELS.values() if card.file and not card.is_example]
        return self.model or tuple(card.name for card in bundled if not card.needs_camera)

    def _reconstructors(self) -> "dict[str, Reconstructor]":
        """The models that make the cubes which known spectra correct."""
        from napari_mst.evaluation.methods import RENDERED
        from napari_mst.models import load_model
        from napari_mst.reconstruction.reconstructor import Reconstructor

        options = vars(replace(self.options, calibrated_by=RENDERED))
        return {name: Reconstructor(load_model(name), **options) for name in self._srgb_models()}

    def _camera_methods(self, capture: Capture) -> "dict[str, Method]":
        from napari_mst.evaluation.methods import ModelMethod, linear_method

        methods: dict[str, Method] = {}
        if not self.no_baselines:
            methods["least squares"] = linear_method(capture)
        options = replace(self.options, capture=capture)
        names = self.model or ("mstpp-camera",)
        return methods | {name: ModelMethod(name, options) for name in names}


def _noted(scenes: "Iterable[Scene]") -> "Iterator[Scene]":
    """Pass scenes on, after the notes about each are told."""
    for scene in scenes:
        for text in scene.notes:
            note(text)
        yield scene


def _cameras(names: Sequence[str]) -> list[str]:
    """The cameras that are meant by *names*."""
    from napari_mst.evaluation.inputs import HELD_OUT_CAMERAS

    cameras: list[str] = []
    for name in names:
        if name == HELD_OUT:
            cameras.extend(HELD_OUT_CAMERAS)
        else:
            cameras.append(name)
    return cameras


def _chosen_inputs(names: Sequence[str], kinds: "Sequence[PhotoKind]") -> "list[PhotoKind]":
    """The *kinds* with these *names*; all if there are no names."""
    if not names:
        return list(kinds)
    known = {kind.name: kind for kind in kinds}
    unknown = [name for name in names if name not in known]
    if unknown:
        choices = ", ".join(map(repr, known))
        raise ModelError(
            f"Expected an input of {choices}, got {', '.join(unknown)!r}. Choose one of them."
        )
    return [known[name] for name in names]
