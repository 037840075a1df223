"""A block of a network in which pixels attend to pixels, in numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PixelBlock:
    """A block in which pixels attend to pixels; its weights are those of one pixel at a time.

    Attributes
    ----------
    window, keys, shift
        Sides, in pixels of its map, of a window of queries and of that of its keys, and by how much
        windows are shifted; 0 where all pixels attend to each other.
    """

    channels: int
    heads: int
    window: int = 0
    keys: int = 0
    shift: int = 0

    def __str__(self) -> str:
        """For people: "windows of 8 x 8, shifted by 4"."""
        if not self.window:
            return "all pixels"
        sides = f"windows of {self.window} x {self.window}"
        if self.keys > self.window:
            return f"{sides} that look at {self.keys} x {self.keys}"
        return f"{sides}, shifted by {self.shift}" if self.shift else sides
