"""The last step: record where a cube came from.

Letters: B bands, H rows, W columns.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from napari_mst.base.arrays import doubles
from napari_mst.cube import BAND_INDEX, NANOMETRES, Provenance, SpectralCube, georeference
from napari_mst.cube.lazy import Lazy
from napari_mst.models.cards import CAMERA, JPEG, NOISE, reason_for
from napari_mst.photo.cameras import (
    BALANCED,
    CHART,
    OF_SENSOR,
    Acquisition,
    is_file,
    named,
    unbalanced_response,
)
from napari_mst.photo.photo import Rectangle
from napari_mst.photo.raw import Shot
from napari_mst.reconstruction.colour_fidelity.correction import Correction
from napari_mst.reconstruction.job import Job
from napari_mst.reconstruction.model_intervals import photo_interval
from napari_mst.reconstruction.running import RunResult
from napari_mst.reconstruction.setup import Setup

ELSEWHERE = {
    *("device", "memory", "device_memory", "precision", "denoise", "correct_colour"),
    *("acquisition", "calibrated_by", "region", "ensemble"),
}
"""Options with dedicated fields in a history, or without influence on the cube."""
THROUGH = {"device": "", "memory": " through memory", "file": " through a file"}
"""Wording in a history for the place where a plan keeps features."""


@cache
def _version(package: str) -> str:
    # Cached, since searching all installed packages takes 10 ms.
    return metadata.version(package)


def origin(setup: Setup, sha256: str, encoding: str) -> Provenance:
    """Return the part of the history known before a run, for a photo with this *sha256*."""
    card = setup.model.card
    options = setup.options
    denoise = options.denoise
    return Provenance(
        model=card.name,
        weights_sha256=setup.model.weights_sha256,
        normalisation=card.normalisation,
        device=f"{setup.device.name} ({setup.device.reason})",
        precision=options.precision,
        denoise=denoise if isinstance(denoise, str) else f"{denoise:g}",
        correction="colours corrected" if setup.corrects_colour else "",
        calibrated_by=options.calibrated_by,
        source_sha256=sha256,
        encoding=encoding,
        **_acquisition_fields(options.acquisition),
        region=_region_text(options.region),
        is_ensemble=options.ensemble,
        options={
            each.name: str(getattr(options, each.name))
            for each in fields(options)
            if each.name not in ELSEWHERE and getattr(options, each.name) != each.default
        }
        | _known(options.acquisition),
        versions={package: _version(package) for package in ("napari-mst", "numpy", "torch")},
    )


def provenance_of(result: RunResult) -> Provenance:
    """Return the history of a *result*: model, photo, settings and assumptions."""
    job = result.job
    photo = job.photo
    card = job.setup.model.card
    assumptions = (
        *photo.assumptions,
        *_acquisition_notes(job.options.acquisition, photo.shot),
        *job.setup.model.assumptions,
        *filter(None, [reason_for(card.name, photo.exact_by or job.options.calibrated_by)]),
        *job.notes,
        *_padding_notes(job),
    )
    return replace(
        origin(job.setup, photo.sha256, photo.encoding),
        engine=_engine(job.setup) + THROUGH[result.plan.place],
        source=photo.name,
        assumptions=assumptions,
        denoising=str(job.denoising) if job.denoising else "",
        precision_error=job.precision_error,
        estimate_error=job.estimate_error,
        is_light_estimated=job.is_light_estimated,
        is_preview=job.is_preview,
    )


def _padding_notes(job: Job) -> tuple[str, ...]:
    """Describe the padding of a photo that the windows or blocks of the network do not divide."""
    program = job.setup.program
    height, width = job.part.shape
    rows, columns = program.padded(height, width)
    if not program.has_windows or (rows, columns) == (height, width):
        return ()
    return (
        f"The network works in blocks, which do not divide {height} x {width} pixels, so it saw "
        f"{rows} x {columns}: the end is the photo reflected.",
    )


def build_cube(result: RunResult, correction: Correction | None) -> SpectralCube:
    """Return the planes of a *result* as a cube, with NaN at unknown pixels of the photo."""
    data = result.planes
    card = result.job.setup.model.card
    part = result.job.part
    if part.valid is not None and not isinstance(data, Lazy):
        data[:, ~part.valid] = np.nan
    wavelengths = doubles(card.wavelengths or range(len(data)))
    metadata = {georeference.FIELD: part.georeference.to_json()} if part.georeference else {}
    corrected = correction.text if correction else ""
    return SpectralCube(
        data,
        wavelengths,
        unit=NANOMETRES if card.wavelengths else BAND_INDEX,
        quantity=card.quantity,
        provenance=replace(
            provenance_of(result),
            correction=corrected,
            error_band=_band(result.job, correction),
        ),
        metadata=metadata,
        colour_error=correction.colour_error
        if correction and correction.colour_error.size
        else None,
    )


def _band(job: Job, correction: Correction | None) -> dict[str, Any]:
    """Return the prediction interval for the history, widened if the light was estimated."""
    band = photo_interval(job.setup.model.card, _doubt(job, correction))
    if not band or not job.light_doubt:
        return band
    # Independent doubts add in quadrature.
    doubt = np.hypot(band["doubt"], job.light_doubt).round(4).tolist()
    return {**band, "doubt": doubt, "holds": f"{band['holds']} and an estimated light"}


def _doubt(job: Job, correction: Correction | None) -> str:
    """Return the doubt about the photo of *job* that its prediction interval must cover."""
    card = job.setup.model.card
    if card.needs_camera:
        return NOISE
    if NOISE not in card.error_band:
        return CAMERA  # a model for camera photos
    if not job.options.calibrated_by:
        return CAMERA
    has_blocks = correction is not None and correction.is_jpeg
    return JPEG if job.photo.is_jpeg or has_blocks else NOISE


def _engine(setup: Setup) -> str:
    kind = "16 bits" if setup.is_narrow else "exact"
    kernels = f" by kernels of numba {_version('numba')}" if setup.has_kernels() else ""
    return f"{kind}, streamed{kernels}"


def _acquisition_fields(acquisition: Acquisition | None) -> dict[str, Any]:
    """Return the fields of a `Provenance` that record the *acquisition*."""
    if acquisition is None:
        return {}
    return {
        "camera": named(acquisition.camera),
        "illuminant": named(acquisition.illuminant),
        "white": acquisition.white,
        "white_balance": acquisition.balance,
        "is_light_estimated": acquisition.is_estimated,
        "sensor": _sensor(acquisition),
    }


def _known(acquisition: Acquisition | None) -> dict[str, str]:
    """Return the option that identifies known surfaces in the photo by a checksum, if any."""
    if acquisition is None or not acquisition.references:
        return {}
    numbers = [
        (place, *np.ravel(getattr(surface, "values", surface)).tolist())
        for place, surface in acquisition.references.items()
    ]
    checksum = hashlib.sha256(repr(numbers).encode()).hexdigest()[:12]
    return {"known in the photo": f"{len(numbers)} ({checksum})"}


def _sensor(acquisition: Acquisition) -> Sequence[Sequence[float]]:
    """Return the response of a camera or light from a file, which may be gone when it is needed."""
    if acquisition.is_estimated or not (
        is_file(acquisition.camera) or is_file(acquisition.illuminant)
    ):
        return ()
    response = unbalanced_response(acquisition.camera, acquisition.illuminant)
    return [[float(f"{value:.5g}") for value in row] for row in response]


def _acquisition_notes(acquisition: Acquisition | None, shot: Shot | None) -> list[str]:
    if acquisition is None:
        return []
    notes = []
    if not acquisition.white:
        notes.append("The full scale of the photo was taken as the value of a white surface.")
    if shot is not None and shot.camera not in ("", acquisition.camera):
        named_camera = named(acquisition.camera)
        notes.append(f"The file says that {shot.camera} took it, not {named_camera} as named.")
    if acquisition.balance not in (BALANCED, OF_SENSOR):
        surface = "chart" if acquisition.camera.startswith(CHART) else "grey patch"
        notes.append(f"White level and white balance were measured on a {surface}.")
    elif shot is not None and acquisition.balance == BALANCED:
        notes.append("The white balance is that of the file, as shot.")
    return notes


def _region_text(region: Rectangle | None) -> str:
    if region is None:
        return ""
    top, bottom, left, right = region
    return f"{top}:{bottom},{left}:{right}"
