"""The seal of a file of ours: checksums that bind the record and the description to the numbers.

A program that derives a file from ours copies the record with the other descriptions, but not the
seal, which lies where such programs do not look. So a record is about the numbers of its file only
where the seal is. The seal holds checksums of the numbers, of the record, and of the description
that we write for other programs. Where a person, a program or damage changed one of the two texts,
the file is read as it is now, with a warning.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from napari_mst.arrays import DType
from napari_mst.cube import SpectralCube
from napari_mst.cube.curves import number, power_of
from napari_mst.cube.parts import without
from napari_mst.errors import mismatch, shown
from napari_mst.formats.numbers import checksum
from napari_mst.formats.record import IGNORED, OWN, Description, description_of, record_of

CHANGED = "The file was changed since it was saved; its numbers cannot be verified."
"""The warning about a record without its seal."""
DESCRIPTION_CHANGED = (
    "The description of this cube was changed since it was saved; it cannot be verified."
)
"""The warning about a description that is not the one that was sealed, with numbers that are."""
# What a damaged record or seal makes `json` and the lookups in it raise.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def seal_of(cube: SpectralCube, dtype: DType, crc: str, others: Description | None = None) -> bytes:
    """The seal of *cube*, as JSON.

    It holds the shape, type, size and checksum of the numbers as stored, and the checksums of their
    descriptions.

    Parameters
    ----------
    crc
        The `numbers.checksum` of the numbers.
    others
        The description that other programs find in the file beside our record. It must be as
        readers of the file see it: formats cannot hold everything.
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
    """The description that the record among *texts* gives, compared with its *seal*.

    Where *others*, the description for other programs, was changed since the save, it takes the
    place of the record; also where the record is gone.

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


def check(name: str, data: Any, description: Description, is_wanted: bool | None) -> None:
    """Compare the (B, H, W) numbers of the file *name* with their seal, if there is one.

    Shape and type are always compared. None for *is_wanted* compares the checksum of numbers that
    are in memory; those that are mapped or read lazily would all have to be read first.

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
    """The description of the *stored* record, with a warning where it or *others* was changed."""
    description = description_of(stored)
    # In a TIFF, tifffile adds `shape` and `axes` to our keys; the seal does not cover them.
    ours = ("wavelength", "wavelength_units", OWN)
    read = {key: value for key, value in stored.items() if key in ours}
    is_record_intact = sealed.get("record crc32") == _text_checksum(read)
    if others is None or sealed.get("others crc32") == _text_checksum(_content(others)):
        return description if is_record_intact else _changed(description)
    return _changed(_with_axis_of(description, others))


def _changed(description: Description) -> Description:
    return replace(description, warnings=(DESCRIPTION_CHANGED,))


def _with_axis_of(description: Description, others: Description) -> Description:
    """*description* with the wavelengths, names and ignored value of *others*.

    *description* as it is where *others* have no wavelengths.
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
    """The contents of *others* that do not depend on how a program writes numbers and units."""
    wavelengths = [number(text) for text in others.wavelengths]
    return [wavelengths, power_of(others.unit), list(others.names), dict(others.fields)]


def _text_checksum(content: Any) -> str:
    """CRC-32 of *content* as JSON; the order of its keys does not matter."""
    text = json.dumps(content, sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"
