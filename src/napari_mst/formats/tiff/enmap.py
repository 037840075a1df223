"""EnMAP products: a GeoTIFF and an XML file beside it that describes its bands.

Layout: DLR, EnMAP HSI Level 1B/Level 1C/Level 2A Product Specification, EN-PCV-ICD-2009-2.
"""

from pathlib import Path

from napari_mst.formats.envi.header import Header
from napari_mst.formats.tiff.writing import xml

_IMAGE, _METADATA = "-SPECTRAL_IMAGE", "-METADATA.XML"


def enmap_metadata(path: Path) -> Path | None:
    """The XML file beside the image at *path*, named after it; None for other images."""
    scene, mark, _ = path.name.partition(_IMAGE)
    beside = path.with_name(f"{scene}{_METADATA}")
    return beside if mark and beside.is_file() else None


def enmap_header(raw: bytes, name: str) -> Header:
    """The content *raw* of the XML file *name* as an ENVI header."""
    root = xml(raw.decode(errors="replace"))
    bands = root.findall("specific/bandCharacterisation/bandID")

    def listed(tag: str) -> list[str]:
        return [band.findtext(tag, "") for band in bands]

    gains, offsets = listed("GainOfBand"), listed("OffsetOfBand")
    fields = {
        "bands": [str(len(bands))],
        "wavelength": listed("wavelengthCenterOfBand"),
        "fwhm": listed("FWHMOfBand"),
        "data gain values": gains,
        "data offset values": offsets,
        "data ignore value": [root.findtext("specific/backgroundValue", "")],
    }
    # Level 2A is reflectance, with the same gain in each band.
    if (
        root.findtext("base/level") == "L2A"
        and len(set(gains)) == 1
        and not any(map(float, offsets))
    ):
        del fields["data gain values"], fields["data offset values"]
        fields["reflectance scale factor"] = [repr(1 / float(gains[0]))]
    texts = {key: "{" + ", ".join(values) + "}" for key, values in fields.items()}
    return Header(name, {**texts, "bands": str(len(bands)), "wavelength units": "nm"}, False)
