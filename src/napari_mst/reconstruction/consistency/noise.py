"""The noise of a photo, or its errors of JPEG: they decide how far its colours can be trusted.

A photo is noisy if the colours of its flat places were smoothed as much as their brightness. Of the
grain of a subject it is the brightness that is lost. Letters: C colours, n differences.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from napari_mst.reconstruction.consistency.cells import Floats
from napari_mst.reconstruction.consistency.comparison import Comparison
from napari_mst.reconstruction.consistency.jpeg import BLOCK, has_jpeg_grid
from napari_mst.watch import Watch

FEWEST = 200
"""Differences in flat places that tell noise: in fewer, the errors of a network look like it."""

_STRIPS = (4, 32)  # strips of BLOCK rows that are looked at, at least and at most
_SAMPLE = 1 << 15  # pixels in all strips, if so many strips are allowed
_FLAT = 20  # per cent of the neighbours, those that differ least in the estimate, that are flat

# Codes removed from the colours of a noisy photo, times their share of what was removed from the
# brightness. Measured (lab/training_log.md): from 0.9 in noisy photos, to 0.6 in clean ones.
_NOISY = 0.7

# A grey photo has no colours that tell its noise: so many codes removed from the brightness do, if
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


class FlatPlaces(NamedTuple):
    """Differences between neighbours in flat places (C, n), in 8-bit codes of a single pixel.

    *removed* is what the network took from the photo there, *shown* what the photo shows.
    """

    removed: Floats
    shown: Floats


def removed_noise(comparison: Comparison, watch: Watch) -> Noise | None:
    """The noise, or the errors of JPEG, that the network removed; None where there is neither."""
    flat = _flat_places(comparison, watch)
    if flat.removed.shape[1] < FEWEST:
        return None
    is_jpeg = has_jpeg_grid(comparison.cells)
    if not (is_jpeg or _is_noisy(flat)):
        return None
    red, green, blue = np.sqrt(np.square(flat.removed).mean(axis=1)).tolist()
    return Noise((red, green, blue), is_jpeg)


def _flat_places(comparison: Comparison, watch: Watch) -> FlatPlaces:
    """Differences between neighbours in a sample of strips, where neither is clipped.

    Flat is where neighbours differ least in the estimate, which noise does not decide. Differences
    are taken so that nothing is left of a colour that is merely wrong.
    """
    residuals, codes = [], []
    for rows in _strips(comparison.shape):
        watch.check()  # from a file, a strip takes a while
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
        return FlatPlaces(steps, photo)
    estimate = np.abs(steps + photo).max(axis=0)
    is_flat = estimate <= np.percentile(estimate, _FLAT)
    # The difference of two pixels has twice the variance of one.
    return FlatPlaces(steps[:, is_flat] / np.sqrt(2), photo[:, is_flat] / np.sqrt(2))


def _strips(shape: tuple[int, int]) -> list[slice]:
    """Strips of `BLOCK` rows, spread over a photo of *shape* (H, W)."""
    height, width = shape
    wanted = int(np.clip(_SAMPLE // (BLOCK * width), *_STRIPS))
    count = min(wanted, -(-height // BLOCK))
    blocks = np.linspace(0, (height - 1) // BLOCK, count).astype(int)
    return [slice(block * BLOCK, min((block + 1) * BLOCK, height)) for block in blocks]


def _is_noisy(flat: FlatPlaces) -> bool:
    """True if what was removed from *flat* places is noise.

    Noise is in the colours as much as in the brightness, in all their directions, and networks
    remove it from the colours first. Of texture they remove brightness rather, so that colours
    count less where more of that was removed. The noise of a grey photo is told by its size, and by
    how much of all that flat places show was removed.
    """
    colour, brightness = _deviations(flat.removed)
    is_in_colours = colour * min(1.0, colour / brightness) > _NOISY
    _, shown_brightness = _deviations(flat.shown)
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
