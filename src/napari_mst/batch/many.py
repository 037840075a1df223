"""Reconstructs many photos at once, for notebooks."""

import functools
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.base.progress import Progress, ProgressLike, as_progress
from napari_mst.batch.batch import Batch, Outcome
from napari_mst.batch.execution import check_workers, outcomes
from napari_mst.batch.jobs import (
    BatchJob,
    check_names,
    check_outputs,
    find_photos,
    folders_for,
    may_stay,
    plan_jobs,
)
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.models import Model, load_model
from napari_mst.models.cards import model_for
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.reconstructor import Reconstructor

if TYPE_CHECKING:
    from distributed import Client


def reconstruct_many(  # noqa: PLR0913 (public, its options by name)
    photos: str | PathLike[str] | Iterable[str | PathLike[str]],
    folder: str | PathLike[str],
    client: "Client | None" = None,
    *,
    model: str | PathLike[str] | Model | None = None,
    suffix: str = ".hdr",
    overwrite: bool = False,
    progress: ProgressLike = None,
) -> list[Outcome]:
    """Save the cubes of many photos in *folder*; finished cubes from the same model stay.

    Parameters
    ----------
    photos
        Files, folders, patterns or URLs such as "s3://bucket/photos" (see `docs/clusters.md`).
    client
        A `distributed.Client` whose workers make the cubes; by default, this process makes them.
    model
        As for `reconstruct`.
    suffix
        Suffix of the cubes, which determines their format.

    Returns
    -------
    The outcome of each photo: its `job.photo`, `job.target` and `error`, which is None if the cube
    is saved.

    Raises
    ------
    PhotoError, ModelError, SaveError, ClusterError
        Before any cube is made: if there are no photos, no such model, a file in the way, or
        workers that would make different cubes or do not see the folder.

    Notes
    -----
    =======  ======================================================================
    photos   files, as for `Photo.read`
    folder   a folder, which is created if missing, or a URL
    returns  a list, in the order in which the photos finished
    =======  ======================================================================

    Examples
    --------
    >>> from PIL import Image
    >>> Image.fromarray(np.full((4, 6, 3), 128, np.uint8)).save("photo.png")
    >>> ended = nm.reconstruct_many(["photo.png"], "cubes", model="pixelwise-srgb")
    >>> [(each.job.target.name, each.error) for each in ended]
    [('photo.hdr', None)]
    """
    named = [photos] if isinstance(photos, str | PathLike) else photos
    output = Path(folder)
    jobs = plan_jobs(find_photos(map(Path, named), output, lambda _: None), output, suffix, False)
    check_names(jobs)
    making = _Making(model)
    with folders_for(jobs):
        for job in jobs:
            check_outputs(job, overwrite, may_stay(job))
        check_workers(client, jobs, output)
        batch = Batch(making.cubes, making.history, overwrite)
        watched, ended = as_progress(progress), list[Outcome]()
        for outcome in outcomes(batch, jobs, client, watched):
            ended.append(outcome)
            watched.reach(len(ended) / len(jobs))
        return ended


@functools.cache
def _reconstructor(model: str) -> Reconstructor:
    return Reconstructor(load_model(model))


class _Making:
    """Makes cubes with one *model*, or with the model that suits each photo."""

    def __init__(self, model: str | PathLike[str] | Model | None) -> None:
        if isinstance(model, str | PathLike):
            model = load_model(model)
        self._own = None if model is None else Reconstructor(model)

    def reconstructor_of(self, photo: Photo) -> Reconstructor:
        """Return the reconstructor for *photo*."""
        return self._own or _reconstructor(model_for(photo.exact_by))

    def history(self, path: Path, sha256: str) -> Provenance:
        """See `HistoryOf`."""
        photo = Photo.read(path)
        return self.reconstructor_of(photo).origin(sha256, photo.encoding)

    def cubes(
        self, job: BatchJob, _: set[Path], progress: Progress
    ) -> Iterator[tuple[Path, SpectralCube]]:
        """See `CubesOf`."""
        photo = Photo.read(job.photo)
        yield job.target, self.reconstructor_of(photo).reconstruct(photo, progress)
