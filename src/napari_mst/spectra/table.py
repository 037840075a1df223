"""Spectra as a table of text: a row for each wavelength, a column for each spectrum.

What is known of each spectrum stands above, in rows that begin with `#`:

    # name,Pick 1,Region 1
    # row,12,
    wavelength (nm),Pick 1,Region 1
    400,0.0912,0.1104

A blank cell is a wavelength that a spectrum does not have; `nan` is a gap in it. A name that a
spreadsheet would run as a formula has a quote before it, which is no part of the name.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from napari_mst.curves import BAND_INDEX, Curves, parsed, title_of
from napari_mst.errors import SaveError
from napari_mst.formats.text import cell_text, text_cell
from napari_mst.messages import mismatch, shown
from napari_mst.spectra.spectrum import Origin, Spectrum, Values

CURVES = ("values", "lower", "upper")
"""The curves of a spectrum, each of which has a column of its own."""

_INTEGERS = ("row", "column", "window", "pixels", "excluded")
"""Fields of an `Origin` that are whole numbers."""

Record = dict[str, str]
"""The facts of one column, as text."""


def columns(spectra: Iterable[Spectrum]) -> list[tuple[Record, Spectrum]]:
    """The columns of a table: what is known of each, and its curve without bounds."""
    found = []
    for spectrum in spectra:
        for curve in CURVES:
            values = getattr(spectrum, curve)
            if values is not None:
                found.append((_record(spectrum, curve), spectrum.with_values(values)))
    return found


def table_rows(spectra: Sequence[Spectrum]) -> list[list[str]]:
    """The heading, and one row for each wavelength of any spectrum.

    Raises
    ------
    SaveError
        If there are no spectra, or their wavelengths have several units; or if their wavelengths
        differ, and are repeated within one spectrum.
    """
    found = columns(spectra)
    unit = one_unit(spectra)
    wavelengths = _all_wavelengths(spectra)
    first = unit if unit == BAND_INDEX else f"wavelength ({unit})"
    rows = [[first, *(title_of(record) for record, _ in found)]]
    cells = [_cells(spectrum, wavelengths) for _, spectrum in found]
    for wavelength, row in zip(wavelengths, zip(*cells, strict=True), strict=True):
        rows.append([_text(wavelength), *row])
    return rows


def record_rows(spectra: Sequence[Spectrum]) -> list[list[str]]:
    """A row for the names, and for every other fact that is known of any of the spectra."""
    records = [record for record, _ in columns(spectra)]
    rows = []
    for key in records[0]:
        facts = [record[key] for record in records]
        if key == "name" or any(facts):
            rows.append([f"# {key}", *facts])
    return rows


def joined(rows: Iterable[Iterable[str]], delimiter: str = ",") -> str:
    """*rows* as text, in which no cell is a formula."""
    text = io.StringIO()
    cells = ([text_cell(cell) for cell in row] for row in rows)
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(cells)
    return text.getvalue()


def one_unit(spectra: Sequence[Spectrum]) -> str:
    """The unit of the wavelengths of all *spectra*.

    Raises `SaveError` if there are no spectra, or several units.
    """
    units = sorted({spectrum.unit for spectrum in spectra})
    if len(units) != 1:
        found = shown(", ".join(units)) or "no spectra"
        raise SaveError(
            f"Expected spectra whose wavelengths have one unit, got {found}. "
            "Save those of one unit at a time."
        )
    return units[0]


def _all_wavelengths(spectra: Sequence[Spectrum]) -> Values:
    """The wavelengths that all spectra have; where they differ, those of any spectrum, rising."""
    wavelengths = spectra[0].wavelengths
    if all(np.array_equal(spectrum.wavelengths, wavelengths) for spectrum in spectra):
        return wavelengths
    for spectrum in spectra:
        # Two values at one wavelength could not stand in one row.
        if len(np.unique(spectrum.wavelengths)) < len(spectrum.wavelengths):
            raise SaveError(
                "Expected each wavelength once in a spectrum, got some repeated. "
                "Save it in its own file."
            )
    return np.unique(np.concatenate([spectrum.wavelengths for spectrum in spectra]))


def parse(text: str, name: str, unit: str = "") -> Curves:
    """The curves in the table *text* of the file *name*. Raises `CubeFileError` if it is none.

    *unit* is that of the wavelengths where the table does not say it.
    """
    curves = parsed(text, name, unit)
    facts = [{key: cell_text(cell) for key, cell in record.items()} for record in curves.records]
    return replace(curves, records=facts)


def spectra_of(curves: Curves, *, as_reflectance: bool = False) -> list[Spectrum]:
    """The spectra that *curves* are, with a `CurveWarning` for each assumption.

    The numbers of other programs are reflectance, and so are those in files of ours if
    *as_reflectance*. Raises `CubeFileError` if the curves do not fit together.
    """
    if as_reflectance or not curves.is_own:
        curves = curves.in_shares()
    curves.tell()
    found = []
    for record, values, has in zip(curves.records, curves.values, curves.has, strict=True):
        if has.any():
            found.append((record, Spectrum(curves.wavelengths[has], values[has], curves.unit)))
    return whole(found, curves.name)


def whole(curves: Iterable[tuple[Record, Spectrum]], name: str) -> list[Spectrum]:
    """Join the columns of each spectrum: the inverse of `columns`.

    Raises `CubeFileError` about the file *name* if the columns do not fit together.
    """
    spectra: list[Spectrum] = []
    bounds: dict[str, Values] = {}
    try:
        for record, curve in curves:
            kind = record.get("curve") or "values"
            if kind == "values":
                bounds = {}
                spectra.append(_with_record(curve, record))
            else:
                bounds[kind] = curve.values
            # A spectrum takes both bounds at once, so the first waits for the second.
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
            name, "the table as it was saved", f"a change: {detail}", "Remove its # rows."
        ) from None
    if not spectra:
        raise mismatch(name, "spectra", "none", "Choose another file.")
    return spectra


def _record(spectrum: Spectrum, curve: str) -> Record:
    known = {
        "name": spectrum.name,
        "colour": spectrum.colour,
        "spread": spectrum.spread,
        **asdict(spectrum.origin),
    }
    corners = [f"{_text(row)} {_text(column)}" for row, column in spectrum.origin.vertices]
    known["vertices"] = "; ".join(corners)
    record = {key.replace("_", " "): _text(value) for key, value in known.items()}
    return {**record, "curve": curve}


def _with_record(curve: Spectrum, record: Record) -> Spectrum:
    known: dict[str, Any] = {key.replace(" ", "_"): value for key, value in record.items() if value}
    for key in _INTEGERS:
        if key in known:
            known[key] = int(known[key])
    if "area" in known:
        known["area"] = float(known["area"])
    if "vertices" in known:
        pairs = (pair.split() for pair in known["vertices"].split(";"))
        known["vertices"] = tuple((float(row), float(column)) for row, column in pairs)
    origin = Origin(**{key: known[key] for key in Origin.__dataclass_fields__ if key in known})
    return replace(curve, name=known.get("name", ""), colour=known.get("colour", ""), origin=origin)


def _cells(spectrum: Spectrum, wavelengths: Values) -> list[str]:
    """The values of a spectrum as text; blank where it does not have a wavelength."""
    if np.array_equal(spectrum.wavelengths, wavelengths):
        return [_text(value) for value in spectrum.values.tolist()]
    known = dict(zip(spectrum.wavelengths.tolist(), spectrum.values.tolist(), strict=True))
    return [_text(known.get(wavelength)) for wavelength in wavelengths.tolist()]


def _text(value: object) -> str:
    """*value* as text that reads back as it was; empty for None."""
    if isinstance(value, float):
        return repr(float(value)).removesuffix(".0")
    return "" if value is None else str(value)
