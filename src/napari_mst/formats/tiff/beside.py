"""The ENVI header that lies beside a TIFF: what it says of bands and numbers holds for the TIFF.

ENVI writes `name.hdr` with `file type = TIFF`; by hand it is often one of an ENVI raster. Letters: B bands, H rows, W
columns.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import CubeFileError
from napari_mst.formats.envi.georeference import FIELDS
from napari_mst.formats.envi.header import MAX_BYTES, Header
from napari_mst.formats.envi.reading import DATA_SUFFIXES
from napari_mst.formats.envi.values import APPLIED, metadata, physical
from napari_mst.formats.record import Description
from napari_mst.formats.wavelengths import power_of, spectral_axis
from napari_mst.georeference import FIELD
from napari_mst.messages import shown

if TYPE_CHECKING:
    from tifffile import TiffPageSeries


def header_beside(path: Path, series: "TiffPageSeries") -> tuple[Header | None, list[str]]:
    """The header of the TIFF at *path*, or None, and what to say of one that cannot be used."""
    header_path = _header_path(path)
    if header_path is None:
        return None, []
    name = shown(header_path.name, 40)
    try:
        with header_path.open("rb") as file:
            header = Header.parse(file.read(MAX_BYTES + 1), header_path.name)
        is_tiff = header.text("file type").upper() == "TIFF"
        is_named = header_path.stem.casefold() == path.name.casefold()
        if not (is_tiff or is_named or not _has_other_data(path)):
            return None, []
        fits = _fits(header, series)
    except (CubeFileError, OSError):
        return None, [f"The header {name} beside the file is damaged; it is not used."]
    if not fits:
        return None, [
            f"The header {name} beside the file is of an image of another size; it is not used."
        ]
    return header, []


def described(header: Header, own: Description) -> tuple[Description, list[str]]:
    """What *header* says of the bands of a TIFF before what the TIFF says of its *own*, and where they differ."""
    texts = header.numbers("wavelength")
    names = header.items("band names") or own.names
    if not texts:
        return replace(own, names=names), []
    told = replace(own, wavelengths=texts, unit=_unit(header), names=names)
    if not own.wavelengths or _is_alike(told, own):
        return told, []
    return told, ["The wavelengths are those of the header beside the file; its own differ."]


def applied(
    header: Header, data: NDArray[Any], description: Description, *, scale: bool
) -> tuple[NDArray[Any], Description, list[str]]:
    """The (B, H, W) numbers that *header* means by the stored *data*, and the fields that then hold."""
    fields, warnings = metadata(header, len(data), power_of(_unit(header)) or 0)
    fields = dict(description.fields) | fields
    if FIELD in description.fields:
        fields = {key: value for key, value in fields.items() if key not in FIELDS}
    if scale:
        data, fields, more = physical(data, header, fields)
        warnings += more
    quantity = "reflectance" if "reflectance" in fields.get(APPLIED, "") else description.quantity
    return data, replace(description, fields=fields, quantity=quantity), warnings


def _header_path(path: Path) -> Path | None:
    """`name.tif.hdr` or `name.hdr`, in any case, if it begins as an ENVI header."""
    names = [f"{path.name}.hdr".casefold(), f"{path.stem}.hdr".casefold()]
    found = [
        entry
        for entry in path.parent.iterdir()
        if entry.name.casefold() in names and entry.is_file()
    ]
    if not found:
        return None
    nearest = min(found, key=lambda entry: names.index(entry.name.casefold()))
    with nearest.open("rb") as file:
        return (
            nearest if file.read(16).lstrip(b"\xef\xbb\xbf").upper().startswith(b"ENVI") else None
        )


def _has_other_data(path: Path) -> bool:
    """Whether the folder has an ENVI raster's data file of the same name, to which `name.hdr` then belongs."""
    names = {f"{path.stem}{suffix}".casefold() for suffix in DATA_SUFFIXES}
    return any(entry.name.casefold() in names for entry in path.parent.iterdir())


def _fits(header: Header, series: "TiffPageSeries") -> bool:
    page = series.keyframe
    sizes = {"lines": page.imagelength, "samples": page.imagewidth}
    sizes["bands"] = series.size // (page.imagelength * page.imagewidth)
    return all(header.integer(key) == size for key, size in sizes.items() if key in header.fields)


def _is_alike(told: Description, own: Description) -> bool:
    """Whether both give the same wavelengths, but for the digits that were written."""
    bands = len(told.wavelengths)
    told_axis, told_unit, _ = spectral_axis(told.wavelengths, told.unit, (), bands)
    own_axis, own_unit, _ = spectral_axis(own.wavelengths, own.unit, (), bands)
    return told_unit == own_unit and np.allclose(told_axis, own_axis, rtol=1e-5, atol=0)


def _unit(header: Header) -> str:
    return header.text("wavelength units") or header.text("wavelength unit")
