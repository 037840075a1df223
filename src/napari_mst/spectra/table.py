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
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from napari_mst.cube import BAND_INDEX
from napari_mst.errors import SaveError
from napari_mst.formats.text import cell_text, text_cell
from napari_mst.formats.wavelengths import power_of, spectral_axis
from napari_mst.messages import mismatch, shown
from napari_mst.spectra.spectrum import Origin, Spectrum, Values

CURVES = ("values", "lower", "upper")
"""The curves of a spectrum, each of which has a column of its own."""

_INTEGERS = ("row", "column", "window", "pixels", "excluded")
"""Fields of an `Origin` that are whole numbers."""

_UNIT_IN_HEADING = re.compile(r"[(\[](.*?)[)\]]|[_\s]([^_\s()\[\]]+)$")

Record = dict[str, str]
"""The facts of one column, as text."""

Row = tuple[int, list[str]]
"""The number of a line, and its cells."""


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
    rows = [[first, *(heading(record) for record, _ in found)]]
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


def heading(record: Record) -> str:
    """The name of a column; bounds have theirs behind that of their spectrum."""
    if record["curve"] == "values":
        return record["name"]
    return f"{record['name']} ({record['curve']})"


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


def parse(text: str, name: str, unit: str = "") -> list[Spectrum]:
    """The spectra in the table *text* of the file *name*.

    Cells are between commas, semicolons or tabs. The unit of the wavelengths is in the heading of
    the first column, "wavelength (um)", else it is *unit*. Raises `CubeFileError`, naming the row,
    if it is no such table.
    """
    table = _split(text, name)
    if not table.body or len(table.body[0][1]) < 2:
        raise mismatch(
            name,
            "a table of wavelengths and values",
            "none",
            "Put wavelengths into the first column.",
        )
    numbers = np.array([_numbers(row, name) for row in table.body]).T
    if not np.isfinite(numbers[0]).all():
        raise mismatch(name, "a wavelength in every row", "blank cells", "Remove those rows.")
    word = _unit_word(table.heading[0]) or unit or "Unknown"
    texts = [_plain(cells[0]) for _, cells in table.body]
    wavelengths, unit, _ = spectral_axis(texts, word, (), len(texts))
    if table.heading[0].strip().lower() == BAND_INDEX:
        unit = BAND_INDEX
    curves = []
    for index in range(1, len(numbers)):
        has = np.array([cells[index].strip() != "" for _, cells in table.body])
        if has.any():
            curve = Spectrum(wavelengths[has], numbers[index][has], unit)
            curves.append((table.record(index), curve))
    return whole(curves, name)


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


class _Table(NamedTuple):
    """The parts of a table.

    Attributes
    ----------
    records
        The `#` rows, by what they are about.
    heading
        The names of the columns, "" where the table has no heading.
    body
        The rows of numbers, all of one length.
    """

    records: dict[str, list[str]]
    heading: list[str]
    body: list[Row]

    def record(self, column: int) -> Record:
        """The facts about a column, at least its name."""
        record = {key: row[column] for key, row in self.records.items() if column < len(row)}
        record.setdefault("name", self.heading[column] or f"column {column}")
        return record


def _split(text: str, name: str) -> _Table:
    """The parts of the table in a text."""
    rows = _rows(text, name)
    records = {}
    body: list[Row] = []
    for number, row in rows:
        if row[0].startswith("#"):
            cells = [cell_text(cell) for cell in row]
            records[cells[0].lstrip("# ").strip()] = cells
        else:
            body.append((number, row))
    # A row may lack the blank cells at its end.
    width = max((len(row) for _, row in body), default=0)
    body = [(number, row + [""] * (width - len(row))) for number, row in body]
    if not body or _is_number(body[0][1][0]):
        return _Table(records, [""] * width, body)
    return _Table(records, [cell_text(cell) for cell in body[0][1]], body[1:])


def _rows(text: str, name: str) -> list[Row]:
    """The rows of a text that are not blank."""
    # The last row holds numbers, where no name can be mistaken for a delimiter.
    last = text.rstrip("\n").rpartition("\n")[2]
    delimiter = next((mark for mark in "\t;" if mark in last), ",")
    lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        return [(number, row) for number, row in enumerate(lines, 1) if any(row)]
    except csv.Error as error:
        raise mismatch(name, "a table of text", shown(error, 60), "Save it as CSV.") from None


def _numbers(row: Row, name: str) -> list[float]:
    """The numbers of a row; NaN for a blank cell."""
    line, cells = row
    for cell in cells:
        if cell.strip() and not _is_number(cell):
            found = repr(shown(cell, 30))
            raise mismatch(name, f"numbers in row {line}", found, "Keep one spectrum a column.")
    return [float(_plain(cell) or math.nan) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        float(_plain(cell))
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000 as a number


def _plain(cell: str) -> str:
    """*cell* with a decimal point where a comma was."""
    return cell.strip().replace(",", ".")


def _unit_word(heading: str) -> str:
    """The unit in "wavelength (nm)", "Wavelength [um]" or "wavelength_nm"; empty without one."""
    found = _UNIT_IN_HEADING.search(heading.strip())
    if found is not None and found[1]:
        return found[1].strip()
    # Without brackets, a word counts only if it is a unit of length.
    word = (found[2] or "").strip() if found is not None else heading.strip()
    return word if power_of(word) is not None else ""
