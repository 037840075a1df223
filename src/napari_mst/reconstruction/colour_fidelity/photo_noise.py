"""The noise of a photo, or its errors of JPEG: they decide how far its colours can be trusted.

A photo is noisy if the colours of its flat places were smoothed as much as their brightness. Of the
grain of a subject it is the brightness that is lost.

A photo that was a JPEG is known by the grid of its blocks of 8 x 8 pixels: on it many more cosine
coefficients round to zero than on any other grid. Fan & de Queiroz, IEEE Trans. Image Process. 12
(2003) 230, doi:10.1109/TIP.2002.807361, recognise JPEG by its blocks, too.

Letters: C colours, n differences.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.base.arrays import Floats, Singles
from napari_mst.base.progress import Progress
from napari_mst.denoising.sensor_noise import COSINES, SIDE
from napari_mst.reconstruction.colour_fidelity.code_cells import Cells, ColourCheck

BLOCK = SIDE
"""Pixels along each side of a block of JPEG."""

FEWEST = 200
"""Differences in flat places that show noise: in fewer, the errors of a network look like it."""

_STRIPS = (4, 32)  # strips of BLOCK rows that are looked at, at least and at most
_SAMPLE = 1 << 15  # pixels in all strips, if that many strips are allowed
_FLAT = 20  # per cent of the neighbours, those that differ least in the estimate, that are flat

# Codes removed from the colours of a noisy photo, times their share of what was removed from the
# brightness. Measured (lab/training_log.md): from 0.9 in noisy photos, to 0.6 in clean ones.
_NOISY = 0.7

# A grey photo has no colours that show its noise: these codes removed from the brightness do, if
# they are this share of all that its flat places show.
_GREY = 5.0
_GREY_SHARE = 0.8

# Codes by which networks are off in clean photos: the mean is 0.3 (simulated) to 0.6 (CAVE).
_OWN_ERROR = 0.5

# Orthonormal directions of a colour: its brightness, and two that have no brightness.
_OPPONENT = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([[3], [2], [6]])


@dataclass(frozen=True)
class Noise:
    """The noise of flat places of a photo: its standard *deviation* (C,), in 8-bit codes."""

    deviation: tuple[float, ...]
    is_jpeg: bool

    def __str__(self) -> str:
        red, green, blue = self.deviation
        name = "JPEG errors" if self.is_jpeg else "noise"
        return f"its {name} ({red:.1f}, {green:.1f} and {blue:.1f} codes)"

    @property
    def half(self) -> Floats:
        """Half the width (C,) of the cell of a single pixel, in 8-bit codes.

        Beyond it the photo is right rather than the network. It is the threshold of the most likely
        value where the noise is Gaussian and the error of the network Laplacian: the variance of
        the one over the mean of the other. Errors of JPEG are neither, nor are they independent, so
        that no single pixel of a JPEG is believed. Moulin & Liu, IEEE Trans. Inf. Theory 45 (1999)
        909, doi:10.1109/18.761332.
        """
        return np.full(3, np.inf) if self.is_jpeg else np.square(self.deviation) / _OWN_ERROR


def removed_noise(comparison: ColourCheck, progress: Progress) -> Noise | None:
    """The noise, or the errors of JPEG, that the network removed; None where there is neither."""
    removed, shown = _flat_places(comparison, progress)
    if removed.shape[1] < FEWEST:
        return None
    is_jpeg = has_jpeg_grid(comparison.cells)
    if not (is_jpeg or _is_noisy(removed, shown)):
        return None
    red, green, blue = np.sqrt(np.square(removed).mean(axis=1)).tolist()
    return Noise((red, green, blue), is_jpeg)


def _flat_places(comparison: ColourCheck, progress: Progress) -> tuple[Floats, Floats]:
    """Differences between neighbours in flat places (C, n), in 8-bit codes of a single pixel.

    First what the network took from the photo there, then what the photo shows; in a sample of
    strips, where neither is clipped. Flat is where neighbours differ least in the estimate, which
    noise does not decide. Differences are taken so that nothing is left of a colour that is merely
    wrong.
    """
    residuals, codes = [], []
    for rows in _strips(comparison.shape):
        progress.check()  # from a file, a strip takes a while
        residual = comparison.difference(rows).residual
        shown = comparison.cells.codes(rows)
        for axis in (1, 2):
            residuals.append(np.diff(residual, axis=axis).reshape(3, -1))
            codes.append(np.diff(shown, axis=axis).reshape(3, -1))
    steps = np.concatenate(residuals, axis=1)
    photo = np.concatenate(codes, axis=1)
    is_known = ~np.isnan(steps).any(axis=0)
    steps = steps[:, is_known]
    photo = photo[:, is_known]
    if not steps.size:
        return steps, photo
    estimate = np.abs(steps + photo).max(axis=0)
    is_flat = estimate <= np.percentile(estimate, _FLAT)
    # The difference of two pixels has twice the variance of one.
    return steps[:, is_flat] / np.sqrt(2), photo[:, is_flat] / np.sqrt(2)


def _strips(shape: tuple[int, int]) -> list[slice]:
    """Strips of `BLOCK` rows, spread over a photo of *shape* (H, W)."""
    height, width = shape
    number = int(np.clip(_SAMPLE // (BLOCK * width), *_STRIPS))
    count = min(number, -(-height // BLOCK))
    blocks = np.linspace(0, (height - 1) // BLOCK, count).astype(int)
    return [slice(block * BLOCK, min((block + 1) * BLOCK, height)) for block in blocks]


def _is_noisy(removed: Floats, shown: Floats) -> bool:
    """True if what was *removed* from flat places is noise, of what they have *shown*.

    Noise is in the colours as much as in the brightness, in all their directions, and networks
    remove it from the colours first. Of texture they remove brightness rather, so that colours
    count less where more of that was removed. The noise of a grey photo shows by its size, and by
    how much of all that flat places show was removed.
    """
    colour, brightness = _deviations(removed)
    is_in_colours = colour * min(1.0, colour / brightness) > _NOISY
    _, shown_brightness = _deviations(shown)
    is_grey = brightness > max(_GREY, _GREY_SHARE * shown_brightness)
    return is_in_colours or is_grey


def _deviations(differences: Floats) -> tuple[float, float]:
    """Root mean squares of *differences* (C, n): of their colours, and of their brightness.

    That of the colours is taken in the direction in which they differ least.
    """
    square = _OPPONENT @ (differences @ differences.T / differences.shape[1]) @ _OPPONENT.T
    least = np.linalg.eigvalsh(square[1:, 1:])[0]
    tiny = np.finfo(np.float32).tiny  # a divisor, which must not be 0
    colour = float(np.sqrt(max(least, 0)))
    brightness = float(np.sqrt(max(square[0, 0], tiny)))
    return colour, brightness


# JPEG

_TILE = 2 * BLOCK  # a tile of this side holds one whole block for each place that the grid can have
_TILES = 12  # along each side of the photo, that are looked at
_FEWEST_COEFFICIENTS = 200  # in all tiles, from which on they show whether there is a grid

# Share of the coefficients that are left on the grid of JPEG, of those on the next best grid.
# Measured (lab/training_log.md): at most 0.61 at qualities 50 and 75, else at least 0.97.
_ON_GRID = 0.8

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # JFIF 1.02


def has_jpeg_grid(cells: Cells) -> bool:
    """True if the photo was a JPEG: one grid has far fewer coefficients left than the others.

    All 64 places are tried, since a region may begin anywhere.
    """
    if min(cells.shape) < _TILE:
        return False
    cosines = _cosines()
    coefficients = cosines @ _luma_tiles(cells) @ cosines.T
    # Axes: tile, row of the grid's place, row of the coefficient, and both again for columns.
    is_left = (np.abs(coefficients) >= 1).reshape(-1, BLOCK, BLOCK, BLOCK, BLOCK)
    is_left[:, :, 0, :, 0] = False  # the mean of a block shows nothing of its compression
    counts = is_left.sum(axis=(0, 2, 4)).ravel()
    fewest, next_fewest = np.partition(counts, 1)[:2]
    return bool(next_fewest >= _FEWEST_COEFFICIENTS and fewest < _ON_GRID * next_fewest)


def _luma_tiles(cells: Cells) -> Singles:
    """Brightness of tiles from all over the photo, (n, _TILE, _TILE), in 8-bit codes."""
    height, width = cells.shape
    lefts = _tile_starts(width)
    tiles = []
    for top in _tile_starts(height):
        codes = np.nan_to_num(cells.codes(slice(top, top + _TILE)))
        luma = np.tensordot(_LUMA, codes, axes=1)
        tiles += [luma[:, left : left + _TILE] for left in lefts]
    return np.stack(tiles)


def _tile_starts(size: int) -> list[int]:
    """First pixels of tiles all over *size* pixels; at one place of any grid of `BLOCK`."""
    last = (size - _TILE) // BLOCK
    places = np.linspace(0, last, min(_TILES, last + 1))
    return sorted({int(place) * BLOCK for place in places})


def _cosines() -> Singles:
    """The orthonormal cosines of a block, at each place that it can have in a tile.

    Returns (BLOCK x BLOCK, _TILE): for each place all cosines, each with zeros around it.
    """
    places = [np.pad(COSINES, ((0, 0), (place, BLOCK - place))) for place in range(BLOCK)]
    return np.concatenate(places).astype(np.float32)
