"""The compiled kernels compared with torch, before they are used for the first time."""

import torch
from torch import Tensor, nn

from napari_mst.base.arrays import Array
from napari_mst.engine.fast_paths.compiled_passes import (
    HALO,
    CompiledBlock,
    CompiledConvolution,
    CompiledSpectra,
    CompiledUpFusion,
    compiled_decoding,
    compiled_encoding,
    compiled_gram,
)
from napari_mst.engine.fast_paths.torch_forms import array, estimate_of, form_of
from napari_mst.networks.attention.spectral import SpectralAttentionBlock
from napari_mst.networks.mst_plus_plus import Concatenated
from napari_mst.networks.pixelwise import PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import decoded, encoded


def largest_error() -> float:
    """The error of the kernels against torch on small random features, by the largest value."""
    # The fork leaves the random numbers of the caller as they are.
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
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
        sides = (HALO,) * 4
        compiled_block = CompiledBlock(form_of(block.apply_mixing), array(mixing))
        fusion = CompiledUpFusion(form_of(up), form_of(Concatenated(fuse)))
        pairs: list[tuple[Array, Tensor]] = [
            (compiled_block(array(x), sides), block.apply_mixing(x, mixing.float())),
            (CompiledConvolution(form_of(half))(array(x), (1, 1, 1, 1)), half(x)),
            (fusion(array(x), array(skip)), fused),
            (compiled_gram(array(x)), block.input_gram(x)),
            (CompiledSpectra(estimate_of(network, True))(array(photo)), encoded(network(photo))),
            (compiled_encoding(array(photo)), encoded(photo)),
            (compiled_decoding(array(codes)), decoded(codes)),
        ]
        return max(_difference(ours, array(theirs)) for ours, theirs in pairs)


def _difference(ours: Array, theirs: Array) -> float:
    return float(abs(ours - theirs).max() / abs(theirs).max())
