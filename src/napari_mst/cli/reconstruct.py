"""The command `reconstruct`: photos to cubes, one or a whole batch."""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.batch import cluster, processes
from napari_mst.batch.finding import FOLDERS, find_photos
from napari_mst.batch.jobs import (
    BatchJob,
    band_targets,
    check_names,
    check_outputs,
    folders_for,
    may_stay,
    plan_jobs,
)
from napari_mst.cli.command import Command
from napari_mst.cli.console import tell
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.making import Outcomes, Run, finished_before, make_elsewhere, make_here
from napari_mst.cli.options import (
    add_denoise,
    add_device,
    add_model,
    add_output,
    add_overwrite,
    add_region,
    gigabytes,
)
from napari_mst.cli.photos import PhotoOptions, add_photo_arguments, load_reconstructor
from napari_mst.errors import ModelError, SaveError
from napari_mst.formats import FORMATS
from napari_mst.memory import free_host_memory
from napari_mst.messages import shown
from napari_mst.reconstruction.options import RunOptions

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor

SUFFIXES = {form.name: form.suffixes[0] for form in FORMATS if form.suffixes}
"""The suffix of the cubes in a folder, by the name of the format."""

BATCHES = """\
A run into a folder that was interrupted goes on when you start it again: cubes
that are there, undamaged and of the same photo, model and options, stay.
Several such runs at once share the work."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "photos",
        nargs="+",
        type=Path,
        metavar="PHOTO",
        help="a file, a folder (searched with all folders in it) or a pattern, as '*.png'",
    )
    add_output(
        parser,
        "OUT",
        "a file (.hdr, .tif, ...); for several photos a folder, which is made if it is missing "
        "and mirrors the folders of the photos",
    )
    parser.add_argument(
        "--format", choices=SUFFIXES, help="format of the cubes in a folder (default: envi)"
    )
    add_overwrite(
        parser,
        "replace existing cubes; in a folder, the cubes that this very run has made stay",
    )
    add_model(parser)
    _add_run_arguments(parser)
    _add_result_arguments(parser)
    add_photo_arguments(parser)
    _add_worker_arguments(parser)


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says where and how exactly the network runs."""
    add_device(parser)
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float16", "float64"),
        default="float32",
        help="float64 is the reference; bfloat16 and float16 keep features in half the memory, "
        "with an error that is measured on each photo (default: float32)",
    )
    parser.add_argument(
        "--memory",
        type=gigabytes,
        metavar="GB",
        help="most memory of this computer to use (default: most of what is free)",
    )
    parser.add_argument(
        "--device-memory",
        type=gigabytes,
        metavar="GB",
        help="most memory of the GPU to use (default: most of what is free)",
    )


def _add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which numbers come out."""
    add_region(parser)
    parser.add_argument(
        "--ensemble",
        action="store_true",
        help="average over 8 flips and transposes, as published; takes 8 times as long",
    )
    add_denoise(parser)
    parser.add_argument(
        "--no-colour-correction",
        action="store_true",
        help="leave the network's spectra as they are",
    )
    parser.add_argument(
        "--error-bands",
        action="store_true",
        help="also write the lower and upper spectra that hold 90 %% of true values: "
        "OUT_lower, OUT_upper",
    )
    parser.add_argument(
        "--calibrated-by",
        default="",
        metavar="WHAT",
        help="what tells that the photos show colours exactly, as 'profile of a chart': error "
        "bands are then narrower and say so (default: nothing does)",
    )


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which processes make the cubes of a folder."""
    group = parser.add_argument_group(
        "many photos", "cubes in a folder may be made by several processes"
    )
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--workers",
        type=_count,
        default=0,
        metavar="N",
        help="processes of this computer; each takes --memory, by default a share of what is free",
    )
    which.add_argument(
        "--scheduler",
        default="",
        metavar="ADDRESS",
        help="scheduler of a dask cluster, as tls://host:8786; its workers must see the same "
        "folders, and whoever can connect to it can run code in them",
    )


def _count(text: str) -> int:
    """A number of processes, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"Expected a number of processes from 1, got {text!r}.")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    jobs, is_batch = _plan(arguments)
    with folders_for(jobs if is_batch else ()):
        with asked_to_stop():
            # A file is made for a moment to see whether it can be: Ctrl-C must not leave it.
            _check(jobs, arguments.overwrite, is_batch)
        photos = PhotoOptions.from_arguments(arguments, [job.photo for job in jobs])
        options = _run_options(arguments, photos)
        reconstructor = _reconstructor(arguments, options)
        run = Run(reconstructor, options, photos, arguments.overwrite, is_batch)
        done = finished_before(run, jobs)
        outcomes = _elsewhere(arguments)
        if outcomes is None:
            return make_here(run, jobs, done)
        return make_elsewhere(run, jobs, done, outcomes)


def _elsewhere(arguments: argparse.Namespace) -> Outcomes | None:
    """The workers that make the cubes; None if this process does."""
    if arguments.workers:
        return partial(processes.outcomes, workers=arguments.workers, tell=tell)
    if arguments.scheduler:
        return partial(cluster.outcomes, scheduler=arguments.scheduler)
    return None


def _plan(arguments: argparse.Namespace) -> tuple[list[BatchJob], bool]:
    """The cubes to make, and whether they go into a folder, where finished cubes stay."""
    output: Path = arguments.output
    found = find_photos(arguments.photos, output, tell)
    # os.path, since Path.is_dir raises where a name is too long
    names_a_folder = any(os.path.isdir(path) for path in arguments.photos)  # noqa: PTH112
    is_folder = os.path.isdir(output) and output.suffix.lower() not in FOLDERS  # noqa: PTH112
    if is_folder or names_a_folder or len(found) > 1:
        if not is_folder and output.suffix.lower() in SUFFIXES.values():
            raise SaveError(
                f"Expected a folder for several cubes, got {shown(output.name)}. "
                "Leave its suffix out."
            )
        suffix = SUFFIXES[arguments.format or "envi"]
        return plan_jobs(found, output, suffix, arguments.error_bands), True
    if arguments.format:
        raise SaveError(
            f"Expected a folder with --format, got {shown(output.name)}. "
            "Let its suffix say the format."
        )
    bands = band_targets(output) if arguments.error_bands else ()
    return [BatchJob(one.photo, output, one.photo.name, bands) for one in found], False


def _check(jobs: Sequence[BatchJob], overwrite: bool, is_batch: bool) -> None:
    """Refuse before computing what would fail after it, or cost a cube or a photo."""
    check_names(jobs)
    for job in jobs:
        check_outputs(job, overwrite, may_stay(job) if is_batch else ())


def _run_options(arguments: argparse.Namespace, photos: PhotoOptions) -> RunOptions:
    return RunOptions(
        device=arguments.device,
        memory=_memory(arguments),
        device_memory=arguments.device_memory,
        precision=arguments.precision,
        denoise=arguments.denoise,
        correct_colour=not arguments.no_colour_correction,
        capture=photos.capture,
        calibrated_by=arguments.calibrated_by,
        region=arguments.region,
        ensemble=arguments.ensemble,
    )


def _memory(arguments: argparse.Namespace) -> int | None:
    """The most memory that one process may take, in bytes; None for most of what is free."""
    workers: int = arguments.workers
    memory: int | None = arguments.memory
    if memory is None and workers:
        return free_host_memory() // workers
    return memory


def _reconstructor(arguments: argparse.Namespace, options: RunOptions) -> "Reconstructor":
    reconstructor = load_reconstructor(arguments.model, options)
    if arguments.error_bands and not reconstructor.model.card.has_error_band:
        raise ModelError(
            f"Expected a model with a calibrated error band, got {arguments.model}. "
            "Use a bundled one."
        )
    return reconstructor


RECONSTRUCT = Command(
    name="reconstruct",
    help="turn photos into spectral cubes",
    add_arguments=_add_arguments,
    run=_run,
    epilog=BATCHES,
)
