"""How much memory is free: on a GPU, and on a machine or within the container (cgroup) that limits this process.

Files: https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files and
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_memory(device: torch.device) -> int:
    """Bytes of memory that are free on *device*; on a GPU also what torch keeps of tensors that are no more."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory()
    return min([int(psutil.virtual_memory().available), *_free_in_cgroups(Path("/"))])


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
        mount, names = root / "sys/fs/cgroup" / ("memory" if controllers else ""), _V1 if controllers else _V2
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(mount):
                yield from _free_in_cgroup(folder, *names)


def _free_in_cgroup(folder: Path, limit: str, usage: str, reclaimable: str) -> Iterator[int]:
    """Limit less usage, of which the kernel gives back what it keeps of files; nothing where there is no limit."""
    try:
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        used = int((folder / usage).read_text()) - int(statistics.get(reclaimable, 0))
        yield max(int((folder / limit).read_text()) - used, 0)
    except (OSError, ValueError):  # no such group, or "max"
        return
