"""Spectral libraries: CSV, ENVI (`.sli`), clipboard text, and the built-in colour chart.

Files written here keep every field of a `Spectrum`, such as coordinates, region, cube and colour,
so it reads back unchanged. Bounds are further columns (CSV) or spectra (ENVI). A text table has a
row for each wavelength and a column for each spectrum, below rows of facts that begin with `#`:

    # name,Pick 1,Region 1
    # row,12,
    wavelength (nm),Pick 1,Region 1
    400,0.0912,0.1104

A blank cell marks a wavelength that a spectrum lacks; `nan` is a gap in it. A name that a
spreadsheet would run as a formula is written after a quote, which is not part of the name.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from napari_mst.base import atomic_save
from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import SaveError, check_regular, mismatch, shown, unreadable
from napari_mst.calibration.chart import CHARTS
from napari_mst.cube.colour import reflectances
from napari_mst.cube.curves import BAND_INDEX, Curves, text_of
from napari_mst.cube.spectrum import Origin, Spectrum
from napari_mst.cube.text_tables import parsed
from napari_mst.formats.envi.spectral_library import read_library, write_library
from napari_mst.formats.wavelengths import cell_text, text_cell, titles_of
from napari_mst.photo.lights import WAVELENGTHS

SUFFIXES = (".csv", ".sli")
"""Suffixes that can be written. Tab-separated text (`.tsv`, `.txt`) and `.sli.hdr` open as well."""


def colour_checker() -> list[Spectrum]:
    """Measured reflectances of the 24 patches of a Macbeth ColorChecker, in 31 bands at 400-700 nm.

    The data come from ISET (MIT licence).
    """
    chart = reflectances()["iset_macbethChart"]
    origin = Origin(cube="ColorChecker")
    # The file lists the patches down the columns of the chart.
    names = np.reshape(CHARTS["classic"].patches, (4, 6)).T.ravel().tolist()
    return [
        Spectrum(WAVELENGTHS, values, name=name, origin=origin)
        for name, values in zip(names, chart, strict=True)
    ]


def read_spectra(
    path: str | PathLike[str], unit: str = "", *, as_reflectance: bool = False
) -> list[Spectrum]:
    """Read spectra from a text file or an ENVI spectral library (`.sli` or its `.hdr`).

    Text files of other programs may hold wavelengths and spectra in columns, pairs of columns or
    rows, or be JCAMP-DX or CGATS. docs/files.md lists these layouts, and the rules for units, per
    cent and gaps. Assumptions are reported as a `CurveWarning`.

    Parameters
    ----------
    unit
        Unit of the wavelengths ("nm", "um", ...) for a CSV file that does not state it.
    as_reflectance
        Detect per cent also in files that napari-mst wrote, which may have been edited since.

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
        if path.suffix.lower() in (".sli", ".lib", ".hdr"):
            curves = read_library(path)
        else:
            curves = parse(text_of(path), path.name, unit)
    except (OSError, MemoryError) as error:
        raise unreadable(path.name, error) from error
    return spectra_of(curves, as_reflectance=as_reflectance)


def write_spectra(
    path: str | PathLike[str],
    spectra: Spectrum | Sequence[Spectrum],
    *,
    overwrite: bool = False,
) -> Path:
    """Save *spectra* as CSV (`.csv`) or as an ENVI spectral library (`.sli` and `.sli.hdr`).

    Returns the file to open.

    Raises
    ------
    SaveError
        If the suffix is unknown, if there are no spectra, if their wavelengths have several units
        or, for ENVI, differ; or as `atomic_save.saving` does. An older file stays intact.

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
    curves = curves_of([spectra] if isinstance(spectra, Spectrum) else spectra)
    if path.suffix.lower() == ".sli":
        if not curves.has.all():
            raise SaveError(
                "Expected spectra of the same wavelengths for an ENVI library, got several. "
                "Save as CSV."
            )
        return write_library(path, curves, overwrite=overwrite)
    return write_text(path, table_text(curves), overwrite=overwrite)


def spectra_text(spectra: Sequence[Spectrum]) -> str:
    """Return *spectra* as a tab-separated table for the clipboard, one column per spectrum.

    Raises `SaveError` as `write_spectra` does.
    """
    return table_text(curves_of(spectra), "\t", has_records=False)


CURVES = ("values", "lower", "upper")
"""The curves of a spectrum; each gets a column."""

_INTEGERS = ("row", "column", "window", "pixels", "excluded")
"""Integer fields of an `Origin`."""

Record = dict[str, str]
"""The facts about one column, as text."""


def curves_of(spectra: Sequence[Spectrum]) -> Curves:
    """Return *spectra* and their bounds as curves at the wavelengths of all spectra.

    Wavelengths are sorted if the spectra differ in them.

    Raises
    ------
    SaveError
        If there are no spectra, or their wavelengths have several units; or if the spectra differ
        in wavelengths and one repeats a wavelength.
    """
    units = sorted({spectrum.unit for spectrum in spectra})
    if len(units) != 1:
        got = shown(", ".join(units)) or "no spectra"
        raise SaveError(
            f"Expected spectra whose wavelengths have one unit, got {got}. "
            "Save those of one unit at a time."
        )
    wavelengths = spectra[0].wavelengths
    are_same = all(np.array_equal(spectrum.wavelengths, wavelengths) for spectrum in spectra)
    if not are_same:
        wavelengths = np.unique(np.concatenate([spectrum.wavelengths for spectrum in spectra]))
    records, rows = [], []
    for spectrum in spectra:
        at = np.searchsorted(wavelengths, spectrum.wavelengths)
        # A row has room for one value of each spectrum.
        if not are_same and len(np.unique(at)) < len(at):
            raise SaveError(
                "Expected each wavelength once in a spectrum, got some repeated. "
                "Save it in its own file."
            )
        for curve in CURVES:
            values = getattr(spectrum, curve)
            if values is not None:
                row = np.full((2, wavelengths.size), np.nan)
                row[:, slice(None) if are_same else at] = values, np.ones(values.size)
                records.append(_record(spectrum, curve))
                rows.append(row)
    values, has = np.stack(rows, axis=1)
    return Curves("", wavelengths, units[0], values, has == 1, records)


def table_text(curves: Curves, delimiter: str = ",", *, has_records: bool = True) -> str:
    """Return *curves* as a text table, free of formulas, below the facts about each column."""
    first = curves.unit if curves.unit == BAND_INDEX else f"wavelength ({curves.unit})"
    rows = []
    for key in curves.records[0] if has_records else ():
        facts = [record[key] for record in curves.records]
        if key == "name" or any(facts):
            rows.append([f"# {key}", *facts])
    rows.append([first, *titles_of(curves.records)])
    columns = (curves.wavelengths.tolist(), curves.values.T.tolist(), curves.has.T.tolist())
    for at, *cells in zip(*columns, strict=True):
        texts = (_text(value) if has else "" for value, has in zip(*cells, strict=True))
        rows.append([_text(at), *texts])
    return csv_text(rows, delimiter)


def csv_text(rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """Return *rows* as CSV in which a spreadsheet finds no formulas."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(
        [text_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
    )
    return text.getvalue()


def write_text(path: Path, text: str, *, overwrite: bool) -> Path:
    """Save *text* atomically, as UTF-8. Raises `SaveError`, which leaves an older file intact."""
    data = text.encode("utf-8", errors="replace")
    with atomic_save.saving(path, needed=len(data), overwrite=overwrite) as (temporary,):
        temporary.write_bytes(data)
    return path


def parse(text: str, name: str, unit: str = "") -> Curves:
    """Parse the table *text* of the file *name*. Raises `CubeFileError` if it holds no curves.

    *unit* is the wavelength unit of a table that does not state one.
    """
    curves = parsed(text, name, unit)
    facts = [{key: cell_text(cell) for key, cell in record.items()} for record in curves.records]
    return replace(curves, records=facts)


def spectra_of(curves: Curves, *, as_reflectance: bool = False) -> list[Spectrum]:
    """Convert *curves* to spectra, with a `CurveWarning` for each assumption.

    Curves of other programs are taken as reflectance; with *as_reflectance*, so are curves from
    our own files. Raises `CubeFileError` if the curves do not fit together.
    """
    if as_reflectance or not curves.is_own:
        curves = curves.in_shares()
    curves.warn()
    spectra: list[Spectrum] = []
    bounds: dict[str, Doubles] = {}
    try:
        for record, values, has in zip(curves.records, curves.values, curves.has, strict=True):
            if not has.any():
                continue
            curve = Spectrum(curves.wavelengths[has], values[has], curves.unit)
            kind = record.get("curve") or "values"
            if kind == "values":
                bounds = {}
                spectra.append(_with_record(curve, record))
            else:
                bounds[kind] = curve.values
            # A spectrum needs both bounds at once, so the first waits for the second.
            if len(bounds) == 2:
                spectra[-1] = replace(
                    spectra[-1],
                    lower=bounds["lower"],
                    upper=bounds["upper"],
                    spread=record.get("spread", ""),
                )
    except (ValueError, LookupError) as error:
        detail = shown(error, 100)
        raise mismatch(
            curves.name, "the table as it was saved", f"a change: {detail}", "Remove its # rows."
        ) from None
    if not spectra:
        raise mismatch(curves.name, "spectra", "none", "Choose another file.")
    return spectra


def _record(spectrum: Spectrum, curve: str) -> Record:
    facts = {
        "name": spectrum.name,
        "colour": spectrum.colour,
        "spread": spectrum.spread,
        **asdict(spectrum.origin),
    }
    corners = [f"{_text(row)} {_text(column)}" for row, column in spectrum.origin.vertices]
    facts |= {"vertices": "; ".join(corners), "curve": curve}
    return {key.replace("_", " "): _text(value) for key, value in facts.items()}


def _with_record(curve: Spectrum, record: Record) -> Spectrum:
    facts: dict[str, Any] = {key.replace(" ", "_"): value for key, value in record.items() if value}
    for key in _INTEGERS:
        if key in facts:
            facts[key] = int(facts[key])
    if "area" in facts:
        facts["area"] = float(facts["area"])
    if "vertices" in facts:
        pairs = (pair.split() for pair in facts["vertices"].split(";"))
        facts["vertices"] = tuple((float(row), float(column)) for row, column in pairs)
    origin = Origin(**{key: facts[key] for key in Origin.__dataclass_fields__ if key in facts})
    return replace(curve, name=facts.get("name", ""), colour=facts.get("colour", ""), origin=origin)


def _text(value: object) -> str:
    """Return *value* as text that reads back unchanged; empty for None."""
    if isinstance(value, float):
        return repr(float(value)).removesuffix(".0")
    return "" if value is None else str(value)
