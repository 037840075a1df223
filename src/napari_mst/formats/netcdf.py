"""netCDF-4 and other HDF5 files: cubes from satellites, aircraft and xarray.

Names, units, packed numbers and fill values follow the CF conventions 1.11
(https://cfconventions.org). EMIT's reflectance (L2A) keeps its wavelengths, widths and good bands
in a separate group. Files are read in a separate process, as MAT-files are. Letters: B bands, H
rows, W columns.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from napari_mst.base.arrays import DType
from napari_mst.base.errors import mismatch
from napari_mst.base.progress import Progress
from napari_mst.cube import SpectralCube
from napari_mst.cube.labelled import in_cf, with_texts
from napari_mst.cube.parts import without
from napari_mst.formats import numbers
from napari_mst.formats.array_files import NO_ANSWERS, Answers
from napari_mst.formats.cube_record import IGNORED, OWN, Description, check
from napari_mst.formats.matlab.mat_files import foreign_cube, hdf5_output, stored_cube
from napari_mst.formats.matlab.stored import HDF5_MARK, ROOT, WRITER

SUFFIX = ".nc"
MORE_SUFFIXES = (".nc4", ".h5", ".hdf5", ".he5", ".hspy")
_CRC = re.compile(f"{OWN}=([0-9a-f]{{8}})")


def is_netcdf(path: Path) -> bool:
    """True if *path* is an HDF5 file with the suffix of netCDF or HDF5."""
    with path.open("rb") as file:
        is_hdf5 = file.read(len(HDF5_MARK)) == HDF5_MARK
    return is_hdf5 and path.suffix.lower() in (SUFFIX, *MORE_SUFFIXES)


def read_netcdf(
    path: Path,
    *,
    answers: Answers = NO_ANSWERS,
    scale: bool = True,
    verify: bool | None = None,
) -> SpectralCube:
    """The cube in the file at *path*; see `read_cube` for the options.

    Raises
    ------
    CubeFileError
        If the file is damaged, or none or several of its arrays may be the cube.
    """
    with path.open("rb") as file:
        if file.read(len(HDF5_MARK)) != HDF5_MARK:
            advice = "Convert netCDF 3 by: nccopy -k nc4 old.nc new.nc"
            raise mismatch(path.name, "a netCDF-4 or HDF5 file", "another kind", advice)
    facts, data = stored_cube(path, "a netCDF-4 or HDF5 file", answers)
    attributes = facts["attributes"]
    if crc := _CRC.search(str(facts[ROOT].get(WRITER, ""))):
        stored = Description(shape=data.shape, dtype=data.dtype.name, crc32=crc[1])
        check(path.name, data, stored, verify)
    cube = foreign_cube(facts, data, scale=scale)
    # A file of ours has these texts, even after xarray saved it again.
    if "provenance" not in attributes:
        return cube
    kept = with_texts(cube, attributes)
    quantity = str(attributes.get("long_name", cube.quantity))
    return replace(kept, metadata={**cube.metadata, **kept.metadata}, quantity=quantity)


def write_netcdf(path: Path, cube: SpectralCube, dtype: DType, progress: Progress) -> None:
    """Save *cube* like xarray: an uncompressed variable with its coordinates.

    The checksum of the numbers goes into the attribute with the program that wrote the file, the
    only attribute that programs do not copy when they derive a file from it.
    """
    import h5netcdf
    import h5py

    cube = replace(cube, metadata=without(cube.metadata, ["warnings"]))
    axes, coordinates, attributes = in_cf(cube)
    with hdf5_output(path) as output, h5netcdf.File(output, "w") as file:
        file.attrs["Conventions"] = "CF-1.11"
        file.dimensions = dict(zip(axes, cube.shape, strict=True))
        for name, (along, values, about) in coordinates.items():
            file.create_variable(name, along, data=values).attrs.update(about)
        stored = file.create_variable(cube.quantity or "cube", axes, dtype)
        stored.attrs.update(attributes)
        # This attribute tells xarray that the system is a coordinate, not a second array.
        if mapping := attributes.get("grid_mapping"):
            stored.attrs["coordinates"] = mapping
        if IGNORED in cube.metadata:
            stored.attrs["missing_value"] = dtype.type(cube.metadata[IGNORED])
        store = output.checked(stored.__setitem__)
        crc = numbers.write_blocks(cube.data, dtype, progress, store)
    with hdf5_output(path, "r+b") as output, h5py.File(output, "r+") as raw:
        raw.attrs[WRITER] = np.bytes_(f"version=2,h5netcdf={h5netcdf.__version__},{OWN}={crc}")
