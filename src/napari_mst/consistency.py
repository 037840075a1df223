"""Colour consistency: the spectra of a cube are moved until they show the colours of the photo, and no further.

A photo tells the colour of a pixel to within one code: a cell of half a code to each side. Spectra that a camera would
have given another code are moved, by the smallest change that does it, to the edge of the cell; those within it stay as
they are, so that rounding is not taken for colour (a dead band). Of a clipped channel only one side is known.

What the network has smoothed away as noise must not come back that way. So where the photo is noisy, or a JPEG, its
cells are as wide as two standard deviations of what was smoothed away. The grain of a subject is no noise and does come
back. Noise differs from channel to channel; grain and the errors of JPEG are much the same in all, and only JPEG has a
grid of 8 pixels. Letters: B bands, H rows, W columns, C colours.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_to_srgb, srgb_to_linear
from napari_mst.errors import raise_if_cancelled
from napari_mst.photo import Photo

HALF_CODE = 0.49
"""Half the width of a cell, in codes of the photo: a little less than a half, so that rounding gives the same code."""

_PIXELS = 1 << 14  # of a block: its spectra take 2 MB
_THREADS = 4
_STEPS = 8  # towards a cell: more than one only where a spectrum would become negative
_CLOSE = 1e-6  # in linear light
_HIGHEST = 1.25  # times a reflectance of 1, or the estimate where it is brighter: beyond it no surface has the colour

_BLOCK = 8
_STRIPS = 32  # of _BLOCK rows that are looked at for the noise
_FEWEST = 32  # blocks without clipped pixels that tell the noise of a photo
_FLAT = 5  # per cent of the blocks that are taken to show noise and nothing else
_NOISY = 0.8  # standard deviation in flat blocks, of photo and of what was removed, in 8-bit codes; rounding has 0.3
_CALM = 20  # per cent of the blocks in which it is asked whether the channels share what was removed
_SHARED = 0.25  # mean correlation of the channels up to which it is noise, and from which it is grain or JPEG
_MOST = 0.6  # share of what flat blocks show from which it is noise all the same
_JPEG_GRID = 1.12  # how much larger steps of the residual are across the borders of JPEG's blocks
_DEVIATIONS = 2.0


@dataclass(frozen=True, eq=False)
class Correction:
    """What was done: *quality* (H, W) float32 and one sentence for the provenance.

    The quality is how far the colour of the uncorrected spectrum was from that of the photo: in 8-bit codes of the
    channel that is furthest, 0 beyond a clipped one.
    """

    quality: NDArray[np.float32]
    text: str


def bytes_to_correct(height: int, width: int) -> int:
    """About the memory that `correct_colours` takes, as measured for photos 1,000 to 10,000 pixels wide."""
    return 4 * height * width + 30_000_000 + 14_000 * width


def correct_colours(
    data: NDArray[np.floating],
    photo: Photo,
    response: NDArray[np.floating],
    is_cancelled: Callable[[], bool] | None = None,
    progress: Callable[[float], None] | None = None,
    *,
    least: float = 0.0,
) -> Correction:
    """Move the spectra in *data* (B, H, W), reflectances, to the cells of the *photo*'s colours, in place.

    *response* (B, 3) takes reflectance to linear light as the photo shows it (see `colour.srgb_response`).
    It works block by block of rows and needs `bytes_to_correct` besides the spectra.
    *progress* is told the share that is done, 0-1. With *least*, for linear photos whose codes are finer than any
    noise, cells are so many 8-bit codes wide to each side, and the spectra of a noisy photo stay as they are.

    Raises
    ------
    Cancelled
        As soon as *is_cancelled* says so.
    """
    response = response.astype(np.float32)

    half, why = _half_widths(data, photo, response, least, is_cancelled)
    cells, quality = _Cells(photo, half), np.empty(photo.shape, dtype=np.float32)

    def correct(rows: slice) -> int:
        raise_if_cancelled(is_cancelled)
        return _correct_rows(data, quality, rows, cells, response)

    blocks, moved = list(_row_blocks(photo.shape)), 0
    with ThreadPoolExecutor(_THREADS) as threads:
        for done, count in enumerate(threads.map(correct, blocks), start=1):
            moved += count
            if progress is not None:
                progress(done / len(blocks))
    if photo.valid is not None:
        quality[~photo.valid] = np.nan
    return Correction(
        quality, f"spectra moved to the colours of the photo within {why}: {moved / quality.size:.1%} of its pixels"
    )


def _correct_rows(
    data: NDArray[np.floating],
    quality: NDArray[np.float32],
    rows: slice,
    cells: "_Cells",
    response: NDArray[np.float32],
) -> int:
    """Correct *rows* of *data* and fill those of *quality*; returns the number of pixels that were moved."""
    block = data[:, rows]
    rendered = _rendered(block, response)
    quality[rows] = cells.distance(rendered, rows)
    low, high = cells.linear(rows)
    outside = ((rendered < low - _CLOSE) | (rendered > high + _CLOSE)).any(axis=0)
    if outside.any():
        block[:, outside] = moved_into(block[:, outside], low[:, outside], high[:, outside], response)
    return int(np.count_nonzero(outside))


def _rendered(spectra: NDArray[np.floating], response: NDArray[np.floating]) -> NDArray[np.floating]:
    """The colours (C, H, W) of *spectra* (B, H, W); threads of BLAS would wait for each other, and einsum has none."""
    return np.asarray(np.einsum("bc,bhw->chw", response, spectra))


def moved_into(
    spectra: NDArray[np.floating],
    low: NDArray[np.floating],
    high: NDArray[np.floating],
    response: NDArray[np.floating],
) -> NDArray[np.floating]:
    """*spectra* (B, n) changed as little as makes their colours lie between *low* and *high* (C, n); never negative.

    Those that would have to be brighter than any surface, for a colour that none has, stay as they are.
    r + S (S'S)^-1 (target - S'r), S being the *response* (B, C): the least change in the sense of least squares. Lin &
    Finlayson, Sensors 20 (2020) 6399, doi:10.3390/s20216399, for the nearest point of the cell instead of its centre.
    """
    inverse = (np.linalg.inv(response.T.astype(np.float64) @ response) @ response.T).astype(np.float32)
    own, low, high = (np.ascontiguousarray(values.T) for values in (spectra, low, high))  # a spectrum side by side
    moved, far, left = own.copy(), own, np.arange(len(own))
    rendering = np.ascontiguousarray(response.T)
    for _ in range(_STEPS):
        rendered = np.einsum("nb,cb->nc", far, rendering)
        missing = np.clip(rendered, low, high) - rendered
        is_far = (np.abs(missing) > _CLOSE).any(axis=1)
        if not is_far.all():
            far, left, low, high, missing = (values[is_far] for values in (far, left, low, high, missing))
        far = np.maximum(far + np.einsum("nc,cb->nb", missing, inverse), 0)
        moved[left] = far
    is_surface = moved.max(axis=1) <= _HIGHEST * np.maximum(own.max(axis=1), 1)
    return np.where(is_surface[:, None], moved, own).T


class _Cells:
    """The colours that the photo allows, in linear light: within *half* (C,) 8-bit codes, at least half a code of its.

    They are looked up by stored value, or computed for floats, whose cells are those of 16 bits.
    """

    def __init__(self, photo: Photo, half: NDArray[np.float64]) -> None:
        self._photo, self._half = photo, half
        self._is_integer = photo.pixels.dtype.kind == "u"
        self._native = (HALF_CODE if self._is_integer else HALF_CODE * photo.full_scale / 65535) / photo.full_scale
        if self._is_integer:
            values = np.arange(np.iinfo(photo.pixels.dtype).max + 1)
            self._tables = [self._bounds(values, channel) for channel in range(3)]
            self._codes = self._code(values).astype(np.float32)

    def linear(self, rows: slice) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Lower and upper bound (C, rows, W) in linear light; infinite beyond a clipped channel."""
        channels = enumerate(self._photo.pixels[:, rows])
        if self._is_integer:
            bounds = [tuple(table[stored] for table in self._tables[channel]) for channel, stored in channels]
        else:
            bounds = [self._bounds(stored, channel) for channel, stored in channels]
        return np.stack([low for low, _ in bounds]), np.stack([high for _, high in bounds])

    def codes(self, rows: slice) -> NDArray[np.float32]:
        """The photo in 8-bit sRGB codes, not rounded, (C, rows, W)."""
        stored = self._photo.pixels[:, rows]
        return self._codes[stored] if self._is_integer else self._code(stored).astype(np.float32)

    def distance(self, rendered: NDArray[np.floating], rows: slice) -> NDArray[np.float32]:
        """How many 8-bit codes *rendered* (C, rows, W), in linear light, is from the photo: the furthest channel."""
        return np.asarray(np.abs(difference(rendered, self.codes(rows))).max(axis=0), dtype=np.float32)

    def _bounds(self, stored: NDArray[np.generic], channel: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        value = np.asarray(stored, dtype=np.float64) / self._photo.full_scale
        code, half = self._code(stored) / 255, self._half[channel] / 255
        low = np.minimum(self._decoded(value - self._native), srgb_to_linear(code - half))
        high = np.maximum(self._decoded(value + self._native), srgb_to_linear(code + half))
        low, high = np.where(value <= 0, -np.inf, low), np.where(value >= 1, np.inf, high)
        return low.astype(np.float32), high.astype(np.float32)

    def _code(self, stored: NDArray[np.generic]) -> NDArray[np.floating]:
        value = np.asarray(stored, dtype=np.float64) / self._photo.full_scale
        return (value if self._photo.encoding == "srgb" else linear_to_srgb(value)) * 255

    def _decoded(self, value: NDArray[np.float64]) -> NDArray[np.floating]:
        return srgb_to_linear(value) if self._photo.encoding == "srgb" else value


def difference(rendered: NDArray[np.floating], codes: NDArray[np.floating]) -> NDArray[np.floating]:
    """*rendered*, in linear light, minus *codes*, in 8-bit sRGB codes; 0 beyond a clipped channel."""
    return np.asarray(linear_to_srgb(rendered.clip(0, 1)) * np.float32(255) - np.clip(codes, 0, 255))


# How sure the photo is of its colours


def _half_widths(
    data: NDArray[np.floating],
    photo: Photo,
    response: NDArray[np.float32],
    least: float,
    is_cancelled: Callable[[], bool] | None,
) -> tuple[NDArray[np.float64], str]:
    """Half the width (C,) of the cells in 8-bit codes, 0 for the photo's own, and what they are in words."""
    own = np.full(3, least), "half a code" + (" of 8 bits" if least else "")
    if min(photo.shape) < _BLOCK:
        return own
    residual, codes = _sample(data, photo, response, is_cancelled)
    spread, texture = _deviations(residual), _deviations(codes)
    known = ~np.isnan(spread).any(axis=0)
    if np.count_nonzero(known) < _FEWEST:
        return own
    flat, flat_photo = (np.percentile(each[:, known], _FLAT, axis=1).max() for each in (spread, texture))
    is_shared = _shared(residual, spread) > _SHARED
    is_jpeg = is_shared and _grid_strength(residual) > _JPEG_GRID
    is_noisy = min(flat, flat_photo) > _NOISY and (not is_shared or flat > _MOST * flat_photo)
    if not (is_jpeg or is_noisy):
        return own
    removed = _blocks(residual).std(axis=(2, 3)) if is_jpeg else spread
    half = np.maximum(_DEVIATIONS * np.median(removed[:, known], axis=1), HALF_CODE)
    if half.max() < 2 * HALF_CODE:
        return own
    red, green, blue = half
    why = f"its {'JPEG errors' if is_jpeg else 'noise'} ({red:.1f}, {green:.1f} and {blue:.1f} codes)"
    return (np.full(3, np.inf), f"any distance, for {why}") if least else (half, why)


def _sample(
    data: NDArray[np.floating],
    photo: Photo,
    response: NDArray[np.float32],
    is_cancelled: Callable[[], bool] | None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Strips of 8 rows (C, 8 n, W) from all over the image, in 8-bit codes: rendered estimate - photo, and the photo.

    The first is NaN where the photo is clipped or unknown.
    """
    cells, height = _Cells(photo, np.zeros(3)), photo.shape[0] // _BLOCK
    every = max(1, -(-height // _STRIPS)) * _BLOCK
    strips = [slice(top, top + _BLOCK) for top in range(0, height * _BLOCK, every)]
    codes = [cells.codes(rows) for rows in strips]
    rendered = []
    for rows in strips:
        raise_if_cancelled(is_cancelled)  # from a file, they take a while
        rendered.append(_rendered(data[:, rows], response))
    photos = np.concatenate(codes, axis=1)
    residual = difference(np.concatenate(rendered, axis=1), photos)
    residual[:, ~((photos > 0) & (photos < 255)).all(axis=0)] = np.nan
    return residual, photos


def _deviations(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Standard deviation (C, n) of the noise in every block: of neighbours' differences, over the root of 2."""
    return np.asarray(np.sqrt(np.square(np.diff(_blocks(image), axis=3)).mean(axis=(2, 3)) / 2))


def _shared(residual: NDArray[np.float32], spread: NDArray[np.float32]) -> float:
    """Mean correlation between the channels of neighbours' differences, in the blocks of least *spread* (C, n)."""
    most = spread.max(axis=0)
    calm = most <= np.nanpercentile(most, _CALM)
    red, green, blue = np.diff(_blocks(residual)[:, calm], axis=3).reshape(3, -1)
    pairs = ((red, green), (green, blue), (red, blue))
    tiny = np.finfo(np.float32).tiny
    return float(np.mean([(one * other).mean() / max(one.std() * other.std(), tiny) for one, other in pairs]))


def _blocks(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """(C, 8 n, W) -> its whole blocks (C, m, 8, 8)."""
    columns = image.shape[2] // _BLOCK
    blocks = image[..., : columns * _BLOCK].reshape(3, -1, _BLOCK, columns, _BLOCK)
    return blocks.swapaxes(2, 3).reshape(3, -1, _BLOCK, _BLOCK)


def _grid_strength(residual: NDArray[np.float32]) -> float:
    """How much larger the differences between neighbouring columns are at one of 8 places than at most of them."""
    steps = np.abs(np.diff(residual, axis=2))
    means = [np.nanmean(steps[..., place::_BLOCK]) for place in range(_BLOCK)]
    return float(np.max(means) / max(np.median(means), np.finfo(np.float32).tiny))


def _row_blocks(shape: tuple[int, int]) -> Iterator[slice]:
    rows = max(1, _PIXELS // shape[1])
    for start in range(0, shape[0], rows):
        yield slice(start, min(start + rows, shape[0]))
