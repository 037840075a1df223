"""Writing ENVI headers, so that no value of a cube can break them.

`header` says how they are encoded and sealed, and reads them. Letters: B bands, H rows, W columns.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from napari_mst.cube import BAND_INDEX, SpectralCube
from napari_mst.formats.envi.header import OWN, SEAL, STRUCTURE, TYPES, Layout
from napari_mst.formats.text import percent_encode
from napari_mst.formats.wavelengths import band_names


def header_text(cube: SpectralCube, dtype: np.dtype[Any], crc: str) -> str:
    """The ASCII header of *cube* stored as little-endian *dtype* in BSQ.

    Parameters
    ----------
    crc
        The `numbers.checksum` of the data as stored.
    """
    bands, rows, columns = cube.shape
    native = dtype.newbyteorder("=")
    fields: dict[str, object] = {}
    description = cube.metadata.get("description")
    if description:
        fields["description"] = "{" + percent_encode(str(description)) + "}"
    fields |= {
        "samples": columns,
        "lines": rows,
        "bands": bands,
        "header offset": 0,
        "file type": "ENVI Standard",
        "data type": next(code for code, name in TYPES.items() if np.dtype(name) == native),
        "interleave": "bsq",
        "byte order": 0,
    }
    fields |= _spectral_fields(cube)
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
    return sealed(fields, Layout(bands, rows, columns, dtype), crc)


def sealed(fields: dict[str, object], layout: Layout, crc: str) -> str:
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


def _spectral_fields(cube: SpectralCube) -> dict[str, object]:
    """Wavelengths, names and default bands."""
    fields: dict[str, object] = {}
    if cube.has_wavelengths:
        fields["wavelength units"] = "Nanometers"
        # Programs show the default bands as red, green and blue: only where there are all three.
        if cube.wavelengths.min() <= 470 and cube.wavelengths.max() >= 620:
            fields["default bands"] = _value(_default_bands(cube))
    elif cube.unit != BAND_INDEX:
        fields["wavelength units"] = percent_encode(cube.unit)
    if fields:
        fields["wavelength"] = braced(repr(float(wavelength)) for wavelength in cube.wavelengths)
    names = braced(percent_encode(name, ",") for name in band_names(cube))
    return {**fields, "band names": names}


def _default_bands(cube: SpectralCube) -> object:
    """The cube's own default bands, else the bands nearest to red, green and blue, from 1."""
    own = cube.metadata.get("default bands")
    return own or [cube.nearest_band(nm) + 1 for nm in (640.0, 550.0, 460.0)]


def _value(value: object) -> str:
    """*value* as the text of a field; text that has braces keeps them."""
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return "{" + percent_encode(value[1:-1]) + "}"
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return braced(percent_encode(str(item), ",") for item in value)
    return percent_encode(str(value))
