"""Passes of torch networks as the forms that compiled kernels know; their weights are shared.

A subclass may compute something else, of which the kernels know nothing: types are compared.
"""

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any, cast

from torch import Tensor, nn

from napari_mst.base.arrays import Array
from napari_mst.networks.attention.spectral import (
    FeedForward,
    SpectralAttention,
    SpectralAttentionBlock,
    gram,
)
from napari_mst.networks.camera import CameraNetwork
from napari_mst.networks.forms import (
    BlockForm,
    ConvolutionForm,
    DecodingForm,
    DoublingForm,
    EncodingForm,
    EstimateForm,
    Form,
    FusionForm,
    PixelwiseStart,
)
from napari_mst.networks.mst_plus_plus import Concatenated, Plus
from napari_mst.networks.network import Local
from napari_mst.networks.pixelwise import OnePixel, PixelwiseNetwork
from napari_mst.networks.refining_mst_plus_plus import RefiningMSTPlusPlus, decoded, encoded


def recognised(local: Local) -> tuple[type[Form], Callable[[], Form]] | None:
    """The kind of form of *local*, and its constructor; None if no kernel computes *local*.

    Its weights have to be float32 on the CPU.
    """
    if local is encoded:
        return EncodingForm, EncodingForm
    if local is decoded:
        return DecodingForm, DecodingForm
    if is_method(local, SpectralAttentionBlock.apply_mixing):
        block = owner(local)
        return (BlockForm, partial(_block, block)) if _is_plain(block) else None
    if is_method(local, RefiningMSTPlusPlus.first_spectra):
        local = cast("RefiningMSTPlusPlus", cast("MethodType", local).__self__).pixelwise
        return _estimate(local, is_encoded=True)
    if type(local) is nn.ConvTranspose2d:
        return (DoublingForm, partial(_of, DoublingForm, local)) if _doubles(local) else None
    if type(local) is Concatenated:
        # A fast path adds the bias of the doubling only.
        fuse = local.convolution
        return (FusionForm, partial(_of, FusionForm, fuse)) if fuse.bias is None else None
    convolution = local.convolution if type(local) is Plus else local
    if _is_convolution(convolution):
        return ConvolutionForm, partial(_of, ConvolutionForm, convolution)
    return _estimate(local)


def form_of(local: Local) -> Any:
    """The form of *local*, which `recognised` knows."""
    return cast("tuple[type[Form], Callable[[], Form]]", recognised(local))[1]()


def is_gram(statistic: Callable[..., Any]) -> bool:
    """True if *statistic* is the Gram matrix of the map itself."""
    # A LayerNorm before the attention makes it that of other features.
    is_of_input = is_method(statistic, SpectralAttentionBlock.input_gram)
    return statistic is gram or (is_of_input and not owner(statistic).has_norm)


def is_method(local: Any, method: Callable[..., Any]) -> bool:
    """True if *local* is *method* of some object."""
    return isinstance(local, MethodType) and local.__func__ is method


def owner(method: Callable[..., Any]) -> SpectralAttentionBlock:
    """The block that has this method."""
    return cast("SpectralAttentionBlock", cast("MethodType", method).__self__)


def array(values: Tensor) -> Array:
    """The numbers of a tensor on the CPU, which both share."""
    return values.detach().numpy()


def estimate_of(network: OnePixel, is_encoded: bool = False) -> EstimateForm:
    """The form of a *network* that sees one pixel at a time."""
    layers = [(array(weight), array(bias)) for weight, bias in network.layers()]
    matrix, *numbers = network.start()
    last: Any = getattr(network, "margins", None)
    margins = None if last is None else (array(last.weight), array(last.bias))
    start = PixelwiseStart(array(matrix), *numbers)
    return EstimateForm(layers, start, network.width, network.out_bands, is_encoded, margins)


def _estimate(
    network: Any, is_encoded: bool = False
) -> tuple[type[Form], Callable[[], Form]] | None:
    if type(network) not in (PixelwiseNetwork, CameraNetwork):
        return None
    return EstimateForm, partial(estimate_of, network, is_encoded)


def _is_plain(block: SpectralAttentionBlock) -> bool:
    return (
        type(block) is SpectralAttentionBlock
        and not block.has_norm
        and type(block.attention) is SpectralAttention
        and type(block.feed_forward) is FeedForward
    )


def _block(block: SpectralAttentionBlock) -> BlockForm:
    weights = {name: array(values) for name, values in block.named_parameters()}
    return BlockForm(weights, block.attention.heads, block.feed_forward.norm.eps)


def _is_convolution(local: Any) -> bool:
    """True for a 3x3 convolution, or a 4x4 one that halves, padded by one zero."""
    if type(local) is not nn.Conv2d or local.padding_mode != "zeros":
        return False
    shape = local.kernel_size, local.stride
    is_known = shape in (((3, 3), (1, 1)), ((4, 4), (2, 2)))
    is_plain = local.groups == 1 and local.dilation == (1, 1)
    return is_known and is_plain and local.padding == (1, 1)


def _doubles(up: nn.ConvTranspose2d) -> bool:
    is_two_by_two = up.kernel_size == up.stride == (2, 2)
    return is_two_by_two and up.padding == (0, 0) and up.groups == 1


def _of(kind: type[ConvolutionForm], convolution: Any) -> ConvolutionForm:
    bias = None if convolution.bias is None else array(convolution.bias)
    return kind(array(convolution.weight), bias)
