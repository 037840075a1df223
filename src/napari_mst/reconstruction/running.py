"""The third step: plan a run, run it, and run it again with less memory if there was not enough.

Letters: C channels, H rows, W columns.
"""

import gc
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from napari_mst.engine import plan as planning
from napari_mst.engine.plan import Budget, Plan, make_plan
from napari_mst.errors import OutOfMemory
from napari_mst.memory import is_out_of_memory
from napari_mst.reconstruction.consistency.correction import bytes_to_correct
from napari_mst.reconstruction.job import Job, Orientation, turned_back
from napari_mst.reconstruction.setup import Setup
from napari_mst.watch import Watch


@dataclass(frozen=True, eq=False)
class Computed:
    """The numbers (C, H, W) of a job, the plan by which they came about, and the job with what there is to note."""

    job: Job
    data: NDArray[np.floating]
    plan: Plan


def computed(job: Job) -> Computed:
    """The result of *job*, if need be within less memory.

    Raises
    ------
    OutOfMemory
        If memory and disk are too small, or the run was out of memory twice.
    """
    plan = plan_of(job.setup, *job.part.shape)
    data = run(job, plan)
    if data is None and (smaller := _smaller_plan(job, plan)):
        plan = smaller
        job = job.noted(f"The run was out of memory and was started again: the second one {plan}.")
        data = run(job, plan)
    return Computed(job, had(data, job), plan)


def plan_of(setup: Setup, height: int, width: int) -> Plan:
    """The plan for a photo of *height* x *width* pixels; raises `OutOfMemory` if there is none."""
    budget = Budget(setup.options.memory, setup.options.device_memory)
    return make_plan(_engine_job(setup, height, width), budget)


def run(job: Job, plan: Plan) -> NDArray[np.floating] | None:
    """The mean over all orientations of what the job computes; None, and nothing of the run left, if out of memory."""
    total: NDArray[np.floating] | None = None
    number = len(job.orientations)
    try:
        for index, orientation in enumerate(job.orientations):
            one = job.share(index / number, (index + 1) / number)
            # the result of one run has no name here: it would stay in memory through the next
            total = _added(total, _run_turned(one, orientation, plan), job.watch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        total = None
    if total is None:
        free_memory(
            job.setup
        )  # outside the handler: there, the traceback would keep the tensors of the run
    elif number > 1:
        total /= number
    return total


def had(data: NDArray[np.floating] | None, job: Job) -> NDArray[np.floating]:
    """The result of `run`; raises `OutOfMemory` if there was none."""
    if data is None:
        size = " x ".join(map(str, job.part.shape))
        raise OutOfMemory(
            f"Expected enough memory on {job.setup.device.name} for {size} pixels, got too little. "
            "Close other programs, take the CPU, or reconstruct a smaller image."
        )
    return data


def free_memory(setup: Setup) -> None:
    """Give back what a run that failed has left on its device."""
    gc.collect()
    if setup.device.device.type != "cpu":
        torch.get_device_module(setup.device.device).empty_cache()


def _engine_job(setup: Setup, height: int, width: int) -> planning.Job:
    after = bytes_to_correct(height, width) if setup.corrects_colour else 0
    options, device = setup.options, setup.device.device
    return planning.Job(
        setup.program, height, width, device, options.precision, options.ensemble, after
    )


def _smaller_plan(job: Job, failed: Plan) -> Plan | None:
    """Within half of what *failed* took or, where nothing is, with the least there is; None if that was it."""
    setup = job.setup
    memory = setup.options.memory if setup.device.device.type != "cpu" else failed.memory // 2
    budget = Budget(memory, failed.device_memory // 2)
    plan = make_plan(_engine_job(setup, *job.part.shape), budget, or_least=True)
    return plan if plan.needs < failed.needs else None


def _run_turned(job: Job, orientation: Orientation, plan: Plan) -> NDArray[np.floating]:
    """The result of the job by way of another orientation."""
    result = job.compute(job.source(orientation), plan, job.watch)
    return turned_back(result, orientation)


def _added(
    total: NDArray[np.floating] | None, planes: NDArray[np.floating], watch: Watch
) -> NDArray[np.floating]:
    """*planes* added to *total*, in place; the first become the total. Asks for cancel before each."""
    if total is None and planes.flags.c_contiguous:
        return planes
    total = np.zeros(planes.shape, planes.dtype) if total is None else total
    for own, plane in zip(total, planes, strict=True):
        watch.check()
        own += plane
    return total
