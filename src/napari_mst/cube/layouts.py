"""Layouts of spectra in text tables, each converted to the one that `text_tables` reads.

That one has wavelengths in the first column and a spectrum in every other column. A row of a table
is a line number and the cells of the line.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from napari_mst.base.arrays import is_monotonic
from napari_mst.base.errors import mismatch, shown
from napari_mst.cube.curves import (
    AXIS,
    BAND_INDEX,
    WAVENUMBER,
    TableRow,
    plain,
    power_by_range,
    power_of,
    value_of,
)

_UNIT = re.compile(r"[(\[](.*?)[)\]]|[_\s]([^_\s()\[\]]+)$")
_NUMBERED = re.compile(r"(\D*?)(\d+(?:[.,]\d+)?)(\D*)")
_FEWEST = 3
_HEADINGS = 200  # rows searched for a heading with wavelengths
_OF_SAMPLES = (re.compile("name|title|label", re.IGNORECASE), re.compile("id|sample|spectr", re.I))
_OF_PAIRS = re.compile(r"wave|lambda|\bwl\b|^\W*(x|[nu\u00b5]m)\W*\d*$", re.IGNORECASE)

Layout = Callable[[Sequence[TableRow], str], list[TableRow] | None]
"""Converts the rows of a named file to the usual layout; None for a file in another layout.

Raises `CubeFileError` if the rows can be read in two ways.
"""


def padded(cells: Sequence[str], width: int) -> list[str]:
    """The first *width* cells of a row, whose blank cells at the end may be missing."""
    return [*cells, *[""] * (width - len(cells))][:width]


def number_in(cell: str, line: int, name: str, place: str) -> float:
    """The number in a *cell*, NaN if it is blank. Raises `CubeFileError` about the file *name*."""
    value = value_of(cell)
    if value is None:
        fault, advice = repr(shown(cell, 30)), f"Keep one spectrum a {place}."
        raise mismatch(name, f"numbers in row {line}", fault, advice)
    return value


def first_numeric(rows: Sequence[TableRow]) -> int | None:
    """The index of the first row with a wavelength followed by numbers and blanks."""
    starts = (at for at, (_, cells) in enumerate(rows) if _is_numeric(cells) and cells[0].strip())
    return next(starts, None)


def without_text_below(rows: Sequence[TableRow]) -> tuple[list[TableRow], list[str]]:
    """The *rows* of a table without the text below the table, and a note about that text.

    A last row that begins with a number is a damaged row, and stays.
    """
    last = max((at for at, (_, cells) in enumerate(rows) if _is_numeric(cells)), default=-1)
    below = rows[last + 1 :]
    if last < 0 or not below or any(value_of(cells[0]) is not None for _, cells in below):
        return list(rows), []
    return list(rows[: last + 1]), [f"Text below the table was left out ({len(below)} rows)."]


def spectra_in_rows(rows: Sequence[TableRow], name: str) -> list[TableRow] | None:
    """Layout with a spectrum in each row, wavelengths in the heading, and facts beside them.

    EcoSIS, pandas, R (`X400`) and CGATS (`SPECTRAL_NM380`, `nm380`) write such tables.
    """
    for at, (line, cells) in enumerate(rows[:_HEADINGS]):
        below = rows[at + 1 :]
        # R's write.table gives the column of its row names no heading.
        is_short = bool(below) and all(len(row) == len(cells) + 1 for _, row in below)
        title = ["", *cells] if is_short else cells
        run = _run(title)
        if run is None or not _is_axis([title[place] for place in run]):
            continue
        beside = [cell for place, cell in enumerate(title) if place not in run]
        body = _filled(below, run)
        if not body or any(cell.strip() and value_of(cell) is not None for cell in beside):
            continue
        if _has_axis_in_column(title, body, run):
            if not beside or AXIS.search(title[0]):
                return None
            # A first column without a name may number samples, or be wavelengths itself.
            if not (title[0].strip() or is_short):
                fault = f"{shown(title[1], 20)!r} and {shown(body[0][1][0], 20)!r}"
                advice = "Write 'wavelength' or 'name' above the first column."
                raise mismatch(name, "wavelengths in the first row or column", fault, advice)
        names = _sample_names(title, body, run)
        above = [(number, [" ".join(words)]) for number, words in rows[:at]]
        unit = _unit_beside(title[run[0]])
        heading = [f"wavelength ({unit})" if unit else "wavelength", *names]
        columns = [
            [_NUMBERED.sub(r"\2", title[place]), *_column(body, place, name)] for place in run
        ]
        return [*above, (line, heading), *((line, column) for column in columns)]
    return None


def pairs(rows: Sequence[TableRow], name: str) -> list[TableRow] | None:
    """Layout of Cary and Shimadzu, with a column of wavelengths before each column of values."""
    start = first_numeric(rows)
    if start is None:
        return None
    above = rows[:start]
    body, _ = without_text_below(rows[start:])
    width = max(len(cells) for _, cells in body)
    if width < 4 or width % 2 or not all(_is_numeric(cells) for _, cells in body):
        return None
    body = [(line, padded(cells, width)) for line, cells in body]
    titles = [padded(cells, width) for _, cells in above if len(cells) <= width]
    title = titles[-1] if titles else [""] * width
    said = [bool(_OF_PAIRS.search(cell.strip())) for cell in title]
    is_said = all(said[::2]) and not any(said[1::2])
    columns = [[cells[place] for _, cells in body] for place in range(width)]
    if not (is_said or _are_pairs(columns)):
        return None
    units = {unit_word(cell) for cell in title[::2]}
    if len(units) > 1:
        raise mismatch(name, "wavelengths of one unit", shown(", ".join(units)), "Split the file.")
    spectra = [_values_at(*pair, name) for pair in zip(columns[::2], columns[1::2], strict=True)]
    ats = list(dict.fromkeys(at for spectrum in spectra for at in spectrum))
    if any(list(spectrum) != ats for spectrum in spectra):
        ats.sort(key=lambda at: value_of(at) or 0)
    names = _pair_names(titles, width)
    heading = [title[0] or "wavelength", *names]
    line = body[0][0]
    merged = [(line, [at, *(spectrum.get(at, "") for spectrum in spectra)]) for at in ats]
    return [*((number, [" ".join(cells)]) for number, cells in above), (line, heading), *merged]


def numbered_rows(rows: Sequence[TableRow], _: str) -> list[TableRow] | None:
    """Layout of pandas and R, with a column of row numbers before the column of wavelengths."""
    start = first_numeric(rows)
    if not start:
        return None
    body = without_text_below(rows[start:])[0]
    number, heading = rows[start - 1]
    # R's write.table gives the column of its row names no heading.
    title = ["", *heading] if len(body[0][1]) == len(heading) + 1 else heading
    counts = [value_of(cells[0]) for _, cells in body]
    counted = [list(range(first, first + len(body))) for first in (0, 1)]
    if len(title) < _FEWEST or counts not in counted or not _OF_PAIRS.search(title[1].strip()):
        return None
    cut = [(line, cells[1:]) for line, cells in rows[start:]]
    return [*rows[: start - 1], (number, title[1:]), *cut]


LAYOUTS: tuple[Layout, ...] = (spectra_in_rows, numbered_rows, pairs)
"""The layouts besides the usual one. The first layout that recognises a table reads it."""


def unit_word(heading: str) -> str:
    """The unit in "wavelength (nm)", "Wavelength [um]" or "wavelength_nm"; empty without one."""
    heading = heading.strip()
    match = _UNIT.search(heading)
    if match is not None and match[1]:
        return match[1].strip()
    # Without brackets, a word counts only if it is a unit.
    word = (match[2] or "") if match is not None else heading
    is_known = power_of(word) is not None or word.lower() == BAND_INDEX
    return word if is_known or WAVENUMBER.fullmatch(word) else ""


def _is_numeric(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and None not in map(value_of, cells)


def _affixes(cell: str) -> tuple[str, str]:
    match = _NUMBERED.fullmatch(cell.strip())
    return (match[1].lower(), match[3].lower()) if match else ("", "")


def _run(cells: Sequence[str]) -> range | None:
    """The longest run of *cells* with rising or falling numbers and the same words around them."""
    best = range(0)
    start, former, sign = 0, None, 0
    for place, cell in enumerate([*cells, ""]):
        match = _NUMBERED.fullmatch(cell.strip())
        now = (_affixes(cell), float(plain(match[2]))) if match else None
        if now and former and now[0] == former[0] and now[1] != former[1]:
            turn = 1 if now[1] > former[1] else -1
            if sign not in (0, turn):
                start, sign = place - 1, turn
            sign = turn
        else:
            start, sign = place, 0
        if now and place + 1 - start > len(best):
            best = range(start, place + 1)
        former = now
    return best if len(best) >= _FEWEST else None


def _is_axis(cells: Sequence[str]) -> bool:
    """True if *cells* hold rising or falling numbers, with or without words, like wavelengths."""
    texts = [cell.strip() for cell in cells if cell.strip()]
    matches = [_NUMBERED.fullmatch(text) for text in texts]
    if not all(matches) or not matches:
        return False
    values = np.array([float(plain(match[2])) for match in matches if match])
    has_unit = power_by_range(values) is not None or _unit_beside(texts[0]) != ""
    return has_unit and is_monotonic(values)


def _are_pairs(columns: Sequence[Sequence[str]]) -> bool:
    """True if exactly every other column, from the first, holds wavelengths of a similar range."""
    # Columns of values that happen to rise have another range.
    alike = [_is_axis(cells) and _are_alike(columns[0], cells) for cells in columns]
    return all(alike[::2]) and not any(alike[1::2])


def _are_alike(first: Sequence[str], second: Sequence[str]) -> bool:
    """True if two columns of numbers share more than half of their range."""
    (low, high), (start, end) = (
        (min(values), max(values))
        for cells in (first, second)
        for values in [[value_of(cell) or 0 for cell in cells if cell.strip()]]
    )
    return 2 * (min(high, end) - max(low, start)) > max(high - low, end - start)


def _unit_beside(cell: str) -> str:
    """The unit in "nm380", "400 nm" or "SPECTRAL_NM_380"; "" in "m1", the name of a sample."""
    for part in _affixes(cell):
        word = re.split(r"[\W_]+", part.strip(" _.()[]"))[-1]
        if power_of(word) in (0, 3) or word == BAND_INDEX:
            return word
        if WAVENUMBER.fullmatch(part.strip()):
            return part.strip()
    return ""


def _has_axis_in_column(title: Sequence[str], body: Sequence[TableRow], run: range) -> bool:
    """True if the first column holds wavelengths, by its numbers or by its heading."""
    cells = [row[0] for _, row in body]
    # In a table without names, the heading is a row of numbers as well.
    cells = cells if run.start else [title[0], *cells]
    is_numeric = all(cell.strip() and value_of(cell) is not None for cell in cells)
    return is_numeric and (_is_axis(cells) or bool(AXIS.search(title[0])))


def _filled(rows: Sequence[TableRow], run: range) -> list[TableRow]:
    """The *rows* from the first to the last one with numbers in the columns of *run*."""

    def has_numbers(cells: list[str]) -> bool:
        values = [value_of(cell) for cell in cells[run.start : run.stop] if cell.strip()]
        return any(value is not None for value in values)

    places = [at for at, (_, cells) in enumerate(rows) if has_numbers(cells)]
    return list(rows[places[0] : places[-1] + 1]) if places else []


def _column(body: Sequence[TableRow], place: int, name: str) -> list[str]:
    """The cells of a column of numbers; blank cells at the ends of rows may be missing."""
    cells = [(line, row[place] if place < len(row) else "") for line, row in body]
    for line, cell in cells:
        number_in(cell, line, name, "row")
    return [cell for _, cell in cells]


def _sample_names(title: Sequence[str], body: Sequence[TableRow], run: range) -> list[str]:
    """A name for each row of *body*, from a column beside *run* whose cells all differ."""
    width = max(len(cells) for _, cells in body)
    named = padded(title, width)
    beside = [place for place in range(width) if place not in run]
    columns = {
        place: [cells[place].strip() if place < len(cells) else "" for _, cells in body]
        for place in beside
    }
    unique = [
        place for place, cells in columns.items() if all(cells) and len({*cells}) == len(cells)
    ]
    texts = [place for place in unique if value_of(columns[place][0]) is None]
    spoken = [place for word in _OF_SAMPLES for place in unique if word.search(named[place])]
    chosen = next(iter([*spoken, *texts, *unique]), None)
    if chosen is None:
        return [f"spectrum {number}" for number in range(1, len(body) + 1)]
    return columns[chosen]


def _values_at(ats: Sequence[str], values: Sequence[str], name: str) -> dict[str, str]:
    """The values of a pair of columns, by wavelength."""
    found: dict[str, str] = {}
    for at, value in zip(ats, values, strict=True):
        if at.strip() and value.strip() and found.setdefault(plain(at), value) != value:
            fault = f"two that differ at {shown(at, 20)}"
            raise mismatch(name, "one value a wavelength", fault, "Remove one of them.")
    return found


def _pair_names(titles: Sequence[Sequence[str]], width: int) -> list[str]:
    """The names of the pairs of columns, from the last row of *titles* in which they differ."""
    count = width // 2
    for title in reversed(titles):
        for first in (1, 0):
            names = [cell.strip() for cell in title[first::2]]
            if (
                all(names)
                and (count == 1 or len({*names}) == count)
                and not any(map(_OF_PAIRS.search, names))
            ):
                return names
    return [f"column {2 * number}" for number in range(1, count + 1)]
