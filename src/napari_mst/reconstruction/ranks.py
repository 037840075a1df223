"""One photo on many processes (ranks) started by `torchrun`, on one computer or several.

Only the statistics couple distant pixels. Each rank sums them over a strip of rows, for which it
also computes the surrounding margin, and the totals of all ranks are added (all-reduced). Each rank
can then compute any part of the cube, and writes its share. Decisions about light, noise and
colours are made by every rank from the whole photo.

Letters: B bands, H rows, W columns.
"""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import torch
from platformdirs import user_cache_path
from safetensors.torch import load
from torch import Tensor, distributed

from napari_mst.base import atomic_save
from napari_mst.base.errors import ClusterError, ModelError, PhotoError
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.engine.crop import Known
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import PlannedRun, make_plan
from napari_mst.engine.run import execute
from napari_mst.engine.windows import Window
from napari_mst.formats.numbers import stored_type
from napari_mst.formats.zarr.reading import is_zarr
from napari_mst.formats.zarr.writing import write_rows, write_zarr
from napari_mst.networks.network import Pass
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.lazy_statistics import (
    Statistics,
    keep,
    margin_of,
    recalled,
    tensor_bytes,
    up_to_statistics,
)
from napari_mst.reconstruction.pipeline import PreparedPhoto

T = TypeVar("T")


@contextmanager
def joined_ranks(device: str) -> Iterator[int]:
    """Join the other ranks, which compute on *device*, for a `with` block; yields this rank.

    Raises
    ------
    ClusterError
        If another rank ends early.
    """

    def end(*_: object) -> None:
        raise _lonely()

    # When a rank dies, torchrun ends the others.
    before = signal.signal(signal.SIGTERM, end)
    together(join, device)
    try:
        yield distributed.get_rank()
        together(distributed.barrier)
    finally:
        signal.signal(signal.SIGTERM, before)
        distributed.destroy_process_group()


def join(device: str) -> None:
    """Join the other ranks, which all compute on *device*.

    Ranks on one computer meet through a file of this user and talk over the loopback interface, so
    nobody else can reach them. Ranks on several computers meet through the store of torchrun.
    """
    # Photos and totals are on the device; everything else that ranks exchange is on the CPU.
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    world = os.environ["WORLD_SIZE"]
    if os.environ.get("LOCAL_WORLD_SIZE") != world:
        distributed.init_process_group(backend)
        return
    for _, name in socket.if_nameindex():
        if name.startswith("lo"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", name)
    folder = user_cache_path("napari-mst")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # This parent is shared by all ranks of one start of torchrun, and by no other process.
    parent = psutil.Process(os.getppid())
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    file = folder / f"{parent.pid}-{parent.create_time()}-{start}.ranks"
    rank = int(os.environ["RANK"])
    distributed.init_process_group(
        backend, init_method=file.as_uri(), rank=rank, world_size=int(world)
    )


def _from_first(content: bytes) -> bytes:
    """Send *content* from rank 0 to all ranks, as bytes, since a received pickle could run code."""
    length = torch.tensor([len(content)])
    together(distributed.broadcast, length, 0)
    if not length:
        return b""
    data = torch.frombuffer(bytearray(content.ljust(int(length))), dtype=torch.uint8)
    together(distributed.broadcast, data, 0)
    return data.numpy().tobytes()


def together(act: Callable[..., T], *arguments: Any) -> T:
    """Run a collective operation *act*. Raises `ClusterError` if a rank has ended."""
    try:
        return act(*arguments)
    except RuntimeError as error:
        raise _lonely() from error


def _lonely() -> ClusterError:
    return ClusterError(
        "Expected all processes of the run to stay, got one that has ended. Nothing was saved: "
        "see what it says, then start the same command again."
    )


def write_in_ranks(
    path: Path, prepared: PreparedPhoto, progress: Progress, *, overwrite: bool
) -> SpectralCube:
    """Write the cube of a photo to the OME-Zarr *path*, each rank a share; returns the lazy cube.

    Its values are those of `Reconstructor.reconstruct_lazy`.

    Raises
    ------
    ClusterError
        If another rank ends early; nothing is saved then.
    ModelError
        If a pass of the network sees all pixels at once.
    PhotoError
        If the photo has too few rows for the number of ranks.
    SaveError
        See `write_cube`.
    """
    cube = prepared.reconstruct_lazy(progress.part(0, 0.6), add_up=_summed)
    dtype = stored_type(cube.data, ("f4", "f8"), "a .zarr file")
    rank, count = distributed.get_rank(), distributed.get_world_size()
    rest = progress.part(0.6, 0.9)

    def fill(_: Path | None = None) -> None:
        # Wait until rank 0 has made the folder.
        together(distributed.barrier)
        write_rows(atomic_save.unfinished(path), cube.data, slice(rank, None, count), rest)
        together(distributed.barrier)

    if rank:
        fill()
        return cube
    needed = cube.data.size * dtype.itemsize
    with atomic_save.saving(path, needed=needed, overwrite=overwrite, is_ours=is_zarr) as (folder,):
        write_zarr(folder, cube, dtype, progress.part(0.9, 1), fill)
    return cube


def _summed(job: Job) -> Statistics:
    """Return the statistics of the photo of *job*, summed over the strips of all ranks.

    They are cached, so a run that was interrupted while writing its cube continues from there.
    """
    setup = job.setup
    device, program, options = setup.device.device, setup.network.program(), setup.options
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
    kept = None if rank else recalled(job, count)
    content = _from_first(b"" if kept is None else tensor_bytes(kept.known.folded))
    if content:
        folded = {name: each.to(device) for name, each in load(content).items()}
        return Statistics(Known(folded, device=device))
    planned = PlannedRun(thin, strip.height, strip.width, device, options.precision)
    plan = make_plan(planned, options.memory, options.device_memory)
    folded = execute(thin, strip, device, plan, job.progress).folded
    statistics = Statistics(Known(folded, device=device))
    if not rank:
        keep(job, statistics, count)
    return statistics


def _strip(job: Job) -> PhotoRows:
    """Return the rows of this rank with their margin; their totals are summed over all ranks."""
    program, source = job.setup.network.program(), job.source()
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
