"""The text header of an ENVI raster: strict reading in linear time, and writing that no value can break.

Specification: NV5 Geospatial, "ENVI Header Files". Braced lists may span lines; a line whose first character is `;` is
a comment. Our own headers say `napari mst encoding = percent`: their text values are percent-encoded ASCII. They
end in a seal, a checksum of the text before it: where another program copied or edited the text, the seal is broken,
the checksum of the data no longer counts, and the reader is warned; where the data are still those that we saved, but
not as the header says, it is damaged.
"""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.errors import CubeError, CubeFileError
from napari_mst.formats.text import percent_decode, percent_encode
from napari_mst.formats.wavelengths import band_names
from napari_mst.messages import mismatch, shown

MAX_BYTES = 16 * 2**20
OWN = "napari mst "
"""How the keys that are ours begin."""
_SEAL = f"{OWN}header crc32 = "
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
"""Where bands, rows and columns are among the axes of each interleave as stored."""
_REQUIRED = ("samples", "lines", "bands", "data type", "interleave")
_STRUCTURE = {
    *_REQUIRED,
    *(
        "header offset",
        "file type",
        "byte order",
        "wavelength",
        "wavelength units",
        "wavelength unit",
    ),
    *("file compression", "major frame offsets", "minor frame offsets"),
}


@dataclass(frozen=True)
class Layout:
    """How the numbers lie in the data file: *dtype* with its byte order, *offset* bytes before the first."""

    bands: int
    rows: int
    columns: int
    dtype: np.dtype[Any]
    interleave: str
    offset: int
    is_compressed: bool

    @property
    def count(self) -> int:
        """Numbers in the file."""
        return self.bands * self.rows * self.columns

    @property
    def data_bytes(self) -> int:
        """Bytes of the numbers alone."""
        return self.count * self.dtype.itemsize

    def __str__(self) -> str:
        sizes = f"{self.bands} x {self.rows} x {self.columns}"
        return (
            f"{self.dtype.str} {sizes} {self.interleave} + {self.offset}"
            + ", compressed" * self.is_compressed
        )

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in the order of the file."""
        sizes = (self.bands, self.rows, self.columns)
        return tuple(size for _, size in sorted(zip(AXES[self.interleave], sizes, strict=True)))


@dataclass(frozen=True)
class Header:
    """The key-value pairs of one header; keys in lower case with single spaces, values as written, braces included.

    `is_sealed` if the text is to the letter what we wrote.
    """

    name: str
    fields: Mapping[str, str]
    is_sealed: bool

    @classmethod
    def parse(cls, raw: bytes, name: str) -> "Header":
        """Read the bytes of a header. Raises `CubeFileError`; time is linear in their number."""
        if len(raw) > MAX_BYTES:
            raise mismatch(
                name, f"at most {MAX_BYTES} bytes", "more", "A header is text; check the file."
            )
        lines = _lines(raw, name)
        if lines[0].strip().upper() != "ENVI":
            raise mismatch(
                name,
                "ENVI on the first line",
                repr(shown(lines[0], 30)),
                "Open another kind of file.",
            )
        return cls(name, _fields(lines, name), _is_sealed(raw))

    @property
    def is_ours(self) -> bool:
        """Whether we wrote it, or the one that it was made from."""
        return any(key.startswith(OWN) for key in self.fields)

    def error(self, expected: str, got: str, advice: str = "Correct the header.") -> CubeFileError:
        """What to raise about this header."""
        return mismatch(self.name, expected, got, advice)

    def text(self, key: str) -> str:
        """The value of *key* without braces; empty if there is none."""
        return self._decoded(_inner(self.fields.get(key, "")))

    def items(self, key: str) -> list[str]:
        """The comma-separated items of *key*; a comma after the last is allowed."""
        inner = _inner(self.fields.get(key, ""))
        return [self._decoded(item.strip()) for item in inner.split(",")] if inner else []

    def numbers(self, key: str) -> list[str]:
        """The items of *key*, between commas or spaces, as text."""
        return (
            re.split(r"[,\s]+", inner)
            if (inner := _inner(self.fields.get(key, "")).strip(", \t\n"))
            else []
        )

    def integer(self, key: str, default: str = "") -> int:
        """The whole number at *key*. Raises `CubeFileError`."""
        text = self.fields.get(key, default).partition(";")[0].strip()
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise self.error(f"a whole number for '{key}'", repr(shown(text, 30)))
        return int(text)

    def other_fields(self) -> dict[str, str]:
        """What describes neither structure nor ourselves, as text with its braces."""
        own = [key for key in self.fields if key in _STRUCTURE or key.startswith(OWN)]
        return {
            self._decoded(k): self._decoded(" ".join(v.split("\n")))
            for k, v in self.fields.items()
            if k not in own
        }

    def layout(self, kinds: Sequence[str] = ("", "ENVI", "ENVI Standard")) -> Layout:
        """How the numbers lie in a file of one of these *kinds*.

        Raises `CubeFileError`, naming the field, on anything missing or unsupported.
        """
        missing = [key for key in _REQUIRED if key not in self.fields]
        if missing:
            raise self.error(
                "all required fields", f"none for {', '.join(missing)}", "Add them to the header."
            )
        self._check_kind(kinds)
        bands, rows, columns = (self._size(key) for key in ("bands", "lines", "samples"))
        interleave = self.fields["interleave"].strip().lower()
        if interleave not in AXES:
            raise self.error("interleave bsq, bil or bip", repr(shown(interleave, 30)))
        offset = self.integer("header offset", "0")
        if offset < 0:
            raise self.error("a header offset of 0 or more", str(offset))
        is_compressed = self._flag("file compression")
        return Layout(bands, rows, columns, self._dtype(), interleave, offset, is_compressed)

    def doubts(self, layout: Layout) -> list[str]:
        """What to say of fields that had to be assumed for this *layout*."""
        if layout.dtype.itemsize == 1 or "byte order" in self.fields:
            return []
        return ["The header does not give the byte order; little-endian was assumed."]

    def _check_kind(self, kinds: Sequence[str]) -> None:
        kind = self.text("file type")
        if kind.lower() not in [known.lower() for known in kinds]:
            raise self.error(
                f"file type '{kinds[-1]}'",
                repr(shown(kind, 40)),
                "Open or export another kind of file.",
            )
        for key in ("major frame offsets", "minor frame offsets"):
            if any(item.strip("0") for item in self.numbers(key)):
                raise self.error(f"no {key}", shown(self.text(key), 30), "Export it without them.")

    def _size(self, key: str) -> int:
        size = self.integer(key)
        if size < 1:
            raise self.error(f"'{key}' of 1 or more", str(size))
        return size

    def _flag(self, key: str) -> bool:
        if (value := self.integer(key, "0")) not in (0, 1):
            raise self.error(f"'{key}' 0 or 1", str(value))
        return value == 1

    def _dtype(self) -> np.dtype[Any]:
        code = self.integer("data type")
        if code not in TYPES:
            raise self.error(f"a data type of {', '.join(map(str, TYPES))}", str(code))
        return np.dtype(TYPES[code]).newbyteorder(">" if self._flag("byte order") else "<")

    def _decoded(self, text: str) -> str:
        return percent_decode(text) if f"{OWN}encoding" in self.fields else text


def _lines(raw: bytes, name: str) -> list[str]:
    """The lines of a UTF-8 or Latin-1 text with any line ends."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw:
        raise mismatch(
            name, "UTF-8 or Latin-1 text", "UTF-16 or binary data", "Save it as plain text."
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _fields(lines: Iterable[str], name: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    key, parts = "", list[str]()
    for line in lines:
        if line.startswith(";"):
            continue
        if parts:
            if re.match(r"[^={}]+=\s*\{", line):
                break
            parts.append(line.strip())
        else:
            before, equals, value = line.partition("=")
            key = " ".join(before.lower().split())
            if not equals or not key or key.startswith(";"):
                continue
            parts = [value.strip()]
        if not parts[0].startswith("{") or "}" in parts[-1]:
            _add(fields, key, "\n".join(parts), name)
            parts = []
    if parts:
        raise mismatch(
            name, f"a closing brace after '{shown(key, 40)}'", "none", "Correct the header."
        )
    return fields


def _is_sealed(raw: bytes) -> bool:
    text, seal, crc = raw.rpartition(_SEAL.encode())
    return bool(seal) and crc == f"{zlib.crc32(text):08x}\n".encode()


def _add(fields: dict[str, str], key: str, value: str, name: str) -> None:
    if value.startswith("{"):
        value = value.partition("}")[0] + "}"
    if fields.setdefault(key, value) != value:
        raise mismatch(
            name, f"one value for '{shown(key, 40)}'", "two that differ", "Remove one of them."
        )


def _inner(value: str) -> str:
    return value[1:-1].strip() if value.startswith("{") else value


def header_text(cube: SpectralCube, dtype: np.dtype[Any], crc: str) -> str:
    """The ASCII header of *cube* stored as little-endian *dtype* in BSQ, whose data have the checksum *crc*."""
    bands, rows, columns = cube.shape
    code = next(code for code, name in TYPES.items() if np.dtype(name) == dtype.newbyteorder("="))
    description = cube.metadata.get("description")
    fields: dict[str, object] = {
        **({"description": "{" + percent_encode(str(description)) + "}"} if description else {}),
        "samples": columns,
        "lines": rows,
        "bands": bands,
        "header offset": 0,
        "file type": "ENVI Standard",
        "data type": code,
        "interleave": "bsq",
        "byte order": 0,
        **_spectral_fields(cube),
    }
    for key, value in cube.metadata.items():
        safe = " ".join(percent_encode(key, "=;").lower().split())
        if safe and safe not in _STRUCTURE | {"warnings"} and not safe.startswith(OWN):
            fields.setdefault(safe, _value(value))
    fields |= {
        f"{OWN}encoding": "percent",
        f"{OWN}quantity": percent_encode(cube.quantity),
        f"{OWN}provenance": "{" + percent_encode(cube.provenance.to_json()[1:-1]) + "}",
    }
    return sealed(fields, Layout(bands, rows, columns, dtype, "bsq", 0, is_compressed=False), crc)


def sealed(fields: dict[str, object], layout: Layout, crc: str) -> str:
    """The text of a header with these *fields*, as they are, what it says of the data, and its seal."""
    data = {"layout": layout, "bytes": layout.data_bytes, "crc32": crc}
    pairs = fields | {f"{OWN}data {key}": value for key, value in data.items()}
    text = "\n".join(["ENVI", *(f"{key} = {value}" for key, value in pairs.items()), ""])
    return f"{text}{_SEAL}{zlib.crc32(text.encode()):08x}\n"


def provenance(header: Header) -> Provenance:
    """Where a cube that we wrote came from; empty for the files of others. Raises `CubeFileError`."""
    try:
        return Provenance.from_json("{" + header.text(f"{OWN}provenance") + "}")
    except (CubeError, TypeError):
        raise header.error(
            f"JSON at '{OWN}provenance'", "other text", "Remove that line from the header."
        ) from None


def _spectral_fields(cube: SpectralCube) -> dict[str, object]:
    """Wavelengths, names and default bands; programs show `default bands` as red, green and blue."""
    fields: dict[str, object] = {}
    if cube.has_wavelengths:
        fields["wavelength units"] = "Nanometers"
        if cube.wavelengths.min() <= 470 and cube.wavelengths.max() >= 620:
            visible = cube.metadata.get("default bands") or [
                cube.nearest_band(nm) + 1 for nm in (640.0, 550.0, 460.0)
            ]
            fields["default bands"] = _value(visible)
    elif cube.unit != BAND_INDEX:
        fields["wavelength units"] = percent_encode(cube.unit)
    if fields:
        fields["wavelength"] = braced(repr(float(wavelength)) for wavelength in cube.wavelengths)
    return fields | {"band names": braced(percent_encode(name, ",") for name in band_names(cube))}


def _value(value: object) -> str:
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return "{" + percent_encode(value[1:-1]) + "}"
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return braced(percent_encode(str(item), ",") for item in value)
    return percent_encode(str(value))


def braced(items: Iterable[str], width: int = 8) -> str:
    """*items* in braces, *width* on a line; a continued line starts with a space, so that none can be a comment."""
    texts = list(items)
    lines = [", ".join(texts[start : start + width]) for start in range(0, len(texts), width)]
    return "{" + ",\n ".join(lines) + "}"
