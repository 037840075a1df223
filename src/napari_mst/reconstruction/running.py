"""The second step plans a run, runs it, and repeats it with less memory if memory ran out.

The third step corrects the colours of the cube. Letters: B bands, C channels, H rows, W columns.
"""

import gc
from dataclasses import dataclass

import numpy as np

from napari_mst.base.arrays import Floats
from napari_mst.base.errors import ModelError, OutOfMemory, shown
from napari_mst.base.memory import is_out_of_memory
from napari_mst.base.progress import Progress
from napari_mst.calibration.corrections import balancing_gains
from napari_mst.cube.colour import srgb_response
from napari_mst.cube.lazy import Numbers
from napari_mst.engine import plan as planning
from napari_mst.engine.plan import Plan, make_plan
from napari_mst.engine.steps import run_cost
from napari_mst.reconstruction.colour_fidelity.code_cells import HALF_CODE
from napari_mst.reconstruction.colour_fidelity.correction import (
    Correction,
    bytes_to_correct,
    correct_colours,
)
from napari_mst.reconstruction.denoising import bytes_to_denoise
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.setup import Orientation, Setup, turned_back

CORRECTION_COST = 0.2
"""Time of the correction by compiled kernels, in the unit of `run_cost`."""

PLAIN_CORRECTION_COST = 0.45
"""Time of the correction without kernels: 0.15 to 1.5, depending on the number of moved spectra."""

DENOISING_COST = 6.8
"""Time of denoising in the same unit, as measured by lab/benchmarks/denoising.py."""

Planes = Floats
"""Result (C, H, W) of a run: a cube, or attention maps."""


@dataclass(frozen=True, eq=False)
class RunResult:
    """The *planes* of a *job*, which now has all its notes, and the *plan* of the run."""

    job: Job
    plan: Plan
    planes: Numbers


def plan_run(setup: Setup, height: int, width: int, beside: int = 0) -> Plan:
    """Plan a run on *height* x *width* pixels; raises `OutOfMemory` if no plan fits.

    *beside* is memory of the computer, in bytes, that is used beside the run.
    """
    options = setup.options
    job = _engine_job(setup, height, width, beside)
    return make_plan(job, options.memory, options.device_memory)


def run(job: Job, plan: Plan) -> RunResult:
    """Run *job* by *plan*, and again with less memory if memory ran out.

    Raises
    ------
    OutOfMemory
        If memory ran out twice, or no smaller plan exists.
    """
    planes = try_run(job, plan)
    if planes is not None:
        return RunResult(job, plan, planes)
    smaller = _smaller_plan(job, plan)
    if smaller is None:
        raise _too_little_memory(job)
    note = f"The run was out of memory and was started again: the second one {smaller}."
    return RunResult(job.noted(note), smaller, run_once(job, smaller))


def check_finite(planes: Numbers, job: Job) -> None:
    """Raise `ModelError` if the network of *job* returned NaN or infinity."""
    # NaN propagates to minimum and maximum, so no mask of the size of the cube is needed.
    extrema = np.min(planes), np.max(planes)
    if not np.isfinite(extrema).all():
        model, photo = job.setup.model.card.name, job.photo.name or "the photo"
        raise ModelError(
            f"Expected finite numbers of {shown(model)}, got NaN or infinity for {shown(photo)}. "
            "Check the values of the photo, or take another model."
        )


def run_once(job: Job, plan: Plan) -> Planes:
    """Run *job* by *plan*; raises `OutOfMemory` if memory ran out."""
    planes = try_run(job, plan)
    if planes is None:
        raise _too_little_memory(job)
    return planes


def try_run(job: Job, plan: Plan) -> Planes | None:
    """Return the mean result of *job* over its orientations.

    None if memory ran out; all memory of the run has then been released.
    """
    total: Planes | None = None
    number = len(job.orientations)
    try:
        for index, orientation in enumerate(job.orientations):
            stage = job.stage(index / number, (index + 1) / number)
            # The result of one run gets no name, or it would stay in memory during the next.
            total = _added(total, _run_turned(stage, orientation, plan), job.progress)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        total = None
    # Outside the handler, whose traceback would keep the tensors of the run alive.
    if total is None:
        free_memory(job.setup)
    elif number > 1:
        total /= number
    return total


def free_memory(setup: Setup) -> None:
    """Release the memory that a failed run has left on its device."""
    gc.collect()
    device = setup.device.device
    if device.type != "cpu":
        import torch

        torch.get_device_module(device).empty_cache()


def _too_little_memory(job: Job) -> OutOfMemory:
    rows, columns = job.part.shape
    return OutOfMemory(
        f"Expected enough memory on {job.setup.device.name} for {rows} x {columns} pixels, "
        "got too little. Close other programs, take the CPU, or reconstruct a smaller image."
    )


def _engine_job(setup: Setup, height: int, width: int, beside: int) -> planning.PlannedRun:
    options = setup.options
    after = bytes_to_correct(height, width) if setup.corrects_colour else 0
    return planning.PlannedRun(
        setup.program,
        height,
        width,
        setup.device.device,
        options.precision,
        len(setup.orientations) > 1,
        after,
        beside,
    )


def _smaller_plan(job: Job, failed: Plan) -> Plan | None:
    """Return a plan with half the memory of *failed* or, if there is none, the smallest plan.

    None if *failed* was the smallest plan.
    """
    setup = job.setup
    is_on_cpu = setup.device.device.type == "cpu"
    # On a GPU, the memory of the device ran out.
    memory = failed.memory // 2 if is_on_cpu else setup.options.memory
    smaller = _engine_job(setup, *job.part.shape, bytes_to_denoise(job))
    plan = make_plan(smaller, memory, failed.device_memory // 2, or_least=True)
    return plan if plan.needs < failed.needs else None


def _run_turned(job: Job, orientation: Orientation, plan: Plan) -> Planes:
    """Return the result of *job* in another *orientation*, turned back."""
    result = job.compute(job.source(orientation), plan, job.progress)
    return turned_back(result, orientation)


def _added(total: Planes | None, planes: Planes, progress: Progress) -> Planes:
    """Add *planes* to *total* in place; the first planes become the total.

    Cancellation is checked before each plane, since all planes of a large photo take seconds.
    """
    if total is None:
        if planes.flags.c_contiguous:
            return planes
        total = np.zeros(planes.shape, planes.dtype)
    for sums, plane in zip(total, planes, strict=True):
        progress.check()
        sums += plane
    return total


def shares_of_run(job: Job) -> tuple[float, float]:
    """Return the shares of all work that are done when the run begins and when it ends."""
    before = DENOISING_COST if job.denoising else 0.0
    after = 0.0
    if job.setup.corrects_colour:
        after = CORRECTION_COST if job.setup.has_kernels() else PLAIN_CORRECTION_COST
    if not before and not after:
        return 0.0, 1.0
    program = job.setup.program
    dtype = planning.dtype_of(job.options.precision, program.dtype)
    one_run = run_cost(program, job.setup.device.device, dtype)
    all_runs = len(job.orientations) * one_run
    total = before + all_runs + after
    return before / total, 1 - after / total


def correct(job: Job, data: Planes) -> Correction | None:
    """Correct the colours of *data* (B, H, W) in place.

    None if the correction is disabled, or if the card does not tell how photos show spectra.
    """
    if not job.setup.corrects_colour:
        return None
    return correct_colours(data, job.part, response_of(job), job.progress, least=least_of(job))


def least_of(job: Job) -> float:
    """Return the smallest half width of a colour cell, in 8-bit codes."""
    # The 16-bit codes of a linear photo are finer than its noise, which would return.
    return HALF_CODE if job.options.acquisition else 0.0


def response_of(job: Job) -> Floats:
    """Return the matrix (B, 3) from spectra to the light of the photo, in shares of full scale."""
    acquisition = job.options.acquisition
    if acquisition is None:
        return srgb_response(job.setup.model.card.wavelengths)
    _, white = job.extrema
    return acquisition.response / balancing_gains(job.photo, acquisition) * white
