"""Further photos of a scene, in other light or through filters, which correct its cube.

Three values leave much of a spectrum open; each further photo has three more. What a cube says that
a photo shows is compared with what it shows, and the difference moves the spectrum by the best
linear estimate: with the covariance C of the errors of a model on measured reflectances, the
response R of the photos, and the covariance N of what these are off by, it is C R (R'CR + N)^-1.
Kalman, J. Basic Eng. 82 (1960) 35, doi:10.1115/1.3662552. Before that a photo is registered, and
its exposure and shading are taken from a smooth field of ratios.

Letters: B bands, C channels of all photos, H rows, W columns, k pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import map_coordinates

from napari_mst.arrays import Doubles, Floats, Singles
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import measured_reflectances, srgb_response
from napari_mst.cube.provenance import BY_CHART, region_bounds
from napari_mst.denoising.noise import MIDDLE_GREY, estimated_noise
from napari_mst.denoising.photos import denoising_to_look_at
from napari_mst.denoising.streaming import averaged
from napari_mst.errors import CameraError, CubeError, PhotoError, shown
from napari_mst.models import load_model
from napari_mst.photo.cameras import DAYLIGHT, GRID, SRGB, named, sensor_white, unbalanced_response
from napari_mst.photo.photo import Photo, PhotoLike, as_photo
from napari_mst.progress import Progress, ProgressLike, as_progress
from napari_mst.reconstruction.colour_fidelity.cells import Cells, each_block, row_blocks
from napari_mst.reconstruction.colour_fidelity.noise import has_jpeg_grid
from napari_mst.reconstruction.setup import copied
from napari_mst.references.colour_views import ColourView, moved_to_photo, photo_of, view_of
from napari_mst.references.registration import registered

_SPECTRA = 4000  # mixtures of two reflectances, from which the errors of a model are learnt
_DIM = 0.02  # of light: errors of darker spectra count as of this one
_LIT = 0.02  # of light, below which a pixel shows no ratio
_CLIPPED = 0.98  # share of full scale
_WHOLE = 0.999  # of a pixel that lies between others
_MARGIN = 12  # pixels around a strip: a spline sees no further
_BLACK = 0.002  # of the light of the further photo: steps of 8 bits dominate below
_SAMPLE = 250_000  # pixels that show the field of ratios
_FEWEST = 0.02  # share of them
_DEGREE = 2
_ROUNDS = 8
_SMALL = 1e-4
_FAINT = 0.02  # of the brightest channel: a channel with less light is left out
_MOSTLY = 0.5  # share of the pixels that a channel has to show
_MOST_OFF = 0.15  # logarithm by which channels may be off: that of materials is up to 0.06
_USUAL = 0.03  # logarithm of the brightness by which spectra are usually off
_LEVEL = 0.01  # the same by which the field is off
_DEVIATION = 1.4826  # a standard deviation over the median of absolute values
# Variances that gave the least errors on six scenes of CAVE, of 1e-5 to 3e-3.
_EXACT = 3e-5
_JPEG = 3e-3
_AVERAGED = 0.15  # of the variance of a pixel: left in the average of those that look alike
_CHANNELS = ("nothing", "one channel", "two channels", "all channels")


@dataclass(frozen=True)
class Shot:
    """A further photo of a scene, and what made it different from the first one.

    Attributes
    ----------
    photo
        Taken from the same place by the same camera, with the white balance of the first photo;
        the exposure may differ.
    light
        Name, mixture or CSV file of the light, as of an `Acquisition`. "D65 through gel.csv" is a
        light behind a filter, or seen through one: a CSV file of nm, transmittance.
    includes_first
        True if the light of the first photo shone as well, with the same exposure, as behind a
        flash. Then the first photo is subtracted.

    Notes
    -----
    =====  ==========================================================================
    photo  a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), as the first
    =====  ==========================================================================

    Examples
    --------
    >>> nm.Shot(np.full((4, 6, 3), 128, np.uint8), "LED-B3").light
    'LED-B3'
    """

    photo: PhotoLike
    light: str = DAYLIGHT
    includes_first: bool = False


class _Seen(NamedTuple):
    """The channels c of a further photo that show the scene, on the pixels of a cube.

    *light* (c, H, W) is linear, in the exposure and shading of the first photo, NaN where it is not
    known; *response* (B, c) takes reflectance to it. *shading* is the variance of the logarithm of
    its brightness that no smooth field explains, *noise* that of each channel over the brightness.
    """

    light: Singles
    response: Doubles
    shading: float
    noise: float
    note: str


def add_shots(
    cube: SpectralCube, photo: PhotoLike, shots: Sequence[Shot], progress: ProgressLike = None
) -> SpectralCube:
    """*cube*, corrected everywhere by what further photos of the scene show (float32).

    The photos may be off by some pixels and a little turned, and exposed and shaded otherwise: that
    is estimated, and the history says it. Where one of them is clipped or ends, the cube stays as
    it is. Afterwards `refine` may correct the result by reference spectra.

    Parameters
    ----------
    cube
        Reflectance from a `Reconstructor`, 31 bands, not refined yet.
    photo
        The photo that the cube was made from.
    shots
        The further photos; together they say more than one after the other.

    Raises
    ------
    CubeError
        If the cube has other bands, is none of reflectance, is a preview, or was refined.
    PhotoError
        If *photo* is another one, or a further photo does not fit onto it.
    CameraError
        If there is no such light or camera.
    Cancelled
        Soon after *progress* was cancelled; *cube* is as it was.

    Notes
    -----
    =======  ==================================================================
    cube     reflectance, 0 to about 1; 400, 410, ..., 700 nm
    photo    a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3)
    returns  float32 reflectance, 0 or more
    =======  ==================================================================

    Examples
    --------
    >>> day = np.random.default_rng(0).integers(60, 200, (32, 32, 3), np.uint8)
    >>> cube = nm.Reconstructor(nm.load_model("pixelwise-srgb")).reconstruct(day)
    >>> lamp = (day * (1, 0.95, 0.9)).astype(np.uint8)
    >>> better = nm.add_shots(cube, day, [nm.Shot(lamp, "D55")])
    >>> better.shape
    (31, 32, 32)
    """
    source = as_photo(photo)
    part = photo_of(cube, source)
    _check(cube)
    progress = as_progress(progress)
    if not shots:
        return cube
    view = view_of(cube, part) or ColourView(part, srgb_response(GRID))
    white = view.response.sum(axis=0)
    covariance = _errors(view.response / white, bool(cube.provenance.camera))
    share = 0.8 / len(shots)
    seen = [
        _seen(cube, source, shot, white, progress.part(number * share, (number + 1) * share))
        for number, shot in enumerate(shots)
    ]
    data, left = _updated(cube, part, seen, covariance, progress.part(0.8, 0.9))
    text = moved_to_photo(data, view_of(cube, part), progress.part(0.9, 1))
    past = cube.provenance
    band = dict(past.error_band)
    if band:
        factor = np.broadcast_to(band["factor"], len(GRID)) * left
        band["factor"] = factor.round(4).tolist()
    provenance = replace(
        past,
        correction=text or past.correction,
        error_band=band,
        assumptions=(*past.assumptions, *(each.note for each in seen)),
    )
    return replace(cube, data=data, provenance=provenance)


def _check(cube: SpectralCube) -> None:
    past = cube.provenance
    if not np.array_equal(cube.wavelengths, GRID) or cube.quantity != "reflectance":
        raise CubeError(
            f"Expected reflectance at 400, 410, ..., 700 nm, got {cube.quantity} in "
            f"{len(cube.wavelengths)} bands. Use a bundled model, and cut bands afterwards."
        )
    if past.refinement or past.is_preview:
        state = "one that was refined" if past.refinement else "a preview"
        raise CubeError(f"Expected the cube of a photo, got {state}. Add photos to the cube first.")


def _errors(response: Doubles, is_of_sensor: bool) -> Doubles:
    """(B, B): second moments of the errors of a pixelwise network, relative to the brightness."""
    import torch  # the docks, which import this module, are not to wait for it

    random = np.random.default_rng(0)
    spectra = measured_reflectances().clip(0, 1)
    one, other = spectra[random.integers(len(spectra), size=(2, _SPECTRA))]
    mixed = other + random.random((_SPECTRA, 1)) * (one - other)
    colours = mixed @ response
    network: Any = load_model("mstpp-camera" if is_of_sensor else "pixelwise-srgb").network
    if is_of_sensor:
        network = copied(network.pixelwise)
        network.see_with(torch.from_numpy(response))
    with torch.inference_mode():
        estimate = network(torch.from_numpy(colours.T[None, ..., None]).float())[0, ..., 0]
    errors = (mixed - estimate.T.numpy()) / (colours.mean(axis=1, keepdims=True) + _DIM)
    return errors.T @ errors / _SPECTRA


def _seen(
    cube: SpectralCube, source: Photo, shot: Shot, white: Doubles, progress: Progress
) -> _Seen:
    """The photo of *shot* on the pixels of *cube*; *white* (3,) is what the first has of it."""
    photo = as_photo(shot.photo)
    past = cube.provenance
    camera, first_light = past.camera or SRGB, past.illuminant or DAYLIGHT
    if first_light == BY_CHART:
        raise CameraError(
            "Expected the light of the first photo, got only its chart, which does not tell light "
            "and camera apart. Name camera and illuminant instead."
        )
    response = unbalanced_response(camera, shot.light)
    response = response * white / sensor_white(camera, first_light)
    response /= response.sum(axis=0).max()
    matrix, misfit = registered(source, photo, progress.part(0, 0.4))
    light = _resampled(cube, photo, matrix, progress.part(0.4, 0.9))
    if shot.includes_first:
        light -= photo_of(cube, source).rows(linear=True)
    expected = np.maximum(response.sum(axis=0), 0)
    shows = np.isfinite(light).mean(axis=(1, 2)) * (expected >= _FAINT) > _MOSTLY
    light, response = light[shows], response[:, shows]
    field, shading = _field(light, cube, response)
    light /= field
    level = float(np.median(field))
    down, right = matrix @ (*(np.array(source.shape) / 2), 1) - np.array(source.shape) / 2
    low, high = np.percentile(field, (5, 95)) / level - 1
    note = (
        f"Corrected by {_CHANNELS[int(shows.sum())]} of the photo {_named(photo, shot)}: moved by "
        f"{down:.1f} rows and {right:.1f} columns, to {misfit:.2f} pixels; {level:.2f} times as "
        f"bright, shaded by {low:+.0%} to {high:+.0%}, and by {np.sqrt(shading):.1%} in detail; it "
        f"shows {np.isfinite(light).all(axis=0).mean():.0%} of the pixels."
    )
    return _Seen(light, response, shading, _noise(photo, source, level), note)


def _noise(photo: Photo, source: Photo, level: float) -> float:
    """The variance, over the brightness squared, that the average of like pixels is off by."""
    noise = estimated_noise(photo)
    if noise is None or any(
        each.is_jpeg or has_jpeg_grid(Cells(each, np.zeros(3))) for each in (photo, source)
    ):
        return _JPEG
    grey = level * MIDDLE_GREY
    return _EXACT + _AVERAGED * (noise.sigma(grey) / grey) ** 2


def _named(photo: Photo, shot: Shot) -> str:
    subtracted = ", from which the first was subtracted," if shot.includes_first else ""
    name = shown(photo.name or "array", 40)
    return f"{name} ({photo.sha256[:12]}){subtracted} in {named(shot.light)}"


def _resampled(cube: SpectralCube, photo: Photo, matrix: Doubles, progress: Progress) -> Singles:
    """Linear light (3, H, W) of *photo* on the pixels of *cube*, NaN where clipped or beyond it."""
    top, _, left, _ = region_bounds(cube.provenance.region) or (0, 0, 0, 0)
    _, height, width = cube.shape
    light = np.empty((3, height, width), dtype=np.float32)

    def fill(rows: slice) -> None:
        grid = np.indices((rows.stop - rows.start, width)).reshape(2, -1)
        at = matrix[:, :2] @ (grid + np.array([[top + rows.start], [left]])) + matrix[:, 2:]
        first, last = (round(end) for end in (at[0].min() - _MARGIN, at[0].max() + _MARGIN))
        first = min(max(first, 0), photo.shape[0] - 1)
        last = max(last, first + 1)
        at[0] -= first
        stored = photo.rows(first, min(last, photo.shape[0]), linear=False)
        linear = photo.rows(first, min(last, photo.shape[0]), linear=True)
        is_known = ((stored > 0) & (stored < _CLIPPED)).astype(np.float32)
        for channel, plane in enumerate(linear):
            is_whole = map_coordinates(is_known[channel], at, order=1) > _WHOLE
            values = map_coordinates(plane, at, order=3, mode="nearest")
            light[channel, rows] = np.where(is_whole, values, np.nan).reshape(-1, width)

    each_block(fill, row_blocks((height, width)), progress)
    return light


def _field(light: Singles, cube: SpectralCube, response: Doubles) -> tuple[Singles, float]:
    """The smooth field (H, W) of *light* over what the spectra show, and what it leaves.

    It is a polynomial of rows and columns: exposure and shading. The variance that it leaves in the
    logarithm of the brightness is shading, too, where it is more than the errors of the spectra.
    """
    _, height, width = light.shape
    step = max(1, int(np.sqrt(height * width / _SAMPLE)))
    expected = np.einsum("bc,bhw->chw", response, cube.data[:, ::step, ::step])
    given = light[:, ::step, ::step]
    is_lit = np.all(
        (expected > _LIT * response.sum(axis=0)[:, None, None]) & (given > _BLACK), axis=0
    )
    if not len(light) or is_lit.mean() < _FEWEST:
        raise PhotoError(
            "Expected a further photo of the scene, got one that is dark or clipped where the "
            "first is not. Expose it so that white is just below full scale."
        )
    logs = np.log(given[:, is_lit] / expected[:, is_lit]).astype(np.float64)
    common = logs.mean(axis=0)
    channels = np.median(logs - common, axis=1)
    if np.abs(channels).max() > _MOST_OFF:
        raise PhotoError(
            f"Expected the white balance of the first photo, got a further one whose channels are "
            f"off by {np.abs(channels).max():.0%}. Fix the white balance of the camera, or name "
            "the right light."
        )
    rows, columns = np.nonzero(is_lit)
    terms = np.stack(_polynomial(rows * step / height, columns * step / width))
    weights = np.ones(len(common))
    for _ in range(_ROUNDS):  # makes the absolute deviations small, rather than their squares
        weighed = terms * weights
        shares = np.linalg.lstsq(weighed @ terms.T, weighed @ common, rcond=1e-9)[0]
        off = np.abs(common - shares @ terms)
        weights = 1 / np.maximum(off, np.median(off) + _SMALL)
    shading = (_DEVIATION * float(np.median(off))) ** 2 - _USUAL**2
    at = np.arange(height)[:, None] / height, np.arange(width) / width
    smooth = sum(share * term for share, term in zip(shares, _polynomial(*at), strict=True))
    return np.exp(smooth).astype(np.float32), max(shading, 0.0)


def _polynomial(rows: Floats, columns: Floats) -> list[Floats]:
    """All terms up to the degree of the field, at places that are shares of the sides."""
    powers = product(range(_DEGREE + 1), repeat=2)
    return [rows**i * columns**j for i, j in powers if i + j <= _DEGREE]


def _updated(
    cube: SpectralCube, part: Photo, seen: Sequence[_Seen], covariance: Doubles, progress: Progress
) -> tuple[Singles, Doubles]:
    """The spectra (B, H, W), and the share (B,) of their prediction intervals that is left.

    What the photos show more than the spectra is averaged over pixels that look alike in the first
    *photo*, as in non-local means: materials differ in it, noise and errors of JPEG are left.
    """
    response = np.concatenate([each.response for each in seen], axis=1)
    towards = covariance @ response
    total = response.T @ towards
    start = 0
    for each in seen:
        own = slice(start, start + len(each.light))
        shown = each.response.sum(axis=0)
        total[own, own] += (each.shading + _LEVEL**2) * np.outer(shown, shown)
        total[own, own] += each.noise * np.eye(len(shown))
        start = own.stop
    gain = towards @ np.linalg.inv(total)
    data = np.array(cube.data, dtype=np.float32)
    missing = np.concatenate([each.light for each in seen])
    brightness = np.empty(part.shape, dtype=np.float32)

    def compare(rows: slice) -> None:
        expected = np.einsum("bc,bhw->chw", response.astype(np.float32), data[:, rows])
        brightness[rows] = np.maximum(expected.mean(axis=0), _DIM)
        missing[:, rows] = (missing[:, rows] - expected) / brightness[rows]

    def move(rows: slice) -> None:
        moved = np.einsum("bc,chw->bhw", gain.astype(np.float32), missing[:, rows])
        moved = np.nan_to_num(moved * brightness[rows])
        data[:, rows] = np.maximum(data[:, rows] + moved, 0)

    blocks = row_blocks(part.shape)
    each_block(compare, blocks, progress.part(0, 0.1))
    how = denoising_to_look_at(part)
    is_known = np.isfinite(missing).all(axis=0)
    image = partial(how.stabilised, part)
    missing = averaged(image, missing, is_known, how.filter, progress.part(0.1, 0.9))
    each_block(move, blocks, progress.part(0.9, 1))
    return data, np.sqrt(1 - (gain * towards).sum(axis=1) / np.diag(covariance))
