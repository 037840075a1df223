"""The descriptions of bands in a TIFF: GDAL's XML, OME-XML and ImageJ's labels, out and in.

Sources: GDAL GTiff driver (tag 42112 GDAL_METADATA, tag 42113 GDAL_NODATA), OME data model 2016-06,
ImageJ TiffDecoder. Letters: B bands, H rows, W columns.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from napari_mst.cube import SpectralCube
from napari_mst.curves import number
from napari_mst.formats.record import IGNORED, OWN, Description
from napari_mst.formats.seal import sealed_description
from napari_mst.formats.wavelengths import band_names
from napari_mst.georeference import FIELD, TAGS, Georeference

if TYPE_CHECKING:
    from tifffile import TiffFile

GDAL_METADATA, GDAL_NODATA = 42112, 42113
# A tag from the range that TIFF 6.0 leaves to applications. GDAL copies no tags that it does not
# know, so a file that it made from ours has no seal.
SEAL = 65131
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_names(cube: SpectralCube) -> list[str]:
    """The names of the bands, in characters that XML allows."""
    return [_NOT_XML.sub("?", name) for name in band_names(cube)]


def gdal_xml(cube: SpectralCube) -> bytes:
    """The text of tag 42112: for each band a name and, in nm, a wavelength and a width."""
    widths = cube.metadata.get("fwhm", ()) if cube.has_wavelengths else ()
    has_widths = len(widths) == len(cube.data)
    items = []
    for band, (name, wavelength) in enumerate(zip(xml_names(cube), cube.wavelengths, strict=True)):
        items.append(
            f'<Item name="DESCRIPTION" sample="{band}" role="description">{escape(name)}</Item>'
        )
        if cube.has_wavelengths:
            # Two spellings: GDAL's ENVI driver has the first two items, its imagery domain the
            # third.
            items.append(f'<Item name="wavelength" sample="{band}">{float(wavelength)!r}</Item>')
            items.append(f'<Item name="wavelength_units" sample="{band}">Nanometers</Item>')
            items.append(_imagery_item("CENTRAL_WAVELENGTH_UM", band, wavelength))
        if has_widths:
            items.append(_imagery_item("FWHM_UM", band, float(widths[band])))
    return f"<GDALMetadata>{''.join(items)}</GDALMetadata>".encode()


def ome_channels(cube: SpectralCube) -> dict[str, list[Any]]:
    """The `Channel` metadata of an OME-TIFF."""
    channels: dict[str, list[Any]] = {"Name": xml_names(cube)}
    # OME allows positive wavelengths only.
    if cube.has_wavelengths and (cube.wavelengths > 0).all():
        channels["EmissionWavelength"] = cube.wavelengths.tolist()
        channels["EmissionWavelengthUnit"] = ["nm"] * len(cube.data)
    return channels


def describe(tif: "TiffFile") -> Description:
    """The description in *tif*: our sealed record, else the first source that knows about bands.

    Raises `CubeFileError`.
    """
    tags = tif.pages.first.tags
    located = place({tag.code: tag.value for tag in tags if tag.code in TAGS})
    fields = {**_ignored(tags.valueof(GDAL_NODATA, "")), **located}
    gdal = _from_gdal(_xml(tags.valueof(GDAL_METADATA, "")))
    ome = _from_ome(_xml(tif.ome_metadata or ""))
    texts = _texts(tif)
    sealed = tags.valueof(SEAL)
    if sealed:
        return sealed_description(tif.filename, sealed, texts, _seen(gdal, ome, fields))
    imagej: Mapping[str, Any] = tif.imagej_metadata or {}
    labels = Description(names=[str(label) for label in imagej.get("Labels", ())])
    sources = [gdal, *map(_from_json, texts), ome, labels]
    # A source that has wavelengths comes before one that has names alone.
    with_wavelengths = [source for source in sources if source.wavelengths]
    with_names = [source for source in sources if source.names]
    best = [*with_wavelengths, *with_names, labels][0]
    return replace(best, fields=fields)


def place(tags: Mapping[int, Any]) -> dict[str, str]:
    """The metadata of the tags of a GeoTIFF: where on earth it lies, if they say so."""
    georeference = Georeference.from_tags(tags)
    return {} if georeference is None else {FIELD: georeference.to_json()}


def seen_in_gdal(xml: bytes, nodata: str, located: Mapping[str, str]) -> Description:
    """The description that GDAL finds in a file of ours.

    Parameters
    ----------
    xml, nodata
        The texts of the tags 42112 and 42113.
    located
        Its `place`.
    """
    fields = {**_ignored(nodata), **located}
    return _seen(_from_gdal(_xml(xml.decode())), Description(), fields)


def seen_in_ome(channels: Mapping[str, list[Any]], located: Mapping[str, str]) -> Description:
    """The description that readers of OME-TIFF find in a file of ours, but for names of bands."""
    wavelengths = [str(value) for value in channels.get("EmissionWavelength", ())]
    return _seen(Description(), Description(wavelengths, "nm"), located)


def has_lost_its_seal(tif: "TiffFile") -> bool:
    """True if *tif* was made from a file of ours: our record is there, but not its seal."""
    return SEAL not in tif.pages.first.tags and any(f'"{OWN}"' in text for text in _texts(tif))


def _imagery_item(name: str, band: int, nanometres: float) -> str:
    """An item of GDAL's imagery domain, which counts in micrometres."""
    value = f"{nanometres / 1000:.9g}"
    return f'<Item name="{name}" sample="{band}" domain="IMAGERY">{value}</Item>'


def _texts(tif: "TiffFile") -> tuple[str, ...]:
    """The texts that may be our record, one for each flavour."""
    imagej: Mapping[str, Any] = tif.imagej_metadata or {}
    return (
        str(imagej.get("Info", "")),
        _ome_text(_xml(tif.ome_metadata or "")),
        tif.pages.first.description,
    )


def _seen(gdal: Description, ome: Description, fields: Mapping[str, Any]) -> Description:
    """The description for other programs that the seal covers: GDAL's, else OME's wavelengths."""
    if gdal.wavelengths or gdal.names:
        return replace(gdal, fields=fields)
    return Description(ome.wavelengths, ome.unit if ome.wavelengths else "", fields=fields)


def _ignored(nodata: object) -> dict[str, float]:
    """The metadata of tag 42113: the value that stands for no data, if it is a number."""
    value = number(str(nodata).strip(" \0"))
    return {} if math.isnan(value) else {IGNORED: value}


def _from_json(text: str) -> Description:
    """Wavelengths in a JSON description, as users of tifffile give them."""
    try:
        stored = json.loads(text)
    except ValueError:
        return Description()
    if not isinstance(stored, dict):
        return Description()
    unit = str(stored.get("wavelength_units", ""))
    wavelengths = stored.get("wavelength", stored.get("wavelengths"))
    if not isinstance(wavelengths, list):
        return Description(unit=unit)
    return Description([str(value) for value in wavelengths], unit)


def _from_gdal(root: ElementTree.Element) -> Description:
    """The bands in GDAL's XML; items are (name, band, text) in any order."""
    found: dict[str, dict[int, str]] = {}
    for item in root.iter("Item"):
        sample = item.get("sample", "")
        if sample.isdecimal():
            texts = found.setdefault(item.get("name", ""), {})
            texts[int(sample)] = item.text or ""
    names = _in_order(found.get("DESCRIPTION", {}))
    if "wavelength" in found:
        unit = next(iter(found.get("wavelength_units", {}).values()), "")
        return Description(_in_order(found["wavelength"]), unit, names)
    if "CENTRAL_WAVELENGTH_UM" in found:
        return Description(_in_order(found["CENTRAL_WAVELENGTH_UM"]), "um", names)
    return Description(names=names)


def _in_order(texts: Mapping[int, str]) -> list[str]:
    return [text for _, text in sorted(texts.items())]


def _from_ome(root: ElementTree.Element) -> Description:
    channels = [element for element in root.iter() if element.tag.endswith("}Channel")]
    wavelengths = [channel.get("EmissionWavelength", "") for channel in channels]
    # nm is what the OME schema takes where a file names no unit.
    unit = channels[0].get("EmissionWavelengthUnit", "nm") if channels else ""
    names = [channel.get("Name", "") for channel in channels]
    return Description(wavelengths if all(wavelengths) else (), unit, names)


def _ome_text(root: ElementTree.Element) -> str:
    for element in root.iter():
        if element.tag.endswith("}Description"):
            return element.text or ""
    return ""


def _xml(text: object) -> ElementTree.Element:
    """*text* parsed; an empty element if it is not XML, or declares entities.

    Entities can expand without end, or name other files.
    """
    nothing = ElementTree.Element("none")
    content = str(text).strip("\0")
    if not content or "<!ENTITY" in content:
        return nothing
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return nothing
