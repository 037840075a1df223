"""Moves corrected spectra back to the colours of the photo, as a reconstruction does.

Letters: B bands, H rows, W columns.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import srgb_response
from napari_mst.cube import SpectralCube
from napari_mst.cube.parts import region_bounds
from napari_mst.errors import PhotoError
from napari_mst.photo.balance import balancing_gains
from napari_mst.photo.cameras import Capture, RecordedCapture
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.consistency.cells import HALF_CODE
from napari_mst.reconstruction.consistency.comparison import Comparison, each_block, row_blocks
from napari_mst.reconstruction.consistency.correction import correct_colours
from napari_mst.reconstruction.consistency.moving import move
from napari_mst.reconstruction.consistency.noise import removed_noise
from napari_mst.watch import UNWATCHED, Watch

# By which a photo is told from another one: pixels; a distance in 8-bit codes within which two are
# the same; and a share of the distance between the colours of other places. Of twelve scenes, the
# own photo was at most 0.28 off (noisy, or JPEG of quality 40), a mirrored one at least 0.48.
_SAMPLE = 10_000
_SAME = 1.0
_MOST_OFF = 0.4


@dataclass(frozen=True, eq=False)
class View:
    """A photo of the spectra of a cube: *response* (B, 3) takes them to its linear light.

    *least* is the half width of a colour cell in 8-bit codes, see `correct_colours`.
    """

    photo: Photo
    response: NDArray[np.floating]
    least: float = 0.0

    def of_part(self, key: tuple[slice, slice, slice]) -> "View":
        """The view of the part of the cube that *key* cuts out of it."""
        photo = self.photo
        valid = None if photo.valid is None else photo.valid[key[1:]]
        part = replace(photo, pixels=photo.pixels[key], valid=valid, georeference=None)
        return replace(self, photo=part)

    def comparison(self, data: NDArray[np.floating]) -> Comparison:
        """The spectra *data* (B, H, W) beside the photo."""
        return Comparison(data, self.photo, self.response.astype(np.float32), self.least)


def view_of(cube: SpectralCube, photo: Photo) -> View | None:
    """The view of *cube* in *photo*; None where a reconstruction does not know it either."""
    past = cube.provenance
    if past.camera:
        named = past.camera, past.illuminant, past.white, past.white_balance
        capture = RecordedCapture(*named, past.sensor) if past.sensor else Capture(*named)
        white = capture.white / photo.full_scale if capture.white else 1.0
        response = capture.response / balancing_gains(photo, capture)
        return View(photo, response * white, HALF_CODE)
    was_corrected = bool(past.correction) or not past.model
    if photo.encoding != "srgb" or not was_corrected:
        return None
    return View(photo, srgb_response(cube.wavelengths))


def moved_to_photo(data: NDArray[np.floating], view: View | None, watch: Watch) -> str:
    """Move the spectra *data* (B, H, W) to the photo's colours, in place, and say so in words."""
    if view is None:
        return ""
    return correct_colours(data, view.photo, view.response, watch, least=view.least).text


def tells_each_pixel(data: NDArray[np.floating], view: View) -> bool:
    """True if each pixel of the photo tells the colour of its spectrum in *data* (B, H, W).

    In a noisy photo, or a JPEG with errors, only many of them together do.
    """
    return removed_noise(view.comparison(data), UNWATCHED) is None


def moved_pixels(data: NDArray[np.floating], view: View) -> None:
    """Move each spectrum of *data* (B, H, W), in place, to the colour of its own pixel.

    It is `moved_to_photo` for a photo in which each pixel tells its colour (`tells_each_pixel`).
    """
    comparison = view.comparison(data)

    def moved(rows: slice) -> None:
        move(comparison, rows, comparison.rendered(rows), comparison.cells.bounds(rows))

    each_block(moved, row_blocks(comparison.shape), UNWATCHED)


def photo_of(cube: SpectralCube, photo: Photo) -> Photo:
    """The part of *photo* that *cube* covers.

    The checksum says whether the cube was made from this photo; of a cut or a copy, the colours do,
    where it is known how the photo shows spectra.

    Raises
    ------
    PhotoError
        If the sizes differ, and the history of the cube names no region of the photo; or the
        colours are those of another photo.
    """
    part = _covered(cube, photo)
    if photo.sha256 != cube.provenance.source_sha256:
        _check_colours(cube, part)
    return part


def _covered(cube: SpectralCube, photo: Photo) -> Photo:
    if photo.shape == cube.shape[1:]:
        return photo
    region = region_bounds(cube.provenance.region)
    if region is not None and region[1] <= photo.shape[0] and region[3] <= photo.shape[1]:
        part = photo.cropped(region)
        if part.shape == cube.shape[1:]:
            return part
    sizes = [f"{rows} x {columns}" for rows, columns in (cube.shape[1:], photo.shape)]
    raise PhotoError(
        f"Expected the photo of the cube, {sizes[0]} pixels, got one of {sizes[1]}. "
        "Choose the photo that the cube was made from."
    )


def _check_colours(cube: SpectralCube, photo: Photo) -> None:
    """Refuse a *photo* that looks about as little like *cube* as other places of it do."""
    view = view_of(cube, photo)
    if view is None:
        return
    step = max(1, int(np.sqrt(photo.shape[0] * photo.shape[1] / _SAMPLE)))
    key = (slice(None), slice(None, None, step), slice(None, None, step))
    part = view.of_part(key)
    data = np.asarray(cube.data[key], dtype=np.float32)
    elsewhere = np.random.default_rng(0).permutation(data[0].size)
    mixed = data.reshape(len(data), -1)[:, elsewhere].reshape(data.shape)
    off, usual = (_mean_distance(part.comparison(each)) for each in (data, mixed))
    if off > max(_SAME, _MOST_OFF * usual):
        raise PhotoError(
            f"Expected the photo of the cube, got one whose colours are {off:.0f} codes off. "
            "Choose the photo that the cube was made from."
        )


def _mean_distance(comparison: Comparison) -> float:
    """The mean distance of the two colours of a pixel, in 8-bit codes."""
    distances = comparison.difference(slice(0, comparison.shape[0])).distance
    known = distances[np.isfinite(distances)]
    return float(known.mean()) if known.size else 0.0
