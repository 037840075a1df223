"""Features and weights as compiled kernels take them: addresses, strides and filled-up panels.

This module imports numba, as the kernels do. Letters: C channels, h, w sides of a region.
"""

import threading

import torch
from torch import Tensor

from napari_mst.engine.kernels.packed_rows import Features
from napari_mst.engine.kernels.processor import LANES, PANEL

_FLOAT_BYTES = 4
_CACHE_LINE = 64
_memory = threading.local()


# Features


def side_by_side(features: Tensor) -> Tensor:
    """(1, C, h, w) whose channels lie side by side: the same where they do."""
    is_fitting = features.stride(1) == 1 or features.shape[1] == 1
    return features if is_fitting else features.contiguous(memory_format=torch.channels_last)


def features_of(features: Tensor) -> Features:
    """(1, C, h, w) as kernels take it."""
    _, channels, height, width = features.shape
    return Features(
        address=features.data_ptr(),
        row=_FLOAT_BYTES * features.stride(2),
        pixel=_FLOAT_BYTES * features.stride(3),
        height=height,
        width=width,
        channels=channels,
    )


def empty(channels: int, height: int, width: int) -> Tensor:
    """Room for dense channels-last features, (1, C, h, w)."""
    return torch.empty(1, height, width, channels).permute(0, 3, 1, 2)


def scratch_memory(size: int) -> int:
    """The address of *size* bytes or more, of whole cache lines, that only this thread uses."""
    # Kernels run without Python's lock, so threads cannot share one buffer.
    if getattr(_memory, "size", 0) < size + _CACHE_LINE:
        _memory.size = size + _CACHE_LINE
        _memory.buffer = torch.zeros(size + _CACHE_LINE, dtype=torch.uint8)
    return -(-_memory.buffer.data_ptr() // _CACHE_LINE) * _CACHE_LINE


# Weights


def filled(channels: int) -> int:
    """*channels* filled up to whole panels."""
    return -(-channels // PANEL) * PANEL


def panels(matrices: Tensor, outside: int, inside: int) -> Tensor:
    """Matrices (..., out, in) in the order in which a product reads them.

    It is (..., panels, in, PANEL), float32, with zeros up to *outside* and *inside* channels.
    """
    full = torch.zeros(*matrices.shape[:-2], outside, inside)
    full[..., : matrices.shape[-2], : matrices.shape[-1]] = matrices
    return full.unflatten(-2, (-1, PANEL)).mT.contiguous()


def filters(weight: Tensor, channels: int) -> Tensor:
    """Depthwise filters (C, 1, 3, 3) in the order in which they are read: (planes, 9, LANES)."""
    full = torch.zeros(channels, 9)
    full[: len(weight)] = weight.flatten(1)
    return full.unflatten(0, (-1, LANES)).mT.contiguous()


def vector(values: Tensor, length: int) -> Tensor:
    """*values* and zeros up to *length*, float32."""
    full = torch.zeros(length)
    full[: len(values)] = values
    return full
