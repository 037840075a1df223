"""The command `evaluate`: how well models do on real scenes, as a table."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note
from napari_mst.cli.options import add_denoise, add_device, add_full_scale
from napari_mst.crash_safe import check_targets
from napari_mst.errors import CameraError, ModelError, SpectrumError
from napari_mst.messages import shown
from napari_mst.models import MODELS
from napari_mst.photo.cameras import Capture, spelled

if TYPE_CHECKING:
    from napari_mst.evaluation.inputs import PhotoKind
    from napari_mst.evaluation.methods import Method
    from napari_mst.evaluation.scenes import Scene
    from napari_mst.evaluation.tables import Score
    from napari_mst.reconstruction.reconstructor import Reconstructor

_EPILOG = """\
columns with --known:
  worst      MRAE after over before, in the scene where this is largest
  coverage   share of true values in the 90 % error band, all bands
  least      the same, in the band that has the smallest share
  width      mean width of the error band over the estimate
"""

HELD_OUT = "held-out"
"""The word for all cameras that no model was trained with."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="folder of reflectance cubes at 400-700 nm, in any format; or one cube",
    )
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME|FILE",
        help="a model; may be repeated (default: all bundled ones but examples)",
    )
    parser.add_argument(
        "--no-baselines", action="store_true", help="leave out the estimates to compare with"
    )
    parser.add_argument(
        "--no-colour-correction",
        action="store_true",
        help="judge the spectra of the networks as they are",
    )
    add_denoise(parser)
    add_device(parser)
    _add_photo_arguments(parser)
    _add_known_arguments(parser)
    _add_table_arguments(parser)


def _add_photo_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says on which photos of the scenes the models are judged."""
    parser.add_argument(
        "--input",
        action="append",
        metavar="NAME",
        help="a kind of photo, as clean or 'JPEG 75'; may be repeated (default: all)",
    )
    add_full_scale(parser)
    parser.add_argument(
        "--camera",
        action="append",
        type=spelled,
        metavar="NAME|FILE",
        help="judge mstpp-camera on linear photos of this camera; may be repeated; "
        f"{HELD_OUT} stands for all cameras that it was never trained with",
    )
    parser.add_argument(
        "--illuminant",
        action="append",
        type=spelled,
        metavar="NAME|FILE",
        help="light of these photos; may be repeated (default: D65)",
    )


def _add_known_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says how many spectra of each scene are known."""
    parser.add_argument(
        "--known",
        metavar="COUNTS",
        help="as 0,1,4,24: correct each cube by so many true spectra of its scene, at random spots "
        "of 3 x 3 pixels, and judge that (clean photos, if no --input is given)",
    )
    parser.add_argument(
        "--suggested",
        action="store_true",
        help="with --known: the spots that `napari-mst adapt --suggest` would give",
    )


def _counts(text: str) -> tuple[int, ...]:
    """Numbers of known spectra from "0,1,4", each one once."""
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise SpectrumError(
            f"Expected numbers of known spectra, got {shown(text)!r}. Give them as 0,1,4,24."
        ) from None


def _add_table_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--per-scene", action="store_true", help="print every scene, not only the mean"
    )
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="write every scene and the means to this file"
    )


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


def _run(arguments: argparse.Namespace) -> int:
    if arguments.known is not None or arguments.suggested:
        return _run_known(arguments)
    return _run_models(arguments)


def _run_models(arguments: argparse.Namespace) -> int:
    from napari_mst.evaluation import tables

    # A wrong name is refused here, before the first trial, which takes long.
    trials = list(_trials(arguments))
    scene_count = _checked_scene_count(arguments)
    scores = []
    for trial in trials:
        scores += _scores(trial, arguments, scene_count)
    _tell(arguments, scores, tables.means(scores), tables.LABELS)
    return DONE


def _run_known(arguments: argparse.Namespace) -> int:
    from napari_mst.evaluation import known_spectra
    from napari_mst.evaluation.inputs import INPUTS
    from napari_mst.evaluation.scenes import read_scenes

    _check_known(arguments)
    plan = known_spectra.SpotPlan(_counts(arguments.known), arguments.suggested)
    inputs = _chosen_inputs(arguments.input or [INPUTS[0].name], INPUTS)
    scene_count = _checked_scene_count(arguments)
    models = _reconstructors(arguments)
    scenes = _noted(read_scenes(arguments.folder, arguments.full_scale))
    found = known_spectra.score(models, inputs, scenes, plan)
    total = scene_count * len(inputs) * len(models) * len(plan.counts)
    scores = list(tqdm(found, desc="known spectra", total=total, unit="cube"))
    _tell(arguments, scores, known_spectra.means(scores), known_spectra.LABELS)
    return DONE


def _check_known(arguments: argparse.Namespace) -> None:
    """Refuse arguments that do not go together, before anything is read."""
    if arguments.known is None:
        raise SpectrumError("Expected --known with --suggested, got none. Add --known 0,1,4,24.")
    if arguments.camera or arguments.illuminant:
        raise SpectrumError(
            "Expected sRGB photos with --known, got --camera or --illuminant. Leave them out."
        )


def _checked_scene_count(arguments: argparse.Namespace) -> int:
    """Counts the scenes, after the folder and the file of the table were found to be usable."""
    from napari_mst.evaluation.scenes import scene_files

    files = scene_files(arguments.folder)
    if arguments.csv:
        check_targets([arguments.csv], overwrite=True)
    return len(files)


def _tell(
    arguments: argparse.Namespace,
    scores: "Sequence[Score]",
    averages: "Sequence[Score]",
    labels: Sequence[str],
) -> None:
    """Write the table to its file, and print it."""
    from napari_mst.evaluation import tables

    if arguments.csv:
        tables.write_csv(arguments.csv, [*scores, *averages], labels)
    rows = tables.by_input(scores, averages) if arguments.per_scene else averages
    print(tables.table(rows))
    coverage = tables.coverage_table(rows)
    if coverage:
        print(f"\n{coverage}")


def _scores(trial: _Trial, arguments: argparse.Namespace, scene_count: int) -> "list[Score]":
    """Judge every method of *trial* on every input and scene, with a progress bar."""
    from napari_mst.evaluation.scenes import read_scenes
    from napari_mst.evaluation.tables import score

    methods = trial.make_methods()
    scenes = _noted(read_scenes(arguments.folder, arguments.full_scale))
    total = scene_count * len(trial.inputs) * len(methods)
    found = score(methods, trial.inputs, scenes)
    bar = tqdm(found, desc=trial.title, total=total, unit="photo")
    return [replace(one, scene=f"{one.scene} {trial.title}".rstrip()) for one in bar]


def _noted(scenes: "Iterable[Scene]") -> "Iterator[Scene]":
    """Pass scenes on, after the notes about each are told."""
    for scene in scenes:
        for text in scene.notes:
            note(text)
        yield scene


def _trials(arguments: argparse.Namespace) -> Iterator[_Trial]:
    """One trial for sRGB photos, or one for every camera under every illuminant."""
    from napari_mst.evaluation.inputs import INPUTS, camera_inputs

    wanted = arguments.input or ()
    if arguments.illuminant and not arguments.camera:
        raise CameraError("Expected --camera with --illuminant, got none. Add it.")
    if not arguments.camera:
        yield _Trial("", partial(_srgb_methods, arguments), _chosen_inputs(wanted, INPUTS))
        return
    lights = arguments.illuminant or ["D65"]
    for camera, light in product(_cameras(arguments.camera), lights):
        capture = Capture(camera, light)
        inputs = _chosen_inputs(wanted, camera_inputs(capture))
        yield _Trial(f"{camera} {light}", partial(_camera_methods, arguments, capture), inputs)


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


def _srgb_methods(arguments: argparse.Namespace) -> "dict[str, Method]":
    from napari_mst.evaluation.methods import BASELINES, ModelMethod

    methods: dict[str, Method] = {}
    if not arguments.no_baselines:
        methods |= {name: make() for name, make in BASELINES.items()}
    is_corrected = not arguments.no_colour_correction
    for name in _srgb_models(arguments):
        methods[name] = ModelMethod(name, arguments.device, is_corrected, denoise=arguments.denoise)
    return methods


def _srgb_models(arguments: argparse.Namespace) -> list[str]:
    """The models that were asked for; by default all bundled ones for sRGB photos, no examples."""
    bundled = [card for card in MODELS.values() if card.file and not card.is_example]
    return arguments.model or [card.name for card in bundled if not card.needs_camera]


def _reconstructors(arguments: argparse.Namespace) -> "dict[str, Reconstructor]":
    """The models that make the cubes which known spectra correct."""
    from napari_mst.evaluation.methods import RENDERED
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    is_corrected = not arguments.no_colour_correction
    found = {}
    for name in _srgb_models(arguments):
        model = load_model(name)
        found[name] = Reconstructor(
            model,
            arguments.device,
            correct_colour=is_corrected,
            calibrated_by=RENDERED,
            denoise=arguments.denoise,
        )
    return found


def _camera_methods(arguments: argparse.Namespace, capture: Capture) -> "dict[str, Method]":
    from napari_mst.evaluation.methods import ModelMethod, linear_method

    methods: dict[str, Method] = {}
    if not arguments.no_baselines:
        methods["least squares"] = linear_method(capture)
    is_corrected = not arguments.no_colour_correction
    for name in arguments.model or ["mstpp-camera"]:
        methods[name] = ModelMethod(
            name, arguments.device, is_corrected, capture, arguments.denoise
        )
    return methods


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


EVALUATE = Command(
    name="evaluate",
    help="measure how well models do on real scenes",
    add_arguments=_add_arguments,
    run=_run,
    epilog=_EPILOG,
)
