"""Metamers: different spectra to which an eye or a camera responds with the same three values.

A response A (B, 3), including the light, gives a reflectance s (B,) the colour A^T s. The matrix
R = A (A^T A)^-1 A^T splits s into its fundamental R s, which carries all of the colour, and its
metameric black s - R s, which carries none. Wyszecki, Die Farbe 2 (1953) 39; Cohen & Kappauf, Am.
J. Psychol. 95 (1982) 537, doi:10.2307/1422442. Letters: B bands, n metameric blacks.
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
"""Values of a colour."""
COUNT = 6
"""Default number of metameric blacks of `metamers`."""
_BEYOND = 0.5  # how far a reflectance may lie outside 0-1


def matrix_r(response: Doubles) -> Doubles:
    """Return the (B, B) matrix that takes a spectrum to its fundamental under *response* (B, 3).

    It is R = A (A^T A)^-1 A^T of Cohen and Kappauf, symmetric and idempotent.
    """
    # From orthonormal columns, since the inverse in the formula would square rounding errors.
    basis, _ = np.linalg.qr(response)
    return basis @ basis.T


def metameric_blacks(wavelengths: Doubles, response: Doubles, count: int = COUNT) -> Doubles:
    """Return the *count* smoothest spectra (n, B) that are black to *response* (B, 3).

    They are orthonormal, and positive at the longest of the *wavelengths* (nm). Smoothness is a
    small sum of squared slopes, as defined by van Trigt, J. Opt. Soc. Am. A 7 (1990) 1891,
    doi:10.1364/JOSAA.7.001891. There are at most B - 3 of them.

    Every metameric black crosses zero at three wavelengths or more; otherwise three channels would
    respond to it. Here each black crosses zero once more than the previous one.
    """
    order = np.argsort(wavelengths)
    every, _ = np.linalg.qr(response[order], mode="complete")
    unseen = every[:, CHANNELS:]
    steps = np.diff(wavelengths[order])
    slopes = np.diff(unseen, axis=0) / np.sqrt(steps)[:, None]
    # Eigenvalues ascend, so the first vectors are the smoothest.
    _, shares = np.linalg.eigh(slopes.T @ slopes)
    blacks = np.empty((len(every), min(count, shares.shape[1])))
    blacks[order] = unseen @ shares[:, :count]
    # The sign of an eigenvector is arbitrary and may differ between processors.
    signs = np.where(blacks[order[-1]] < 0, -1.0, 1.0)
    return (blacks * signs).T


@dataclass(frozen=True, eq=False, repr=False)
class Metamers:
    """Spectra with the same colour as *spectrum*, reached along metameric blacks.

    Attributes
    ----------
    spectrum
        Reflectance, 0 to 1, without gaps.
    response
        (B, 3) matrix that takes a reflectance to its colour.
    blacks
        (n, B), orthonormal, smoothest first: see `metameric_blacks`.

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
        """One line with the spectrum and the number of metameric blacks."""
        return f"<Metamers of {self.spectrum}: {len(self.blacks)} blacks>"

    @property
    def fundamental(self) -> Spectrum:
        """The part of the spectrum that carries its colour."""
        return self.spectrum.with_values(matrix_r(self.response) @ self.spectrum.values)

    @property
    def black(self) -> Spectrum:
        """The part of the spectrum that carries no colour and therefore shows in no photo."""
        return self.spectrum.with_values(self.spectrum.values - self.fundamental.values)

    def colour(self, spectrum: Spectrum) -> Doubles:
        """Return the three values (3,) of the response to *spectrum*."""
        return spectrum.values @ self.response

    def toward(self, other: Spectrum) -> Doubles:
        """Return the metameric black (B,) that points towards *other*.

        Moved by 1 along it, the spectrum takes the black of *other* and keeps its fundamental.

        Raises
        ------
        SpectrumError
            If the wavelengths of *other* differ.
        """
        if not np.array_equal(other.wavelengths, self.spectrum.wavelengths):
            raise SpectrumError(
                f"Expected a spectrum at the {self.spectrum.values.size} wavelengths of the first, "
                f"got {other.values.size} others. Resample it."
            )
        difference = other.values - self.spectrum.values
        return difference - matrix_r(self.response) @ difference

    def limits(self, black: Doubles) -> tuple[float, float]:
        """Return the range of amounts of *black* (B,) that keeps reflectances within 0-1.

        The lower limit is 0 or less, the upper one 0 or more. Where the spectrum itself lies
        outside 0-1, it may not move further out.
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
        """CIEDE2000 difference between the spectrum and *other* for the CIE 1931 observer.

        *light* is a name from `illuminants.illuminant_names`, a file or a curve. Differences from
        about 1 on are visible. *other* may have other wavelengths.

        Raises
        ------
        CameraError
            If the light is unknown.
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
        (B, 3) response at the wavelengths of *spectrum*: a camera under a light, such as
        `Acquisition("Nikon_D5100", "A").response` for 400, 410, ..., 700 nm. By default the CIE
        1931 observer in daylight (D65), which also describes an exact sRGB photo.
    count
        Number of metameric blacks, at most B - 3.

    Raises
    ------
    SpectrumError
        If *spectrum* has gaps, is not reflectance, has fewer than four bands, or does not cover
        450-650 nm; or if *response* is not three independent columns of B values.

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
