"""The record of a cube in a file of ours: everything except its numbers, as JSON; and its seal.

Formats with fields for wavelengths and names get these as well, for other programs. A program that
derives a file from ours copies the record with the other descriptions, but not the seal, which lies
where such programs do not look. A record without a seal may therefore describe other numbers. The
seal holds checksums of the numbers, of the record, and of the description that we write for other
programs. If a person, a program or damage changed one of the two texts, the file is read as it is
now, with a warning.

Letters: B bands, H rows, W columns.
"""

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Array, DType
from napari_mst.base.errors import mismatch, shown
from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.cube.curves import number, power_of
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.cube.parts import with_tuples, without
from napari_mst.formats.numbers import checksum, magnitude
from napari_mst.formats.wavelengths import spectral_axis

OWN = "napari_mst"
"""Key of our part of the record, and its name in files with named parts."""
IGNORED = "data ignore value"


@dataclass(frozen=True)
class Description:
    """The description of the numbers in a file.

    Attributes
    ----------
    wavelengths, unit, names
        The spectral axis: wavelengths as text, their unit, and the names of the bands.
    fields
        The `SpectralCube.metadata` in the file.
    shape, dtype, crc32
        Shape, type and checksum of the numbers when they were saved; empty without our seal.
    quantity, provenance
        As in `SpectralCube`.
    warnings
        Sentences for people.
    """

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


def record_of(cube: SpectralCube) -> dict[str, Any]:
    """Everything about *cube* except its numbers, in JSON types."""
    own = {
        "quantity": cube.quantity,
        "provenance": json.loads(cube.provenance.to_json()),
        "metadata": _plain(without(cube.metadata, ["warnings"])),
    }
    if cube.unit == BAND_INDEX:
        return {OWN: own}
    axis = {"wavelength": cube.wavelengths.tolist(), "wavelength_units": cube.unit}
    return {**axis, OWN: own}


def description_of(stored: Mapping[str, Any]) -> Description:
    """The inverse of `record_of`. A damaged record raises errors of any type."""
    own = stored[OWN]
    fields = with_tuples(own["metadata"])
    if IGNORED in fields:
        fields[IGNORED] = number(str(fields[IGNORED]))
    return Description(
        wavelengths=[str(value) for value in stored.get("wavelength", ())],
        unit=str(stored.get("wavelength_units", "")),
        names=fields.get("band names", ()),
        fields=fields,
        quantity=str(own["quantity"]),
        provenance=Provenance.from_json(json.dumps(own["provenance"])),
    )


def described_cube(
    data: Array, description: Description, warnings: Sequence[str] = ()
) -> SpectralCube:
    """The cube of a file, from its numbers (B, H, W) and their description.

    Complex numbers are replaced by their magnitude.
    """
    data, complex_doubts = magnitude(data)
    names = description.names
    wavelengths, unit, axis_doubts = spectral_axis(
        description.wavelengths, description.unit, names, len(data)
    )
    fields = dict(description.fields)
    # A wrong number of names describes other bands.
    if names and len(names) == len(data):
        fields["band names"] = tuple(names)
    place_doubts: list[str] = []
    if place := Georeference.of_metadata(fields):
        place, place_doubts = place.checked()
        fields[FIELD] = place.to_json()
    doubts = (*description.warnings, *warnings, *complex_doubts, *axis_doubts, *place_doubts)
    if doubts:
        fields["warnings"] = doubts
    return SpectralCube(
        data, wavelengths, unit, description.quantity, description.provenance, fields
    )


def _plain(value: Any) -> Any:
    """*value* in JSON types; NaN and infinity, which JSON lacks, become text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    # `json` accepts only Python's own numbers.
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


CHANGED = "The file was changed since it was saved; its numbers cannot be verified."
"""Warning about a record without a seal."""
DESCRIPTION_CHANGED = (
    "The description of this cube was changed since it was saved; it cannot be verified."
)
"""Warning about a changed description with intact numbers."""
# Errors that `json` and lookups raise for a damaged record or seal.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def seal_of(cube: SpectralCube, dtype: DType, crc: str, others: Description | None = None) -> bytes:
    """The seal of *cube*, as JSON.

    It holds the shape, type, size and checksum of the stored numbers, and checksums of their
    descriptions.

    Parameters
    ----------
    crc
        The `numbers.checksum` of the numbers.
    others
        The description for other programs, beside our record, exactly as a reader of the file gets
        it: formats cannot hold everything.
    """
    fields: dict[str, Any] = {
        "shape": cube.shape,
        "dtype": dtype.name,
        "bytes": cube.data.size * dtype.itemsize,
        "crc32": crc,
        "record crc32": _text_checksum(record_of(cube)),
    }
    if others is not None:
        fields["others crc32"] = _text_checksum(_content(others))
    return json.dumps(fields).encode()


def sealed_description(
    name: str, seal: str | bytes, texts: Iterable[str], others: Description | None = None
) -> Description:
    """The description in the record among *texts*, checked against its *seal*.

    If *others*, the description for other programs, was changed since the save, or the record is
    missing, *others* replaces the record.

    Raises `CubeFileError` about the file *name* if the record or its seal is damaged.
    """
    text = next((text for text in texts if OWN in text), "")
    try:
        fields = json.loads(seal)
        if text or others is None:
            description = _compared(fields, json.loads(text), others)
        else:
            description = _changed(others)
        return replace(
            description,
            shape=tuple(fields["shape"]),
            dtype=str(fields["dtype"]),
            crc32=str(fields["crc32"]),
        )
    except _DAMAGE:
        raise mismatch(
            name, "the record of its save", "damaged text", "Get the file again."
        ) from None


class SealedTexts(NamedTuple):
    """The texts in a file of ours, see `sealed_description`."""

    seal: str | bytes
    record: str
    others: Description | None = None


def sealed_cube(name: str, data: Any, texts: SealedTexts, verify: bool | None) -> SpectralCube:
    """The cube of a file of ours, from its numbers (B, H, W), after `check`.

    Raises `CubeFileError`.
    """
    description = sealed_description(name, texts.seal, [texts.record], texts.others)
    check(name, data, description, verify)
    return described_cube(data, description)


def check(name: str, data: Any, description: Description, is_wanted: bool | None) -> None:
    """Compare the numbers (B, H, W) of the file *name* with their seal, if there is one.

    Shape and type are always compared. With None for *is_wanted*, the checksum is compared only for
    numbers in memory, since mapped or lazy numbers would have to be read first.

    Raises `CubeFileError`.
    """
    if not description.shape:
        return
    expected = (description.dtype, description.shape)
    got = (data.dtype.name, data.shape)
    if expected != got:
        kind = f"numbers of {expected[0]} {expected[1]}"
        raise mismatch(name, kind, f"{got[0]} {got[1]}", "Get the file again.")
    if is_wanted is None:
        is_wanted = isinstance(data, np.ndarray) and not isinstance(data, np.memmap)
    if not is_wanted:
        return
    crc = checksum(data, data.dtype.newbyteorder("<"))
    if crc != description.crc32:
        advice = "The file was damaged or changed since it was saved."
        kind = f"numbers with checksum {shown(description.crc32, 8)}"
        raise mismatch(name, kind, crc, advice)


def _compared(
    sealed: Mapping[str, Any], stored: Mapping[str, Any], others: Description | None
) -> Description:
    """The description in the *stored* record, with a warning if it or *others* was changed."""
    description = description_of(stored)
    # tifffile adds the keys `shape` and `axes`, which the seal does not cover, to ours.
    ours = ("wavelength", "wavelength_units", OWN)
    read = {key: value for key, value in stored.items() if key in ours}
    is_record_intact = sealed.get("record crc32") == _text_checksum(read)
    if others is None or sealed.get("others crc32") == _text_checksum(_content(others)):
        return description if is_record_intact else _changed(description)
    return _changed(_with_axis_of(description, others))


def _changed(description: Description) -> Description:
    return replace(description, warnings=(DESCRIPTION_CHANGED,))


def _with_axis_of(description: Description, others: Description) -> Description:
    """*description* with the wavelengths, names and fill value of *others*.

    It stays unchanged if *others* have no wavelengths.
    """
    if not others.wavelengths:
        return description
    fields = without(description.fields, (IGNORED, "band names"))
    return replace(
        description,
        wavelengths=others.wavelengths,
        unit=others.unit,
        names=others.names,
        fields=fields | dict(others.fields),
    )


def _content(others: Description) -> list[Any]:
    """The contents of *others*, independent of the spelling of numbers and units."""
    wavelengths = [number(text) for text in others.wavelengths]
    return [wavelengths, power_of(others.unit), list(others.names), dict(others.fields)]


def _text_checksum(content: Any) -> str:
    """CRC-32 of *content* as JSON; the order of its keys does not matter."""
    text = json.dumps(content, sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"
