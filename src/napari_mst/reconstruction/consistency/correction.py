"""Colour consistency: the spectra of a cube are moved until they show the colours of the photo, and no further.

A photo tells the colour of a pixel to within one code: a cell of half a code to each side. Spectra that a camera would
have given another code are moved, by the smallest change that does it, to the edge of the cell; those within it stay as
they are, so that rounding is not taken for colour (a dead band). Of a clipped channel only one side is known.

A noisy photo, or a JPEG, does not tell its colours pixel by pixel, and what the network has smoothed away must not come
back. Its pixels tell their colour together: a region becomes lighter, darker or more colourful as the photo says in
the mean, but only by the share of the difference that is no noise (the Wiener estimate). Nearly always that is none.

The photo is noisy if the colours of flat places were smoothed as much as their brightness: of the grain of a subject
it is the brightness that is lost. JPEG is told by its blocks of 8 x 8: on their grid most cosine coefficients are zero,
and on no other. Letters: B bands, H rows, W columns, C colours.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import linear_to_srgb, srgb_to_linear
from napari_mst.photo.photo import Photo
from napari_mst.watch import UNWATCHED, Watch

T = TypeVar("T")

HALF_CODE = 0.49
"""Half the width of a cell, in codes of the photo: a little less than a half, so that rounding gives the same code."""

_PIXELS = 1 << 14  # of a block: its spectra take 2 MB
_SPECTRA = 1 << 12  # that are moved at once: all that it takes stays in the cache of a core
_THREADS = 4
_STEPS = 8  # towards a cell: more than one only where a spectrum would become negative
_CLOSE = 1e-6  # in linear light
_UPPER = np.triu_indices(3)
_DARKEST = 1e-4  # reflectance that a band is taken to have at least, so that it can become brighter
_HIGHEST = 1.25  # times a reflectance of 1, or the estimate where it is brighter: beyond it no surface has the colour

_BLOCK = 8  # of JPEG
_STRIPS, _SAMPLE = (
    (4, 32),
    1 << 15,
)  # how many of _BLOCK rows are looked at for the noise: so many pixels, if possible
_FLAT = 20  # per cent of the neighbours, by how little they differ in the estimate, that are taken to show noise
_FEWEST = (
    200  # of them that tell the noise of a photo; in fewer, the errors of a network look like it
)
_NOISY = (
    0.7  # codes removed from the colours, times their share of what was removed from the brightness
)
_GREY, _MOST = (
    5.0,
    0.8,
)  # codes removed from the brightness alone, and the share that they are of all there was
_OPPONENT = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt(
    [[3], [2], [6]]
)  # brightness, and two of colour
_TILES = 12  # along each side, of 2 x _BLOCK pixels, that are looked at for the grid of JPEG
_FEWEST_COEFFICIENTS = 200  # in all tiles that tell whether there is a grid
_ON_GRID = 0.8  # share of the coefficients that are left on the grid of JPEG, of those on the next best one
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # JFIF 1.02
_OWN_ERROR = 0.5  # codes: mean error of the colours that networks give clean photos, 0.3 (simulated) to 0.6 (CAVE)
_REGION = 16  # pixels along each side of a region whose colour is told together: a block of JPEG's subsampled colours
_KNOWN = 0.25  # share of its pixels without clipping from which on a region tells its colour


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
    return 4 * height * width + 30_000_000 + 18_000 * width


def correct_colours(
    data: NDArray[np.floating],
    photo: Photo,
    response: NDArray[np.floating],
    watch: Watch = UNWATCHED,
    *,
    least: float = 0.0,
) -> Correction:
    """Move the spectra in *data* (B, H, W), reflectances, to the cells of the *photo*'s colours, in place.

    *response* (B, 3) takes reflectance to linear light as the photo shows it (see `colour.srgb_response`).
    It works block by block of rows and needs `bytes_to_correct` besides the spectra.
    *watch* is told the share that is done. With *least*, for linear photos whose codes are finer than any
    noise, cells are so many 8-bit codes wide to each side, and the spectra of a noisy photo stay as they are.

    Raises
    ------
    Cancelled
        As soon as *watch* says so.
    """
    colours = _Colours(data, photo, response.astype(np.float32), least)
    quality = np.empty(photo.shape, dtype=np.float32)
    noise = _noise(colours, watch)
    if noise is None:
        moved = _move_to_cells(colours, quality, watch)
        within = "half a code" + (" of 8 bits" if least else "")
    elif least:
        moved = _move_nothing(colours, quality, watch)
        within = f"any distance, for {noise}"
    else:
        moved = _move_regions(colours, noise, quality, watch)
        within = str(noise)
    if photo.valid is not None:
        quality[~photo.valid] = np.nan
    return Correction(
        quality,
        f"spectra moved to the colours of the photo within {within}: {moved / quality.size:.1%} of its pixels",
    )


class _Colours:
    """The spectra *data* (B, H, W), the colours that they show, and those that the photo allows."""

    def __init__(
        self, data: NDArray[np.floating], photo: Photo, response: NDArray[np.float32], least: float
    ) -> None:
        self.data, self.shape, self.response = data, photo.shape, response
        self.photo = photo
        self.cells = _Cells(photo, np.full(3, least))

    def rendered(self, rows: slice) -> NDArray[np.floating]:
        """The colours that the spectra show (C, rows, W), in linear light.

        Threads of BLAS would wait for each other, and einsum has none.
        """
        return np.asarray(np.einsum("bc,bhw->chw", self.response, self.data[:, rows]))


# A clean photo, pixel by pixel


def _move_to_cells(
    colours: _Colours,
    quality: NDArray[np.float32],
    watch: Watch,
) -> int:
    """Move every spectrum to its cell and fill *quality*; returns the number of pixels that were moved."""

    def move(rows: slice) -> int:
        rendered = colours.rendered(rows)
        quality[rows] = colours.cells.distance(rendered, rows)
        return _move(colours, rows, rendered, *colours.cells.linear(rows))

    return sum(_each(move, _row_blocks(colours.shape), watch))


def _move(
    colours: _Colours,
    rows: slice,
    rendered: NDArray[np.floating],
    low: NDArray[np.floating],
    high: NDArray[np.floating],
) -> int:
    """Move the spectra of *rows* between *low* and *high* (C, rows, W); returns how many were not there yet."""
    outside = ((rendered < low - _CLOSE) | (rendered > high + _CLOSE)).any(axis=0)
    if outside.any():
        block = colours.data[:, rows]
        spectra, low, high = (
            np.stack([plane[outside] for plane in planes]) for planes in (block, low, high)
        )
        for band, values in zip(
            block, moved_into(spectra, low, high, colours.response), strict=True
        ):
            band[outside] = values  # band by band: a mask over two of three axes is slow
    return int(np.count_nonzero(outside))


def moved_into(
    spectra: NDArray[np.floating],
    low: NDArray[np.floating],
    high: NDArray[np.floating],
    response: NDArray[np.floating],
) -> NDArray[np.floating]:
    """*spectra* (B, n) changed as little as makes their colours lie between *low* and *high* (C, n); never negative.

    Those that would have to be brighter than any surface, for a colour that none has, stay as they are.
    r + W S (S'WS)^-1 (target - S'r), S being the *response* (B, C): the least change in the sense of least squares. Lin
    & Finlayson, Sensors 20 (2020) 6399, doi:10.3390/s20216399, for the nearest point of the cell instead of its centre.
    The weights W are the roots of r, halfway between equal changes in all bands, which are too large for the dark bands
    of a saturated colour, and changes in proportion to r.
    """
    moved = np.empty_like(spectra)
    for start in range(0, spectra.shape[1], _SPECTRA):
        part = slice(start, start + _SPECTRA)
        moved[:, part] = _moved_into(spectra[:, part], low[:, part], high[:, part], response)
    return moved


def _moved_into(
    spectra: NDArray[np.floating],
    low: NDArray[np.floating],
    high: NDArray[np.floating],
    response: NDArray[np.floating],
) -> NDArray[np.floating]:
    moved = far = spectra
    left = np.arange(spectra.shape[1])
    for _ in range(_STEPS):
        rendered = np.einsum("bc,bn->cn", response, far)
        missing = np.clip(rendered, low, high) - rendered
        is_far = np.abs(missing) > _CLOSE
        chosen = np.flatnonzero(is_far.any(axis=0))
        if not chosen.size:
            break
        if chosen.size < left.size:
            far, low, high, missing, is_far = (
                values[:, chosen] for values in (far, low, high, missing, is_far)
            )
            left = left[chosen]
        is_free = ~is_far & np.isinf(
            high - low
        )  # it may change on the side that a clipped channel leaves open
        far = _stepped(far, missing, is_free, response)
        if left.size == moved.shape[1]:
            moved = far
        else:
            moved = moved.copy() if moved is spectra else moved
            moved[:, left] = far
    is_surface = moved.max(axis=0) <= _HIGHEST * np.maximum(spectra.max(axis=0), 1)
    return moved if is_surface.all() else np.where(is_surface, moved, spectra)


def _stepped(
    spectra: NDArray[np.floating],
    missing: NDArray[np.floating],
    is_free: NDArray[np.bool_],
    response: NDArray[np.floating],
) -> NDArray[np.floating]:
    """*spectra* (B, n) changed least so that their colours change by *missing* (C, n), but for channels *is_free*.

    S'WS is symmetric, 3 x 3 for every pixel, and inverted by its adjugate: NumPy's own solver takes a hundred times as
    long for so many small ones.
    """
    weights = np.sqrt(np.maximum(spectra, _DARKEST))
    rows, columns = _UPPER
    gram = np.einsum("bk,bn->kn", response[:, rows] * response[:, columns], weights)
    if is_free.any():
        missing = np.where(is_free, 0, missing)
        is_left_out = is_free[rows] | is_free[columns]
        gram = np.where(is_left_out, (rows == columns)[:, None], gram)
    rr, rg, rb, gg, gb, bb = gram
    red, green, blue = missing
    cofactors = gg * bb - gb * gb, rb * gb - rg * bb, rg * gb - rb * gg
    share = np.stack(
        [
            cofactors[0] * red + cofactors[1] * green + cofactors[2] * blue,
            cofactors[1] * red + (rr * bb - rb * rb) * green + (rg * rb - rr * gb) * blue,
            cofactors[2] * red + (rg * rb - rr * gb) * green + (rr * gg - rg * rg) * blue,
        ]
    )
    share /= rr * cofactors[0] + rg * cofactors[1] + rb * cofactors[2]
    changed = np.einsum("bc,cn->bn", response, share)
    changed *= weights
    changed += spectra
    return np.asarray(np.maximum(changed, 0, out=changed))


class _Cells:
    """The colours that the photo allows, in linear light: within *half* (C,) 8-bit codes, at least half a code of its.

    They are looked up by stored value, or computed for floats, whose cells are those of 16 bits.
    """

    def __init__(self, photo: Photo, half: NDArray[np.floating]) -> None:
        self._photo, self._half = photo, half
        self._is_integer = photo.pixels.dtype.kind == "u"
        self._native = (
            HALF_CODE if self._is_integer else HALF_CODE * photo.full_scale / 65535
        ) / photo.full_scale
        if self._is_integer:
            values = np.arange(np.iinfo(photo.pixels.dtype).max + 1)
            self._tables = [self._bounds(values, channel) for channel in range(3)]
            self._codes = self._code(values).astype(np.float32)

    def linear(self, rows: slice) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Lower and upper bound (C, rows, W) in linear light; infinite beyond a clipped channel."""
        channels = enumerate(self._photo.pixels[:, rows])
        if self._is_integer:
            bounds = [
                tuple(table[stored] for table in self._tables[channel])
                for channel, stored in channels
            ]
        else:
            bounds = [self._bounds(stored, channel) for channel, stored in channels]
        return np.stack([low for low, _ in bounds]), np.stack([high for _, high in bounds])

    def codes(self, rows: slice) -> NDArray[np.float32]:
        """The photo in 8-bit sRGB codes, not rounded, (C, rows, W)."""
        stored = self._photo.pixels[:, rows]
        return self._codes[stored] if self._is_integer else self._code(stored).astype(np.float32)

    def residual(self, rendered: NDArray[np.floating], rows: slice) -> NDArray[np.floating]:
        """*rendered* (C, rows, W), in linear light, minus the photo in 8-bit codes; NaN where it is clipped."""
        codes = self.codes(rows)
        is_known = ((codes > 0) & (codes < 255)).all(axis=0)
        return np.where(is_known, difference(rendered, codes), np.float32(np.nan))

    def distance(self, rendered: NDArray[np.floating], rows: slice) -> NDArray[np.float32]:
        """How many 8-bit codes *rendered* (C, rows, W), in linear light, is from the photo: the furthest channel."""
        return np.asarray(
            np.abs(difference(rendered, self.codes(rows))).max(axis=0), dtype=np.float32
        )

    def _bounds(
        self, stored: NDArray[np.generic], channel: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
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
    return np.asarray(_codes(rendered) - np.clip(codes, 0, 255))


def _codes(rendered: NDArray[np.floating]) -> NDArray[np.floating]:
    """*rendered*, in linear light, as 8-bit sRGB codes, clipped and not rounded."""
    return np.asarray(linear_to_srgb(rendered.clip(0, 1)) * np.float32(255))


# A noisy photo, region by region


@dataclass(frozen=True)
class _Noise:
    """The noise removed from flat places of a photo: its standard *deviation* (C,), in 8-bit codes."""

    deviation: tuple[float, ...]
    is_jpeg: bool

    def __str__(self) -> str:
        red, green, blue = self.deviation
        return f"its {'JPEG errors' if self.is_jpeg else 'noise'} ({red:.1f}, {green:.1f} and {blue:.1f} codes)"

    @property
    def half(self) -> NDArray[np.floating]:
        """Half the width (C,) of the cells of single pixels: from there on the photo is right rather than the network.

        It is the threshold of the most likely value where the noise is Gaussian and the error of the network is
        Laplacian: variance of the one over mean of the other. Errors of JPEG are neither, nor are they independent.
        Moulin & Liu, IEEE Trans. Inf. Theory 45 (1999) 909, doi:10.1109/18.761332.
        """
        return np.full(3, np.inf) if self.is_jpeg else np.square(self.deviation) / _OWN_ERROR


def _move_nothing(
    colours: _Colours,
    quality: NDArray[np.float32],
    watch: Watch,
) -> int:
    """Fill *quality* only; returns 0."""

    def look(rows: slice) -> None:
        quality[rows] = colours.cells.distance(colours.rendered(rows), rows)

    _each(look, _row_blocks(colours.shape), watch)
    return 0


def _move_regions(
    colours: _Colours,
    noise: _Noise,
    quality: NDArray[np.float32],
    watch: Watch,
) -> int:
    """Move what is off by more than the *noise* and fill *quality*; returns about how many pixels were moved."""
    height, width = colours.shape
    strips = [slice(top, min(top + _REGION, height)) for top in range(0, height, _REGION)]
    cells = _Cells(colours.photo, noise.half)

    def compared(rows: slice) -> NDArray[np.float64]:
        rendered = colours.rendered(rows)
        quality[rows] = colours.cells.distance(rendered, rows)
        return _region_sums(-colours.cells.residual(rendered, rows), _codes(rendered))

    gains = _gains(np.stack(_each(compared, strips, watch.part(0, 0.5)), axis=1))

    def move(rows: slice) -> int:
        by, moved = _between(gains, rows, width), 0
        if by.any():
            rendered = colours.rendered(rows)
            target = (
                rendered + srgb_to_linear((1 + by) * _codes(rendered) / 255) - rendered.clip(0, 1)
            )
            moved = _move(colours, rows, rendered, target, target)
        return max(moved, _move(colours, rows, colours.rendered(rows), *cells.linear(rows)))

    return sum(_each(move, strips, watch.part(0.5, 1)))


def _region_sums(missing: NDArray[np.floating], codes: NDArray[np.floating]) -> NDArray[np.float64]:
    """Sums over each region of a strip (1 + 3 C, w): its known pixels, and *missing* x *codes*, *codes*^2, *missing*^2.

    *missing* (C, rows, W) is the photo minus the estimate, NaN where unknown, and *codes* the estimate.
    """
    known = ~np.isnan(missing).any(axis=0)
    missing, codes = (np.where(known, values, 0).astype(np.float64) for values in (missing, codes))
    products = np.concatenate([known[None], missing * codes, codes * codes, missing * missing])
    starts = np.arange(0, codes.shape[2], _REGION)
    return np.asarray(np.add.reduceat(products.sum(axis=1), starts, axis=1))


def _gains(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """By which share of itself to change the estimate (C, h, w), from what `_region_sums` gives for every region.

    The share that explains most of what is missing, in the sense of least squares, times the Wiener factor: what it
    explains is signal and noise, what it leaves is noise.
    """
    pixels, (products, squares, missing) = sums[0], np.split(sums[1:], 3)
    tiny = np.finfo(float).tiny
    gain = products / squares.clip(tiny)
    explained = (products * gain).sum(axis=0)
    noise = missing.sum(axis=0) - explained
    factor = (1 - noise / explained.clip(tiny)).clip(0)
    is_known = pixels >= _KNOWN * _REGION**2
    return np.asarray(np.where(is_known, factor * gain, 0))


def _between(regions: NDArray[np.float64], rows: slice, width: int) -> NDArray[np.float64]:
    """The values of *regions* (C, h, w) at every pixel of *rows* (C, rows, width), linear between their centres."""
    across = _weights(np.arange(width), regions.shape[2])
    down = _weights(np.arange(rows.start, rows.stop), regions.shape[1])
    return np.asarray(np.einsum("yh,chw,xw->cyx", down, regions, across, optimize=True))


def _weights(pixels: NDArray[np.intp], count: int) -> NDArray[np.float64]:
    """(n, count): how much each of *count* regions in a row weighs at *pixels* (n,)."""
    places = ((pixels + 0.5) / _REGION - 0.5).clip(0, count - 1)
    return np.asarray((1 - np.abs(places[:, None] - np.arange(count))).clip(0))


# How sure the photo is of its colours


def _noise(colours: _Colours, watch: Watch) -> _Noise | None:
    """The noise or the errors of JPEG that were removed from the photo; None where there is neither."""
    removed, photo = _removed(colours, watch)
    if removed.shape[1] < _FEWEST:
        return None
    is_jpeg = _has_jpeg_grid(colours)
    if not (is_jpeg or _is_noisy(removed, photo)):
        return None
    red, green, blue = np.sqrt(np.square(removed).mean(axis=1)).tolist()
    return _Noise((red, green, blue), is_jpeg)


def _removed(colours: _Colours, watch: Watch) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """What was removed from flat places, and what the photo shows there (C, n), in 8-bit codes of a single pixel.

    Flat is where neighbours differ least in the estimate, which noise does not decide; no neighbour is clipped. Of
    both, differences between neighbours are taken, over the root of 2: of a colour that is wrong nothing is left.
    """
    height, width = colours.shape
    count = min(int(np.clip(_SAMPLE // (_BLOCK * width), *_STRIPS)), -(-height // _BLOCK))
    removed, seen = [], []
    for block in np.linspace(0, (height - 1) // _BLOCK, count).astype(int):
        watch.check()  # from a file, they take a while
        rows = slice(block * _BLOCK, min((block + 1) * _BLOCK, height))
        residual, codes = (
            colours.cells.residual(colours.rendered(rows), rows),
            colours.cells.codes(rows),
        )
        for axis in (1, 2):
            removed.append(np.diff(residual, axis=axis).reshape(3, -1))
            seen.append(np.diff(codes, axis=axis).reshape(3, -1))
    steps, photo = np.concatenate(removed, axis=1), np.concatenate(seen, axis=1)
    known = ~np.isnan(steps).any(axis=0)
    steps, photo = steps[:, known], photo[:, known]
    if not steps.size:
        return steps, photo
    estimate = np.abs(steps + photo).max(axis=0)
    is_flat = estimate <= np.percentile(estimate, _FLAT)
    return steps[:, is_flat] / np.sqrt(2), photo[:, is_flat] / np.sqrt(2)


def _is_noisy(removed: NDArray[np.floating], photo: NDArray[np.floating]) -> bool:
    """Whether what was *removed* from flat places of the *photo* (C, n) is noise.

    Noise is in the colours as much as in the brightness, in all their directions, and networks remove it from the
    colours first. Of texture they remove brightness rather, so that colours count less where more of that was removed.
    The noise of a grey photo is told by its size, and by how much of all that flat places show was removed.
    """
    colour, brightness = _deviations(removed)
    is_in_colours = colour * min(1.0, colour / brightness) > _NOISY
    is_grey = brightness > max(_GREY, _MOST * _deviations(photo)[1])
    return is_in_colours or is_grey


def _deviations(differences: NDArray[np.floating]) -> tuple[float, float]:
    """Root mean squares of *differences* (C, n): of their colours in the direction of the least, and of brightness."""
    square = _OPPONENT @ (differences @ differences.T / differences.shape[1]) @ _OPPONENT.T
    least, tiny = np.linalg.eigvalsh(square[1:, 1:])[0], np.finfo(np.float32).tiny
    return float(np.sqrt(max(least, 0))), float(np.sqrt(max(square[0, 0], tiny)))


def _has_jpeg_grid(colours: _Colours) -> bool:
    """Whether the photo was a JPEG: on the grid of its blocks many more cosine coefficients round to 0 than elsewhere.

    All 64 places of the grid are tried, since a region may begin anywhere. Fan & de Queiroz, IEEE Trans. Image Process.
    12 (2003) 230, doi:10.1109/TIP.2002.807361, tell JPEG by its blocks, too.
    """
    height, width = colours.shape
    if min(height, width) < 2 * _BLOCK:
        return False
    lefts = _tiles(width)
    tiles = []
    for top in _tiles(height):
        luma = np.tensordot(
            _LUMA, np.nan_to_num(colours.cells.codes(slice(top, top + 2 * _BLOCK))), axes=1
        )
        tiles += [luma[:, left : left + 2 * _BLOCK] for left in lefts]
    cosines = _cosines()
    coefficients = cosines @ np.stack(tiles) @ cosines.T
    is_left = (np.abs(coefficients) >= 1).reshape(-1, _BLOCK, _BLOCK, _BLOCK, _BLOCK)
    is_left[:, :, 0, :, 0] = False  # the mean of a block
    fewest, next_fewest = np.partition(is_left.sum(axis=(0, 2, 4)).ravel(), 1)[:2]
    return bool(next_fewest >= _FEWEST_COEFFICIENTS and fewest < _ON_GRID * next_fewest)


def _tiles(size: int) -> list[int]:
    """Where tiles of 2 x _BLOCK pixels begin, all over *size* pixels; at the same place of any grid of _BLOCK."""
    last = (size - 2 * _BLOCK) // _BLOCK
    return sorted({int(place) * _BLOCK for place in np.linspace(0, last, min(_TILES, last + 1))})


def _cosines() -> NDArray[np.float32]:
    """The orthonormal cosines of a block (_BLOCK x _BLOCK, 2 x _BLOCK): for each place where it begins, all of them."""
    frequency, pixel = np.arange(_BLOCK)[:, None], np.arange(_BLOCK)
    block = np.cos(np.pi / _BLOCK * (pixel + 0.5) * frequency) * np.sqrt(2 / _BLOCK)
    block[0] /= np.sqrt(2)
    places = [np.pad(block, ((0, 0), (place, _BLOCK - place))) for place in range(_BLOCK)]
    return np.concatenate(places).astype(np.float32)


def _each(
    work: Callable[[slice], T],
    slices: list[slice],
    watch: Watch,
) -> list[T]:
    """What *work* makes of every slice of rows, several at a time."""

    def unless_cancelled(rows: slice) -> T:
        watch.check()
        return work(rows)

    results = []
    with ThreadPoolExecutor(_THREADS) as threads:
        for result in threads.map(unless_cancelled, slices):
            results.append(result)
            watch.report(len(results) / len(slices))
    return results


def _row_blocks(shape: tuple[int, int]) -> list[slice]:
    rows = max(1, _PIXELS // shape[1])
    return [slice(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows)]
