"""Spectra from files other than tables, as tables: ASD, USGS, SVC, JCAMP-DX and CGATS."""

import math
import re
import struct
from pathlib import Path

import numpy as np

from napari_mst.base.arrays import Doubles
from napari_mst.base.errors import complete, mismatch, shown

ASD = re.compile(b"ASD|as[2-8]")
SPLIB = re.compile(r"\s*splib0\d\w* Record")


def asd_table(raw: bytes, name: str) -> str:
    """The spectrum in an ASD file as a table; raw counts are divided by the white reference.

    Source: ASD Document 600596, "ASD File Format: Version 8".
    """
    first, step = struct.unpack_from("<2f", raw, 191)
    (count,) = struct.unpack_from("<H", raw, 204)
    dtype = np.dtype(("<f4", "<i4", "<f8")[raw[199]])
    values = np.frombuffer(raw, dtype, count, 484)
    if raw[186] == 0:
        # The spectrum is followed by a flag, two times, and a description preceded by its length.
        start = 484 + values.nbytes + 18
        (length,) = struct.unpack_from("<H", raw, start)
        white = np.frombuffer(raw, dtype, count, start + 2 + length)
        values = np.where(white == 0, np.nan, values / np.where(white == 0, 1, white))
    title = f"{name} radiance" if raw[186] in (2, 4) else name
    rows = [f"{first + at * step:g}\t{value!r}" for at, value in enumerate(values.tolist())]
    return "\n".join([f"wavelength (nm)\t{title}", *rows])


def splib_table(path: Path, text: str) -> str:
    """A spectrum of the USGS library (splib07) as a table, with wavelengths from another file.

    The wavelength file has as many rows as the spectrum, and lies in the same folder or above it.
    Source: Kokaly et al., USGS Data Series 1035 (2017), doi:10.3133/ds1035.
    """
    title, *values = text.strip().split("\n")
    for folder in (path.parent, path.parent.parent):
        for file in sorted(folder.glob("*Wavelengths*.txt")):
            _, *at = file.read_text("latin-1").strip().split("\n")
            if file != path and len(at) == len(values):
                name = title.partition(":")[2].strip()
                rows = map("\t".join, zip(at, values, strict=True))
                return "\n".join([f"wavelength (um)\t{name}", *rows])
    advice = "Copy the library's file of wavelengths beside it."
    raise mismatch(path.name, f"a file of {len(values)} wavelengths beside it", "none", advice)


def as_table(text: str, name: str) -> str:
    """The *text* of the file *name* as a table; a text that is a table already stays unchanged.

    Raises `CubeFileError`.
    """
    start = text.lstrip()[:100].upper()
    if start.startswith("##") and "##TITLE" in text[:10_000].upper():
        # A damaged word can raise other errors.
        with complete(name, "JCAMP-DX text"):
            return _jcamp_table(text, name)
    if start.startswith("/*** SPECTRA VISTA"):
        return _svc_table(text)
    if re.search(r"^BEGIN_DATA_FORMAT", text, re.MULTILINE):
        return _cgats_table(text, name)
    return text


def _svc_table(text: str) -> str:
    """The reflectance column of a Spectra Vista `.sig` file, which also has two radiances."""
    head, _, body = text.partition("data=")
    title = re.search(r"^name=\s*(.*)$", head, re.MULTILINE)
    rows = (line.split() for line in body.strip().split("\n"))
    name = re.split(r"[\\/]", title[1].strip())[-1] if title else "target"
    lines = [f"{row[0]}\t{row[-1]}" for row in rows if row]
    return "\n".join(["Reflectance (%)", f"wavelength (nm)\t{name}", *lines])


_FIELDS = re.compile(r"^BEGIN_DATA_FORMAT\s+(.*?)^END_DATA_FORMAT", re.MULTILINE | re.DOTALL)
_ROWS = re.compile(r"^BEGIN_DATA\s+(.*?)^END_DATA\s*$", re.MULTILINE | re.DOTALL)
_NORM = re.compile(r"^SPECTRAL_NORM\W+100\b", re.MULTILINE)
_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_SPECTRAL = re.compile(r"(spec|nm|r_).*?\d{3,4}$", re.IGNORECASE)


def _cgats_table(text: str, name: str) -> str:
    """The first table of a CGATS text that holds spectra, with one sample per row.

    Source: ANSI CGATS.17-2009; ArgyllCMS writes SPEC_380, X-Rite nm380 or SPECTRAL_NM380.
    """
    for fields, rows in zip(_FIELDS.findall(text), _ROWS.findall(text), strict=False):
        title = _words(fields)
        lines = [_words(line) for line in rows.split("\n") if line.strip()]
        # The standard puts the wavelengths among the numbers: SPECTRAL_NM SPECTRAL_DEC ...
        nm = [at for at, word in enumerate(title) if word.upper() == "SPECTRAL_NM"]
        if nm and all(len(line) == len(title) for line in lines):
            taken = {at: lines[0][at] for at in nm}
            if any(line[at] != word for line in lines for at, word in taken.items()):
                got = "several for a field"
                raise mismatch(name, "one wavelength a field", got, "Export it again.")
            title = [
                f"nm{taken[at - 1]}" if at - 1 in taken else word for at, word in enumerate(title)
            ]
            title, *lines = (
                [word for at, word in enumerate(line) if at not in taken]
                for line in (title, *lines)
            )
        if sum(bool(_SPECTRAL.match(word)) for word in title) >= 3:
            title = [re.sub(r"^SPEC_(?=\d)", "nm", word) for word in title]
            is_percent = "SPECTRAL_PCT" in fields or _NORM.search(text)
            above = ["Reflectance (%)"] if is_percent else []
            return "\n".join([*above, *("\t".join(line) for line in (title, *lines))])
    advice = "Export the spectra of its samples."
    raise mismatch(name, "spectra in a CGATS text", "none", advice)


def _words(line: str) -> list[str]:
    return [(quoted or word).replace("\t", " ") for quoted, word in _WORDS.findall(line)]


_RECORD = re.compile(r"^##([^=\n]*)=(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_MOST_POINTS = 1_000_000
# A number with its sign, or with a letter in place of its first digit; "?" is a gap.
_TOKEN = re.compile(r"[+-]?\d*\.?\d+(?:[Ee][+-]\d+)?|[@%A-Za-z]\d*\.?\d*|\?")
_SQUEEZED = {letter: str(at) for at, letter in enumerate("@ABCDEFGHI")}
_SQUEEZED |= {letter: f"-{at}" for at, letter in enumerate("abcdefghi", 1)}
_DIFFERENCES = {letter: str(at) for at, letter in enumerate("%JKLMNOPQR")}
_DIFFERENCES |= {letter: f"-{at}" for at, letter in enumerate("jklmnopqr", 1)}
_REPEATS = {letter: str(at) for at, letter in enumerate("STUVWXYZs", 1)}


def _jcamp_table(text: str, name: str) -> str:
    """The spectra in a JCAMP-DX text, compound or not, as pairs of columns.

    Source: R. S. McDonald, P. A. Wilks, Applied Spectroscopy 42 (1988) 151,
    doi:10.1366/0003702884428734.
    """
    columns, heading, units = list[list[str]](), list[str](), list[str]()
    facts: dict[str, str] = {}
    for label, content in _RECORD.findall(re.sub(r"\$\$.*", "", text)):
        key = re.sub(r"[\s\-/_]", "", label).upper()
        facts = {key: content.strip()} if key == "TITLE" else facts | {key: content.strip()}
        if key not in ("XYDATA", "XYPOINTS"):
            continue
        form, _, lines = content.strip().partition("\n")
        x, y = _jcamp_curve(facts, "".join(form.split()).upper(), lines, name)
        title = " ".join(facts.get("TITLE", "").split()) or f"spectrum {len(units) + 1}"
        units.append(facts.get("YUNITS", ""))
        heading += [f"wavelength ({facts.get('XUNITS', '').strip().lower()})", title]
        columns += [[repr(at) for at in x], [repr(value) for value in y]]
    if not columns:
        raise mismatch(name, "XYDATA in a JCAMP-DX text", "none", "Export one spectrum a block.")
    longest = max(map(len, columns))
    padded = ([*column, *[""] * (longest - len(column))] for column in columns)
    rows = ("\t".join(cells) for cells in zip(*padded, strict=True))
    return "\n".join([" ".join(units) or "values", "\t".join(heading), *rows])


def _jcamp_curve(
    facts: dict[str, str], form: str, lines: str, name: str
) -> tuple[list[float], list[float]]:
    """The wavelengths and values of a block, verified by the checks in it."""
    x_factor, y_factor = (_jcamp_number(facts, key, 1.0) for key in ("XFACTOR", "YFACTOR"))
    points = int(_jcamp_number(facts, "NPOINTS", -1))
    if form == "(XY..XY)":
        numbers = [float(word) for word in _TOKEN.findall(lines.replace("?", "nan"))]
        x, y = (np.array(numbers[at::2]) for at in (0, 1))
        x, y = x * x_factor, y * y_factor
    elif form == "(X++(Y..Y))" and 1 < points <= _MOST_POINTS:
        x = np.linspace(_jcamp_number(facts, "FIRSTX"), _jcamp_number(facts, "LASTX"), points)
        y = np.array(_ordinates(lines, x / x_factor, name)) * y_factor
    else:
        advice = "Export it as XYDATA."
        raise mismatch(name, "XYDATA as (X++(Y..Y)) or (XY..XY)", shown(form, 30), advice)
    if len(x) != len(y) or points not in (-1, len(y)):
        raise mismatch(name, f"{points} points", str(len(y)), "Export it again.")
    return x.tolist(), y.tolist()


def _jcamp_number(facts: dict[str, str], key: str, default: float = math.nan) -> float:
    try:
        return float(facts[key].replace(",", "."))
    except (KeyError, ValueError):
        return default


def _ordinates(lines: str, x: Doubles, name: str) -> list[float]:
    """The values of lines that begin with a wavelength; the checks in the lines are verified."""
    values: list[float] = []
    ends_in_difference = False
    for line in filter(str.strip, lines.split("\n")):
        first, *words = _TOKEN.findall(line)
        # A line after differences repeats the last value first.
        checked = values.pop() if ends_in_difference and values else math.nan
        at = len(values)
        ends_in_difference = _decode(words, values, len(x), name)
        fits_axis = at < len(x) and abs(float(first) - x[at]) <= abs(x[1] - x[0]) * 1.01
        fits_last = math.isnan(checked) or values[at : at + 1] == [checked]
        if not (fits_axis and fits_last):
            got = f"another at {shown(first, 20)}"
            raise mismatch(name, "values that fit their checks", got, "Export it again.")
    return values


def _decode(words: list[str], values: list[float], points: int, name: str) -> bool:
    """Append the numbers that *words* encode to *values*; True if the last word is a difference."""
    is_difference, change = False, 0.0
    for word in words:
        letter, digits = word[0], word[1:]
        count = 1
        if letter in _DIFFERENCES:
            is_difference, change = True, float(_DIFFERENCES[letter] + digits)
        elif letter in _REPEATS:
            count = int(_REPEATS[letter] + digits) - 1
        elif letter == "?":
            is_difference, change = False, math.nan
        else:
            is_difference, change = False, float(_SQUEEZED.get(letter, letter) + digits)
        if len(values) + count > points:
            raise mismatch(name, f"{points} points", "more", "Export it again.")
        for _ in range(count):
            values.append(values[-1] + change if is_difference else change)
    return is_difference
