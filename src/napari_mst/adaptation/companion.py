"""From a cube and a coarse cube of the same view to a better cube.

Every pixel of the coarse cube is the mean of a block of fine ones. It is taken as a known spectrum
of that block; then what the means of the result are still off is spread between the centres of the
blocks, so that it agrees with the coarse cube. Letters: B bands, H rows, W columns of the fine
cube; h, w of the coarse one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation import adapting
from napari_mst.adaptation.blocks import Blocks, BlockSums, best_shift, blocks_of, spread_between
from napari_mst.adaptation.colours import moved_to_photo, photo_of, view_of
from napari_mst.adaptation.kernel import Doubles
from napari_mst.adaptation.known import BRIGHTEST, at_wavelengths
from napari_mst.adaptation.parts import row_strips, spread
from napari_mst.adaptation.process import corrected, errors_of
from napari_mst.colour import render_srgb
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeError
from napari_mst.photo.photo import PhotoLike, as_photo
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import Watch, Watched, watching

_SHAPE = 0.1  # share by which the pixels of the coarse cube may be longer than wide
_FEWEST_SHARED = 0.5  # share of the bands of the fine cube that the coarse one has to cover
_ROUNDS = 2  # of what the means are still off: logarithms of means are no means of logarithms


def adapt_to_cube(
    cube: SpectralCube,
    photo: PhotoLike,
    coarse: SpectralCube,
    watch: Watched = None,
) -> SpectralCube:
    """*cube*, corrected everywhere by a *coarse* cube of the same view (float32).

    The pixels of the coarse cube are means of blocks of the view, which may be off by some fine
    pixels: the shift is found by comparing colours. Wavelengths may differ.

    Raises
    ------
    CubeError
        If one is no reflectance, has no wavelengths in nm, or the coarse one is larger, of another
        view by its shape, shares too few wavelengths, or has no numbers.
    PhotoError
        If the photo is another one, by its size or its colours.
    Cancelled
        Soon after *watch* was cancelled; *cube* is as it was.

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
    >>> better = nm.adapt_to_cube(cube, photo, coarse)
    >>> better.provenance.calibration
    'calibrated by a coarse cube of 8 x 8 pixels'
    """
    adapting.check_cube(cube)
    source = photo_of(cube, as_photo(photo))
    watch = watching(watch)
    companion = _companion(cube, coarse, watch.part(0, 0.1))
    known = companion.is_known.ravel()
    truth, estimate = (_as_spectra(each)[known] for each in (companion.truth, companion.estimate))
    centres = companion.blocks.centres()[known]
    spots = adapting.spots_at(cube, centres, truth, estimate, np.zeros(len(centres)))
    adaptation, process = adapting.learnt_from(cube, spots, _in_words(companion))
    data = spread(cube, process, watch.part(0.1, 0.5))
    for number in range(_ROUNDS):
        _agree(data, companion, watch.part(0.5 + 0.1 * number, 0.6 + 0.1 * number))
    text = moved_to_photo(data, view_of(cube, source), watch.part(0.7, 1))
    return adapting.with_history(cube, data, adaptation, text)


@dataclass(frozen=True, eq=False)
class _Companion:
    """The coarse cube at the bands of the fine one (B, h, w), its blocks, and their estimates."""

    truth: Doubles
    blocks: Blocks
    estimate: Doubles
    shift: tuple[float, float]

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """The mask (h, w) of the blocks where both have numbers."""
        return np.asarray(
            np.isfinite(self.estimate).all(axis=0) & np.isfinite(self.truth).any(axis=0)
        )


def _companion(cube: SpectralCube, coarse: SpectralCube, watch: Watch) -> _Companion:
    _check(cube, coarse)
    truth = _at_bands(coarse, cube.wavelengths)
    light = np.empty((3, *cube.shape[1:]), dtype=np.float32)
    for rows in row_strips(cube.shape[1:], 0):
        watch.reach(rows.start / cube.shape[1])
        light[:, rows] = render_srgb(np.asarray(cube.data[:, rows]), cube.wavelengths)
    filled = np.moveaxis(adapting.without_gaps(_as_spectra(truth)), -1, 0)
    shift = best_shift(light, render_srgb(filled.reshape(truth.shape), cube.wavelengths))
    blocks = blocks_of(cube.shape[1:], truth.shape[1:], shift)
    return _Companion(truth, blocks, _block_means(cube.data, blocks, watch), shift)


def _block_means(data: Any, blocks: Blocks, watch: Watch) -> Doubles:
    """The means (B, h, w) of *data* (B, H, W) over *blocks*."""
    sums = BlockSums(blocks, len(data))
    for rows in row_strips(blocks.shape, 0):
        watch.check()
        sums.add(rows, np.asarray(data[:, rows]))
    return sums.means()


def _in_words(companion: _Companion) -> str:
    rows, columns = companion.blocks.count
    down, right = companion.shift
    size = f"a coarse cube of {rows} x {columns} pixels"
    if not (down or right):
        return size
    return f"{size}, moved by {down:g} rows and {right:g} columns"


def _agree(data: NDArray[np.float32], companion: _Companion, watch: Watch) -> None:
    """Move *data* (B, H, W), in place, so that its blocks come closer to the coarse cube."""
    errors = errors_of(companion.truth, _block_means(data, companion.blocks, watch))
    left = np.nan_to_num(np.where(companion.is_known, errors, np.nan))
    height, width = companion.blocks.shape
    for rows in row_strips((height, width), 0):
        watch.reach(rows.start / height)
        data[:, rows] = corrected(data[:, rows], spread_between(left, companion.blocks, rows))


def _check(cube: SpectralCube, coarse: SpectralCube) -> None:
    """Refuse a coarse cube that cannot be of the view of *cube*. Raises `CubeError`."""
    adapting.check_reflectance(coarse)
    fine, few = cube.shape[1:], coarse.shape[1:]
    sizes = f"{few[0]} x {few[1]} for {fine[0]} x {fine[1]} pixels"
    if few[0] > fine[0] or few[1] > fine[1]:
        raise CubeError(
            f"Expected a coarse cube with fewer pixels than the photo, got {sizes}. "
            "Exchange the two, or average it down."
        )
    tall, wide = fine[0] / few[0], fine[1] / few[1]
    most = max(tall, wide)
    # one pixel more or less is rounding, as of an odd number of rows
    if abs(tall - wide) > max(_SHAPE * most, most / min(few)):
        raise CubeError(
            f"Expected a coarse cube of the same view, got {sizes}: its pixels would be {tall:.3g} "
            f"rows by {wide:.3g} columns. Cut both to the same part."
        )
    finite = coarse.data[np.isfinite(coarse.data)]
    if not finite.size:
        raise CubeError("Expected numbers in the coarse cube, got none. Choose another one.")
    if finite.min() < 0 or finite.max() > BRIGHTEST or not finite.max() > 0:
        raise CubeError(
            "Expected reflectance of about 0 to 1 in the coarse cube, got "
            f"{finite.min():.4g} to {finite.max():.4g}. Divide it by its white reference."
        )


def _at_bands(coarse: SpectralCube, wavelengths: Doubles) -> Doubles:
    """The numbers of *coarse* at *wavelengths* (B, h, w), NaN in bands that it does not have."""
    units = np.eye(len(coarse.wavelengths))
    columns = [at_wavelengths(Spectrum(coarse.wavelengths, unit), wavelengths) for unit in units]
    matrix = np.stack(columns, axis=1)
    has_band = np.isfinite(matrix).all(axis=1)
    if has_band.sum() < _FEWEST_SHARED * len(wavelengths):
        low, high = coarse.wavelengths.min(), coarse.wavelengths.max()
        raise CubeError(
            f"Expected a coarse cube that covers half of the {len(wavelengths)} bands, got "
            f"{has_band.sum()} within {low:g}-{high:g} nm. Choose another one."
        )
    values = np.tensordot(np.nan_to_num(matrix), coarse.data.astype(np.float64), axes=1)
    values[~has_band] = np.nan
    return np.asarray(values)


def _as_spectra(planes: Doubles) -> Doubles:
    """(B, h, w) as (h w, B)."""
    return planes.reshape(len(planes), -1).T
