"""Rectangles of a map, the pixels of another map on which they depend, and the tiles of a CPU.

Letters: H rows, W columns of a map.
"""

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
        """The window with a halo of *pixels* pixels around it."""
        return Window(
            self.top - pixels, self.bottom + pixels, self.left - pixels, self.right + pixels
        )

    def moved(self, down: int) -> "Window":
        """The window moved *down* by a number of rows."""
        return Window(self.top + down, self.bottom + down, self.left, self.right)

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
        return self.shared(whole(size))

    def shared(self, other: "Window") -> "Window":
        """The pixels of both this window and *other*."""
        return Window(
            max(self.top, other.top),
            min(self.bottom, other.bottom),
            max(self.left, other.left),
            min(self.right, other.right),
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


# Tiles of half the size took 750 instead of 884 to 990 bytes a pixel of a photo of 256x256, and 1.1
# times the time (lab/benchmarks/README.md).
CPU_PIXELS = 1 << 13
"""Pixels of the tiles of torch alone at full resolution; half as many for twice the channels."""

# Large tiles compute fewer halos: twice the rows took 1.1 times less, and then twice the columns
# 1.05 times. They do not depend on the threads, because sums over other tiles would be rounded in
# another way.
KERNEL_ROWS, KERNEL_COLUMNS = 128, 256
"""Sides of the tiles of compiled kernels, which go through them row by row: only rows must fit."""

FAR = 8
"""Pixels of halo beyond which tiles are large: at 128 x 128, ten more cost half of the time."""

FAR_SIDE = 256

_FEWEST_TILES = 8
"""Tiles of compiled kernels that threads share, at the least."""


def cpu_tile(height: int, width: int, level: int) -> tuple[int, int]:
    """Rows and columns of the tiles of a map (H, W), by torch alone: four or more, about as large.

    *level* is how often the map was halved.
    """
    pixels = CPU_PIXELS >> level
    while 4 * pixels > height * width and pixels > 1 << 10:
        pixels //= 2
    rows = 1 << (pixels.bit_length() - 1) // 2
    return _shared_out(height, rows), _shared_out(width, pixels // rows)


def _shared_out(length: int, most: int) -> int:
    """*length* in parts of about the same size, at most *most* and a multiple of 4."""
    # Parts of about one size have few shapes: oneDNN makes, and keeps, kernels for each.
    parts = -(-length // most)
    return up_to(-(-length // parts), 4)


def kernel_tile(
    height: int, width: int, has_windows: bool = False, reach: int = 0
) -> tuple[int, int]:
    """Rows and columns of the tiles of a map (H, W), by compiled kernels.

    They are less high where they would be too few, narrower where a network *has_windows* of
    attention, and large where passes *reach* far beyond a tile.
    """
    rows = KERNEL_ROWS
    # A ring of whole windows around a tile is computed with it: around 16 x 64 pixels and windows
    # of 8, that is 2.5 times the pixels, around 128 x 128 1.3 times.
    if has_windows:
        return rows, rows
    if reach > FAR:
        return FAR_SIDE, FAR_SIDE
    columns = -(-width // KERNEL_COLUMNS)
    while rows > KERNEL_ROWS // 8 and -(-height // rows) * columns < _FEWEST_TILES:
        rows //= 2
    return rows, KERNEL_COLUMNS


def up_to(length: int, multiple: int) -> int:
    """*length*, filled up to a multiple."""
    return -(-length // multiple) * multiple
