"""The number of threads that computations on a CPU use."""

import os
import sys
from typing import Any


def torch_if_imported() -> Any:
    """The module torch if it has been imported; else None."""
    return sys.modules.get("torch")


def threads_of_cpu() -> int:
    """Number of threads of a run on a CPU: the number that torch uses, or would use."""
    torch = torch_if_imported()
    if torch is not None:
        return int(torch.get_num_threads())
    asked_for = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if asked_for.isdigit() and int(asked_for):
        return int(asked_for)
    import psutil

    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return min(psutil.cpu_count(logical=False) or allowed, allowed)


def set_threads(count: int) -> None:
    """Have torch, if it is there, use *count* threads in each operation."""
    torch = torch_if_imported()
    if torch is not None:
        torch.set_num_threads(count)
