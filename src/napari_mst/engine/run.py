"""The exact streamed run of MST++: an image of any size, band of rows by band of rows.

Only the Gram matrices couple distant pixels. So the network is a sequence of passes over the image, one for each
spectral attention block: while a pass applies a block and the convolutions that follow it, it adds up the Gram
matrix of what it writes, which is all that the next block has to know of the whole image. Every feature map is
read once and written once, and what comes out is what one pass over the whole image would give.

Letters: B bands, C feature channels, H rows, W columns. Rows are given as [start, stop). Halos are clipped at the
border of the image, where the zero padding of the convolutions is the network's own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.engine import onednn
from napari_mst.engine.features import FeatureMap, Slab
from napari_mst.engine.onednn import Halo
from napari_mst.errors import Cancelled
from napari_mst.models.mst_plus_plus import MSTPlusPlus, SpectralTransformer, reflected_index
from napari_mst.models.spectral_attention import HALO, SpectralAttentionBlock

TILE = 64
"""Side of the square in which a CPU computes a block, so that the hidden layer stays in its cache."""

GPU_PIXELS = 1 << 20
"""Pixels of a band of rows on a GPU, which is computed at once."""

RowSource = Callable[[int, int], NDArray[np.float32]]
"""Rows [start, stop) of the photo as the network expects them: (in_bands, stop - start, W) float32."""

Window = Callable[[Tensor, Halo], Tensor]
"""A block with its mixing matrix: a window of its input, (1, C, h, w), and its halo -> its output inside the halo."""


def run(
    network: MSTPlusPlus,
    rows: RowSource,
    height: int,
    width: int,
    device: torch.device,
    progress: Callable[[float], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> NDArray[np.float32]:
    """Run *network*, which must be on *device*, on a photo of *height* x *width*; returns (B, H, W) float32.

    *progress* is called with the share done (0-1) at least once for every block, from the calling thread;
    *is_cancelled* is asked as often.

    Raises
    ------
    Cancelled
        As soon as *is_cancelled* says so.
    """
    with torch.inference_mode():
        ticker = Ticker(5 * len(network.stages) + 1, progress, is_cancelled)
        return _Run(network, rows, height, width, device, ticker).bands().cpu().numpy()


class Ticker:
    """Tells progress and asks for cancel, once for every band of rows of every pass."""

    def __init__(
        self, passes: int, progress: Callable[[float], None] | None, is_cancelled: Callable[[], bool] | None
    ) -> None:
        self._passes = passes
        self._done = 0
        self._progress = progress or (lambda share: None)
        self._is_cancelled = is_cancelled or (lambda: False)

    def bands(self, height: int, rows: int) -> Iterator[tuple[int, int]]:
        """The bands [start, stop) of one pass, *rows* high but for the last."""
        for start in range(0, height, rows):
            if self._is_cancelled():
                raise Cancelled("The reconstruction was cancelled.")
            stop = min(start + rows, height)
            yield start, stop
            self._progress((self._done + stop / height) / self._passes)
        self._done += 1


@dataclass(frozen=True)
class Span:
    """Rows [start, stop) of an image and a halo around them, which ends where the image ends."""

    start: int
    stop: int
    halo: int
    height: int

    @property
    def first(self) -> int:
        """The first row of the halo."""
        return max(self.start - self.halo, 0)

    @property
    def last(self) -> int:
        """One past the last row of the halo."""
        return min(self.stop + self.halo, self.height)

    @property
    def inner(self) -> "Span":
        """The same rows with one row of halo less."""
        return replace(self, halo=self.halo - 1)

    def crop(self, rows: Tensor) -> Tensor:
        """The rows [start, stop) of the rows of this span."""
        return rows[:, :, self.start - self.first : self.stop - self.first]

    def convolve(self, convolution: nn.Conv2d, rows: Tensor) -> Tensor:
        """The convolution of this span's rows, on the rows of `inner`: padded with zeros where the image ends only."""
        inner = self.inner
        top, bottom = 1 - (inner.first - self.first), 1 - (self.last - inner.last)
        if top or bottom:
            rows = F.pad(rows, (0, 0, top, bottom))
        return F.conv2d(rows, convolution.weight, convolution.bias, convolution.stride, (0, 1))


class GramSum:
    """The Gram matrix that a block needs of its input, added up while the input is being written."""

    def __init__(self, block: SpectralAttentionBlock) -> None:
        self._block = block
        self._total: Tensor | None = None

    def add(self, features: Tensor) -> Tensor:
        """Count *features*, (1, C, h, W), in, and return them."""
        part = self._block.gram(features)
        self._total = part if self._total is None else self._total + part
        return features

    @property
    def mixing(self) -> Tensor:
        """The mixing matrix of the block, once all features were counted."""
        assert self._total is not None
        return self._block.mixing(self._total)


class _Run:
    """One run: four slabs of memory and the passes between them.

    Two slabs hold the features around a stage (its input and its output), two those inside its U-shape at full
    resolution. The half and quarter resolutions, and in the end the result, live where a slab is free for a while;
    the first slab of each pair is the one in use.
    """

    def __init__(
        self, network: MSTPlusPlus, rows: RowSource, height: int, width: int, device: torch.device, ticker: Ticker
    ) -> None:
        self._network, self._rows, self._device, self._ticker = network, rows, device, ticker
        self._result_size = (network.hyperparameters.out_bands, height, width)
        self._row_of, self._column_of = reflected_index(height), reflected_index(width)
        self._size = (len(self._row_of), len(self._column_of))
        size = len(self._row_of) * len(self._column_of) * network.hyperparameters.width
        self._stage_slabs = [Slab(size, device) for _ in range(2)]
        self._shape_slabs = [Slab(size, device) for _ in range(2)]

    def bands(self) -> Tensor:
        """The (B, H, W) result, on the device."""
        stages = list(self._network.stages)
        mixing = self._first_pass(stages[0])
        for stage, following in pairwise(stages):
            mixing = self._between_stages(stage, following, self._u_shape(stage, mixing))
        return self._last_pass(stages[-1], self._u_shape(stages[-1], mixing))

    def _first_pass(self, stage: SpectralTransformer) -> Tensor:
        """Photo -> input of the first stage, and of its U-shape; returns the mixing matrix of the first block."""
        deep, full = self._map(self._stage_slabs[0]), self._map(self._shape_slabs[0])
        gram = GramSum(stage.encoder[0])
        for span in self._spans(deep, halo=1):
            shallow = self._shallow(span)
            deep.write(span.start, span.crop(shallow))
            full.write(span.start, gram.add(span.convolve(stage.embedding, shallow)))
        return gram.mixing

    def _u_shape(self, stage: SpectralTransformer, mixing: Tensor) -> Tensor:
        """The U-shape but for its last block, whose input is left in the first slab; returns its mixing matrix."""
        skip, full = self._map(self._shape_slabs[1]), self._map(self._shape_slabs[0])
        half, half_skip = (self._map(self._stage_slabs[1], level=1, part=part) for part in (0, 1))
        quarter = self._map(self._shape_slabs[0], level=2)
        mixing = self._encode(stage, 0, mixing, full, skip, half)
        mixing = self._encode(stage, 1, mixing, half, half_skip, quarter)
        mixing = self._decode(stage, 0, mixing, quarter, half_skip, half)
        return self._decode(stage, 1, mixing, half, skip, full)

    def _encode(
        self, stage: SpectralTransformer, level: int, mixing: Tensor, source: FeatureMap, skip: FeatureMap, lower: FeatureMap
    ) -> Tensor:
        """A block, kept as skip, and the convolution that halves it; returns the next block's mixing matrix."""
        window = window_function(stage.encoder[level], mixing)
        gram = GramSum((*stage.encoder, stage.bottleneck)[level + 1])
        for span in self._spans(source, halo=1):
            encoded = self._apply(window, source, span)
            skip.write(span.start, span.crop(encoded))
            lower.write(span.start // 2, gram.add(span.convolve(stage.down[level], encoded)))
        return gram.mixing

    def _decode(
        self, stage: SpectralTransformer, level: int, mixing: Tensor, lower: FeatureMap, skip: FeatureMap, target: FeatureMap
    ) -> Tensor:
        """The block of the level below, doubled and fused with the skip; returns the next block's mixing matrix."""
        window = window_function((stage.bottleneck, *stage.decoder)[level], mixing)
        gram = GramSum(stage.decoder[level])
        for span in self._spans(lower, halo=0):
            doubled = stage.up[level](self._apply(window, lower, span))
            skipped = skip.read(2 * span.start, 2 * span.stop)
            target.write(2 * span.start, gram.add(stage.fuse[level](torch.cat([doubled, skipped], dim=1))))
        return gram.mixing

    def _between_stages(self, stage: SpectralTransformer, following: SpectralTransformer, mixing: Tensor) -> Tensor:
        """Last block of a stage, its residual, and the embedding of the next; returns that one's mixing matrix."""
        deep, full = self._map(self._stage_slabs[1]), self._map(self._shape_slabs[1])
        gram = GramSum(following.encoder[0])
        for span, features in self._stage_output(stage, mixing):
            deep.write(span.start, span.crop(features))
            full.write(span.start, gram.add(span.convolve(following.embedding, features)))
        self._stage_slabs.reverse()
        self._shape_slabs.reverse()
        return gram.mixing

    def _last_pass(self, stage: SpectralTransformer, mixing: Tensor) -> Tensor:
        """Last block, residual, last convolution and the residual around the network -> the result."""
        bands, height, width = self._result_size
        result = self._shape_slabs[1].planes(bands, height, width)
        for span, features in self._stage_output(stage, mixing):
            stop = min(span.stop, height)
            rows = self._output(span, features)
            result[:, span.start : stop] = rows[0, :, : stop - span.start, :width]
        return result

    def _stage_output(self, stage: SpectralTransformer, mixing: Tensor) -> Iterator[tuple[Span, Tensor]]:
        """Rows of the output of a stage, with a halo of one: last block, mapping, residual."""
        window = window_function(stage.decoder[-1], mixing)
        source, deep = self._map(self._shape_slabs[0]), self._map(self._stage_slabs[0])
        for wide in self._spans(source, halo=2):
            span = wide.inner
            mapped = wide.convolve(stage.mapping, self._apply(window, source, wide))
            yield span, mapped.add_(deep.read(span.first, span.last))

    def _output(self, span: Span, features: Tensor) -> Tensor:
        """Rows of the result from rows of the last stage's output."""
        shallow = self._shallow(span)
        if self._network.is_residual_around_output:
            return span.convolve(self._network.conv_out, features).add_(span.crop(shallow))
        return span.convolve(self._network.conv_out, features.add_(shallow))

    def _shallow(self, span: Span) -> Tensor:
        """Rows of the first convolution of the photo, with the halo of *span*."""
        wide = replace(span, halo=span.halo + 1)
        return wide.convolve(self._network.conv_in, self._photo(wide.first, wide.last))

    def _photo(self, start: int, stop: int) -> Tensor:
        """Rows of the reflect-padded photo, (1, in_bands, rows, W)."""
        index = self._row_of[start:stop]
        first, last = int(index.min()), int(index.max()) + 1
        rows = torch.from_numpy(self._rows(first, last))[:, index - first][..., self._column_of]
        return rows[None].to(self._device).contiguous(memory_format=torch.channels_last)

    def _apply(self, window: Window, source: FeatureMap, span: Span) -> Tensor:
        """A block on the rows of *span*, halo included, square by square where the device is a CPU."""
        reach = replace(span, halo=span.halo + HALO)
        rows = source.read(reach.first, reach.last)
        above, below = span.first - reach.first, reach.last - span.last
        width = source.width
        side = TILE if self._device.type == "cpu" else width
        result = rows.new_empty((1, span.last - span.first, width, rows.shape[1])).permute(0, 3, 1, 2)
        for left in range(0, width, side):
            right = min(left + side, width)
            before, after = min(left, HALO), min(width - right, HALO)
            tile = rows[..., left - before : right + after]
            result[..., left:right] = window(tile, (above, below, before, after))
        return result

    def _spans(self, source: FeatureMap, halo: int) -> Iterator[Span]:
        """The bands of rows of one pass over *source*, each with a halo."""
        rows = TILE if self._device.type == "cpu" else max(GPU_PIXELS // source.width, TILE) // 8 * 8
        for start, stop in self._ticker.bands(source.height, rows):
            yield Span(start, stop, halo, source.height)

    def _map(self, slab: Slab, level: int = 0, part: int = 0) -> FeatureMap:
        """The feature map of a level of the U-shape in *slab*: the sides halved and the channels doubled each time."""
        height, width = (side >> level for side in self._size)
        channels = self._network.hyperparameters.width << level
        return slab.feature_map(height, width, channels, offset=part * height * width * channels)


def window_function(block: SpectralAttentionBlock, mixing: Tensor) -> Window:
    """*block* with its *mixing* matrix as a function of windows of its input, in the fastest form for its device."""
    if onednn.is_available(block):
        return onednn.OneDnnBlock(block, mixing)

    def apply(window: Tensor, halo: Halo) -> Tensor:
        above, below, before, after = halo
        height, width = window.shape[-2:]
        return block.apply_mixing(window, mixing)[..., above : height - below, before : width - after]

    return apply
