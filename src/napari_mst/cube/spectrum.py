"""One curve: values over wavelengths, their bounds, and the place where they were taken.

Letters: B bands, H rows, W columns.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import DTypeLike

from napari_mst.base.arrays import Array, Doubles
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.cube.curves import NANOMETRES, extent
from napari_mst.cube.parts import plain_array
from napari_mst.cube.showing import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STD: Final = "std"
"""`Spectrum.spread` of bounds that lie one standard deviation from the mean."""
MODEL_ERROR = "model error 90 %"
"""Start of `Spectrum.spread` if nine in ten true spectra should lie within the bounds.

After a comma follows `Provenance.calibration`, which says how far to trust the bounds.
"""


@dataclass(frozen=True)
class Origin:
    """The place where a spectrum was taken; empty and None mean unknown.

    Attributes
    ----------
    cube
        Name of the cube.
    row, column
        The pixel of a pick.
    window
        Side of the square of pixels around it that was averaged: 1, 3, 5, ...
    region
        Name of the region.
    vertices
        Corners of a polygon as (row, column); pixel centres have whole coordinates.
    pixels, excluded
        Numbers of pixels that were averaged, and that were left out because they are NaN.
    area, area_unit
        The area of all pixels of the region, including those left out.
    """

    cube: str = ""
    row: int | None = None
    column: int | None = None
    window: int = 1
    region: str = ""
    vertices: tuple[tuple[float, float], ...] = ()
    pixels: int = 1
    excluded: int = 0
    area: float | None = None
    area_unit: str = "pixel"


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A curve: values over wavelengths, with bounds where known.

    Attributes
    ----------
    wavelengths, values
        (B,) float64; NaN is a gap in the curve.
    unit
        Unit of the wavelengths: "nm", or "band" (0, 1, 2, ...), or a file's own word, as in
        `SpectralCube`.
    lower, upper
        (B,) float64, both or neither.
    spread
        The meaning of *lower* and *upper*: "std", "90 % of the labels", "model error 90 %,
        uncalibrated: ..."
    name, colour
        Name and colour in plots and tables; the colour is "#rrggbb", or "" for none.

    Raises
    ------
    SpectrumError
        If the arrays differ in length, the wavelengths are not finite, or *colour* is not one.

    Notes
    -----
    =====================  ========================================================================
    wavelengths            nm, where `unit` says so
    values, lower, upper   reflectance 0 to about 1, or the unit of the cube that it was taken from
    with_values(), each()  as given
    =====================  ========================================================================

    Examples
    --------
    >>> leaf = nm.Spectrum([500, 550, 600], [0.1, 0.4, 0.2], name="leaf", colour="#3cb44b")
    >>> leaf.with_values(leaf.values / 2).values
    array([0.05, 0.2 , 0.1 ])
    >>> leaf.each(np.sqrt).values.round(2)
    array([0.32, 0.63, 0.45])
    >>> np.asarray(leaf).max()
    np.float64(0.4)
    >>> leaf.plot().get_xlabel()
    'wavelength (nm)'
    """

    wavelengths: Doubles
    values: Doubles
    unit: str = NANOMETRES
    name: str = ""
    colour: str = ""
    lower: Doubles | None = None
    upper: Doubles | None = None
    spread: str = ""
    origin: Origin = field(default_factory=Origin)

    def __post_init__(self) -> None:
        for key in ("wavelengths", "values", "lower", "upper"):
            given = getattr(self, key)
            if given is not None:
                # A copy, so that a change of the caller's array cannot reach the spectrum.
                object.__setattr__(self, key, np.array(plain_array(given), dtype=np.float64))
        self._check_curve()
        self._check_bounds()
        if self.colour and not re.fullmatch(r"#[0-9a-fA-F]{6}", self.colour):
            raise SpectrumError(f"Expected a colour as '#rrggbb', got {self.colour[:20]!r}.")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """`values`, for NumPy and matplotlib."""
        return np.array(self.values, dtype)

    def __repr__(self) -> str:
        """One line: name, number of values, wavelengths and range."""
        facts = [f"{len(self.values)} values", extent(self.wavelengths, self.unit)]
        if self.spread:
            facts.append(shown(self.spread, 40))
        return f"<Spectrum {shown(self.name or 'without a name', 40)}: {', '.join(facts)}>"

    def _check_curve(self) -> None:
        shape = self.values.shape
        if len(shape) != 1 or not self.values.size or self.wavelengths.shape != shape:
            raise SpectrumError(
                f"Expected one value a wavelength, got {shape} for {self.wavelengths.shape} "
                "wavelengths."
            )
        if not np.isfinite(self.wavelengths).all():
            raise SpectrumError("Expected finite wavelengths, got NaN or infinity. Correct them.")

    def _check_bounds(self) -> None:
        if self.lower is None and self.upper is None:
            return
        shapes = [bound.shape for bound in (self.lower, self.upper) if bound is not None]
        if shapes != [self.values.shape, self.values.shape]:
            raise SpectrumError(
                f"Expected a lower and an upper bound for each of {self.values.size} values, "
                "or none."
            )

    @property
    def has_wavelengths(self) -> bool:
        """True if the wavelengths are in nanometres."""
        return self.unit == NANOMETRES

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the curve, and its bounds as a shaded band, with matplotlib.

        Parameters
        ----------
        axes
            Axes to draw on; by default the axes of a new pyplot figure.

        Returns
        -------
        Axes
            To draw more on; `axes.figure` is the figure.

        Raises
        ------
        SpectrumError
            If matplotlib is missing.
        """
        if axes is None:
            figure = new_figure(SpectrumError, layout="constrained")
            axes = figure.subplots()
            axes.set_xlabel("wavelength (nm)" if self.has_wavelengths else self.unit)
        (curve,) = axes.plot(self.wavelengths, self.values, color=self.colour or None)
        curve.set_label(self.name or None)
        if self.lower is not None and self.upper is not None:
            colour = curve.get_color()
            axes.fill_between(self.wavelengths, self.lower, self.upper, color=colour, alpha=0.2)
        return axes

    def with_values(self, values: Doubles) -> "Spectrum":
        """Return a copy with other *values*, and without bounds."""
        return replace(self, values=values, lower=None, upper=None, spread="")

    def each(
        self, change: Callable[[Doubles], Doubles], wavelengths: Doubles | None = None
    ) -> "Spectrum":
        """Return a copy with *change* applied to values and bounds, perhaps at *wavelengths*."""
        lower = None if self.lower is None else change(self.lower)
        upper = None if self.upper is None else change(self.upper)
        at = self.wavelengths if wavelengths is None else wavelengths
        return replace(self, wavelengths=at, values=change(self.values), lower=lower, upper=upper)
