"""Networks that see one pixel at a time as compiled kernels, and the decoding of their spectra.

This module imports numba, so it is imported only where `native.can_run` says so.
Letters: B bands, h, w sides of a region.
"""

import torch
from torch import Tensor

from napari_mst.engine.forms.packing import (
    empty,
    features_of,
    filled,
    panels,
    scratch_memory,
    side_by_side,
    vector,
)
from napari_mst.engine.kernels.processor import LANES
from napari_mst.engine.kernels.spectra import (
    FEATURE_CHANNELS,
    Planes,
    SpectrumWeights,
    decode_spectra,
    estimate_spectra,
    scratch_bytes,
)
from napari_mst.networks.pixelwise import DARKEST, LIMIT, OFFSET, OnePixel, PixelwiseNetwork
from napari_mst.networks.refining import BLACK, decoded, encoded


class CompiledSpectra:
    """The spectra of a *network*, `encoded` if so asked: what torch gives, to rounding."""

    def __init__(self, network: OnePixel, is_encoded: bool = False) -> None:
        self._bands = network.out_bands
        width = filled(network.hyperparameters.width)
        outside = filled(self._bands)
        sizes = [FEATURE_CHANNELS, width, width, width, outside]
        # In the order of `SpectrumWeights`. They are kept: the record has only their addresses.
        self._weights = []
        for (weight, bias), before, after in zip(
            network.layers(), sizes[:-1], sizes[1:], strict=True
        ):
            self._weights += [panels(weight, after, before), vector(bias, after)]
        matrix, *numbers = network.start()
        self._weights.append(torch.stack([vector(column, outside) for column in matrix.T]))
        self._weights.append(_limits(*numbers))
        addresses = (weight.data_ptr() for weight in self._weights)
        planes = width // LANES, outside // LANES
        self._record = SpectrumWeights(int(is_encoded), *planes, *addresses)

    def __call__(self, photo: Tensor) -> Tensor:
        """(1, 3, h, w) -> (1, B, h, w)."""
        if photo.stride(3) != 1:
            photo = photo.contiguous()
        out = empty(self._bands, *photo.shape[2:])
        scratch = scratch_memory(scratch_bytes(self._record))
        estimate_spectra(_planes(photo), self._record, features_of(out), scratch)
        return out


class CompiledDecoding:
    """Encoded spectra as reflectances: what `decoded` gives, to rounding."""

    def __init__(self) -> None:
        self._limits = _limits()

    def __call__(self, codes: Tensor) -> Tensor:
        """(1, B, h, w) -> (1, B, h, w), whose pixels lie side by side."""
        codes = side_by_side(codes)
        _, bands, height, width = codes.shape
        planes = -(-bands // LANES)
        # Row by row with all bands: a distance from band to band that is a large power of two would
        # leave most of the cache unused.
        out = torch.empty(height, planes * LANES, width)
        whole = out.permute(1, 0, 2)[None]
        decode_spectra(features_of(codes), self._limits.data_ptr(), planes, _planes(whole))
        return whole[:, :bands]


def _limits(*of_start: float) -> Tensor:
    """The numbers named `LIMITS`; those of a start may be missing."""
    return torch.tensor((BLACK, DARKEST, OFFSET, LIMIT, *of_start))


def _planes(picture: Tensor) -> Planes:
    """(1, C, h, w), whose pixels lie side by side, as kernels take it."""
    number = picture.element_size()
    return Planes(picture.data_ptr(), number * picture.stride(1), number * picture.stride(2))


def largest_spectra_error() -> float:
    """The error of these kernels against torch on random pixels, by the largest value."""
    # The fork leaves the random numbers of the caller as they are.
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = PixelwiseNetwork(5, 12)
        photo = 1.2 * torch.rand(1, 3, 4, 15)
        codes = 1.1 * torch.rand(1, 5, 4, 15)
        pairs = [
            (CompiledSpectra(network, is_encoded=True)(photo), encoded(network(photo))),
            (CompiledDecoding()(codes), decoded(codes)),
        ]
        return max(float((ours - own).abs().max() / own.abs().max()) for ours, own in pairs)
