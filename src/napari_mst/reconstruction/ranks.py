"""One photo on many processes that `torchrun` has started, its ranks: on one computer or several.

Only the statistics couple distant pixels. Each rank adds them up over a strip of rows, of which it
also computes the margin that they depend on, and the totals of all ranks are added (all-reduced).
Then each rank can compute any part of the cube, and writes its share of it. What is decided about
the light, the noise and the colours of the photo, each rank decides from the whole photo.

Letters: B bands, H rows, W columns.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, distributed

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.engine.crop import Known
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import PlannedRun, make_plan
from napari_mst.engine.run import execute
from napari_mst.engine.windows import Window
from napari_mst.errors import ClusterError, ModelError, PhotoError
from napari_mst.formats.numbers import stored_type
from napari_mst.formats.zarr.reading import is_zarr
from napari_mst.formats.zarr.writing import write_rows, write_zarr
from napari_mst.networks.network import Folded, Pass
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.pipeline import SeenPhoto
from napari_mst.reconstruction.statistics import (
    Statistics,
    keep,
    margin_of,
    recalled,
    up_to_statistics,
)
from napari_mst.watch import Watch

T = TypeVar("T")


def is_rank() -> bool:
    """True in a process that `torchrun` has started beside others."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined_ranks(device: str) -> Iterator[int]:
    """Meet the other ranks for the block, which compute on *device*; yields the number of this one.

    Raises
    ------
    ClusterError
        If another one ends before.
    """

    def end(*_: object) -> None:
        raise _lonely()

    # torchrun ends the ranks that are left when one has died.
    before = signal.signal(signal.SIGTERM, end)
    together(distributed.init_process_group, "nccl" if device == "cuda" else "gloo")
    try:
        yield distributed.get_rank()
        together(distributed.barrier)
    finally:
        signal.signal(signal.SIGTERM, before)
        distributed.destroy_process_group()


def together(act: Callable[..., T], *arguments: Any) -> T:
    """Do what all ranks have to do at once. Raises `ClusterError` if one is no more."""
    try:
        return act(*arguments)
    except RuntimeError as error:
        raise _lonely() from error


def _lonely() -> ClusterError:
    return ClusterError(
        "Expected all processes of the run to stay, got one that has ended. Nothing was saved: "
        "see what it says, then start the same command again."
    )


def write_in_ranks(path: Path, seen: SeenPhoto, watch: Watch, *, overwrite: bool) -> SpectralCube:
    """Write the cube of a photo to the OME-Zarr *path*, each rank a share; returns it, lazily.

    Its numbers are those of `Reconstructor.open`.

    Raises
    ------
    ClusterError
        If another rank ends before; nothing is saved then.
    ModelError
        If a pass of the network sees all pixels at once.
    PhotoError
        If the photo has fewer rows than there are ranks to share them.
    SaveError
        See `write_cube`.
    """
    cube = seen.open(watch.part(0, 0.6), add_up=_summed)
    dtype = stored_type(cube.data, ("f4", "f8"), "a .zarr file")
    rank, count = distributed.get_rank(), distributed.get_world_size()
    rest = watch.part(0.6, 0.9)

    def fill(folder: Path | None = None) -> None:
        names = [str(folder)]
        together(distributed.broadcast_object_list, names)
        write_rows(Path(names[0]), cube.data, slice(rank, None, count), rest)
        together(distributed.barrier)

    if rank:
        fill()
        return cube
    needed = cube.data.size * dtype.itemsize
    with crash_safe.saving(path, needed=needed, overwrite=overwrite, is_ours=is_zarr) as (folder,):
        write_zarr(folder, cube, dtype, watch.part(0.9, 1), fill)
    return cube


def _summed(job: Job) -> Statistics:
    """The statistics of the photo of *job*, to which each rank adds those of its strip.

    They are kept, so that a run that ended while its cube was written goes on from there.
    """
    setup = job.setup
    device, program, options = setup.device.device, setup.program, setup.options
    if any(each.halo is None or each.gathers for each in program.passes):
        raise ModelError(
            "Expected a network whose attention is a sum over pixels, got one that sees all of "
            "them at once. Use one process."
        )
    thin = up_to_statistics(program)
    if thin is None:
        return Statistics(Known({}, device=device))
    strip = _strip(job)
    rank, count = distributed.get_rank(), distributed.get_world_size()
    found = [None if rank else recalled(job, count)]
    together(distributed.broadcast_object_list, found)
    if found[0] is not None:
        kept = found[0].known.folded
        return Statistics(
            Known({name: each.to(device) for name, each in kept.items()}, device=device)
        )
    planned = PlannedRun(thin, strip.height, strip.width, device, options.precision)
    plan = make_plan(planned, options.memory, options.device_memory)
    folded: Folded = execute(thin, strip, device, plan, job.watch).folded
    statistics = Statistics(Known(folded, device=device))
    if not rank:
        keep(job, statistics, count)
    return statistics


def _strip(job: Job) -> PhotoRows:
    """The rows of this rank and their margin, whose totals are added to those of the others."""
    program, source = job.setup.program, job.source()
    height, width = source.height, source.width
    rank, count = distributed.get_rank(), distributed.get_world_size()
    grain = program.grain
    if height < grain * count:
        raise PhotoError(
            f"Expected {grain * count} rows or more for {count} processes, got {height}. Use fewer."
        )
    first, last = (height // grain * at // count * grain for at in (rank, rank + 1))
    margin = -(-margin_of(program, job.setup.device.device) // grain) * grain
    is_last = rank + 1 == count
    top, bottom = max(first - margin, 0), height if is_last else min(last + margin, height)
    rows, columns = program.padded(bottom - top, width)
    own = Window(first - top, rows if is_last else last - top, 0, columns)
    sizes = program.sizes(height, width)

    def fold(each: Pass, total: Tensor, _: int) -> Any:
        summed = total.double()
        together(distributed.all_reduce, summed)
        rows, columns = sizes[each.writes]
        return each.fold(summed.to(total.dtype), rows * columns)

    def read(start: int, stop: int) -> Any:
        return source.rows(top + start, top + stop)

    return PhotoRows(read, bottom - top, width, fold, [own])
