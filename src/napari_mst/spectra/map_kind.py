"""A kind of map: the inputs that it is made from, its result, and how a person is shown both.

Letters: H rows, W columns.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.arrays import Array
from napari_mst.cube import SpectralCube
from napari_mst.errors import SpectrumError
from napari_mst.photo.photo import Photo
from napari_mst.spectra.spectrum import Spectrum
from napari_mst.watch import UNWATCHED, Watch

LIMIT_PIXELS = 2**20
"""About how many pixels are looked at for the limits of contrast."""

Content = Literal["values", "labels", "cube"]
"""The pixels of a map: measured values, numbers of classes from 1 on, or bands of another cube."""

Need = Literal["spectra", "photo", "reference"]
"""A thing that a map needs beside the cube."""

Limits = tuple[float, float]
"""The values that are shown darkest and brightest."""


class Number(NamedTuple):
    """A number that a map asks for, with its range."""

    label: str
    default: float
    low: float
    high: float
    decimals: int = 0
    unit: str = ""


class Line(NamedTuple):
    """A wavelength that a map asks for.

    Attributes
    ----------
    name
        As the formula of the map calls it.
    colour
        Of the line in a plot, as "#4d8fea".
    share
        Where it lies at first: 0 is the shortest wavelength of the cube, 1 the longest.
    """

    name: str
    colour: str
    share: float


@dataclass(frozen=True, eq=False)
class MapInputs:
    """Everything that the maps are made from; each uses the part that it needs.

    Attributes
    ----------
    number
        The number that the map asks for; NaN takes its default.
    wavelengths
        One for each of its lines, in the unit of the cube; empty takes the first places.
    spectra
        Pixels are classified by these.
    photo
        The photo that the cube was made from, to compare colours with.
    reference
        The cube that errors are measured against.

    Notes
    -----
    ===============  ==================================================================
    cube, reference  reflectance or radiance in any number type; (B, H, W)
    spectra          in the unit of the cube
    wavelengths      in the unit of the cube: nm
    photo            a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    ===============  ==================================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.full((3, 4, 5), 0.5, np.float32), [500, 550, 600])
    >>> inputs = nm.MapInputs(cube, wavelengths=(600, 500))
    >>> nm.MAPS["normalised-difference"].make(inputs).planes[0].pixels.max().item()
    0.0
    """

    cube: SpectralCube
    number: float = math.nan
    wavelengths: Sequence[float] = ()
    spectra: Sequence[Spectrum] = ()
    photo: Photo | str | PathLike[str] | ArrayLike | None = None
    reference: SpectralCube | None = None


@dataclass(frozen=True, eq=False)
class MapPlane:
    """One picture of a map.

    Attributes
    ----------
    pixels
        (H, W), or (H, W, 3) of red, green and blue.
    title
        Its name where a map has several planes; "" where the title of the map says all.
    """

    pixels: Array
    title: str = ""


@dataclass(frozen=True, eq=False)
class MapResult:
    """A map: one plane, or several of equal size.

    Attributes
    ----------
    names
        The meanings of the labels 1, 2, ...; empty where the pixels are no labels.
    tints
        The colours of the labels, as "#4d8fea"; "" where any colour will do.
    note
        A sentence for the history of a cube.
    """

    planes: tuple[MapPlane, ...]
    names: tuple[str, ...] = ()
    tints: tuple[str, ...] = ()
    note: str = ""


Compute = Callable[[MapInputs, Watch], MapResult]


@dataclass(frozen=True, eq=False)
class MapKind:
    """One row of `MAPS`.

    Attributes
    ----------
    name
        Its name on the command line and in Python.
    title
        Its name in the window.
    tip
        One or two sentences that say what it shows.
    compute
        Makes it, from inputs whose number and wavelengths are filled in.
    content
        The kind of pixels.
    unit
        What the values are, with their unit; "" where the title says it.
    number, lines, needs
        What it asks for.
    colormap
        Name of the colour map that shows values best, in napari and matplotlib alike.
    limits
        The full range of the values, where it is known; None looks at the values.
    is_signed
        True where zero belongs in the middle of the colours.
    """

    name: str
    title: str
    tip: str
    compute: Compute
    content: Content = "values"
    unit: str = ""
    number: Number | None = None
    lines: tuple[Line, ...] = ()
    needs: Need | None = None
    colormap: str = "gray"
    limits: Limits | None = None
    is_signed: bool = False

    def make(self, inputs: MapInputs, watch: Watch = UNWATCHED) -> MapResult:
        """Make this map from *inputs*.

        Raises
        ------
        SpectrumError
            If something that the map needs is missing or does not fit.
        Cancelled
            Soon after the watch was cancelled.
        """
        return self.compute(self.filled(inputs), watch)

    def filled(self, inputs: MapInputs) -> MapInputs:
        """*inputs*, completed with the defaults of this map.

        Raises `SpectrumError` if the number of wavelengths is another than that of the lines.
        """
        number = inputs.number
        if self.number is not None and math.isnan(number):
            number = self.number.default
        wavelengths = tuple(inputs.wavelengths) or self.first_wavelengths(inputs.cube)
        if self.lines and len(wavelengths) != len(self.lines):
            names = ", ".join(line.name for line in self.lines)
            raise SpectrumError(
                f"Expected {len(self.lines)} wavelengths ({names}), got {len(wavelengths)}. "
                "Give one for each."
            )
        return replace(inputs, number=number, wavelengths=wavelengths)

    def first_wavelengths(self, cube: SpectralCube) -> tuple[float, ...]:
        """Return the first places of the lines of this map, in the unit of *cube*."""
        low = float(cube.wavelengths.min())
        high = float(cube.wavelengths.max())
        return tuple(low + line.share * (high - low) for line in self.lines)

    def limits_of(self, pixels: Array) -> Limits:
        """Return the limits of contrast that show *pixels* of this map best."""
        if self.limits is not None:
            return self.limits
        low, high = _percentile_limits(pixels)
        if not self.is_signed:
            return low, high
        largest = max(abs(low), abs(high))
        return -largest, largest


def _percentile_limits(pixels: Array) -> Limits:
    """From the 1st to the 99th percentile of a sample of *pixels*."""
    sample = pixels.reshape(-1)[:: max(1, pixels.size // LIMIT_PIXELS)]
    sample = sample[np.isfinite(sample)]
    if not sample.size:
        return 0.0, 1.0
    low, high = (float(limit) for limit in np.percentile(sample, (1, 99)))
    # napari refuses limits without a range between them, which a constant map would have.
    return (low, high) if high > low else (low, low + 1.0)
