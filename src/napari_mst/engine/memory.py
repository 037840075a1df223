"""The free memory on the device of a run: on a GPU, or in the computer."""

import torch

from napari_mst.engine.pages import KEPT
from napari_mst.memory import free_host_memory


def free_memory(device: torch.device) -> int:
    """Bytes of memory that are free on *device*.

    On a GPU the memory that torch keeps of tensors that are no more counts as free, on a CPU what
    the last run has left to the next.
    """
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory()
    return free_host_memory() + KEPT.nbytes
