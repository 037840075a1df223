"""The settings of the workbench: everything that a person chooses in the menus of its dock."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from napari_mst.spectra.regions import Spread
from napari_mst.spectra.spectrum import STD, Spectrum
from napari_mst.spectra.transforms import continuum_removed, first_derivative, normalised

Change = Callable[[Spectrum, float], Spectrum]


@dataclass(frozen=True)
class View:
    """One way to show curves.

    Attributes
    ----------
    title
        What the menu calls it.
    label
        Names the values at the axis; "" keeps the name that the cube gives them.
    change
        Gets a spectrum and the wavelength of the band that is shown, and returns the spectrum to
        draw.
    is_of_band
        Whether the curves change when another band is shown.
    """

    title: str
    label: str
    change: Change
    is_of_band: bool = False


def _as_it_is(spectrum: Spectrum, _: float) -> Spectrum:
    return spectrum


def _relative_to_area(spectrum: Spectrum, _: float) -> Spectrum:
    return normalised(spectrum, "area")


def _relative_to_maximum(spectrum: Spectrum, _: float) -> Spectrum:
    return normalised(spectrum, "maximum")


def _derivative(spectrum: Spectrum, _: float) -> Spectrum:
    return first_derivative(spectrum)


def _without_continuum(spectrum: Spectrum, _: float) -> Spectrum:
    return continuum_removed(spectrum)


AS_IS = View("As it is", "", _as_it_is)
VIEWS = (
    AS_IS,
    View("Normalised to area", "relative to area", _relative_to_area),
    View("Normalised to maximum", "relative to maximum", _relative_to_maximum),
    View("Normalised at the band shown", "relative to the band shown", normalised, is_of_band=True),
    View("First derivative", "change per nm", _derivative),
    View("Continuum removed", "continuum removed", _without_continuum),
)


class ValueRange(NamedTuple):
    """The range of the value axis: fitted to the curves, fixed, or left to the mouse wheel.

    Attributes
    ----------
    title
        What the menu calls it.
    limits
        The least and the largest value; None fits them to the curves.
    is_locked
        Whether the range stays as it is until the wheel zooms it.
    """

    title: str
    limits: tuple[float, float] | None = None
    is_locked: bool = False


FITTED = ValueRange("Fit the values")
RANGES = (
    FITTED,
    ValueRange("0 to 1", limits=(0.0, 1.0)),
    ValueRange("Locked (the wheel zooms)", is_locked=True),
)


@dataclass(frozen=True)
class Settings:
    """The choices of a person.

    Attributes
    ----------
    is_picking
        Whether a click on the image pins a spectrum.
    window
        Side in pixels of the square that a pick is the mean of.
    spread
        What is drawn around the mean of a region.
    has_regions, has_error_bands
        Whether regions are read, and the 90 % error bands of picks.
    view, value_range
        How curves are drawn.
    is_error_shown
        Whether errors to the reference are drawn instead of spectra.
    is_legend_shown
        Whether the plot names its curves.
    """

    is_picking: bool = True
    window: int = 1
    spread: Spread = STD
    has_regions: bool = True
    has_error_bands: bool = True
    view: View = AS_IS
    value_range: ValueRange = FITTED
    is_error_shown: bool = False
    is_legend_shown: bool = False

    @property
    def reading(self) -> tuple[object, ...]:
        """The choices after which cubes are read again; others only change the drawing."""
        return self.spread, self.has_regions, self.has_error_bands
