"""Suggests spots where a measurement would help most.

From many candidates, the spot that lowers the uncertainty of the whole image most is chosen; then
the next spot, as if the first one were measured. This works because the variance of a Gaussian
process does not depend on the measured values. It is greedy A-optimal design: Krause, Singh,
Guestrin, J. Mach. Learn. Res. 9 (2008) 235. Letters: n candidates, t targets.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from napari_mst.base.arrays import Doubles, Indices, Mask, doubles
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.photo.photo import Photo, PhotoLike, as_photo
from napari_mst.references.colour_views import photo_of
from napari_mst.references.process import (
    Kernel,
    Spots,
    drawn,
    features_of_spectra,
    fitted_kernel,
    posterior,
)
from napari_mst.references.reference_spectrum import ReferenceSpectrum, check_references
from napari_mst.references.refining import check_cube, prior_of, spots_of

MOST = 256
"""Largest number of suggestions at a time."""

_CANDIDATES = 1000
_TARGETS = 1000
_HALF_WINDOW = 1  # of the usual spot of 3 x 3 pixels
_DARK = 0.02  # reflectance in any band below which a measurement is mostly noise
_DIM = 0.05  # mean reflectance below which a measurement is mostly noise
_UNEVEN = 1.0  # weight of the variance of the features in a spot, as noise


def suggest_measurements(
    cube: SpectralCube,
    photo: PhotoLike,
    references: Sequence[ReferenceSpectrum] = (),
    count: int = 4,
    progress: ProgressLike = None,
) -> list[tuple[int, int]]:
    """Suggest *count* spots (row, column) to measure, the most helpful first.

    Suggestions depend only on the photo and the estimate, and avoid dark and clipped pixels. They
    are reproducible. *references* count as measured. Fewer spots are returned if the image has no
    further measurable places.

    Raises
    ------
    CubeError, PhotoError, SpectrumError
        As `refine`; `SpectrumError` also if *count* is out of range, or if all pixels are dark or
        clipped.
    Cancelled
        Soon after *progress* was cancelled.

    Notes
    -----
    =======  ==================================================================
    cube     reflectance, 0 to about 1; wavelengths in nm
    photo    a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    returns  pixels, (row, column)
    =======  ==================================================================

    Examples
    --------
    >>> photo = np.full((32, 32, 3), 128, np.uint8)
    >>> photo[:, 16:] = (200, 90, 60)
    >>> cube = nm.Reconstructor(nm.load_model("pixelwise-srgb")).reconstruct(photo)
    >>> nm.suggest_measurements(cube, photo, count=2)
    [(15, 9), (16, 24)]
    """
    check_cube(cube)
    source = photo_of(cube, as_photo(photo))
    reference_spectra = list(references)
    check_references(cube, reference_spectra)
    if not 1 <= count <= MOST:
        raise SpectrumError(f"Expected 1 to {MOST} suggestions, got {count}. Ask for fewer.")
    progress = as_progress(progress)
    measurable, lit = _measurable(cube, source)
    candidates = _spaced(measurable, _CANDIDATES)
    targets = _spaced(lit, _TARGETS)
    spots = spots_of(cube, reference_spectra) if reference_spectra else None
    kernel = prior_of(cube) if spots is None else fitted_kernel(spots)
    at, unevenness = _window_features(cube, candidates)
    design = Design(kernel, at, _window_features(cube, targets, half=0)[0], unevenness, spots)
    chosen = list[int]()
    for _ in range(min(count, len(candidates))):
        progress.check()
        chosen.append(design.next_best())
    return [(int(row), int(column)) for row, column in candidates[chosen]]


class Design:
    """Covariances between candidates and targets, given the spots measured so far.

    Parameters
    ----------
    candidates
        (n, 6) features of measurable spots.
    targets
        (t, 6) features of pixels all over the image, whose uncertainty is to fall.
    unevenness
        (n,) variance of the features within each candidate.
    """

    def __init__(
        self,
        kernel: Kernel,
        candidates: Doubles,
        targets: Doubles,
        unevenness: Doubles,
        references: Spots | None = None,
    ) -> None:
        self._among = kernel(candidates, candidates)
        self._across = kernel(targets, candidates)
        # A spot on an edge mixes colours and is valid for no pixel.
        self._noise = kernel.noise + _UNEVEN * unevenness * kernel.colour
        self._chosen = list[int]()
        if references is not None:
            process = posterior(kernel, references, np.ones(references.errors.shape[1]))
            to_known = kernel(candidates, process.points)
            self._among -= to_known @ process.precision @ to_known.T
            self._across -= kernel(targets, process.points) @ process.precision @ to_known.T

    def next_best(self) -> int:
        """Return the candidate that lowers the variances most, and count it as measured."""
        variance = np.maximum(np.diag(self._among), 0) + self._noise
        gain = np.square(self._across).sum(axis=0) / variance
        gain[self._chosen] = -1
        best = int(gain.argmax())
        self._chosen.append(best)
        chosen = self._among[:, best].copy()
        theirs = self._across[:, best].copy()
        self._among -= np.outer(chosen, chosen) / variance[best]
        self._across -= np.outer(theirs, chosen) / variance[best]
        return best


def _measurable(cube: SpectralCube, photo: Photo) -> tuple[Mask, Mask]:
    """Return masks (H, W) of the centres of measurable 3 x 3 spots, and of pixels not dark."""
    height, width = photo.shape
    lit = np.empty((height, width), dtype=bool)
    usable = np.empty((height, width), dtype=bool)
    for row in range(height):
        line = doubles(cube.data[:, row])
        shown = photo.rows(row, row + 1, linear=False)[:, 0]
        lit[row] = (line.min(axis=0) > _DARK) & (line.mean(axis=0) > _DIM)
        usable[row] = lit[row] & (shown < 1).all(axis=0)
    if photo.valid is not None:
        lit &= photo.valid
        usable &= photo.valid
    # Imported late, since the docks import this module and must open quickly.
    from scipy.ndimage import binary_erosion

    measurable = binary_erosion(usable, np.ones((3, 3)))  # excludes the border
    if not measurable.any():
        measurable = usable
    if not measurable.any():
        raise SpectrumError(
            "Expected pixels that can be measured, got only dark or clipped ones. "
            "Take another photo."
        )
    return measurable, lit


def _spaced(mask: Mask, count: int) -> Indices:
    """Draw at most *count* pixels (n, 2) of *mask* at random but reproducibly."""
    pixels = np.flatnonzero(mask)
    pixels = pixels[drawn(pixels.size, count)]
    return np.stack(np.divmod(pixels, mask.shape[1]), axis=1)


def _window_features(
    cube: SpectralCube, pixels: Indices, half: int = _HALF_WINDOW
) -> tuple[Doubles, Doubles]:
    """Return features (n, 6) of spots around *pixels* (n, 2), and their colour variance (n,)."""
    height, width = cube.shape[1:]
    places = pixels / max(height, width)
    shifts = range(-half, half + 1)
    around = list[Doubles]()
    total = np.zeros((len(pixels), len(cube.wavelengths)))
    for shift in product(shifts, shifts):
        rows, columns = (pixels + shift).clip(0, (height - 1, width - 1)).T
        spectra = doubles(cube.data[:, rows, columns]).T
        total += spectra
        around.append(features_of_spectra(spectra, places, cube.wavelengths))
    mean = features_of_spectra(total / len(around), places, cube.wavelengths)
    spread = np.square(np.stack(around)[:, :, :4] - mean[:, :4]).sum(axis=2).mean(axis=0)
    return mean, spread
