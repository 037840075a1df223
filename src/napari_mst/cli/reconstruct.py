"""The command `reconstruct`: photos to cubes, one or a whole batch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from napari_mst.cli.captures import Taken
from napari_mst.cli.console import tell
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.making import Outcomes, Run, finished_before, make_elsewhere, make_here
from napari_mst.cli.options import DEFAULT_MODEL, Model, to_file
from napari_mst.cli.photos import PhotoOptions, load_reconstructor
from napari_mst.errors import ModelError, SaveError
from napari_mst.formats import FORMATS
from napari_mst.memory import free_host_memory
from napari_mst.messages import shown
from napari_mst.option import Option
from napari_mst.reconstruction.options import DEFAULTS, RunOptions

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor

SUFFIXES = {form.name: form.suffixes[0] for form in FORMATS if form.suffixes}
"""The suffix of the cubes in a folder, by the name of the format."""

CUBES = "cubes"
"""The folder of many cubes, if the user names none."""

_MANY = ("many photos", "cubes in a folder may be made by several processes")


@dataclass(frozen=True)
class Reconstruct:
    """Photos, the model and the settings that make cubes of them, and where the cubes go."""

    photos: Annotated[
        tuple[Path, ...],
        Option(
            "a file, a folder (searched with all folders in it) or a pattern, as '*.png'",
            "PHOTO",
            nargs="+",
            is_positional=True,
        ),
    ]
    output: Annotated[
        Path | None,
        to_file(
            "a file (.hdr, .tif, ...); for several photos a folder, which is made if it is missing "
            "and mirrors the folders of the photos (default: PHOTO.hdr here; the folder cubes for "
            "several)"
        ),
    ] = None
    format: Annotated[
        str | None, Option("format of the cubes in a folder (default: envi)", choices=SUFFIXES)
    ] = None
    overwrite: Annotated[
        bool,
        Option("overwrite existing cubes; two photos of one run never overwrite each other"),
    ] = False
    model: Model = DEFAULT_MODEL
    error_bands: Annotated[
        bool,
        Option(
            "also write the lower and upper spectra that hold 90 % of true values: OUT_lower, "
            "OUT_upper"
        ),
    ] = False
    options: RunOptions = DEFAULTS
    taken: Taken = field(default_factory=Taken)
    workers: Annotated[
        int,
        Option(
            "processes of this computer; each takes --memory, by default a share of what is free",
            "N",
            group=_MANY,
        ),
    ] = 0
    scheduler: Annotated[
        str,
        Option(
            "scheduler of a dask cluster, as tls://host:8786; its workers must see the same "
            "folders, and whoever can connect to it can run code in them",
            "ADDRESS",
            group=_MANY,
        ),
    ] = ""

    examples = (
        "reconstruct photo.jpg -o cube.hdr",
        "reconstruct photos/ -o cubes/ --format tiff --workers 2",
        "reconstruct photo.dng --model mstpp-camera --illuminant estimate",
    )
    more = """\
A run into a folder that was interrupted goes on when you start it again: cubes
that are there, undamaged and of the same photo, model and options, stay.
Several such runs at once share the work."""

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise SaveError(f"Expected 1 or more for --workers, got {self.workers}. Take 1 or 2.")
        if self.workers and self.scheduler:
            raise SaveError("Expected --workers or --scheduler, got both. Leave one of them out.")

    def run(self) -> int:
        """Make the cubes, and print the path of each."""
        jobs, is_batch = self._plan()
        with folders_for(jobs if is_batch else ()):
            with asked_to_stop():
                # A file is made for a moment to see whether it can be: Ctrl-C must not leave it.
                _check(jobs, self.overwrite, is_batch)
            photos = PhotoOptions.of(self.taken, [job.photo for job in jobs])
            options = replace(self.options, capture=photos.capture, memory=self._memory)
            run = Run(self._reconstructor(options), photos, self.overwrite, is_batch)
            done = finished_before(run, jobs)
            outcomes = self._elsewhere
            if outcomes is None:
                return make_here(run, jobs, done)
            return make_elsewhere(run, jobs, done, outcomes)

    @property
    def _elsewhere(self) -> Outcomes | None:
        """The workers that make the cubes; None if this process does."""
        if self.workers:
            return partial(processes.outcomes, workers=self.workers, tell=tell)
        if self.scheduler:
            return partial(cluster.outcomes, scheduler=self.scheduler)
        return None

    @property
    def _memory(self) -> int | None:
        """The most memory that one process may take, in bytes; None for most of what is free."""
        if self.options.memory is None and self.workers:
            return free_host_memory() // self.workers
        return self.options.memory

    def _plan(self) -> tuple[list[BatchJob], bool]:
        """Return the cubes to make, and whether they go into a folder, where finished ones stay."""
        suffix = SUFFIXES[self.format or "envi"]
        photos = find_photos(self.photos, self.output or Path(CUBES), tell)
        # os.path, since Path.is_dir raises where a name is too long
        names_a_folder = any(os.path.isdir(path) for path in self.photos)  # noqa: PTH112
        are_many = names_a_folder or len(photos) > 1
        output = self.output or Path(CUBES if are_many else f"{photos[0].photo.stem}{suffix}")
        is_folder = os.path.isdir(output) and output.suffix.lower() not in FOLDERS  # noqa: PTH112
        if is_folder or are_many:
            if not is_folder and output.suffix.lower() in SUFFIXES.values():
                raise SaveError(
                    f"Expected a folder for several cubes, got {shown(output.name)}. "
                    "Leave its suffix out."
                )
            return plan_jobs(photos, output, suffix, self.error_bands), True
        if self.format and self.output:
            raise SaveError(
                f"Expected a folder with --format, got {shown(output.name)}. "
                "Let its suffix say the format."
            )
        bands = band_targets(output) if self.error_bands else ()
        return [BatchJob(one.photo, output, one.photo.name, bands) for one in photos], False

    def _reconstructor(self, options: RunOptions) -> "Reconstructor":
        reconstructor = load_reconstructor(self.model, options)
        if self.error_bands and not reconstructor.model.card.has_error_band:
            raise ModelError(
                f"Expected a model with a calibrated error band, got {self.model}. "
                "Use a bundled one."
            )
        return reconstructor


def _check(jobs: Sequence[BatchJob], overwrite: bool, is_batch: bool) -> None:
    """Refuse before computing what would fail after it, or cost a cube or a photo."""
    check_names(jobs)
    for job in jobs:
        check_outputs(job, overwrite, may_stay(job) if is_batch else ())
