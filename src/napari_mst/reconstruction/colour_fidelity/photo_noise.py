"""The noise or JPEG errors of a photo, which decide how far its colours can be trusted.

A photo is noisy if the network smoothed the colours of its flat areas as much as their brightness.
Of the texture of a subject, the network loses mainly brightness.

A photo that was a JPEG is recognised by the grid of its 8 x 8 blocks: on that grid, many more
cosine coefficients are rounded to zero than on any other. Fan & de Queiroz, IEEE Trans. Image
Process. 12 (2003) 230, doi:10.1109/TIP.2002.807361, recognise JPEG by its blocks, too.

Letters: C colours, n differences.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.base.arrays import Floats, Singles
from napari_mst.base.progress import Progress
from napari_mst.denoising.sensor_noise import COSINES, SIDE
from napari_mst.reconstruction.colour_fidelity.code_cells import Cells, ColourCheck

BLOCK = SIDE
"""Side of a JPEG block in pixels."""

FEWEST = 200
"""Fewest differences in flat areas that show noise; in fewer, errors of the network look alike."""

_STRIPS = (4, 32)  # smallest and largest number of sampled strips of BLOCK rows
_SAMPLE = 1 << 15  # pixels in all strips, within the limits above
_FLAT = 20  # per cent of neighbours, those that differ least in the estimate, that count as flat

# Codes removed from the colours of a noisy photo, times their ratio to the codes removed from the
# brightness. Measured (lab/training_log.md): from 0.9 in noisy photos, up to 0.6 in clean ones.
_NOISY = 0.7

# The noise of a grey photo does not show in its colours. It shows if at least these codes were
# removed from the brightness, and they are this share of the brightness in flat areas.
_GREY = 5.0
_GREY_SHARE = 0.8

# Error of networks on clean photos, in codes: the mean is 0.3 (simulated) to 0.6 (CAVE).
_OWN_ERROR = 0.5

# Orthonormal directions of colour: brightness, and two directions without brightness.
_OPPONENT = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([[3], [2], [6]])


@dataclass(frozen=True)
class Noise:
    """The noise in flat areas of a photo: its standard *deviation* (C,), in 8-bit codes."""

    deviation: tuple[float, ...]
    is_jpeg: bool

    def __str__(self) -> str:
        red, green, blue = self.deviation
        name = "JPEG errors" if self.is_jpeg else "noise"
        return f"its {name} ({red:.1f}, {green:.1f} and {blue:.1f} codes)"

    @property
    def half(self) -> Floats:
        """Half the width (C,) of the cell of a single pixel, in 8-bit codes.

        Beyond this distance the photo is more likely right than the network. The threshold is the
        variance of Gaussian noise over the mean Laplacian error of the network: Moulin & Liu, IEEE
        Trans. Inf. Theory 45 (1999) 909, doi:10.1109/18.761332. JPEG errors are neither Gaussian
        nor independent, so no single pixel of a JPEG is trusted.
        """
        return np.full(3, np.inf) if self.is_jpeg else np.square(self.deviation) / _OWN_ERROR


def removed_noise(comparison: ColourCheck, progress: Progress) -> Noise | None:
    """Return the noise or JPEG errors that the network removed, or None."""
    removed, shown = _flat_places(comparison, progress)
    if removed.shape[1] < FEWEST:
        return None
    is_jpeg = has_jpeg_grid(comparison.cells)
    if not (is_jpeg or _is_noisy(removed, shown)):
        return None
    red, green, blue = np.sqrt(np.square(removed).mean(axis=1)).tolist()
    return Noise((red, green, blue), is_jpeg)


def _flat_places(comparison: ColourCheck, progress: Progress) -> tuple[Floats, Floats]:
    """Return differences (C, n) between neighbours in flat areas, in 8-bit codes per pixel.

    The first array holds what the network removed from the photo, the second what the photo shows,
    both from a sample of strips without clipping. Areas are flat where neighbours differ least in
    the estimate, which is independent of noise. Differences between neighbours cancel colours that
    are merely wrong.
    """
    residuals, codes = [], []
    for rows in _strips(comparison.shape):
        progress.check()  # a strip from a file takes a while
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
    # The difference of two pixels has twice the variance of one pixel.
    return steps[:, is_flat] / np.sqrt(2), photo[:, is_flat] / np.sqrt(2)


def _strips(shape: tuple[int, int]) -> list[slice]:
    """Return strips of `BLOCK` rows, spread over a photo of *shape* (H, W)."""
    height, width = shape
    number = int(np.clip(_SAMPLE // (BLOCK * width), *_STRIPS))
    count = min(number, -(-height // BLOCK))
    blocks = np.linspace(0, (height - 1) // BLOCK, count).astype(int)
    return [slice(block * BLOCK, min((block + 1) * BLOCK, height)) for block in blocks]


def _is_noisy(removed: Floats, shown: Floats) -> bool:
    """True if the differences *removed* from flat areas, of those *shown* there, are noise.

    Noise affects colours as much as brightness, in all directions, and networks remove it from the
    colours first. Of texture they mainly remove brightness, so colours count less if more
    brightness was removed. In a grey photo, noise is recognised by its size and by its share of the
    differences in flat areas.
    """
    colour, brightness = _deviations(removed)
    is_in_colours = colour * min(1.0, colour / brightness) > _NOISY
    _, shown_brightness = _deviations(shown)
    is_grey = brightness > max(_GREY, _GREY_SHARE * shown_brightness)
    return is_in_colours or is_grey


def _deviations(differences: Floats) -> tuple[float, float]:
    """Return the root mean squares of colour and of brightness in *differences* (C, n).

    Colour is measured in the direction in which it varies least.
    """
    square = _OPPONENT @ (differences @ differences.T / differences.shape[1]) @ _OPPONENT.T
    least = np.linalg.eigvalsh(square[1:, 1:])[0]
    tiny = np.finfo(np.float32).tiny  # a divisor, which must not be 0
    colour = float(np.sqrt(max(least, 0)))
    brightness = float(np.sqrt(max(square[0, 0], tiny)))
    return colour, brightness


# JPEG

_TILE = 2 * BLOCK  # side of a tile, which holds a whole block for every position of the grid
_TILES = 12  # sampled tiles along each side of the photo
_FEWEST_COEFFICIENTS = 200  # fewest nonzero coefficients in all tiles that can show a grid

# Nonzero coefficients on the JPEG grid, as a share of those on the next best grid. Measured
# (lab/training_log.md): at most 0.61 at qualities 50 and 75, else at least 0.97.
_ON_GRID = 0.8

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # JFIF 1.02


def has_jpeg_grid(cells: Cells) -> bool:
    """True if the photo was a JPEG: one grid leaves far fewer nonzero coefficients than the others.

    All 64 positions of the grid are tried, since a region may begin anywhere.
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
    """Return the brightness (n, _TILE, _TILE) of tiles from all over the photo, in 8-bit codes."""
    height, width = cells.shape
    lefts = _tile_starts(width)
    tiles = []
    for top in _tile_starts(height):
        codes = np.nan_to_num(cells.codes(slice(top, top + _TILE)))
        luma = np.tensordot(_LUMA, codes, axes=1)
        tiles += [luma[:, left : left + _TILE] for left in lefts]
    return np.stack(tiles)


def _tile_starts(size: int) -> list[int]:
    """Return the first pixels of tiles spread over *size* pixels, at multiples of `BLOCK`."""
    last = (size - _TILE) // BLOCK
    places = np.linspace(0, last, min(_TILES, last + 1))
    return sorted({int(place) * BLOCK for place in places})


def _cosines() -> Singles:
    """Return the orthonormal cosines of a block at every position in a tile, padded with zeros.

    The result is (BLOCK x BLOCK, _TILE): all cosines for the first position, then for the next.
    """
    places = [np.pad(COSINES, ((0, 0), (place, BLOCK - place))) for place in range(BLOCK)]
    return np.concatenate(places).astype(np.float32)
