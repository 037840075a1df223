"""Spectral libraries: CSV, ENVI (`.sli`), text for the clipboard, and the built-in colour chart.

Files that we write keep everything of a `Spectrum`, so that it opens again as it was: coordinates,
region, cube and colour. Bounds are columns (CSV) or spectra (ENVI) of their own.
"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from napari_mst.cube.colour import reflectances
from napari_mst.cube.curves import text_of
from napari_mst.cube.spectrum import Origin, Spectrum
from napari_mst.errors import SaveError, check_regular, shown, unreadable
from napari_mst.formats.envi.library import read_library, write_library
from napari_mst.photo.chart import CHARTS
from napari_mst.photo.lights import WAVELENGTHS
from napari_mst.spectra import table

SUFFIXES = (".csv", ".sli")
"""Files that can be saved. Tab-separated text (`.tsv`, `.txt`) and `.sli.hdr` open as well."""


def colour_checker() -> list[Spectrum]:
    """Measured reflectance of the 24 patches of a Macbeth ColorChecker, 31 bands of 400-700 nm.

    They come from ISET (MIT licence).
    """
    chart = reflectances()["iset_macbethChart"]
    origin = Origin(cube="ColorChecker")
    names = (
        np.reshape(CHARTS["classic"].patches, (4, 6)).T.ravel().tolist()
    )  # down the columns of the chart
    return [
        Spectrum(WAVELENGTHS, values, name=name, origin=origin)
        for name, values in zip(names, chart, strict=True)
    ]


def read_spectra(
    path: str | PathLike[str], unit: str = "", *, as_reflectance: bool = False
) -> list[Spectrum]:
    """Return the spectra in a CSV file, or in an ENVI spectral library (`.sli` or its `.hdr`).

    A CSV file of another program has wavelengths in its first column and a spectrum in each other
    column, between commas, semicolons, tabs or blanks. docs/files.md has the rules for units, per
    cent and gaps. What had to be assumed is a `CurveWarning`.

    Parameters
    ----------
    unit
        Unit of the wavelengths ("nm", "um", ...) for a CSV file that does not say it.
    as_reflectance
        Look for per cent also in a file that napari-mst wrote: somebody may have changed it.

    Raises
    ------
    CubeFileError
        If the file is missing, damaged, too large or of another kind.

    Notes
    -----
    =======  =============================================================
    returns  reflectance 0-1 where the file has per cent, else values as stored; wavelengths in nm
    =======  =============================================================

    Examples
    --------
    >>> leaf = nm.Spectrum([500, 550, 600], [0.1, 0.4, 0.2], name="leaf")
    >>> (again,) = nm.read_spectra(nm.write_spectra("spectra.csv", leaf))
    >>> again.name, again.values
    ('leaf', array([0.1, 0.4, 0.2]))
    """
    path = Path(path)
    try:
        check_regular(path)
        if path.suffix.lower() in (".sli", ".hdr"):
            curves = read_library(path)
        else:
            curves = table.parse(text_of(path), path.name, unit)
    except OSError as error:
        raise unreadable(path.name, error) from error
    return table.spectra_of(curves, as_reflectance=as_reflectance)


def write_spectra(
    path: str | PathLike[str],
    spectra: Spectrum | Sequence[Spectrum],
    *,
    overwrite: bool = False,
) -> Path:
    """Save *spectra* as CSV (`.csv`) or as ENVI spectral library (`.sli` and `.sli.hdr`).

    Returns the file to open.

    Raises
    ------
    SaveError
        If the suffix is unknown, there are no spectra, or their wavelengths have several units or,
        for ENVI, differ; or for the reasons of `crash_safe.saving`. An older file is then intact.

    Notes
    -----
    =======  ==================================================
    spectra  any unit of values; wavelengths in one unit, as nm
    =======  ==================================================

    Examples
    --------
    >>> leaf = nm.Spectrum([500, 550, 600], [0.1, 0.4, 0.2], name="leaf")
    >>> nm.write_spectra("spectra.csv", [leaf]).name
    'spectra.csv'
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise SaveError(
            f"Expected a file name ending in {', '.join(SUFFIXES)}, got {shown(path.name)!r}. "
            "Add one."
        )
    curves = table.curves_of([spectra] if isinstance(spectra, Spectrum) else spectra)
    if path.suffix.lower() == ".sli":
        if not curves.has.all():
            raise SaveError(
                "Expected spectra of the same wavelengths for an ENVI library, got several. "
                "Save as CSV."
            )
        return write_library(path, curves, overwrite=overwrite)
    return table.write_text(path, table.text_of(curves), overwrite=overwrite)


def spectra_text(spectra: Sequence[Spectrum]) -> str:
    """*spectra* as a table for the clipboard: a column for each, tabs between the columns.

    Raises `SaveError` for the reasons of `write_spectra`.
    """
    return table.text_of(table.curves_of(spectra), "\t", has_records=False)
