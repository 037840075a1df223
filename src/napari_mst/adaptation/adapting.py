"""From a cube and known spectra to a better cube.

Letters: B bands, H rows, W columns, n spots, k pixels.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from napari_mst.adaptation import caution, defaults, memory
from napari_mst.adaptation.colours import moved_to_photo, photo_of, view_of
from napari_mst.adaptation.features import features_of_spectra
from napari_mst.adaptation.fitting import fitted_kernel, misjudged, scaled_bands
from napari_mst.adaptation.known import KnownSpectrum, check_known, known_values
from napari_mst.adaptation.memory import Adaptation
from napari_mst.adaptation.parts import spread
from napari_mst.adaptation.process import Posterior, Spots, errors_of, posterior
from napari_mst.cube import SpectralCube
from napari_mst.errors import CubeError, SpectrumError
from napari_mst.photo.photo import Photo, PhotoLike, as_photo
from napari_mst.spectra.regions import point_spectrum
from napari_mst.watch import UNWATCHED, Watch, Watched, watching

_SPREADING = 0.6
"""Share of the time that the process takes; the rest is for the colours."""
_REFUSED = ("radiance", "relative radiance")
# nm, the peaks of the colour matching functions of blue and red: without what lies before and
# behind them, a part of the colour is missing
_BLUE = 450.0
_RED = 600.0


def adapt(
    cube: SpectralCube,
    photo: PhotoLike,
    known: Sequence[KnownSpectrum],
    watch: Watched = None,
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
        If the photo is another one, by its size or its colours.
    SpectrumError
        If a spot lies outside, or a spectrum does not fit the cube.
    Cancelled
        Soon after *watch* was cancelled; *cube* is as it was.

    Notes
    -----
    =======  ==================================================================
    cube     reflectance, 0 to about 1; wavelengths in nm
    photo    a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    known    reflectance, 0 to about 1; wavelengths in nm
    returns  float32 reflectance, 0 or more
    =======  ==================================================================

    Examples
    --------
    >>> photo = np.full((16, 16, 3), 128, np.uint8)
    >>> cube = nm.Reconstructor(nm.load_model("pixelwise-srgb")).reconstruct(photo)
    >>> tile = nm.KnownSpectrum(8, 8, np.full(31, 0.25))
    >>> better = nm.adapt(cube, photo, [tile])
    >>> cube.spectrum(8, 8)[::10].round(2), better.spectrum(8, 8)[::10].round(2)
    (array([0.17, 0.22, 0.22, 0.22], dtype=float32), array([0.25, 0.23, 0.21, 0.25], dtype=float32))
    """
    check_cube(cube)
    source = photo_of(cube, as_photo(photo))
    given = list(known)
    if not given:
        return cube
    learnt = learn(cube, given)
    for doubt in learnt.doubts:
        warnings.warn(doubt, caution.ContradictingSpectra, stacklevel=2)
    return applied(cube, source, learnt, watching(watch))


@dataclass(frozen=True, eq=False)
class Learnt:
    """The correction of one cube by known spectra, not yet carried out: `applied` does that.

    Attributes
    ----------
    adaptation
        All that the history of the adapted cube keeps.
    process
        Moves any pixel of the cube.
    """

    adaptation: Adaptation
    process: Posterior

    @property
    def doubts(self) -> tuple[str, ...]:
        """A sentence for each two known spectra that contradict each other, now or before."""
        return tuple(self.adaptation.settings.get("doubts", ()))


def learn(cube: SpectralCube, known: Sequence[KnownSpectrum]) -> Learnt:
    """The correction of *cube* by *known* spectra, and by those that it was adapted to before.

    It takes milliseconds for some dozens of them. Raises as `adapt`.
    """
    check_cube(cube)
    check_colours(cube)
    check_known(cube, known)
    again = {(one.row, one.column): one for one in known}
    former = memory.known_spectra(cube.provenance)
    kept = [one for one in former if (one.row, one.column) not in again]
    replaced = [(one, again[one.row, one.column]) for one in former if one not in kept]
    notes = [_replacement(cube, *pair) for pair in replaced]
    return _learnt(cube, (*kept, *known), [note for note in notes if note])


def applied(
    cube: SpectralCube, photo: Photo, learnt: Learnt, watch: Watch = UNWATCHED
) -> SpectralCube:
    """*cube*, corrected everywhere by what was *learnt* of it, with the colours of its *photo*."""
    data = spread(cube, learnt.process, watch.part(0, _SPREADING))
    view = view_of(cube, photo)
    text = moved_to_photo(data, view, watch.part(_SPREADING, 1))
    return told(cube, data, learnt.adaptation, text)


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


def check_colours(cube: SpectralCube) -> None:
    """Refuse a cube that lacks a part of the colours of its photo. Raises `CubeError`."""
    low, high = cube.wavelengths.min(), cube.wavelengths.max()
    if low > _BLUE or high < _RED:
        raise CubeError(
            f"Expected bands from {_BLUE:g} nm or less to {_RED:g} nm or more, which make up the "
            f"colours of a photo, got {low:g}-{high:g} nm. Adapt it before bands are cut away."
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


def _replacement(cube: SpectralCube, first: KnownSpectrum, second: KnownSpectrum) -> str:
    """A sentence if the *second* spectrum of a spot contradicts the *first*, else ""."""
    before, after = known_values(cube, [first, second])
    errors = errors_of(after, before)
    shared = errors[np.isfinite(errors)]
    difference = np.sqrt(np.square(shared).sum() / max(shared.size, 1))
    noise = np.hypot(first.uncertainty, second.uncertainty)
    if difference <= max(caution.LEAST_APART, caution.APART * noise):
        return ""
    return (
        f"The known spectrum at {first.place} replaces one that differs by {difference:.0%}, whose "
        "correction stays in other pixels: if it was wrong, adapt the first cube again."
    )


def _learnt(
    cube: SpectralCube, known: tuple[KnownSpectrum, ...], replacements: Sequence[str]
) -> Learnt:
    """Learn from *known* spectra how far *cube* is off."""
    spots = spots_of(cube, known)
    kernel = fitted_kernel(defaults.KERNEL, spots)
    scale = scaled_bands(kernel, spots, defaults.band_scale(cube.wavelengths))
    share = caution.reach(kernel, spots)
    scale = scale * misjudged(kernel, spots, scale, share)
    # the fitted kernel would take a contradiction for noise
    doubts = caution.contradictions(defaults.KERNEL, spots)
    notes = [*replacements, *(pair.told(known) for pair in doubts)]
    process = posterior(kernel, spots, scale)
    process = replace(process, weights=process.weights * share)
    source = f"{len(known)} known {'spectrum' if len(known) == 1 else 'spectra'}"
    adaptation = Adaptation(spots, kernel, scale, share, known, source, {"doubts": notes})
    return Learnt(adaptation, process)


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
