"""How much one band of one pixel of the cube depends on every pixel of the photo, by autograd on a crop.

With the attention matrices of the whole photo held fixed, the network is local: nothing further away than its
convolutions reach can change the pixel. The crop is that reach, so within these limits the gradient is exact and
complete. What is left out is how a pixel changes the matrices, and through them the whole cube; and the correction of
colours (see `consistency`), which follows the network.
Letters: H, W sides of the padded photo; h, w of the crop.
"""

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from napari_mst.attention_record import AttentionRecord
from napari_mst.engine.run import RowSource
from napari_mst.models.mst_plus_plus import MULTIPLE, MSTPlusPlus, reflected_index

_BLOCK = 3
"""Pixels that a spectral attention block reaches with its mixing matrix fixed."""


def sensitivity(
    network: MSTPlusPlus,
    record: AttentionRecord,
    rows: RowSource,
    height: int,
    width: int,
    at: tuple[int, int, int],
    device: torch.device,
    check: Callable[[], None] = lambda: None,
) -> tuple[NDArray[np.float32], tuple[int, int]]:
    """|d cube[band, row, column] / d photo|, over the channels of the photo, for *at* = (band, row, column).

    *rows* is the photo as the network expects it. *check* is called before each block, and may raise.

    Returns
    -------
    The (h, w) map of the crop that can matter, within the photo, and the (row, column) of its first pixel.
    """
    band, row, column = at
    padded_rows, padded_columns = reflected_index(height), reflected_index(width)
    stages = len(network.stages)
    down = slice(*reach(row, len(padded_rows), stages))
    across = slice(*reach(column, len(padded_columns), stages))
    row_of, column_of = padded_rows[down], padded_columns[across]
    top, left = int(row_of.min()), int(column_of.min())
    pixels = rows(top, int(row_of.max()) + 1)[:, :, left : int(column_of.max()) + 1]
    photo = torch.tensor(pixels, device=device, dtype=network.conv_in.weight.dtype, requires_grad=True)
    crop = photo[:, row_of - top][:, :, column_of - left][None]
    value = with_fixed_attention(network, record, check)(crop)[0, band, row - down.start, column - across.start]
    (gradient,) = torch.autograd.grad(value, photo)
    return gradient.norm(dim=0).float().cpu().numpy(), (top, left)


def reach(index: int, length: int, stages: int) -> tuple[int, int]:
    """[start, stop) of the pixels of an axis of *length* that the output at *index* depends on, out to whole eighths.

    Each U-shape goes down two levels and up again: its bottleneck sees furthest.
    """
    first = last = index
    first, last = first - 1, last + 1  # conv_out
    for _ in range(stages):
        for level in range(3):  # mapping, decoder and bottleneck, from the output backwards
            grown = _BLOCK + (level == 0)
            first, last = first - grown, last + grown
            if level < 2:
                first, last = first // 2, last // 2  # transposed convolution of 2 x 2
        for level in range(2):
            first, last = 2 * first - 1, 2 * last + 2  # convolution of 4 x 4, stride 2
            grown = _BLOCK + (level == 1)  # encoder; at the end the embedding
            first, last = first - grown, last + grown
    first, last = first - 1, last + 1  # conv_in
    start = max(first, 0) // MULTIPLE * MULTIPLE
    return start, min(-(-(last + 1) // MULTIPLE) * MULTIPLE, length)


def with_fixed_attention(
    network: MSTPlusPlus, record: AttentionRecord, check: Callable[[], None] = lambda: None
) -> MSTPlusPlus:
    """A copy of *network* whose blocks apply the matrices of *record* instead of those of what they see.

    Each block is computed again for its gradient, which keeps the memory of a crop to that of one block.
    """
    fixed = copy.deepcopy(network)
    for name, block in fixed.blocks():
        attention = torch.from_numpy(record[name].attention)[None].to(block.attention.rescale)
        apply = partial(block.apply_mixing, mixing=block.attention.mixing(attention))
        block.forward = partial(_checked, apply, check)  # type: ignore[method-assign]
    return fixed


def _checked(apply: Callable[[Tensor], Tensor], check: Callable[[], None], x: Tensor) -> Tensor:
    check()
    result: Tensor = checkpoint(apply, x, use_reentrant=False)
    return result
