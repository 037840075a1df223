"""How far 16 bits are off float32 on a photo: measured on a sample of it, before the run."""

import weakref
from dataclasses import dataclass, replace

import numpy as np

from napari_mst.engine.plan import Plan
from napari_mst.photo.photo import Photo, Rectangle
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.running import had, run
from napari_mst.watch import Watch

SAMPLE = (4, 32)
"""Squares along each side of the sample on which the error of 16 bits is measured, and pixels along theirs."""


@dataclass(frozen=True)
class PrecisionError:
    """How far a precision was off float32 on a sample of a photo: shares of the largest value, and where measured."""

    largest: float
    rms: float
    rows: int
    columns: int

    def __str__(self) -> str:
        """One clause for a person."""
        return (
            f"off float32 by {self.largest:.2%} of the largest value at most and {self.rms:.3%} rms, "
            f"on {self.rows} x {self.columns} pixels of this photo"
        )


class PrecisionErrors:
    """The errors of one setup: each photo, and each region of it, is measured when it is first asked for."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Photo, dict[Rectangle | None, PrecisionError]]
        self._known = weakref.WeakKeyDictionary()

    def of(self, job: Job) -> PrecisionError:
        """The error on the part of the photo that *job* computes."""
        known = self._known.setdefault(job.photo, {})
        region = job.options.region
        if region not in known:
            known[region] = _measured(job)
        return known[region]

    def noted(self, job: Job) -> Job:
        """The *job* with its error and a note of it; the same in a precision that is exact."""
        if not job.setup.is_narrow:
            return job
        error = self.of(job)
        note = f"Computed in {job.options.precision}: {error}."
        return replace(job.noted(note), precision_error=error.largest)


def _measured(job: Job) -> PrecisionError:
    setup = replace(job.setup, options=replace(job.options, ensemble=False))
    sample = replace(
        job,
        setup=setup,
        part=job.part.sampled(*SAMPLE),
        compute=setup.cube_of,
        watch=Watch(is_cancelled=job.watch.is_cancelled),
    )
    plans = [Plan(precision=name) for name in ("float32", job.options.precision)]
    exact, narrow = (had(run(sample, plan), sample).astype(np.float64) for plan in plans)
    off = np.abs(narrow - exact) / max(float(np.abs(exact).max()), 1e-30)
    return PrecisionError(float(off.max()), float(np.sqrt((off**2).mean())), *sample.part.shape)
