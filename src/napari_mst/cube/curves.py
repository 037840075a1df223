"""The one door for curves: tables of wavelengths and values, by other programs and by people.

Lights, camera responses, known spectra and libraries come in here, so all follow the same rules,
which docs/files.md lists. Assumptions are reported as a `CurveWarning`.
Letters: B wavelengths, n curves.
"""

import csv
import io
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np

from napari_mst.arrays import Array, Doubles, Mask
from napari_mst.cube.spectrometers import ASD, SPLIB, asd_table, splib_table
from napari_mst.errors import CurveWarning, check_regular, complete, mismatch, shown, unreadable

NANOMETRES = "nm"
"""The unit of wavelengths that are lengths or wavenumbers in a file."""

BAND_INDEX = "band"
"""The unit where there are no wavelengths, but 0, 1, 2, ..."""

MAX_BYTES = 64 * 2**20
"""Most bytes of a table: as lists of text it takes many times as much memory."""

Row = tuple[int, list[str]]
"""The number of a line, and its cells."""

# The power of ten that takes a length in this unit to nm.
_WORDS = {
    0: "nm nanometer nanometers nanometre nanometres",
    3: "um micrometer micrometers micrometre micrometres micron microns",
    6: "mm millimeter millimeters millimetre millimetres",
    7: "cm centimeter centimeters centimetre centimetres",
    9: "m meter meters metre metres",
    -1: "angstrom angstroms \N{LATIN SMALL LETTER A WITH RING ABOVE}",
}
_POWERS = {word: power for power, words in _WORDS.items() for word in words.split()}
# Unicode has two characters for micro, which look the same.
_MICRO = str.maketrans("\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}", "uu")
_WAVENUMBER = re.compile(r"wave ?numbers?|cm(\^?-1|\u207b\u00b9)|1/cm", re.IGNORECASE)
_CENTIMETRE = 1e7  # nm

_AXIS = re.compile(r"wave|lambda|\bwl\b|[nuc]m\b|band", re.IGNORECASE)
_UNIT = re.compile(r"[(\[](.*?)[)\]]|[_\s]([^_\s()\[\]]+)$")
# Not the name of a tile, as "18 % grey".
_PERCENT = re.compile(
    r"([(\[_]|\br|tance|reflect)\W*(in )?(%|per ?cent)|(%|per ?cent) ?(refl|trans|r\b)",
    re.IGNORECASE,
)
_NO_REFLECTANCE = re.compile(r"radia|absorb|count|\bdn\b|density|power|\bw\W*/", re.IGNORECASE)
_BLANKS = re.compile(r"\s+(?![(\[])")  # "wavelength (nm)" is one cell
_WHOLE = re.compile(r"[+-]?\d+(e[+-]?\d+)?", re.IGNORECASE)  # the digits around a decimal comma

_TABLES = {None: "a table of wavelengths and values", 1: "rows of a wavelength and one value"}

_NAMED = re.compile(r"^Name:\s*(\S.*)$", re.MULTILINE)
_X_UNITS = re.compile(r"^X Units:.*\((\w+)\)", re.MULTILINE)  # in a file of the ECOSTRESS library

_MISSING = -9999.0
_DELETED = -1e30  # the USGS writes -1.23e34
_SEEN = (400.0, 1000.0)  # nm: beyond, the noise of field spectrometers may exceed any reflectance
_BRIGHT = 1.2  # above this, reflectance is a highlight or fluorescence, and nowhere the median
_BRIGHTEST = 2.0
_MOST_PERCENT = 200.0  # more are counts, or reflectance times 10,000


@dataclass(frozen=True, eq=False)
class Curves:
    """Curves at the same wavelengths.

    Attributes
    ----------
    name
        The name of the file, for messages.
    wavelengths, unit
        (B,), as those of a `SpectralCube`.
    values
        (n, B); NaN is a gap.
    has
        (n, B) bool; false where a cell is blank: at a wavelength that a curve does not have.
    records
        What is known of each of the n curves: its "name", and more in files of ours.
    heading
        The text above the numbers.
    is_own
        True for files that we wrote: their numbers stay as they are.
    notes
        Sentences about what was assumed.
    """

    name: str
    wavelengths: Doubles
    unit: str
    values: Doubles
    has: Mask
    records: Sequence[dict[str, str]]
    heading: str = ""
    is_own: bool = False
    notes: Sequence[str] = ()

    def warn(self) -> None:
        """Warn of all that was assumed."""
        for note in self.notes:
            warnings.warn(f"{shown(self.name)}: {note}", CurveWarning, stacklevel=3)

    def settled(self) -> "Curves":
        """The curves of another program: gaps become NaN, and no wavelength is there twice.

        Raises `CubeFileError` if two values at one wavelength differ.
        """
        if self.is_own:
            return self
        is_gap = ~np.isfinite(self.values) | (self.values < _DELETED) | (self.values == _MISSING)
        values = np.where(is_gap, np.nan, self.values)
        marks = sorted({f"{value:g}" for value in self.values[is_gap & self.has]})
        count = np.count_nonzero(is_gap & self.has)
        note = [f"Gaps in the values: {count} ({', '.join(marks[:4])})."] if marks else []
        _, first, place = np.unique(self.wavelengths, return_index=True, return_inverse=True)
        is_same = np.isclose(values[:, first][:, place], values, rtol=0, atol=0, equal_nan=True)
        if not is_same.all():
            fault = f"two that differ at {self.wavelengths[~is_same.all(axis=0)][0]:g}"
            raise mismatch(self.name, "one value a wavelength", fault, "Remove one of them.")
        kept = np.sort(first)
        return replace(
            self,
            wavelengths=self.wavelengths[kept],
            values=values[:, kept],
            has=self.has[:, kept],
            notes=[*self.notes, *note],
        )

    def in_shares(self) -> "Curves":
        """The curves as reflectance: divided by 100 where the heading or the values say per cent.

        All curves decide together, since the values of a dark one alone may be either.
        """
        is_seen = (self.wavelengths >= _SEEN[0]) & (self.wavelengths <= _SEEN[1])
        seen = self.values[:, is_seen] if is_seen.any() else self.values
        rows = [row[np.isfinite(row)] for row in seen if np.isfinite(row).any()]
        peak = max((float(row.max()) for row in rows), default=0.0)
        middle = max((float(np.median(row)) for row in rows), default=0.0)
        factor = 100.0
        if _PERCENT.search(self.heading):
            note = "The heading says per cent: the values were divided by 100."
        elif _NO_REFLECTANCE.search(self.heading) or not _BRIGHT < peak <= _MOST_PERCENT:
            return self
        elif peak > _BRIGHTEST or middle > _BRIGHT:
            note = f"Values up to {peak:.4g} were taken for per cent, and divided by 100."
        else:
            factor = 1.0
            note = f"Values up to {peak:.4g} were taken for reflectance, not for per cent."
        return replace(self, values=self.values / factor, notes=[*self.notes, note])


def text_of(path: Path) -> str:
    """The text of a file in UTF-8 or Latin-1, with any line ends.

    Raises `CubeFileError` if it is missing, a pipe, a device, binary or above `MAX_BYTES`.
    """
    try:
        check_regular(path)
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise unreadable(path.name, error) from error
    if len(raw) > MAX_BYTES:
        raise mismatch(path.name, f"at most {MAX_BYTES} bytes", "more", "Open another file.")
    if ASD.match(raw):
        with complete(path.name, "ASD file"):
            return asd_table(raw, path.stem)
    text = decoded(raw, path.name)
    return splib_table(path, text) if SPLIB.match(text) else text


def decoded(raw: bytes, name: str) -> str:
    """The text of the file *name*, whose bytes are *raw*. Raises `CubeFileError`."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw:
        expected = "UTF-8 or Latin-1 text"
        raise mismatch(name, expected, "UTF-16 or binary data", "Save it as plain text.")
    # Any bytes are Latin-1, but few are UTF-8: so UTF-8 has to be tried first.
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parsed(text: str, name: str, unit: str = "", columns: int | None = None) -> Curves:
    """The curves in the table *text* of the file *name*: wavelengths first, then one a column.

    Parameters
    ----------
    unit
        The unit of the wavelengths where the table does not say it.
    columns
        The number of curves that there have to be; by default any.

    Raises
    ------
    CubeFileError
        Naming the row, if it is no such table, or one that can be read in two ways.
    """
    comments, heading, names, body, notes = _split(text, name, columns)
    is_own = "curve" in comments
    numbers = np.array([_numbers(row, name) for row in body]).T
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
    texts = [_plain(cells[0]) for _, cells in body]
    stated = _X_UNITS.search(text)
    word = _unit_word(names[0]) or (stated[1] if stated else unit)
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


def axis(
    texts: Sequence[str], word: str, name: str, *, is_own: bool = False
) -> tuple[Doubles, str, list[str]]:
    """The wavelengths that *texts* say in the unit *word*; their unit, and notes.

    Lengths and wavenumbers become nm. Where the unit is not given the range decides, except in a
    file of ours (*is_own*). Raises `CubeFileError` about the file *name* if they make no sense.
    """
    power = power_of(word)
    values = np.array([number(text) for text in texts])
    if not np.isfinite(values).all():
        raise mismatch(name, "a wavelength in every row", "none in some", "Remove those rows.")
    notes = []
    if power is None and not is_own and word.lower() in ("", "unknown"):
        power = _power_by_range(values)
        taken = {0: "nm was assumed", 3: "um was assumed", None: "they are kept as they are"}
        notes.append(f"The unit of the wavelengths is not given; {taken[power]}.")
    is_wavenumber = not is_own and _WAVENUMBER.fullmatch(word) is not None
    if power is None and not is_wavenumber:
        return values, word or "Unknown", notes
    if not (is_own or (values > 0).all()):
        raise mismatch(name, "wavelengths above 0", "others", "Correct them.")
    if is_wavenumber:
        return _CENTIMETRE / values, NANOMETRES, notes
    return np.array([scaled(text, power or 0) for text in texts]), NANOMETRES, notes


def power_of(unit: str) -> int | None:
    """The power of ten that takes *unit*, in any spelling, to nm; None if it is not a length."""
    return _POWERS.get(unit.strip().lower().translate(_MICRO))


def number(text: str) -> float:
    """*text* as a finite number, or NaN."""
    # Python takes "1_000" for a thousand; in a file it is a damaged number.
    if "_" in text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def scaled(text: str, power: int) -> float:
    """*text* times ten to the *power*, or NaN."""
    value = number(text)
    if math.isnan(value) or value == 0 or power == 0:
        return value
    # Decimals round once: 0.4191 um is 419.1 nm, but 0.4191 * 1000 is 419.09999999999997.
    return float(Decimal(text.strip()).scaleb(power))


def may_be_nanometres(values: Array) -> bool:
    """True if *values* without a unit are taken as nm: all are 100 to 100,000.

    Wavelengths in um and band numbers lie outside that range.
    """
    return bool(((values >= 100) & (values <= 100_000)).all())


def _power_by_range(values: Doubles) -> int | None:
    """The power of ten that takes wavelengths without a unit to nm; None if it cannot be known."""
    if may_be_nanometres(values):
        return 0
    is_small = bool(((values >= 0.1) & (values < 100)).all())
    # Whole numbers are those of bands.
    return 3 if is_small and (values % 1).any() else None


def _split(
    text: str, name: str, columns: int | None
) -> tuple[dict[str, list[str]], str, list[str], list[Row], list[str]]:
    """A table: its `#` rows by their first cell, all text above it, headings, body, and notes."""
    rows, mark = _rows(text, name)
    records = {cells[0].lstrip("# "): cells for _, cells in rows if cells[0].startswith("#")}
    rows = [(line, _trimmed(cells)) for line, cells in rows if not cells[0].startswith("#")]
    # Where no row holds numbers, the second row shows best what is wrong.
    start = next((at for at, (_, cells) in enumerate(rows) if _is_numeric(cells)), 1)
    comments = [[key, *cells[1:]] for key, cells in records.items()]
    above = [cells for _, cells in rows[:start]]
    # A comment may be the heading, as `numpy.savetxt` writes it.
    spoken = [row for row in comments if _AXIS.search(row[0])]
    title = [[], *spoken, *above][-1]
    heading = "\n".join(" ".join(row) for row in [*comments, *above])
    body = rows[start:]
    notes: list[str] = []
    expected = columns + 1 if columns else len(title)
    if mark == "," and _is_cut(body, expected):
        fault = f"{shown(','.join(body[0][1]), 30)!r}, whose commas may be decimal"
        advice = "Write points into numbers, or semicolons between them."
        raise mismatch(name, "a name above each column", fault, advice)
    width = max((len(cells) for _, cells in body), default=0)
    if width < 2 or columns not in (None, width - 1):
        layout = _TABLES.get(columns, f"rows of a wavelength and {columns} values")
        got = f"{width} columns" if width > 1 else "none"
        raise mismatch(name, layout, got, "Put wavelengths into the first column.")
    names = _names(title, width, mark)
    if width == 3 and not names[0] and "standard deviation" in heading.lower():
        notes = [*notes, "Its standard deviations were left out."]
        width, names = 2, ["", " ".join(title)]
    body = [(line, _padded(cells, width)) for line, cells in body]
    return records, heading, names, body, notes


def _rows(text: str, name: str) -> tuple[list[Row], str]:
    """The rows of a text that are not blank, and the mark between their cells."""
    # The last row holds numbers, where no name can be mistaken for a delimiter.
    last = text.rstrip(" \n").rpartition("\n")[2]
    words = last.split()
    mark = next((mark for mark in "\t;," if mark in last), " ")
    # Commas of numbers between blanks: "400,0 0,1" but not "400, 0.1".
    if mark == "," and len(words) > 1 and None not in map(_value, words) and words[0][-1] != ",":
        mark = " "
    lines: Iterable[list[str]] = csv.reader(io.StringIO(text), delimiter=mark)
    if mark == " ":
        lines = (_BLANKS.split(re.sub("^# *", "#", line.strip())) for line in text.split("\n"))
    try:
        return [(line, row) for line, row in enumerate(lines, 1) if "".join(row).strip()], mark
    except csv.Error as error:
        raise mismatch(name, "a table of text", shown(error, 60), "Save it as CSV.") from None


def _is_cut(body: Sequence[Row], width: int) -> bool:
    """True if rows are longer than *width*, and all cells may be halves of numbers."""
    longest = max((len(cells) for _, cells in body), default=0)
    cells = (cell.strip() for _, row in body for cell in row)
    return longest > max(width, 2) and all(map(_WHOLE.fullmatch, cells))


def _names(title: list[str], width: int, mark: str) -> list[str]:
    """The headings of *width* columns from the row above them; "" for those without one."""
    # Any line is cells between blanks, so the first one has to speak of wavelengths.
    is_row = mark != " " and len(title) == width
    if title and len(title) <= width and (is_row or _AXIS.search(title[0])):
        return _padded(title, width)
    return _padded(["", " ".join(title) if width == 2 else ""], width)


def _numbers(row: Row, name: str) -> list[float]:
    """The numbers of a row; NaN for a blank cell."""
    line, cells = row
    values = []
    for cell in cells:
        value = _value(cell)
        if value is None:
            fault = repr(shown(cell, 30))
            raise mismatch(name, f"numbers in row {line}", fault, "Keep one spectrum a column.")
        values.append(value)
    return values


def _trimmed(cells: list[str]) -> list[str]:
    """*cells* without the blank ones at the end."""
    last = max(at for at, cell in enumerate(cells) if cell.strip())
    return cells[: last + 1]


def _padded(cells: list[str], width: int) -> list[str]:
    """*width* cells: a row may lack the blank ones at its end."""
    return (cells + [""] * (width - len(cells)))[:width]


def _is_numeric(cells: Sequence[str]) -> bool:
    """True for a wavelength, then numbers and blanks."""
    return len(cells) > 1 and cells[0].strip() != "" and None not in map(_value, cells)


def _value(cell: str) -> float | None:
    """The number in *cell*, NaN if it is blank; None if it holds something else."""
    # Python reads 1_000 as a number.
    if "_" in cell:
        return None
    try:
        return float(_plain(cell) or math.nan)
    except ValueError:
        return None


def _plain(cell: str) -> str:
    """*cell* with a decimal point where a comma was."""
    return cell.strip().replace(",", ".")


def _unit_word(heading: str) -> str:
    """The unit in "wavelength (nm)", "Wavelength [um]" or "wavelength_nm"; empty without one."""
    heading = heading.strip()
    match = _UNIT.search(heading)
    if match is not None and match[1]:
        return match[1].strip()
    # Without brackets, a word counts only if it is a unit.
    word = (match[2] or "") if match is not None else heading
    is_unit = power_of(word) is not None or word.lower() == BAND_INDEX
    return word if is_unit or _WAVENUMBER.fullmatch(word) else ""
