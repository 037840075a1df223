"""Refines a cube by a coarse cube of the same view.

Every pixel of the coarse cube is the mean of a block of fine pixels and serves as a reference
spectrum of that block. The remaining error of the means is then interpolated between the centres of
the blocks, until the result agrees with the coarse cube. A pixel that a block covers partly counts
by that part. Letters: B bands, C channels, H rows, W columns of the fine cube; h, w of the coarse
cube; k rows of a strip.
"""

import math
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from napari_mst.base.arrays import Doubles, Floats, Singles
from napari_mst.base.errors import CubeError
from napari_mst.base.progress import NO_PROGRESS, Progress, ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import interpolation, render_srgb
from napari_mst.photo.photo import PhotoLike, as_photo
from napari_mst.photo.values import sums_between
from napari_mst.reconstruction.colour_fidelity.code_cells import row_blocks
from napari_mst.references import refining
from napari_mst.references.colour_views import moved_to_photo, photo_of, spread, view_of
from napari_mst.references.process import corrected, errors_of, without_gaps
from napari_mst.references.reference_spectrum import check_values, to_bands

_SHAPE = 0.1  # share by which the pixels of the coarse cube may deviate from squares
_FEWEST_SHARED = 0.5  # share of the fine cube's bands that the coarse cube must cover
_ROUNDS = 2  # of correction, since the logarithm of a mean is not the mean of logarithms
_FARTHEST = 6
"""Largest shift of a coarse cube in fine pixels, in each direction."""
_HALVES = (-0.5, 0.0, 0.5)  # pixels, tried around the best whole shift
_DARKEST = 0.01  # linear light, added before the logarithm


Edges = tuple[Doubles, Doubles]
"""Edges of blocks in pixels of the fine image: rows (h + 1,) and columns (w + 1,)."""


def refine_with_cube(
    cube: SpectralCube,
    photo: PhotoLike,
    coarse: SpectralCube,
    progress: ProgressLike = None,
) -> SpectralCube:
    """Correct *cube* everywhere by a *coarse* cube of the same view (float32).

    The pixels of the coarse cube are means of blocks of the view. The view may be shifted by some
    fine pixels; the shift is found by comparing colours. Wavelengths may differ.

    Raises
    ------
    CubeError
        If one of the cubes is not reflectance or has no wavelengths in nm; or if the coarse cube is
        larger, has the shape of another view, shares too few wavelengths, or has no finite values.
    PhotoError
        If the photo is not the photo of the cube, judging by its size or its colours.
    Cancelled
        Soon after *progress* was cancelled; *cube* is unchanged.

    Notes
    -----
    ============  ==================================================================
    cube, coarse  reflectance, 0 to about 1; wavelengths in nm
    photo         a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    returns       float32 reflectance, 0 or more
    ============  ==================================================================

    Examples
    --------
    >>> colours = np.random.default_rng(0).integers(60, 200, (8, 8, 3), np.uint8)
    >>> photo = colours.repeat(4, axis=0).repeat(4, axis=1)
    >>> cube = nm.Reconstructor(nm.load_model("pixelwise-srgb")).reconstruct(photo)
    >>> means = cube.data.reshape(31, 8, 4, 8, 4).mean((2, 4))
    >>> coarse = nm.SpectralCube(0.9 * means, cube.wavelengths)
    >>> better = nm.refine_with_cube(cube, photo, coarse)
    >>> better.provenance.calibration
    'calibrated by a coarse cube of 8 x 8 pixels'
    """
    refining.check_cube(cube)
    source = photo_of(cube, as_photo(photo))
    progress = as_progress(progress)
    truth, edges, source_text = _placed(cube, coarse, progress.part(0, 0.1))
    estimate = block_means(cube.data, edges, progress)
    is_known = np.isfinite(estimate).all(axis=0) & np.isfinite(truth).any(axis=0)
    chosen = is_known.ravel()
    at = centres(edges)[chosen]
    spectra = _as_spectra(truth)[chosen], _as_spectra(estimate)[chosen]
    spots = refining.spots_at(cube, at, *spectra, np.zeros(len(at)))
    refinement, process = refining.learnt_from(cube, spots, source_text)
    data = spread(cube, process, progress.part(0.1, 0.5))
    truth = np.where(is_known, truth, np.nan)
    for number in range(_ROUNDS):
        _agree(data, truth, edges, progress.part(0.5 + 0.1 * number, 0.6 + 0.1 * number))
    text = moved_to_photo(data, view_of(cube, source), progress.part(0.7, 1))
    return refining.with_history(cube, data, refinement, text)


def _placed(
    cube: SpectralCube, coarse: SpectralCube, progress: Progress
) -> tuple[Doubles, Edges, str]:
    """Return the *coarse* cube at the bands of *cube* (B, h, w), its pixel edges, and a title."""
    _check(cube, coarse)
    truth = _at_bands(coarse, cube.wavelengths)
    light = np.empty((3, *cube.shape[1:]), dtype=np.float32)
    for rows in row_blocks(cube.shape[1:]):
        progress.reach(rows.start / cube.shape[1])
        light[:, rows] = render_srgb(np.asarray(cube.data[:, rows]), cube.wavelengths)
    filled = np.moveaxis(without_gaps(_as_spectra(truth)), -1, 0)
    shift = best_shift(light, render_srgb(filled.reshape(truth.shape), cube.wavelengths))
    _, height, width = truth.shape
    title = f"a coarse cube of {height} x {width} pixels"
    if any(shift):
        title += f", moved by {shift[0]:g} rows and {shift[1]:g} columns"
    return truth, edges_of(cube.shape[1:], (height, width), shift), title


def _agree(data: Singles, truth: Doubles, edges: Edges, progress: Progress) -> None:
    """Change *data* (B, H, W), in place, so that its block means approach *truth* (B, h, w)."""
    left = np.nan_to_num(errors_of(truth, block_means(data, edges, progress)))
    _, height, width = data.shape
    for rows in row_blocks((height, width)):
        progress.reach(rows.start / height)
        data[:, rows] = corrected(data[:, rows], spread_between(left, edges, rows, width))


def _check(cube: SpectralCube, coarse: SpectralCube) -> None:
    """Raise `CubeError` if the coarse cube cannot show the view of *cube*."""
    refining.check_reflectance(coarse)
    fine, few = cube.shape[1:], coarse.shape[1:]
    sizes = f"{few[0]} x {few[1]} for {fine[0]} x {fine[1]} pixels"
    if few[0] > fine[0] or few[1] > fine[1]:
        raise CubeError(
            f"Expected a coarse cube with fewer pixels than the photo, got {sizes}. "
            "Exchange the two, or average it down."
        )
    tall, wide = fine[0] / few[0], fine[1] / few[1]
    most = max(tall, wide)
    # A difference of one pixel is rounding, for example of an odd number of rows.
    if abs(tall - wide) > max(_SHAPE * most, most / min(few)):
        raise CubeError(
            f"Expected a coarse cube of the same view, got {sizes}: its pixels would be {tall:.3g} "
            f"rows by {wide:.3g} columns. Cut both to the same part."
        )
    check_values(coarse.data, "in the coarse cube", CubeError)


def _at_bands(coarse: SpectralCube, wavelengths: Doubles) -> Doubles:
    """Return *coarse* at *wavelengths* (B, h, w), NaN in bands that it lacks."""
    matrix = to_bands(coarse.wavelengths, wavelengths)
    has_interval = np.isfinite(matrix).all(axis=1)
    if has_interval.sum() < _FEWEST_SHARED * len(wavelengths):
        low, high = coarse.wavelengths.min(), coarse.wavelengths.max()
        raise CubeError(
            f"Expected a coarse cube that covers half of the {len(wavelengths)} bands, got "
            f"{has_interval.sum()} within {low:g}-{high:g} nm. Choose another one."
        )
    values = np.tensordot(np.nan_to_num(matrix), coarse.data.astype(np.float64), axes=1)
    values[~has_interval] = np.nan
    return values


def _as_spectra(planes: Doubles) -> Doubles:
    """Reshape (B, h, w) to (h w, B)."""
    return planes.reshape(len(planes), -1).T


def edges_of(shape: tuple[int, int], count: tuple[int, int], shift: tuple[float, float]) -> Edges:
    """Return the edges of *count* (h, w) blocks over an image (H, W), shifted and clipped."""
    rows, columns = (
        np.clip(np.linspace(0, length, number + 1) + by, 0, length)
        for length, number, by in zip(shape, count, shift, strict=True)
    )
    return rows, columns


def centres(edges: Edges) -> Doubles:
    """Return row and column of the centre of every block (h w, 2), in fine pixels."""
    grid = np.meshgrid(*map(_middles, edges), indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def block_means(data: Any, edges: Edges, progress: Progress = NO_PROGRESS) -> Doubles:
    """Return the means (C, h, w) of *data* (C, H, W) over the finite pixels of each block.

    Pixels with NaN in any channel are skipped. Blocks without finite pixels are NaN.
    """
    rows_of, columns_of = edges
    sums = []
    for top, bottom in pairwise(rows_of):
        progress.check()
        at = np.arange(math.floor(top), math.ceil(bottom))
        share = (np.minimum(at + 1, bottom) - np.maximum(at, top))[:, None]
        values = np.asarray(data[:, at[0] : at[-1] + 1] if at.size else data[:, :0])
        is_known = np.isfinite(values).all(axis=0)
        sums.append(sums_between(np.where(is_known, values, 0), share * is_known, columns_of))
    *totals, area = np.stack(sums, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(area > 0, np.divide(totals, area), np.nan)


def spread_between(values: Doubles, edges: Edges, rows: slice, width: int) -> Doubles:
    """Interpolate *values* (B, h, w) linearly between block centres at all pixels of *rows*."""
    down = interpolation(np.arange(float(rows.start), rows.stop) + 0.5, _middles(edges[0]))
    across = interpolation(np.arange(float(width)) + 0.5, _middles(edges[1]))
    along_rows = np.tensordot(down, values, axes=(1, 1))
    return np.moveaxis(along_rows @ across.T, 0, 1)


def _middles(edges: Doubles) -> Doubles:
    return np.add(edges[1:], edges[:-1]) / 2


def best_shift(light: Floats, coarse_light: Floats) -> tuple[float, float]:
    """Find the shift (rows, columns) at which *light* (3, H, W) best matches *coarse_light*.

    Both are linear; a gain between them does not matter. All whole shifts are tried, then half
    shifts around the best.
    """
    # Sums over all pixels above and to the left; unknown pixels count as dark.
    sums = np.nan_to_num(light.astype(np.float64)).cumsum(axis=1).cumsum(axis=2)
    totals = np.pad(sums, ((0, 0), (1, 0), (1, 0)))
    logs = np.log(np.maximum(coarse_light, 0) + _DARKEST)

    difference = partial(_difference, totals, logs)
    whole = [float(shift) for shift in range(-_FARTHEST, _FARTHEST + 1)]
    first = min(product(whole, whole), key=difference)
    around = [(first[0] + down, first[1] + right) for down, right in product(_HALVES, _HALVES)]
    return min([first, *around], key=difference)


def _difference(totals: Doubles, logs: Doubles, shift: tuple[float, float]) -> float:
    """Return the mean difference of the logarithms after removing their common offset."""
    # Imported late, since the docks import this module and must open quickly.
    from scipy.ndimage import map_coordinates

    _, height, width = totals.shape
    rows_of, columns_of = edges_of((height - 1, width - 1), logs.shape[1:], shift)
    at = np.meshgrid(rows_of, columns_of, indexing="ij")
    corners = np.stack([map_coordinates(total, at, order=1) for total in totals])
    sums = np.diff(np.diff(corners, axis=1))
    area = np.outer(np.diff(rows_of), np.diff(columns_of))
    is_whole = area > 0.5 * area.max()
    means = sums[:, is_whole] / area[is_whole]
    differences = np.log(np.maximum(means, 0) + _DARKEST) - logs[:, is_whole]
    centred = differences - np.nanmedian(differences, axis=1, keepdims=True)
    return float(np.nanmean(np.abs(centred)))
