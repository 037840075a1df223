"""The fourth step: correct the colours of a cube.

Letters: B bands, H rows, W columns.
"""

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import srgb_response
from napari_mst.engine.plan import Plan
from napari_mst.engine.run import run_cost
from napari_mst.reconstruction.consistency.cells import HALF_CODE
from napari_mst.reconstruction.consistency.correction import Correction, correct_colours
from napari_mst.reconstruction.job import Job

CORRECTION = 0.45
"""How long the correction of the colours takes, as `run_cost`: 0.15 to 1.5, by how many spectra it has to move."""


def share_before(job: Job) -> float:
    """The share of all work that is done when the correction begins."""
    one = run_cost(
        job.setup.program, job.setup.device.device, Plan(precision=job.options.precision)
    )
    of_run = len(job.orientations) * one
    return of_run / (of_run + CORRECTION * job.setup.corrects_colour)


def corrected(job: Job, data: NDArray[np.floating]) -> Correction | None:
    """Correct the colours of *data* (B, H, W) in place; None where that is not wanted or the card does not say how."""
    if not job.setup.corrects_colour:
        return None
    least = HALF_CODE if job.options.capture else 0.0
    watch = job.watch
    return correct_colours(data, job.part, _response(job), watch, least=least)


def _response(job: Job) -> NDArray[np.floating]:
    """(B, 3): how the photo itself shows the spectra, in shares of its full scale."""
    capture = job.options.capture
    if capture is None:
        return srgb_response(job.setup.model.card.wavelengths)
    _, white = job.extrema
    return capture.response / capture.gains * white
