"""Writing TIFF stacks of bands, for GDAL and QGIS.

One planar image of B samples a pixel with the axes CYX: GDAL, napari, tifffile and imageio read it
with its wavelengths. Letters: B bands, H rows, W columns.
"""

from pathlib import Path
from typing import Any

from napari_mst.arrays import DType
from napari_mst.cube import SpectralCube
from napari_mst.cube.georeference import FIELD
from napari_mst.errors import shown
from napari_mst.formats import seal
from napari_mst.formats.envi.georeference import MAP_INFO, georeference_of, with_losses
from napari_mst.formats.numbers import blocks, checksum
from napari_mst.formats.record import IGNORED, record_of
from napari_mst.formats.tiff import metadata
from napari_mst.watch import Watch

CLASSIC_BYTES = 2**32 - 2**25
"""The most that offsets of 32 bits reach, less room for tags; beyond it the file is a BigTIFF."""
_ASCII = 2

Tag = tuple[int, str | int, int, Any, bool]
"""Code, type, count and value, and True for the first page only, as tifffile takes tags."""


def write_tiff(path: Path, cube: SpectralCube, dtype: DType, watch: Watch) -> None:
    """Save *cube* with its place on earth and the descriptions of its bands."""
    import tifffile

    cube, tags = _located(cube)
    tags += _description(cube)
    seen = metadata.seen_by_gdal({code: value for code, _, _, value, _ in tags})
    sealed = seal.seal_of(cube, dtype, checksum(cube.data, dtype), seen)
    tifffile.imwrite(
        path,
        blocks(cube.data, dtype, watch),
        shape=cube.shape,
        dtype=dtype,
        byteorder="<",
        bigtiff=cube.data.size * dtype.itemsize > CLASSIC_BYTES,
        photometric="minisblack",
        # A single band has no planes to keep apart.
        planarconfig="separate" if len(cube.data) > 1 else None,
        metadata={"axes": "CYX", **record_of(cube)},
        extratags=[*tags, _text_tag(metadata.SEAL, sealed)],
    )


def _located(cube: SpectralCube) -> tuple[SpectralCube, list[Tag]]:
    """*cube*, and its georeference as tags for tifffile.

    The cube's history says what the tags cannot hold (see `with_losses`).
    """
    georeference = georeference_of(cube.metadata)
    info = str(cube.metadata.get(MAP_INFO, "")).strip("{} ")
    if georeference is None:
        lost = ["The 'map info' of the cube makes no sense; it is kept as text only."]
        return with_losses(cube, lost if info else []), []
    has_system = bool(info) and not info.lower().startswith(("arbitrary", "pixel"))
    if has_system and FIELD not in cube.metadata and not georeference.directory:
        system = shown(info, 60)
        lost = [f"The coordinate system of '{system}' is not known; it is kept as text only."]
        cube = with_losses(cube, lost)
    tags: list[Tag] = []
    for code, (kind, value) in sorted(georeference.tags().items()):
        # tifffile counts the characters of a text itself.
        count = 0 if kind == "s" else len(value)
        tags.append((code, kind, count, value, True))
    return cube, tags


def _description(cube: SpectralCube) -> list[Tag]:
    """GDAL's tags of the bands, and of the value that stands for no data."""
    tags = [_text_tag(metadata.GDAL_METADATA, metadata.gdal_xml(cube))]
    nodata = str(cube.metadata.get(IGNORED, ""))
    if nodata:
        tags.append(_text_tag(metadata.GDAL_NODATA, nodata.encode()))
    return tags


def _text_tag(code: int, text: bytes) -> Tag:
    """A text tag of the first page; tifffile counts its characters."""
    return code, _ASCII, 0, text, True
