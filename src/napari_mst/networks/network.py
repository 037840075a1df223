"""The description of a network that the engine runs: a list of passes over maps of an image.

A pass reads maps, computes another one from their neighbourhood, and may add something up over all
pixels: a statistic, which later passes use. So the list holds all that an exact streamed run has to
know of a network, and it is the network's mathematics: evaluated on whole maps it is `forward`,
region by region it is the engine's `run`. Letters: N batch, C channels, H rows, W columns.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from napari_mst.base.errors import PhotoError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from napari_mst.networks.attention_spec import AttentionSpec

PHOTO = "photo"
"""The map that a program begins with: (N, in_bands, H, W)."""

Local = Callable[..., Any]
"""Maps (N, C, H, W) of one size, and the folded statistic if the pass uses one -> another map.

Along a border of the image it pads as the network does; at a cut, what it gives within the halo of
the pass may be off.
"""

Folded = dict[str, Any]
"""Statistics of whole maps by name, folded into the form that later passes use."""


def _as_it_is(total: Any, _pixels: int) -> Any:
    return total


@dataclass(frozen=True, eq=False)
class Pass:
    """One step of a network.

    Attributes
    ----------
    writes
        Name of the map that it writes, of *channels*.
    reads
        Names of the maps that it reads, all of one size.
    local
        Computes the map: a `Local`, or a form of `forms`, which only compiled kernels compute. The
        engine may have a fast path for a module or method that it knows.
    halo
        Pixels of the maps it reads, on each side, on which a pixel depends; with *align*, those
        around the window in which the pixel lies. None: on all pixels.
    scale
        Size of the map it writes by the size of those it reads.
    align
        Tiles of the maps it reads begin and end at multiples of this: the side of a window of
        attention.
    uses
        Name of the map whose folded statistic `local` takes as its last argument.
    statistic
        Computes a tensor that is additive over parts of the map: (N, C, h, w) -> a Gram matrix, a
        sum.
    fold
        Makes of the statistic of all pixels, and of their number, the value that later passes use.
    gathers
        Numbers of the statistic for each pixel of the map that it keeps: the parts of the map give
        (N, tokens, numbers), which are put one behind the other. 0: parts are added up.
    is_kept
        Whether the engine may keep the map for later passes; a kept map may be of 16 bits. A
        map that is not kept is computed again where it is read: for cheap maps, which would take
        memory.
    work
        Multiplications and additions for each pixel that it writes; by default the number of
        parameters of `local`.
    values
        Numbers for each pixel that it works with at a time; by default twice those that it reads
        and writes.
    attention
        The attentions in it, which can be looked at.
    block
        The module whose `forward` it computes by another method: its forward hooks see the map
        that is read and the one that is written.
    """

    writes: str
    reads: tuple[str, ...]
    local: Any
    channels: int
    halo: int | None = 0
    scale: Fraction = Fraction(1)
    align: int = 1
    uses: str = ""
    statistic: Callable[[Any], Any] | None = None
    fold: Callable[[Any, int], Any] = _as_it_is
    gathers: int = 0
    is_kept: bool = True
    work: float | None = None
    values: int | None = None
    attention: tuple["AttentionSpec", ...] = ()
    block: "nn.Module | None" = None

    @property
    def cost(self) -> float:
        """Multiplications and additions for each pixel that it writes: `work`, or about as many."""
        if self.work is not None:
            return self.work
        # `local` is a method of a module, a callable around a convolution, or a module.
        owner = getattr(self.local, "__self__", getattr(self.local, "convolution", self.local))
        weights = owner.parameters() if hasattr(owner, "parameters") else ()
        # A transposed convolution of stride s takes one of s x s weights for each pixel it writes.
        of_each = (
            sum(math.prod(weight.shape) for weight in weights) / max(float(self.scale), 1.0) ** 2
        )
        return of_each or float(self.channels)

    def apply(self, maps: "Sequence[Tensor]", folded: Mapping[str, Any]) -> "Tensor":
        """The map that it writes, from those that it reads; hooks on its block see both."""
        used = (folded[self.uses],) if self.uses else ()
        result: Tensor = self.local(*maps, *used)
        self.call_hooks(maps[0], result)
        return result

    @property
    def is_heard(self) -> bool:
        """True if somebody has registered a forward hook on its block."""
        return self.block is not None and bool(self.block._forward_hooks)

    def call_hooks(self, read: "Tensor", written: "Tensor") -> None:
        """Call the forward hooks on its block, and ignore their results."""
        if self.block is not None:
            for key, hook in list(self.block._forward_hooks.items()):
                # A hook that was registered with kwargs takes them between the two.
                has_kwargs = key in self.block._forward_hooks_with_kwargs
                hook(self.block, (read,), *([{}] if has_kwargs else []), written)


Apply = Callable[[Pass, Sequence["Tensor"], Mapping[str, Any]], "Tensor"]
"""Computes the map that a pass writes, as `Pass.apply` does."""


@dataclass(frozen=True, eq=False)
class Program:
    """All passes of a network in the order in which they run; the last one writes the result.

    The photo has *in_bands* channels and is reflect-padded at its end to multiples of *multiple*.
    *is_cropped* says whether the result is cut back to the size of the photo. *dtype* is that of
    the weights, the photo and the result, of torch or NumPy: torch's float32 by default. The padded
    photo has at most *most_pixels*, where they are not 0.
    """

    passes: tuple[Pass, ...]
    in_bands: int = 3
    multiple: int = 1
    dtype: Any = None
    is_cropped: bool = True
    most_pixels: int = 0

    def __post_init__(self) -> None:
        if self.dtype is None:
            import torch

            object.__setattr__(self, "dtype", torch.float32)

    @property
    def output(self) -> Pass:
        """The pass that writes the result."""
        return self.passes[-1]

    @property
    def is_global(self) -> bool:
        """True if every pixel of the result depends on all of the photo."""
        return any(each.uses or each.halo is None for each in self.passes)

    @property
    def is_pixelwise(self) -> bool:
        """True if a pixel of the result depends on that pixel of the photo alone."""
        is_local = all(each.halo == 0 and each.align == 1 for each in self.passes)
        return is_local and self.multiple == 1 and not self.is_global

    def channels(self, name: str) -> int:
        """Channels of the map *name*."""
        return self.in_bands if name == PHOTO else self.writer(name).channels

    def values(self, each: Pass) -> int:
        """Numbers for each pixel that the pass *each* works with at a time."""
        if each.values is not None:
            return each.values
        return 2 * (each.channels + sum(self.channels(name) for name in each.reads))

    def writer(self, name: str) -> Pass:
        """The pass that writes the map *name*."""
        return next(each for each in self.passes if each.writes == name)

    def padded(self, height: int, width: int) -> tuple[int, int]:
        """Sides of the padded photo."""
        rows, columns = (-(-side // self.multiple) * self.multiple for side in (height, width))
        return rows, columns

    @property
    def grain(self) -> int:
        """A part of a photo that begins at a multiple of these pixels has the same windows."""
        aligned = (int(each.align / self.scales[each.reads[0]]) for each in self.passes)
        return math.lcm(self.multiple, *aligned)

    @property
    def has_windows(self) -> bool:
        """True if a pass works in whole windows, to which the photo is padded."""
        return any(each.align > 1 for each in self.passes)

    def sizes(self, height: int, width: int) -> dict[str, tuple[int, int]]:
        """Height and width of every map, for a photo of *height* x *width*.

        Raises
        ------
        PhotoError
            If the photo has more pixels than the network can be given.
        """
        padded = self.padded(height, width)
        if self.most_pixels and math.prod(padded) > self.most_pixels:
            raise PhotoError(
                f"Expected at most {self.most_pixels:,} pixels, all of which attend to each other, "
                f"got {height} x {width}. Choose a region, or a network with another attention."
            )
        sizes = {PHOTO: padded}
        for each in self.passes:
            rows, columns = sizes[each.reads[0]]
            sizes[each.writes] = math.ceil(rows * each.scale), math.ceil(columns * each.scale)
        return sizes

    @property
    def scales(self) -> dict[str, Fraction]:
        """The size of every map for a size of the padded photo."""
        scales = {PHOTO: Fraction(1)}
        for each in self.passes:
            scales[each.writes] = scales[each.reads[0]] * each.scale
        return scales

    def until(self, name: str, *more: Pass) -> "Program":
        """The program up to the map *name*, and *more* passes; its result is not cropped."""
        names = [each.writes for each in self.passes]
        wanted = self.passes[: names.index(name) + 1]
        return replace(self, passes=(*wanted, *more), is_cropped=False)

    def needed_beside(self, known: Collection[str]) -> tuple[Pass, ...]:
        """The passes that the result takes where the maps *known* are there already."""
        wanted = {self.output.writes}
        passes: list[Pass] = []
        for each in reversed(self.passes):
            if each.writes in wanted and each.writes not in known:
                passes.insert(0, each)
                wanted.update(each.reads)
        return tuple(passes)

    def remembering(self) -> "Program":
        """A copy that may keep every map that several passes read."""
        read = [name for each in self.passes for name in each.reads]
        passes = [
            replace(each, is_kept=each.is_kept or read.count(each.writes) > 1)
            for each in self.passes
        ]
        return replace(self, passes=tuple(passes))

    def whole(
        self, photo: "Tensor", folded: Folded | None = None, apply: Apply = Pass.apply
    ) -> "Tensor":
        """The result for a batch of photos (N, in_bands, H, W), every map in one piece.

        Statistics that are *folded* already are taken as they are. *apply* computes each pass.
        """
        maps = {PHOTO: pad(photo, self.multiple)}
        folded = dict(folded or {})
        last_read = {name: each for each in self.passes for name in each.reads}
        for each in self.passes:
            result = apply(each, [maps[name] for name in each.reads], folded)
            maps[each.writes] = result
            if each.statistic is not None and each.writes not in folded:
                pixels = result.shape[-2] * result.shape[-1]
                folded[each.writes] = each.fold(each.statistic(result), pixels)
            # A map makes room as soon as nothing reads it any more.
            for name in each.reads:
                if last_read[name] is each:
                    maps.pop(name, None)
        if not self.is_cropped:
            return result
        height, width = photo.shape[-2:]
        return result[..., :height, :width]


def pad(photo: "Tensor", multiple: int) -> "Tensor":
    """Reflect-pad the last two axes at the end up to a multiple.

    A side that is too short to be reflected once is reflected again.
    """
    # torch reflects no more than a side has, and a photo may be smaller than its padding.
    for axis in (-2, -1):
        # Asked so, an exporter of graphs does not take the side for a fixed number.
        if photo.shape[axis] % multiple:
            rows = reflected_index(photo.shape[axis], multiple)
            photo = photo.index_select(axis, rows.to(photo.device))
    return photo


def reflected_index(length: int, multiple: int) -> "Tensor":
    """The source of every padded pixel, by index: `reflected_index(5, 8)` is 0 1 2 3 4 3 2 1."""
    import torch

    padded = -(-length // multiple) * multiple
    period = max(2 * (length - 1), 1)  # there and back, without the ends once more
    index = torch.arange(padded) % period
    return torch.minimum(index, period - index) if length > 1 else index
