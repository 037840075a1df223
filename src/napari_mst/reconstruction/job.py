"""The second step: a photo, or a part of it, read and prepared for the network.

Letters: C channels, H rows, W columns.
"""

from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_mst.engine.plan import Plan
from napari_mst.engine.run import RowSource, Source
from napari_mst.errors import PhotoError
from napari_mst.photo.photo import Photo, Rectangle, as_photo
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.setup import Setup
from napari_mst.watch import UNWATCHED, Watch

PhotoLike = Photo | str | PathLike[str] | ArrayLike
"""A photo, its file, or an array of it."""

PREVIEW_PIXELS = 250_000
"""About how many pixels a preview has."""

Orientation = tuple[bool, bool, bool]
"""Whether the rows and the columns are reversed, and whether they are then exchanged."""

ORIENTATIONS: tuple[Orientation, ...] = tuple(product((True, False), (True, False), (True, False)))
"""The eight of the published ensemble; the last changes nothing, so that its attention is what a recorder keeps."""

UNTURNED = ORIENTATIONS[-1]
"""The photo as it is."""


class Compute(Protocol):
    """Makes something of a photo on the device of a `Reconstructor`: a cube, or maps of attention."""

    def __call__(self, source: Source, plan: Plan, watch: Watch) -> NDArray[np.floating]:
        """(C, H, W) numbers of the photo of *source*, computed as *plan* says."""


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
        The values of the photo that become 0 and 1 for the network, which are those of all of it.
    watch
        Told of the progress, and asked for a cancel.
    notes
        Sentences about what had to be assumed so far.
    precision_error
        The largest error of 16 bits, a share of the largest value; 0 in another precision.
    is_preview
        Whether the part was averaged down.
    """

    setup: Setup
    photo: Photo
    part: Photo
    compute: Compute
    extrema: tuple[float, float]
    watch: Watch = UNWATCHED
    notes: tuple[str, ...] = ()
    precision_error: float = 0.0
    is_preview: bool = False

    @property
    def options(self) -> RunOptions:
        """How the photo is reconstructed."""
        return self.setup.options

    @property
    def orientations(self) -> tuple[Orientation, ...]:
        """The flips and transposes over which the mean is taken."""
        return ORIENTATIONS if self.options.ensemble else (UNTURNED,)

    def noted(self, note: str) -> "Job":
        """The same job with one more *note*."""
        return replace(self, notes=(*self.notes, note))

    def share(self, start: float, stop: float) -> "Job":
        """The job as the part of the work from *start* to *stop*, shares of the whole."""
        return replace(self, watch=self.watch.part(start, stop))

    def source(self, orientation: Orientation = UNTURNED) -> Source:
        """The part, turned, as the network expects it."""
        photo = replace(self.part, pixels=turned(self.part.pixels, orientation), valid=None)
        return Source(_rows(self, photo), *photo.shape)


def job_of(
    setup: Setup, photo: PhotoLike, compute: Compute | None = None, watch: Watch = UNWATCHED
) -> Job:
    """The job of *photo*, or of the region of it that the options name; it makes a cube, unless *compute* says else.

    Raises
    ------
    PhotoError
        If the photo cannot be read or is not one for the network, or the region is empty or reaches beyond it.
    """
    source = read(setup, photo)
    region = setup.options.region
    part = source if region is None else source.cropped(region)
    notes = () if region is None else (_region_note(region),)
    return Job(setup, source, part, compute or setup.cube_of, _extrema(setup, source), watch, notes)


def read(setup: Setup, photo: PhotoLike) -> Photo:
    """*photo*, which has the channels that the network takes; else a `PhotoError`."""
    source = as_photo(photo)
    channels, card = setup.network.in_bands, setup.model.card
    if channels != len(source.pixels):
        raise PhotoError(
            f"Expected {channels} channels for the model {card.name}, got {len(source.pixels)}."
        )
    if card.needs_camera and source.encoding != "linear":
        raise PhotoError(
            f"Expected linear RGB of a camera for the model {card.name}, got sRGB-encoded values. "
            "Say that the photo is linear, if it is, or use another model."
        )
    return source


def reduced(job: Job) -> Job:
    """The *job* of a preview: its part averaged down in linear light, which it notes."""
    small = job.part.reduced(PREVIEW_PIXELS, job.watch)
    size = " x ".join(map(str, small.shape))
    note = (
        f"A preview: the photo was averaged down to {size} pixels first, which changes the numbers."
    )
    return replace(job.noted(note), part=small, is_preview=True)


def turned(planes: NDArray[Any], orientation: Orientation) -> NDArray[Any]:
    """(C, H, W) as *orientation* says: a view."""
    flips_rows, flips_columns, is_transposed = orientation
    flipped = planes[:, :: -1 if flips_rows else 1, :: -1 if flips_columns else 1]
    return flipped.swapaxes(1, 2) if is_transposed else flipped


def turned_back(planes: NDArray[Any], orientation: Orientation) -> NDArray[Any]:
    """The inverse of `turned`."""
    flips_rows, flips_columns, is_transposed = orientation
    return turned(
        planes.swapaxes(1, 2) if is_transposed else planes, (flips_rows, flips_columns, False)
    )


def _extrema(setup: Setup, photo: Photo) -> tuple[float, float]:
    """The values that become 0 and 1 for the network."""
    capture = setup.options.capture
    if capture is not None and capture.white:
        return 0.0, capture.white / photo.full_scale
    return photo.extrema() if setup.model.card.normalisation == "min-max" else (0.0, 1.0)


def _rows(job: Job, photo: Photo) -> RowSource:
    """Rows of *photo* as the model's card says that the network expects them."""
    low, high = job.extrema
    is_linear, capture = job.setup.model.card.is_linear, job.options.capture
    gains = np.ones(3) if capture is None else capture.gains
    if (low, high) == (0, 1) and (gains == 1).all():
        return lambda start, stop: photo.rows(start, stop, linear=is_linear)
    scale = (gains[:, None, None] / (high - low) if high > low else np.zeros(1)).astype(np.float32)
    return lambda start, stop: (photo.rows(start, stop, linear=is_linear) - np.float32(low)) * scale


def _region_note(region: Rectangle) -> str:
    top, bottom, left, right = region
    return (
        f"Only rows {top} to {bottom - 1}, columns {left} to {right - 1} of the photo were read. "
        "Attention is global, so a region is another image: its numbers differ from those of the whole photo."
    )
