"""The record of a cube in a file of ours: everything but its numbers, as JSON.

Formats that have a place of their own for wavelengths and names are written with these as well, for
other programs. `seal` binds the record and that description to the numbers.
Letters: B bands, H rows, W columns.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from napari_mst.arrays import Array
from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.cube.curves import number
from napari_mst.cube.parts import with_tuples, without
from napari_mst.formats.numbers import magnitude
from napari_mst.formats.wavelengths import spectral_axis

OWN = "napari_mst"
"""The key of our part of the record, and its name in files whose parts have names."""
IGNORED = "data ignore value"


@dataclass(frozen=True)
class Description:
    """The description of the numbers in a file.

    Attributes
    ----------
    wavelengths, unit, names
        The spectral axis: wavelengths as text, their unit, and the names of the bands.
    fields
        The `SpectralCube.metadata` that the file holds.
    shape, dtype, crc32
        Shape, type and checksum of the numbers as they were saved; empty where the file has no
        seal of ours.
    quantity, provenance
        As in `SpectralCube`.
    warnings
        Sentences for a person.
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
    """Everything about *cube* but its numbers, of the types that JSON has."""
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
    """The cube of the (B, H, W) numbers of a file and of what the file says about them.

    Complex numbers are given by their magnitude.
    """
    data, complex_doubts = magnitude(data)
    names = description.names
    wavelengths, unit, axis_doubts = spectral_axis(
        description.wavelengths, description.unit, names, len(data)
    )
    fields = dict(description.fields)
    # Names that are too many or too few are of other bands.
    if names and len(names) == len(data):
        fields["band names"] = tuple(names)
    doubts = (*description.warnings, *warnings, *complex_doubts, *axis_doubts)
    if doubts:
        fields["warnings"] = doubts
    return SpectralCube(
        data, wavelengths, unit, description.quantity, description.provenance, fields
    )


def _plain(value: Any) -> Any:
    """*value* in types of JSON; NaN and infinity, which JSON does not have, as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    # JSON knows the numbers of Python only.
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)
