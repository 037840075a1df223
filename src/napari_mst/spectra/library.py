"""Spectral libraries: CSV, ENVI (`.sli`), text for the clipboard, and the built-in colour chart.

Files that we write keep everything of a `Spectrum`, so that it opens again as it was: coordinates,
region, cube and colour. Bounds are columns (CSV) or spectra (ENVI) of their own.
"""

import json
from collections.abc import Sequence
from importlib import resources
from os import PathLike
from pathlib import Path

import numpy as np

from napari_mst import crash_safe
from napari_mst.errors import SaveError
from napari_mst.formats.envi.library import Library, read_library, write_library
from napari_mst.messages import check_regular, mismatch, shown, unreadable
from napari_mst.spectra import table
from napari_mst.spectra.spectrum import Origin, Spectrum

SUFFIXES = (".csv", ".sli")
"""Files that can be saved. Tab-separated text (`.tsv`, `.txt`) and `.sli.hdr` open as well."""
MAX_BYTES = 64 * 2**20
"""Most bytes of a table: as lists of text it takes many times as much memory."""
_COLUMNS = (
    ("dark skin", "orange", "blue", "white"),
    ("light skin", "purplish blue", "green", "neutral 8"),
    ("blue sky", "moderate red", "red", "neutral 6.5"),
    ("foliage", "purple", "yellow", "neutral 5"),
    ("blue flower", "yellow green", "magenta", "neutral 3.5"),
    ("bluish green", "orange yellow", "cyan", "black"),
)
PATCHES = tuple(name for column in _COLUMNS for name in column)
"""Names of the 24 patches of a Macbeth ColorChecker, down its columns."""


def colour_checker() -> list[Spectrum]:
    """Measured reflectance of the 24 patches of a Macbeth ColorChecker, 31 bands of 400-700 nm.

    They come from ISET (MIT licence).
    """
    data = resources.files("napari_mst").joinpath("data/reflectance31.npz")
    with data.open("rb") as file, np.load(file) as stored:
        wavelengths = stored["wavelength"]
        chart = stored["iset_macbethChart"]
    origin = Origin(cube="ColorChecker")
    return [
        Spectrum(wavelengths, values, name=name, origin=origin)
        for name, values in zip(PATCHES, chart, strict=True)
    ]


def read_spectra(path: str | PathLike[str], unit: str = "") -> list[Spectrum]:
    """The spectra in a CSV file, or in an ENVI spectral library (`.sli` or its `.hdr`).

    A CSV file of another program has wavelengths in its first column and a spectrum in each other
    column. Wavelengths in other units become nm. Where nobody says the unit, they are kept as they
    are, and their unit is "Unknown".

    Parameters
    ----------
    unit
        Unit of the wavelengths ("nm", "um", ...) for a CSV file that does not say it.

    Raises
    ------
    CubeFileError
        If the file is missing, damaged, too large or of another kind.

    Notes
    -----
    =======  =============================================================
    returns  values as stored; wavelengths in nm where their unit is known
    =======  =============================================================

    Examples
    --------
    >>> leaf = nm.Spectrum([500, 550, 600], [0.1, 0.4, 0.2], name="leaf")
    >>> (again,) = nm.read_spectra(nm.write_spectra("spectra.csv", [leaf]))
    >>> again.name, again.values
    ('leaf', array([0.1, 0.4, 0.2]))
    """
    path = Path(path)
    try:
        check_regular(path)
        if path.suffix.lower() in (".sli", ".hdr"):
            return _from_library(read_library(path), path.name)
        return table.parse(_decoded(path), path.name, unit)
    except OSError as error:
        raise unreadable(path.name, error) from error


def write_spectra(
    path: str | PathLike[str], spectra: Sequence[Spectrum], *, overwrite: bool = False
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
    if path.suffix.lower() == ".sli":
        return write_library(path, _as_library(spectra), overwrite=overwrite)
    rows = table.table_rows(spectra)
    data = table.joined([*table.record_rows(spectra), *rows]).encode("utf-8", errors="replace")
    with crash_safe.saving(path, needed=len(data), overwrite=overwrite) as (temporary,):
        temporary.write_bytes(data)
    return path


def spectra_text(spectra: Sequence[Spectrum]) -> str:
    """*spectra* as a table for the clipboard: a column for each, tabs between the columns.

    Raises `SaveError` for the reasons of `write_spectra`.
    """
    return table.joined(table.table_rows(spectra), "\t")


def _decoded(path: Path) -> str:
    """The text of a file in UTF-8 or Latin-1, with any line ends."""
    if path.stat().st_size > MAX_BYTES:
        raise mismatch(path.name, f"at most {MAX_BYTES} bytes", "more", "Open another file.")
    raw = path.read_bytes()
    if b"\0" in raw:
        raise mismatch(
            path.name, "UTF-8 or Latin-1 text", "UTF-16 or binary data", "Save it as plain text."
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _as_library(spectra: Sequence[Spectrum]) -> Library:
    unit = table.one_unit(spectra)
    wavelengths = spectra[0].wavelengths
    if not all(np.array_equal(spectrum.wavelengths, wavelengths) for spectrum in spectra):
        raise SaveError(
            "Expected spectra of the same wavelengths for an ENVI library, got several. "
            "Save as CSV."
        )
    columns = table.columns(spectra)
    names = [table.heading(record) for record, _ in columns]
    values = np.stack([curve.values for _, curve in columns])
    # Empty fields read back as what is missing.
    notes = [{key: value for key, value in record.items() if value} for record, _ in columns]
    return Library(wavelengths, unit, names, values, json.dumps(notes))


def _from_library(library: Library, name: str) -> list[Spectrum]:
    try:
        records = json.loads(library.notes) if library.notes else []
    except ValueError:
        records = []
    is_one_each = len(records) == len(library.values)
    if not is_one_each or not all(isinstance(record, dict) for record in records):
        # Another program wrote the library, or changed it: only the names are sure.
        records = [{"name": label} for label in library.names]
    records = [{key: str(value) for key, value in record.items()} for record in records]
    curves = (Spectrum(library.wavelengths, values, library.unit) for values in library.values)
    return table.whole(zip(records, curves, strict=True), name)
