"""One photo on one setup: the frozen record that passes through all steps.

Letters: C channels, H rows, W columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from napari_mst.base.arrays import Floats
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.calibration.corrections import balancing_gains
from napari_mst.denoising.nl_bayes import NLBayes
from napari_mst.engine.features import PhotoRows, ReadRows
from napari_mst.engine.plan import Plan
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.setup import UNTURNED, Orientation, Setup, turned

Compute = Callable[[PhotoRows, Plan, Progress], Floats]
"""Computes planes (C, H, W) from a photo by a plan: a cube, or attention maps."""


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that one run needs; each step is a function of a job.

    Attributes
    ----------
    setup
        The model, ready to run, with the options of this photo.
    photo
        The whole photo, which the history names.
    part
        The pixels to compute: all, a region, or a preview of either.
    compute
        Computes the result.
    extrema
        Values that become 0 and 1 for the network. They belong to the whole photo, so a region is
        scaled like the photo.
    progress
        Receives the share that is done; checked for cancellation.
    notes
        Sentences about assumptions made so far.
    precision_error
        Largest error of 16 bits, as a share of the largest value; 0 in other precisions.
    estimate_error
        Largest error of estimated statistics, as a share of the largest value; 0 for exact ones.
    is_preview
        True if the part was averaged down.
    denoising
        Settings for denoising the part before it is computed; None for no denoising.
    is_light_estimated
        True if the illuminant was estimated from the photo.
    light_doubt
        Possible error of the spectra from an estimated light, as a share for each band; empty if
        the light was named.
    orientations
        Flips and transposes over which the result is averaged.
    """

    setup: Setup
    photo: Photo
    part: Photo
    compute: Compute
    extrema: tuple[float, float]
    progress: Progress = NO_PROGRESS
    notes: tuple[str, ...] = ()
    precision_error: float = 0.0
    estimate_error: float = 0.0
    is_preview: bool = False
    denoising: NLBayes | None = None
    is_light_estimated: bool = False
    light_doubt: tuple[float, ...] = ()
    orientations: tuple[Orientation, ...] = (UNTURNED,)

    @property
    def options(self) -> RunOptions:
        """The options of this photo."""
        return self.setup.options

    def noted(self, note: str) -> "Job":
        """Return a copy of the job with one more *note*."""
        return replace(self, notes=(*self.notes, note))

    def stage(self, start: float, stop: float) -> "Job":
        """Return the job as one stage of the work, with progress from *start* to *stop*, 0-1."""
        return replace(self, progress=self.progress.part(start, stop))

    def source(self, orientation: Orientation = UNTURNED) -> PhotoRows:
        """Return the part, turned, as the network expects it."""
        # The network sees 0 at unknown pixels, which `build_cube` makes NaN in the result.
        photo = replace(self.part, pixels=turned(self.part.pixels, orientation), valid=None)
        return PhotoRows(_network_rows(self, photo), *photo.shape)


def _network_rows(job: Job, photo: Photo) -> ReadRows:
    """Return a function that gives rows of *photo* in the form stated by the model's card."""
    is_linear = job.setup.model.card.is_linear
    acquisition = job.options.acquisition
    low, high = job.extrema
    gains = np.ones(3) if acquisition is None else balancing_gains(job.photo, acquisition)
    if (low, high) == (0, 1) and (gains == 1).all():
        return lambda start, stop: photo.rows(start, stop, linear=is_linear)
    # A constant photo has no range to stretch, so it becomes 0.
    scale = gains[:, None, None] / (high - low) if high > low else np.zeros(1)
    factor = scale.astype(np.float32)
    offset = np.float32(low)
    return lambda start, stop: (photo.rows(start, stop, linear=is_linear) - offset) * factor
