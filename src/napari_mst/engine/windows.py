"""Rectangles of a map, and the pixels of another map on which they depend."""

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

Size = tuple[int, int]
"""Height and width of a map."""

Sides = tuple[int, int, int, int]
"""Pixels above, below, left and right of a window."""


class Window(NamedTuple):
    """The pixels [top, bottom) x [left, right) of a map."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> slice:
        """Its rows of the map."""
        return slice(self.top, self.bottom)

    @property
    def columns(self) -> slice:
        """Its columns of the map."""
        return slice(self.left, self.right)

    @property
    def size(self) -> Size:
        """Its height and width."""
        return self.bottom - self.top, self.right - self.left

    def grown(self, pixels: int) -> "Window":
        """The window with a halo of so many *pixels* around it."""
        return Window(
            self.top - pixels, self.bottom + pixels, self.left - pixels, self.right + pixels
        )

    def scaled(self, factor: Fraction) -> "Window":
        """The window of a map *factor* times as large that covers this one."""
        more, fewer = factor.numerator, factor.denominator
        if more == fewer:
            return self
        top, bottom, left, right = (side * more for side in self)
        return Window(top // fewer, -(-bottom // fewer), left // fewer, -(-right // fewer))

    def aligned(self, multiple: int) -> "Window":
        """The smallest window around this one that begins and ends at multiples of *multiple*."""
        if multiple == 1:
            return self
        return self.scaled(Fraction(1, multiple)).scaled(Fraction(multiple))

    def clipped(self, size: Size) -> "Window":
        """The pixels of the window that a map of *size* has."""
        height, width = size
        return Window(
            max(self.top, 0), min(self.bottom, height), max(self.left, 0), min(self.right, width)
        )

    def joined(self, other: "Window") -> "Window":
        """The smallest window around this one and *other*."""
        return Window(
            min(self.top, other.top),
            max(self.bottom, other.bottom),
            min(self.left, other.left),
            max(self.right, other.right),
        )

    def inside(self, outer: "Window") -> tuple[slice, slice]:
        """The rows and columns of this window, counted from the first of the *outer* one."""
        rows = slice(self.top - outer.top, self.bottom - outer.top)
        columns = slice(self.left - outer.left, self.right - outer.left)
        return rows, columns

    def missing(self, size: Size) -> Sides:
        """Pixels on each side that a map of *size* does not have."""
        height, width = size
        return (
            max(-self.top, 0),
            max(self.bottom - height, 0),
            max(-self.left, 0),
            max(self.right - width, 0),
        )


def whole(size: Size) -> Window:
    """All pixels of a map of *size*."""
    height, width = size
    return Window(0, height, 0, width)


def tiles(size: Size, rows: int, columns: int) -> Iterator[Window]:
    """Windows of *rows* x *columns* that cover a map of *size*, in rows; the last are smaller."""
    height, width = size
    for top in range(0, height, rows):
        for left in range(0, width, columns):
            yield Window(top, min(top + rows, height), left, min(left + columns, width))
