"""The words between a dock and a job: what is asked for, the job itself, what it leaves behind.

Nothing here knows Qt or napari.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from napari_mst.attention.record import AttentionRecord
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.photo.cameras import Capture
from napari_mst.photo.photo import Encoding, Photo, Rectangle
from napari_mst.plugin.jobs.job import Reports, ignore
from napari_mst.reconstruction.options import DEFAULTS, Denoise, RunOptions
from napari_mst.watch import Watch, Watched

PREVIEW_FROM = 2_000_000
"""Pixels from which a preview comes first; it then takes at most an eighth of the exact run."""


class PhotoSource(Protocol):
    """The place that a job's photo comes from, and that its cube belongs to."""

    @property
    def name(self) -> str:
        """The name of the source when the job began."""

    @property
    def region(self) -> Rectangle | None:
        """The part of the photo that the cube shall cover; None for all of it."""

    def read(self, encoding: Encoding | None = None) -> Photo:
        """Read the whole photo, on the job's thread. Raises `PhotoError` if it is not one."""

    def reference(self) -> Callable[[], Any]:
        """Return what finds the photo again, without keeping its pixels."""


@dataclass(frozen=True, eq=False)
class SideJob:
    """Makes something other than a cube of a photo.

    Attributes
    ----------
    make
        Called on the job's thread with the `Request` and `Reports`.
    show
        Called on the main thread with the viewer, the result and the `Request`, whether or not a
        dock is open; None for a result that only a dock draws.
    is_of_photo
        True if its sentences belong to the page of the photo, as those of a reconstruction do.
    lines
        What there is to say of the result: one sentence, and more lines for those who want to know.
        By default, what its `provenance` says.
    """

    make: Callable[["Request", Reports], Any]
    show: Callable[[Any, Any, "Request"], None] | None = None
    is_of_photo: bool = False
    lines: Callable[[Any], Sequence[str]] = lambda result: lines_of(result.provenance)


class PhotoCorrection(Protocol):
    """Corrects a photo before a run: its light is made even, its white balance or colours right."""

    def corrected(self, photo: Photo) -> Photo:
        """The photo as the network shall see it. Raises `PhotoError` if it is not one for this."""

    def sha256_of(self, photo_sha256: str) -> str:
        """The sha256 of the corrected photo, from that of the photo itself."""


@runtime_checkable
class CubeCorrection(Protocol):
    """Corrects a cube after its run, by what its photo shows: a `Calibration` by a chart."""

    def adapted(
        self,
        cube: SpectralCube,
        photo: Photo,
        watch: Watched = None,
    ) -> SpectralCube:
        """The *cube* of all of the corrected *photo*, corrected as well."""


@dataclass(frozen=True, eq=False)
class Request:
    """All that a person decides before a job starts; `workspace.run(request)` starts it.

    Attributes
    ----------
    model
        The name of a bundled model, or a file of weights.
    job
        None for a reconstruction, which makes a cube.
    corrections
        What is done to the photo before the run, in this order: a flat field, a white balance, the
        colours of a chart.
    """

    source: PhotoSource
    model: str
    options: RunOptions = DEFAULTS
    job: SideJob | None = None
    corrections: tuple[PhotoCorrection, ...] = ()

    @property
    def is_of_photo(self) -> bool:
        """True if the page of the photo shows how the job goes."""
        return self.job is None or self.job.is_of_photo

    def lines(self, result: Any) -> Sequence[str]:
        """Return what there is to say of the *result* of the job."""
        return lines_of(result.provenance) if self.job is None else self.job.lines(result)

    def read(self) -> Photo:
        """Read the photo, as linear light if its camera is known, and correct it."""
        photo = self.source.read("linear") if self.options.capture else self.source.read()
        for correction in self.corrections:
            photo = correction.corrected(photo)
        return photo

    def adapted(self, cube: SpectralCube, photo: Photo, watch: Watch) -> SpectralCube:
        """Correct the *cube* of all of *photo* by the patches of its chart, if it shows one."""
        if cube.provenance.region:
            return cube
        for correction in self.corrections:
            if isinstance(correction, CubeCorrection):
                cube = correction.adapted(cube, photo, watch=watch)
        return cube


@dataclass(frozen=True, eq=False)
class Recording:
    """The attention of one run, with what is needed to run its photo again as it was run then.

    *reference* returns the photo; None if it is gone.
    """

    record: AttentionRecord
    name: str
    model: str = ""
    device: str = "auto"
    reference: Callable[[], Any] = ignore
    capture: Capture | None = None
    corrections: tuple[PhotoCorrection, ...] = ()
    denoise: Denoise = "auto"

    @classmethod
    def of(cls, record: AttentionRecord, request: Request) -> "Recording":
        """Keep *record*, which the job of *request* has made."""
        return cls(
            record=record,
            name=request.source.name + extent(record.provenance),
            model=request.model,
            device=request.options.device,
            reference=request.source.reference(),
            capture=request.options.capture,
            corrections=request.corrections,
            denoise=request.options.denoise,
        )


def lines_of(history: Provenance) -> list[str]:
    """Return what a run has assumed and where it ran, below a first line that is empty."""
    where = [f"Computed on {history.device}."] if history.device else []
    return ["", *where, *history.assumptions]


def extent(provenance: Provenance) -> str:
    """Say which part of its photo a run saw; "" if it saw all of it as it is."""
    region = f" [{provenance.region.replace(',', ', ')}]" if provenance.region else ""
    # The mean is over eight passes; only the first, unflipped one is recorded.
    flips = ", unflipped of 8" if provenance.is_ensemble else ""
    return region + flips


def reconstruct(request: Request, reports: Reports) -> SpectralCube:
    """Read the photo, load the model and run it; the job of the reconstruction dock."""
    # These import torch, which takes seconds: here they do so on the job's thread.
    from napari_mst.attention.recorder import record_attention
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    photo = request.read()
    reconstructor = Reconstructor(load_model(request.model), **vars(request.options))
    reconstructor.prepare(reports.say, reports)
    seen = reconstructor.see(photo)
    device = reconstructor.device
    running = f"Running on {device.name}: {seen.plan(reports)}."
    reports.say("\n".join([running, f"{device.name}: {device.reason}.", *photo.assumptions]))
    rows, columns = seen.shape
    if rows * columns >= PREVIEW_FROM:
        reports.preview(seen.preview(reports))
    with record_attention(reconstructor.model) as record:
        cube = seen.reconstruct(reports)
    cube = request.adapted(cube, photo, reports)
    # A network without attention leaves the record empty.
    if record:
        # By the provenance the attention dock finds the cube of this run again.
        reports.record(replace(record, provenance=cube.provenance))
    return cube
