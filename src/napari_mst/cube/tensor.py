"""Tensors of other libraries (https://dmlc.github.io/dlpack) and masked arrays as plain arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.arrays import Array
from napari_mst.errors import CubeError, shown


def array_of_tensor(tensor: Any) -> Array:
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


def plain_array(source: ArrayLike) -> Array:
    """*source* as an array without a mask: what it hides is NaN, so integers become floats."""
    if not np.ma.is_masked(source):
        return np.asarray(source)
    numbers = np.ma.getdata(source)
    floats = numbers.astype(np.result_type(numbers, np.float32))
    floats[np.ma.getmaskarray(np.asanyarray(source))] = np.nan
    return floats
