"""Memory that is free on a machine, or within the container (cgroup) of this process; its lack.

Files: https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files and
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from napari_mst.base.errors import OutOfMemory, shown

# Of each kind of cgroup, two files and a line of `memory.stat`: limit, usage, reclaimable.
_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")

# torch reports missing memory only in the text of a RuntimeError, except on CUDA.
_SIGNS = (
    "not enough memory",
    "can't allocate memory",
    "out of memory",
    "ALLOC_FAILED",
    "Invalid buffer size",
)

_LARGEST_BLOCK = 5 << 20
"""Bytes: more than the largest block of most tiles of a run, and of chunks of files."""


def free_host_memory() -> int:
    """Bytes of the computer's memory that are free and that the container of the process allows."""
    import psutil

    of_machine = int(psutil.virtual_memory().available)
    return min([of_machine, *free_in_cgroups(Path("/"))])


def check_room(
    what: str,
    needed: int,
    advice: str = "Close other programs, or use a computer with more.",
    *,
    in_gigabytes: bool = False,
) -> None:
    """Refuse to take more bytes of memory than are free. Raises `OutOfMemory`."""
    free = free_host_memory()
    if needed > free:
        needs, got = f"{needed} bytes", str(free)
        if in_gigabytes:
            needs, got = (f"{size / 1e9:.1f} GB" for size in (needed, free))
        raise OutOfMemory(f"Expected {needs} of free memory for {shown(what)}, got {got}. {advice}")


@functools.cache
def keep_blocks() -> None:
    """Have glibc keep the memory of blocks that are freed for those that come next.

    It keeps blocks as large as any freed so far, and twice as much in all.

    It would give it back to the system otherwise, and up to a tenth of a run would go into getting
    it again, and half of the time of reading a file chunk by chunk. (Its M_MMAP_THRESHOLD and
    M_TRIM_THRESHOLD refine to the largest block that was freed, see mallopt(3).)
    """
    np.empty(_LARGEST_BLOCK, np.uint8)


def is_out_of_memory(error: BaseException) -> bool:
    """True if *error* reports missing memory, as Python or torch do."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS)


def free_in_cgroups(root: Path) -> Iterator[int]:
    """Bytes that each cgroup of this process, and each parent, still allows.

    psutil knows nothing of them.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        is_first_version = bool(controllers)  # the second has one tree for all controllers
        if is_first_version and "memory" not in controllers.split(","):
            continue
        tree = root / "sys/fs/cgroup"
        mount = tree / "memory" if is_first_version else tree
        names = _V1 if is_first_version else _V2
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(mount):
                yield from _free_in_cgroup(folder, names)


def _free_in_cgroup(folder: Path, names: tuple[str, str, str]) -> Iterator[int]:
    """Yield limit less usage, in bytes; nothing without a limit."""
    limit, usage, reclaimable = names
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
        statistics = dict(line.split() for line in lines)
        # The kernel counts cached files as used, and frees them on demand.
        kept = int(statistics.get(reclaimable, 0))
        used = int((folder / usage).read_text()) - kept
        yield max(int((folder / limit).read_text()) - used, 0)
    except (OSError, ValueError):  # no such group, or "max"
        return
