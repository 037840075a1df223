"""The command `train`: a new model, or one tuned to the cubes of the user."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note
from napari_mst.cli.options import add_device, add_full_scale, add_output
from napari_mst.crash_safe import check_targets
from napari_mst.errors import ModelError
from napari_mst.photo.cameras import spelled

if TYPE_CHECKING:
    from napari_mst.training.fit import FitSettings

TUNING_STEPS = 4_000
"""Steps for a model that is tuned: it knows most of its task already."""

FIRST_ATTENTION = "spectral"
"""The attention of a new network, unless another one is asked for."""


def _add_train_arguments(parser: argparse.ArgumentParser) -> None:
    add_output(parser, "OUT", "the .safetensors file to write")
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
        help="sRGB (default), Nikon_D5100, ..., or a CSV file: nm, r, g, b",
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
    group.add_argument(
        "--drawers",
        type=int,
        default=0,
        metavar="N",
        help="processes that draw the photos of later steps meanwhile (default: 0, none)",
    )


def _train(arguments: argparse.Namespace) -> int:
    from napari_mst.training.train import TrainingPlan, train

    names = [field.name for field in fields(TrainingPlan)]
    plan = TrainingPlan(**{name: getattr(arguments, name) for name in names})
    settings = _settings(arguments)
    _check_attention(arguments)
    _tell_padding(arguments)
    # An older file is replaced; this only asks, before hours of work, whether it can be written.
    check_targets([plan.output], overwrite=True)
    card = train(plan, settings)
    # Of several processes, only the first has written the file.
    if card is not None:
        print(arguments.output)
    return DONE


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


TRAIN = Command(
    name="train",
    help="train a new model, or tune one to your own cubes",
    add_arguments=_add_train_arguments,
    run=_train,
    epilog="Several GPUs or processes: torchrun --nproc-per-node 2 --no-python napari-mst train",
)
