"""One head between pixels, step by step: every matrix on the way with all its numbers.

Tokens are columns: pixels of a patch, or of a window of a network.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
"""(n, 2): row and column of the photo of each of n pixels."""

BETWEEN = "Row i is key i, column j is query j."
"""The caption of a matrix between pixels."""

OF_PIXELS = "A column is a pixel, named by its row and column in the photo."
"""The caption of a matrix with a column for each pixel."""


class Step(NamedTuple):
    """A matrix on the way.

    Attributes
    ----------
    name, formula
        What it is called, and how it comes about.
    about
        How it is to be read, in a sentence.
    rows, columns
        The pixels that its rows or columns stand for; None where they stand for other numbers.
    """

    name: str
    formula: str
    values: NDArray[np.float64]
    about: str
    rows: Places | None = None
    columns: Places | None = None


@dataclass(frozen=True, eq=False)
class HeadSteps:
    """Every matrix of a head, in the order in which they are computed."""

    steps: tuple[Step, ...]

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """The values of a step."""
        return next(step.values for step in self.steps if step.name == name)


def sums_told(values: NDArray[np.float64], axis: int) -> str:
    """Say what the weights of each column (*axis* 0) or row (1) add up to."""
    sums = values.sum(axis)
    which = "rows" if axis else "columns"
    return f"{BETWEEN} Each of the {which} adds up to 1: {sums.min():.6f} to {sums.max():.6f}."
