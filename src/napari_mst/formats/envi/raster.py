"""ENVI rasters: reading every data type, byte order and interleave; writing BSQ, little-endian.

The data file is a flat run of numbers; a large file is read on demand. No value of a cube can break
a header that we write; `header` describes how values are encoded and sealed.

Letters: B bands, H rows, W columns.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from napari_mst.base import atomic_save
from napari_mst.base.arrays import Array, Doubles, DType
from napari_mst.base.errors import CubeFileError, mismatch, shown
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.curves import BAND_INDEX, NANOMETRES
from napari_mst.formats.consistent_read import Contents, held, read_consistently
from napari_mst.formats.cube_record import CHANGED, Description, described_cube
from napari_mst.formats.envi.georeference import in_envi, read_from_envi
from napari_mst.formats.envi.header import (
    AXES,
    OWN,
    SEAL,
    STRUCTURE,
    TYPES,
    DataLayout,
    Header,
    data_of,
    header_bytes,
    header_of,
    provenance,
    targets,
)
from napari_mst.formats.envi.header_fields import described
from napari_mst.formats.numbers import (
    crc32,
    in_native_order,
    is_large,
    write_planes,
)
from napari_mst.formats.wavelengths import band_names, percent_encode


def is_envi(path: Path) -> bool:
    """True if *path* is an ENVI header, or a data file beside one.

    Other programs use the suffix `.hdr` too.
    """
    header = header_of(path)
    if header is None:
        return False
    with header.open("rb") as file:
        head = file.read(16)
    # Headers in UTF-16 or with a byte order mark count too: `Header.parse` explains the problem.
    return head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe").startswith(b"ENVI")


def read_envi(path: Path, *, scale: bool = True, verify: bool | None = None) -> SpectralCube:
    """The cube at *path*, a header or its data file.

    Parameters
    ----------
    scale
        Apply gains, offsets and the reflectance scale factor once, which gives float (B, H, W) with
        NaN for the fill value. False keeps the numbers as stored.
    verify
        Compare the data with the checksum in an unchanged header of ours; by default unless they
        are `Lazy`.

    Returns
    -------
    The cube; assumptions are in `metadata["warnings"]`.

    Raises
    ------
    CubeFileError
        If header or data are missing, damaged, contradictory or of an unsupported kind.
    """

    def read(header: Header, header_path: Path) -> SpectralCube:
        layout = header.layout()
        data = data_of(header, header_path, layout) if path == header_path else path
        stored, warnings = load(header, data, layout, verify)
        numbers, fields, quantity, doubts = described(stored, header, scale=scale)
        fields, doubts_of_place = read_from_envi(fields, is_sealed=header.is_sealed)
        description = Description(
            header.numbers("wavelength"),
            header.unit_word,
            header.items("band names", layout.bands),
            fields,
            quantity=header.text(f"{OWN}quantity") or quantity,
            provenance=provenance(header),
        )
        return described_cube(numbers, description, [*warnings, *doubts, *doubts_of_place])

    return steadily(path, targets(path), read)


def steadily(
    path: Path, targets: tuple[Path, Path], read: Callable[[Header, Path], Contents]
) -> Contents:
    """The result of *read* for the header at or beside *path*, and the path of that header.

    A save renames the data and the header, its *targets*, one after the other. If the header is the
    same before and after *read*, the data read in between belong to it. Raises `CubeFileError`.
    """

    def now() -> tuple[Path, bytes] | None:
        """The header and its bytes; None while a save replaces it."""
        header = header_of(path)
        if header is None and atomic_save.is_interrupted(targets):
            with held(*targets):
                return None
        if header is None:
            raise CubeFileError(
                f"Expected an ENVI header at or beside {shown(path.name)}, got none. Put it there."
            )
        try:
            return header, header_bytes(header)
        except FileNotFoundError:
            return None

    contents = read_consistently(
        now, lambda found: read(Header.parse(found[1], found[0].name), found[0])
    )
    if contents is None:
        raise CubeFileError(
            f"Expected {shown(path.name)} to stay as it is, got changes while reading. Try again."
        )
    return contents


def load(
    header: Header, path: Path, layout: DataLayout, verify: bool | None
) -> tuple[Array, list[str]]:
    """The stored numbers (B, H, W) of the data file at *path*, and warnings.

    The numbers are in native byte order: in memory and contiguous, or `Lazy`.

    Parameters
    ----------
    verify
        Compare them with the checksum in an unchanged header of ours; None does so for numbers in
        memory.

    Raises
    ------
    CubeFileError
        If the file is too short, damaged, or does not fit its header.
    """
    needed = layout.offset + layout.data_bytes
    size = path.stat().st_size
    if size < needed:
        raise mismatch(path.name, f"{needed} bytes", str(size), "The data file is incomplete.")
    excess = size - needed
    flat = _numbers(path, layout)
    warnings = []
    # Single bytes have no byte order.
    if layout.dtype.itemsize > 1 and "byte order" not in header.fields:
        warnings.append("The header does not give the byte order; little-endian was assumed.")
    if excess:
        warnings.append(
            f"The data file is {excess} bytes longer than its header says; they are ignored."
        )
    # A checksum counts only in an unchanged header of ours.
    if header.is_ours and not header.is_sealed:
        warnings.append(CHANGED)
    elif header.is_sealed and (verify or (verify is None and not isinstance(flat, np.memmap))):
        expected = header.text(f"{OWN}data crc32")
        checksum = f"{crc32(flat):08x}"
        if checksum != expected:
            advice = "The data were damaged or changed since they were saved."
            raise mismatch(path.name, f"data with checksum {shown(expected, 8)}", checksum, advice)
    axes = AXES[layout.interleave]
    sizes = (layout.bands, layout.rows, layout.columns)
    cube = flat.reshape([sizes[axes.index(at)] for at in range(3)]).transpose(axes)
    return in_native_order(cube), warnings


def _numbers(path: Path, layout: DataLayout) -> Array:
    if is_large(layout.data_bytes):
        return np.memmap(path, layout.dtype, "r", layout.offset, (layout.count,))
    flat = np.fromfile(path, layout.dtype, layout.count, offset=layout.offset)
    # The size was right before, so another program is changing the file right now.
    if flat.size != layout.count:
        raise mismatch(path.name, f"{layout.count} numbers", str(flat.size), "Read it again.")
    return flat


def write_envi(
    data: Path, header: Path, cube: SpectralCube, dtype: DType, progress: Progress
) -> None:
    """Save *cube* as the two files of a raster."""
    with data.open("wb") as file:
        crc = write_planes(file, cube.data, dtype, progress)
    header.write_text(_header_text(in_envi(cube), dtype, crc), "ascii", newline="\n")


def _header_text(cube: SpectralCube, dtype: DType, crc: str) -> str:
    """The ASCII header of *cube* stored as little-endian *dtype* in BSQ.

    Parameters
    ----------
    crc
        The `numbers.checksum` of the data as stored.
    """
    layout = DataLayout(*cube.shape, dtype)
    fields: dict[str, object] = {}
    description = cube.metadata.get("description")
    if description:
        fields["description"] = "{" + percent_encode(str(description)) + "}"
    fields |= layout_fields(layout, "ENVI Standard")
    fields |= axis_fields(cube.wavelengths, cube.unit)
    # Programs display the default bands as red, green and blue, so all three must be covered.
    low, high = cube.wavelengths.min(), cube.wavelengths.max()
    if cube.has_wavelengths and low <= 470 and high >= 620:
        nearest = [cube.nearest_band(nm) + 1 for nm in (640.0, 550.0, 460.0)]
        fields["default bands"] = _value(cube.metadata.get("default bands") or nearest)
    fields["band names"] = braced(percent_encode(name, ",") for name in band_names(cube))
    for key, value in cube.metadata.items():
        safe = " ".join(percent_encode(key, "=;").lower().split())
        is_reserved = safe in STRUCTURE or safe == "warnings" or safe.startswith(OWN)
        if safe and not is_reserved:
            fields.setdefault(safe, _value(value))
    # The braces of the field replace those of the JSON object.
    history = percent_encode(cube.provenance.to_json()[1:-1])
    fields |= {
        f"{OWN}encoding": "percent",
        f"{OWN}quantity": percent_encode(cube.quantity),
        f"{OWN}provenance": "{" + history + "}",
    }
    return sealed(fields, crc)


def layout_fields(layout: DataLayout, kind: str) -> dict[str, object]:
    """The fields of a header of this *kind* that describe the layout of its data file."""
    native = layout.dtype.newbyteorder("=")
    return {
        "samples": layout.columns,
        "lines": layout.rows,
        "bands": layout.bands,
        "header offset": 0,
        "file type": kind,
        "data type": next(code for code, name in TYPES.items() if np.dtype(name) == native),
        "interleave": "bsq",
        "byte order": 0,
    }


def axis_fields(wavelengths: Doubles, unit: str) -> dict[str, object]:
    """The fields of the spectral axis; none if the bands are only numbered."""
    if unit == BAND_INDEX:
        return {}
    return {
        "wavelength units": "Nanometers" if unit == NANOMETRES else percent_encode(unit),
        "wavelength": braced(repr(float(wavelength)) for wavelength in wavelengths),
    }


def sealed(fields: dict[str, object], crc: str) -> str:
    """The text of a header: *fields* unchanged, the checksum of the data, and the seal."""
    pairs = fields | {f"{OWN}data crc32": crc}
    lines = [f"{key} = {value}" for key, value in pairs.items()]
    text = "\n".join(["ENVI", *lines, ""])
    # The seal comes last because it covers all the text before it.
    return f"{text}{SEAL}{zlib.crc32(text.encode()):08x}\n"


def braced(items: Iterable[str], width: int = 8) -> str:
    """*items* in braces, *width* per line.

    Continued lines start with a space, so that they are never read as comments.
    """
    texts = list(items)
    lines = [", ".join(texts[start : start + width]) for start in range(0, len(texts), width)]
    return "{" + ",\n ".join(lines) + "}"


def _value(value: object) -> str:
    """*value* as the text of a field; text in braces keeps its braces."""
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return "{" + percent_encode(value[1:-1]) + "}"
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return braced(percent_encode(str(item), ",") for item in value)
    return percent_encode(str(value))
