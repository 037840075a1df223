"""One curve: values over wavelengths, how far they spread, and where on which cube they were taken.

Letters: B bands, H rows, W columns.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import NANOMETRES
from napari_mst.errors import SpectrumError

Values = NDArray[np.float64]

Map = NDArray[np.float32]
"""A number for each pixel of a cube, (H, W)."""

STD = "std"
"""What `Spectrum.spread` says where lower and upper are one standard deviation from the mean."""
MODEL_ERROR = "model error 90 %"
"""The same, where nine in ten true spectra should lie between them."""


@dataclass(frozen=True)
class Origin:
    """Where a spectrum was taken; empty and None mean unknown.

    Attributes
    ----------
    cube
        Name of the cube.
    row, column
        The pixel of a pick.
    window
        Side of the square of pixels around it of which the mean was taken: 1, 3, 5, ...
    region
        Name of the region.
    vertices
        Corners of a polygon as (row, column); pixel centres have whole coordinates.
    pixels, excluded
        How many pixels the values are a mean of, and how many more were left out because they are not numbers.
    area, area_unit
        Of all pixels of the region, those left out included.
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
    """A curve.

    Attributes
    ----------
    wavelengths, values
        (B,) float64; NaN is a gap in the curve.
    unit
        Of the wavelengths: "nm", or "band" (0, 1, 2, ...), or a file's own word, as in `SpectralCube`.
    lower, upper
        (B,) float64, both or neither.
    spread
        What *lower* and *upper* are: "std", "percentiles 5-95", "model error", ...
    name, colour
        As they are shown; the colour as "#rrggbb", or "" for none.

    Raises
    ------
    SpectrumError
        If the arrays do not have one length, the wavelengths are not finite, or *colour* is none.
    """

    wavelengths: Values
    values: Values
    unit: str = NANOMETRES
    name: str = ""
    colour: str = ""
    lower: Values | None = None
    upper: Values | None = None
    spread: str = ""
    origin: Origin = field(default_factory=Origin)

    def __post_init__(self) -> None:
        for key in ("wavelengths", "values", "lower", "upper"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, np.array(getattr(self, key), dtype=np.float64))
        if (
            self.values.ndim != 1
            or not self.values.size
            or self.wavelengths.shape != self.values.shape
        ):
            raise SpectrumError(
                f"Expected one value a wavelength, got {self.values.shape} for {self.wavelengths.shape} wavelengths."
            )
        if not np.isfinite(self.wavelengths).all():
            raise SpectrumError("Expected finite wavelengths, got NaN or infinity. Correct them.")
        bounds = [None if bound is None else bound.shape for bound in (self.lower, self.upper)]
        if bounds not in ([None, None], [self.values.shape] * 2):
            raise SpectrumError(
                f"Expected a lower and an upper bound for each of {self.values.size} values, or none."
            )
        if self.colour and not re.fullmatch(r"#[0-9a-fA-F]{6}", self.colour):
            raise SpectrumError(f"Expected a colour as '#rrggbb', got {self.colour[:20]!r}.")

    @property
    def has_wavelengths(self) -> bool:
        """Whether the spectral axis is in nanometres."""
        return self.unit == NANOMETRES

    def with_values(self, values: Values) -> "Spectrum":
        """The same with other *values*, and without bounds."""
        return replace(self, values=values, lower=None, upper=None, spread="")

    def each(self, change: Callable[[Values], Values], **others: Any) -> "Spectrum":
        """The same with values and bounds as *change* gives them, and with the *others* of its fields."""
        lower, upper = (
            None if bound is None else change(bound) for bound in (self.lower, self.upper)
        )
        return replace(self, values=change(self.values), lower=lower, upper=upper, **others)
