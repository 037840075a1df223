"""Spectral libraries: CSV, ENVI (`.sli`), text for the clipboard, and the built-in colour chart.

What we write keeps all of a `Spectrum`, so that it opens again as it was: coordinates, region, cube, colour; bounds are
further columns (CSV) or spectra (ENVI) of their own.
"""

import json
from collections.abc import Sequence
from importlib import resources
from os import PathLike
from pathlib import Path

import numpy as np

from napari_mst import crash_safe
from napari_mst.errors import CubeFileError, SaveError
from napari_mst.formats.envi_library import Library, read_library, write_library
from napari_mst.messages import mismatch, shown
from napari_mst.spectra import table
from napari_mst.spectra.spectrum import Origin, Spectrum

SUFFIXES = (".csv", ".sli")
"""What can be saved; tab-separated text (`.tsv`, `.txt`) and the header of a library (`.hdr`) open as well."""
MAX_BYTES = 64 * 2**20
"""The most that a table may have; as text it takes many times as much memory."""
PATCHES = (
    *("dark skin", "orange", "blue", "white", "light skin", "purplish blue", "green", "neutral 8"),
    *("blue sky", "moderate red", "red", "neutral 6.5", "foliage", "purple", "yellow", "neutral 5"),
    *(
        "blue flower",
        "yellow green",
        "magenta",
        "neutral 3.5",
        "bluish green",
        "orange yellow",
        "cyan",
        "black",
    ),
)
"""Names of the 24 patches of a Macbeth ColorChecker, down its columns."""


def colour_checker() -> list[Spectrum]:
    """Measured reflectance of the 24 patches of a Macbeth ColorChecker, 31 bands of 400-700 nm (ISET, MIT licence)."""
    with (
        resources.files("napari_mst").joinpath("data/reflectance31.npz").open("rb") as file,
        np.load(file) as stored,
    ):
        wavelengths, chart = stored["wavelength"], stored["iset_macbethChart"]
    return [
        Spectrum(wavelengths, values, name=name, origin=Origin(cube="ColorChecker"))
        for name, values in zip(PATCHES, chart, strict=True)
    ]


def read_spectra(path: str | PathLike[str], unit: str = "") -> list[Spectrum]:
    """The spectra in a CSV file, or in an ENVI spectral library (`.sli` or its `.hdr`).

    A CSV file that we did not write has wavelengths in its first column, and a spectrum in each other one. Lengths
    in other units become nm; wavelengths whose unit no one says are kept as they are, their unit "Unknown".

    Parameters
    ----------
    unit
        That of the wavelengths ("nm", "um", ...) of a CSV file that does not say it.

    Raises
    ------
    CubeFileError
        If the file is missing, damaged, too large or of another kind.
    """
    path = Path(path)
    try:
        if path.suffix.lower() in (".sli", ".hdr"):
            return _from_library(read_library(path), path.name)
        return table.parse(_decoded(path), path.name, unit)
    except CubeFileError:
        raise
    except OSError as error:
        reason = shown(error.strerror or error, 80)
        raise CubeFileError(
            f"Expected {shown(path.name)} to be readable, got: {reason}. Check the file."
        ) from error


def write_spectra(
    path: str | PathLike[str], spectra: Sequence[Spectrum], *, overwrite: bool = False
) -> Path:
    """Save *spectra* as CSV (`.csv`) or ENVI spectral library (`.sli` and `.sli.hdr`), and return the file to open.

    Raises
    ------
    SaveError
        If the suffix is another, there are no spectra, their wavelengths have several units or, for ENVI, differ; or
        as `crash_safe.saving`. What was there before is intact.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise SaveError(
            f"Expected a file name ending in {', '.join(SUFFIXES)}, got {shown(path.name)!r}. Add one."
        )
    if path.suffix.lower() == ".sli":
        return write_library(path, _as_library(spectra), overwrite=overwrite)
    rows = table.table_rows(spectra)
    data = table.joined([*table.record_rows(spectra), *rows]).encode("utf-8", errors="replace")
    with crash_safe.saving(path, needed=len(data), overwrite=overwrite) as (temporary,):
        temporary.write_bytes(data)
    return path


def spectra_text(spectra: Sequence[Spectrum]) -> str:
    """*spectra* as a table for the clipboard: wavelengths down, one column a spectrum, tabs between.

    Raises `SaveError` as `write_spectra` does.
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
            "Expected spectra of the same wavelengths for an ENVI library, got several. Save as CSV."
        )
    records, curves = zip(*table.columns(spectra), strict=True)
    names = [
        f"{r['name']} ({r['curve']})" if r["curve"] != "values" else r["name"] for r in records
    ]
    values = np.stack([curve.values for curve in curves])
    return Library(
        wavelengths,
        unit,
        names,
        values,
        json.dumps([{k: v for k, v in r.items() if v} for r in records]),
    )


def _from_library(library: Library, name: str) -> list[Spectrum]:
    try:
        records = json.loads(library.notes) if library.notes else []
    except ValueError:
        records = []
    if len(records) != len(library.values) or not all(
        isinstance(record, dict) for record in records
    ):
        records = [{"name": label} for label in library.names]
    records = [{key: str(value) for key, value in record.items()} for record in records]
    curves = (Spectrum(library.wavelengths, values, library.unit) for values in library.values)
    return table.whole(zip(records, curves, strict=True), name)
