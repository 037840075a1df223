"""The description of a network for the engine: a list of passes over maps of an image.

A pass reads maps, computes a new map from their neighbourhoods, and may add up a statistic over all
pixels, which later passes use. The list contains everything that an exact streamed run needs, and
defines the network: evaluated on whole maps it is `forward`, region by region it is the engine's
`run`. Letters: N batch, C channels, H rows, W columns.
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
"""The first map of a program: (N, in_bands, H, W)."""

Local = Callable[..., Any]
"""Maps (N, C, H, W) of one size, and the folded statistic if the pass uses one -> a new map.

It pads at the borders of the image like the network. At a cut, results within the halo of the pass
may be wrong.
"""

Folded = dict[str, Any]
"""Statistics of whole maps by the name of the map, folded for later passes."""


def _as_it_is(total: Any, _pixels: int) -> Any:
    return total


@dataclass(frozen=True, eq=False)
class Pass:
    """One step of a network.

    Attributes
    ----------
    writes
        Name of the output map, which has *channels*.
    reads
        Names of the input maps, all of one size.
    local
        Computes the map: a `Local`, or a form of `forms`, which only compiled kernels compute. The
        engine may have a fast path for a known module or method.
    halo
        Pixels of the input maps, on each side, on which an output pixel depends; with *align*, the
        pixels around its window. None for all pixels.
    scale
        Size of the output map divided by the size of the input maps.
    align
        Tiles of the input maps begin and end at multiples of this: the side of an attention window.
    uses
        Name of the map whose folded statistic `local` takes as its last argument.
    statistic
        Computes a tensor that is additive over parts of the map, such as a Gram matrix or a sum,
        from (N, C, h, w).
    fold
        Turns the statistic of all pixels, and their number, into the value for later passes.
    gathers
        Numbers per pixel in a statistic that is gathered: parts of the map give (N, tokens,
        numbers), which are concatenated. 0 if the parts are added up.
    is_kept
        True if the engine may keep the map, perhaps in 16 bits, for later passes. Otherwise the map
        is recomputed wherever it is read, which suits cheap maps that would take memory.
    work
        Multiplications and additions per output pixel; by default the number of parameters of
        `local`.
    values
        Working numbers per pixel; by default twice the number of input and output channels.
    attention
        The attention in the pass, for inspection.
    block
        The module whose `forward` the pass computes by another method; its forward hooks see the
        input and the output map.
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
        """Multiplications and additions per output pixel: `work`, or an estimate."""
        if self.work is not None:
            return self.work
        # `local` is a method of a module, a callable around a convolution, or a module.
        owner = getattr(self.local, "__self__", getattr(self.local, "convolution", self.local))
        weights = owner.parameters() if hasattr(owner, "parameters") else ()
        # A transposed convolution of stride s uses one of its s x s weights per output pixel.
        of_each = (
            sum(math.prod(weight.shape) for weight in weights) / max(float(self.scale), 1.0) ** 2
        )
        return of_each or float(self.channels)

    def apply(self, maps: "Sequence[Tensor]", folded: Mapping[str, Any]) -> "Tensor":
        """The output map, from the input maps; hooks on the block see both."""
        used = (folded[self.uses],) if self.uses else ()
        result: Tensor = self.local(*maps, *used)
        self.call_hooks(maps[0], result)
        return result

    @property
    def is_heard(self) -> bool:
        """True if a forward hook is registered on the block."""
        return self.block is not None and bool(self.block._forward_hooks)

    def call_hooks(self, read: "Tensor", written: "Tensor") -> None:
        """Call the forward hooks on the block, and ignore their results."""
        if self.block is not None:
            for key, hook in list(self.block._forward_hooks.items()):
                # A hook registered with kwargs takes them between input and output.
                has_kwargs = key in self.block._forward_hooks_with_kwargs
                hook(self.block, (read,), *([{}] if has_kwargs else []), written)


Apply = Callable[[Pass, Sequence["Tensor"], Mapping[str, Any]], "Tensor"]
"""Computes the output map of a pass, like `Pass.apply`."""


@dataclass(frozen=True, eq=False)
class Program:
    """All passes of a network in the order of a run; the last pass writes the result.

    The photo has *in_bands* channels and is reflect-padded at its end to multiples of *multiple*.
    *is_cropped* means that the result is cropped to the size of the photo. *dtype*, of torch or
    NumPy, is that of the weights, the photo and the result: by default torch's float32. The padded
    photo has at most *most_pixels*, unless that is 0.
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
        """True if every pixel of the result depends on the whole photo."""
        return any(each.uses or each.halo is None for each in self.passes)

    @property
    def is_pixelwise(self) -> bool:
        """True if a pixel of the result depends only on the same pixel of the photo."""
        is_local = all(each.halo == 0 and each.align == 1 for each in self.passes)
        return is_local and self.multiple == 1 and not self.is_global

    def channels(self, name: str) -> int:
        """Channels of the map *name*."""
        return self.in_bands if name == PHOTO else self.writer(name).channels

    def values(self, each: Pass) -> int:
        """Working numbers per pixel of the pass *each*."""
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
        """Pixels: a part of a photo that begins at a multiple of this has the same windows."""
        aligned = (int(each.align / self.scales[each.reads[0]]) for each in self.passes)
        return math.lcm(self.multiple, *aligned)

    @property
    def has_windows(self) -> bool:
        """True if a pass works on whole windows, to which the photo is padded."""
        return any(each.align > 1 for each in self.passes)

    def sizes(self, height: int, width: int) -> dict[str, tuple[int, int]]:
        """Height and width of every map, for a photo of *height* x *width*.

        Raises
        ------
        PhotoError
            If the photo has more pixels than the network can take.
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
        """The size of every map relative to the padded photo."""
        scales = {PHOTO: Fraction(1)}
        for each in self.passes:
            scales[each.writes] = scales[each.reads[0]] * each.scale
        return scales

    def until(self, name: str, *more: Pass) -> "Program":
        """The program up to the map *name*, followed by *more* passes; the result is uncropped."""
        names = [each.writes for each in self.passes]
        wanted = self.passes[: names.index(name) + 1]
        return replace(self, passes=(*wanted, *more), is_cropped=False)

    def needed_beside(self, known: Collection[str]) -> tuple[Pass, ...]:
        """The passes needed for the result if the maps *known* are available."""
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

        Statistics that are *folded* already are not recomputed. *apply* computes each pass.
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
            # A map is released after its last reader.
            for name in each.reads:
                if last_read[name] is each:
                    maps.pop(name, None)
        if not self.is_cropped:
            return result
        height, width = photo.shape[-2:]
        return result[..., :height, :width]


def pad(photo: "Tensor", multiple: int) -> "Tensor":
    """Reflect-pad the last two axes at their ends to a multiple.

    A side that is too short for a single reflection is reflected repeatedly.
    """
    # torch cannot pad by more than a side, and a photo may be smaller than its padding.
    for axis in (-2, -1):
        # This test keeps an exporter of graphs from treating the side as a fixed number.
        if photo.shape[axis] % multiple:
            rows = reflected_index(photo.shape[axis], multiple)
            photo = photo.index_select(axis, rows.to(photo.device))
    return photo


def reflected_index(length: int, multiple: int) -> "Tensor":
    """Source indices of the padded pixels: `reflected_index(5, 8)` is 0 1 2 3 4 3 2 1."""
    import torch

    padded = -(-length // multiple) * multiple
    period = max(2 * (length - 1), 1)  # there and back, without repeating the ends
    index = torch.arange(padded) % period
    return torch.minimum(index, period - index) if length > 1 else index
