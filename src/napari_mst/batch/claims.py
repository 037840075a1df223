"""Claims: several runs over the same photos share the work.

Before a run makes a cube it claims it, with a lock file beside it, and leaves to the other runs
what they have claimed. A claim ends with its process, in whatever way that ends: the next run makes
what a killed one has left.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from napari_mst.batch.jobs import BatchJob, make_folder, not_saved
from napari_mst.watch import Watch


@contextmanager
def claimed(job: BatchJob, watch: Watch, *, waits: bool) -> Iterator[bool]:
    """Claim *job* for this run while the block lasts, and give whether it is ours.

    With *waits* it waits for another run that has claimed the job, until *watch* is cancelled.

    Raises
    ------
    SaveError
        If the lock file cannot be made.
    """
    from filelock import FileLock, Timeout

    path = job.target.with_name(f".{job.target.name}.run")
    lock = FileLock(path)
    try:
        make_folder(job.target.parent)
        lock.acquire(timeout=-1 if waits else 0, cancel_check=watch.is_cancelled)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise not_saved(job.target, error) from error
    try:
        yield True
    finally:
        # Deleted while it is still locked: another run must not lock a file that then goes.
        with suppress(OSError):
            path.unlink()
        lock.release()
