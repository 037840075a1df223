"""Parts of a cube, corrected with the reference spectra and moved back to the colours of the photo.

A part is a strip of rows or the visible part of an image. Its pixels depend on no others, so its
numbers are the same as in the whole cube. Letters: B bands, H rows, W columns; h, w rows and
columns of a part; k pixels.
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

# Another photo is recognised by these: pixels that are compared; a distance in 8-bit codes within
# which two are the same; and a share of the distance between the colours of other places. Over
# twelve scenes, the cube's own photo differed by at most 0.28 (noisy, or JPEG of quality 40), a
# mirrored photo by at least 0.48.
_SAMPLE = 10_000
_SAME = 1.0
_MOST_OFF = 0.4


@dataclass(frozen=True, eq=False)
class ColourView:
    """A photo of the spectra of a cube: *response* (B, 3) takes them to its linear light.

    *least* is the half width of a colour cell in 8-bit codes, see `correct_colours`.
    """

    photo: Photo
    response: Floats
    least: float = 0.0

    def of_part(self, key: tuple[slice, slice, slice]) -> "ColourView":
        """The view of the part of the cube that *key* cuts out of it."""
        photo = self.photo
        valid = None if photo.valid is None else photo.valid[key[1:]]
        part = replace(photo, pixels=photo.pixels[key], valid=valid, georeference=None)
        return replace(self, photo=part)

    def comparison(self, data: Floats) -> ColourCheck:
        """The spectra *data* (B, H, W) beside the photo."""
        return ColourCheck(data, self.photo, self.response.astype(np.float32), self.least)


def view_of(cube: SpectralCube, photo: Photo) -> ColourView | None:
    """The view of *cube* in *photo*; None where a reconstruction does not know it either."""
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
    """Move the spectra *data* (B, H, W) to the photo's colours, in place, and say so in words."""
    if view is None:
        return ""
    return correct_colours(data, view.photo, view.response, progress, least=view.least).text


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
    """Refuse a *photo* whose colours fit *cube* hardly better than those of shuffled pixels."""
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
    """The mean distance of the two colours of a pixel, in 8-bit codes."""
    distances = comparison.difference(slice(0, comparison.shape[0])).distance
    finite = distances[np.isfinite(distances)]
    return float(finite.mean()) if finite.size else 0.0


_NUMBERS = 1 << 21
"""Kernel values that are computed at a time: 16 MB each for what it takes, in the cache of no core
but small."""


class Part(NamedTuple):
    """The pixels of some rows and columns of an image, perhaps only every n-th of them."""

    rows: range
    columns: range

    @classmethod
    def whole(cls, shape: tuple[int, int], step: int = 1) -> "Part":
        """The whole image of *shape* (H, W), or every *step*-th row and column of it."""
        return cls(range(0, shape[0], step), range(0, shape[1], step))

    @property
    def shape(self) -> tuple[int, int]:
        """(h, w)."""
        return len(self.rows), len(self.columns)

    @property
    def key(self) -> tuple[slice, slice, slice]:
        """Cuts the part out of an array of three axes, the last two of which are the image."""
        rows, columns = (slice(at.start, at.stop, at.step) for at in self)
        return slice(None), rows, columns

    def strips(self, points: int) -> Iterator[tuple[slice, "Part"]]:
        """Thin parts that make up this one, and the rows of it that each of them is.

        They are thin enough for the kernel to this many *points*.
        """
        for rows in row_blocks(self.shape, _NUMBERS // max(points, 1)):
            yield rows, Part(self.rows[rows], self.columns)


def spread(
    cube: SpectralCube,
    process: Posterior,
    progress: Progress = NO_PROGRESS,
    part: Part | None = None,
) -> Singles:
    """The numbers (B, h, w) of *cube*, or of a *part*, moved by what *process* says.

    Colours move with them.
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
    """Parts of *cube* as they are after any refinement, with the colours of *photo*.

    They are those of the whole refined cube, except for noisy photos and those with errors of JPEG:
    there only many pixels together show their colours, and a part keeps its own.

    Raises
    ------
    PhotoError
        If the photo is another one, by its size or its colours.
    """

    def __init__(self, cube: SpectralCube, photo: PhotoLike) -> None:
        self._cube = cube
        view = view_of(cube, photo_of(cube, as_photo(photo)))
        self._view: ColourView | None = None
        if view is not None and removed_noise(view.comparison(cube.data), NO_PROGRESS) is None:
            self._view = view

    def refined(self, process: Posterior, part: Part) -> Singles:
        """The numbers (B, h, w) of *part*, moved by what *process* says."""
        data = spread(self._cube, process, part=part)
        if self._view is None:
            return data
        # Each pixel of a clean photo shows the colour of its own spectrum.
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
    """The spectra (k, B) of all pixels of *part*, row by row."""
    numbers = doubles(cube.data[part.key])
    return numbers.reshape(len(numbers), -1).T


def features_of(cube: SpectralCube, part: Part, spectra: Doubles) -> Doubles:
    """Features (k, 6) of these *spectra* (k, B) of all pixels of *part*."""
    rows, columns = np.meshgrid(*part, indexing="ij")
    places = np.stack([rows.ravel(), columns.ravel()], axis=1) / max(cube.shape[1:])
    return features_of_spectra(spectra, places, cube.wavelengths)
