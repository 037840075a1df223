"""The size of the tiles that a CPU computes: each by one thread, in its cache.

Letters: H rows, W columns of a map.
"""

# Tiles of half the size took 750 instead of 884 to 990 bytes a pixel of a photo of 256x256, and 1.1
# times the time (lab/benchmarks/README.md).
CPU_PIXELS = 1 << 13
"""Pixels of the tiles of torch alone at full resolution; half as many for twice the channels."""

KERNEL_ROWS, KERNEL_COLUMNS = 64, 128
"""Sides of the tiles of compiled kernels, which go through them row by row: only rows must fit."""

# Tiles twice as high compute fewer halos: `mstpp-srgb` took 1.1 times less at 512x512. They do not
# depend on the threads, because sums over other tiles would be rounded in another way.
_MANY_TILES = 16
"""Tiles of twice the rows from which on they are taken."""

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


def kernel_tile(height: int, width: int, has_windows: bool = False) -> tuple[int, int]:
    """Rows and columns of the tiles of a map (H, W), by compiled kernels.

    They are smaller where they would be too few, and higher where they are many, or a network
    *has_windows* of attention.
    """
    rows = KERNEL_ROWS
    # A ring of whole windows around a tile is computed with it: around 16 x 64 pixels and windows
    # of 8, that is 2.5 times the pixels, around 128 x 128 1.3 times.
    if has_windows:
        return 2 * rows, KERNEL_COLUMNS
    columns = -(-width // KERNEL_COLUMNS)
    if -(-height // (2 * rows)) * columns >= _MANY_TILES:
        return 2 * rows, KERNEL_COLUMNS
    while rows > KERNEL_ROWS // 4 and -(-height // rows) * columns < _FEWEST_TILES:
        rows //= 2
    return rows, KERNEL_COLUMNS


def up_to(length: int, multiple: int) -> int:
    """*length*, filled up to a multiple."""
    return -(-length // multiple) * multiple
