"""Maps from user-chosen bands: formulas, indices, wavelength ranges and transforms.

Letters: B bands, H rows, W columns, n pixels.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from napari_mst.analysis import formulas
from napari_mst.analysis.map_kind import Map, MapKind, Number, Text
from napari_mst.analysis.strips import new_planes, raw_strips
from napari_mst.analysis.transforms import CONTINUUM_REMOVED, TRANSFORMS, rising_order
from napari_mst.base.arrays import Doubles, Singles
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.gaps import good_bands


def formula_presets(cube: SpectralCube) -> Mapping[str, str]:
    """Return a ratio and a difference of two of its bands, and the indices that *cube* has."""
    bands = np.sort(cube.wavelengths[good_bands(cube)])
    a, b = (f"r{bands[round(share * (len(bands) - 1))]:.0f}" for share in (0.75, 0.4))
    simple = {f"{a} / {b}": "Ratio", f"({a} - {b}) / ({a} + {b})": "Normalised difference"}
    if cube.quantity == CONTINUUM_REMOVED:
        simple = {f"1 - {b}": "Absorption depth", **simple}
    found = formulas.indices_of(cube).values()
    return simple | {index.name: f"{index.title}: {index.formula}" for index in found}


@MapKind(
    "Formula or index",
    "Type a formula of bands, such as (r800 - r670) / (r800 + r670), or choose an index by name.",
    text=Text("expression", "Formula", formula_presets, formulas.bands_taken, formulas.moved),
    is_of_spectra=True,
    colormap="viridis",
)
def formula(cube: SpectralCube, expression: str, *, progress: ProgressLike = None) -> Map:
    """A formula of bands, such as "(r800 - r670) / (r800 + r670)", or an index by its name.

    Parameters
    ----------
    expression
        Numbers, `+ - * / **`, brackets, `abs`, `exp`, `log`, `sqrt`, `min`, `max`. `r800` is the
        band at 800 (in the unit of the cube; nm), at most half a step away; `N` and other letters
        are broad bands (`formulas.BROAD`); `NDVI` and other names are indices. Bands marked as bad
        in the file are skipped. Where a divisor is zero, the pixel is NaN.

    Raises
    ------
    SpectrumError
        If *expression* is not a formula, or the cube lacks a band.
    Cancelled
        Soon after *progress* was cancelled.

    Notes
    -----
    =======  ======================================================================
    cube     reflectance, as most indices expect; other units are used unchanged
    returns  float32, (H, W); `facts` lists the bands that were used
    =======  ======================================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.full((3, 4, 5), 0.5, np.float32), [500, 550, 600])
    >>> nm.formula(cube, "sqrt(r600) / max(r500, r550)").data[0, 0].round(3)
    np.float32(1.414)
    """
    taken = formulas.bands_taken(cube, expression)
    bands = ", ".join(f"{name} at {at:.4g} {cube.unit}" for name, at in taken.items())
    values = formulas.evaluated(cube, expression, as_progress(progress))
    return Map(cube, values, (expression,), facts={"map bands": bands})


def index(cube: SpectralCube, name: str, *, progress: ProgressLike = None) -> Map:
    """Map of the spectral index called *name*, such as "NDVI".

    Formulas and sources come from Awesome Spectral Indices (Montero et al., Scientific Data 10
    (2023) 197, doi:10.1038/s41597-023-02096-0): `formulas.catalogue()` lists them.

    Raises
    ------
    SpectrumError
        If there is no such index, or the cube lacks one of its bands.
    Cancelled
        Soon after *progress* was cancelled.

    Notes
    -----
    =======  ======================================================================
    cube     reflectance, 0 to about 1
    returns  float32, (H, W); `facts` lists the bands that were used
    =======  ======================================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.ones((3, 4, 5), np.float32), [490, 665, 842])
    >>> nm.index(cube, "ndvi").facts["map bands"]
    'N at 842 nm, R at 665 nm'
    """
    return formula(cube, formulas.index_named(name).name, progress=progress)


def ratio(cube: SpectralCube, a: float, b: float) -> Map:
    """Ratio of the bands at wavelengths *a* and *b*, as a `formula`."""
    return formula(cube, f"r{a:g} / r{b:g}")


def normalised_difference(cube: SpectralCube, a: float, b: float) -> Map:
    """(A - B) / (A + B) of the bands at wavelengths *a* and *b*, as a `formula`."""
    return formula(cube, f"(r{a:g} - r{b:g}) / (r{a:g} + r{b:g})")


WavelengthRange = str | tuple[float, float]
"""A wavelength range: typed as "450-700", or two numbers."""

ENDS = ("start", "end")
"""Names of the two ends of a wavelength range."""

_NUMBER = re.compile(r"\d+\.?\d*")


def _ends(cube: SpectralCube, given: WavelengthRange) -> dict[str, float]:
    """Return the two wavelengths in *given* by the names in `ENDS`; both must be within *cube*."""
    found = list(map(float, _NUMBER.findall(str(given))))
    low, high = cube.wavelengths.min(), cube.wavelengths.max()
    if len(found) != len(ENDS) or not all(low <= at <= high for at in found):
        raise SpectrumError(
            f"Expected two wavelengths within {low:g}-{high:g} {shown(cube.unit, 20)}, "
            f"got {shown(given, 30)!r}. Type a range, such as 500-600."
        )
    return dict(zip(ENDS, found, strict=True))


def _moved(text: str, number: int, wavelength: float) -> str:
    ends = _NUMBER.findall(text)
    ends[number] = f"{wavelength:.6g}"
    return "-".join(ends)


def _middle(cube: SpectralCube) -> Mapping[str, str]:
    """Return the middle half of the wavelength range of *cube*, as text."""
    low, high = np.quantile(cube.wavelengths, (0.25, 0.75))
    return {f"{low:.4g}-{high:.4g}": ""}


@MapKind(
    "Range of wavelengths",
    "The mean of the bands in a range, the area under them, and their centre of mass.",
    text=Text("between", "Wavelengths", _middle, _ends, _moved, is_span=True),
)
def span(cube: SpectralCube, between: WavelengthRange, *, progress: ProgressLike = None) -> Map:
    """Mean, area and centre of mass of the bands *between* two wavelengths.

    Area and centre are integrals (trapezoids), so a single band has an area of 0 and no centre.
    Bands marked as bad in the file are skipped.

    Parameters
    ----------
    between
        (450, 700), or "450-700", in the unit of the cube.

    Raises
    ------
    SpectrumError
        If *between* does not give two wavelengths within the cube, or no band lies between them.
    Cancelled
        Soon after *progress* was cancelled.
    """
    at = cube.wavelengths
    low, high = sorted(_ends(cube, between).values())
    name = f"{low:.4g}-{high:.4g} {cube.unit}"
    bands = [band for band in rising_order(at) if low <= at[band] <= high]
    if not bands:
        raise SpectrumError(f"Expected a range with a band in it, got {name}. Choose a wider one.")

    def measured(values: Doubles, at: Doubles) -> Doubles:
        area = np.trapezoid(values, at, axis=0)
        centre = np.trapezoid(values * at[:, None], at, axis=0) / area
        return np.stack([values.mean(axis=0), area, centre])

    titles = tuple(f"{what} of {name}" for what in ("mean", "area", "centre"))
    planes = _by_pixel(cube, bands, measured, 3, progress)
    return Map(cube, planes, titles, facts={"map range": name})


@MapKind(
    "Transformed spectra",
    "A cube whose spectra are smoothed, differentiated, normalised, or without their continuum.",
    content="cube",
    number=Number("window", "Bands that a filter spans", 5, 3, 99),
    text=Text("way", "Transform", lambda _: dict.fromkeys(TRANSFORMS, "")),
    is_of_spectra=True,
)
def transformed(
    cube: SpectralCube,
    way: str = CONTINUUM_REMOVED,
    window: float = 5,
    *,
    progress: ProgressLike = None,
) -> Map:
    """*cube* with every spectrum transformed by one of `transforms.TRANSFORMS`.

    Parameters
    ----------
    way
        Name of the transform.
    window
        Number of bands that a filter spans (Savitzky-Golay); other transforms ignore it.

    Raises
    ------
    SpectrumError
        If there is no such transform, or the cube has fewer bands than *window*.
    Cancelled
        Soon after *progress* was cancelled.
    """
    if way not in TRANSFORMS:
        raise SpectrumError(f"Expected one of {', '.join(TRANSFORMS)}, got {shown(way, 30)!r}.")
    bands = rising_order(cube.wavelengths).tolist()
    values = _by_pixel(cube, bands, lambda v, at: TRANSFORMS[way](v, at, int(window)), 0, progress)
    kept = {"smoothed": cube.quantity, "reflectance of absorbance": "reflectance"}
    return Map(replace(cube, quantity=kept.get(way, way)), values)


def _by_pixel(
    cube: SpectralCube,
    bands: Sequence[int],
    change: Callable[[Doubles, Doubles], Doubles],
    count: int,
    progress: ProgressLike,
) -> Singles:
    """Return the *count* planes (count, H, W) that *change* computes from *bands*.

    *change* receives the values (b, n) of the bands and their wavelengths. With a *count* of 0,
    *bands* must be all bands, and each band gets a plane. A pixel with NaN in any of the *bands* is
    NaN in the result.
    """
    planes = range(count) if count else bands
    made = new_planes(len(planes), cube)
    for rows, strip in raw_strips(cube, as_progress(progress), bands):
        values = strip.reshape(len(bands), -1).astype(np.float64)
        good = np.isfinite(values).all(axis=0)
        values[:, ~good] = 1
        with np.errstate(all="ignore"):
            found = change(values, cube.wavelengths[bands])
        np.putmask(found, ~(np.isfinite(found) & good), np.nan)
        made[:, rows][planes] = found.reshape(-1, *strip.shape[1:])
    return made
