"""Writing ENVI rasters: BSQ, little-endian, with a header that says where the cube came from.

No value of a cube can break a header; `header` says how they are encoded and sealed.

Letters: B bands, H rows, W columns.
"""

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from napari_mst.arrays import Doubles, DType
from napari_mst.cube import SpectralCube
from napari_mst.cube.curves import BAND_INDEX, NANOMETRES
from napari_mst.formats.envi.georeference import in_envi
from napari_mst.formats.envi.header import OWN, SEAL, STRUCTURE, TYPES, DataLayout
from napari_mst.formats.numbers import write_numbers
from napari_mst.formats.text import percent_encode
from napari_mst.formats.wavelengths import band_names
from napari_mst.watch import Watch


def write_envi(data: Path, header: Path, cube: SpectralCube, dtype: DType, watch: Watch) -> None:
    """Save *cube* as the two files of a raster."""
    with data.open("wb") as file:
        crc = write_numbers(file, cube.data, dtype, watch)
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
    # Programs show the default bands as red, green and blue: only where there are all three.
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
    # The braces of the field stand for those of the JSON object.
    history = percent_encode(cube.provenance.to_json()[1:-1])
    fields |= {
        f"{OWN}encoding": "percent",
        f"{OWN}quantity": percent_encode(cube.quantity),
        f"{OWN}provenance": "{" + history + "}",
    }
    return sealed(fields, layout, crc)


def layout_fields(layout: DataLayout, kind: str) -> dict[str, object]:
    """The fields of a header of this *kind* that say how the numbers lie in its data file."""
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
    """The fields of the spectral axis; none where the bands are only numbered."""
    if unit == BAND_INDEX:
        return {}
    return {
        "wavelength units": "Nanometers" if unit == NANOMETRES else percent_encode(unit),
        "wavelength": braced(repr(float(wavelength)) for wavelength in wavelengths),
    }


def sealed(fields: dict[str, object], layout: DataLayout, crc: str) -> str:
    """The text of a header: *fields* as they are, layout and checksum of the data, and the seal."""
    pairs = fields | {
        f"{OWN}data layout": layout,
        f"{OWN}data bytes": layout.data_bytes,
        f"{OWN}data crc32": crc,
    }
    lines = [f"{key} = {value}" for key, value in pairs.items()]
    text = "\n".join(["ENVI", *lines, ""])
    # The seal comes last, because it covers all text before it.
    return f"{text}{SEAL}{zlib.crc32(text.encode()):08x}\n"


def braced(items: Iterable[str], width: int = 8) -> str:
    """*items* in braces, *width* on a line.

    A continued line starts with a space, so that none can be taken for a comment.
    """
    texts = list(items)
    lines = [", ".join(texts[start : start + width]) for start in range(0, len(texts), width)]
    return "{" + ",\n ".join(lines) + "}"


def _value(value: object) -> str:
    """*value* as the text of a field; text that has braces keeps them."""
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return "{" + percent_encode(value[1:-1]) + "}"
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return braced(percent_encode(str(item), ",") for item in value)
    return percent_encode(str(value))
