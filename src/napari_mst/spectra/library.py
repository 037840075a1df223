"""Spectral libraries: ENVI (`.sli` with its `.hdr`), CSV, text for the clipboard, and the built-in colour chart.

What we write keeps all of a `Spectrum`: bounds are further columns (CSV) or spectra (ENVI).
"""

from collections.abc import Sequence
from importlib import resources
from os import PathLike
from pathlib import Path

import numpy as np

from napari_mst.spectra.spectrum import Origin, Spectrum

PATCHES = (
    *("dark skin", "orange", "blue", "white", "light skin", "purplish blue", "green", "neutral 8"),
    *("blue sky", "moderate red", "red", "neutral 6.5", "foliage", "purple", "yellow", "neutral 5"),
    *("blue flower", "yellow green", "magenta", "neutral 3.5", "bluish green", "orange yellow", "cyan", "black"),
)
"""Names of the 24 patches of a Macbeth ColorChecker, down its columns."""


def colour_checker() -> list[Spectrum]:
    """Measured reflectance of the 24 patches of a Macbeth ColorChecker, 31 bands of 400-700 nm (ISET, MIT licence)."""
    with resources.files("napari_mst").joinpath("data/reflectance31.npz").open("rb") as file, np.load(file) as stored:
        wavelengths, chart = stored["wavelength"], stored["iset_macbethChart"]
    return [
        Spectrum(wavelengths, values, name=name, origin=Origin(cube="ColorChecker"))
        for name, values in zip(PATCHES, chart, strict=True)
    ]


def read_spectra(path: str | PathLike[str], unit: str = "") -> list[Spectrum]:
    """The spectra in a CSV file or an ENVI spectral library (`.sli` or its `.hdr`).

    *unit* is that of the wavelengths where the file does not say it ("nm", "um", ...); they become nm.
    """
    raise NotImplementedError(path, unit)


def write_spectra(path: str | PathLike[str], spectra: Sequence[Spectrum], *, overwrite: bool = False) -> Path:
    """Save *spectra* as CSV (`.csv`) or ENVI spectral library (`.sli`, `.hdr`), crash-safe; returns the file to open."""
    raise NotImplementedError(path, spectra, overwrite)


def spectra_text(spectra: Sequence[Spectrum]) -> str:
    """*spectra* as a table for the clipboard: wavelengths down, one column a spectrum, tabs between."""
    raise NotImplementedError(spectra)
