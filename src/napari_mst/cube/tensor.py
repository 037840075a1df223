"""Tensors of other libraries as arrays of NumPy, over DLPack (https://dmlc.github.io/dlpack)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import CubeError
from napari_mst.messages import shown


def array_of_tensor(tensor: Any) -> NDArray[Any]:
    """The numbers of *tensor* as an array that shares its memory.

    Raises
    ------
    CubeError
        If they are not in the main memory, need gradients, or are of a type that NumPy has not.
    """
    try:
        return np.from_dlpack(tensor)
    # Each library raises what it likes: torch a RuntimeError for bfloat16, TypeError for sparse.
    except (AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError) as error:
        raise CubeError(
            f"Expected a tensor that NumPy can share, got {shown(type(tensor).__name__, 30)}: "
            f"{shown(error, 80)}. Convert it first, as by tensor.detach().float().cpu()."
        ) from error
