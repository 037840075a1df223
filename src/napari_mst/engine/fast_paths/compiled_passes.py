"""Passes on a CPU as compiled kernels: what torch gives, to rounding, faster.

This module imports numba, so it is imported only where `native.can_run` says so.
Letters: B bands, C channels, h, w sides of a region.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from napari_mst.base.arrays import Singles
from napari_mst.engine.fast_paths.packing import (
    empty,
    features_of,
    filled,
    filters,
    panels,
    scratch_memory,
    side_by_side,
    vector,
)
from napari_mst.engine.kernels.block import SCRATCH_ROWS, BlockWeights, apply_block
from napari_mst.engine.kernels.convolution import (
    ConvolutionWeights,
    UpFusionWeights,
    convolution_bytes,
    convolve,
    double,
    fusion_bytes,
)
from napari_mst.engine.kernels.gram import GRAM_BYTES, add_gram
from napari_mst.engine.kernels.packed_rows import Missing, row_bytes
from napari_mst.engine.kernels.processor import LANES, STEP
from napari_mst.engine.kernels.spectra import (
    FEATURE_CHANNELS,
    Estimates,
    PhotoPlanes,
    SpectrumWeights,
    decode_spectra,
    estimate_spectra,
    scratch_bytes,
    write_sides,
)
from napari_mst.engine.windows import Sides
from napari_mst.networks.attention.spectral import HALO, SpectralAttentionBlock
from napari_mst.networks.pixelwise import (
    DARKEST,
    LIMIT,
    OFFSET,
    Layers,
    OnePixel,
    PixelwiseNetwork,
)
from napari_mst.networks.refining_mst_plus_plus import BLACK, decoded, encoded

_DOUBLE_BYTES = 8


class CompiledBlock:
    """The local part of a block for one *mixing* matrix: what `apply_mixing` gives, to rounding."""

    def __init__(self, block: SpectralAttentionBlock, mixing: Tensor) -> None:
        attention = block.attention
        feed_forward = block.feed_forward
        norm = feed_forward.norm
        expand = feed_forward.expand.weight[:, :, 0, 0].double()
        first_filters, second_filters = attention.pos.parameters()
        channels = mixing.shape[-1]
        inside = filled(channels)
        hidden = inside * len(expand) // channels
        # In the order of `BlockWeights`. The affine part of LayerNorm is folded into the product
        # that follows it. The tensors are kept, because the record has only their addresses.
        self._weights = [
            panels(attention.to_v.weight, inside, inside),
            filters(first_filters, inside),
            filters(second_filters, inside),
            panels(mixing[0], inside, inside),
            vector(attention.proj.bias, inside),
            panels(expand * norm.weight.double(), hidden, inside),
            vector(expand @ norm.bias.double(), hidden),
            filters(feed_forward.depthwise.weight, hidden),
            panels(feed_forward.reduce.weight[:, :, 0, 0], inside, hidden),
            torch.tensor([norm.eps]),
        ]
        self._channels = channels
        self._planes = inside // LANES
        addresses = (weight.data_ptr() for weight in self._weights)
        self._addresses = BlockWeights(self._planes, *addresses)

    def __call__(self, window: Tensor, missing: Sides) -> Tensor:
        """The block inside the halo of *window*, (1, C, h, w).

        The halo has `HALO` pixels on each side, less those *missing* where the image ends.
        """
        window = side_by_side(window)
        top, bottom, left, right = missing
        height = window.shape[2] + top + bottom - 2 * HALO
        width = window.shape[3] + left + right - 2 * HALO
        out = empty(self._channels, height, width)
        scratch = scratch_memory(SCRATCH_ROWS * row_bytes(width + 2 * HALO, self._planes))
        apply_block(
            features_of(window), Missing(*missing), self._addresses, features_of(out), scratch
        )
        return out


class CompiledConvolution:
    """A 3x3 convolution, or a 4x4 of stride 2, without padding of its own."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        weight = convolution.weight
        stride = convolution.stride[0]
        self.side = weight.shape[-1]
        self._out_channels, channels = weight.shape[:2]
        planes = -(-channels // LANES)
        # A photo has three channels: where they fill no vector, only the groups that they fill are
        # multiplied.
        step = min(-(-channels // STEP) * STEP, LANES)
        inside = planes * step
        outside = filled(self._out_channels)
        columns = _by_phase(self.side, stride)
        taps = weight[..., columns].permute(2, 3, 0, 1).flatten(0, 1)
        self._weight = panels(taps, outside, inside).transpose(0, 1).contiguous()
        bias = torch.zeros(self._out_channels) if convolution.bias is None else convolution.bias
        self._bias = vector(bias, outside)
        self._record = ConvolutionWeights(
            side=self.side,
            stride=stride,
            planes=planes,
            out_planes=outside // LANES,
            steps=step // STEP,
            weights=self._weight.data_ptr(),
            bias=self._bias.data_ptr(),
        )

    def __call__(self, features: Tensor, missing: Sides) -> Tensor:
        """(1, C, h, w), and zeros around it where pixels are *missing*, convolved."""
        features = side_by_side(features)
        top, bottom, left, right = missing
        height = features.shape[2] + top + bottom
        width = features.shape[3] + left + right
        side, stride = self._record.side, self._record.stride
        rows, columns = ((length - side) // stride + 1 for length in (height, width))
        out = empty(self._out_channels, rows, columns)
        scratch = scratch_memory(convolution_bytes(self._record, width))
        convolve(features_of(features), Missing(*missing), self._record, features_of(out), scratch)
        return out


def _by_phase(side: int, stride: int) -> Tensor:
    """The columns of a filter by their remainder by the *stride*, as `products.Taps` has them."""
    return torch.arange(side).view(-1, stride).T.flatten()


class CompiledUpFusion:
    """Features doubled in size, and a skip, fused and added.

    *up* (4, C, 2C) has a matrix for each pixel of a square, *bias* (C) is added, and *fuse* (C, C)
    is the matrix of the skip.
    """

    def __init__(self, up: Tensor, bias: Tensor, fuse: Tensor) -> None:
        self._out_channels, channels = up.shape[1:]
        outside = filled(self._out_channels)
        inside = filled(channels)
        self._weights = [
            panels(up, outside, inside),
            vector(bias, outside),
            panels(fuse, outside, outside),
        ]
        addresses = (weight.data_ptr() for weight in self._weights)
        self._record = UpFusionWeights(inside // LANES, outside // LANES, *addresses)

    def __call__(self, x: Tensor, skip: Tensor) -> Tensor:
        """(1, 2C, h, w) and (1, C, 2h, 2w) -> (1, C, 2h, 2w)."""
        x = side_by_side(x)
        skip = side_by_side(skip)
        height, width = x.shape[2:]
        out = empty(self._out_channels, 2 * height, 2 * width)
        scratch = scratch_memory(fusion_bytes(self._record, width))
        double(features_of(x), features_of(skip), self._record, features_of(out), scratch)
        return out


def folded_fusion(up: nn.ConvTranspose2d, fuse: nn.Conv2d) -> tuple[Tensor, Tensor, Tensor]:
    """The end of a decoder step, fuse(concat(up(x), skip)), as products with x and with the skip.

    The 1x1 fusion is linear in both halves. Its first half goes into the weights of the transposed
    convolution, its second is a 1x1 convolution of the skip, and nothing has to be put side by
    side. Returns what `CompiledUpFusion` takes, in float64.
    """
    fusion = fuse.weight.double()[:, :, 0, 0]
    of_up, of_skip = fusion.split(len(fusion), dim=1)
    quarters = torch.einsum("oc,icyx->yxoi", of_up, up.weight.double()).flatten(0, 1)
    bias = of_up.new_zeros(len(fusion)) if up.bias is None else up.bias.double()
    return quarters, of_up @ bias, of_skip


def compiled_gram(x: Tensor) -> Tensor:
    """Gram matrix of the channels, summed over pixels: (1, C, H, W) -> (1, C, C), in float64."""
    x = side_by_side(x)
    channels = x.shape[1]
    side = filled(channels)
    total = torch.zeros(side, side, dtype=torch.float64)
    scratch = scratch_memory(max(GRAM_BYTES, _DOUBLE_BYTES * side))
    add_gram(features_of(x), side // LANES, total.data_ptr(), scratch)
    # The kernel completes only what is above the diagonal.
    upper = total[None, :channels, :channels].triu()
    return upper + upper.triu(1).mT


class CompiledSpectra:
    """The spectra of a *network*, `encoded` if so asked: what torch gives, to rounding."""

    def __init__(self, network: OnePixel, is_encoded: bool = False) -> None:
        self._bands = network.out_bands
        width = filled(network.width)
        outside = filled(self._bands)
        layers = self._layers(network, outside)
        last = filled(len(layers[-1][0]))
        sizes = [FEATURE_CHANNELS, width, width, width, last]
        # In the order of `SpectrumWeights`. They are kept: the record has only their addresses.
        self._weights = []
        for (weight, bias), before, after in zip(layers, sizes[:-1], sizes[1:], strict=True):
            self._weights += [panels(weight, after, before), vector(bias, after)]
        matrix, *numbers = network.start()
        self._weights.append(torch.stack([vector(column, outside) for column in matrix.T]))
        self._weights.append(_limits(*numbers))
        addresses = (weight.data_ptr() for weight in self._weights)
        planes = width // LANES, last // LANES
        self._record = SpectrumWeights(int(is_encoded), *planes, *addresses)

    def _layers(self, network: OnePixel, _outside: int) -> Layers:
        return network.layers()

    def __call__(self, photo: Tensor) -> Tensor:
        """(1, 3, h, w) -> (1, B, h, w)."""
        if photo.stride(3) != 1:
            photo = photo.contiguous()
        out = empty(self._bands, *photo.shape[2:])
        scratch = scratch_memory(scratch_bytes(self._record))
        estimate_spectra(_planes(photo), self._record, features_of(out), scratch)
        return out


class CompiledSides(CompiledSpectra):
    """Both sides of the intervals, by their *network* and the `DOUBTS` (B, 6) of each band."""

    def __init__(self, network: PixelwiseNetwork, doubts: Tensor) -> None:
        super().__init__(network)
        self._doubts = doubts.float().contiguous()

    def _layers(self, network: OnePixel, outside: int) -> Layers:
        """The last layer has the sides behind the estimate, each filled up to *outside*."""
        *layers, estimate = network.layers()
        margins = cast("PixelwiseNetwork", network).margins
        sides = zip(margins.weight.chunk(2), margins.bias.chunk(2), strict=True)
        weight = torch.zeros(3, outside, estimate[0].shape[1])
        bias = torch.zeros(3, outside)
        for index, (own_weight, own_bias) in enumerate([estimate, *sides]):
            weight[index, : self._bands] = own_weight
            bias[index, : self._bands] = own_bias
        return [*layers, (weight.flatten(0, 1), bias.flatten())]

    def write(self, spectra: Singles, sides: Singles) -> None:
        """Put both *sides* (2, B, h, w) of *spectra* (B, h, w); their pixels lie side by side."""
        if spectra.strides[2] != spectra.itemsize:
            spectra = np.ascontiguousarray(spectra)
        doubts = self._doubts.data_ptr()
        channel, row, _ = spectra.strides
        bands, height, width = spectra.shape
        estimates = Estimates(spectra.ctypes.data, channel, row, bands, height, width, doubts)
        scratch = scratch_memory(scratch_bytes(self._record))
        out = PhotoPlanes(sides.ctypes.data, *sides.strides[1:3])
        write_sides(estimates, self._record, out, scratch)


class CompiledDecoding:
    """Encoded spectra as reflectances: what `decoded` gives, to rounding."""

    def __call__(self, codes: Tensor) -> Tensor:
        """(1, B, h, w) -> (1, B, h, w), whose pixels lie side by side."""
        codes = side_by_side(codes)
        _, bands, height, width = codes.shape
        # Row by row with all bands: a distance from band to band that is a large power of two would
        # leave most of the cache unused.
        out = torch.empty(height, bands, width).permute(1, 0, 2)[None]
        black = torch.tensor(BLACK)
        decode_spectra(features_of(codes), black.data_ptr(), _planes(out))
        return out


def _limits(*of_start: float) -> Tensor:
    """The numbers named `LIMITS`, the last of which are those of a start."""
    return torch.tensor((BLACK, DARKEST, OFFSET, LIMIT, *of_start))


def _planes(picture: Tensor) -> PhotoPlanes:
    """(1, C, h, w), whose pixels lie side by side, as kernels take it."""
    number = picture.element_size()
    return PhotoPlanes(picture.data_ptr(), number * picture.stride(1), number * picture.stride(2))


def largest_error() -> float:
    """The error of the kernels against torch on small random features, by the largest value."""
    # The fork leaves the random numbers of the caller as they are.
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        block = SpectralAttentionBlock(6, 1)
        x = torch.randn(1, 6, 10, 14).contiguous(memory_format=torch.channels_last)
        half = nn.Conv2d(6, 9, 4, 2, padding=1)
        up, fuse = nn.ConvTranspose2d(6, 3, 2, 2), nn.Conv2d(6, 3, 1, bias=False)
        skip = torch.randn(1, 3, 20, 28)
        fused = fuse(torch.cat([up(x), skip], dim=1))
        mixing = block.mixing(block.input_gram(x))
        network = PixelwiseNetwork(5, 12)
        photo = 1.2 * torch.rand(1, 3, 4, 15)
        codes = 1.1 * torch.rand(1, 5, 4, 15)
        pairs = [
            (CompiledBlock(block, mixing)(x, (HALO,) * 4), block.apply_mixing(x, mixing.float())),
            (CompiledConvolution(half)(x, (1, 1, 1, 1)), half(x)),
            (CompiledUpFusion(*folded_fusion(up, fuse))(x, skip), fused),
            (compiled_gram(x), block.input_gram(x)),
            (CompiledSpectra(network, is_encoded=True)(photo), encoded(network(photo))),
            (CompiledDecoding()(codes), decoded(codes)),
        ]
        return max(
            float((ours - theirs).abs().max() / theirs.abs().max()) for ours, theirs in pairs
        )
