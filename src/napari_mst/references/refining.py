"""Refines a cube by reference spectra.

Letters: B bands, H rows, W columns, n spots, k pixels.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from napari_mst.analysis.regions import point_spectrum
from napari_mst.analysis.transforms import TRANSFORMS
from napari_mst.base.arrays import Doubles, Floats, Singles
from napari_mst.base.errors import CubeError, SpectrumError
from napari_mst.base.progress import NO_PROGRESS, Progress, ProgressLike, as_progress
from napari_mst.calibration.chart_calibration import Calibration
from napari_mst.calibration.grey_scale import GreyScale
from napari_mst.cube import SpectralCube
from napari_mst.cube.provenance import region_bounds
from napari_mst.cube.spectrum import Spectrum
from napari_mst.photo.photo import Photo, PhotoLike, as_photo
from napari_mst.reconstruction.colour_fidelity.photo_noise import removed_noise
from napari_mst.references import refinement_record
from napari_mst.references.colour_views import ColourView, moved_to_photo, photo_of, spread, view_of
from napari_mst.references.contradictions import (
    ContradictingSpectra,
    checked,
    consistent,
    unlike_estimates,
)
from napari_mst.references.process import (
    KERNEL,
    OF_PHOTO,
    Kernel,
    Posterior,
    Spots,
    band_scale,
    errors_of,
    features_of_spectra,
    fitted_kernel,
    misjudged,
    most_telling,
    posterior,
    reach,
    scaled_bands,
    without_gaps,
)
from napari_mst.references.reference_spectrum import (
    GREY,
    ReferenceSpectrum,
    check_references,
    greys_of,
    patches_of,
    reference_values,
)
from napari_mst.references.refinement_record import Refinement

_SPREADING = 0.6
"""Share of the time taken by the process; the colours take the rest."""
_KEPT = 256  # most informative blocks, kept in the history for prediction intervals
_UNMOVED = "colours as the reference spectra say, which outweigh those of the photo"
_REFUSED = ("radiance", "relative radiance", *TRANSFORMS)
# Peaks of the blue and red colour matching functions, in nm. Without wavelengths beyond them, part
# of the colour is missing.
_BLUE = 450.0
_RED = 600.0


def refine(
    cube: SpectralCube,
    photo: PhotoLike,
    references: Sequence[ReferenceSpectrum] | Calibration | GreyScale,
    progress: ProgressLike = None,
) -> SpectralCube:
    """Correct *cube* everywhere by *references*, spectra measured at some spots (float32).

    Without reference spectra, *cube* itself is returned. The history of the result keeps the
    reference spectra, and a further refinement still uses them. Bands that a reference spectrum
    lacks are corrected like its nearest bands.

    Parameters
    ----------
    cube
        Reflectance, with wavelengths in nm: from a `Reconstructor`, or a file.
    photo
        The photo from which the cube was made, in any form that `Reconstructor.reconstruct` takes.
    references
        Spectra; or the `Calibration` by a chart in the photo, for the spectra of its patches; or a
        `GreyScale`, for greys that the user named in the photo.

    Raises
    ------
    CubeError
        If the cube is not reflectance, or has no wavelengths in nm.
    PhotoError
        If the photo is not the photo of the cube, judging by its size or its colours.
    SpectrumError
        If a spot lies outside, or a spectrum does not fit the cube.
    Cancelled
        Soon after *progress* was cancelled; *cube* is unchanged.

    Notes
    -----
    ==========  ==================================================================
    cube        reflectance, 0 to about 1; wavelengths in nm
    photo       a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    references  reflectance, 0 to about 1; wavelengths in nm
    returns     float32 reflectance, 0 or more
    ==========  ==================================================================

    Examples
    --------
    >>> photo = np.full((16, 16, 3), 128, np.uint8)
    >>> cube = nm.Reconstructor(nm.load_model("pixelwise-srgb")).reconstruct(photo)
    >>> tile = nm.ReferenceSpectrum(8, 8, np.full(31, 0.25))
    >>> better = nm.refine(cube, photo, [tile])
    >>> [each.spectrum(8, 8).values[::10].round(2) for each in (cube, better)]
    [array([0.17, 0.22, 0.22, 0.22]), array([0.25, 0.23, 0.21, 0.25])]
    """
    check_cube(cube)
    whole = as_photo(photo)
    source = photo_of(cube, whole)
    doubts: tuple[str, ...] = ()
    if isinstance(references, GreyScale):
        doubts = references.warnings
        references = _within(greys_of(references, whole), cube, whole)
    elif isinstance(references, Calibration):
        references = _within(patches_of(references), cube, whole)
    reference_spectra = list(references)
    if not reference_spectra:
        return cube
    learnt = learn(cube, reference_spectra, view_of(cube, source))
    refinement = learnt.refinement
    for doubt in refinement.doubts:
        warnings.warn(doubt, ContradictingSpectra, stacklevel=2)
    # The caller saw these warnings when the greys were calibrated; the history keeps them.
    learnt = learnt._replace(refinement=replace(refinement, doubts=(*doubts, *refinement.doubts)))
    return applied(cube, source, learnt, as_progress(progress))


def _within(
    references: list[ReferenceSpectrum], cube: SpectralCube, photo: Photo
) -> list[ReferenceSpectrum]:
    """Convert *references* from pixels of *photo* to pixels of *cube*, perhaps a region of it."""
    if photo.shape == cube.shape[1:]:
        return references
    top, _, left, _ = region_bounds(cube.provenance.region) or (0, 0, 0, 0)
    return [replace(spot, row=spot.row - top, column=spot.column - left) for spot in references]


class Learnt(NamedTuple):
    """The correction of a cube by reference spectra, for `applied` to carry out.

    *refinement* goes into the history of the refined cube; *process* corrects any pixel.
    """

    refinement: Refinement
    process: Posterior


def learn(
    cube: SpectralCube, references: Sequence[ReferenceSpectrum], view: ColourView | None = None
) -> Learnt:
    """Learn the correction of *cube* from *references* and the references of earlier refinements.

    Spectra that contradict the colours of the photo of *view*, or all other spectra, are left out.
    Some dozens of spectra take milliseconds. Raises the errors of `refine`.
    """
    check_cube(cube)
    check_references(cube, references)
    noise = None if view is None else removed_noise(view.comparison(cube.data), NO_PROGRESS)
    is_jpeg = noise is not None and noise.is_jpeg
    references, notes = checked(cube, view, references, is_jpeg)
    again = {spot.place: spot for spot in references}
    former = refinement_record.reference_spectra(cube.provenance)
    every = (*(spot for spot in former if spot.place not in again), *references)
    photo = "" if noise is None else refinement_record.JPEG if is_jpeg else refinement_record.NOISE
    if _is_by_camera(cube, every):
        photo = refinement_record.CAMERA
    spots = spots_of(cube, every)
    kept = consistent(spots, cube.wavelengths, [spot.is_trusted for spot in every])
    notes += [
        f"The reference spectrum at {spot.place} was left out: the others contradict it."
        for number, spot in enumerate(every)
        if number not in kept
    ]
    every, spots = tuple(every[number] for number in kept), spots[kept]
    notes += unlike_estimates(spots, every)
    learnt = learnt_from(cube, spots, _source(every), every, tuple(notes))
    return learnt._replace(refinement=replace(learnt.refinement, photo=photo))


def _is_by_camera(cube: SpectralCube, references: Sequence[ReferenceSpectrum]) -> bool:
    """True if an unknown camera took the photo of *cube*, perhaps corrected by a chart."""
    is_charted = any(spot.hidden > 0 for spot in references)
    return prior_of(cube) is OF_PHOTO or (is_charted and not cube.provenance.camera)


def _source(references: Sequence[ReferenceSpectrum]) -> str:
    """Count greys and other spectra in words."""
    greys = sum(isinstance(s.spectrum, Spectrum) and s.spectrum.name == GREY for s in references)
    others = len(references) - greys
    counts = (
        f"{greys} grey {'patch' if greys == 1 else 'patches'}" if greys else "",
        f"{others} reference {'spectrum' if others == 1 else 'spectra'}" if others else "",
    )
    return " and ".join(filter(None, counts))


def learnt_from(
    cube: SpectralCube,
    spots: Spots,
    source: str,
    references: tuple[ReferenceSpectrum, ...] = (),
    doubts: tuple[str, ...] = (),
) -> Learnt:
    """Learn the correction of *cube* from *spots*: *references*, or blocks of a coarse cube."""
    kernel = fitted_kernel(spots)
    scale = scaled_bands(kernel, spots, band_scale(cube.wavelengths, spots.prior))
    share = reach(kernel, spots)
    if references:
        scale = scale * misjudged(kernel, spots, scale, share)
    process = posterior(kernel, spots, scale)
    process = replace(process, weights=process.weights * share)
    if not references and len(spots) > _KEPT:
        spots = spots[most_telling(kernel, spots.features, _KEPT)]
    return Learnt(Refinement(spots, kernel, scale, share, references, source, doubts), process)


def applied(
    cube: SpectralCube, photo: Photo, learnt: Learnt, progress: Progress = NO_PROGRESS
) -> SpectralCube:
    """Correct *cube* everywhere by the *learnt* errors, and restore the colours of its *photo*."""
    refinement = learnt.refinement
    if not len(refinement.spots):  # all were left out: the cube only records why
        texts = (*cube.provenance.assumptions, *refinement.doubts)
        return replace(cube, provenance=replace(cube.provenance, assumptions=texts))
    data = spread(cube, learnt.process, progress.part(0, _SPREADING))
    if refinement.is_by_camera:
        text = _UNMOVED if cube.provenance.correction else ""
    else:
        text = moved_to_photo(data, view_of(cube, photo), progress.part(_SPREADING, 1))
    return with_history(cube, data, refinement, text)


def check_reflectance(cube: SpectralCube) -> None:
    """Raise `CubeError` if the cube has no wavelengths, or is of another quantity."""
    if not cube.has_wavelengths:
        raise CubeError(
            f"Expected a cube with wavelengths in nm, got {cube.unit!r}. Say what its bands are."
        )
    if cube.quantity in _REFUSED:
        raise CubeError(
            f"Expected a cube of reflectance, got {cube.quantity}. "
            "Choose a cube of reflectance: known reflectances cannot correct it."
        )


def check_cube(cube: SpectralCube) -> None:
    """Raise `CubeError` as `check_reflectance`, or if bands lack part of the photo's colours."""
    check_reflectance(cube)
    low, high = cube.wavelengths.min(), cube.wavelengths.max()
    if low > _BLUE or high < _RED:
        raise CubeError(
            f"Expected bands from {_BLUE:g} nm or less to {_RED:g} nm or more, which make up the "
            f"colours of a photo, got {low:g}-{high:g} nm. Refine it before bands are cut away."
        )


def spots_of(cube: SpectralCube, references: Sequence[ReferenceSpectrum]) -> Spots:
    """Return the features of *references*, and the errors of *cube* there.

    Raises
    ------
    SpectrumError
        If a spectrum does not fit the cube, or the cube is not finite at a spot.
    """
    if not references:
        return Spots(np.empty((0, 6)), np.empty((0, len(cube.wavelengths))), np.empty(0))
    true = reference_values(cube, references)
    estimate = np.stack([_estimate(cube, spot) for spot in references])
    pixels = np.array([[spot.row, spot.column] for spot in references])
    return spots_at(cube, pixels, true, estimate, (spot.uncertainty**2 for spot in references))


def spots_at(
    cube: SpectralCube,
    pixels: Floats,
    true: Doubles,
    estimate: Doubles,
    noise: Iterable[float],
) -> Spots:
    """Return spots at *pixels* (n, 2), with *true* spectra (n, B) and the *estimate* of *cube*."""
    places = pixels / max(cube.shape[1:])
    features = features_of_spectra(estimate, places, cube.wavelengths)
    errors = without_gaps(errors_of(true, estimate))
    return Spots(features, errors, np.array([*noise]), prior_of(cube))


def prior_of(cube: SpectralCube) -> Kernel:
    """Return the prior kernel for the errors of *cube*."""
    return OF_PHOTO if "brightness" in cube.provenance.error_band else KERNEL


def with_history(
    cube: SpectralCube, data: Singles, refinement: Refinement, text: str
) -> SpectralCube:
    """Return *data* as a cube like *cube*, whose history records *refinement* and its colours."""
    past = cube.provenance
    note = (
        f"Refined to {refinement.source}: {refinement_record.METHOD}, "
        f"{refinement.reach:.0%} of the way."
    )
    provenance = replace(
        past,
        correction=text or past.correction,
        refinement=refinement_record.to_record(refinement),
        assumptions=(*past.assumptions, note, *refinement.doubts),
    )
    return replace(cube, data=data, provenance=provenance)


def _estimate(cube: SpectralCube, spot: ReferenceSpectrum) -> Doubles:
    """Return the mean estimate (B,) over the pixels of a spot."""
    values = point_spectrum(cube, spot.row, spot.column, spot.window).values
    if not np.isfinite(values).all():
        raise SpectrumError(
            f"Expected numbers in the cube at {spot.place}, got NaN. "
            "Choose a spot that the photo shows."
        )
    return values
