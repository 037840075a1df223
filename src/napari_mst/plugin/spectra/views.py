"""How the plot shows the curves: as they are, normalised, differentiated, without their continuum, or as errors."""

from collections.abc import Callable
from dataclasses import dataclass

from napari_mst.spectra.spectrum import Spectrum
from napari_mst.spectra.transforms import continuum_removed, first_derivative, normalised

Change = Callable[[Spectrum, float], Spectrum]


@dataclass(frozen=True)
class View:
    """One way of showing: its title, the label of the values ("" for that of the cube), and what it does.

    `change` is given a spectrum and the wavelength of the band that is shown.
    """

    title: str
    label: str
    change: Change
    is_of_band: bool = False
    """Whether another band makes other curves."""


AS_IS = View("As it is", "", lambda spectrum, _: spectrum)
VIEWS = (
    AS_IS,
    View(
        "Normalised to area", "relative to area", lambda spectrum, _: normalised(spectrum, "area")
    ),
    View(
        "Normalised to maximum",
        "relative to maximum",
        lambda spectrum, _: normalised(spectrum, "maximum"),
    ),
    View("Normalised at the band shown", "relative to the band shown", normalised, is_of_band=True),
    View("First derivative", "change per nm", lambda spectrum, _: first_derivative(spectrum)),
    View("Continuum removed", "continuum removed", lambda spectrum, _: continuum_removed(spectrum)),
)
