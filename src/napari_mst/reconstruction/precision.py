"""The error of 16 bits against float32, measured on a sample of a photo before the run."""

from dataclasses import dataclass, replace

import numpy as np

from napari_mst.engine.plan import Plan
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.running import run_once
from napari_mst.reconstruction.setup import UNTURNED
from napari_mst.watch import Watch

SAMPLE_SQUARES = 4
"""Squares along each side of the sample."""

SAMPLE_SIDE = 32
"""Pixels along each side of a square of the sample."""

_TINY = 1e-30  # instead of the largest value of a photo that is all black


@dataclass(frozen=True)
class PrecisionError:
    """The error of a precision against float32, on a sample of a photo.

    Attributes
    ----------
    largest, rms
        Shares of the largest value.
    rows, columns
        Size of the sample.
    """

    largest: float
    rms: float
    rows: int
    columns: int

    def __str__(self) -> str:
        """One clause for a person."""
        return (
            f"off float32 by {self.largest:.2%} of the largest value at most "
            f"and {self.rms:.3%} rms, on {self.rows} x {self.columns} pixels of this photo"
        )


def measured_error(job: Job) -> PrecisionError:
    """Runs a sample of the photo of *job* in float32 and in its own precision, and compares."""
    sample = replace(
        job,
        orientations=(UNTURNED,),
        part=job.part.sampled(SAMPLE_SQUARES, SAMPLE_SIDE),
        compute=job.setup.cube_of,
        watch=Watch(is_cancelled=job.watch.is_cancelled),  # its progress is none of the run's
    )
    exact = run_once(sample, Plan(precision="float32")).astype(np.float64)
    narrow = run_once(sample, Plan(precision=job.options.precision)).astype(np.float64)
    off = np.abs(narrow - exact) / max(float(np.abs(exact).max()), _TINY)
    rms = float(np.sqrt((off**2).mean()))
    return PrecisionError(float(off.max()), rms, *sample.part.shape)
