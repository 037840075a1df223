"""Names for the arrays in signatures; the docstrings beside them say shapes and units."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
