"""Corrects parts of a cube by reference spectra, then restores the colours of the photo.

A part is a strip of rows or the visible part of an image. Its pixels depend on no others, so its
values are the same as in the whole cube. Letters: B bands, H rows, W columns; h, w rows and columns
of a part; k pixels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Doubles, Floats, Singles, doubles, singles
from napari_mst.base.errors import PhotoError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.calibration.corrections import balancing_gains
from napari_mst.cube import SpectralCube
from napari_mst.cube.colour import srgb_response
from napari_mst.cube.provenance import region_bounds
from napari_mst.photo.cameras import Acquisition, RecordedCapture
from napari_mst.photo.photo import Photo, PhotoLike, as_photo
from napari_mst.reconstruction.colour_fidelity.code_cells import (
    HALF_CODE,
    ColourCheck,
    each_block,
    row_blocks,
)
from napari_mst.reconstruction.colour_fidelity.correction import correct_colours
from napari_mst.reconstruction.colour_fidelity.moving import move
from napari_mst.reconstruction.colour_fidelity.photo_noise import removed_noise
from napari_mst.references.process import Posterior, corrected, features_of_spectra

# Criteria for a wrong photo: the number of compared pixels; a distance in 8-bit codes up to which
# colours count as equal; and a share of the distance between the colours of unrelated places. Over
# twelve scenes, the cube's own photo differed by at most 0.28 (noisy, or JPEG of quality 40), a
# mirrored photo by at least 0.48.
_SAMPLE = 10_000
_SAME = 1.0
_MOST_OFF = 0.4


@dataclass(frozen=True, eq=False)
class ColourView:
    """A photo with the *response* (B, 3) that takes the spectra of a cube to its linear light.

    *least* is the half width of a colour cell in 8-bit codes, see `correct_colours`.
    """

    photo: Photo
    response: Floats
    least: float = 0.0

    def of_part(self, key: tuple[slice, slice, slice]) -> "ColourView":
        """Return the view of the part of the cube selected by *key*."""
        photo = self.photo
        valid = None if photo.valid is None else photo.valid[key[1:]]
        part = replace(photo, pixels=photo.pixels[key], valid=valid, georeference=None)
        return replace(self, photo=part)

    def comparison(self, data: Floats) -> ColourCheck:
        """Compare the spectra *data* (B, H, W) with the photo."""
        return ColourCheck(data, self.photo, self.response.astype(np.float32), self.least)


def view_of(cube: SpectralCube, photo: Photo) -> ColourView | None:
    """Return the view of *cube* in *photo*; None if the response of the photo is unknown."""
    past = cube.provenance
    if past.camera:
        named = past.camera, past.illuminant, past.white, past.white_balance
        acquisition = (
            RecordedCapture(*named, sensor=past.sensor) if past.sensor else Acquisition(*named)
        )
        white = acquisition.white / photo.full_scale if acquisition.white else 1.0
        response = acquisition.response / balancing_gains(photo, acquisition)
        return ColourView(photo, response * white, HALF_CODE)
    was_corrected = bool(past.correction) or not past.model
    if photo.encoding != "srgb" or not was_corrected:
        return None
    return ColourView(photo, srgb_response(cube.wavelengths))


def moved_to_photo(data: Floats, view: ColourView | None, progress: Progress) -> str:
    """Move the spectra *data* (B, H, W) to the photo's colours, in place; returns a description."""
    if view is None:
        return ""
    return correct_colours(data, view.photo, view.response, progress, least=view.least).text


def photo_of(cube: SpectralCube, photo: Photo) -> Photo:
    """Return the part of *photo* that *cube* covers.

    The checksum tells whether the cube was made from this photo. Crops and copies are recognised by
    their colours, if the response of the photo is known.

    Raises
    ------
    PhotoError
        If the sizes differ and the history of the cube names no region of the photo, or if the
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
    """Raise `PhotoError` if the colours of *photo* fit *cube* hardly better than shuffled ones."""
    view = view_of(cube, photo)
    if view is None:
        return
    step = max(1, int(np.sqrt(photo.shape[0] * photo.shape[1] / _SAMPLE)))
    key = (slice(None), slice(None, None, step), slice(None, None, step))
    part = view.of_part(key)
    data = singles(cube.data[key])
    elsewhere = np.random.default_rng(0).permutation(data[0].size)
    mixed = data.reshape(len(data), -1)[:, elsewhere].reshape(data.shape)
    off, usual = (_mean_distance(part.comparison(each)) for each in (data, mixed))
    if off > max(_SAME, _MOST_OFF * usual):
        raise PhotoError(
            f"Expected the photo of the cube, got one whose colours are {off:.0f} codes off. "
            "Choose the photo that the cube was made from."
        )


def _mean_distance(comparison: ColourCheck) -> float:
    """Return the mean distance between the two colours of a pixel, in 8-bit codes."""
    distances = comparison.difference(slice(0, comparison.shape[0])).distance
    finite = distances[np.isfinite(distances)]
    return float(finite.mean()) if finite.size else 0.0


_NUMBERS = 1 << 21
"""Kernel values computed at a time, so that each intermediate array takes only 16 MB."""


class Part(NamedTuple):
    """A range of rows and columns of an image, perhaps only every n-th of them."""

    rows: range
    columns: range

    @classmethod
    def whole(cls, shape: tuple[int, int], step: int = 1) -> "Part":
        """Return the whole image of *shape* (H, W), or every *step*-th row and column of it."""
        return cls(range(0, shape[0], step), range(0, shape[1], step))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns (h, w)."""
        return len(self.rows), len(self.columns)

    @property
    def key(self) -> tuple[slice, slice, slice]:
        """Index that cuts the part out of an array (B, H, W)."""
        rows, columns = (slice(at.start, at.stop, at.step) for at in self)
        return slice(None), rows, columns

    def strips(self, points: int) -> Iterator[tuple[slice, "Part"]]:
        """Divide the part into strips thin enough for a kernel to this many *points*.

        Yields the rows of each strip within this part, and the strip.
        """
        for rows in row_blocks(self.shape, _NUMBERS // max(points, 1)):
            yield rows, Part(self.rows[rows], self.columns)


def spread(
    cube: SpectralCube,
    process: Posterior,
    progress: Progress = NO_PROGRESS,
    part: Part | None = None,
) -> Singles:
    """Correct *cube*, or a *part* of it, by *process*: (B, h, w).

    Colours change as well.
    """
    part = part or Part.whole(cube.shape[1:])
    data = np.empty((cube.shape[0], *part.shape), dtype=np.float32)
    strips = list(part.strips(len(process.points)))

    def move_strip(strip: tuple[slice, Part]) -> None:
        rows, pixels = strip
        data[:, rows] = _moved(cube, process, pixels)

    each_block(move_strip, strips, progress)
    return data


class Parts:
    """Parts of *cube* after any refinement, with the colours of *photo*.

    They equal the parts of the whole refined cube, except for noisy photos and JPEGs: there, only
    many pixels together show the true colours, so a part keeps the colours of its spectra.

    Raises
    ------
    PhotoError
        If the photo is not the photo of the cube, judging by its size or its colours.
    """

    def __init__(self, cube: SpectralCube, photo: PhotoLike) -> None:
        self._cube = cube
        view = view_of(cube, photo_of(cube, as_photo(photo)))
        self._view: ColourView | None = None
        if view is not None and removed_noise(view.comparison(cube.data), NO_PROGRESS) is None:
            self._view = view

    def refined(self, process: Posterior, part: Part) -> Singles:
        """Return *part* (B, h, w), corrected by *process*."""
        data = spread(self._cube, process, part=part)
        if self._view is None:
            return data
        # Each pixel of a clean photo shows the colour of its spectrum.
        comparison = self._view.of_part(part.key).comparison(data)

        def moved(rows: slice) -> None:
            move(comparison, rows, comparison.rendered(rows), comparison.cells.bounds(rows))

        each_block(moved, row_blocks(comparison.shape), NO_PROGRESS)
        return data


def _moved(cube: SpectralCube, process: Posterior, part: Part) -> Floats:
    spectra = spectra_of(cube, part)
    shift = process.shift(features_of(cube, part, spectra))
    return corrected(spectra, shift).T.reshape(-1, *part.shape)


def spectra_of(cube: SpectralCube, part: Part) -> Doubles:
    """Return the spectra (k, B) of all pixels of *part*, row by row."""
    numbers = doubles(cube.data[part.key])
    return numbers.reshape(len(numbers), -1).T


def features_of(cube: SpectralCube, part: Part, spectra: Doubles) -> Doubles:
    """Return the features (k, 6) of the *spectra* (k, B) of all pixels of *part*."""
    rows, columns = np.meshgrid(*part, indexing="ij")
    places = np.stack([rows.ravel(), columns.ravel()], axis=1) / max(cube.shape[1:])
    return features_of_spectra(spectra, places, cube.wavelengths)
