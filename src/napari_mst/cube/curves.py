"""Curves, and the rules for the numbers and units in tables of curves.

Lights, camera responses, reference spectra and libraries follow the same rules, which docs/files.md
lists; `text_tables` reads the texts. Assumptions are reported as a `CurveWarning`.
Letters: B wavelengths, n curves.
"""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np

from napari_mst.base.arrays import Array, Doubles, Mask
from napari_mst.base.errors import (
    CurveWarning,
    check_regular,
    complete,
    mismatch,
    shown,
    unreadable,
)
from napari_mst.cube.spectrometers import ASD, SPLIB, asd_table, splib_table

NANOMETRES = "nm"
"""The unit of all wavelengths that a file gives as lengths or wavenumbers."""

BAND_INDEX = "band"
"""The unit of bands without wavelengths, numbered 0, 1, 2, ..."""

MAX_BYTES = 64 * 2**20
"""Largest table file, in bytes: its cells as text take many times as much memory."""

TableRow = tuple[int, list[str]]
"""The number of a line, and its cells."""

# Units of length by the power of ten that converts them to nm.
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
AXIS = re.compile(r"wave|lambda|\bwl\b|[nuc]m\b|band", re.IGNORECASE)
"""Matches the heading of a column of wavelengths."""
WAVENUMBER = re.compile(r"wave ?numbers?|cm(\^?-1|\u207b\u00b9)|1/cm", re.IGNORECASE)
_CENTIMETRE = 1e7  # nm

# Not the name of a tile, as "18 % grey".
_PERCENT = re.compile(
    r"([(\[_]|\br|tance|reflect)\W*(in )?(%|per ?cent)|(%|per ?cent) ?(refl|trans|r\b)",
    re.IGNORECASE,
)
_NO_REFLECTANCE = re.compile(r"radia|absorb|count|\bdn\b|density|power|\bw\W*/", re.IGNORECASE)


_MISSING = -9999.0
_DELETED = -1e30  # the USGS writes -1.23e34
_SEEN = (400.0, 1000.0)  # nm; outside, noise of field spectrometers may exceed any reflectance
_BRIGHT = 1.2  # reflectance above it is a highlight or fluorescence, and never the median
_BRIGHTEST = 2.0
_MOST_PERCENT = 200.0  # larger values are counts, or reflectance times 10,000


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
        (n, B) bool; false where a cell is blank, at a wavelength that the curve lacks.
    records
        A dict of facts for each of the n curves: its "name", and more in files of ours.
    heading
        The text above the numbers.
    is_own
        True for files that we wrote: their numbers stay as they are.
    notes
        One sentence for each assumption.
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
        """Warn about all assumptions."""
        for note in self.notes:
            warnings.warn(f"{shown(self.name)}: {note}", CurveWarning, stacklevel=3)

    def settled(self) -> "Curves":
        """The curves with NaN for gaps and each wavelength once; files of ours stay unchanged.

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
        """The curves as reflectance: divided by 100 if the heading or the values mean per cent.

        All curves are judged together, since the values of a dark curve fit both units.
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
    """The text in the bytes *raw* of the file *name*. Raises `CubeFileError`."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw:
        expected = "UTF-8 or Latin-1 text"
        raise mismatch(name, expected, "UTF-16 or binary data", "Save it as plain text.")
    # Any bytes are valid Latin-1, but few are valid UTF-8, so UTF-8 is tried first.
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def axis(
    texts: Sequence[str], word: str, name: str, *, is_own: bool = False
) -> tuple[Doubles, str, list[str]]:
    """The wavelengths written in *texts* in the unit *word*, their unit, and notes.

    Lengths and wavenumbers become nm. Without a unit the range decides, except in a file of ours
    (*is_own*). Raises `CubeFileError` about the file *name* if the wavelengths make no sense.
    """
    power = power_of(word)
    values = np.array([number(text) for text in texts])
    if not np.isfinite(values).all():
        raise mismatch(name, "a wavelength in every row", "none in some", "Remove those rows.")
    notes = []
    if power is None and not is_own and word.lower() in ("", "unknown"):
        power = power_by_range(values)
        taken = {0: "nm was assumed", 3: "um was assumed", None: "they are kept as they are"}
        notes.append(f"The unit of the wavelengths is not given; {taken[power]}.")
    elif not is_own:
        power, doubt = stated_power(word, values)
        notes += [doubt] if doubt else []
    is_wavenumber = not is_own and WAVENUMBER.fullmatch(word) is not None
    if power is None and not is_wavenumber:
        return values, word or "Unknown", notes
    if not (is_own or (values > 0).all()):
        raise mismatch(name, "wavelengths above 0", "others", "Correct them.")
    if is_wavenumber:
        return _CENTIMETRE / values, NANOMETRES, notes
    return np.array([scaled(text, power or 0) for text in texts]), NANOMETRES, notes


def extent(wavelengths: Doubles, unit: str) -> str:
    """The range of *wavelengths* and their *unit*, for a message."""
    return f"{wavelengths.min():g}-{wavelengths.max():g} {shown(unit, 20)}"


def power_of(unit: str) -> int | None:
    """The power of ten that converts *unit*, in any spelling, to nm; None if it is no length."""
    return _POWERS.get(unit.strip().lower().translate(_MICRO))


def number(text: str) -> float:
    """*text* as a finite number, or NaN."""
    # Python reads "1_000" as a thousand; in a file it is a damaged number.
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
    """True if *values* without a unit count as nm: all of them are 100 to 100,000.

    Wavelengths in um and band numbers lie outside that range.
    """
    return bool(((values >= 100) & (values <= 100_000)).all())


def stated_power(unit: str, values: Doubles) -> tuple[int | None, str]:
    """The power of ten of *unit*, as `power_of`, and a doubt if *values* rule that unit out.

    Some headers keep the unit of another file: no image is taken at 500 um, nor at 0.5 nm.
    """
    power, by_range = power_of(unit), power_by_range(values)
    is_um = by_range and bool(((values >= 0.3) & (values <= 20)).all())
    if power is None or not ((power > 0 and by_range == 0) or (power == 0 and is_um)):
        return power, ""
    meant = "um" if by_range else "nm"
    return by_range, f"The wavelengths are in {meant}, although the file says {unit}."


def power_by_range(values: Doubles) -> int | None:
    """The power of ten that converts wavelengths without a unit to nm; None if it is unclear."""
    if may_be_nanometres(values):
        return 0
    is_small = bool(((values >= 0.1) & (values < 100)).all())
    # Whole numbers count bands.
    return 3 if is_small and (values % 1).any() else None


def value_of(cell: str) -> float | None:
    """The number in *cell*, NaN if it is blank; None if it holds something else."""
    # Python reads 1_000 as a number.
    if "_" in cell:
        return None
    try:
        return float(plain(cell) or math.nan)
    except ValueError:
        # R writes missing values as NA.
        return math.nan if cell.strip() in ("NA", "N/A") else None


def plain(cell: str) -> str:
    """*cell* with its decimal comma replaced by a point."""
    return cell.strip().replace(",", ".")
