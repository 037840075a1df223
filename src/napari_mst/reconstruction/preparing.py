"""The first step: reads a photo, or a part of it, and describes it for the network."""

from dataclasses import replace

from napari_mst.base.errors import PhotoError
from napari_mst.calibration.corrections import balancing_gains
from napari_mst.cube.colour import SRGB_D65
from napari_mst.photo.cameras import BALANCED
from napari_mst.photo.photo import Photo, PhotoLike, Rectangle, as_photo
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.lighting import lighting_of
from napari_mst.reconstruction.setup import Setup

PREVIEW_PIXELS = 250_000
"""Approximate number of pixels of a preview."""


def prepared_job(setup: Setup, photo: PhotoLike) -> Job:
    """Return the job for *photo*, or for the region named by the options of *setup*.

    Raises
    ------
    PhotoError
        If the photo cannot be read or does not fit the network, or if the region is empty or
        reaches beyond the photo.
    CameraError
        If the illuminant is to be estimated, but the photo is white-balanced.
    """
    whole = read(setup, photo)
    lit, doubt, notes = lighting_of(setup, whole)
    job = Job(
        setup=lit,
        photo=whole,
        part=whole,
        compute=lit.cube_of,
        extrema=_extrema(lit, whole),
        notes=notes,
        is_light_estimated=lit is not setup,
        light_doubt=doubt,
        orientations=lit.orientations,
    )
    region = setup.options.region
    return job if region is None else _cropped(job, region)


def read(setup: Setup, photo: PhotoLike) -> Photo:
    """Read *photo* and check that the network of *setup* accepts it; else `PhotoError`."""
    source = as_photo(photo)
    card = setup.model.card
    bands, _ = setup.model.sides
    channels = len(source.pixels)
    if channels != bands:
        raise PhotoError(f"Expected {bands} channels for the model {card.name}, got {channels}.")
    if card.needs_camera and source.encoding != "linear":
        raise PhotoError(
            f"Expected linear RGB of a camera for the model {card.name}, got sRGB-encoded values. "
            "Say that the photo is linear, if it is, or use another model."
        )
    if source.shot is not None:
        _check_raw(setup, source)
    return source


def _check_raw(setup: Setup, photo: Photo) -> None:
    """Raise `PhotoError` for a RAW *photo* if the model expects sRGB or the balance is missing."""
    card = setup.model.card
    if card.rendering == SRGB_D65:
        raise PhotoError(
            f"Expected an sRGB photo for the model {card.name}, got the values of a sensor: a RAW "
            "photo. Use mstpp-camera with the illuminant of the photo."
        )
    acquisition = setup.options.acquisition
    # Only the white balance as shot can be missing; that of an estimated light follows later.
    if acquisition is not None and acquisition.balance == BALANCED:
        balancing_gains(photo, acquisition)


def averaged_down(job: Job) -> Job:
    """Return *job* as a preview: its part averaged down in linear light, with a note about it."""
    small = job.part.reduced(PREVIEW_PIXELS, job.progress)
    rows, columns = small.shape
    note = (
        f"A preview: the photo was averaged down to {rows} x {columns} pixels first, "
        "which changes the numbers."
    )
    return replace(job.noted(note), part=small, is_preview=True)


def _cropped(job: Job, region: Rectangle) -> Job:
    """Return *job* cropped to a *region* of its photo, with a note about it."""
    top, bottom, left, right = region
    note = (
        f"Only rows {top} to {bottom - 1}, columns {left} to {right - 1} of the photo were read. "
        f"{_meaning_of_region(job.setup)}"
    )
    return replace(job.noted(note), part=job.part.cropped(region))


def _meaning_of_region(setup: Setup) -> str:
    """Describe how results of a region compare with those of the whole photo."""
    program = setup.program
    if program.is_pixelwise:
        rounding = ", to 1e-6 of its largest value" if setup.has_plain_passes() else ""
        return (
            "The network sees each pixel alone, so its estimate is that of the whole photo"
            f"{rounding}."
        )
    differ = "its numbers differ from those of the whole photo."
    if program.is_global:
        return f"Attention is global, so a region is another image: {differ}"
    return (
        f"The network groups pixels from the corner of a region on, and ends at its edges: {differ}"
    )


def _extrema(setup: Setup, photo: Photo) -> tuple[float, float]:
    """Return the values of *photo* that become 0 and 1 for the network."""
    acquisition = setup.options.acquisition
    if acquisition is not None and acquisition.white:
        return 0.0, acquisition.white / photo.full_scale
    if setup.model.card.normalisation == "min-max":
        return photo.extrema()
    return 0.0, 1.0
