"""From a cube and known spectra to a better cube.

Letters: B bands, H rows, W columns, n spots, k pixels.
"""

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation import caution, defaults, memory
from napari_mst.adaptation.colours import moved_to_photo, photo_of, view_of
from napari_mst.adaptation.features import features_of_spectra, places_of_rows
from napari_mst.adaptation.fitting import fitted_kernel, scaled_bands
from napari_mst.adaptation.known import KnownSpectrum, check_known, known_values
from napari_mst.adaptation.memory import Adaptation
from napari_mst.adaptation.process import Posterior, Spots, corrected, errors_of, posterior
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeError, SpectrumError
from napari_mst.photo.photo import as_photo
from napari_mst.reconstruction.job import PhotoLike
from napari_mst.spectra.regions import point_spectrum
from napari_mst.watch import UNWATCHED, IsCancelled, Progress, Watch

_NUMBERS = 1 << 21
"""Kernel values that are computed at a time: 16 MB each for what it takes, in the cache of no core
but small."""
_MOST_PIXELS = 1 << 14
_THREADS = 4
_SPREADING = 0.6
"""Share of the time that the process takes; the rest is for the colours."""
_REFUSED = ("radiance", "relative radiance")


def adapt(
    cube: SpectralCube,
    photo: PhotoLike,
    known: Sequence[KnownSpectrum],
    progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
) -> SpectralCube:
    """*cube*, corrected everywhere by what is *known* at some spots (float32).

    Without known spectra it is *cube* itself. Its history keeps the known spectra; adapted again,
    it keeps to those of before as well. Missing bands of a known spectrum are corrected as the
    nearest ones that it has.

    Parameters
    ----------
    cube
        Reflectance, with wavelengths in nm: from a `Reconstructor`, or a file.
    photo
        The photo that the cube was made from: anything that `Reconstructor.reconstruct` takes.

    Raises
    ------
    CubeError
        If the cube is no reflectance, or has no wavelengths in nm.
    PhotoError
        If the photo is another one, by its size.
    SpectrumError
        If a spot lies outside, or a spectrum does not fit the cube.
    Cancelled
        Soon after *is_cancelled* returned true; *cube* is as it was.
    """
    check_cube(cube)
    source = photo_of(cube, as_photo(photo))
    given = list(known)
    check_known(cube, given)
    if not given:
        return cube
    adaptation, process = _learnt(cube, _with_former(cube, given))
    watch = Watch(progress, is_cancelled)
    data = spread(cube, process, watch.part(0, _SPREADING))
    text = moved_to_photo(data, view_of(cube, source), watch.part(_SPREADING, 1))
    return told(cube, data, adaptation, text)


def check_cube(cube: SpectralCube) -> None:
    """Refuse a cube without wavelengths, or of radiance. Raises `CubeError`."""
    if not cube.has_wavelengths:
        raise CubeError(
            f"Expected a cube with wavelengths in nm, got {cube.unit!r}. Say what its bands are."
        )
    if cube.quantity in _REFUSED:
        raise CubeError(
            f"Expected a cube of reflectance, got {cube.quantity}. "
            "Use a model that gives reflectance: known reflectances cannot correct it."
        )


def spots_of(cube: SpectralCube, known: Sequence[KnownSpectrum]) -> Spots:
    """The places of *known* spectra among colours, and how far *cube* is off there.

    Raises
    ------
    SpectrumError
        If a spectrum does not fit the cube, or the cube has no numbers at a spot.
    """
    true = known_values(cube, known)
    estimate = np.stack([_estimate(cube, one) for one in known])
    places = np.array([[one.row, one.column] for one in known]) / max(cube.shape[1:])
    features = features_of_spectra(estimate, places, cube.wavelengths)
    noise = np.array([one.uncertainty**2 for one in known])
    return Spots(features, without_gaps(errors_of(true, estimate)), noise)


def spread(cube: SpectralCube, process: Posterior, watch: Watch = UNWATCHED) -> NDArray[np.float32]:
    """The numbers of *cube* (B, H, W), moved by what *process* says; strips of rows at a time."""
    data = np.empty(cube.shape, dtype=np.float32)
    strips = list(row_strips(cube.shape[1:], len(process.points)))

    def move(rows: slice) -> None:
        watch.check()
        data[:, rows] = adapted_rows(cube, process, rows)

    with ThreadPoolExecutor(_THREADS) as threads:
        for number, _ in enumerate(threads.map(move, strips), 1):
            watch.reach(number / len(strips))
    return data


def adapted_rows(cube: SpectralCube, process: Posterior, rows: slice) -> NDArray[np.floating]:
    """Some *rows* (B, rows, W) of *cube*, moved by what *process* says; colours move with them."""
    strip = np.asarray(cube.data[:, rows], dtype=np.float64)
    estimate = strip.reshape(len(strip), -1).T
    shift = process.shift(features_of_rows(cube, rows))
    return corrected(estimate, shift).T.reshape(strip.shape)


def features_of_rows(cube: SpectralCube, rows: slice) -> NDArray[np.float64]:
    """Features (k, 6) of all pixels of some *rows* of *cube*, row by row."""
    strip = np.asarray(cube.data[:, rows], dtype=np.float64)
    estimate = strip.reshape(len(strip), -1).T
    return features_of_spectra(estimate, places_of_rows(rows, cube.shape[1:]), cube.wavelengths)


def row_strips(shape: tuple[int, int], points: int) -> Iterator[slice]:
    """Strips of rows of an image (H, W), thin enough for the kernel to so many *points*."""
    height, width = shape
    pixels = min(_MOST_PIXELS, _NUMBERS // max(points, 1))
    step = max(1, pixels // width)
    for start in range(0, height, step):
        yield slice(start, min(start + step, height))


def without_gaps(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """*errors* (n, B), gaps filled with the nearest band that is known; rows without any stay."""
    bands = np.arange(errors.shape[1])
    filled = errors.copy()
    for row in filled:
        known = np.flatnonzero(np.isfinite(row))
        if not known.size:
            continue
        nearest = known[np.abs(bands[:, None] - known).argmin(axis=1)]
        row[:] = row[nearest]
    return filled


def _with_former(cube: SpectralCube, known: Sequence[KnownSpectrum]) -> tuple[KnownSpectrum, ...]:
    """*known*, and the spectra that *cube* was adapted to before, but those of the same pixels."""
    places = {(one.row, one.column) for one in known}
    former = memory.known_spectra(cube.provenance)
    kept = [one for one in former if (one.row, one.column) not in places]
    return (*kept, *known)


def _learnt(cube: SpectralCube, known: tuple[KnownSpectrum, ...]) -> tuple[Adaptation, Posterior]:
    """Learn from *known* spectra how far *cube* is off."""
    spots = spots_of(cube, known)
    kernel = fitted_kernel(defaults.KERNEL, spots)
    scale = scaled_bands(kernel, spots, defaults.band_scale(cube.wavelengths))
    share = caution.reach(kernel, spots)
    # the fitted kernel would take a contradiction for noise
    doubts = caution.contradictions(defaults.KERNEL, spots)
    notes = [pair.told(known) for pair in doubts]
    for note in notes:
        warnings.warn(note, caution.ContradictingSpectra, stacklevel=3)
    process = posterior(kernel, spots, scale)
    process = replace(process, weights=process.weights * share)
    source = f"{len(known)} known {'spectrum' if len(known) == 1 else 'spectra'}"
    adaptation = Adaptation(spots, kernel, scale, share, known, source, {"doubts": notes})
    return adaptation, process


def told(
    cube: SpectralCube, data: NDArray[np.float32], adaptation: Adaptation, text: str
) -> SpectralCube:
    """*data* as a cube like *cube*, whose history tells of *adaptation* and of its colours."""
    past = cube.provenance
    note = f"Adapted to {adaptation.source}: {memory.METHOD}, {adaptation.reach:.0%} of the way."
    doubts = tuple(adaptation.settings.get("doubts", ()))
    provenance = replace(
        past,
        correction=text or past.correction,
        adaptation=memory.to_record(adaptation),
        assumptions=(*past.assumptions, note, *doubts),
    )
    return replace(cube, data=data, provenance=provenance)


def _estimate(cube: SpectralCube, one: KnownSpectrum) -> NDArray[np.float64]:
    """The mean estimate (B,) of the pixels of a spot."""
    values = point_spectrum(cube, one.row, one.column, one.window).values
    if not np.isfinite(values).all():
        raise SpectrumError(
            f"Expected numbers in the cube at {one.place}, got NaN. "
            "Choose a spot that the photo shows."
        )
    return values
