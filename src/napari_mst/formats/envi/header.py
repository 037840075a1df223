"""The text header of an ENVI raster, parsed strictly in linear time; and how to find both files.

Specification: NV5 Geospatial, "ENVI Header Files". Values in braces may span lines; a line that
starts with `;` is a comment.

Our own headers contain `napari mst encoding = percent`: their text values are percent-encoded
ASCII. They end in a seal, a checksum of the text before it. If another program copied or edited the
text, or it was damaged, the seal is broken: the checksum of the data no longer counts, and the
reader warns. `raster` writes headers.

A header does not name its data file, so each file is found by the name of the other, ignoring case:
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
"""Prefix of our own keys."""
SEAL = f"{OWN}header crc32 = "
# IDL's type codes; 7, 8, 10 and 11 are strings, structures, pointers and objects.
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
"""Positions of bands, rows and columns among the stored axes of each interleave."""
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
"""Fields about the layout of the numbers rather than their meaning."""


@dataclass(frozen=True)
class DataLayout:
    """The layout of the numbers in the data file.

    *dtype* includes the byte order; *offset* bytes precede the first number.
    """

    bands: int
    rows: int
    columns: int
    dtype: DType
    interleave: str = "bsq"
    offset: int = 0

    @property
    def count(self) -> int:
        """Count of numbers in the file."""
        return self.bands * self.rows * self.columns

    @property
    def data_bytes(self) -> int:
        """Bytes of the numbers, without the offset."""
        return self.count * self.dtype.itemsize


@dataclass(frozen=True)
class Header:
    """The fields of a header.

    Attributes
    ----------
    name
        The name of its file, for messages.
    fields
        Keys in lower case with single spaces; values as written, braces included.
    is_sealed
        True if the text is exactly what we wrote.
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
            line = repr(shown(lines[0], 30)) if raw else "an empty file"
            raise mismatch(name, "ENVI on the first line", line, "Open another kind of file.")
        text, seal, crc = raw.rpartition(SEAL.encode())
        is_sealed = bool(seal) and crc == f"{zlib.crc32(text):08x}\n".encode()
        return cls(name, _fields(lines, name), is_sealed)

    @property
    def is_ours(self) -> bool:
        """True if we wrote the header, or the header that it was derived from."""
        return any(key.startswith(OWN) for key in self.fields)

    @property
    def unit_word(self) -> str:
        """The file's own word for the unit of its wavelengths; empty if missing."""
        return self.text("wavelength units") or self.text("wavelength unit")

    def error(self, expected: str, got: str, advice: str = "Correct the header.") -> CubeFileError:
        """The error about this header."""
        return mismatch(self.name, expected, got, advice)

    def text(self, key: str) -> str:
        """The value of *key* without braces; empty if missing."""
        return self._decoded(_inner(self.fields.get(key, "")))

    def items(self, key: str, count: int = 0) -> list[str]:
        """The decoded items of *key*, which are separated by commas.

        A comma after the last item is allowed and adds an empty item. If items contain commas, they
        are split at the ends of lines, or at commas between spaces as `spectral` writes them,
        provided that this gives *count* items.
        """
        inner = _inner(self.fields.get(key, ""))
        if not inner:
            return []
        ways = [re.split(mark, inner) for mark in (",", r",\s*\n", r"\s,\s")]
        parts = next((parts for parts in ways if len(parts) == count), ways[0])
        return [self._decoded(item.strip()) for item in parts]

    def numbers(self, key: str) -> list[str]:
        """The items of *key* as text, separated by commas or spaces."""
        inner = _inner(self.fields.get(key, "")).strip(", \t\n")
        return re.split(r"[,\s]+", inner) if inner else []

    def integer(self, key: str, default: str = "", allowed: range = range(1, 10**18)) -> int:
        """The whole number at *key*. Raises `CubeFileError`."""
        # A comment may follow a number.
        text = self.fields.get(key, default).partition(";")[0].strip()
        # 18 digits fit into the 64 bits of a file size.
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise self.error(f"a whole number for '{key}'", repr(shown(text, 30)))
        if int(text) not in allowed:
            limits = "0 or 1" if allowed == range(2) else f"of {allowed.start} or more"
            raise self.error(f"'{key}' {limits}", text)
        return int(text)

    def other_fields(self) -> dict[str, str]:
        """The fields that are neither about the layout nor ours, as text with braces."""
        return {
            self._decoded(key): self._decoded(value.replace("\n", " "))
            for key, value in self.fields.items()
            if key not in STRUCTURE and not key.startswith(OWN)
        }

    def layout(self, kinds: Sequence[str] = ("", "ENVI", "ENVI Standard")) -> DataLayout:
        """The layout of the numbers in a file of one of these *kinds*.

        Raises `CubeFileError` with the name of the field if anything is missing or unsupported.
        """
        missing = [key for key in _REQUIRED if key not in self.fields]
        if missing:
            fault = f"none for {', '.join(missing)}"
            raise self.error("all required fields", fault, "Add them to the header.")
        kind = self.text("file type")
        if kind.lower() not in [each.lower() for each in kinds]:
            advice = "Open or export another kind of file."
            raise self.error(f"file type '{kinds[-1]}'", repr(shown(kind, 40)), advice)
        # Frame offsets are bytes between lines or bands, which a flat file does not have.
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
        # In other programs' headers, a percent sign is just a percent sign.
        return unquote(text) if f"{OWN}encoding" in self.fields else text


def provenance(header: Header) -> Provenance:
    """The history of a cube that we wrote; empty for files from other programs.

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
            # A new field inside a list: the brace before it was never closed.
            if re.match(r"[^={}]+=\s*\{", line):
                break
            parts.append(line.strip())
        else:
            before, equals, value = line.partition("=")
            key = " ".join(before.lower().split())
            # Lines without a key and indented comments are skipped.
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
    """Add a field. A repeated field must have the same value."""
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
"""Suffixes of ENVI data files; the first means no suffix."""


def targets(path: Path) -> tuple[Path, Path]:
    """The data file and the header written for *path*; the header is the file to open."""
    return path.with_suffix(".img"), path.with_suffix(".hdr")


def header_of(path: Path) -> Path | None:
    """The header at or beside *path*, or None.

    *path* itself if it has the suffix of a header; else `name.ext.hdr`, else `name.hdr`.
    """
    if path.suffix.lower() == ".hdr":
        return path if path.is_file() else None
    names = [f"{path.name}.hdr"]
    # A photo beside `name.hdr` is not its data.
    if path.suffix.lower() in (*DATA_SUFFIXES, ".sli", ".lib"):
        names.append(f"{path.stem}.hdr")
    return first_named(path.parent, names)


def first_named(folder: Path, names: Sequence[str]) -> Path | None:
    """The file in *folder* with the first of *names* that exists, ignoring case; or None."""
    order = [name.casefold() for name in names]
    entries = [
        entry for entry in folder.iterdir() if entry.name.casefold() in order and entry.is_file()
    ]
    return min(entries, key=lambda entry: order.index(entry.name.casefold()), default=None)


def header_bytes(path: Path) -> bytes:
    """The bytes of the header at *path*, at most one more than a header may have.

    The extra byte makes `Header.parse` refuse a file that is too large, without reading all of it.
    """
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def data_of(header: Header, path: Path, layout: DataLayout) -> Path:
    """The one data file of the header at *path*.

    It is the file that we wrote with the header, else the only file of the right size, else the
    only file with a usual suffix. Raises `CubeFileError` if there is none, or more than one.
    """
    beside = [entry for entry in path.parent.iterdir() if _may_be_data(entry, path)]
    size = layout.offset + layout.data_bytes
    exact = [entry for entry in beside if entry.stat().st_size == size]
    # An unchanged header of ours belongs to the file that was saved with it.
    ours = [entry for entry in exact if header.is_sealed and entry.suffix == ".img"]
    # Truncated data have no right size, but a usual suffix still identifies them.
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
    """True if *entry* is named like *header*, and has no header of its own."""
    stem = header.stem.casefold()
    name = entry.name.casefold()
    is_named = name == stem or name.startswith(f"{stem}.")
    # GDAL writes `name.aux.xml` with statistics beside the files that it reads.
    is_other_kind = entry.suffix.lower() in (".hdr", ".xml")
    if not is_named or is_other_kind or not entry.is_file():
        return False
    return name == stem or not entry.with_name(f"{entry.name}.hdr").exists()
