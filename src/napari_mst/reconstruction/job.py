"""One photo on one setup: the frozen record that each step of the walk takes.

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
"""Makes (C, H, W) numbers of a photo as a plan says: those of a cube, or attention maps."""


@dataclass(frozen=True, eq=False)
class Job:
    """All that one run needs; each step of the way is a function of it.

    Attributes
    ----------
    setup
        The model, ready to run, with the options of this photo.
    photo
        All of the photo: the history names it.
    part
        The pixels that are computed: all, a region, or a preview of either.
    compute
        Makes the result.
    extrema
        The values of the photo that become 0 and 1 for the network: those of the whole photo, so
        that a region is seen as in it.
    progress
        Receives the share that is done; checked for cancellation.
    notes
        Sentences about what had to be assumed so far.
    precision_error
        The largest error of 16 bits, a share of the largest value; 0 in another precision.
    estimate_error
        The largest error of estimated statistics, a share of the largest value; 0 for exact ones.
    is_preview
        Whether the part was averaged down.
    denoising
        How the part is denoised before it is computed; None if it is not.
    is_light_estimated
        Whether the illuminant was estimated from the photo.
    light_doubt
        How far the spectra may be off by an estimated light, a share of them for each band; empty
        where the light was named.
    orientations
        The flips and transposes over which the mean is taken.
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
        """A copy of the job with one more *note*."""
        return replace(self, notes=(*self.notes, note))

    def stage(self, start: float, stop: float) -> "Job":
        """The job as one stage of the work: its progress goes from *start* to *stop*, 0-1."""
        return replace(self, progress=self.progress.part(start, stop))

    def source(self, orientation: Orientation = UNTURNED) -> PhotoRows:
        """The part, turned, as the network expects it."""
        # The network sees 0 in pixels that are unknown; `build_cube` takes them out of its result.
        photo = replace(self.part, pixels=turned(self.part.pixels, orientation), valid=None)
        return PhotoRows(_network_rows(self, photo), *photo.shape)


def _network_rows(job: Job, photo: Photo) -> ReadRows:
    """Gives rows of *photo* as the model's card says that the network expects them."""
    is_linear = job.setup.model.card.is_linear
    acquisition = job.options.acquisition
    low, high = job.extrema
    gains = np.ones(3) if acquisition is None else balancing_gains(job.photo, acquisition)
    if (low, high) == (0, 1) and (gains == 1).all():
        return lambda start, stop: photo.rows(start, stop, linear=is_linear)
    # A constant photo has no range to stretch: it becomes 0.
    scale = gains[:, None, None] / (high - low) if high > low else np.zeros(1)
    factor = scale.astype(np.float32)
    offset = np.float32(low)
    return lambda start, stop: (photo.rows(start, stop, linear=is_linear) - offset) * factor
