"""The kernels use the vector unit of the processor as well as it can be used: nightly, by time."""

import numpy as np
import pytest
import torch

from lab.benchmarks.roofline import best, roofline
from napari_mst.engine.fast_paths import native

CPU = torch.device("cpu")
_CHANNELS = 64  # whose weights, and a few pixels of which, stay in the fastest cache
_TURNS = 20_000


@pytest.mark.slow
@pytest.mark.skipif(not native.is_ready(), reason="numba is missing, or has no kernels here")
def test_products_of_the_kernels_reach_nine_tenths_of_the_true_peak() -> None:
    from napari_mst.engine.kernels.caching import kernel
    from napari_mst.engine.kernels.packed_rows import PackedRow, row_bytes
    from napari_mst.engine.kernels.processor import LANES, PIXELS
    from napari_mst.engine.kernels.products import POINT, Layer, Target, multiply_row

    @kernel
    def multiply(source: PackedRow, layer: Layer, target: Target, width: int) -> None:
        for _ in range(_TURNS):
            multiply_row(source, POINT, layer, target, width)

    width, planes = 4 * PIXELS, _CHANNELS // LANES
    row = row_bytes(width, 1)
    weights, *rows = (
        np.zeros(size, np.float32) for size in (_CHANNELS**2, *[planes * row // 4] * 2)
    )
    first, second = (each.ctypes.data for each in rows)
    source, target = PackedRow(first, planes, row), Target(second, 4 * LANES, planes, 0, 0)
    layer = Layer(weights.ctypes.data, 0, 0)
    seconds = best(lambda: multiply(source, layer, target, width), CPU)
    rate = 2 * _CHANNELS**2 * width * _TURNS / seconds
    assert rate > 0.9 * roofline(CPU).single
