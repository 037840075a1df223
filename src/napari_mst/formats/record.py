"""What a file of ours says about its numbers: a JSON record of everything else in the cube, and a seal that binds it.

Programs that derive a file from ours copy the record with other descriptions, but not the seal, which lies where they
do not look: only where the seal is, the record is about these numbers. The seal holds checksums of the numbers, of the
record, and of the description that we write for other programs. Where one of the two texts was changed, by a person or
by damage, the file is read as it is now, with a warning, as an ENVI header is.
"""

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.formats.numbers import checksum, magnitude
from napari_mst.formats.wavelengths import number, power_of, spectral_axis
from napari_mst.messages import mismatch, shown

OWN = "napari_mst"
"""The key of our part of the record, and its name in files that name their parts."""

CHANGED = "The file was changed since it was saved; its numbers cannot be verified."
"""What a reader says of a record without its seal."""
DESCRIPTION_CHANGED = (
    "The description of this cube was changed since it was saved; it cannot be verified."
)
"""What a reader says of a description that is not the one that was sealed, where the numbers are."""
_IGNORED = "data ignore value"
_NUMBERS_ONLY = {"shape", "dtype", "bytes", "crc32"}
"""The fields of a seal that was written before the description was sealed too."""


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
    warnings: tuple[str, ...] = ()


def record(cube: SpectralCube) -> dict[str, Any]:
    """Everything about *cube* but its numbers, for JSON."""
    axis = {"wavelength": cube.wavelengths.tolist(), "wavelength_units": cube.unit}
    own = {
        "quantity": cube.quantity,
        "provenance": json.loads(cube.provenance.to_json()),
        "metadata": _plain(
            {key: value for key, value in cube.metadata.items() if key != "warnings"}
        ),
    }
    return (axis if cube.unit != BAND_INDEX else {}) | {OWN: own}


def seal(
    cube: SpectralCube, dtype: np.dtype[Any], crc: str, others: Description | None = None
) -> bytes:
    """Shape, type, size and checksum of the numbers as stored, and the checksums of their description, as JSON.

    Parameters
    ----------
    crc
        The `numbers.checksum` of the numbers.
    others
        The description that other programs find in the file beside our record, as it is read again.
    """
    fields: dict[str, Any] = {
        "shape": cube.shape,
        "dtype": dtype.name,
        "bytes": cube.data.size * dtype.itemsize,
        "crc32": crc,
        "record crc32": _text_checksum(record(cube)),
    }
    if others is not None:
        fields["others crc32"] = _text_checksum(_plain_description(others))
    return json.dumps(fields).encode()


def described(
    name: str, sealed: str | bytes, texts: Iterable[str], others: Description | None = None
) -> Description:
    """What the record among *texts* says; *others* where that was changed since, or where the record is gone.

    Raises `CubeFileError` about the file *name* if the record or its seal is damaged.
    """
    text = next((text for text in texts if OWN in text), "")
    try:
        fields = json.loads(sealed)
        told = (
            _compared(fields, json.loads(text), others)
            if text or others is None
            else _changed(others)
        )
        return replace(
            told,
            shape=tuple(fields["shape"]),
            dtype=str(fields["dtype"]),
            crc32=str(fields["crc32"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise mismatch(
            name, "the record of its save", "damaged text", "Get the file again."
        ) from None


def check(name: str, data: Any, description: Description) -> None:
    """Compare shape and type of the numbers of the file *name* with their seal, if any. Raises `CubeFileError`."""
    expected, found = (description.shape, description.dtype), (data.shape, data.dtype.name)
    if description.shape and expected != found:
        raise mismatch(
            name,
            "numbers of {1} {0}".format(*expected),
            "{1} {0}".format(*found),
            "Get the file again.",
        )


def verify(name: str, data: NDArray[Any], description: Description) -> None:
    """Compare the (B, H, W) numbers of the file *name* with their seal, if any. Raises `CubeFileError`."""
    if description.crc32 and description.crc32 != (
        found := checksum(data, data.dtype.newbyteorder("<"))
    ):
        advice = "The file was damaged or changed since it was saved."
        raise mismatch(name, f"numbers with checksum {shown(description.crc32, 8)}", found, advice)


def described_cube(
    data: NDArray[Any], description: Description, warnings: Sequence[str] = ()
) -> SpectralCube:
    """The cube of the (B, H, W) numbers of a file and what the file says about them; complex ones by magnitude."""
    data, doubts = magnitude(data)
    names, count = description.names, len(data)
    wavelengths, unit, more = spectral_axis(description.wavelengths, description.unit, names, count)
    fields = dict(description.fields)
    if names and len(names) == count:
        fields["band names"] = tuple(names)
    if told := (*description.warnings, *warnings, *doubts, *more):
        fields["warnings"] = told
    return SpectralCube(
        data, wavelengths, unit, description.quantity, description.provenance, fields
    )


def _described(stored: Mapping[str, Any]) -> Description:
    own = stored[OWN]
    fields = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in own["metadata"].items()
    }
    if _IGNORED in fields:
        fields[_IGNORED] = number(str(fields[_IGNORED]))
    return Description(
        wavelengths=[str(value) for value in stored.get("wavelength", ())],
        unit=str(stored.get("wavelength_units", "")),
        names=fields.get("band names", ()),
        fields=fields,
        quantity=str(own["quantity"]),
        provenance=Provenance.from_json(json.dumps(own["provenance"])),
    )


def _compared(
    sealed: Mapping[str, Any], stored: Mapping[str, Any], others: Description | None
) -> Description:
    """The description *stored*; where it or *others* is not the one that was sealed, as it is now, with a warning."""
    told = _described(stored)
    if sealed.keys() == _NUMBERS_ONLY:
        return told
    read = {
        key: value
        for key, value in stored.items()
        if key in ("wavelength", "wavelength_units", OWN)
    }
    is_record = sealed.get("record crc32") == _text_checksum(read)
    if others is None or sealed.get("others crc32") == _text_checksum(_plain_description(others)):
        return told if is_record else _changed(told)
    return _changed(_with_axis_of(told, others))


def _changed(told: Description) -> Description:
    return replace(told, warnings=(DESCRIPTION_CHANGED,))


def _with_axis_of(told: Description, others: Description) -> Description:
    """*told* with the wavelengths, names and ignored value of *others*, unless these have no wavelengths."""
    if not others.wavelengths:
        return told
    fields = {
        key: value for key, value in told.fields.items() if key not in (_IGNORED, "band names")
    }
    fields |= others.fields
    return replace(
        told, wavelengths=others.wavelengths, unit=others.unit, names=others.names, fields=fields
    )


def _plain_description(others: Description) -> list[Any]:
    """The contents of *others* that do not depend on how a program writes numbers and units."""
    wavelengths = [number(text) for text in others.wavelengths]
    return [wavelengths, power_of(others.unit), list(others.names), dict(others.fields)]


def _text_checksum(content: Any) -> str:
    """CRC-32 of *content* as JSON, whatever the order of its keys."""
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def _plain(value: Any) -> Any:
    """*value* of JSON types only, without NaN and infinity, which JSON has not."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    is_plain = (
        value is None
        or isinstance(value, str | int)
        or (isinstance(value, float) and math.isfinite(value))
    )
    return value if is_plain else str(value)
