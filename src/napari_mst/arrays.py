"""Names for the arrays in signatures; the docstrings beside them say shapes and units."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]
"""Numbers in double precision."""
Singles = NDArray[np.float32]
"""Numbers in single precision."""
Floats = NDArray[np.floating]
"""Numbers in any precision."""
Mask = NDArray[np.bool_]
"""True in the elements that count."""
Indices = NDArray[np.intp]
"""Places of elements in other arrays."""
Array = NDArray[Any]
"""Elements of any type."""
DType = np.dtype[Any]
"""The type of the elements of an array."""
Codes = NDArray[np.uint8]
"""Numbers of 8 bits, as a photo or a picture in sRGB has them."""


def doubles(numbers: ArrayLike) -> Doubles:
    """*numbers* in double precision, themselves where they are."""
    return np.asarray(numbers, dtype=np.float64)


def singles(numbers: ArrayLike) -> Singles:
    """*numbers* in single precision, themselves where they are."""
    return np.asarray(numbers, dtype=np.float32)
