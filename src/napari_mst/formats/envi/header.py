"""The text header of an ENVI raster, read strictly in linear time; and where the two files are.

Specification: NV5 Geospatial, "ENVI Header Files". Values in braces may span lines; a line whose
first character is `;` is a comment.

Our own headers say `napari mst encoding = percent`: their text values are percent-encoded ASCII.
They end in a seal, a checksum of the text before it. Where another program copied or edited the
text, or it was damaged, the seal is broken: the checksum of the data no longer counts, and the
reader is warned. `raster` writes headers.

Nothing inside a header names its data file, so each is found by the name of the other, in any case:
`name.hdr` or `name.dat.hdr` beside `name.dat`.
"""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from napari_mst.base.arrays import DType
from napari_mst.base.errors import CubeError, CubeFileError, mismatch, shown
from napari_mst.cube import Provenance
from napari_mst.cube.curves import decoded

MAX_BYTES = 16 * 2**20
OWN = "napari mst "
"""The beginning of the keys that are ours."""
SEAL = f"{OWN}header crc32 = "
# The codes of IDL; 7, 8, 10 and 11 are strings, structures, pointers and objects there.
TYPES = {
    1: "u1",
    2: "i2",
    3: "i4",
    4: "f4",
    5: "f8",
    6: "c8",
    9: "c16",
    12: "u2",
    13: "u4",
    14: "i8",
    15: "u8",
}
AXES = {"bsq": (0, 1, 2), "bil": (1, 0, 2), "bip": (2, 0, 1)}
"""The places of bands, rows and columns among the axes of each interleave as stored."""
_REQUIRED = ("samples", "lines", "bands", "data type", "interleave")
STRUCTURE = {
    *_REQUIRED,
    "header offset",
    "file type",
    "byte order",
    "wavelength",
    "wavelength units",
    "wavelength unit",
    "file compression",
    "major frame offsets",
    "minor frame offsets",
}
"""The fields that say how the numbers lie, rather than what they are."""


@dataclass(frozen=True)
class DataLayout:
    """The layout of the numbers in the data file.

    *dtype* has its byte order; *offset* bytes come before the first number.
    """

    bands: int
    rows: int
    columns: int
    dtype: DType
    interleave: str = "bsq"
    offset: int = 0

    @property
    def count(self) -> int:
        """The count of numbers in the file."""
        return self.bands * self.rows * self.columns

    @property
    def data_bytes(self) -> int:
        """Bytes of the numbers alone."""
        return self.count * self.dtype.itemsize


@dataclass(frozen=True)
class Header:
    """The fields of one header.

    Attributes
    ----------
    name
        The name of its file, for messages.
    fields
        Keys in lower case with single spaces; values as written, braces included.
    is_sealed
        True if the text is to the letter what we wrote.
    """

    name: str
    fields: Mapping[str, str]
    is_sealed: bool

    @classmethod
    def parse(cls, raw: bytes, name: str) -> "Header":
        """The header with the bytes *raw*. Raises `CubeFileError`."""
        if len(raw) > MAX_BYTES:
            advice = "A header is text; check the file."
            raise mismatch(name, f"at most {MAX_BYTES} bytes", "more", advice)
        lines = decoded(raw, name).split("\n")
        if lines[0].strip().upper() != "ENVI":
            line = repr(shown(lines[0], 30))
            raise mismatch(name, "ENVI on the first line", line, "Open another kind of file.")
        text, seal, crc = raw.rpartition(SEAL.encode())
        is_sealed = bool(seal) and crc == f"{zlib.crc32(text):08x}\n".encode()
        return cls(name, _fields(lines, name), is_sealed)

    @property
    def is_ours(self) -> bool:
        """True if we wrote the header, or the header that it was made from."""
        return any(key.startswith(OWN) for key in self.fields)

    @property
    def unit_word(self) -> str:
        """The file's own word for the unit of its wavelengths; empty if there is none."""
        return self.text("wavelength units") or self.text("wavelength unit")

    def error(self, expected: str, got: str, advice: str = "Correct the header.") -> CubeFileError:
        """The error to raise about this header."""
        return mismatch(self.name, expected, got, advice)

    def text(self, key: str) -> str:
        """The value of *key* without braces; empty if there is none."""
        return self._decoded(_inner(self.fields.get(key, "")))

    def items(self, key: str, count: int = 0) -> list[str]:
        """The items of *key* between commas, decoded.

        A comma after the last item is allowed, and gives one empty item more. Where items hold
        commas themselves, the spaces of `spectral` or the ends of lines part them, if that makes
        *count* items.
        """
        inner = _inner(self.fields.get(key, ""))
        if not inner:
            return []
        ways = [re.split(mark, inner) for mark in (",", r",\s*\n", r"\s,\s")]
        parts = next((parts for parts in ways if len(parts) == count), ways[0])
        return [self._decoded(item.strip()) for item in parts]

    def numbers(self, key: str) -> list[str]:
        """The items of *key* between commas or spaces, as text."""
        inner = _inner(self.fields.get(key, "")).strip(", \t\n")
        return re.split(r"[,\s]+", inner) if inner else []

    def integer(self, key: str, default: str = "", allowed: range = range(1, 10**18)) -> int:
        """The whole number at *key*. Raises `CubeFileError`."""
        # A comment may follow a number.
        text = self.fields.get(key, default).partition(";")[0].strip()
        # 18 digits fit into the 64 bits that the sizes of files have.
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise self.error(f"a whole number for '{key}'", repr(shown(text, 30)))
        if int(text) not in allowed:
            limits = "0 or 1" if allowed == range(2) else f"of {allowed.start} or more"
            raise self.error(f"'{key}' {limits}", text)
        return int(text)

    def other_fields(self) -> dict[str, str]:
        """The fields that neither say how the numbers lie nor are ours, as text with braces."""
        return {
            self._decoded(key): self._decoded(value.replace("\n", " "))
            for key, value in self.fields.items()
            if key not in STRUCTURE and not key.startswith(OWN)
        }

    def layout(self, kinds: Sequence[str] = ("", "ENVI", "ENVI Standard")) -> DataLayout:
        """The layout of the numbers in a file of one of these *kinds*.

        Raises `CubeFileError`, naming the field, on anything missing or unsupported.
        """
        missing = [key for key in _REQUIRED if key not in self.fields]
        if missing:
            fault = f"none for {', '.join(missing)}"
            raise self.error("all required fields", fault, "Add them to the header.")
        kind = self.text("file type")
        if kind.lower() not in [each.lower() for each in kinds]:
            advice = "Open or export another kind of file."
            raise self.error(f"file type '{kinds[-1]}'", repr(shown(kind, 40)), advice)
        # Frame offsets are bytes between the lines or bands, which a flat file does not have.
        for key in ("major frame offsets", "minor frame offsets"):
            if any(item.strip("0") for item in self.numbers(key)):
                raise self.error(f"no {key}", shown(self.text(key), 30), "Export it without them.")
        bands, rows, columns = (self.integer(key) for key in ("bands", "lines", "samples"))
        interleave = self.fields["interleave"].strip().lower()
        if interleave not in AXES:
            raise self.error("interleave bsq, bil or bip", repr(shown(interleave, 30)))
        offset = self.integer("header offset", "0", range(10**18))
        if self.integer("file compression", "0", range(2)) == 1:
            raise self.error("file compression 0", "1", "Decompress the data by gunzip.")
        code = self.integer("data type", allowed=range(10**18))
        if code not in TYPES:
            raise self.error(f"a data type of {', '.join(map(str, TYPES))}", str(code))
        is_big = self.integer("byte order", "0", range(2)) == 1
        dtype = np.dtype(TYPES[code]).newbyteorder(">" if is_big else "<")
        return DataLayout(bands, rows, columns, dtype, interleave, offset)

    def _decoded(self, text: str) -> str:
        # In the headers of others a percent sign is a percent sign.
        return unquote(text) if f"{OWN}encoding" in self.fields else text


def provenance(header: Header) -> Provenance:
    """The history of a cube that we wrote; empty for the files of others.

    Raises `CubeFileError`.
    """
    try:
        return Provenance.from_json("{" + header.text(f"{OWN}provenance") + "}")
    except (CubeError, TypeError):
        advice = "Remove that line from the header."
        raise header.error(f"JSON at '{OWN}provenance'", "other text", advice) from None


def _fields(lines: Iterable[str], name: str) -> dict[str, str]:
    """The fields of a header by key. Raises `CubeFileError` if a brace stays open."""
    fields: dict[str, str] = {}
    key = ""
    parts: list[str] = []
    for line in lines:
        if line.startswith(";"):
            continue
        if parts:
            # A new list inside a list: the brace before it was never closed.
            if re.match(r"[^={}]+=\s*\{", line):
                break
            parts.append(line.strip())
        else:
            before, equals, value = line.partition("=")
            key = " ".join(before.lower().split())
            # Lines without a key, and comments that are indented, say nothing.
            if not equals or not key or key.startswith(";"):
                continue
            parts = [value.strip()]
        if not parts[0].startswith("{") or "}" in parts[-1]:
            _add(fields, key, "\n".join(parts), name)
            parts = []
    if parts:
        expected = f"a closing brace after '{shown(key, 40)}'"
        raise mismatch(name, expected, "none", "Correct the header.")
    return fields


def _add(fields: dict[str, str], key: str, value: str, name: str) -> None:
    """Add a field. One that occurs twice may do so with the same value only."""
    if value.startswith("{"):
        value = value.partition("}")[0] + "}"
    if fields.setdefault(key, value) != value:
        expected = f"one value for '{shown(key, 40)}'"
        raise mismatch(name, expected, "two that differ", "Remove one of them.")


def _inner(value: str) -> str:
    return value[1:-1].strip() if value.startswith("{") else value


DATA_SUFFIXES = (
    "",
    ".img",
    ".dat",
    ".raw",
    ".bin",
    ".bsq",
    ".bil",
    ".bip",
    ".cube",
    ".hsi",
    ".envi",
    ".data",
)
"""Suffixes of the data files of ENVI rasters; the first means no suffix."""


def targets(path: Path) -> tuple[Path, Path]:
    """The data file and the header that saving to *path* writes; the header is the one to open."""
    return path.with_suffix(".img"), path.with_suffix(".hdr")


def header_of(path: Path) -> Path | None:
    """The header at or beside *path*, or None.

    *path* itself if it is a header by name; else `name.ext.hdr`, else `name.hdr`.
    """
    if path.suffix.lower() == ".hdr":
        return path if path.is_file() else None
    names = [f"{path.name}.hdr"]
    # A photo beside `name.hdr` is not its data.
    if path.suffix.lower() in (*DATA_SUFFIXES, ".sli", ".lib"):
        names.append(f"{path.stem}.hdr")
    return first_named(path.parent, names)


def first_named(folder: Path, names: Sequence[str]) -> Path | None:
    """The file in *folder* with the first of these *names* that occurs, in any case; or None."""
    order = [name.casefold() for name in names]
    entries = [
        entry for entry in folder.iterdir() if entry.name.casefold() in order and entry.is_file()
    ]
    return min(entries, key=lambda entry: order.index(entry.name.casefold()), default=None)


def header_bytes(path: Path) -> bytes:
    """The bytes of the header at *path*, at most one more than a header may have.

    That one byte makes `Header.parse` refuse a file that is too large to be a header, without
    reading all of it.
    """
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def data_of(header: Header, path: Path, layout: DataLayout) -> Path:
    """The one data file of the header at *path*.

    The file that we wrote with it, else the only one of the right size, else the only one with a
    usual suffix. Raises `CubeFileError` if there is no data file, or more than one.
    """
    beside = [entry for entry in path.parent.iterdir() if _may_be_data(entry, path)]
    size = layout.offset + layout.data_bytes
    exact = [entry for entry in beside if entry.stat().st_size == size]
    # A header that is as we wrote it belongs to the file that was saved with it.
    ours = [entry for entry in exact if header.is_sealed and entry.suffix == ".img"]
    # Data that were cut off fit no size; a usual suffix still identifies them.
    likely = [
        entry for entry in beside if entry.name.removeprefix(path.stem).lower() in DATA_SUFFIXES
    ]
    for candidates in (ours, exact, likely):
        if len(candidates) == 1:
            return candidates[0]
    names = ", ".join(sorted(entry.name for entry in exact or likely)) or "none"
    expected = f"one data file named {shown(path.stem)}"
    advice = "Open the data file itself, or rename it."
    raise mismatch(path.parent.name, expected, shown(names), advice)


def _may_be_data(entry: Path, header: Path) -> bool:
    """True if *entry* is named like the *header*, and no other header is nearer to it."""
    stem = header.stem.casefold()
    name = entry.name.casefold()
    is_named = name == stem or name.startswith(f"{stem}.")
    # GDAL writes `name.aux.xml`, with statistics, beside the files that it reads.
    is_other_kind = entry.suffix.lower() in (".hdr", ".xml")
    if not is_named or is_other_kind or not entry.is_file():
        return False
    return name == stem or not entry.with_name(f"{entry.name}.hdr").exists()
