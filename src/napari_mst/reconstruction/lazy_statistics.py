"""The statistics of a whole photo, from which any part of its cube can be computed.

They are summed in one pass over the photo and cached in a file, or estimated much faster from
squares of the photo. Letters: C channels, H rows, W columns, N squares.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from platformdirs import user_cache_path
from safetensors.torch import load, save
from torch import Tensor

from napari_mst.base import atomic_save
from napari_mst.base.arrays import Floats, Singles
from napari_mst.base.errors import SaveError
from napari_mst.base.progress import Progress
from napari_mst.engine.crop import Known, execute_crop
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import Plan, PlannedRun, make_plan
from napari_mst.engine.run import execute
from napari_mst.engine.schedule import Sweep
from napari_mst.engine.steps import needs, precisions, steps_of
from napari_mst.engine.windows import Window
from napari_mst.networks.network import PHOTO, Folded, Pass, Program
from napari_mst.reconstruction.colour_fidelity.photo_noise import Noise
from napari_mst.reconstruction.denoising import bytes_to_denoise
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.running import run
from napari_mst.reconstruction.setup import Setup


@dataclass(frozen=True, eq=False)
class Statistics:
    """The statistics and the noise of a whole photo.

    Attributes
    ----------
    known
        Statistics used by the passes of the network.
    noise
        Noise that the network removes from the photo, if measured.
    error
        Largest error of estimated statistics on the squares, as a share of the largest value there;
        0 for statistics of the whole photo.
    """

    known: Known
    noise: Noise | None = None
    error: float = 0.0


# ------------------------------------------------------------------------------ of the whole photo


def added_up(job: Job) -> tuple[Statistics, Plan]:
    """Sum the statistics of the whole photo; also return the plan of that run.

    Raises
    ------
    Cancelled, OutOfMemory
        As `run`.
    """
    setup = job.setup
    # The torch module is needed, as statistics are tensors and the thin pass is a torch pass.
    device, program = setup.device.device, setup.network.program()
    plan = Plan()
    folded: Folded = {}
    thin = up_to_statistics(program)
    if thin is not None:

        def compute(source: PhotoRows, plan: Plan, progress: Progress) -> Floats:
            folded.update(execute(thin, source, device, plan, progress).folded)
            return np.empty((1, 1, 1), np.float32)

        options = setup.options
        beside = bytes_to_denoise(job)
        planned = PlannedRun(thin, *job.part.shape, device, options.precision, beside=beside)
        plan = make_plan(planned, options.memory, options.device_memory)
        plan = run(replace(job, compute=compute), plan).plan
    return Statistics(Known(folded, device=device)), plan


def up_to_statistics(program: Program) -> Program | None:
    """Return *program* up to its last statistic; None if it has no statistics."""
    makers = _makers(program)
    if not makers:
        return None
    # The engine needs a result for each pixel: one thin plane, which is discarded.
    last = Pass("thin", (makers[-1],), lambda features: features[:, :1], 1, work=1.0)
    return program.until(makers[-1], last)


def _makers(program: Program) -> list[str]:
    return [each.writes for each in program.passes if each.statistic is not None]


# ------------------------------------------------------------------------------------- estimated

SIDE = 64
"""Side in pixels of a square from which statistics are estimated."""
SAMPLE = 350_000
"""Pixels in all squares including their margins; this many take about a second."""
JUDGED = 5
"""The error is measured on every fifth square."""


def estimated(job: Job) -> Statistics | None:
    """Estimate the statistics from squares all over the photo, and the error of the estimate.

    Each square is computed with its full surroundings, so only the choice of squares causes errors.
    Two halves of the squares give two cubes, and half of their difference is the error of the mean.

    Returns None if the network has no such statistics, or if the photo is not larger than a few
    squares.
    """
    program = job.setup.network.program()
    device = job.setup.device.device
    is_summed = all(each.halo is not None and not each.gathers for each in program.passes)
    if not is_summed or not _makers(program):
        return None
    margin, grain = margin_of(program, device), program.grain
    full = -(-(SIDE + 2 * margin) // grain) * grain
    count = max(2, int((SAMPLE / full**2) ** 0.5))
    if min(job.part.shape) < count * full:
        return None
    tops, lefts = (
        (np.linspace(0, side - full, count) // grain * grain).astype(int).tolist()
        for side in job.part.shape
    )
    corners = product(tops, lefts)
    crops = [job.part.cropped((top, top + full, left, left + full)) for top, left in corners]
    squares = [replace(job, part=crop).source().rows(0, full) for crop in crops]
    inner = Window(margin, margin + SIDE, margin, margin + SIDE)
    totals: Folded = {}
    halves = [
        _of_squares(job.stage(at / 2.5, (at + 1) / 2.5), squares[at::2], inner, totals)
        for at in range(2)
    ]
    folded = {
        each.writes: each.fold(totals[each.writes], len(squares) * _pixels(program, each, inner))
        for each in program.passes
        if each.statistic is not None
    }
    largest = error = 0.0
    for square in squares[::JUDGED]:
        source = _rows_of(square)
        first, second = (
            execute_crop(program, Known(half, device=device), source, inner) for half in halves
        )
        largest = max(largest, float(np.abs(first).max()))
        error = max(error, float(np.abs(first - second).max()) / 2)
    # Never 0, which marks an exact cube.
    error = max(error / (largest or 1), 1e-6)
    return Statistics(Known(folded, device=device), error=error)


def _of_squares(job: Job, squares: list[Singles], inner: Window, totals: Folded) -> Folded:
    """Return the statistics of the *inner* parts of *squares*, and add their sums to *totals*."""
    program, full = job.setup.network.program(), squares[0].shape[1]

    def fold(each: Pass, total: Tensor, _: int) -> Any:
        totals[each.writes] = totals.get(each.writes, 0) + total
        return each.fold(total, len(squares) * _pixels(program, each, inner))

    # The squares are stacked vertically; their margins keep the inner parts independent.
    own = [inner.moved(full * at) for at in range(len(squares))]
    source = _rows_of(np.concatenate(squares, 1))._replace(fold=fold, own=own)
    thin = cast("Program", up_to_statistics(program))
    return execute(thin, source, job.setup.device.device, progress=job.progress).folded


def _rows_of(photo: Singles) -> PhotoRows:
    return PhotoRows(lambda start, stop: photo[:, start:stop], *photo.shape[1:])


def _pixels(program: Program, each: Pass, window: Window) -> int:
    rows, columns = window.scaled(program.scales[each.writes]).size
    return rows * columns


def margin_of(program: Program, device: torch.device) -> int:
    """Return the margin in pixels on which a part depends, in steps of the coarsest map."""
    far, grain = 2**12, max(8, program.multiple)
    window = Window(far, far + SIDE, far, far + SIDE)
    everything = Sweep(program.passes, (program.output.writes,), ())
    steps = steps_of(everything, device, precisions(program, program.dtype, program.dtype))
    read = needs(steps, {program.output.writes: window}, program.sizes(2 * far, 2 * far))[PHOTO]
    return -(-max(far - read.top, read.bottom - far - SIDE) // grain) * grain


# ------------------------------------------------------------------------------------------- kept

FOLDER = "NAPARI_MST_CACHE"
"""Environment variable for the folder of cached statistics; "" disables the cache."""
MOST_FILES = 200
"""Largest number of cached files of .2 to .6 MB; the oldest are deleted."""


def recalled(job: Job, ranks: int = 1) -> Statistics | None:
    """Return cached statistics of this photo, with this network and these settings.

    They were summed by *ranks* processes. None if no cached file fits; damaged files and files of
    other versions are ignored.
    """
    path, seal = _place(job, ranks)
    if path is None:
        return None
    try:
        checksum, _, content = path.read_bytes().partition(b"\n")
        head, _, numbers = content.partition(b"\n")
        if checksum.decode() != hashlib.sha256(content).hexdigest():
            return None
        facts = json.loads(head)
        if facts["seal"] != seal:
            return None
        measured = facts["noise"]
        noise = measured and Noise(tuple(measured["deviation"]), measured["is_jpeg"])
        folded = {name: each.to(job.setup.device.device) for name, each in load(numbers).items()}
        _check_fit(folded, job.setup)
    except Exception:  # noqa: BLE001 (a damaged file can fail in countless ways)
        return None
    return Statistics(Known(folded, device=job.setup.device.device), noise)


@torch.no_grad()
def _check_fit(folded: Mapping[str, Tensor], setup: Setup) -> None:
    """Raise `ValueError` unless *folded* can be the statistics of the network of *setup*."""
    program = setup.network.program()
    if sorted(folded) != sorted(_makers(program)):
        raise ValueError("other names")
    for name, found in folded.items():
        each = program.writer(name)
        black = torch.zeros(1, each.channels, 1, 1, dtype=found.dtype, device=found.device)
        # Only gathered statistics have a shape that depends on the number of pixels.
        statistic = cast("Callable[[Tensor], Tensor]", each.statistic)
        if not each.gathers and found.shape != each.fold(statistic(black), 1).shape:
            raise ValueError("another shape")
        if not found.isfinite().all():
            raise ValueError("not finite")


def keep(job: Job, statistics: Statistics, ranks: int = 1) -> None:
    """Cache the *statistics* of the photo of *job* for `recalled`, if possible."""
    path, seal = _place(job, ranks)
    folded = statistics.known.folded
    if path is None or not all(isinstance(value, Tensor) for value in folded.values()):
        return
    facts = {"seal": seal, "noise": statistics.noise and asdict(statistics.noise)}
    content = json.dumps(facts).encode() + b"\n" + tensor_bytes(folded)
    with suppress(OSError, SaveError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_save.saving(path, needed=len(content), overwrite=True) as (temporary,):
            temporary.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
        files = sorted(path.parent.glob("*.statistics"), key=lambda file: file.stat().st_mtime)
        for file in files[:-MOST_FILES]:
            file.unlink()


def _place(job: Job, ranks: int) -> tuple[Path | None, str]:
    """Return the cache file for the statistics of *job* and its seal; no file without a cache."""
    photo, setup = job.photo, job.setup
    named = os.environ.get(FOLDER)
    if named == "" or not photo.sha256 or not _makers(setup.program):
        return None, ""
    acquisition = setup.options.acquisition
    facts = (
        *(photo.sha256, photo.encoding, photo.full_scale, job.extrema, str(job.denoising)),
        *(acquisition, acquisition and np.asarray(acquisition.response).tolist()),
        hashlib.sha256(tensor_bytes(setup.network.state_dict())).hexdigest(),
        *(setup.model.card.is_linear, setup.options.region, setup.options.precision),
        *(setup.device.device.type, torch.__version__, ranks),
    )
    seal = hashlib.sha256(repr(facts).encode()).hexdigest()
    folder = Path(named) if named else user_cache_path("napari-mst")
    return folder / f"{seal[:32]}.statistics", seal


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return *tensors* as the bytes of a safetensors file."""
    return save({name: tensors[name].detach().cpu().clone() for name in sorted(tensors)})
