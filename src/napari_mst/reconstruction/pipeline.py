"""The walk of a photo to its cube, from top to bottom."""

from dataclasses import replace

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.photo.photo import PhotoLike
from napari_mst.reconstruction.correcting import correct, shares_of_run
from napari_mst.reconstruction.denoising import bytes_to_denoise, decided, denoised
from napari_mst.reconstruction.job import Compute, Job
from napari_mst.reconstruction.precision import PrecisionErrors
from napari_mst.reconstruction.preparing import averaged_down, prepare
from napari_mst.reconstruction.provenance import build_cube, provenance_of
from napari_mst.reconstruction.running import Planes, plan_run, run
from napari_mst.reconstruction.setup import Setup
from napari_mst.watch import Watch


def reconstruct(
    setup: Setup,
    photo: PhotoLike,
    errors: PrecisionErrors,
    watch: Watch,
    *,
    is_preview: bool = False,
) -> SpectralCube:
    """The cube of *photo*, made as *setup* and its options say; see `Reconstructor.reconstruct`.

    *errors* are those of 16 bits that are known already. A preview is the cube of the photo
    averaged down.
    """
    job = prepare(setup, photo, watch)
    job = errors.noted(job)  # before the photo is averaged down: the error is that of an exact run
    if is_preview:
        job = averaged_down(job)
    job = decided(job)
    plan = plan_run(job.setup, *job.part.shape, bytes_to_denoise(job))
    start, stop = shares_of_run(job)
    seen = denoised(job, watch.part(0, start))
    result = run(seen.stage(start, stop), plan)
    # With the photo as it was shot, whose noise tells how far its colours can be trusted.
    correction = correct(job.stage(stop, 1), result.planes)
    return build_cube(result, correction)


def see(setup: Setup, photo: PhotoLike, watch: Watch) -> Job:
    """The job of *photo* up to the network: read, told its light, and denoised if it is noisy."""
    return denoised(decided(prepare(setup, photo, watch)), watch)


def compute_planes(job: Job, compute: Compute, watch: Watch) -> tuple[Planes, Provenance]:
    """The planes (C, H, W) that *compute* makes of a *job* that was seen, and their history."""
    plan = plan_run(job.setup, *job.part.shape, bytes_to_denoise(job))
    result = run(replace(job, compute=compute, watch=watch), plan)
    return result.planes, provenance_of(result)
