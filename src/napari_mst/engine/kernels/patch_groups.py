"""Groups of patches that look alike, as `nl_bayes` takes them; this module needs no numba."""

from typing import NamedTuple

PATCH = 3
"""The pixels along each side of a patch, which is named by its first one."""

REACH = 7
"""The pixels to each side from which a patch takes its group."""


class Grid(NamedTuple):
    """The patches that have a group: those from *top*, *left* to before *bottom*, *right*.

    Of them, every *step*-th of the whole image, whose first row is *down* and whose first column is
    *across* in the tile, and its last row and column.
    """

    top: int
    bottom: int
    left: int
    right: int
    step: int
    down: int
    across: int
    last_row: int
    last_column: int


class Stage(NamedTuple):
    """The numbers of one of both stages.

    Attributes
    ----------
    channels
        The channels in which patches are compared.
    count
        The patches of a group; more where several are equally near.
    fewest
        In smaller groups all patches are their mean.
    flat
        So do those whose numbers have no more than this variance, in thousandths.
    ridge
        The variance, in thousandths, that is added to each number.
    """

    channels: int
    count: int  # type: ignore[assignment] # nobody counts in a group of numbers
    fewest: int
    flat: int
    ridge: int
