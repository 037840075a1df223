"""What a TIFF says about its bands: GDAL's XML, OME-XML and ImageJ labels, out and in.

Sources: GDAL GTiff driver (tag 42112 GDAL_METADATA, tag 42113 GDAL_NODATA), OME data model 2016-06, ImageJ TiffDecoder.
Letters: B bands, H rows, W columns.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from napari_mst.cube import SpectralCube
from napari_mst.formats.record import OWN, Description, described
from napari_mst.formats.wavelengths import band_names, number
from napari_mst.georeference import FIELD, TAGS, Georeference

if TYPE_CHECKING:
    from tifffile import TiffFile

GDAL_METADATA, GDAL_NODATA = 42112, 42113
SEAL = 65131
"""Our private tag, from the range that TIFF 6.0 leaves to applications: GDAL copies no tags that it does not know."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_names(cube: SpectralCube) -> list[str]:
    """The names of the bands, of characters that XML allows."""
    return [_NOT_XML.sub("?", name) for name in band_names(cube)]


def gdal_xml(cube: SpectralCube) -> bytes:
    """The text of tag 42112: a description and, in nm, a wavelength and a width a band."""
    items, widths = [], cube.metadata.get("fwhm", ()) if cube.has_wavelengths else ()
    for band, (name, wavelength) in enumerate(zip(xml_names(cube), cube.wavelengths, strict=True)):
        items.append(
            f'<Item name="DESCRIPTION" sample="{band}" role="description">{escape(name)}</Item>'
        )
        if cube.has_wavelengths:
            items.append(
                f'<Item name="wavelength" sample="{band}">{float(wavelength)!r}</Item>'
                f'<Item name="wavelength_units" sample="{band}">Nanometers</Item>'
                f'<Item name="CENTRAL_WAVELENGTH_UM" sample="{band}" domain="IMAGERY">{wavelength / 1000:.9g}</Item>'
            )
        if len(widths) == len(cube.data):
            width = float(widths[band]) / 1000
            items.append(
                f'<Item name="FWHM_UM" sample="{band}" domain="IMAGERY">{width:.9g}</Item>'
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
    texts = _texts(tif)
    located = place({tag.code: tag.value for tag in first.tags if tag.code in TAGS})
    fields = {**_ignored(first.tags.valueof(GDAL_NODATA, "")), **located}
    gdal = _from_gdal(_xml(first.tags.valueof(GDAL_METADATA, "")))
    ome = _from_ome(_xml(tif.ome_metadata or ""))
    if sealed := first.tags.valueof(SEAL):
        return described(tif.filename, sealed, texts, _seen(gdal, ome, fields))
    imagej: Mapping[str, Any] = tif.imagej_metadata or {}
    labels = Description(names=[str(label) for label in imagej.get("Labels", ())])
    sources = (gdal, *map(_from_json, texts), ome, labels)
    best = next((source for source in sources if source.wavelengths), None)
    best = best or next((source for source in sources if source.names), labels)
    return replace(best, fields=fields)


def place(tags: Mapping[int, Any]) -> dict[str, str]:
    """The metadata of the tags of a GeoTIFF: where on earth it lies, if they say so."""
    georeference = Georeference.from_tags(tags)
    return {} if georeference is None else {FIELD: georeference.to_json()}


def seen_in_gdal(xml: bytes, nodata: str, located: Mapping[str, str]) -> Description:
    """What GDAL finds in a file with this text of tag 42112, *nodata* in tag 42113, and its `place`."""
    return _seen(_from_gdal(_xml(xml.decode())), Description(), {**_ignored(nodata), **located})


def seen_in_ome(channels: Mapping[str, list[Any]], located: Mapping[str, str]) -> Description:
    """What readers of OME-TIFF find in a file with these *channels* and `place`, but for the names of bands."""
    wavelengths = [str(value) for value in channels.get("EmissionWavelength", ())]
    return _seen(Description(), Description(wavelengths, "nm"), located)


def has_lost_its_seal(tif: "TiffFile") -> bool:
    """Whether *tif* was made from a file of ours: our record is there, without what binds it."""
    return SEAL not in tif.pages.first.tags and any(f'"{OWN}"' in text for text in _texts(tif))


def _texts(tif: "TiffFile") -> tuple[str, ...]:
    """Where our record may be."""
    imagej: Mapping[str, Any] = tif.imagej_metadata or {}
    return (
        str(imagej.get("Info", "")),
        _ome_text(_xml(tif.ome_metadata or "")),
        tif.pages.first.description,
    )


def _seen(gdal: Description, ome: Description, fields: Mapping[str, Any]) -> Description:
    """The description for other programs that the seal covers: that of GDAL, else the wavelengths of OME."""
    if gdal.wavelengths or gdal.names:
        return replace(gdal, fields=fields)
    return Description(ome.wavelengths, ome.unit if ome.wavelengths else "", fields=fields)


def _ignored(nodata: object) -> dict[str, float]:
    """The metadata of the text of tag 42113: the value that stands for no data, if it is a number."""
    value = number(str(nodata).strip(" \0"))
    return {} if math.isnan(value) else {"data ignore value": value}


def _from_json(text: str) -> Description:
    """Wavelengths in a JSON description, as users of tifffile give them."""
    try:
        stored = json.loads(text)
    except ValueError:
        return Description()
    stored = stored if isinstance(stored, dict) else {}
    wavelengths = stored.get("wavelength", stored.get("wavelengths"))
    unit = str(stored.get("wavelength_units", ""))
    return Description(
        [str(value) for value in wavelengths] if isinstance(wavelengths, list) else (), unit
    )


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
    return next(
        (element.text or "" for element in root.iter() if element.tag.endswith("}Description")), ""
    )


def _xml(text: object) -> ElementTree.Element:
    """*text* parsed; an empty element if it is not XML, or declares entities (which can expand without end)."""
    try:
        return ElementTree.fromstring(
            "<none/>" if "<!ENTITY" in str(text) else str(text).strip("\0") or "<none/>"
        )
    except ElementTree.ParseError:
        return ElementTree.Element("none")
