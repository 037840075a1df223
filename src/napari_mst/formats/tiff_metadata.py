"""What a TIFF says about its bands: our JSON record, GDAL's XML, OME-XML and ImageJ labels, out and in.

Sources: GDAL GTiff driver (tag 42112 GDAL_METADATA, tag 42113 GDAL_NODATA), OME data model 2016-06, ImageJ TiffDecoder.
Letters: B bands, H rows, W columns.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np

from napari_mst.cube import BAND_INDEX, Provenance, SpectralCube
from napari_mst.formats.text import mismatch
from napari_mst.formats.wavelengths import band_names, number

if TYPE_CHECKING:
    from tifffile import TiffFile

GDAL_METADATA, GDAL_NODATA = 42112, 42113
SEAL = 65131
"""Our private tag, from the range that TIFF 6.0 leaves to applications."""
_OWN = "napari_mst"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Description:
    """The spectral side of a file: wavelengths as text, their unit, band names, and our own record if it has one."""

    wavelengths: Sequence[str] = ()
    unit: str = ""
    names: Sequence[str] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
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
    return (axis if cube.unit != BAND_INDEX else {}) | {_OWN: own}


def seal(cube: SpectralCube, dtype: np.dtype[Any], crc: str) -> bytes:
    """The text of our private tag: shape, size and checksum of the numbers as stored.

    GDAL copies descriptions into the files that it derives, but not tags that it does not know: only where the seal
    is, the record is about these numbers.
    """
    size = cube.data.size * dtype.itemsize
    return json.dumps({"shape": cube.shape, "bytes": size, "crc32": crc}).encode()


def xml_names(cube: SpectralCube) -> list[str]:
    """The names of the bands, of characters that XML allows."""
    return [_NOT_XML.sub("?", name) for name in band_names(cube)]


def gdal_xml(cube: SpectralCube) -> bytes:
    """The text of tag 42112: a description and, in nm, a wavelength a band."""
    items = []
    for band, (name, wavelength) in enumerate(zip(xml_names(cube), cube.wavelengths, strict=True)):
        items.append(f'<Item name="DESCRIPTION" sample="{band}" role="description">{escape(name)}</Item>')
        if cube.has_wavelengths:
            items.append(
                f'<Item name="wavelength" sample="{band}">{float(wavelength)!r}</Item>'
                f'<Item name="wavelength_units" sample="{band}">Nanometers</Item>'
                f'<Item name="CENTRAL_WAVELENGTH_UM" sample="{band}" domain="IMAGERY">{wavelength / 1000:.9g}</Item>'
            )
    return f"<GDALMetadata>{''.join(items)}</GDALMetadata>".encode()


def ome_channels(cube: SpectralCube) -> dict[str, list[Any]]:
    """The `Channel` metadata of an OME-TIFF. OME allows positive wavelengths only."""
    channels: dict[str, list[Any]] = {"Name": xml_names(cube)}
    if cube.has_wavelengths and (cube.wavelengths > 0).all():
        channels["EmissionWavelength"] = cube.wavelengths.tolist()
        channels["EmissionWavelengthUnit"] = ["nm"] * len(cube.data)
    return channels


def describe(tif: "TiffFile") -> Description:
    """What *tif* says: our sealed record, else the first source that knows about bands. Raises `CubeFileError`."""
    first = tif.pages.first
    imagej: Mapping[str, Any] = tif.imagej_metadata or {}
    ome = _xml(tif.ome_metadata or "")
    texts = (str(imagej.get("Info", "")), _ome_text(ome), first.description)
    if sealed := first.tags.valueof(SEAL):
        try:
            return _own(json.loads(sealed), json.loads(next(text for text in texts if _OWN in text)))
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            raise mismatch(tif.filename, "the record of its save", "damaged text", "Get the file again.") from None
    nodata = number(str(first.tags.valueof(GDAL_NODATA, "")).strip(" \0"))
    fields = {} if math.isnan(nodata) else {"data ignore value": nodata}
    labels = Description(names=[str(label) for label in imagej.get("Labels", ())])
    gdal = _from_gdal(_xml(first.tags.valueof(GDAL_METADATA, "")))
    sources = (gdal, *map(_from_json, texts), _from_ome(ome), labels)
    best = next((source for source in sources if source.wavelengths), None)
    best = best or next((source for source in sources if source.names), labels)
    return Description(best.wavelengths, best.unit, best.names, fields)


def _own(seal: Mapping[str, Any], stored: Mapping[str, Any]) -> Description:
    own = stored[_OWN]
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in own["metadata"].items()}
    if "data ignore value" in fields:
        fields["data ignore value"] = number(str(fields["data ignore value"]))
    return Description(
        wavelengths=[str(value) for value in stored.get("wavelength", ())],
        unit=str(stored.get("wavelength_units", "")),
        names=fields.get("band names", ()),
        fields=fields,
        shape=tuple(seal["shape"]),
        crc32=str(seal["crc32"]),
        quantity=str(own["quantity"]),
        provenance=Provenance.from_json(json.dumps(own["provenance"])),
    )


def _from_json(text: str) -> Description:
    """Wavelengths in a JSON description, as users of tifffile give them."""
    try:
        stored = json.loads(text)
    except ValueError:
        return Description()
    stored = stored if isinstance(stored, dict) else {}
    wavelengths = stored.get("wavelength", stored.get("wavelengths"))
    unit = str(stored.get("wavelength_units", ""))
    return Description([str(value) for value in wavelengths] if isinstance(wavelengths, list) else (), unit)


def _from_gdal(root: ElementTree.Element) -> Description:
    found: dict[str, dict[int, str]] = {}
    for item in root.iter("Item"):
        sample = item.get("sample", "")
        if sample.isdecimal():
            found.setdefault(item.get("name", ""), {})[int(sample)] = item.text or ""
    names = [text for _, text in sorted(found.get("DESCRIPTION", {}).items())]
    for key, unit in (("wavelength", ""), ("CENTRAL_WAVELENGTH_UM", "um")):
        if key in found:
            unit = unit or next(iter(found.get("wavelength_units", {}).values()), "")
            return Description([text for _, text in sorted(found[key].items())], unit, names)
    return Description(names=names)


def _from_ome(root: ElementTree.Element) -> Description:
    channels = [element for element in root.iter() if element.tag.endswith("}Channel")]
    wavelengths = [channel.get("EmissionWavelength", "") for channel in channels]
    unit = channels[0].get("EmissionWavelengthUnit", "nm") if channels else ""
    names = [channel.get("Name", "") for channel in channels]
    return Description(wavelengths if all(wavelengths) else (), unit, names)


def _ome_text(root: ElementTree.Element) -> str:
    return next((element.text or "" for element in root.iter() if element.tag.endswith("}Description")), "")


def _xml(text: object) -> ElementTree.Element:
    """*text* parsed; an empty element if it is not XML, or declares entities (which can expand without end)."""
    try:
        return ElementTree.fromstring("<none/>" if "<!ENTITY" in str(text) else str(text).strip("\0") or "<none/>")
    except ElementTree.ParseError:
        return ElementTree.Element("none")


def _plain(value: Any) -> Any:
    """*value* of JSON types only, without NaN and infinity, which JSON has not."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    is_plain = value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_plain else str(value)
