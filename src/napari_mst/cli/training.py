"""The part of the command line that trains and judges: `napari-mst evaluate` and `train`.

Each `add_` function adds one command to the parser of `napari_mst.cli.main`.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from napari_mst.crash_safe import check_targets
from napari_mst.errors import CameraError, ModelError
from napari_mst.models import MODELS
from napari_mst.photo.cameras import Capture, spelled

if TYPE_CHECKING:
    from napari_mst.evaluation.baselines import Method
    from napari_mst.evaluation.camera_inputs import CameraInput
    from napari_mst.evaluation.degradations import Input
    from napari_mst.evaluation.scenes import Scene


def add_evaluate(commands: Any) -> None:
    """Add `evaluate` to the sub-parsers *commands*."""
    parser = commands.add_parser(
        "evaluate", help="how well models do on real scenes: a folder of reflectance cubes"
    )
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="of cubes of any format, 400-700 nm; or one cube",
    )
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME|FILE",
        help="again for several (default: all bundled)",
    )
    parser.add_argument(
        "--input",
        action="append",
        metavar="NAME",
        help="as clean or 'JPEG 75', again for several (default: all)",
    )
    parser.add_argument(
        "--no-colour-correction",
        action="store_true",
        help="judge the networks' spectra as they are",
    )
    parser.add_argument(
        "--no-baselines", action="store_true", help="leave out the estimates without a network"
    )
    parser.add_argument(
        "--per-scene", action="store_true", help="print every scene, not only the mean"
    )
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="write every scene and the means to this file"
    )
    parser.add_argument(
        "--full-scale",
        type=float,
        metavar="VALUE",
        help="stored value that stands for reflectance 1",
    )
    parser.add_argument(
        "--camera",
        action="append",
        type=spelled,
        metavar="NAME|FILE",
        help="judge mstpp-camera on linear photos of this camera, again for several; held-out: all that it never saw",
    )
    parser.add_argument(
        "--illuminant",
        action="append",
        type=spelled,
        metavar="NAME|FILE",
        help="of these photos, again for several (default: D65)",
    )
    parser.add_argument("--device", default="auto", help="auto (default), cuda, cuda:1, mps or cpu")
    parser.set_defaults(command=_evaluate)


def add_train(commands: Any) -> None:
    """Add `train` to the sub-parsers *commands*."""
    parser = commands.add_parser(
        "train", help="a new model from simulated scenes, or one tuned to your own cubes"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="OUT",
        help="the .safetensors file to write",
    )
    parser.add_argument(
        "--from",
        dest="start",
        default="",
        metavar="NAME|FILE",
        help="the MST++ model to go on from",
    )
    parser.add_argument(
        "--cubes",
        type=Path,
        metavar="FOLDER",
        help="of reflectance cubes (default: simulated scenes)",
    )
    parser.add_argument(
        "--full-scale",
        type=float,
        metavar="VALUE",
        help="stored value that stands for reflectance 1",
    )
    parser.add_argument(
        "--camera",
        default="sRGB",
        type=spelled,
        metavar="NAME|FILE",
        help="sRGB (default), Nikon_D5100, ..., a CSV file: nm, r, g, b; or any: the model is then told the camera "
        "and the light of every photo",
    )
    parser.add_argument(
        "--illuminant",
        "--light",
        dest="light",
        default="D65",
        type=spelled,
        metavar="NAME|FILE",
        help="D65 (default), A, E, ..., or a CSV file: nm, power",
    )
    parser.add_argument(
        "--scenes",
        type=Path,
        metavar="FOLDER",
        help="with --camera any: the accuracy on these goes into the card",
    )
    parser.add_argument("--steps", type=int, help="to take (default: 26000; 4000 with --from)")
    parser.add_argument(
        "--batch", type=int, default=1, help="photos a step and process (default: 1)"
    )
    parser.add_argument(
        "--size", type=int, default=64, help="side of the photos in pixels (default: 64)"
    )
    parser.add_argument("--stages", type=int, default=1, help="of a new network (default: 1)")
    parser.add_argument(
        "--learning-rate",
        type=float,
        default=1e-3,
        metavar="RATE",
        help="at its peak (default: 0.001)",
    )
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument(
        "--patience", type=int, default=0, metavar="N", help="end after N worse reports"
    )
    parser.add_argument("--report-every", type=int, default=500, metavar="STEPS")
    parser.add_argument("--device", default="auto", help="auto (default), cuda, cuda:1, mps or cpu")
    parser.set_defaults(command=_train)


def add_retrain(commands: Any) -> None:
    """Add `retrain` to the sub-parsers *commands*."""
    parser = commands.add_parser("retrain", help="a bundled model, made again as it was made")
    parser.add_argument("name", choices=("mstpp-srgb", "pixelwise-srgb"), metavar="NAME")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="OUT")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--stages", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE")
    parser.add_argument("--scenes", type=Path, metavar="FOLDER")
    parser.set_defaults(command=_retrain)


def add_calibrate(commands: Any) -> None:
    """Add `calibrate` to the sub-parsers *commands*."""
    parser = commands.add_parser("calibrate", help="measure the error band of a model")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.set_defaults(command=_calibrate)


def _retrain(options: argparse.Namespace) -> int:
    from napari_mst.training.fit import FitSettings, fit_to_file
    from napari_mst.training.fit_pixelwise import PixelwiseSettings, fit_pixelwise_to_file

    if options.name == "pixelwise-srgb":
        steps = PixelwiseSettings.steps if options.steps is None else options.steps
        pixelwise = PixelwiseSettings(steps=steps, seed=options.seed)
        fit_pixelwise_to_file(pixelwise, options.output, options.scenes)
        return 0
    steps = FitSettings.steps if options.steps is None else options.steps
    settings = FitSettings(steps=steps, stages=options.stages, seed=options.seed)
    fit_to_file(settings, options.output, options.device, options.checkpoint, options.scenes)
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    from napari_mst.training.calibrate import calibrate

    for file in options.files:
        print(f"{file.name}: factor {calibrate(file).error_factor:g}")
    return 0


def _train(options: argparse.Namespace) -> int:
    from napari_mst.training.fit import FitSettings
    from napari_mst.training.train import Plan, train

    if options.output.suffix != ".safetensors":
        raise ModelError(
            f"Expected a name ending in .safetensors, got {options.output.name}. Add it."
        )
    if (
        min(options.batch, options.stages, options.report_every) < 1
        or options.size % 8
        or options.size < 8
    ):
        raise ModelError(
            "Expected a batch, stages and reports of at least 1 and a size divisible by 8, got others."
        )
    check_targets([options.output], overwrite=True)
    steps = (
        options.steps
        if options.steps is not None
        else 4_000
        if options.start
        else FitSettings.steps
    )
    shared = {
        name: getattr(options, name)
        for name in ("batch", "size", "stages", "learning_rate", "seed")
    }
    names = (
        "output",
        "start",
        "cubes",
        "full_scale",
        "camera",
        "light",
        "scenes",
        "device",
        "patience",
        "report_every",
    )
    card = train(
        Plan(**{name: getattr(options, name) for name in names}),
        FitSettings(steps=steps, warm_up=min(FitSettings.warm_up, steps // 10 + 1), **shared),
    )
    if card is not None:
        print(options.output)
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    from napari_mst.evaluation import tables as judge
    from napari_mst.evaluation.scenes import read_scenes, scene_files

    trials, files = list(_trials(options)), scene_files(options.folder)
    if options.csv:
        check_targets([options.csv], overwrite=True)
    scores = []
    for title, make_methods, inputs in trials:
        methods = make_methods()
        scenes = _told(read_scenes(options.folder, options.full_scale))
        found = judge.score(methods, inputs, scenes)
        bar = tqdm(found, desc=title, total=len(files) * len(inputs) * len(methods), unit="photo")
        scores += [replace(one, scene=f"{one.scene} {title}".rstrip()) for one in bar]
    averages = judge.means(scores)
    if options.csv:
        judge.write_csv(options.csv, [*scores, *averages])
    shown = judge.by_input(scores) if options.per_scene else averages
    print(judge.table(shown))
    if covered := judge.coverage_table(shown):
        print(f"\n{covered}")
    return 0


def _trials(
    options: argparse.Namespace,
) -> "Iterator[tuple[str, Callable[[], dict[str, Method]], Sequence[Input | CameraInput]]]":
    """A title, what to judge, and on which photos: once, or for every camera under every illuminant."""
    from napari_mst.evaluation.camera_inputs import camera_inputs
    from napari_mst.evaluation.degradations import INPUTS

    if options.illuminant and not options.camera:
        raise CameraError("Expected --camera with --illuminant, got none. Add it.")
    if not options.camera:
        yield "", partial(_methods, options), _inputs(options.input or (), INPUTS)
    for camera, light in product(_cameras(options.camera or ()), options.illuminant or ["D65"]):
        capture = Capture(camera, light)
        inputs = _inputs(options.input or (), camera_inputs(capture))
        yield f"{camera} {light}", partial(_camera_methods, options, capture), inputs


def _camera_methods(options: argparse.Namespace, capture: Capture) -> "dict[str, Method]":
    from napari_mst.evaluation.camera_inputs import linear_method
    from napari_mst.evaluation.tables import model_method

    methods: dict[str, Method] = (
        {} if options.no_baselines else {"least squares": linear_method(capture)}
    )
    for name in options.model or ["mstpp-camera"]:
        methods[name] = model_method(
            name, options.device, not options.no_colour_correction, capture
        )
    return methods


def _cameras(names: Sequence[str]) -> list[str]:
    from napari_mst.simulation.camera_scenes import HELD_OUT_CAMERAS

    return [
        camera for name in names for camera in (HELD_OUT_CAMERAS if name == "held-out" else [name])
    ]


def _methods(options: argparse.Namespace) -> "dict[str, Method]":
    from napari_mst.evaluation.baselines import BASELINES
    from napari_mst.evaluation.tables import model_method

    methods: dict[str, Method] = {}
    for name, make in () if options.no_baselines else BASELINES.items():
        try:
            methods[name] = make()
        except ModelError as error:
            _tell(f"note: without {name}: {error}")
    models = options.model or [
        card.name for card in MODELS.values() if card.file and not card.needs_camera
    ]
    is_corrected = not options.no_colour_correction
    return methods | {name: model_method(name, options.device, is_corrected) for name in models}


def _inputs(
    names: Sequence[str], kinds: "Sequence[Input | CameraInput]"
) -> "list[Input | CameraInput]":
    known = {kind.name: kind for kind in kinds}
    if unknown := ", ".join(name for name in names if name not in known):
        raise ModelError(
            f"Expected an input of {', '.join(map(repr, known))}, got {unknown!r}. Choose one of them."
        )
    return [known[name] for name in names] or list(kinds)


def _told(scenes: "Iterable[Scene]") -> "Iterator[Scene]":
    for scene in scenes:
        for note in scene.notes:
            _tell(f"note: {note}")
        yield scene


def _tell(text: str) -> None:
    tqdm.write(text, file=sys.stderr)
