"""The eight flips and transposes of a photo, and back.

Letters: C channels, H rows, W columns.
"""

from itertools import product
from typing import Any, NamedTuple

from numpy.typing import NDArray


class Orientation(NamedTuple):
    """A flip of rows, of columns or of both, and perhaps an exchange of the two afterwards."""

    flips_rows: bool
    flips_columns: bool
    is_transposed: bool


ORIENTATIONS = tuple(Orientation(*each) for each in product((True, False), repeat=3))
"""The eight over which the published mean is taken.

The last one changes nothing: a recorder keeps the attention of the last run, which is then that of
the photo as it is.
"""

UNTURNED = ORIENTATIONS[-1]
"""The photo as it is."""


def turned(planes: NDArray[Any], orientation: Orientation) -> NDArray[Any]:
    """*planes* (C, H, W) as *orientation* says: a view."""
    row_step = -1 if orientation.flips_rows else 1
    column_step = -1 if orientation.flips_columns else 1
    flipped = planes[:, ::row_step, ::column_step]
    return flipped.swapaxes(1, 2) if orientation.is_transposed else flipped


def turned_back(planes: NDArray[Any], orientation: Orientation) -> NDArray[Any]:
    """*planes* with `turned` undone: a view."""
    upright = planes.swapaxes(1, 2) if orientation.is_transposed else planes
    return turned(upright, orientation._replace(is_transposed=False))
