"""The ENVI header that lies beside a TIFF: what it says of bands and numbers holds for the TIFF.

ENVI writes `name.hdr` with `file type = TIFF`; a header written by hand is often one of an ENVI
raster. Letters: B bands, H rows, W columns.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from napari_mst.arrays import Array
from napari_mst.cube.georeference import FIELD
from napari_mst.errors import CubeFileError, shown
from napari_mst.formats.envi import values
from napari_mst.formats.envi.files import DATA_SUFFIXES, first_named, header_bytes
from napari_mst.formats.envi.georeference import FIELDS
from napari_mst.formats.envi.header import Header
from napari_mst.formats.record import Description
from napari_mst.formats.wavelengths import spectral_axis

if TYPE_CHECKING:
    from tifffile import TiffPageSeries


def header_beside(path: Path, series: "TiffPageSeries") -> tuple[Header | None, list[str]]:
    """The header of the TIFF at *path*, or None; and a warning about one that cannot be used."""
    header_path = first_named(path.parent, [f"{path.name}.hdr", f"{path.stem}.hdr"])
    if header_path is None:
        return None, []
    name = shown(header_path.name, 40)
    try:
        raw = header_bytes(header_path)
        # Headers may begin with the byte order mark of UTF-8. Other programs have `.hdr` files too.
        if not raw.lstrip(b"\xef\xbb\xbf").upper().startswith(b"ENVI"):
            return None, []
        header = Header.parse(raw, header_path.name)
        # The header is one of the TIFF by its words, its name, or by exclusion.
        is_of_tiff = header.text("file type").upper() == "TIFF"
        is_named = header_path.stem.casefold() == path.name.casefold()
        if not is_of_tiff and not is_named and _has_other_data(path):
            return None, []
        fits = _fits(header, series)
    except (CubeFileError, OSError):
        return None, [f"The header {name} beside the file is damaged; it is not used."]
    if fits:
        return header, []
    return None, [
        f"The header {name} beside the file is of an image of another size; it is not used."
    ]


def described(header: Header, own: Description) -> tuple[Description, list[str]]:
    """The bands of a TIFF: as *header* says, else as its *own* description does.

    Returns
    -------
    The description, and a warning where the two differ.
    """
    texts = header.numbers("wavelength")
    names = header.items("band names") or own.names
    if not texts:
        return replace(own, names=names), []
    merged = replace(own, wavelengths=texts, unit=header.unit_word, names=names)
    if not own.wavelengths or _is_alike(merged, own):
        return merged, []
    return merged, ["The wavelengths are those of the header beside the file; its own differ."]


def applied(
    header: Header, data: Array, description: Description, *, scale: bool
) -> tuple[Array, Description, list[str]]:
    """The (B, H, W) numbers that *header* means by the stored *data*.

    Returns
    -------
    The numbers, the description that then holds, and warnings.
    """
    data, fields, warnings = values.described(data, header, description.fields, scale=scale)
    # The GeoTIFF's own tags say where the image lies, so the header does not have to.
    if FIELD in description.fields:
        fields = {key: value for key, value in fields.items() if key not in FIELDS}
    quantity = values.quantity_of(fields) or description.quantity
    return data, replace(description, fields=fields, quantity=quantity), warnings


def _has_other_data(path: Path) -> bool:
    """True if data of an ENVI raster have the name of the TIFF: `name.hdr` then belongs to them."""
    names = {f"{path.stem}{suffix}".casefold() for suffix in DATA_SUFFIXES}
    return any(entry.name.casefold() in names for entry in path.parent.iterdir())


def _fits(header: Header, series: "TiffPageSeries") -> bool:
    """True if the sizes that the header gives are those of the image."""
    page = series.keyframe
    rows = page.imagelength
    columns = page.imagewidth
    sizes = {"lines": rows, "samples": columns, "bands": series.size // (rows * columns)}
    # Sizes that the header leaves out cannot disagree.
    given = {key: size for key, size in sizes.items() if key in header.fields}
    return all(header.integer(key) == size for key, size in given.items())


def _is_alike(merged: Description, own: Description) -> bool:
    """True if both give the same wavelengths, perhaps with other numbers of digits."""
    bands = len(merged.wavelengths)
    told_axis, told_unit, _ = spectral_axis(merged.wavelengths, merged.unit, (), bands)
    own_axis, own_unit, _ = spectral_axis(own.wavelengths, own.unit, (), bands)
    return told_unit == own_unit and np.allclose(told_axis, own_axis, rtol=1e-5, atol=0)
