"""Reference spectra measured at some spots of a scene.

Letters: B bands, n reference spectra.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.analysis.regions import Region
from napari_mst.base.arrays import Brief, Doubles, Floats
from napari_mst.base.errors import NapariMstError, SpectrumError
from napari_mst.calibration.chart import CHARTS
from napari_mst.calibration.chart_calibration import Calibration
from napari_mst.calibration.grey_scale import BRIGHT, GreyScale
from napari_mst.calibration.white_patch import patch_values, rectangle_of
from napari_mst.cube import NANOMETRES, SpectralCube
from napari_mst.cube.colour import averaging
from napari_mst.cube.parts import plain_array
from napari_mst.cube.spectrum import Spectrum
from napari_mst.photo.cameras import GRID
from napari_mst.photo.photo import Photo

BRIGHTEST = 2.0
"""Largest plausible reflectance. Larger values mean per cent, counts or radiance."""

GREY = "grey patch"
"""Name of the flat spectrum of a grey patch."""

_OF_BRIGHT = 0.5
"""Uncertainty of a nearly clipped patch, which hardly tells how bright darker pixels are."""

_FEWEST_SHARED = 0.5  # share of the cube's bands that a reference spectrum must cover
_GAP = 1.5  # longest gap, in bands of the cube, over which a curve is interpolated


@dataclass(frozen=True, eq=False, repr=False)
class ReferenceSpectrum(Brief):
    """The true reflectance at one spot of a scene.

    Attributes
    ----------
    row, column
        The pixel in the middle of the spot.
    spectrum
        Reflectance, 0 to about 1: a `Spectrum` on wavelengths in nm, or one value for each band of
        the cube.
    window
        Side of the square of pixels that was measured: 1, 3, 5, ...
    uncertainty
        Standard deviation of the measurement, as a share of its values: 0.03 for 3 %.
    hidden
        Standard deviation, as a share, of the error that the spot cannot show because the photo was
        calibrated with this very spectrum; 0 if it was not. It widens the prediction intervals.
    is_certain
        Whether to use the spectrum unchanged, even if its colour differs from the photo or other
        spectra contradict it.

    Raises
    ------
    SpectrumError
        If the window is not odd, if uncertainty or hidden error is not a number from 0 to 1, or if
        the values are not reflectance.

    Notes
    -----
    ===================  ============================================
    spectrum, values     reflectance, 0 to about 1; wavelengths in nm
    uncertainty, hidden  shares of the values, 0-1
    ===================  ============================================

    Examples
    --------
    >>> tile = nm.Spectrum([400, 500, 600, 700], [0.2, 0.3, 0.5, 0.5])
    >>> nm.ReferenceSpectrum(120, 80, tile, uncertainty=0.03).place
    'row 120, column 80'
    """

    row: int
    column: int
    spectrum: Spectrum | ArrayLike
    window: int = 3
    uncertainty: float = 0.0
    hidden: float = 0.0
    is_certain: bool = False

    def __post_init__(self) -> None:
        for name in ("row", "column", "window"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        if self.window < 1 or self.window % 2 == 0:
            raise SpectrumError(
                f"Expected a window of 1, 3, 5, ... pixels, got {self.window}. Choose an odd one."
            )
        for name, share in (("an uncertainty", self.uncertainty), ("a hidden error", self.hidden)):
            if not (math.isfinite(share) and 0 <= share <= 1):
                raise SpectrumError(
                    f"Expected {name} from 0 to 1, got {share!r}. Give 0.03 for 3 %."
                )
        if not isinstance(self.spectrum, Spectrum):
            object.__setattr__(self, "spectrum", _values(self.spectrum, self.place))
        check_values(self.values, f"at {self.place}")

    @property
    def place(self) -> str:
        """Row and column, for a message."""
        return f"row {self.row}, column {self.column}"

    @property
    def is_trusted(self) -> bool:
        """True if the spectrum is used unchecked, or the photo was calibrated with it."""
        return self.is_certain or self.hidden > 0

    @property
    def values(self) -> Doubles:
        """The values as given."""
        given = self.spectrum
        return given.values if isinstance(given, Spectrum) else np.asarray(given)


def patches_of(calibration: Calibration) -> list[ReferenceSpectrum]:
    """Return the patches of a chart as reference spectra of the photo that shows it."""
    chart = calibration.chart
    patches = zip(chart.centres, CHARTS[chart.kind].reflectances, calibration.patches, strict=True)
    return [
        ReferenceSpectrum(
            round(row),
            round(column),
            Spectrum(GRID, reflectance),
            min(chart.window, 9),
            hidden=report.hidden,
        )
        for number, ((row, column), reflectance, report) in enumerate(patches)
        if number not in (calibration.unused, *calibration.contradicting)
    ]


def greys_of(scale: GreyScale, photo: Photo) -> list[ReferenceSpectrum]:
    """Return the greys of a scale as flat reference spectra of the *photo* that shows them."""
    spots = []
    for patch in scale.patches:
        top, bottom, left, right = rectangle_of(photo.shape, patch.place)
        half = (min(bottom - top, right - left) - 1) // 2
        spot = ReferenceSpectrum(
            (top + bottom - 1) // 2,
            (left + right - 1) // 2,
            Spectrum(GRID, np.full(len(GRID), patch.reflectance), name=GREY),
            2 * half + 1,
            _OF_BRIGHT if patch_values(photo, patch.place, []).max() > BRIGHT else 0.0,
            is_certain=True,  # patches named by the user are believed
        )
        spots.append(spot)
    return spots


def check_references(cube: SpectralCube, references: Sequence[ReferenceSpectrum]) -> None:
    """Check that every spot lies within *cube* and has a single spectrum.

    Raises
    ------
    SpectrumError
        If a spot lies outside or has two spectra.
    """
    seen: set[tuple[int, int, int]] = set()
    for spot in references:
        if not isinstance(spot, ReferenceSpectrum):
            raise SpectrumError(
                f"Expected reference spectra, got {type(spot).__name__}. Pass a list of "
                "ReferenceSpectrum."
            )
        Region.of_window(spot.row, spot.column, cube.shape[1:], spot.window)
        place = spot.row, spot.column, spot.window
        if place in seen:
            raise SpectrumError(
                f"Expected one spectrum a spot, got two at {spot.place}. "
                "Keep the one that is right."
            )
        seen.add(place)


def reference_values(cube: SpectralCube, references: Sequence[ReferenceSpectrum]) -> Doubles:
    """Return the known reflectances (n, B) at the bands of *cube*; NaN in gaps.

    Raises
    ------
    SpectrumError
        If a spectrum has another number of bands or another unit, or shares too few wavelengths
        with the cube.
    """
    return np.stack([_at_bands(spot, cube) for spot in references])


def _at_bands(spot: ReferenceSpectrum, cube: SpectralCube) -> Doubles:
    bands = len(cube.wavelengths)
    if not isinstance(spot.spectrum, Spectrum):
        if spot.values.shape != (bands,):
            raise SpectrumError(
                f"Expected {bands} values, one a band, at {spot.place}, got {spot.values.size}. "
                "Pass a Spectrum with its wavelengths."
            )
        return spot.values
    if spot.spectrum.unit != NANOMETRES:
        raise SpectrumError(
            f"Expected wavelengths in nm at {spot.place}, got {spot.spectrum.unit!r}. Convert them."
        )
    values = at_wavelengths(spot.spectrum, cube.wavelengths)
    shared = int(np.isfinite(values).sum())
    if shared < _FEWEST_SHARED * bands:
        low, high = spot.spectrum.wavelengths.min(), spot.spectrum.wavelengths.max()
        raise SpectrumError(
            f"Expected a spectrum that covers half of the cube's {bands} bands at {spot.place}, "
            f"got {shared} within {low:g}-{high:g} nm. Measure a wider range."
        )
    return values


def at_wavelengths(spectrum: Spectrum, wavelengths: Doubles) -> Doubles:
    """Return *spectrum* at *wavelengths* (B,), NaN where it has no values; see `to_bands`."""
    order = spectrum.wavelengths.argsort(kind="stable")
    references = order[np.isfinite(spectrum.values[order])]
    return to_bands(spectrum.wavelengths[references], wavelengths) @ spectrum.values[references]


def to_bands(at: Doubles, wavelengths: Doubles) -> Doubles:
    """Return the matrix (B, m) that takes values *at* wavelengths (m,), in any order, to others.

    It uses `averaging`. Rows for wavelengths outside the range or in a gap are NaN.
    """
    if not at.size:
        return np.full((len(wavelengths), 0), np.nan)
    references = np.sort(at)
    above = np.searchsorted(references, wavelengths).clip(0, at.size - 1)
    below = np.where(references[above] == wavelengths, above, (above - 1).clip(0))
    steps = (np.abs(np.diff(each)) for each in (references, wavelengths) if each.size > 1)
    usual = max((float(np.median(step)) for step in steps), default=1.0)
    is_known = (wavelengths >= references[0]) & (wavelengths <= references[-1])
    is_known &= references[above] - references[below] <= _GAP * usual
    matrix = averaging(wavelengths, at)
    matrix[~is_known] = np.nan
    return matrix


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise SpectrumError(
            f"Expected a whole number as the {name} of a reference spectrum, got {value!r:.40}."
        ) from None


def _values(values: ArrayLike, place: str) -> Doubles:
    try:
        array = np.array(plain_array(values), dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or not array.size:
        raise SpectrumError(
            f"Expected a list of numbers as the spectrum at {place}, got another thing. "
            "Pass one value a band, or a Spectrum."
        )
    if not np.isfinite(array).all():
        raise SpectrumError(
            f"Expected numbers at {place}, got NaN or infinity. "
            "Pass a Spectrum, which may have gaps."
        )
    return array


def check_values(values: Floats, place: str, error: type[NapariMstError] = SpectrumError) -> None:
    """Raise *error* if *values* at a *place* are not reflectance; NaN are gaps."""
    numbers = values[~np.isnan(values)]
    least, most = numbers.min(initial=np.inf), numbers.max(initial=0)
    if least >= 0 and 0 < most <= BRIGHTEST:
        return
    got = f"{least:.4g} to {most:.4g}" if numbers.size else "none"
    raise error(
        f"Expected reflectance of about 0 to 1 {place}, got {got}. "
        "Divide per cent by 100; of radiance, subtract the dark signal, and divide by a white."
    )
