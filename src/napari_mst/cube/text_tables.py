"""The only reader of spectra in text: tables from other programs and people become `Curves`.

The usual table has wavelengths in its first column and a curve in every further column; other
tables have one of the `layouts.LAYOUTS`.
Letters: B wavelengths, n curves.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence

import numpy as np

from napari_mst.base.errors import mismatch, shown
from napari_mst.cube.curves import AXIS, Curves, TableRow, axis, plain, value_of
from napari_mst.cube.layouts import (
    LAYOUTS,
    first_numeric,
    number_in,
    padded,
    unit_word,
    without_text_below,
)
from napari_mst.cube.spectrometers import as_table

MAX_COLUMNS = 50_000
"""Most columns of a table: each is a curve, which takes far more memory than its text."""

_SAMPLE = 64  # lines searched for the separator of cells
_BLANKS = re.compile(r"\s+(?![(\[])")  # "wavelength (nm)" is one cell
_WHOLE = re.compile(r"[+-]?\d+(e[+-]?\d+)?", re.IGNORECASE)  # the digits around a decimal comma
_TABLES = {None: "a table of wavelengths and values", 1: "rows of a wavelength and one value"}
_NAMED = re.compile(r"^(?:Name:|Data from )\s*(\S.*?)(?: Node)?$", re.MULTILINE)
_X_UNITS = re.compile(r"^X Units:.*\((\w+)\)", re.MULTILINE)  # in a file of the ECOSTRESS library


def parsed(text: str, name: str, unit: str = "", columns: int | None = None) -> Curves:
    """The curves in the table *text* of the file *name*.

    Parameters
    ----------
    unit
        The unit of the wavelengths if the table gives none.
    columns
        The number of curves required; by default any.

    Raises
    ------
    CubeFileError
        If *text* is not such a table, or can be read in two ways. The message names the row.
    """
    text = as_table(text, name)
    comments, heading, names, body, notes = _split(text, name, columns)
    is_own = "curve" in comments
    numbers = np.array(
        [[number_in(cell, line, name, "column") for cell in cells] for line, cells in body]
    ).T
    has = np.array([[cell.strip() != "" for cell in cells] for _, cells in body]).T
    records = []
    for column in range(1, len(numbers)):
        facts = {key: row[column] for key, row in comments.items() if column < len(row)}
        records.append({"name": names[column] or f"column {column}", **facts})
    # Spectral Evolution's files have radiances beside the reflectance.
    if any("reflect" in name.lower() for name in names):
        kept = [at for at, name in enumerate(names) if at == 0 or not name.startswith("Rad.")]
        numbers, has, records = numbers[kept], has[kept], [records[at - 1] for at in kept[1:]]
    if (known := _NAMED.search(text)) and len(records) == 1:
        records[0]["name"] = known[1].strip()
    texts = [plain(cells[0]) for _, cells in body]
    stated = _X_UNITS.search(text)
    word = unit_word(names[0]) or (stated[1] if stated else unit)
    wavelengths, unit, doubts = axis(texts, word, name, is_own=is_own)
    return Curves(
        name,
        wavelengths,
        unit,
        numbers[1:],
        has[1:],
        records,
        heading,
        is_own,
        [*notes, *doubts],
    ).settled()


def _split(
    text: str, name: str, columns: int | None
) -> tuple[dict[str, list[str]], str, list[str], list[TableRow], list[str]]:
    """A table as its `#` rows by first cell, the text above it, headings, body and notes."""
    rows, mark = _rows(text, name)
    records = {cells[0].lstrip("# "): cells for _, cells in rows if cells[0].startswith("#")}
    rows = [(line, _trimmed(cells)) for line, cells in rows if not cells[0].startswith("#")]
    if max((len(cells) for _, cells in rows), default=0) > MAX_COLUMNS:
        raise mismatch(name, f"at most {MAX_COLUMNS} columns", "more", "Split the file.")
    comments = [[key, *cells[1:]] for key, cells in records.items()]
    # A comment may be the heading, as in files of `numpy.savetxt`.
    spoken = [row for row in comments if AXIS.search(row[0])]
    start = first_numeric(rows)
    title = [[], *spoken, *(cells for _, cells in rows[:start])][-1]
    kept, _ = without_text_below(rows[start:])
    if mark == "," and _is_cut(kept, columns + 1 if columns else len(title)):
        fault = f"{shown(','.join(kept[0][1]), 30)!r}, whose commas may be decimal"
        advice = "Write points into numbers, or semicolons between them."
        raise mismatch(name, "a name above each column", fault, advice)
    if "curve" not in records:
        found = (layout(rows, name) for layout in LAYOUTS)
        rows = next((table for table in found if table is not None), rows)
    start = first_numeric(rows)
    # Where no row holds numbers, the second row shows best what is wrong.
    start = 1 if start is None else start
    above = [cells for _, cells in rows[:start]]
    title = [[], *spoken, *above][-1]
    heading = "\n".join(" ".join(row) for row in [*comments, *above])
    body, notes = without_text_below(rows[start:])
    width = max((len(cells) for _, cells in body), default=0)
    if width < 2 or columns not in (None, width - 1):
        layout = _TABLES.get(columns, f"rows of a wavelength and {columns} values")
        got = f"{width} columns" if width > 1 else "none"
        raise mismatch(name, layout, got, "Put wavelengths into the first column.")
    names = _names(title, width, mark)
    if width == 3 and not names[0] and "standard deviation" in heading.lower():
        notes = [*notes, "Its standard deviations were left out."]
        width, names = 2, ["", " ".join(title)]
    body = [(line, padded(cells, width)) for line, cells in body]
    return records, heading, names, body, notes


def _rows(text: str, name: str) -> tuple[list[TableRow], str]:
    """The rows of a text that are not blank, and the separator of cells."""
    mark = _mark_of(text)
    lines: Iterable[list[str]] = csv.reader(io.StringIO(text), delimiter=mark)
    if mark == " " and '"' in text:
        lines = csv.reader(re.split("\n", text), delimiter=" ", skipinitialspace=True)
    elif mark == " ":
        lines = (_BLANKS.split(re.sub("^# *", "#", line.strip())) for line in text.split("\n"))
    try:
        return [(line, row) for line, row in enumerate(lines, 1) if "".join(row).strip()], mark
    except csv.Error as error:
        raise mismatch(name, "a table of text", shown(error, 60), "Save it as CSV.") from None


def _mark_of(text: str) -> str:
    """The separator of cells, from the last of the lines with most numbers.

    Names above the table and text below it may contain other separators.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    some = [*lines[:: max(1, len(lines) // _SAMPLE)], *lines[-1:]]
    marks = [(_numbers_in(line, mark), mark) for line in some for mark in [_mark_in(line)]]
    return max(reversed(marks), key=lambda pair: pair[0], default=(0, " "))[1]


def _mark_in(line: str) -> str:
    words = line.split()
    mark = next((mark for mark in "\t;," if mark in line), " ")
    # Blanks separate numbers with decimal commas, as in "400,0 0,1" but not in "400, 0.1".
    if mark == "," and len(words) > 1 and None not in map(value_of, words) and words[0][-1] != ",":
        return " "
    return mark


def _numbers_in(line: str, mark: str) -> int:
    cells = line.split(None if mark == " " else mark)
    return sum(bool(cell.strip()) and value_of(cell.strip(' "')) is not None for cell in cells)


def _is_cut(body: Sequence[TableRow], width: int) -> bool:
    """True if rows are longer than *width*, and every cell may be half of a decimal number."""
    longest = max((len(cells) for _, cells in body), default=0)
    cells = (cell.strip() for _, row in body for cell in row)
    return longest > max(width, 2) and all(map(_WHOLE.fullmatch, cells))


def _names(title: list[str], width: int, mark: str) -> list[str]:
    """The headings of *width* columns from the row above them; "" for a missing heading."""
    # Blanks split any line into cells, so the first cell has to mention wavelengths.
    is_row = mark != " " and len(title) == width
    if title and len(title) <= width and (is_row or AXIS.search(title[0])):
        return padded(title, width)
    return padded(["", " ".join(title) if width == 2 else ""], width)


def _trimmed(cells: list[str]) -> list[str]:
    """*cells* without blank cells at the end."""
    last = max(at for at, cell in enumerate(cells) if cell.strip())
    return cells[: last + 1]
