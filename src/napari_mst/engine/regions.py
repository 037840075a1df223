"""Rectangles of an image and the halo around them, which ends where the image ends.

A convolution of the rows and columns of a region uses up one pixel of its halo. Where the halo is cut short by the
border of the image, zeros take its place, as the network's own padding does; where it is not, nothing is padded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from torch import Tensor

Sides = tuple[int, int, int, int]
"""Pixels above, below, left and right of a region."""


@dataclass(frozen=True)
class Span:
    """The pixels [start, stop) of an axis of *length*, and *halo* more on both sides as far as there are any."""

    start: int
    stop: int
    length: int
    halo: int = 0

    @property
    def first(self) -> int:
        """The first pixel of the halo."""
        return max(self.start - self.halo, 0)

    @property
    def last(self) -> int:
        """One past the last pixel of the halo."""
        return min(self.stop + self.halo, self.length)

    @property
    def whole(self) -> slice:
        """All pixels, halo included."""
        return slice(self.first, self.last)

    @property
    def inside(self) -> slice:
        """The pixels without the halo, counted from the first pixel of the halo."""
        return slice(self.start - self.first, self.stop - self.first)

    @property
    def missing(self) -> tuple[int, int]:
        """Pixels that the halo lacks before and after."""
        return self.halo - (self.start - self.first), self.halo - (self.last - self.stop)

    def scaled(self, factor: float) -> "Span":
        """The same part, without halo, of an axis *factor* times as long."""
        return Span(int(self.start * factor), int(self.stop * factor), int(self.length * factor))


@dataclass(frozen=True)
class Region:
    """A rectangle of an image, with the same halo on all four sides."""

    rows: Span
    columns: Span

    def grown(self, pixels: int) -> "Region":
        """The same rectangle with *pixels* of halo more; with less, if negative."""
        grown = (replace(span, halo=span.halo + pixels) for span in (self.rows, self.columns))
        return Region(*grown)

    def scaled(self, factor: float) -> "Region":
        """The same rectangle, without halo, of an image whose sides are *factor* times as long."""
        return Region(self.rows.scaled(factor), self.columns.scaled(factor))

    @property
    def missing(self) -> Sides:
        """Pixels that the halo lacks on each side."""
        return (*self.rows.missing, *self.columns.missing)

    def crop(self, features: Tensor) -> Tensor:
        """Features (1, C, h, w) of the rectangle and its halo -> those of the rectangle."""
        return features[..., self.rows.inside, self.columns.inside]

    def convolve(self, convolve: Callable[[Tensor, Sides], Tensor], features: Tensor) -> Tensor:
        """A 3x3 convolution, or a 4x4 of stride 2, of the features of this region: those of `grown(-1)`.

        *convolve* does it, with zeros on the sides where the image ends.
        """
        inner = self.grown(-1).missing
        top, bottom, left, right = (outer - less for outer, less in zip(self.missing, inner, strict=True))
        return convolve(features, (top, bottom, left, right))


def tiles(height: int, width: int, rows: int, columns: int) -> Iterator[Region]:
    """The regions, at most *rows* x *columns*, that cover an image of *height* x *width*, row by row."""
    for top in range(0, height, rows):
        for left in range(0, width, columns):
            yield Region(
                Span(top, min(top + rows, height), height),
                Span(left, min(left + columns, width), width),
            )
