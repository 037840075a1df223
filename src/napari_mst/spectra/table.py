"""Spectra as a table of text: wavelengths down, one column a spectrum, and what is known of each above, behind `#`.

    # name,Pick 1,Region 1
    # row,12,
    wavelength (nm),Pick 1,Region 1
    400,0.0912,0.1104

Blank cells are wavelengths that a spectrum has not; `nan` is a gap in it. A name that a spreadsheet would run as a
formula has a quote before it, which is no part of the name.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from napari_mst.cube import BAND_INDEX
from napari_mst.errors import SaveError
from napari_mst.formats.text import cell_text, text_cell
from napari_mst.formats.wavelengths import power_of, spectral_axis
from napari_mst.messages import mismatch, shown
from napari_mst.spectra.spectrum import Origin, Spectrum, Values

CURVES = ("values", "lower", "upper")
"""What a column holds of its spectrum."""
_INTEGERS = ("row", "column", "window", "pixels", "excluded")
_IN_HEADING = re.compile(r"[(\[](.*?)[)\]]|[_\s]([^_\s()\[\]]+)$")

Record = dict[str, str]


def columns(spectra: Iterable[Spectrum]) -> list[tuple[Record, Spectrum]]:
    """What is known of each column, and its curve as a spectrum without bounds."""
    return [
        (_record(spectrum) | {"curve": curve}, spectrum.with_values(getattr(spectrum, curve)))
        for spectrum in spectra
        for curve in CURVES
        if getattr(spectrum, curve) is not None
    ]


def table_rows(spectra: Sequence[Spectrum]) -> list[list[str]]:
    """The heading and one row a wavelength: those of all spectra, rising, unless all have the same.

    Raises
    ------
    SaveError
        If there are no spectra, their wavelengths differ in unit, or differ and are repeated within one.
    """
    found = columns(spectra)
    unit = one_unit(spectra)
    wavelengths = spectra[0].wavelengths
    if not all(np.array_equal(spectrum.wavelengths, wavelengths) for spectrum in spectra):
        wavelengths = np.unique(np.concatenate([spectrum.wavelengths for spectrum in spectra]))
        if any(
            len(np.unique(spectrum.wavelengths)) < len(spectrum.wavelengths) for spectrum in spectra
        ):
            raise SaveError(
                "Expected each wavelength once in a spectrum, got some repeated. Save it in its own file."
            )
    cells = [_cells(spectrum, wavelengths) for _, spectrum in found]
    first = unit if unit == BAND_INDEX else f"wavelength ({unit})"
    heading = [first, *(_heading(record) for record, _ in found)]
    return [
        heading,
        *([_text(w), *row] for w, row in zip(wavelengths, zip(*cells, strict=True), strict=True)),
    ]


def record_rows(spectra: Sequence[Spectrum]) -> list[list[str]]:
    """A row for the names, and for each thing that is known of any of the spectra."""
    records = [record for record, _ in columns(spectra)]
    keys = [key for key in records[0] if key == "name" or any(record[key] for record in records)]
    return [[f"# {key}", *(record[key] for record in records)] for key in keys]


def joined(rows: Iterable[Iterable[str]], delimiter: str = ",") -> str:
    """*rows* as text, in which no cell is a formula."""
    text = io.StringIO()
    cells = ([text_cell(cell) for cell in row] for row in rows)
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(cells)
    return text.getvalue()


def one_unit(spectra: Sequence[Spectrum]) -> str:
    """The unit of the wavelengths of all *spectra*. Raises `SaveError` if there are none, or several units."""
    units = sorted({spectrum.unit for spectrum in spectra})
    if len(units) != 1:
        raise SaveError(
            f"Expected spectra whose wavelengths have one unit, got {shown(', '.join(units)) or 'no spectra'}. "
            "Save those of one unit at a time."
        )
    return units[0]


def parse(text: str, name: str, unit: str = "") -> list[Spectrum]:
    """The spectra in the table *text* of the file *name*; cells are between commas, semicolons or tabs.

    The unit of the wavelengths is in the heading of the first column, "wavelength (um)", else it is *unit*. Raises
    `CubeFileError`, naming the row, if it is no such table.
    """
    records, heading, body = _split(text, name)
    if not body or len(body[0][1]) < 2:
        raise mismatch(
            name,
            "a table of wavelengths and values",
            "none",
            "Put wavelengths into the first column.",
        )
    word = _unit_word(heading[0]) or unit or "Unknown"
    numbers = np.array([_numbers(cells, line, name) for line, cells in body]).T
    texts = [_plain(cells[0]) for _, cells in body]
    if not np.isfinite(numbers[0]).all():
        raise mismatch(name, "a wavelength in every row", "blank cells", "Remove those rows.")
    wavelengths, unit, _ = spectral_axis(texts, word, (), len(texts))
    if heading[0].strip().lower() == BAND_INDEX:
        unit = BAND_INDEX
    curves = []
    for index in range(1, len(numbers)):
        record = {key: cells[index] for key, cells in records.items() if index < len(cells)}
        has = np.array([cells[index].strip() != "" for _, cells in body])
        if has.any():
            label = record.get("name", heading[index] or f"column {index}")
            curves.append(
                (record | {"name": label}, Spectrum(wavelengths[has], numbers[index][has], unit))
            )
    return whole(curves, name)


def whole(curves: Iterable[tuple[Record, Spectrum]], name: str) -> list[Spectrum]:
    """The spectra whose `columns` *curves* are; the inverse of that. Raises `CubeFileError` about the file *name*."""
    spectra = list[Spectrum]()
    bounds = dict[str, Values]()
    try:
        for record, curve in curves:
            kind = record.get("curve") or "values"
            if kind == "values":
                bounds = {}
                spectra.append(_with_record(curve, record))
            else:
                bounds[kind] = curve.values
            if len(bounds) == 2:
                lower, upper = bounds["lower"], bounds["upper"]
                spectra[-1] = replace(
                    spectra[-1], lower=lower, upper=upper, spread=record.get("spread", "")
                )
    except (ValueError, LookupError) as error:
        detail = shown(error, 100)
        raise mismatch(
            name, "the table as it was saved", f"a change: {detail}", "Remove its # rows."
        ) from None
    if not spectra:
        raise mismatch(name, "spectra", "none", "Choose another file.")
    return spectra


def _record(spectrum: Spectrum) -> Record:
    known = {
        "name": spectrum.name,
        "colour": spectrum.colour,
        "spread": spectrum.spread,
        **asdict(spectrum.origin),
    }
    known["vertices"] = "; ".join(
        f"{_text(row)} {_text(column)}" for row, column in spectrum.origin.vertices
    )
    return {key.replace("_", " "): _text(value) for key, value in known.items()}


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


def _heading(record: Record) -> str:
    return (
        record["name"] if record["curve"] == "values" else f"{record['name']} ({record['curve']})"
    )


def _cells(spectrum: Spectrum, wavelengths: Values) -> list[str]:
    if np.array_equal(spectrum.wavelengths, wavelengths):
        return [_text(value) for value in spectrum.values.tolist()]
    known = dict(zip(spectrum.wavelengths.tolist(), spectrum.values.tolist(), strict=True))
    return [_text(known[w]) if w in known else "" for w in wavelengths.tolist()]


def _text(value: object) -> str:
    """*value* so that it reads back as it was; empty for None."""
    if isinstance(value, float):
        return repr(float(value)).removesuffix(".0")
    return "" if value is None else str(value)


def _split(
    text: str, name: str
) -> tuple[dict[str, list[str]], list[str], list[tuple[int, list[str]]]]:
    """The `#` rows by their keys, the heading, and the numbered rows of numbers, all of one length."""
    last = text.rstrip("\n").rpartition("\n")[2]
    delimiter = next((mark for mark in "\t;" if mark in last), ",")
    try:
        rows = [
            (n, row)
            for n, row in enumerate(csv.reader(io.StringIO(text), delimiter=delimiter), 1)
            if any(row)
        ]
    except csv.Error as error:
        raise mismatch(name, "a table of text", shown(error, 60), "Save it as CSV.") from None
    named = ([cell_text(cell) for cell in row] for _, row in rows if row[0].startswith("#"))
    records = {row[0].lstrip("# ").strip(): row for row in named}
    body = [(number, row) for number, row in rows if not row[0].startswith("#")]
    width = max((len(row) for _, row in body), default=0)
    body = [(number, row + [""] * (width - len(row))) for number, row in body]
    has_heading = bool(body) and not _is_number(body[0][1][0])
    heading = [cell_text(cell) for cell in body[0][1]] if has_heading else [""] * width
    return records, heading, body[has_heading:]


def _numbers(cells: Sequence[str], line: int, name: str) -> list[float]:
    if bad := next((cell for cell in cells if cell.strip() and not _is_number(cell)), None):
        raise mismatch(
            name, f"numbers in row {line}", repr(shown(bad, 30)), "Keep one spectrum a column."
        )
    return [float(_plain(cell) or math.nan) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        float(_plain(cell))
    except ValueError:
        return False
    return "_" not in cell


def _plain(cell: str) -> str:
    """*cell* with a decimal point where a comma was."""
    return cell.strip().replace(",", ".")


def _unit_word(heading: str) -> str:
    """The unit in "wavelength (nm)", "Wavelength [um]" or "wavelength_nm"; empty if there is none."""
    found = _IN_HEADING.search(heading.strip())
    word = (found[1] or found[2] or "").strip() if found else heading.strip()
    return word if (found and found[1]) or power_of(word) is not None else ""
