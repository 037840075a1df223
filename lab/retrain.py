"""The bundled models, made again: `python -m lab retrain NAME -o OUT`.

Several GPUs or processes: `torchrun --nproc-per-node 2 -m lab retrain NAME ...`.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.cards import CARD, PIXELWISE_CARD, made_by, save_measured
from lab.fit_camera import CAMERA_SETTINGS, fit_camera_to_file
from lab.fit_light import LightSettings, fit_light_to_file
from napari_mst.cli.command import DONE, Command
from napari_mst.cli.options import add_device, add_output
from napari_mst.crash_safe import check_targets
from napari_mst.errors import ModelError
from napari_mst.training.fit import Fit, FitOptions, FitSettings, join_processes, pixelwise_network
from napari_mst.training.fit_pixelwise import PixelwiseSettings, fit_pixelwise
from napari_mst.training.train import check_weights_name

CHOSEN = ("steps", "seed", "stages", "size")
"""The settings that have an option of the command."""


def fit_mstpp_to_file(settings: FitSettings, arguments: argparse.Namespace) -> None:
    """Fit `mstpp-srgb`, and write it; of several processes the first writes."""
    device = join_processes(arguments.device)
    checkpoint = arguments.output.with_suffix(".checkpoint")
    options = FitOptions(drawers=arguments.drawers)
    fit = Fit(settings, checkpoint, pixelwise_network(), device, options)
    network = fit.run(arguments.report_every)
    if fit.rank == 0:
        said = f"--steps {settings.steps} --stages {settings.stages} --seed {settings.seed}"
        reference = CARD.reference + made_by("mstpp-srgb", said, fit.processes)
        card = replace(CARD, reference=reference)
        save_measured(network, arguments.output, card, arguments.scenes)


def fit_pixelwise_to_file(settings: PixelwiseSettings, arguments: argparse.Namespace) -> None:
    """Fit `pixelwise-srgb`, and write it."""
    network = fit_pixelwise(settings, arguments.report_every)
    said = f"--steps {settings.steps} --seed {settings.seed}"
    reference = PIXELWISE_CARD.reference + made_by("pixelwise-srgb", said)
    card = replace(PIXELWISE_CARD, reference=reference)
    save_measured(network, arguments.output, card, arguments.scenes)


class Bundled(NamedTuple):
    """A bundled model: the settings that made it, and what fits it and writes its file."""

    settings: Any
    fit_to_file: Callable[[Any, argparse.Namespace], None]


BUNDLED: Mapping[str, Bundled] = {
    "mstpp-srgb": Bundled(FitSettings(), fit_mstpp_to_file),
    "pixelwise-srgb": Bundled(PixelwiseSettings(), fit_pixelwise_to_file),
    "mstpp-camera": Bundled(CAMERA_SETTINGS, fit_camera_to_file),
    "light-vit": Bundled(LightSettings(), fit_light_to_file),
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=BUNDLED, metavar="NAME", help=", ".join(BUNDLED))
    add_output(parser, "OUT", "the .safetensors file to write; a checkpoint lies beside it")
    for name in CHOSEN:
        parser.add_argument(f"--{name}", type=int, help="(default: as for the bundled model)")
    parser.add_argument("--report-every", type=int, default=500, metavar="STEPS")
    parser.add_argument(
        "--scenes", type=Path, help="folder of real scenes: their accuracy goes into the card"
    )
    parser.add_argument(
        "--drawers", type=int, default=0, help="processes that draw photos ahead, for mstpp-srgb"
    )
    add_device(parser, "cpu")


def _run(arguments: argparse.Namespace) -> int:
    check_weights_name(arguments.output)
    check_targets([arguments.output], overwrite=True)
    model = BUNDLED[arguments.name]
    chosen = {name: getattr(arguments, name) for name in CHOSEN}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    unknown = chosen.keys() - {field.name for field in fields(model.settings)}
    if unknown:
        raise ModelError(
            f"Expected settings of {arguments.name}, got --{unknown.pop()}. Leave it out."
        )
    model.fit_to_file(replace(model.settings, **chosen), arguments)
    return DONE


RETRAIN = Command(
    name="retrain",
    help="make a bundled model again, from the same simulated scenes",
    add_arguments=_add_arguments,
    run=_run,
)
