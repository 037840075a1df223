"""What a file of ours says about its numbers: a JSON record of everything else in the cube, and a seal that binds it.

Programs that derive a file from ours copy the record with other descriptions, but not the seal, which lies where they
do not look: only where the seal is, the record is about these numbers.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.formats.samples import checksum, magnitude
from napari_mst.formats.text import mismatch, shown
from napari_mst.formats.wavelengths import number, spectral_axis

OWN = "napari_mst"
"""The key of our part of the record, and its name in files that name their parts."""

CHANGED = "The file was changed since it was saved; its numbers cannot be verified."
"""What a reader says of a record without its seal."""


@dataclass(frozen=True)
class Description:
    """The spectral side of a file: wavelengths as text, their unit, band names, and our own record if it has one."""

    wavelengths: Sequence[str] = ()
    unit: str = ""
    names: Sequence[str] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    dtype: str = ""
    crc32: str = ""
    quantity: str = ""
    provenance: Provenance = field(default_factory=Provenance)


def record(cube: SpectralCube) -> dict[str, Any]:
    """Everything about *cube* but its numbers, for JSON."""
    axis = {"wavelength": cube.wavelengths.tolist(), "wavelength_units": cube.unit}
    own = {
        "quantity": cube.quantity,
        "provenance": json.loads(cube.provenance.to_json()),
        "metadata": _plain({key: value for key, value in cube.metadata.items() if key != "warnings"}),
    }
    return (axis if cube.unit != BAND_INDEX else {}) | {OWN: own}


def seal(cube: SpectralCube, dtype: np.dtype[Any], crc: str) -> bytes:
    """Shape, type, size and checksum of the numbers as stored, as JSON."""
    size = cube.data.size * dtype.itemsize
    return json.dumps({"shape": cube.shape, "dtype": dtype.name, "bytes": size, "crc32": crc}).encode()


def described(name: str, sealed: str | bytes, texts: Iterable[str]) -> Description:
    """What the record among *texts* says. Raises `CubeFileError` about the file *name* if it or its seal is damaged."""
    try:
        return _described(json.loads(sealed), json.loads(next(text for text in texts if OWN in text)))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
        raise mismatch(name, "the record of its save", "damaged text", "Get the file again.") from None


def check(name: str, data: Any, description: Description) -> None:
    """Compare shape and type of the numbers of the file *name* with their seal, if any. Raises `CubeFileError`."""
    expected, found = (description.shape, description.dtype), (data.shape, data.dtype.name)
    if description.shape and expected != found:
        raise mismatch(name, "numbers of {1} {0}".format(*expected), "{1} {0}".format(*found), "Get the file again.")


def verify(name: str, data: NDArray[Any], description: Description) -> None:
    """Compare the (B, H, W) numbers of the file *name* with their seal, if any. Raises `CubeFileError`."""
    if description.crc32 and description.crc32 != (found := checksum(data, data.dtype.newbyteorder("<"))):
        advice = "The file was damaged or changed since it was saved."
        raise mismatch(name, f"numbers with checksum {shown(description.crc32, 8)}", found, advice)


def described_cube(data: NDArray[Any], description: Description, warnings: Sequence[str] = ()) -> SpectralCube:
    """The cube of the (B, H, W) numbers of a file and what the file says about them; complex ones by magnitude."""
    data, doubts = magnitude(data)
    names, count = description.names, len(data)
    wavelengths, unit, more = spectral_axis(description.wavelengths, description.unit, names, count)
    fields = dict(description.fields)
    if names and len(names) == count:
        fields["band names"] = tuple(names)
    if told := (*warnings, *doubts, *more):
        fields["warnings"] = told
    return SpectralCube(data, wavelengths, unit, description.quantity, description.provenance, fields)


def _described(sealed: Mapping[str, Any], stored: Mapping[str, Any]) -> Description:
    own = stored[OWN]
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in own["metadata"].items()}
    if "data ignore value" in fields:
        fields["data ignore value"] = number(str(fields["data ignore value"]))
    return Description(
        wavelengths=[str(value) for value in stored.get("wavelength", ())],
        unit=str(stored.get("wavelength_units", "")),
        names=fields.get("band names", ()),
        fields=fields,
        shape=tuple(sealed["shape"]),
        dtype=str(sealed["dtype"]),
        crc32=str(sealed["crc32"]),
        quantity=str(own["quantity"]),
        provenance=Provenance.from_json(json.dumps(own["provenance"])),
    )


def _plain(value: Any) -> Any:
    """*value* of JSON types only, without NaN and infinity, which JSON has not."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    is_plain = value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_plain else str(value)
