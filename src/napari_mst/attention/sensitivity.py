"""Sensitivity of one band of one pixel of the cube to every pixel of the photo.

The sensitivity is a gradient, computed by autograd on a crop. With the attention matrices of the
whole photo held fixed, the network is local: nothing beyond the reach of its convolutions can
change the pixel. The crop covers that reach, so within these limits the gradient is exact and
complete. Two effects are left out: every pixel changes the matrices, and through them the whole
cube; and the colour correction (see `colour_fidelity`) follows the network.

Letters: H, W sides of the padded photo; h, w of the crop.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.recorder import attentions
from napari_mst.base.arrays import Singles
from napari_mst.base.errors import AttentionError, shown
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.steps import photo_window
from napari_mst.engine.windows import Size, Window
from napari_mst.networks.network import Folded, Pass, Program, reflected_index


class Value(NamedTuple):
    """One value of a cube: a band of a pixel."""

    band: int
    row: int
    column: int


def sensitivity(
    program: Program,
    matrices: Folded,
    source: PhotoRows,
    at: Value,
    progress: Progress = NO_PROGRESS,
) -> Singles:
    """|d cube[band, row, column] / d photo|, over the channels of the photo, for the value *at*.

    *matrices* are the mixing matrices of the photo of *source*. Cancellation of *progress* is
    checked before each pass.

    Returns
    -------
    The map (h, w) of the crop within the photo that can matter; its first pixel is `corner`.
    """
    crop, row_of, column_of = _reached(program, at, (source.height, source.width))
    top, left = int(row_of.min()), int(column_of.min())
    pixels = source.rows(top, int(row_of.max()) + 1)[:, :, left : int(column_of.max()) + 1]
    device = next(iter(matrices.values())).device
    photo = torch.tensor(pixels, device=device, dtype=program.dtype, requires_grad=True)
    # Reflected as a run reflects the whole photo, so that the gradient passes through the padding.
    padded = photo[:, row_of - top][:, :, column_of - left][None]
    cube = program.whole(padded, matrices, partial(_watched, progress))
    value = cube[0, at.band, at.row - crop.top, at.column - crop.left]
    (gradient,) = torch.autograd.grad(value, photo)
    return gradient.norm(dim=0).float().cpu().numpy()


def mixing_matrices(program: Program, record: AttentionRecord) -> dict[str, Tensor]:
    """Return the mixing matrices of all blocks, from the attention in a *record*.

    `engine.run` obtains the same matrices by folding Gram matrices.
    """
    mixing = {}
    for name, block in attentions(program, between_pixels=False).items():
        if block.spec.parts is None:
            raise AttentionError(
                "Expected blocks of S-MSA, whose matrices can be held fixed, "
                f"got {shown(name)}, which is of another kind. Take another model."
            )
        attention = block.spec.parts.channel_attention
        recorded = torch.from_numpy(record[name].attention)[None]
        mixing[block.by.uses] = attention.mixing(recorded.to(attention.rescale))
    return mixing


def corner(program: Program, at: Value, shape: Size) -> Size:
    """Row and column of the first pixel of the photo on which the value *at* can depend."""
    _, row_of, column_of = _reached(program, at, shape)
    return int(row_of.min()), int(column_of.min())


def reach(program: Program, at: Value, shape: Size) -> Window:
    """The window of the padded photo on which the value *at* depends.

    It extends to whole multiples of the padding, so that the crop can run like a photo.
    """
    pixel = Window(at.row, at.row + 1, at.column, at.column + 1)
    sizes = program.sizes(*shape)
    return photo_window(program, pixel, sizes).aligned(program.multiple)


def _reached(program: Program, at: Value, shape: Size) -> tuple[Window, Tensor, Tensor]:
    """Return the `reach` of a value, and the rows and columns of the photo reflected into it."""
    window = reach(program, at, shape)
    row_of, column_of = (reflected_index(side, program.multiple) for side in shape)
    return window, row_of[window.rows], column_of[window.columns]


def _watched(
    progress: Progress, each: Pass, maps: Sequence[Tensor], folded: Mapping[str, Any]
) -> Tensor:
    """Check for cancellation, then compute the result of *each* pass."""
    progress.check()
    if not each.uses:
        return each.apply(maps, folded)
    # Recomputed for its gradient, so that a crop takes the memory of one pass instead of all.
    return checkpoint(each.local, *maps, folded[each.uses], use_reentrant=False)
