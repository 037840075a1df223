"""Metamers: spectra that differ, while an eye or a camera has the same three numbers for them.

A response A (B, 3), the light included, makes the colour A^T s of a reflectance s (B,). The matrix
R = A (A^T A)^-1 A^T splits s into its fundamental R s, which has all of the colour, and its
metameric black s - R s, which has none. Wyszecki, Die Farbe 2 (1953) 39; Cohen & Kappauf, Am. J.
Psychol. 95 (1982) 537, doi:10.2307/1422442. Letters: B bands, n metameric blacks.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import SpectrumError, shown
from napari_mst.cube import NANOMETRES
from napari_mst.cube.illuminants import DAYLIGHT, Light, colour_weights, render_lab
from napari_mst.cube.metrics import delta_e
from napari_mst.cube.pictures import VISIBLE
from napari_mst.cube.spectrum import Spectrum

CHANNELS = 3
"""Numbers of a colour."""
COUNT = 6
"""Metameric blacks that `metamers` gives by default."""
_BEYOND = 0.5  # how far a reflectance may lie outside 0-1


def matrix_r(response: Doubles) -> Doubles:
    """Return the (B, B) matrix that takes a spectrum to its fundamental under *response* (B, 3).

    It is Cohen's and Kappauf's R = A (A^T A)^-1 A^T: symmetric, and its own square.
    """
    # A product of orthonormal columns: the inverse in the formula would square rounding errors.
    basis, _ = np.linalg.qr(response)
    return basis @ basis.T


def metameric_blacks(wavelengths: Doubles, response: Doubles, count: int = COUNT) -> Doubles:
    """Return the *count* smoothest spectra (n, B) that *response* (B, 3) has no colour for.

    They are orthogonal, of length 1, and positive at the longest of the *wavelengths* (nm). Smooth
    is a small sum of squared slopes, as van Trigt has it: J. Opt. Soc. Am. A 7 (1990) 1891,
    doi:10.1364/JOSAA.7.001891. There are B - 3 of them at most.

    A black crosses zero at three wavelengths at least, as a response of three channels would see
    it otherwise; each of them here crosses once more than the one before.
    """
    order = np.argsort(wavelengths)
    every, _ = np.linalg.qr(response[order], mode="complete")
    unseen = every[:, CHANNELS:]
    steps = np.diff(wavelengths[order])
    slopes = np.diff(unseen, axis=0) / np.sqrt(steps)[:, None]
    # Eigenvalues rise: the first vectors are the smoothest.
    _, shares = np.linalg.eigh(slopes.T @ slopes)
    blacks = np.empty((len(every), min(count, shares.shape[1])))
    blacks[order] = unseen @ shares[:, :count]
    # The sign of an eigenvector is arbitrary, and may differ on another processor.
    signs = np.where(blacks[order[-1]] < 0, -1.0, 1.0)
    return (blacks * signs).T


@dataclass(frozen=True, eq=False, repr=False)
class Metamers:
    """All spectra along some metameric blacks that have the colour of *spectrum*.

    Attributes
    ----------
    spectrum
        A reflectance of 0 to 1, without gaps.
    response
        (B, 3): takes a reflectance to its colour.
    blacks
        (n, B), orthogonal and of length 1, the smoothest first: see `metameric_blacks`.

    Notes
    -----
    ============================  ================================================================
    spectrum, fundamental, black  reflectance: 0-1 for the spectrum, of any sign for its black; nm
    response                      (B, 3): reflectance 0-1 to a colour, light included
    blacks                        (n, B) without a unit, of length 1
    colour()                      (3,) linear, in the unit of the response
    toward()                      reflectance in, (B,) of any sign out
    limits()                      (B,) in; amounts that keep reflectance within 0-1
    moved()                       (B,) in, reflectance out
    difference()                  reflectance 0-1 in, CIEDE2000 out
    ============================  ================================================================

    Examples
    --------
    >>> from napari_mst.analysis.library import colour_checker
    >>> orange, white = (colour_checker()[index] for index in (1, 3))
    >>> family = nm.metamers(orange)
    >>> low, high = family.limits(family.blacks[0])
    >>> other = family.moved(family.blacks[0], high)
    >>> round(family.difference(other), 3), round(family.difference(other, "A"), 1)
    (0.0, 2.7)
    >>> np.allclose(family.colour(other), family.colour(orange)), family.toward(white).shape
    (True, (31,))
    """

    spectrum: Spectrum
    response: Doubles
    blacks: Doubles

    def __repr__(self) -> str:
        """One line: the spectrum, and the number of its metameric blacks."""
        return f"<Metamers of {self.spectrum}: {len(self.blacks)} blacks>"

    @property
    def fundamental(self) -> Spectrum:
        """The part of the spectrum that has all of its colour, and no other."""
        return self.spectrum.with_values(matrix_r(self.response) @ self.spectrum.values)

    @property
    def black(self) -> Spectrum:
        """The part of the spectrum that has no colour and therefore shows in no photo."""
        return self.spectrum.with_values(self.spectrum.values - self.fundamental.values)

    def colour(self, spectrum: Spectrum) -> Doubles:
        """Return the three numbers (3,) that the response has for *spectrum*."""
        return spectrum.values @ self.response

    def toward(self, other: Spectrum) -> Doubles:
        """Return the metameric black (B,) towards *other*, which leaves the colour unchanged.

        Moved by 1 along it, the spectrum has the black of *other* and keeps its own fundamental.

        Raises
        ------
        SpectrumError
            If *other* has other wavelengths.
        """
        if not np.array_equal(other.wavelengths, self.spectrum.wavelengths):
            raise SpectrumError(
                f"Expected a spectrum at the {self.spectrum.values.size} wavelengths of the first, "
                f"got {other.values.size} others. Resample it."
            )
        difference = other.values - self.spectrum.values
        return difference - matrix_r(self.response) @ difference

    def limits(self, black: Doubles) -> tuple[float, float]:
        """The least and the largest amount of *black* (B,) that keeps reflectances within 0-1.

        They are at most 0 and at least 0. Where the spectrum itself lies outside 0-1, it must not
        get further out.
        """
        values = self.spectrum.values
        moves = np.abs(black) > 0
        room = np.stack([np.minimum(values, 0), np.maximum(values, 1)]) - values
        lowest, highest = np.sort(room[:, moves] / black[moves], axis=0)
        return float(lowest.max(initial=-np.inf)), float(highest.min(initial=np.inf))

    def moved(self, black: Doubles, amount: float) -> Spectrum:
        """Return the metamer that lies *amount* along *black* (B,)."""
        return self.spectrum.with_values(self.spectrum.values + amount * black)

    def difference(self, other: Spectrum, light: Light = DAYLIGHT) -> float:
        """CIEDE2000 between the spectrum and *other*, as the CIE 1931 observer sees both.

        *light* is a name of `illuminants.illuminant_names`, a file or a curve. From about 1 on a
        difference can be seen. *other* may have other wavelengths.

        Raises
        ------
        CameraError
            If there is no such light.
        """
        first = render_lab(self.spectrum.values, self.spectrum.wavelengths, light)
        second = render_lab(other.values, other.wavelengths, light)
        return float(delta_e(second, first))


def metamers(spectrum: Spectrum, response: Doubles | None = None, count: int = COUNT) -> Metamers:
    """Return the metamers of *spectrum*: spectra of the same colour, along the smoothest blacks.

    Parameters
    ----------
    spectrum
        Reflectance, 0 to 1.
    response
        (B, 3), at the wavelengths of *spectrum*: of a camera in a light, as
        `Acquisition("Nikon_D5100", "A").response` for 400, 410, ..., 700 nm. By default that of the
        CIE 1931 observer in daylight (D65), which is also that of an exact sRGB photo.
    count
        Number of metameric blacks; there are B - 3 at most.

    Raises
    ------
    SpectrumError
        If *spectrum* has gaps, is not reflectance, has fewer than four bands, or does not cover
        450-650 nm; or if *response* is not three independent columns of B numbers.

    Notes
    -----
    ========  ======================================================
    spectrum  reflectance, 0-1; wavelengths in nm that cover 450-650
    response  (B, 3): reflectance 0-1 to a colour, light included
    returns   see `Metamers`
    ========  ======================================================

    Examples
    --------
    >>> wavelengths = np.arange(400, 701, 10)
    >>> grey = nm.Spectrum(wavelengths, np.full(31, 0.5))
    >>> nm.metamers(grey, count=2).blacks.shape
    (2, 31)
    >>> nm.metamers(grey, nm.Acquisition("Nikon_D5100", "A").response).spectrum is grey
    True
    """
    _check(spectrum)
    if response is None:
        response = colour_weights(spectrum.wavelengths)
    bands = spectrum.values.size
    if response.shape != (bands, CHANNELS) or np.linalg.matrix_rank(response) < CHANNELS:
        raise SpectrumError(
            f"Expected a response of {bands} bands and 3 independent channels, "
            f"got an array of shape {response.shape}."
        )
    blacks = metameric_blacks(spectrum.wavelengths, response, count)
    return Metamers(spectrum, np.asarray(response, dtype=np.float64), blacks)


def _check(spectrum: Spectrum) -> None:
    wavelengths, values = spectrum.wavelengths, spectrum.values
    low, high = VISIBLE
    is_seen = wavelengths.min() <= low and wavelengths.max() >= high
    if spectrum.unit != NANOMETRES or not is_seen:
        raise SpectrumError(
            f"Expected wavelengths that cover {low:g}-{high:g} nm, got {wavelengths.min():g}-"
            f"{wavelengths.max():g} {shown(spectrum.unit, 20)}. Metamers are a matter of colour."
        )
    if np.unique(wavelengths).size < max(values.size, CHANNELS + 1):
        raise SpectrumError(
            f"Expected four bands or more, each at a wavelength of its own, got {values.size}."
        )
    if not np.isfinite(values).all():
        raise SpectrumError("Expected a spectrum without gaps, got one with NaN or infinity.")
    if values.min() < -_BEYOND or values.max() > 1 + _BEYOND:
        raise SpectrumError(
            f"Expected reflectances of 0 to 1, got {values.min():.3g} to {values.max():.3g}. "
            "Divide them by the value of a white surface."
        )
