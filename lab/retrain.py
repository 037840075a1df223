"""The bundled models, made again: `python -m lab retrain NAME -o OUT`.

Several GPUs or processes: `torchrun --nproc-per-node 2 -m lab retrain NAME ...`.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from lab.cards import CARD, PIXELWISE_CARD, made_by, save_measured
from lab.command_options import CommandOptions
from lab.fit_camera import CAMERA_SETTINGS, fit_camera_to_file
from lab.fit_light import LightSettings, fit_light_to_file
from lab.fit_photo import PhotoSettings, fit_photo_to_file
from lab.fit_pixelwise import PixelwiseSettings, fit_pixelwise
from lab.simulated import Simulated
from napari_mst.base.errors import ModelError
from napari_mst.cli.arguments import Command
from napari_mst.training.fit import Fit, FitOptions, join_processes
from napari_mst.training.settings import FitSettings


def fit_mstpp_to_file(settings: FitSettings, options: CommandOptions) -> None:
    """Fit `mstpp-srgb`, and write it; of several processes the first writes."""
    device = join_processes(options.device)
    checkpoint = options.output.with_suffix(".checkpoint")
    source = Simulated(settings.seed, settings.size)
    fit = Fit(
        settings, checkpoint, FitOptions(source, device, loader_workers=options.loader_workers)
    )
    network = fit.run(options.report_every)
    if fit.rank == 0:
        said = f"--steps {settings.steps} --stages {settings.stages} --seed {settings.seed}"
        reference = CARD.reference + made_by("mstpp-srgb", said, fit.processes)
        card = replace(CARD, reference=reference)
        save_measured(network, options.output, card, options.scenes)


def fit_pixelwise_to_file(settings: PixelwiseSettings, options: CommandOptions) -> None:
    """Fit `pixelwise-srgb`, and write it."""
    network = fit_pixelwise(settings, options.report_every)
    said = f"--steps {settings.steps} --seed {settings.seed}"
    reference = PIXELWISE_CARD.reference + made_by("pixelwise-srgb", said)
    card = replace(PIXELWISE_CARD, reference=reference)
    save_measured(network, options.output, card, options.scenes)


class Bundled(NamedTuple):
    """A bundled model: the settings that made it, and what fits it and writes its file."""

    settings: Any
    fit_to_file: Callable[[Any, CommandOptions], None]


BUNDLED: Mapping[str, Bundled] = {
    "mstpp-srgb": Bundled(FitSettings(), fit_mstpp_to_file),
    "pixelwise-srgb": Bundled(PixelwiseSettings(), fit_pixelwise_to_file),
    "mstpp-camera": Bundled(CAMERA_SETTINGS, fit_camera_to_file),
    "mstpp-photo": Bundled(PhotoSettings(), fit_photo_to_file),
    "light-vit": Bundled(LightSettings(), fit_light_to_file),
}


def retrain(  # noqa: PLR0913 (its options)
    name: Annotated[str, BUNDLED],
    *,
    output: Annotated[Path, "-o"],
    report_every: int = 500,
    scenes: Path | None = None,
    loader_workers: int = 0,
    device: str = "cpu",
    steps: int | None = None,
    seed: int | None = None,
    stages: int | None = None,
    size: int | None = None,
) -> None:
    """Make a bundled model again, and write its file.

    Parameters
    ----------
    name
        mstpp-srgb, pixelwise-srgb, mstpp-camera, mstpp-photo, light-vit
    output : OUT
        the .safetensors file to write; a checkpoint lies beside it
    report_every : STEPS
        steps between two reports
    scenes : FOLDER
        folder of real scenes: their accuracy goes into the card
    loader_workers : N
        processes that draw photos ahead, for mstpp-srgb
    device
        auto, cuda, cuda:1, mps or cpu
    steps
        number of steps
    seed
        seed of scenes and weights
    stages
        stages of the network
    size
        side of the photos in pixels

    Examples
    --------
    napari-mst retrain mstpp-srgb -o mstpp-srgb.safetensors

    Notes
    -----
    Settings that are not given are those of the bundled model.
    """
    options = CommandOptions(output, report_every, scenes, loader_workers, device)
    model = BUNDLED[name]
    settings = {"steps": steps, "seed": seed, "stages": stages, "size": size}
    chosen = {name: value for name, value in settings.items() if value is not None}
    unknown = chosen.keys() - {field.name for field in fields(model.settings)}
    if unknown:
        raise ModelError(f"Expected settings of {name}, got --{unknown.pop()}. Leave it out.")
    model.fit_to_file(replace(model.settings, **chosen), options)


RETRAIN = Command("retrain", "make a bundled model again, from the same scenes", retrain)
