"""Writing ENVI rasters: BSQ, little-endian, with a header that says where the cube came from.

Letters: B bands, H rows, W columns.
"""

from pathlib import Path

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.formats.envi.files import targets
from napari_mst.formats.envi.georeference import in_envi
from napari_mst.formats.envi.header_text import header_text
from napari_mst.formats.numbers import blocks, crc32, stored_type
from napari_mst.watch import UNWATCHED, Watch

_STORED = ("u1", "i2", "u2", "i4", "u4", "f4", "f8")


def write_envi(
    path: Path, cube: SpectralCube, *, overwrite: bool = False, watch: Watch = UNWATCHED
) -> Path:
    """Save *cube* as `name.img` and `name.hdr`, and return the header.

    float32 stays float32. Types that have no code of their own here (int8, float16, bool, 64-bit
    integers) become another one that holds every value.

    Raises
    ------
    SaveError
        If the numbers cannot be stored without loss, or as `crash_safe.saving`.
    """
    data_path, header_path = targets(path)
    cube = in_envi(cube)
    dtype = stored_type(cube.data, _STORED, "an ENVI file")
    needed = cube.data.size * dtype.itemsize + 2**16
    with crash_safe.saving(data_path, header_path, needed=needed, overwrite=overwrite) as (
        data,
        header,
    ):
        crc = 0
        with data.open("wb") as file:
            for block in blocks(cube.data, dtype, watch):
                file.write(block.data)
                crc = crc32(block, crc)
        text = header_text(cube, dtype, f"{crc:08x}")
        header.write_bytes(text.encode("ascii"))
    return header_path
