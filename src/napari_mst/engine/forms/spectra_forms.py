"""The pixelwise network on a CPU as compiled kernels, and the decoding of its spectra.

This module imports numba, so it is imported only where `native.can_run` says so.
Letters: B bands, h, w sides of a region.
"""

import torch
from torch import Tensor, nn

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
from napari_mst.networks.pixelwise import DARKEST, LIMIT, OFFSET, PixelwiseNetwork
from napari_mst.networks.refining import BLACK, decoded, encoded

_LIMITS = (DARKEST, OFFSET, LIMIT, BLACK)


class CompiledSpectra:
    """The `encoded` spectra of a pixelwise *network*: what torch gives, to rounding."""

    def __init__(self, network: PixelwiseNetwork) -> None:
        self._bands = network.hyperparameters.out_bands
        width = filled(network.hyperparameters.width)
        outside = filled(self._bands)
        layers = [layer for layer in network.hidden if isinstance(layer, nn.Linear)]
        inside = [FEATURE_CHANNELS, width, width, width]
        # In the order of `SpectrumWeights`. They are kept: the record has only their addresses.
        self._weights = []
        for layer, before in zip([*layers, network.estimate], inside, strict=True):
            after = outside if layer is network.estimate else width
            self._weights.append(panels(layer.weight, after, before))
            self._weights.append(vector(layer.bias, after))
        self._weights.append(torch.tensor(_LIMITS))
        addresses = (weight.data_ptr() for weight in self._weights)
        planes = width // LANES, outside // LANES
        self._record = SpectrumWeights(*planes, *addresses)

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
        self._limits = torch.tensor(_LIMITS)

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
            (CompiledSpectra(network)(photo), encoded(network(photo))),
            (CompiledDecoding()(codes), decoded(codes)),
        ]
        return max(float((ours - own).abs().max() / own.abs().max()) for ours, own in pairs)
