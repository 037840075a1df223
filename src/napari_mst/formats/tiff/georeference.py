"""The georeference of a cube as tags of a GeoTIFF."""

from typing import Any

from napari_mst.cube import SpectralCube
from napari_mst.formats.envi.georeference import MAP_INFO, georeference_of, with_losses
from napari_mst.georeference import FIELD
from napari_mst.messages import shown

Tag = tuple[int, str | int, int, Any, bool]
"""Code, type, count and value, and True for the first page only, as tifffile takes tags."""


def in_tiff(cube: SpectralCube) -> tuple[SpectralCube, list[Tag]]:
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
