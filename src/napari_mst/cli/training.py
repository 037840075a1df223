"""The commands that make models: `train`, `retrain`, `train-light` and `calibrate`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note
from napari_mst.cli.options import add_device, add_full_scale, add_output
from napari_mst.crash_safe import check_targets
from napari_mst.errors import ModelError
from napari_mst.messages import shown
from napari_mst.photo.cameras import spelled

if TYPE_CHECKING:
    from napari_mst.training.fit import FitSettings
    from napari_mst.training.train import TrainingPlan

TUNING_STEPS = 4_000
"""Steps for a model that is tuned: it knows most of its task already."""

FIRST_ATTENTION = "spectral"
"""The attention of a new network, unless another one is asked for."""

OUTPUT_HELP = "the .safetensors file to write"
PROCESSES = """\
Several GPUs or processes: torchrun --nproc-per-node 2 --no-python napari-mst {} ..."""
RETRAINED = ("mstpp-srgb", "pixelwise-srgb")
"""The bundled models that `retrain` makes; `train --camera any` makes mstpp-camera."""


def _add_train_arguments(parser: argparse.ArgumentParser) -> None:
    add_output(parser, "OUT", OUTPUT_HELP)
    parser.add_argument(
        "--from", dest="start", default="", metavar="NAME|FILE", help="MST++ model to go on from"
    )
    add_device(parser)
    _add_lesson_arguments(parser)
    _add_step_arguments(parser)


def _add_lesson_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which photos and spectra the model learns from."""
    group = parser.add_argument_group("what the model learns from")
    group.add_argument(
        "--cubes",
        type=Path,
        metavar="FOLDER",
        help="folder of reflectance cubes (default: simulated scenes)",
    )
    add_full_scale(parser)
    group.add_argument(
        "--camera",
        default="sRGB",
        type=spelled,
        metavar="NAME|FILE",
        help="sRGB (default), Nikon_D5100, ..., or a CSV file: nm, r, g, b; with `any` the model "
        "is told the camera and the light of every photo",
    )
    group.add_argument(
        "--illuminant",
        "--light",
        dest="light",
        default="D65",
        type=spelled,
        metavar="NAME|FILE",
        help="D65 (default), A, E, ..., or a CSV file: nm, power",
    )
    group.add_argument(
        "--scenes",
        type=Path,
        metavar="FOLDER",
        help="with --camera any: measure the accuracy on these scenes and write it into the card",
    )


def _add_step_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says how the network is fitted, and for how long."""
    group = parser.add_argument_group("how it learns")
    group.add_argument(
        "--steps", type=int, help=f"number of steps (default: 26000; {TUNING_STEPS} with --from)"
    )
    group.add_argument(
        "--batch", type=int, default=1, help="photos for each step and process (default: 1)"
    )
    group.add_argument(
        "--size", type=int, default=64, help="side of the photos in pixels (default: 64)"
    )
    group.add_argument("--stages", type=int, default=1, help="stages of a new network (default: 1)")
    group.add_argument(
        "--attention",
        default=None,
        metavar="KIND",
        help="who attends to whom in a new network: spectral (channels, default), window, shifted, "
        "overlapping (pixels of windows), hybrid (spectral and shifted windows), global (all "
        "pixels), none",
    )
    group.add_argument(
        "--norm-before-attention",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="LayerNorm before attention (default: as published, for all kinds but spectral)",
    )
    group.add_argument(
        "--learning-rate",
        type=float,
        default=1e-3,
        metavar="RATE",
        help="learning rate at its peak (default: 0.001)",
    )
    group.add_argument("--seed", type=int, default=2026, help="(default: 2026)")
    group.add_argument(
        "--patience",
        type=int,
        default=0,
        metavar="N",
        help="end after N reports without a better one (default: never)",
    )
    group.add_argument(
        "--report-every",
        type=int,
        default=500,
        metavar="STEPS",
        help="steps between two reports (default: 500)",
    )
    _add_drawers(group)


def _add_drawers(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--drawers",
        type=int,
        default=0,
        metavar="N",
        help="processes that draw the photos of later steps meanwhile (default: 0, none)",
    )


def _train(arguments: argparse.Namespace) -> int:
    from napari_mst.training.train import train

    _check_weights_name(arguments.output)
    _check_sizes(arguments)
    _check_drawers(arguments)
    _check_attention(arguments)
    _tell_padding(arguments)
    # An older file is replaced; this only asks, before hours of work, whether it can be written.
    check_targets([arguments.output], overwrite=True)
    card = train(_plan(arguments), _settings(arguments))
    # Of several processes, only the first has written the file.
    if card is not None:
        print(arguments.output)
    return DONE


def _check_weights_name(output: Path) -> None:
    if output.suffix != ".safetensors":
        raise ModelError(
            f"Expected a name ending in .safetensors, got {shown(output.name)}. Add it."
        )


def _check_sizes(arguments: argparse.Namespace) -> None:
    smallest = min(arguments.batch, arguments.stages, arguments.report_every)
    # The network works on sides that are multiples of 8, and would pad others.
    if smallest < 1 or arguments.size % 8 or arguments.size < 8:
        raise ModelError(
            "Expected a batch, stages and reports of at least 1 and a size divisible by 8, "
            "got others."
        )


def _check_drawers(arguments: argparse.Namespace) -> None:
    if arguments.drawers < 0:
        raise ModelError(f"Expected --drawers of at least 0, got {arguments.drawers}. Take 0 or 1.")


def _check_attention(arguments: argparse.Namespace) -> None:
    """Refuse a kind of attention that there is not, or one for a model that has its own."""
    from napari_mst.networks.hyperparameters import Hyperparameters

    is_asked_for = (arguments.attention, arguments.norm_before_attention) != (None, None)
    if arguments.start and is_asked_for:
        raise ModelError(
            "Expected --attention or --norm-before-attention for a new network, got --from, whose "
            "model has its own. Leave one out."
        )
    Hyperparameters(attention=arguments.attention or FIRST_ATTENTION)


def _tell_padding(arguments: argparse.Namespace) -> None:
    """Note that the photos of a new network are padded until windows divide them."""
    from napari_mst.networks.hyperparameters import Hyperparameters

    network = Hyperparameters(attention=arguments.attention or FIRST_ATTENTION)
    size = arguments.size
    padded = -(-size // network.multiple) * network.multiple
    if padded != size and not arguments.start:
        note(
            f"Windows do not divide photos of {size} x {size}, so the network pads them to "
            f"{padded} x {padded}. --size {padded} takes as long and shows it more."
        )


def _plan(arguments: argparse.Namespace) -> "TrainingPlan":
    from napari_mst.training.train import TrainingPlan

    return TrainingPlan(
        output=arguments.output,
        start=arguments.start,
        cubes=arguments.cubes,
        full_scale=arguments.full_scale,
        camera=arguments.camera,
        light=arguments.light,
        device=arguments.device,
        scenes=arguments.scenes,
        patience=arguments.patience,
        report_every=arguments.report_every,
        drawers=arguments.drawers,
    )


def _settings(arguments: argparse.Namespace) -> "FitSettings":
    from napari_mst.training.fit import FitSettings

    steps = arguments.steps
    if steps is None:
        steps = TUNING_STEPS if arguments.start else FitSettings.steps
    return FitSettings(
        steps=steps,
        batch=arguments.batch,
        size=arguments.size,
        stages=arguments.stages,
        learning_rate=arguments.learning_rate,
        # A short fit must not spend all its steps warming up.
        warm_up=min(FitSettings.warm_up, steps // 10 + 1),
        seed=arguments.seed,
        attention=arguments.attention or FIRST_ATTENTION,
        norm_before_attention=arguments.norm_before_attention,
    )


def _add_retrain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=RETRAINED, metavar="NAME", help=f"{' or '.join(RETRAINED)}")
    add_output(parser, "OUT", OUTPUT_HELP)
    parser.add_argument(
        "--steps", type=int, help="number of steps (default: as for the bundled model)"
    )
    parser.add_argument("--seed", type=int, default=2026, help="(default: 2026)")
    parser.add_argument(
        "--scenes",
        type=Path,
        metavar="FOLDER",
        help="measure the accuracy on these real scenes and write it into the card",
    )
    group = parser.add_argument_group("for mstpp-srgb")
    group.add_argument("--stages", type=int, default=1, help="stages of the network (default: 1)")
    add_device(parser, "cpu")
    _add_drawers(group)
    group.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="checkpoint to continue from (default: beside the output)",
    )


def _retrain(arguments: argparse.Namespace) -> int:
    _check_weights_name(arguments.output)
    _check_drawers(arguments)
    check_targets([arguments.output], overwrite=True)
    if arguments.name == "pixelwise-srgb":
        _retrain_pixelwise(arguments)
    else:
        _retrain_mstpp(arguments)
    return DONE


def _retrain_pixelwise(arguments: argparse.Namespace) -> None:
    from napari_mst.training.fit_pixelwise import PixelwiseSettings, fit_pixelwise_to_file

    steps = PixelwiseSettings.steps if arguments.steps is None else arguments.steps
    settings = PixelwiseSettings(steps=steps, seed=arguments.seed)
    fit_pixelwise_to_file(settings, arguments.output, arguments.scenes)


def _retrain_mstpp(arguments: argparse.Namespace) -> None:
    from napari_mst.training.fit import FitFiles, FitOptions, FitSettings, fit_to_file

    steps = FitSettings.steps if arguments.steps is None else arguments.steps
    settings = FitSettings(steps=steps, stages=arguments.stages, seed=arguments.seed)
    files = FitFiles(arguments.output, arguments.checkpoint, arguments.scenes)
    fit_to_file(settings, files, arguments.device, FitOptions(drawers=arguments.drawers))


def _add_light_arguments(parser: argparse.ArgumentParser) -> None:
    add_output(parser, "OUT", OUTPUT_HELP)
    parser.add_argument(
        "--steps", type=int, help="number of steps (default: as for the bundled model)"
    )
    parser.add_argument("--seed", type=int, default=2026, help="(default: 2026)")
    parser.add_argument(
        "--report-every",
        type=int,
        default=250,
        metavar="STEPS",
        help="steps between two reports (default: 250)",
    )


def _train_light(arguments: argparse.Namespace) -> int:
    from napari_mst.training.fit_light import LightSettings, fit_light_to_file

    _check_weights_name(arguments.output)
    check_targets([arguments.output], overwrite=True)
    steps = LightSettings.steps if arguments.steps is None else arguments.steps
    if min(steps, arguments.report_every) < 1:
        raise ModelError("Expected at least one step, and one between reports, got none. Add some.")
    settings = LightSettings(steps=steps, seed=arguments.seed)
    fit_light_to_file(settings, arguments.output, arguments.report_every)
    print(arguments.output)
    return DONE


def _add_calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="weights file with a card (.safetensors); its card is changed",
    )


def _calibrate(arguments: argparse.Namespace) -> int:
    from napari_mst.training.calibrate import calibrate

    for file in arguments.files:
        card = calibrate(file)
        print(file.name, flush=True)
        for kind, numbers in card.error_band.items():
            by_band = " ".join(f"{number:.2f}" for number in numbers)
            print(f"  {kind:7} {by_band}", flush=True)
    return DONE


TRAIN = Command(
    name="train",
    help="train a new model, or tune one to your own cubes",
    add_arguments=_add_train_arguments,
    run=_train,
    epilog=PROCESSES.format("train"),
)
RETRAIN = Command(
    name="retrain",
    help="make a bundled model again, from the same simulated scenes",
    add_arguments=_add_retrain_arguments,
    run=_retrain,
    epilog=PROCESSES.format("retrain"),
)
TRAIN_LIGHT = Command(
    name="train-light",
    help="train the network that tells the light of a photo",
    add_arguments=_add_light_arguments,
    run=_train_light,
)
CALIBRATE = Command(
    name="calibrate",
    help="measure the error band of a model and write it into its file",
    add_arguments=_add_calibrate_arguments,
    run=_calibrate,
)
