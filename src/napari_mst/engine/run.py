"""The exact streamed run of MST++: an image of any size, region by region.

Only the Gram matrices couple distant pixels. So the network is a sequence of passes over the image, one for each
spectral attention block: while a pass applies a block and the convolutions that follow it, it adds up the Gram
matrix of what it writes, which is all that the next block has to know of the whole image. Every feature map is
written once, and what comes out is what one pass over the whole image would give.

On a CPU the regions are squares whose intermediate results fit its cache, one thread each; on a GPU they are
large. Letters: B bands, C feature channels, H rows, W columns.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from napari_mst.engine import native
from napari_mst.engine.convolution import Convolve, bordered
from napari_mst.engine.features import FeatureMap, Slab, sent
from napari_mst.engine.fusion import UpFusion
from napari_mst.engine.pixelwise import run_pixelwise
from napari_mst.engine.plan import Plan, gpu_rows
from napari_mst.engine.regions import Region, tiles
from napari_mst.engine.windows import Read, gram, window_function
from napari_mst.engine.workers import Workers, wait_for
from napari_mst.errors import DeviceError
from napari_mst.models.mst_plus_plus import MSTPlusPlus, SpectralTransformer, reflected_index
from napari_mst.models.pixelwise import PixelwiseNetwork
from napari_mst.models.refining import RefiningMSTPlusPlus, encoded
from napari_mst.models.spectral_attention import HALO, SpectralAttentionBlock

CPU_PIXELS = 1 << 13
"""Pixels of the regions on a CPU at full resolution, half as many where there are twice the channels."""

NATIVE_ROWS, NATIVE_COLUMNS = 64, 128
"""Of the regions that compiled kernels compute: these go through them row by row, so that only rows must fit."""


@dataclass(frozen=True)
class Costs:
    """How long each kind of pass takes, at each level: microseconds a pixel of the photo.

    Measured in time of the processor, one thread, with the published widths. *fresh* is what memory that is used for
    the first time adds to the encoder of the first stage: half of what it is where a virtual machine gets it from its
    host, as it is next to nothing elsewhere. *pixelwise* is what a pixelwise network takes, or adds to both ends.
    """

    first: float
    encode: tuple[float, float]
    decode: tuple[float, float]
    between: float
    last: float
    fresh: tuple[float, float] = (0.2, 0.1)
    pixelwise: float = 0.8

    def of(self, stages: int) -> float:
        """All passes of a network of so many *stages*."""
        of_ends, of_stage = self.first + self.last + 2 * self.pixelwise, sum(self.encode) + sum(self.decode)
        return of_ends + sum(self.fresh) + stages * of_stage + (stages - 1) * self.between


COMPILED = Costs(0.45, (0.88, 0.51), (0.36, 0.43), 0.91, 1.0)
OTHERS = Costs(0.53, (1.3, 0.76), (0.57, 0.77), 1.4, 1.37)
"""With the kernels that numba compiles, and without."""

RowSource = Callable[[int, int], NDArray[np.float32]]
"""Rows [start, stop) of the photo as the network expects them: (in_bands, stop - start, W) float32."""


def run(
    network: MSTPlusPlus | PixelwiseNetwork,
    rows: RowSource,
    height: int,
    width: int,
    device: torch.device,
    plan: Plan | None = None,
    progress: Callable[[float], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> NDArray[np.floating]:
    """Run *network*, which must be on *device*, on a photo of *height* x *width*; returns (B, H, W).

    Everything is computed, and returned, in the precision of the network's weights: float32 or float64. The *plan* says
    where the feature maps live (in the device's memory, if there is none), which changes no number; and whether they
    are of 16 bits, which does: Gram sums, attention, the photo and the result stay as they are. *progress* is called
    with the share done (0-1) at least once for every block, from the calling thread; *is_cancelled* is asked as often.
    A pixelwise network has no blocks: it goes through the rows once.

    Raises
    ------
    Cancelled
        As soon as *is_cancelled* says so.
    DeviceError
        If features are beyond what float16 holds.
    """
    if isinstance(network, PixelwiseNetwork):
        with exact_products(device):
            return run_pixelwise(network, rows, height, width, device, plan, progress, is_cancelled)
    plan = plan or Plan()
    workers = _workers(device, plan, run_cost(network, device, plan), progress, is_cancelled)
    with exact_products(device), torch.inference_mode(), workers:
        return _Run(network, rows, height, width, device, workers, plan).bands().cpu().numpy()


def _workers(
    device: torch.device,
    plan: Plan,
    cost: float,
    progress: Callable[[float], None] | None,
    is_cancelled: Callable[[], bool] | None,
) -> Workers:
    is_apart = device.type == "cuda" and plan.place != "device"
    return Workers(device, cost, progress, is_cancelled, is_apart, plan.threads)


def run_cost(network: MSTPlusPlus | PixelwiseNetwork, device: torch.device, plan: Plan) -> float:
    """How long `run` takes, as `Costs` are measured: microseconds a pixel of one thread of a CPU."""
    if isinstance(network, PixelwiseNetwork):
        return OTHERS.pixelwise
    return _costs(network, device, plan).of(len(network.stages))


def _costs(network: MSTPlusPlus, device: torch.device, plan: Plan) -> Costs:
    costs = COMPILED if native.can_run(device, plan.dtype(network.conv_in.weight.dtype)) else OTHERS
    return costs if isinstance(network, RefiningMSTPlusPlus) else replace(costs, pixelwise=0.0)


Probe = Callable[[SpectralAttentionBlock, Tensor], Callable[[Tensor], Tensor]]
"""A block and the Gram matrix of its input -> a function of any piece (1, C, h, w) of that input: (planes, h, w)."""


def tap(
    network: MSTPlusPlus,
    rows: RowSource,
    height: int,
    width: int,
    device: torch.device,
    plan: Plan | None = None,
    progress: Callable[[float], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
    *,
    name: str,
    probe: Probe,
    planes: int = 1,
    stride: int = 1,
) -> NDArray[np.float32]:
    """Run *network* up to the block *name* and map its input with *probe*; everything else as in `run`.

    Returns (planes, H, W) at the resolution of the block: the sides of the padded photo, halved or quartered; of these
    each *stride*-th row and column. What the probe makes of a piece has to be right `HALO` pixels away from a cut.
    """
    blocks, plan = dict(network.blocks()), plan or Plan()
    costs = _costs(network, device, plan)
    passes = list(blocks).index(name)
    before = islice(cycle([*costs.encode, *costs.decode, costs.between]), passes)
    cost = 3 * costs.first + costs.pixelwise + sum(before) + sum(costs.fresh[:passes])
    workers = _workers(device, plan, cost, progress, is_cancelled)
    with exact_products(device), torch.inference_mode(), workers:
        tapped = _Run(network, rows, height, width, device, workers, plan).tap(blocks[name], probe, planes, stride)
        return tapped.cpu().numpy()


_backends: Any = torch.backends
_EXACT = (
    (_backends.cuda.matmul, "fp32_precision", "ieee"),
    (_backends.cudnn.conv, "fp32_precision", "ieee"),
    (_backends.mkldnn.matmul, "fp32_precision", "ieee"),
    (_backends.mkldnn.conv, "fp32_precision", "ieee"),
    (_backends.cudnn, "benchmark", False),  # it tries algorithms that want memory which nobody has planned
)


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Products of float32 in full, whatever the program has set for *device*: TF32 keeps 10 bits of 23, bfloat16 7."""
    before = [getattr(owner, name) for owner, name, _ in _EXACT]
    try:
        for owner, name, value in _EXACT:
            setattr(owner, name, value)
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for (owner, name, _), value in zip(_EXACT, before, strict=True):
            setattr(owner, name, value)


class _Reached(Exception):
    """The run has come to the block that is tapped; *read* reads its input, of *size*."""

    def __init__(self, read: Read, size: tuple[int, int]) -> None:
        super().__init__()
        self.read, self.size = read, size


class _Run:
    """One run: slabs of memory, and the passes between them.

    One slab holds the features between two stages, another the skip of the stage at full resolution, which its decoder
    replaces pixel by pixel. The third holds the half resolution, then the features after the stage and, in the end,
    the result, for which it is larger where that is. The first features of a stage are computed twice, from those
    before it, rather than kept.
    """

    def __init__(
        self,
        network: MSTPlusPlus,
        rows: RowSource,
        height: int,
        width: int,
        device: torch.device,
        workers: Workers,
        plan: Plan,
    ) -> None:
        self._network, self._device, self._workers = network, device, workers
        self._costs = _costs(network, device, plan)
        self._result_size = (network.hyperparameters.out_bands, height, width)
        self._wide = network.conv_in.weight.dtype
        self._dtype = dtype = plan.dtype(self._wide)
        self._pixels = plan.pixels
        self._photo = _PaddedPhoto(rows, height, width, device, self._wide)
        self._size = self._photo.size
        size = self._size[0] * self._size[1] * network.hyperparameters.width
        of_result = -(-math.prod(self._result_size) * self._wide.itemsize // dtype.itemsize)
        home, is_in_file = device if plan.place == "device" else torch.device("cpu"), plan.place == "file"
        self._gram_device = home  # a product of one thread, or stream, is summed up in another
        make = functools.partial(Slab, device=home, is_in_file=is_in_file, dtype=dtype)
        self._skip, self._quarter = make(size), make(size // 4)
        self._deep, self._free = make(size), make(max(size, of_result))
        if len(network.stages) % 2 == 0:  # the two are exchanged between stages, and the free one takes the result
            self._deep, self._free = self._free, self._deep
        self._tapped: SpectralAttentionBlock | None = None
        self._bordered = functools.cache(_bordered)

    def bands(self) -> Tensor:
        """The (B, H, W) result, on the device."""
        stages = list(self._network.stages)
        mixing = self._first_pass(stages[0])
        for stage, following in pairwise(stages):
            mixing = self._between_stages(stage, following, self._u_shape(stage, mixing))
        return self._last_pass(stages[-1], self._u_shape(stages[-1], mixing))

    def tap(self, block: SpectralAttentionBlock, probe: Probe, planes: int, stride: int) -> Tensor:
        """The map that *probe* makes of the input of *block*, on the device."""
        read, size = self._input_of(block)
        grams = self._workers.each(lambda region: gram(block, read(region)), self._tiles(*size), self._costs.first)
        measure = probe(block, functools.reduce(torch.add, grams))
        result = torch.empty(planes, *(-(-side // stride) for side in size), device=self._device)

        def compute(region: Region) -> None:
            near = region.grown(HALO)
            rows, columns = (slice(-(-s.start // stride), -(-s.stop // stride)) for s in (region.rows, region.columns))
            values = near.crop(measure(read(near)))
            skip = (-region.rows.start % stride, -region.columns.start % stride)
            result[:, rows, columns] = values[..., skip[0] :: stride, skip[1] :: stride]

        for _ in self._workers.each(compute, self._tiles(*size), self._costs.first):
            pass
        return result

    def _input_of(self, block: SpectralAttentionBlock) -> tuple[Read, tuple[int, int]]:
        self._tapped = block
        try:
            self.bands()
        except _Reached as reached:
            return reached.read, reached.size
        raise ValueError("Expected a block of this network, got another.")

    def _window(
        self, block: SpectralAttentionBlock, mixing: Tensor, read: Read, size: tuple[int, int]
    ) -> Callable[[Region], Tensor]:
        """*block* on any region of its input, of *size*, which *read* reads; a run with a tap there ends here."""
        if block is self._tapped:
            raise _Reached(read, size)
        return functools.partial(window_function(block, mixing.to(self._device), self._dtype), read)

    def _first_pass(self, stage: SpectralTransformer) -> Tensor:
        """Photo -> input of the first stage; returns the mixing matrix of its first block."""
        deep, block = self._map(self._deep), stage.encoder[0]

        def compute(region: Region) -> Tensor:
            near = region.grown(1)
            shallow = self._shallow(near).to(self._dtype)
            deep.write(region, near.crop(shallow))
            return gram(block, self._convolve(stage.embedding, near, shallow))

        return self._pass(compute, deep.size, block, self._costs.first + self._costs.pixelwise)

    def _u_shape(self, stage: SpectralTransformer, mixing: Tensor) -> Tensor:
        """The U-shape but for its last block, whose input takes the place of the skip; returns its mixing matrix."""
        deep, skip, quarter = self._map(self._deep), self._map(self._skip), self._map(self._quarter, level=2)
        half, half_skip = (self._map(self._free, level=1, part=part) for part in (0, 1))

        def embedded(region: Region) -> Tensor:
            near = region.grown(1)
            return self._convolve(stage.embedding, near, deep.read(near))

        mixing = self._encode(stage, 0, mixing, embedded, skip, half)
        mixing = self._encode(stage, 1, mixing, half.read, half_skip, quarter)
        mixing = self._decode(stage, 0, mixing, quarter, half_skip)
        return self._decode(stage, 1, mixing, half_skip, skip)

    def _encode(
        self,
        stage: SpectralTransformer,
        level: int,
        mixing: Tensor,
        read: Read,
        skip: FeatureMap,
        lower: FeatureMap,
    ) -> Tensor:
        """A block, kept as skip, and the convolution that halves it; returns the next block's mixing matrix."""
        window = self._window(stage.encoder[level], mixing, read, skip.size)
        following = (*stage.encoder, stage.bottleneck)[level + 1]

        def compute(region: Region) -> Tensor:
            near = region.grown(1)
            encoded = window(near)
            skip.write(region, near.crop(encoded))
            return _write(lower, region.scaled(0.5), self._convolve(stage.down[level], near, encoded), following)

        is_fresh = stage is self._network.stages[0]
        return self._pass(
            compute, skip.size, following, self._costs.encode[level] + is_fresh * self._costs.fresh[level]
        )

    def _decode(
        self, stage: SpectralTransformer, level: int, mixing: Tensor, lower: FeatureMap, skip: FeatureMap
    ) -> Tensor:
        """The block of the level below, doubled and fused with the skip, in place; returns the next mixing matrix."""
        window = self._window((stage.bottleneck, *stage.decoder)[level], mixing, lower.read, lower.size)
        fuse, following = UpFusion(stage.up[level], stage.fuse[level], self._dtype), stage.decoder[level]

        def compute(region: Region) -> Tensor:
            doubled = region.scaled(2)
            return _write(skip, doubled, fuse(window(region), skip.read(doubled)), following)

        return self._pass(compute, lower.size, following, self._costs.decode[level])

    def _between_stages(self, stage: SpectralTransformer, following: SpectralTransformer, mixing: Tensor) -> Tensor:
        """Last block of a stage, its residual, and the embedding of the next; returns that one's mixing matrix."""
        stage_output = self._stage_output(stage, mixing)
        deep, block = self._map(self._free), following.encoder[0]

        def compute(region: Region) -> Tensor:
            near = region.grown(1)
            features = stage_output(near)
            deep.write(region, near.crop(features))
            return gram(block, self._convolve(following.embedding, near, features))

        mixing = self._pass(compute, deep.size, block, self._costs.between)
        self._deep, self._free = self._free, self._deep
        return mixing

    def _last_pass(self, stage: SpectralTransformer, mixing: Tensor) -> Tensor:
        """Last block, residual, last convolution and the residual around the network -> the result."""
        stage_output = self._stage_output(stage, mixing)
        bands, height, width = self._result_size
        result = self._free.planes(bands, height, width, self._wide)
        network = self._network

        def compute(region: Region) -> None:
            near = region.grown(1)
            features, shallow = stage_output(near).to(self._wide), self._shallow(near)
            if network.is_residual_around_output:
                values = self._convolve(network.conv_out, near, features).add_(near.crop(shallow))
            else:
                values = self._convolve(network.conv_out, near, features.add_(shallow))
            target = result[:, region.rows.whole, region.columns.whole]
            target.copy_(network.finish(values)[0, :, : target.shape[1], : target.shape[2]])

        cost = self._costs.last + self._costs.pixelwise
        for _ in self._workers.each(compute, self._tiles(*self._size), cost):
            pass
        self._check_range(result)
        return result

    def _stage_output(self, stage: SpectralTransformer, mixing: Tensor) -> Callable[[Region], Tensor]:
        """The output of a stage on any region: last block, mapping, residual."""
        source, deep = self._map(self._skip), self._map(self._deep)
        window = self._window(stage.decoder[-1], mixing, source.read, source.size)

        def compute(region: Region) -> Tensor:
            near = region.grown(1)
            return self._convolve(stage.mapping, near, window(near)).add_(deep.read(region))

        return compute

    def _shallow(self, region: Region) -> Tensor:
        """The first features of the photo on *region*, halo included."""
        near, network = region.grown(1), self._network
        photo = self._photo.read(near)
        if not isinstance(network, RefiningMSTPlusPlus):
            return self._convolve(network.conv_in, near, photo)
        return self._convolve(network.conv_in, near, encoded(photo)) + network.first_spectra(self._photo.read(region))

    def _convolve(self, convolution: nn.Conv2d, region: Region, features: Tensor) -> Tensor:
        return region.convolve(self._bordered(convolution, features.dtype), features)

    def _pass(
        self, compute: Callable[[Region], Tensor], size: tuple[int, int], following: SpectralAttentionBlock, cost: float
    ) -> Tensor:
        """*compute* on every region of a map of *size*; the sum of its Gram matrices -> the next mixing matrix."""
        grams = self._workers.each(lambda region: compute(region).to(self._gram_device), self._tiles(*size), cost)
        total = next(grams)
        for more in grams:
            total += more
        self._check_range(total)
        return following.mixing(total)

    def _check_range(self, values: Tensor) -> None:
        if self._dtype == torch.float16 and not values.isfinite().all():
            raise DeviceError(
                "Expected features within the range of float16, got larger ones. Take bfloat16 or float32."
            )

    def _tiles(self, height: int, width: int) -> Iterable[Region]:
        if self._device.type != "cpu":
            return self._strips(height, width)
        if native.can_run(self._device, self._dtype):
            return tiles(height, width, *native_tile(height, width))
        level = (self._size[0] // height).bit_length() - 1
        return tiles(height, width, *cpu_tile(height, width, level))

    def _strips(self, height: int, width: int) -> Iterable[Region]:
        """Whole rows, of which a GPU copies one block of memory."""
        pixels = self._pixels * height // self._size[0]  # where the sides are half as long there are twice the channels
        return tiles(height, width, gpu_rows(width, pixels), width)

    def _map(self, slab: Slab, level: int = 0, part: int = 0) -> FeatureMap:
        """The feature map of a level of the U-shape in *slab*: the sides halved and the channels doubled each time."""
        height, width = (side >> level for side in self._size)
        channels = self._network.hyperparameters.width << level
        return slab.feature_map(height, width, channels, part * height * width * channels, self._device)


def cpu_tile(height: int, width: int, level: int) -> tuple[int, int]:
    """Rows and columns of the regions of a map of *height* x *width* on a CPU: four or more, of about the same size."""
    pixels = CPU_PIXELS >> level
    while 4 * pixels > height * width and pixels > 1 << 10:
        pixels //= 2
    rows = 1 << (pixels.bit_length() - 1) // 2
    return _shared_out(height, rows), _shared_out(width, pixels // rows)


def _shared_out(length: int, most: int) -> int:
    """*length* in parts of about the same size, at most *most* and a multiple of 4."""
    return -(-length // (-(-length // most) * 4)) * 4


def native_tile(height: int, width: int) -> tuple[int, int]:
    """Rows and columns of the regions that compiled kernels compute: smaller where they would be too few."""
    rows, strips = NATIVE_ROWS, -(-width // NATIVE_COLUMNS)
    while rows > NATIVE_ROWS // 4 and -(-height // rows) * strips < 8:
        rows //= 2
    return rows, NATIVE_COLUMNS


class _PaddedPhoto:
    """The photo, reflect-padded, read region by region."""

    def __init__(self, rows: RowSource, height: int, width: int, device: torch.device, dtype: torch.dtype) -> None:
        self._rows = functools.lru_cache(maxsize=4)(rows)  # the regions of one band of rows share them
        self._device, self._dtype = device, dtype
        self._row_of, self._column_of = reflected_index(height), reflected_index(width)
        self.size = (len(self._row_of), len(self._column_of))

    def read(self, region: Region) -> Tensor:
        """(1, in_bands, h, w) of *region*, halo included."""
        index = self._row_of[region.rows.whole]
        first, last = int(index.min()), int(index.max()) + 1
        rows = torch.from_numpy(self._rows(first, last))[:, index - first]
        return sent(rows[None, :, :, self._column_of[region.columns.whole]], self._device).to(self._dtype)


def _bordered(convolution: nn.Conv2d, dtype: torch.dtype) -> Convolve:
    """`bordered` for all threads: on a GPU each has a stream of its own, and they share converted weights."""
    shared = bordered(convolution, dtype)
    if dtype != convolution.weight.dtype:
        wait_for(convolution.weight.device)
    return shared


def _write(target: FeatureMap, region: Region, features: Tensor, block: SpectralAttentionBlock) -> Tensor:
    """Write *features* to *region* of *target*; returns their Gram matrix for the *block* that will read them."""
    target.write(region, features)
    return gram(block, features)
