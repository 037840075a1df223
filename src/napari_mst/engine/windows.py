"""One spectral attention block applied to one region of an image, in the fastest form for its device."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from napari_mst.engine import native, onednn
from napari_mst.engine.regions import Region
from napari_mst.models.spectral_attention import HALO, SpectralAttentionBlock

Read = Callable[[Region], Tensor]
"""Features of a region, halo included: (1, C, h, w)."""

Window = Callable[[Read, Region], Tensor]
"""The output of a block on a region, halo included, from what reads its input: (1, C, h, w)."""


def window_function(block: SpectralAttentionBlock, mixing: Tensor, dtype: torch.dtype = torch.float32) -> Window:
    """*block* with its *mixing* matrix as a function of regions of its input, which are of *dtype*."""
    apply: native.Block | onednn.OneDnnBlock | None = None
    if native.is_available(block, dtype):
        apply = native.Block(block, mixing)
    elif onednn.is_available(block, dtype):
        apply = onednn.OneDnnBlock(block, mixing, dtype)
    own = block if apply is not None else _converted(block, dtype)

    def window(read: Read, region: Region) -> Tensor:
        reach = region.grown(HALO)
        features = read(reach)
        top, bottom, left, right = (
            HALO - more + less for more, less in zip(reach.missing, region.missing, strict=True)
        )
        if apply is not None:
            return apply(features, (top, bottom, left, right))
        height, width = features.shape[-2:]
        return own.apply_mixing(features, mixing)[..., top : height - bottom, left : width - right]

    return window


def gram(block: SpectralAttentionBlock, features: Tensor) -> Tensor:
    """The Gram matrix of (1, C, h, w) *features* that *block* needs: (1, C, C), float64."""
    is_native = isinstance(block.norm, nn.Identity) and native.can_run(features.device, features.dtype)
    return native.gram(features) if is_native else block.gram(features)


def _converted(block: SpectralAttentionBlock, dtype: torch.dtype) -> SpectralAttentionBlock:
    """*block* with weights of *dtype*, and without whatever is hooked to it."""
    if block.attention.to_v.weight.dtype == dtype:
        return block
    with torch.device("meta"):
        is_normalised = not isinstance(block.norm, nn.Identity)
        converted = SpectralAttentionBlock(block.attention.to_v.in_features, block.attention.heads, is_normalised)
    converted.load_state_dict({name: weight.to(dtype) for name, weight in block.state_dict().items()}, assign=True)
    return converted
