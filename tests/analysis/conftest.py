"""Spectra from lists, and the bounds of spectra that have some."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_mst.base.arrays import Doubles
from napari_mst.cube.spectrum import Spectrum


def curve(wavelengths: ArrayLike, values: ArrayLike, *others: Any, **fields: Any) -> Spectrum:
    """A spectrum of lists."""
    return Spectrum(np.asarray(wavelengths, float), np.asarray(values, float), *others, **fields)


def bounds(spectrum: Spectrum) -> tuple[Doubles, Doubles]:
    """The lower and the upper bound, which are there."""
    assert spectrum.lower is not None
    assert spectrum.upper is not None
    return spectrum.lower, spectrum.upper
