"""Passes on a CPU as compiled kernels: what torch gives, to rounding, faster; all in NumPy.

This module is imported only where `native.can_run` says so.
Letters: B bands, C channels, h, w sides of a region.
"""

import numpy as np

from napari_mst.base.arrays import Array, Doubles, Indices, Singles
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
    encode_photo,
    estimate_spectra,
    scratch_bytes,
    write_sides,
)
from napari_mst.engine.windows import Sides
from napari_mst.networks.forms import (
    BLACK,
    DARKEST,
    LIMIT,
    OFFSET,
    BlockForm,
    ConvolutionForm,
    DoublingForm,
    EstimateForm,
    FusionForm,
)

HALO = 3
"""Pixels around a tile that a block needs."""

_DOUBLE_BYTES = 8


class CompiledBlock:
    """The local part of a block for one *mixing* matrix: what `apply_mixing` gives, to rounding."""

    def __init__(self, block: BlockForm, mixing: Array) -> None:
        own = block.weights
        expand = own["feed_forward.expand.weight"][:, :, 0, 0].astype(np.float64)
        norm = own["feed_forward.norm.weight"].astype(np.float64)
        channels = mixing.shape[-1]
        inside = filled(channels)
        hidden = inside * len(expand) // channels
        # In the order of `BlockWeights`. The affine part of LayerNorm is folded into the product
        # that follows it. The arrays are kept, because the record has only their addresses.
        self._weights = [
            panels(own["attention.to_v.weight"], inside, inside),
            filters(own["attention.pos.0.weight"], inside),
            filters(own["attention.pos.2.weight"], inside),
            panels(mixing[0], inside, inside),
            vector(own["attention.proj.bias"], inside),
            panels(expand * norm, hidden, inside),
            vector(expand @ own["feed_forward.norm.bias"].astype(np.float64), hidden),
            filters(own["feed_forward.depthwise.weight"], hidden),
            panels(own["feed_forward.reduce.weight"][:, :, 0, 0], inside, hidden),
            np.array([block.eps], np.float32),
        ]
        self._channels = channels
        self._planes = inside // LANES
        addresses = (weight.ctypes.data for weight in self._weights)
        self._addresses = BlockWeights(self._planes, *addresses)

    def __call__(self, window: Singles, missing: Sides) -> Singles:
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
    """A 3x3 convolution, or a 4x4 of stride 2, without padding."""

    def __init__(self, convolution: ConvolutionForm) -> None:
        weight, stride = convolution.weight, convolution.stride
        self.side = weight.shape[-1]
        self._out_channels, channels = weight.shape[:2]
        planes = -(-channels // LANES)
        # A photo has three channels: where they fill no vector, only the groups that they fill are
        # multiplied.
        step = min(-(-channels // STEP) * STEP, LANES)
        inside = planes * step
        outside = filled(self._out_channels)
        columns = _by_phase(self.side, stride)
        taps = weight[..., columns].transpose(2, 3, 0, 1).reshape(-1, *weight.shape[:2])
        self._weight = np.ascontiguousarray(panels(taps, outside, inside).swapaxes(0, 1))
        self._bias = vector(() if convolution.bias is None else convolution.bias, outside)
        self._record = ConvolutionWeights(
            side=self.side,
            stride=stride,
            planes=planes,
            out_planes=outside // LANES,
            steps=step // STEP,
            weights=self._weight.ctypes.data,
            bias=self._bias.ctypes.data,
        )

    def __call__(self, features: Singles, missing: Sides) -> Singles:
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


def _by_phase(side: int, stride: int) -> Indices:
    """The columns of a filter by their remainder by the *stride*, as `products.Taps` has them."""
    return np.arange(side).reshape(-1, stride).T.ravel()


class CompiledUpFusion:
    """The end of a decoder step, fuse(concat(up(x), skip)): features doubled in size, and a skip.

    The 1x1 fusion is linear in both halves. Its first half goes into the weights of the transposed
    convolution, its second is a 1x1 convolution of the skip, and nothing has to be put side by
    side.
    """

    def __init__(self, doubling: DoublingForm, fusion: FusionForm) -> None:
        fuse = fusion.weight.astype(np.float64)[:, :, 0, 0]
        of_up, of_skip = np.split(fuse, 2, axis=1)
        # A matrix for each pixel of a square: (4, C, 2C).
        up = np.einsum("oc,icyx->yxoi", of_up, doubling.weight.astype(np.float64))
        up = up.reshape(4, *up.shape[2:])
        bias = () if doubling.bias is None else of_up @ doubling.bias.astype(np.float64)
        self._out_channels, channels = up.shape[1:]
        outside = filled(self._out_channels)
        inside = filled(channels)
        self._weights = [
            panels(up, outside, inside),
            vector(bias, outside),
            panels(of_skip, outside, outside),
        ]
        addresses = (weight.ctypes.data for weight in self._weights)
        self._record = UpFusionWeights(inside // LANES, outside // LANES, *addresses)

    def __call__(self, x: Singles, skip: Singles) -> Singles:
        """(1, 2C, h, w) and (1, C, 2h, 2w) -> (1, C, 2h, 2w)."""
        x = side_by_side(x)
        skip = side_by_side(skip)
        height, width = x.shape[2:]
        out = empty(self._out_channels, 2 * height, 2 * width)
        scratch = scratch_memory(fusion_bytes(self._record, width))
        double(features_of(x), features_of(skip), self._record, features_of(out), scratch)
        return out


def compiled_gram(x: Singles) -> Doubles:
    """Gram matrix of the channels, summed over pixels: (1, C, H, W) -> (1, C, C), in float64."""
    x = side_by_side(x)
    channels = x.shape[1]
    side = filled(channels)
    total = np.zeros((side, side))
    scratch = scratch_memory(max(GRAM_BYTES, _DOUBLE_BYTES * side))
    add_gram(features_of(x), side // LANES, total.ctypes.data, scratch)
    # The kernel completes only what is above the diagonal.
    upper = np.triu(total[:channels, :channels])
    return (upper + np.triu(upper, 1).T)[None]


class CompiledSpectra:
    """The spectra of a pixelwise network: what torch gives, to rounding."""

    def __init__(self, estimate: EstimateForm) -> None:
        self._bands = estimate.bands
        width = filled(estimate.width)
        outside = filled(self._bands)
        layers = self._layers(estimate, outside)
        last = filled(len(layers[-1][0]))
        sizes = [FEATURE_CHANNELS, width, width, width, last]
        # In the order of `SpectrumWeights`. They are kept: the record has only their addresses.
        self._weights = []
        for (weight, bias), before, after in zip(layers, sizes[:-1], sizes[1:], strict=True):
            self._weights += [panels(weight, after, before), vector(bias, after)]
        matrix, *numbers = estimate.start
        self._weights.append(np.stack([vector(column, outside) for column in matrix.T]))
        self._weights.append(_limits(*numbers))
        addresses = (weight.ctypes.data for weight in self._weights)
        planes = width // LANES, last // LANES
        self._record = SpectrumWeights(int(estimate.is_encoded), *planes, *addresses)

    def _layers(self, estimate: EstimateForm, _outside: int) -> list[tuple[Array, Array]]:
        return estimate.layers

    def __call__(self, photo: Singles) -> Singles:
        """(1, 3, h, w) -> (1, B, h, w)."""
        photo = _rows_side_by_side(photo)
        out = empty(self._bands, *photo.shape[2:])
        scratch = scratch_memory(scratch_bytes(self._record))
        estimate_spectra(_planes(photo), self._record, features_of(out), scratch)
        return out


class CompiledSides(CompiledSpectra):
    """Both sides of the intervals, by a pixelwise network and the `DOUBTS` (B, 6) of each band."""

    def __init__(self, estimate: EstimateForm, doubts: Array) -> None:
        super().__init__(estimate)
        self._doubts = np.ascontiguousarray(doubts, np.float32)

    def _layers(self, estimate: EstimateForm, outside: int) -> list[tuple[Array, Array]]:
        """The last layer has the sides behind the estimate, each filled up to *outside*."""
        *layers, last = estimate.layers
        assert estimate.margins is not None  # noqa: S101 - only networks with margins come here
        sides = zip(*(np.split(each, 2) for each in estimate.margins), strict=True)
        weight = np.zeros((3, outside, last[0].shape[1]), np.float32)
        bias = np.zeros((3, outside), np.float32)
        for index, (own_weight, own_bias) in enumerate([last, *sides]):
            weight[index, : self._bands] = own_weight
            bias[index, : self._bands] = own_bias
        return [*layers, (weight.reshape(-1, weight.shape[2]), bias.ravel())]

    def write(self, spectra: Singles, sides: Singles) -> None:
        """Put both *sides* (2, B, h, w) of *spectra* (B, h, w); their pixels lie side by side."""
        if spectra.strides[2] != spectra.itemsize:
            spectra = np.ascontiguousarray(spectra)
        doubts = self._doubts.ctypes.data
        channel, row, _ = spectra.strides
        bands, height, width = spectra.shape
        estimates = Estimates(spectra.ctypes.data, channel, row, bands, height, width, doubts)
        scratch = scratch_memory(scratch_bytes(self._record))
        out = PhotoPlanes(sides.ctypes.data, *sides.strides[1:3])
        write_sides(estimates, self._record, out, scratch)


def compiled_encoding(photo: Singles) -> Singles:
    """The linear light of a photo, (1, 3, h, w), encoded: what `encoded` gives, to rounding."""
    photo = _rows_side_by_side(photo)
    out = empty(*photo.shape[1:])
    encode_photo(_planes(photo), _BLACK.ctypes.data, features_of(out))
    return out


def compiled_decoding(codes: Singles) -> Singles:
    """Encoded spectra as reflectances, (1, B, h, w) whose pixels lie side by side: as `decoded`."""
    codes = side_by_side(codes)
    _, bands, height, width = codes.shape
    # Row by row with all bands: a distance from band to band that is a large power of two would
    # leave most of the cache unused.
    out = np.empty((height, bands, width), np.float32).transpose(1, 0, 2)[None]
    decode_spectra(features_of(codes), _BLACK.ctypes.data, _planes(out))
    return out


_BLACK = np.array([BLACK], np.float32)


def _limits(*of_start: float) -> Singles:
    """The numbers named `LIMITS`, the last of which are those of a start."""
    return np.array((BLACK, DARKEST, OFFSET, LIMIT, *of_start), np.float32)


def _rows_side_by_side(photo: Singles) -> Singles:
    return photo if photo.strides[3] == photo.itemsize else np.ascontiguousarray(photo)


def _planes(picture: Singles) -> PhotoPlanes:
    """(1, C, h, w), whose pixels lie side by side, as kernels take it."""
    return PhotoPlanes(picture.ctypes.data, picture.strides[1], picture.strides[2])
