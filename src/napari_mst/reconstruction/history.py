"""The last step: say where a cube came from.

Letters: B bands, H rows, W columns.
"""

from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from napari_mst import georeference
from napari_mst.cube import BAND_INDEX, NANOMETRES, Provenance, SpectralCube
from napari_mst.photo.cameras import Capture, named
from napari_mst.photo.photo import Rectangle
from napari_mst.reconstruction.consistency.correction import Correction
from napari_mst.reconstruction.running import Computed
from napari_mst.reconstruction.setup import Setup

THROUGH = {"device": "", "memory": " through memory", "file": " through a file"}


def origin(setup: Setup, sha256: str, encoding: str) -> Provenance:
    """The history of the cube of a photo with this *sha256* and *encoding*, whatever happens in the run."""
    card, options = setup.model.card, setup.options
    return Provenance(
        model=card.name,
        weights_sha256=setup.model.weights_sha256,
        normalisation=card.normalisation,
        device=f"{setup.device.name} ({setup.device.reason})",
        precision=options.precision,
        correction="colours corrected" if setup.corrects_colour else "",
        error_factor=card.error_factor,
        source_sha256=sha256,
        encoding=encoding,
        **_capture_fields(options.capture),
        region=_region_text(options.region),
        is_ensemble=options.ensemble,
        versions={package: version(package) for package in ("napari-mst", "numpy", "torch")},
    )


def history(done: Computed) -> Provenance:
    """The history of a result: what made it, of which photo, and all that was assumed or happened on the way."""
    job, setup = done.job, done.job.setup
    photo, capture = job.photo, job.options.capture
    return replace(
        origin(setup, photo.sha256, photo.encoding),
        engine=_engine(setup) + THROUGH[done.plan.place],
        source=photo.name,
        assumptions=(
            *photo.assumptions,
            *_capture_notes(capture),
            *setup.model.assumptions,
            *job.notes,
        ),
        precision_error=job.precision_error,
        is_preview=job.is_preview,
    )


def cube_of(done: Computed, correction: Correction | None) -> SpectralCube:
    """The numbers as a cube; pixels that are no numbers in the photo are none in it."""
    data, card, part = done.data, done.job.setup.model.card, done.job.part
    if part.valid is not None:
        data[:, ~part.valid] = np.nan
    return SpectralCube(
        data,
        np.asarray(card.wavelengths or range(len(data)), dtype=np.float64),
        unit=NANOMETRES if card.wavelengths else BAND_INDEX,
        quantity=card.quantity,
        provenance=replace(history(done), correction=correction.text if correction else ""),
        metadata={georeference.FIELD: part.georeference.to_json()} if part.georeference else {},
        quality=correction.quality if correction else None,
    )


def _engine(setup: Setup) -> str:
    kernels = f" by kernels of numba {version('numba')}" if setup.has_kernels() else ""
    return f"{'16 bits' if setup.is_narrow else 'exact'}, streamed{kernels}"


def _capture_fields(capture: Capture | None) -> dict[str, Any]:
    """Of the provenance."""
    if capture is None:
        return {}
    return {
        "camera": named(capture.camera),
        "illuminant": named(capture.illuminant),
        "white": capture.white,
        "white_balance": capture.balance,
    }


def _capture_notes(capture: Capture | None) -> list[str]:
    if capture is None or capture.white:
        return []
    return ["The full scale of the photo was taken as the value of a white surface."]


def _region_text(region: Rectangle | None) -> str:
    return "" if region is None else "{}:{},{}:{}".format(*region)
