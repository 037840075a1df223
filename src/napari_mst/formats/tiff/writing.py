"""Writing TIFF stacks of bands: for GDAL and QGIS (default), for Fiji, or as OME-TIFF.

The default is one planar image of B samples a pixel with the axes CYX: GDAL, napari, tifffile and
imageio read it with its wavelengths. ImageJ reads only its own flavour.
Letters: B bands, H rows, W columns.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import SaveError
from napari_mst.formats import seal
from napari_mst.formats.numbers import blocks, checksum, rows_per_block, stored_type
from napari_mst.formats.record import IGNORED, Description, record_of
from napari_mst.formats.tiff import metadata
from napari_mst.formats.tiff.georeference import Tag, in_tiff
from napari_mst.messages import shown
from napari_mst.watch import UNWATCHED, Watch

Flavour = Literal["gdal", "imagej", "ome"]
# OME has no integers of 64 bits, ImageJ none above 16 and no doubles.
_STORED = {
    "gdal": ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"),
    "imagej": ("u1", "u2", "i2", "f4"),
    "ome": ("u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8"),
}
CLASSIC_BYTES = 2**32 - 2**25
"""The most that offsets of 32 bits reach, less room for tags; beyond it the file is a BigTIFF."""
_ASCII = 2


@dataclass(frozen=True)
class Options:
    """Options of a TIFF: for which programs it is, and if it is compressed (deflate)."""

    flavour: Flavour = "gdal"
    compress: bool = False


@dataclass(frozen=True)
class _Plan:
    """A cube that is about to be written, its type in the file, and the tags of its place."""

    cube: SpectralCube
    dtype: np.dtype[Any]
    tags: list[Tag]

    @property
    def place(self) -> dict[str, str]:
        """The georeference as it is read again from the tags."""
        return metadata.place({code: value for code, _, _, value, _ in self.tags})

    def seal_tag(self, others: Description) -> Tag:
        crc = checksum(self.cube.data, self.dtype)
        return _text_tag(metadata.SEAL, seal.seal_of(self.cube, self.dtype, crc, others))


def write_tiff(
    path: Path,
    cube: SpectralCube,
    *,
    overwrite: bool = False,
    watch: Watch = UNWATCHED,
    **options: Any,
) -> Path:
    """Save *cube*; types that the flavour does not have are widened without loss.

    Parameters
    ----------
    options
        The fields of `Options`: `flavour` and `compress`.

    Raises
    ------
    SaveError
        If the flavour cannot hold the numbers or the size, or as `crash_safe.saving`.
    """
    import tifffile

    chosen = Options(**options)
    dtype = _checked_type(cube, chosen.flavour)
    needed = cube.data.size * dtype.itemsize
    with crash_safe.saving(path, needed=needed + 2**20, overwrite=overwrite) as (temporary,):
        located, tags = in_tiff(cube)
        arguments = _ARGUMENTS[chosen.flavour](_Plan(located, dtype, tags))
        if chosen.compress:
            arguments["compression"] = "zlib"
            arguments["rowsperstrip"] = min(rows_per_block(cube.shape[2], dtype), cube.shape[1])
        tifffile.imwrite(
            temporary,
            _encoded(cube, dtype, watch, is_compressed=chosen.compress),
            shape=cube.shape,
            dtype=dtype,
            byteorder="<",
            bigtiff=needed > CLASSIC_BYTES,
            photometric="minisblack",
            **arguments,
        )
    return path


def _checked_type(cube: SpectralCube, flavour: str) -> np.dtype[Any]:
    """The type of the numbers in the file. Raises `SaveError` if the *flavour* cannot hold them."""
    if flavour not in _STORED:
        expected = ", ".join(_STORED)
        raise SaveError(f"Expected flavour {expected}, got {shown(flavour)!r}. Choose one of them.")
    dtype = stored_type(cube.data, _STORED[flavour], f"a TIFF ({flavour})")
    is_big = cube.data.size * dtype.itemsize > CLASSIC_BYTES
    # ImageJ's own flavour has no BigTIFF.
    if flavour == "imagej" and (is_big or cube.shape[2] == 1):
        raise SaveError(
            f"Expected 2 columns or more and under 4 GB for ImageJ, got {cube.shape}. "
            "Use flavour='ome'."
        )
    return dtype


def _encoded(
    cube: SpectralCube, dtype: np.dtype[Any], watch: Watch, *, is_compressed: bool
) -> Iterator[Any]:
    """The numbers block by block; tifffile takes compressed blocks as they are."""
    for block in blocks(cube.data, dtype, watch):
        yield zlib.compress(block.data) if is_compressed else block


def _for_gdal(plan: _Plan) -> dict[str, Any]:
    """The keywords of `tifffile.imwrite` for GDAL: its XML, and planar bands."""
    cube = plan.cube
    xml = metadata.gdal_xml(cube)
    nodata = str(cube.metadata.get(IGNORED, ""))
    tags = [
        *plan.tags,
        plan.seal_tag(metadata.seen_in_gdal(xml, nodata, plan.place)),
        _text_tag(metadata.GDAL_METADATA, xml),
    ]
    if nodata:
        tags.append(_text_tag(metadata.GDAL_NODATA, nodata.encode()))
    arguments = {"metadata": {"axes": "CYX", **record_of(cube)}, "extratags": tags}
    # A single band has no planes to keep apart.
    if len(cube.data) > 1:
        arguments["planarconfig"] = "separate"
    return arguments


def _for_imagej(plan: _Plan) -> dict[str, Any]:
    """The keywords of `tifffile.imwrite` for ImageJ, whose `Info` window shows our record."""
    described = {
        "axes": "CYX",
        "mode": "grayscale",
        "Labels": metadata.xml_names(plan.cube),
        "Info": json.dumps(record_of(plan.cube)),
    }
    seal_tag = plan.seal_tag(Description(fields=plan.place))
    return {"imagej": True, "metadata": described, "extratags": [*plan.tags, seal_tag]}


def _for_ome(plan: _Plan) -> dict[str, Any]:
    """The keywords of `tifffile.imwrite` for OME-TIFF."""
    channels = metadata.ome_channels(plan.cube)
    described = {
        "axes": "CYX",
        "Channel": channels,
        "Description": json.dumps(record_of(plan.cube)),
    }
    seal_tag = plan.seal_tag(metadata.seen_in_ome(channels, plan.place))
    return {"ome": True, "metadata": described, "extratags": [*plan.tags, seal_tag]}


_ARGUMENTS: dict[str, Callable[[_Plan], dict[str, Any]]] = {
    "gdal": _for_gdal,
    "imagej": _for_imagej,
    "ome": _for_ome,
}


def _text_tag(code: int, text: bytes) -> Tag:
    """A text tag of the first page; tifffile counts its characters."""
    return code, _ASCII, 0, text, True
