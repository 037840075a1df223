"""Classification of pixels by reference spectra: the most similar spectrum, or the share of each.

A pixel with a NaN value gets the label 0 in maps of labels and NaN in all others. Letters: B bands,
H rows, W columns; p endmembers; n pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from napari_mst.analysis.map_kind import Map, MapKind, Number, Text
from napari_mst.analysis.regions import point_spectrum
from napari_mst.analysis.shares import SOLVERS
from napari_mst.analysis.statistics import components
from napari_mst.analysis.strips import pixels, put
from napari_mst.analysis.transforms import FEWEST_BANDS, covered_bands, resampled, shared_bands
from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import SpectrumError
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.gaps import usable
from napari_mst.cube.lazy import lazy_of
from napari_mst.cube.metrics import spectral_angles
from napari_mst.cube.spectrum import Spectrum

LARGEST_ANGLE = 10.0
"""Default angle of `classes`, in degrees."""

MOST_CLASSES = 250
"""Largest number of spectra to classify by: each takes time, and layers may have thousands."""


@MapKind(
    "Spectral angle classes",
    "Each pixel gets the spectrum with the smallest spectral angle, if that angle is small enough.",
    content="labels",
    number=Number("angle", "Largest angle", LARGEST_ANGLE, 0.1, 90.0, 1, "deg"),
    needs="spectra",
)
def classes(
    cube: SpectralCube,
    spectra: Sequence[Spectrum],
    angle: float = LARGEST_ANGLE,
    *,
    progress: ProgressLike = None,
) -> Map:
    """Label each pixel with the most similar of *spectra*, if it lies within *angle* degrees.

    Label 1 is the first spectrum; 0 means none. Spectra are interpolated to the bands of the cube
    that all of them cover. A pixel that is zero everywhere has no angle. Kruse et al., Remote Sens.
    Environ. 44 (1993) 145, doi:10.1016/0034-4257(93)90013-N.

    Raises
    ------
    SpectrumError
        If there are no spectra or more than 250, if they share fewer than two bands with the cube,
        or if one of them is zero there.
    Cancelled
        Soon after *progress* was cancelled.
    """
    if len(spectra) > MOST_CLASSES:
        raise SpectrumError(
            f"Expected at most {MOST_CLASSES} spectra to classify by, got more. Leave some out."
        )
    part, members = members_on(cube, spectra)
    labels = np.zeros(cube.shape[1:], dtype=np.uint16)
    members /= np.linalg.norm(members, axis=1, keepdims=True)
    for rows, good, values in pixels(part, as_progress(progress)):
        with np.errstate(invalid="ignore"):  # a pixel that is zero everywhere has no angle
            cosines = members @ values / np.sqrt(np.einsum("bn,bn->n", values, values))
        smallest = np.degrees(np.arccos(cosines.max(axis=0).clip(-1, 1)))
        labels[rows][good] = np.where(smallest <= angle, cosines.argmax(axis=0) + 1, 0)
    names = tuple(spectrum.name for spectrum in spectra)
    tints = tuple(spectrum.colour for spectrum in spectra)
    return Map(cube, labels, names=names, tints=tints)


def members_on(cube: SpectralCube, spectra: Sequence[Spectrum]) -> tuple[SpectralCube, Doubles]:
    """Return *cube* cut to the bands that all *spectra* cover, and the spectra at these bands.

    The spectra are (spectra, bands). Raises `SpectrumError` if there are none, if they share fewer
    than two bands with the cube, or if one of them has gaps or only zeros there.
    """
    if not spectra:
        raise SpectrumError(
            "Expected one or more spectra to compare with, got none. Pin some, or open a library."
        )
    bands = shared_bands(cube, *spectra)
    at = cube.wavelengths[bands]
    members = np.stack([resampled(spectrum, at).values for spectrum in spectra])
    is_bad = ~np.isfinite(members).all(axis=1) | ~members.any(axis=1)
    if is_bad.any():
        name = spectra[int(is_bad.argmax())].name
        raise SpectrumError(
            f"Expected spectra of numbers that are not all zero, got {name[:60]!r}. Leave it out."
        )
    part = lazy_of(cube.data).part(np.flatnonzero(bands).tolist())
    return SpectralCube(part, at, cube.unit), members


@dataclass(frozen=True, eq=False)
class Match:
    """A library spectrum that resembles the spectrum looked up.

    Attributes
    ----------
    angle
        Spectral angle in degrees; 0 for the same shape.
    bands
        Number of compared bands.
    """

    spectrum: Spectrum
    angle: float
    bands: int


def best_matches(
    spectrum: Spectrum, library: Sequence[Spectrum], count: int | None = None
) -> list[Match]:
    """Return the *count* spectra of *library* (default: all) nearest to *spectrum*, nearest first.

    Every library spectrum is interpolated to the bands of *spectrum* that it covers; gaps are left
    out. A library spectrum is skipped if it shares fewer than two bands, has another unit or is
    zero. Equal angles keep the order of the library. `metrics.spectral_angles` defines the angle.

    Raises
    ------
    SpectrumError
        If no spectrum of the library can be compared with *spectrum*.

    Notes
    -----
    =================  ==================================================
    spectrum, library  any unit of values, since only shapes are compared
    returns            angles in degrees, 0 for the same shape
    =================  ==================================================

    Examples
    --------
    >>> leaf = nm.Spectrum([500, 550, 600], [0.1, 0.4, 0.2], name="leaf")
    >>> soil = nm.Spectrum([500, 550, 600], [0.2, 0.3, 0.4], name="soil")
    >>> matches = nm.best_matches(leaf.with_values(leaf.values * 2), [soil, leaf])
    >>> [(match.spectrum.name, round(match.angle, 1)) for match in matches]
    [('leaf', 0.0), ('soil', 26.9)]
    """
    candidates = (_match(spectrum, entry) for entry in library)
    matches = [match for match in candidates if match is not None]
    if not matches:
        raise SpectrumError(
            f"Expected a library that shares wavelengths in {spectrum.unit} with the spectrum, "
            f"got none such among {len(library)} spectra. Choose another library."
        )
    return sorted(matches, key=lambda match: match.angle)[:count]


def _match(spectrum: Spectrum, entry: Spectrum) -> Match | None:
    shared = covered_bands(spectrum, entry)
    if shared.sum() < FEWEST_BANDS:
        return None
    ours = spectrum.values[shared]
    theirs = resampled(entry, spectrum.wavelengths[shared]).values
    good = np.isfinite(ours) & np.isfinite(theirs)
    if good.sum() < FEWEST_BANDS:
        return None
    # Dark spectra have an angle, too.
    angle = float(spectral_angles(ours[good, None], theirs[good, None], dark=-np.inf)[0])
    return None if np.isnan(angle) else Match(entry, angle, int(good.sum()))


Constraint = Literal["sum to one", "non-negative", "free"]

_CONSTRAINTS = {
    "sum to one": "Shares of 0 or more that add up to 1",
    "non-negative": "Shares of 0 or more",
    "free": "Any numbers, as least squares give them",
}

_LEAST_STEP = 1e-6  # of the largest pixel; a smaller one is rounding
_GROWTH = 1 + 1e-6  # a smaller growth of the simplex is rounding


def endmembers(cube: SpectralCube, count: int = 3, progress: ProgressLike = None) -> list[Spectrum]:
    """Find the *count* purest pixels of *cube*: the corners of the largest simplex, by N-FINDR.

    The search works on the first *count* - 1 principal components. It starts from pixels that lie
    far apart, so its result is reproducible: Winter, Proc. SPIE 3753 (1999) 266,
    doi:10.1117/12.366289.

    Raises
    ------
    SpectrumError
        If *count* is not within 2 to the number of bands, or fewer than *count* pixels differ.
    Cancelled
        Soon after *progress* was cancelled.

    Notes
    -----
    =======  =====================================================
    cube     any unit: reflectance, radiance
    returns  float64 in the unit of the cube; wavelengths as there
    =======  =====================================================

    Examples
    --------
    >>> shares = np.random.default_rng(0).dirichlet((1, 1), (20, 30))
    >>> shares[2, 3], shares[11, 5] = (1, 0), (0, 1)
    >>> data = shares @ [[0.1, 0.2, 0.6], [0.5, 0.4, 0.3]]
    >>> cube = nm.SpectralCube(np.moveaxis(data, 2, 0), [450, 550, 650])
    >>> sorted(spectrum.name for spectrum in nm.endmembers(cube, count=2))
    ['pixel 11, 5', 'pixel 2, 3']
    """
    if not 2 <= count <= cube.shape[0]:
        raise SpectrumError(f"Expected 2 to {cube.shape[0]} endmembers, got {count}.")
    from scipy.linalg import qr

    cube = usable(cube)
    flat = components(cube, count - 1, progress=progress).data.reshape(count - 1, -1)
    good = np.flatnonzero(np.isfinite(flat).all(axis=0))
    points = np.vstack([np.ones(len(good)), flat[:, good]])
    # Each pivot lies far from the subspace of the previous pivots.
    triangle, pivots = qr(points, mode="r", pivoting=True)
    if abs(triangle[-1, count - 1]) <= _LEAST_STEP * np.linalg.norm(points, axis=0).max():
        raise SpectrumError(
            f"Expected {count} pixels that differ, got fewer. Look for fewer endmembers."
        )
    corners = pivots[:count].tolist()
    while True:
        # Replacing a corner by a pixel grows the simplex by the pixel's coordinate.
        growth = np.abs(np.linalg.solve(points[:, corners], points))
        corner, pixel = np.unravel_index(growth.argmax(), growth.shape)
        if growth[corner, pixel] <= _GROWTH:
            break
        corners[corner] = int(pixel)
    places = (divmod(int(good[corner]), cube.shape[2]) for corner in corners)
    return [point_spectrum(cube, *place, name=f"pixel {place[0]}, {place[1]}") for place in places]


@MapKind(
    "Abundances",
    "How much of each kept spectrum a pixel is mixed of, and what the mixture leaves (residual).",
    needs="spectra",
    text=Text("constraint", "Constraint", lambda _: _CONSTRAINTS),
    is_of_spectra=True,
    colormap="viridis",
)
def abundances(
    cube: SpectralCube,
    spectra: Sequence[Spectrum],
    constraint: Constraint = "sum to one",
    *,
    progress: ProgressLike = None,
) -> Map:
    """Share of each of *spectra* in every pixel: one plane per spectrum, then the residual.

    Shares are least-squares fits over the bands that all spectra cover. They are 0 or more and add
    up to 1 (Heinz & Chang, IEEE Trans. Geosci. Remote Sens. 39 (2001) 529, doi:10.1109/36.911111),
    0 or more (Lawson & Hanson 1974, chapter 23), or unconstrained. The residual is the root mean
    square over these bands of what the mixture leaves unexplained, in the unit of the cube.

    Raises
    ------
    SpectrumError
        If there are no spectra, if they share fewer than two bands with the cube or are linearly
        dependent there, or if *constraint* is unknown.
    Cancelled
        Soon after *progress* was cancelled.
    """
    if constraint not in SOLVERS:
        choices = ", ".join(SOLVERS)
        raise SpectrumError(f"Expected a constraint of {choices}, got {str(constraint)[:30]!r}.")
    part, members = members_on(cube, spectra)
    base, mixing = np.linalg.qr(members.T)
    if len(members) > len(mixing) or np.linalg.cond(mixing) > 1e10:
        raise SpectrumError(
            f"Expected spectra of which none is a mixture of others, got {len(members)} on "
            f"{members.shape[1]} bands. Leave some out."
        )
    planes = np.empty((len(members) + 1, *cube.shape[1:]), np.float32)
    solve = SOLVERS[constraint](mixing)
    for rows, good, values in pixels(part, as_progress(progress)):
        shares = solve(base.T @ values)
        values -= members.T @ shares
        residual = np.sqrt(np.einsum("bn,bn->n", values, values) / len(values))
        put(planes[:, rows], good, np.vstack([shares, residual]))
    names = (spectrum.name or f"spectrum {number}" for number, spectrum in enumerate(spectra, 1))
    return Map(cube, planes, (*names, "residual"))


@MapKind(
    "Endmembers and abundances",
    "The purest pixels (N-FINDR), how much of each a pixel is mixed of, and the residual.",
    number=Number("count", "Endmembers", 3, 2, 20),
    is_of_spectra=True,
    colormap="viridis",
)
def unmixed(cube: SpectralCube, count: int = 3, *, progress: ProgressLike = None) -> Map:
    """Share of the *count* purest pixels in every pixel, adding up to 1: see `endmembers`."""
    progress = as_progress(progress)
    found = endmembers(cube, int(count), progress.part(0, 0.3))
    made = abundances(cube, found, progress=progress.part(0.3, 1))
    return Map(cube, made.data, made.titles)
