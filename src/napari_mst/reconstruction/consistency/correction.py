"""The correction of the colours of a cube, from its top: what is moved, and what is said about it.

Letters: B bands, H rows, W columns.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.arrays import Floats, Singles
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.consistency.cells import (
    ColourCheck,
    each_block,
    row_blocks,
    srgb_codes,
)
from napari_mst.reconstruction.consistency.moving import move
from napari_mst.reconstruction.consistency.noise import removed_noise
from napari_mst.reconstruction.consistency.regions import move_regions
from napari_mst.watch import UNWATCHED, Watch


@dataclass(frozen=True, eq=False)
class Correction:
    """The result of a correction: *quality* (H, W) float32 and one sentence for the provenance.

    The quality is how far the colour of the uncorrected spectrum was from that of the photo: in
    8-bit codes of the channel that is furthest, 0 beyond a clipped one. *is_jpeg* says whether the
    photo has the blocks of a JPEG.
    """

    quality: Singles
    text: str
    is_jpeg: bool = False


def bytes_to_correct(height: int, width: int) -> int:
    """About the bytes that `correct_colours` takes, as measured for photos 1,000 to 10,000 wide."""
    return 4 * height * width + 30_000_000 + 18_000 * width


def correct_colours(
    data: Floats,
    photo: Photo,
    response: Floats,
    watch: Watch = UNWATCHED,
    *,
    least: float = 0.0,
) -> Correction:
    """Move the spectra in *data* (B, H, W), reflectances, to the cells of the *photo*'s colours.

    *data* is changed in place, block by block of rows; this needs `bytes_to_correct` besides the
    spectra. *response* (B, 3) takes reflectance to linear light as the photo shows it (see
    `colour.srgb_response`). *watch* hears the share that is done.

    *least* is for linear photos, whose codes are finer than any noise: cells are then that many
    8-bit codes wide to each side, and the spectra of a noisy photo stay as they are.

    Raises
    ------
    Cancelled
        As soon as *watch* says so.
    """
    comparison = ColourCheck(data, photo, response.astype(np.float32), least)
    quality = np.empty(photo.shape, dtype=np.float32)
    noise = removed_noise(comparison, watch)
    if noise is None:
        moved = _move_pixels(comparison, quality, watch)
        within = "half a code of 8 bits" if least else "half a code"
    elif least:
        _measure_only(comparison, quality, watch)
        moved = 0
        within = f"any distance, for {noise}"
    else:
        moved = move_regions(comparison, noise, quality, watch)
        within = str(noise)
    if photo.valid is not None:
        quality[~photo.valid] = np.nan
    share = moved / quality.size
    text = f"spectra moved to the colours of the photo within {within}: {share:.1%} of its pixels"
    return Correction(quality, text, noise is not None and noise.is_jpeg)


def _move_pixels(comparison: ColourCheck, quality: Singles, watch: Watch) -> int:
    """Move every spectrum of a clean photo to its cell, and fill *quality*; counts those moved."""

    def moved(rows: slice) -> int:
        rendered = comparison.rendered(rows)
        quality[rows] = comparison.cells.difference(srgb_codes(rendered), rows).distance
        return move(comparison, rows, rendered, comparison.cells.bounds(rows))

    return sum(each_block(moved, row_blocks(comparison.shape), watch))


def _measure_only(comparison: ColourCheck, quality: Singles, watch: Watch) -> None:
    """Fill *quality* and move nothing."""

    def measured(rows: slice) -> None:
        quality[rows] = comparison.difference(rows).distance

    each_block(measured, row_blocks(comparison.shape), watch)
