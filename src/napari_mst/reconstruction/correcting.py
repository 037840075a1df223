"""The third step: correct the colours of a cube.

Letters: B bands, H rows, W columns.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import srgb_response
from napari_mst.engine.costs import run_cost
from napari_mst.engine.plan import Plan
from napari_mst.photo.balance import balancing_gains
from napari_mst.reconstruction.consistency.cells import HALF_CODE
from napari_mst.reconstruction.consistency.correction import Correction, correct_colours
from napari_mst.reconstruction.job import Job

CORRECTION_COST = 0.2
"""The time that the correction takes by compiled kernels, in the unit of `run_cost`."""

PLAIN_CORRECTION_COST = 0.45
"""The time that it takes without them: 0.15 to 1.5, by how many spectra it has to move."""

DENOISING_COST = 3.5
"""The time that denoising takes, in the same unit, as lab/benchmarks/denoising.py measured it."""


def shares_of_run(job: Job) -> tuple[float, float]:
    """The shares of all work, for the progress, that are done when the run begins and ends."""
    before = DENOISING_COST if job.denoising else 0.0
    after = _correction_cost(job) if job.setup.corrects_colour else 0.0
    if not before and not after:
        return 0.0, 1.0
    plan = Plan(precision=job.options.precision)
    one_run = run_cost(job.setup.program, job.setup.device.device, plan)
    all_runs = len(job.orientations) * one_run
    total = before + all_runs + after
    return before / total, 1 - after / total


def _correction_cost(job: Job) -> float:
    return CORRECTION_COST if job.setup.has_kernels() else PLAIN_CORRECTION_COST


def correct(job: Job, data: NDArray[np.floating]) -> Correction | None:
    """Correct the colours of *data* (B, H, W) in place.

    None where that is not wanted, or the card does not say how a photo shows the spectra.
    """
    if not job.setup.corrects_colour:
        return None
    # The 16-bit codes of a linear photo are finer than its noise, which would come back.
    least = HALF_CODE if job.options.capture else 0.0
    return correct_colours(data, job.part, _response(job), job.watch, least=least)


def _response(job: Job) -> NDArray[np.floating]:
    """(B, 3): how the photo itself shows the spectra, in shares of its full scale."""
    capture = job.options.capture
    if capture is None:
        return srgb_response(job.setup.model.card.wavelengths)
    _, white = job.extrema
    return capture.response / balancing_gains(job.photo, capture) * white
