"""Features and weights as compiled kernels take them: addresses, strides and filled-up panels.

Letters: C channels, h, w sides of a region.
"""

import threading

import numpy as np

from napari_mst.base.arrays import Array, Singles
from napari_mst.engine.kernels.packed_rows import Features
from napari_mst.engine.kernels.processor import LANES, PANEL

_CACHE_LINE = 64
_memory = threading.local()


# Features


def side_by_side(features: Singles) -> Singles:
    """Return (1, C, h, w) *features* with channels side by side, uncopied if they already are."""
    if features.strides[1] == features.itemsize or features.shape[1] == 1:
        return features
    return np.ascontiguousarray(features.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def features_of(features: Singles) -> Features:
    """Describe (1, C, h, w) *features* for the kernels."""
    _, channels, height, width = features.shape
    return Features(
        address=features.ctypes.data,
        row=features.strides[2],
        pixel=features.strides[3],
        height=height,
        width=width,
        channels=channels,
    )


def empty(channels: int, height: int, width: int) -> Singles:
    """Uninitialised channels-last features, (1, C, h, w)."""
    return np.empty((1, height, width, channels), np.float32).transpose(0, 3, 1, 2)


def scratch_memory(size: int) -> int:
    """The address of at least *size* bytes, aligned to a cache line, private to this thread."""
    # Kernels run without Python's lock, so threads cannot share one buffer.
    if getattr(_memory, "size", 0) < size + _CACHE_LINE:
        _memory.size = size + _CACHE_LINE
        _memory.buffer = np.zeros(size + _CACHE_LINE, np.uint8)
        _memory.address = -(-_memory.buffer.ctypes.data // _CACHE_LINE) * _CACHE_LINE
    return int(_memory.address)


# Weights


def filled(channels: int) -> int:
    """*channels* rounded up to whole panels."""
    return -(-channels // PANEL) * PANEL


def panels(matrices: Array, outside: int, inside: int) -> Singles:
    """Pack *matrices* (..., out, in) in the order in which a product reads them.

    The result is (..., panels, in, PANEL), float32, padded to *outside* and *inside* channels.
    """
    *before, rows, columns = matrices.shape
    full = np.zeros((*before, outside, inside), np.float32)
    full[..., :rows, :columns] = matrices
    return np.ascontiguousarray(full.reshape(*before, -1, PANEL, inside).swapaxes(-1, -2))


def filters(weight: Array, channels: int) -> Singles:
    """Depthwise filters (C, 1, 3, 3) in the order in which they are read: (planes, 9, LANES)."""
    full = np.zeros((channels, 9), np.float32)
    full[: len(weight)] = weight.reshape(len(weight), 9)
    return np.ascontiguousarray(full.reshape(-1, LANES, 9).swapaxes(1, 2))


def vector(values: Array | tuple[()], length: int) -> Singles:
    """*values* padded with zeros to *length*, float32."""
    full = np.zeros(length, np.float32)
    full[: len(values)] = values
    return full
