"""Corrects the colours of a cube and describes the correction.

The cube of a clean photo is corrected pixel by pixel, the cube of a noisy photo region by region.

Letters: B bands, C colours, H rows, W columns; h, w rows and columns of regions.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.base.arrays import Doubles, Floats, Indices, Singles
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube.lazy import mapped
from napari_mst.photo.photo import Photo
from napari_mst.photo.raw import MAX_PIXELS
from napari_mst.reconstruction.colour_fidelity.code_cells import (
    Bounds,
    Cells,
    ColourCheck,
    each_block,
    linear_light,
    row_blocks,
    srgb_codes,
)
from napari_mst.reconstruction.colour_fidelity.moving import move
from napari_mst.reconstruction.colour_fidelity.photo_noise import Noise, removed_noise

REGION = 16
"""Side of a region in pixels: a JPEG block of colours at half the resolution."""
_KNOWN = 0.25  # share of unclipped pixels from which on a region shows its colour


@dataclass(frozen=True, eq=False)
class Correction:
    """The result of a correction: *colour_error* (H, W) float32 and a *text* for the provenance.

    The error is the distance between the colours of the uncorrected spectrum and of the photo, in
    8-bit codes of the worst channel; it is 0 beyond a clipped channel. *is_jpeg* is True if the
    photo has JPEG blocks.
    """

    colour_error: Singles
    text: str
    is_jpeg: bool = False


def bytes_to_correct(height: int, width: int) -> int:
    """Approximate memory of `correct_colours`, as measured on photos 160 to 10,000 pixels wide."""
    pixels = height * width
    of_blocks = 2_000_000 + min(60 * pixels, 5_000_000) + 18_000 * width
    return 4 * min(pixels, MAX_PIXELS) + of_blocks


def correct_colours(
    data: Floats,
    photo: Photo,
    response: Floats,
    progress: Progress = NO_PROGRESS,
    *,
    least: float = 0.0,
) -> Correction:
    """Move reflectance spectra in *data* (B, H, W) into the colour cells of *photo*.

    *data* is changed in place, by blocks of rows; this takes `bytes_to_correct` besides the
    spectra. *response* (B, 3) takes reflectance to the linear light of the photo (see
    `colour.srgb_response`). *progress* receives the share that is done.

    *least* is for linear photos, whose codes are finer than any noise. Cells then extend that many
    8-bit codes to each side, and the spectra of a noisy photo stay unchanged.

    Raises
    ------
    Cancelled
        As soon as *progress* is cancelled.
    """
    comparison = ColourCheck(data, photo, response.astype(np.float32), least)
    return corrected(comparison, removed_noise(comparison, progress), progress)


def corrected(
    comparison: ColourCheck, noise: Noise | None, progress: Progress = NO_PROGRESS
) -> Correction:
    """Apply `correct_colours` to a photo, or a part of it, of known *noise*.

    A part must begin at a multiple of `REGION`. Its result equals that of the whole photo, except
    within `REGION` pixels of its edges.
    """
    photo = comparison.photo
    is_large = photo.shape[0] * photo.shape[1] > MAX_PIXELS
    colour_error = (mapped if is_large else np.empty)(photo.shape, np.float32)
    if noise is None:
        moved = _move_pixels(comparison, colour_error, progress)
    elif comparison.least:
        _measure_only(comparison, colour_error, progress)
        moved = 0
    else:
        moved = _move_regions(comparison, noise, colour_error, progress)
    if photo.valid is not None:
        colour_error[~photo.valid] = np.nan
    text = f"{aim(comparison, noise)}: {moved / colour_error.size:.1%} of its pixels"
    return Correction(colour_error, text, noise is not None and noise.is_jpeg)


def aim(comparison: ColourCheck, noise: Noise | None) -> str:
    """Describe for the provenance how close to the colours of its photo a cube is brought."""
    within = str(noise)
    if noise is None:
        within = "half a code of 8 bits" if comparison.least else "half a code"
    elif comparison.least:
        within = f"any distance, for {noise}"
    return f"spectra moved to the colours of the photo within {within}"


def _move_pixels(comparison: ColourCheck, colour_error: Singles, progress: Progress) -> int:
    """Move every spectrum of a clean photo into its cell and fill *colour_error*; counts moves."""

    def moved(rows: slice) -> int:
        rendered = comparison.rendered(rows)
        colour_error[rows] = comparison.cells.difference(srgb_codes(rendered), rows).distance
        return move(comparison, rows, rendered, comparison.cells.bounds(rows))

    return sum(each_block(moved, row_blocks(comparison.shape), progress))


def _measure_only(comparison: ColourCheck, colour_error: Singles, progress: Progress) -> None:
    """Fill *colour_error* without moving any spectrum."""

    def measured(rows: slice) -> None:
        colour_error[rows] = comparison.difference(rows).distance

    each_block(measured, row_blocks(comparison.shape), progress)


def _move_regions(
    comparison: ColourCheck, noise: Noise, colour_error: Singles, progress: Progress
) -> int:
    """Move spectra that differ by more than the *noise* of a photo, and fill *colour_error*.

    Returns the approximate number of moved pixels.
    """
    height, width = comparison.shape
    strips = [slice(top, min(top + REGION, height)) for top in range(0, height, REGION)]
    pixel_cells = Cells(comparison.photo, noise.half)

    def compared(rows: slice) -> Doubles:
        rendered = comparison.rendered(rows)
        codes = srgb_codes(rendered)
        difference = comparison.cells.difference(codes, rows)
        colour_error[rows] = difference.distance
        return _region_sums(-difference.residual, codes)

    def moved(rows: slice) -> int:
        count = _move_by(comparison, rows, _between(gains, rows, width))
        if noise.is_jpeg:  # single pixels of a JPEG show nothing
            return count
        # Single pixels come after their region, which may have moved them close enough.
        singles = move(comparison, rows, comparison.rendered(rows), pixel_cells.bounds(rows))
        return max(count, singles)

    # Pixels lie between the centres of regions, so all gains must be known before any pixel moves.
    sums = each_block(compared, strips, progress.part(0, 0.5))
    gains = _gains(np.stack(sums, axis=1))
    return sum(each_block(moved, strips, progress.part(0.5, 1)))


def _move_by(comparison: ColourCheck, rows: slice, gain: Doubles) -> int:
    """Change the colours of *rows* by the relative *gain* (C, rows, W); returns the moved count."""
    if not gain.any():
        return 0
    rendered = comparison.rendered(rows)
    factor = ((1 + gain) / 255).astype(rendered.dtype)
    better = linear_light(factor * srgb_codes(rendered))
    target = rendered + better - rendered.clip(0, 1)  # light beyond 0 to 1 stays beyond
    return move(comparison, rows, rendered, Bounds(target, target))


def _region_sums(missing: Floats, codes: Floats) -> Doubles:
    """Return sums (1 + 3 C, w) over each region of a strip.

    The sums are the number of known pixels, *missing* x *codes*, *codes*^2 and *missing*^2.
    *missing* (C, rows, W) is the photo minus the estimate, NaN where unknown; *codes* is the
    estimate.
    """
    is_known = np.asarray(~np.isnan(missing).any(axis=0))
    missing = np.where(is_known, missing, 0).astype(np.float64)
    codes = np.where(is_known, codes, 0).astype(np.float64)
    products = [is_known[None], missing * codes, codes * codes, missing * missing]
    columns = np.concatenate(products).sum(axis=1)
    starts = np.arange(0, codes.shape[2], REGION)
    return np.add.reduceat(columns, starts, axis=1)


def _gains(sums: Doubles) -> Doubles:
    """Return the relative change (C, h, w) of the estimate, from all `_region_sums`.

    It is the least-squares gain that explains most of the missing light, times the Wiener factor:
    the explained part is signal plus noise, the rest is noise.
    """
    pixels = sums[0]
    products, squares, missing = np.split(sums[1:], 3)
    tiny = np.finfo(float).tiny
    gain = products / squares.clip(tiny)
    explained = (products * gain).sum(axis=0)
    noise = missing.sum(axis=0) - explained
    factor = (1 - noise / explained.clip(tiny)).clip(0)
    is_known = pixels >= _KNOWN * REGION**2
    return np.where(is_known, factor * gain, 0)


def _between(regions: Doubles, rows: slice, width: int) -> Doubles:
    """Interpolate *regions* (C, h, w) linearly between their centres, at every pixel of *rows*.

    Returns (C, rows, *width*).
    """
    across = np.arange(width)
    down = np.arange(rows.start, rows.stop)
    return _stretched(_stretched(regions, down, axis=1), across, axis=2)


def _stretched(regions: Doubles, pixels: Indices, axis: int) -> Doubles:
    """Interpolate *regions* along *axis* at *pixels* (n,), linearly between the centres."""
    last = regions.shape[axis] - 1
    places = ((pixels + 0.5) / REGION - 0.5).clip(0, last)
    before = places.astype(np.intp)
    start, stop = (regions.take(at, axis) for at in (before, np.minimum(before + 1, last)))
    share = places - before
    return start + (stop - start) * (share if axis == 2 else share[:, None])
