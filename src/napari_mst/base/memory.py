"""Free memory of the machine, or of the container (cgroup) of this process, and the lack of it.

Files: https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files and
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from napari_mst.base.errors import OutOfMemory, shown

# Per version of cgroups: the files of limit and usage, and the `memory.stat` line of caches.
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
"""Bytes: larger than any block of most tiles of a run, and of most chunks of files."""


def free_host_memory() -> int:
    """Free bytes of the computer's memory, as far as the container of this process allows them."""
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
    """Have glibc reuse the memory of freed blocks instead of returning it to the system.

    Requesting it anew takes up to a tenth of a run, and half of the time of reading a file chunk
    by chunk. Freeing one large block raises M_MMAP_THRESHOLD to its size and M_TRIM_THRESHOLD to
    twice that, see mallopt(3): glibc then keeps all smaller blocks.
    """
    np.empty(_LARGEST_BLOCK, np.uint8)


def is_out_of_memory(error: BaseException) -> bool:
    """True if *error* reports missing memory, as Python or torch do."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS)


def free_in_cgroups(root: Path) -> Iterator[int]:
    """Yield the bytes that each cgroup of this process, and each parent cgroup, still allows.

    psutil ignores cgroups.
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
        # The kernel counts cached files as used, but frees them on demand.
        kept = int(statistics.get(reclaimable, 0))
        used = int((folder / usage).read_text()) - kept
        yield max(int((folder / limit).read_text()) - used, 0)
    except (OSError, ValueError):  # no such group, or "max"
        return
