"""Writing TIFF stacks of bands, and their descriptions: GDAL's XML, OME-XML and ImageJ's labels.

No file suits all programs. `write_tiff` writes one planar image of B samples per pixel, which GDAL,
napari, tifffile and imageio read with its wavelengths. libvips reads the pixels only; ImageJ and
Pillow refuse it. They open the B pages of `write_imagej`, of which GDAL sees only the first. Both
have the axes CYX. Descriptions by other programs are read here too. Sources: GDAL GTiff driver (tag
42112 GDAL_METADATA, tag 42113 GDAL_NODATA), OME data model 2016-06, ImageJ TiffDecoder. Letters: B
bands, H rows, W columns.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from napari_mst.base.arrays import DType
from napari_mst.base.errors import SaveError, shown
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.curves import MAX_BYTES, number
from napari_mst.cube.georeference import FIELD, TAGS, Georeference
from napari_mst.formats.array_files import WAVELENGTHS_AND_UNIT
from napari_mst.formats.cube_record import (
    IGNORED,
    OWN,
    Description,
    record_of,
    seal_of,
    sealed_description,
)
from napari_mst.formats.envi.georeference import MAP_INFO, with_losses
from napari_mst.formats.numbers import write_planes
from napari_mst.formats.wavelengths import band_names

if TYPE_CHECKING:
    from tifffile import TiffFile


GDAL_METADATA, GDAL_NODATA = 42112, 42113
# A tag from the range that TIFF 6.0 leaves to applications. GDAL does not copy unknown tags, so a
# file that it derives from ours has no seal.
SEAL = 65131
_TAGS = (*TAGS, GDAL_METADATA, GDAL_NODATA, SEAL)
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def gdal_xml(cube: SpectralCube) -> bytes:
    """The text of tag 42112: the name, wavelength and width of each band."""
    widths = cube.metadata.get("fwhm", ()) if cube.has_wavelengths else ()
    has_widths = len(widths) == len(cube.data)
    items = []
    for band, (name, wavelength) in enumerate(zip(band_names(cube), cube.wavelengths, strict=True)):
        name = escape(_NOT_XML.sub("?", name))
        items.append(f'<Item name="DESCRIPTION" sample="{band}" role="description">{name}</Item>')
        if cube.has_wavelengths:
            # GDAL has two spellings: the ENVI driver uses the first two items, the imagery domain
            # the third.
            items.append(f'<Item name="wavelength" sample="{band}">{float(wavelength)!r}</Item>')
            items.append(f'<Item name="wavelength_units" sample="{band}">Nanometers</Item>')
            items.append(_imagery_item("CENTRAL_WAVELENGTH_UM", band, wavelength))
        if has_widths:
            items.append(_imagery_item("FWHM_UM", band, float(widths[band])))
    return f"<GDALMetadata>{''.join(items)}</GDALMetadata>".encode()


def describe(tif: "TiffFile", path: Path) -> Description:
    """The description in *tif*: our sealed record, else the first source that describes bands.

    GDAL stores some facts beside the file at *path*. Raises `CubeFileError`.
    """
    tags = _tags(tif)
    gdal = seen_by_gdal(tags)
    texts = _texts(tif)
    if tags.get(SEAL):
        return sealed_description(tif.filename, tags[SEAL], texts, gdal)
    imagej: Mapping[str, Any] = tif.imagej_metadata or {}
    labels = Description(names=[str(label) for label in imagej.get("Labels", ())])
    ome = _from_ome(xml(tif.ome_metadata or ""))
    beside = _from_gdal(_beside(path))
    sources = [beside, gdal, *map(_from_json, texts), ome, labels]
    # A source with wavelengths comes before one with only names.
    with_wavelengths = [source for source in sources if source.wavelengths]
    with_names = [source for source in sources if source.names]
    best = [*with_wavelengths, *with_names, labels][0]
    return replace(best, fields=gdal.fields)


def _tags(tif: "TiffFile") -> dict[int, Any]:
    return {tag.code: tag.value for tag in tif.pages.first.tags if tag.code in _TAGS}


def seen_by_gdal(tags: Mapping[int, Any]) -> Description:
    """The description that GDAL reads from the *tags* (code: value) of a file."""
    fields: dict[str, Any] = {}
    ignored = number(_text(tags.get(GDAL_NODATA, "")).strip(" \0"))
    if not math.isnan(ignored):
        fields[IGNORED] = ignored
    georeference = Georeference.from_tags(tags)
    if georeference is not None:
        fields[FIELD] = georeference.to_json()
    return replace(_from_gdal(xml(tags.get(GDAL_METADATA, ""))), fields=fields)


def has_lost_its_seal(tif: "TiffFile") -> bool:
    """True if *tif* was derived from a file of ours, and has our record but not its seal."""
    return SEAL not in tif.pages.first.tags and any(f'"{OWN}"' in text for text in _texts(tif))


def _imagery_item(name: str, band: int, nanometres: float) -> str:
    """An item of GDAL's imagery domain, in micrometres."""
    value = f"{nanometres / 1000:.9g}"
    return f'<Item name="{name}" sample="{band}" domain="IMAGERY">{value}</Item>'


def _texts(tif: "TiffFile") -> tuple[str, ...]:
    """The texts that may hold our record, one per flavour."""
    imagej: Mapping[str, Any] = tif.imagej_metadata or {}
    return (
        str(imagej.get("Info", "")),
        xml(tif.ome_metadata or "").findtext(".//{*}Description") or "",
        tif.pages.first.description,
    )


def _from_json(text: str) -> Description:
    """The wavelengths in a JSON description, as users of tifffile write it."""
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


Items = Mapping[str, Mapping[int, str]]
"""GDAL's items by name and by band, from 0; -1 is the whole file."""


def _items(root: ElementTree.Element) -> Items:
    """The items in the XML of the tag or of the file beside the image."""
    items: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for item in root.iter("Item"):
        band = number(item.get("sample", "-1"))
        items[item.get("name", "")][int(band) if band >= 0 else -1] = item.text or ""
    for part in root.iter():
        text = part.get("band", "") if part.tag == "PAMRasterBand" else ""
        band = int(text) - 1 if text.isdecimal() else -1
        metadata = part.iter("MDI") if band >= 0 else part.iterfind("./Metadata/MDI")
        for item in metadata:
            items[item.get("key", "")][band] = item.text or ""
        for tag, name in _PAM.items() if band >= 0 else ():
            if content := part.findtext(tag):
                items[name][band] = content
    return items


_PAM = {
    "Description": "DESCRIPTION",
    "Scale": "SCALE",
    "Offset": "OFFSET",
    "UnitType": "UNITTYPE",
    "NoDataValue": "NODATA",
}
"""GDAL's names of facts about a band: in the file beside an image, and in the image."""


def _beside(path: Path) -> ElementTree.Element:
    """The XML file of GDAL beside the image at *path*; empty if missing or too large."""
    try:
        with path.with_name(f"{path.name}.aux.xml").open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError:
        raw = b""
    return xml(raw if len(raw) <= MAX_BYTES else b"")


def _from_gdal(root: ElementTree.Element) -> Description:
    """The description of the bands in GDAL's XML."""
    items = _items(root)

    def listed(name: str) -> list[str]:
        texts = items.get(name, {})
        bands = [texts[band] for band in sorted(texts) if band >= 0]
        # A list for the whole file, as in an ENVI header.
        return bands or re.split(r"[,\s]+", texts.get(-1, "").strip("{} "))

    names = [text for text in listed("DESCRIPTION") if text]
    # Ours first: GDAL's own item is rounded to whole nanometres.
    for name in sorted(items, key=lambda name: name == "CENTRAL_WAVELENGTH_UM"):
        word = WAVELENGTHS_AND_UNIT.fullmatch(name.lower())
        texts = listed(name) if word else []
        if word and any(texts):
            spelled = {key.lower(): key for key in items}
            unit = listed(spelled.get(f"{name.lower().rstrip('s')}_units", ""))[0]
            return Description(texts, word["unit"] or unit, names)
    return Description(names=names)


def scaling_of(tif: "TiffFile", path: Path, bands: int) -> dict[str, Any]:
    """The scaling of the *bands* in *tif* as attributes: GDAL's, in or beside it, or ImageJ's.

    ImageJ stores signed numbers as unsigned numbers, and the offset as a calibration.
    """
    imagej: Mapping[str, Any] = tif.imagej_metadata or {}
    if imagej.get("cf") == 0 and {"c0", "c1"} <= imagej.keys():
        return {"scale_factor": imagej["c1"], "add_offset": imagej["c0"]}
    tag = tif.pages.first.tags.get(GDAL_METADATA)
    items = {**_items(xml(tag.value if tag is not None else "")), **_items(_beside(path))}
    scaling: dict[str, Any] = {}
    for name, key, default in (("SCALE", "scale_factor", "1"), ("OFFSET", "add_offset", "0")):
        if texts := items.get(name):
            each = [texts.get(band, default) for band in range(bands)]
            scaling[key] = each[0] if len(set(each)) == 1 else each
    if texts := items.get("NODATA"):
        scaling["nodata_value"] = sorted(set(texts.values()))
    if texts := items.get("UNITTYPE"):
        scaling["units"] = next(iter(texts.values()))
    if scaling and (ignored := seen_by_gdal(_tags(tif)).fields.get(IGNORED)) is not None:
        scaling[IGNORED] = ignored
    return scaling


def _from_ome(root: ElementTree.Element) -> Description:
    channels = root.findall(".//{*}Channel")
    wavelengths = [channel.get("EmissionWavelength", "") for channel in channels]
    # The OME schema defaults to nm.
    unit = channels[0].get("EmissionWavelengthUnit", "nm") if channels else ""
    names = [channel.get("Name", "") for channel in channels]
    return Description(wavelengths if all(wavelengths) else (), unit, names)


def xml(text: object) -> ElementTree.Element:
    """*text* parsed as XML; an empty element if it is not XML, or declares entities.

    Entities can expand without end, or refer to other files.
    """
    nothing = ElementTree.Element("none")
    content = _text(text).strip("\0")
    if not content or "<!ENTITY" in content:
        return nothing
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return nothing


def _text(value: object) -> str:
    """The text of a tag, which we write as bytes and tifffile reads as text if possible."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


CLASSIC_BYTES = 2**32 - 2**25
"""Largest file for 32-bit offsets, less room for tags; larger files are BigTIFF."""
_ASCII = 2
_NO_CRC = "0" * 8  # placeholder until the numbers are written

Tag = tuple[int, str | int, int, Any, bool]
"""A tag for tifffile: code, type, count, value, and True for the first page only."""


def write_tiff(path: Path, cube: SpectralCube, dtype: DType, progress: Progress) -> None:
    """Save *cube* for GDAL, with its georeference and the descriptions of its bands."""
    cube, tags = _located(cube)
    tags.append(_text_tag(GDAL_METADATA, gdal_xml(cube)))
    # The fill value.
    nodata = str(cube.metadata.get(IGNORED, ""))
    if nodata:
        tags.append(_text_tag(GDAL_NODATA, nodata.encode()))
    bands, rows, _ = cube.shape
    look = {
        # Each strip has an offset and a length.
        "bigtiff": cube.data.size * dtype.itemsize + 8 * bands * rows > CLASSIC_BYTES,
        # A single band has no planes to separate.
        "planarconfig": "separate" if bands > 1 else None,
        # libvips 8.18 reads only the first row of each strip of a plane correctly.
        "rowsperstrip": 1,
        "metadata": {"axes": "CYX", **record_of(cube)},
    }
    _write(path, cube, tags, look, (dtype, progress))


def write_imagej(path: Path, cube: SpectralCube, dtype: DType, progress: Progress) -> None:
    """Save *cube* for ImageJ and Fiji, with a channel per band, labelled by its name.

    Raises `SaveError` above 4 GB, the limit of ImageJ's TIFF.
    """
    nbytes = cube.data.size * dtype.itemsize
    if nbytes > CLASSIC_BYTES:
        raise SaveError(
            f"Expected at most {CLASSIC_BYTES / 1e9:.1f} GB for ImageJ, got {nbytes / 1e9:.1f} GB. "
            "Save a part, or a .tif."
        )
    cube, tags = _located(cube)
    names, record = band_names(cube), json.dumps(record_of(cube))
    look = {"imagej": True, "metadata": {"axes": "CYX", "Labels": names, "Info": record}}
    _write(path, cube, tags, look, (dtype, progress))


def _write(
    path: Path,
    cube: SpectralCube,
    tags: list[Tag],
    look: Mapping[str, Any],
    numbers: tuple[DType, Progress],
) -> None:
    """Write *cube* with tifffile's options *look* and the type in *numbers*, and seal the file."""
    import tifffile

    dtype, progress = numbers
    seen = seen_by_gdal({code: value for code, _, _, value, _ in tags})
    written: Any = tifffile.imwrite(
        path,
        shape=cube.shape,
        dtype=dtype,
        byteorder="<",
        photometric="minisblack",
        extratags=[*tags, _text_tag(SEAL, seal_of(cube, dtype, _NO_CRC, seen))],
        returnoffset=True,
        **look,
    )
    with path.open("r+b") as file:
        file.seek(written[0])
        crc = write_planes(file, cube.data, dtype, progress)
    with tifffile.TiffFile(path, mode="r+") as tif:
        tif.pages.first.tags[SEAL].overwrite(seal_of(cube, dtype, crc, seen))


def _located(cube: SpectralCube) -> tuple[SpectralCube, list[Tag]]:
    """*cube* and its georeference as tags for tifffile.

    The history of the cube lists the facts that the tags cannot hold (see `with_losses`).
    """
    georeference = Georeference.of_metadata(cube.metadata)
    if georeference is None:
        info = shown(cube.metadata.get(MAP_INFO, ""), 60)
        lost = [f"The place of '{info}' is not known; it is kept as text only."]
        return with_losses(cube, lost if info else []), []
    # tifffile counts the characters of a text by itself.
    return cube, [
        (code, kind, 0 if kind == "s" else len(value), value, True)
        for code, (kind, value) in sorted(georeference.tags().items())
    ]


def _text_tag(code: int, text: bytes) -> Tag:
    """A text tag of the first page; tifffile counts its characters."""
    return code, _ASCII, 0, text, True
