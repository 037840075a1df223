"""How much memory is free on a machine, or within the container (cgroup) that limits this process; and its lack.

Files: https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files and
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

from collections.abc import Iterator
from pathlib import Path

import psutil

_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")

_SIGNS = (
    "not enough memory",
    "can't allocate memory",
    "out of memory",
    "ALLOC_FAILED",
    "Invalid buffer size",
)
"""How torch says on its devices that memory is lacking: only in the text of a RuntimeError, but for CUDA's own."""


def free_host_memory() -> int:
    """Bytes of the computer's memory that are free, and that the container of this process allows."""
    return min([int(psutil.virtual_memory().available), *_free_in_cgroups(Path("/"))])


def is_out_of_memory(error: BaseException) -> bool:
    """Whether *error* is a lack of memory, be it Python's own or one of torch."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS)


def _free_in_cgroups(root: Path) -> Iterator[int]:
    """Bytes that each cgroup of this process, and each above it, still allows; psutil knows nothing of them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount, names = (
            root / "sys/fs/cgroup" / ("memory" if controllers else ""),
            _V1 if controllers else _V2,
        )
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(mount):
                yield from _free_in_cgroup(folder, *names)


def _free_in_cgroup(folder: Path, limit: str, usage: str, reclaimable: str) -> Iterator[int]:
    """Limit less usage, of which the kernel gives back what it keeps of files; nothing where there is no limit."""
    try:
        statistics = dict(
            line.split() for line in (folder / "memory.stat").read_text().splitlines()
        )
        used = int((folder / usage).read_text()) - int(statistics.get(reclaimable, 0))
        yield max(int((folder / limit).read_text()) - used, 0)
    except (OSError, ValueError):  # no such group, or "max"
        return
