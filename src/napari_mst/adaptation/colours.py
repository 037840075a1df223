"""Moves corrected spectra back to the colours of the photo, as a reconstruction does.

Letters: B bands, H rows, W columns.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from napari_mst.colour import srgb_response
from napari_mst.cube import SpectralCube
from napari_mst.cube.parts import region_bounds
from napari_mst.errors import PhotoError
from napari_mst.photo.balance import balancing_gains
from napari_mst.photo.cameras import Capture
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.consistency.cells import HALF_CODE
from napari_mst.reconstruction.consistency.correction import correct_colours
from napari_mst.watch import Watch


@dataclass(frozen=True, eq=False)
class View:
    """A photo of the spectra of a cube: *response* (B, 3) takes them to its linear light.

    *least* is the half width of a colour cell in 8-bit codes, see `correct_colours`.
    """

    photo: Photo
    response: NDArray[np.floating]
    least: float = 0.0


def view_of(cube: SpectralCube, photo: Photo) -> View | None:
    """The view of *cube* in *photo*; None where a reconstruction does not know it either."""
    past = cube.provenance
    if past.camera:
        capture = Capture(
            past.camera, past.illuminant, white=past.white, balance=past.white_balance
        )
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
    done = correct_colours(data, view.photo, view.response, watch, least=view.least)
    return done.text


def photo_of(cube: SpectralCube, photo: Photo) -> Photo:
    """The part of *photo* that *cube* covers.

    Raises
    ------
    PhotoError
        If the sizes differ, and the history of the cube names no region of the photo.
    """
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
