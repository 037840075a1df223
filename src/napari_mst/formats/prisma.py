"""Level-2 products of PRISMA as distributed by ASI, such as `PRS_L2D_STD_*.he5`.

An HDF-EOS5 file has two cubes of lines x bands x samples, one per spectrometer, described by
attributes of the whole file. The corners are centres of pixels of 30 m, as in prismaread
(https://github.com/IREA-CNR-MI/prismaread). Layout: ASI, PRISMA Products Specification
Document, issue 2.3. Letters: B bands, H rows, W columns.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from napari_mst.base.arrays import Array
from napari_mst.base.errors import complete, mismatch
from napari_mst.cube import SpectralCube
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.cube.lazy import Lazy, part_of
from napari_mst.formats.array_files import Answers
from napari_mst.formats.conventions import Packing
from napari_mst.formats.cube_record import IGNORED
from napari_mst.formats.matlab.mat_files import stored_cube
from napari_mst.formats.matlab.stored import ROOT
from napari_mst.formats.netcdf import is_netcdf
from napari_mst.formats.numbers import is_large

_PIXEL = 30.0  # m
_MOST = 2**16 - 1  # stored value of the largest reflectance


def is_prisma(path: Path) -> bool:
    """True if *path* is an HDF5 file with the name of a level-2 product."""
    return path.name.upper().startswith("PRS_L2") and is_netcdf(path)


def read_prisma(path: Path, *, scale: bool = True) -> SpectralCube:
    """The cube of both spectrometers at rising wavelengths; *scale* as in `read_cube`.

    In their overlap, the VNIR bands are used. Pixels outside the scene are NaN.

    Raises
    ------
    CubeFileError
        If the file is damaged, or lacks a cube or its description.
    """
    level = path.name[4:7].upper()
    with complete(path.name, "PRISMA product"):
        parts, bands = [], list[tuple[float, float, int]]()
        for name in ("Vnir", "Swir"):
            variable = f"HDFEOS/SWATHS/PRS_{level}_HCO/Data Fields/{name.upper()}_Cube"
            facts, data = stored_cube(path, "a PRISMA product", Answers(variable, 1))
            about = facts[ROOT]
            low, high = (about[f"L2Scale{name}{end}"] for end in ("Min", "Max"))
            if scale and not 0 < high - low < math.inf:
                expected, got = f"L2Scale{name}Max above L2Scale{name}Min", f"{high} and {low}"
                raise mismatch(path.name, expected, got, "Get the file again, or give scale=False.")
            last = max(bands, default=(0.0,))[0]
            listed = zip(
                about[f"List_Cw_{name}"], about[f"List_Fwhm_{name}"], range(len(data)), strict=True
            )
            # A band that was switched off has a wavelength of 0.
            beyond = sorted(band for band in listed if band[0] > last)
            bands += beyond
            packing = Packing((high - low) / _MOST, low, ignored=(0,))
            data = packing.unpacked(data) if scale else data
            parts.append(part_of(data, [band for *_, band in beyond]))
    if not bands:
        raise mismatch(path.name, "bands that were switched on", "none", "Get the file again.")
    wavelengths, widths, _ = zip(*bands, strict=True)
    first = len(parts[0])

    def read(wanted: range, rows: range, columns: range) -> Array:
        place = [slice(at.start, at.stop, at.step) for at in (rows, columns)]
        split = [at for at in wanted if at < first], [at - first for at in wanted if at >= first]
        pairs = zip(parts, split, strict=True)
        return np.concatenate([part[(listed, *place)] for part, listed in pairs if listed])

    shape = (len(bands), *data.shape[1:])
    lazy = Lazy(path.name, shape, data.dtype, read, getattr(data, "sides", (1, 1, 1)))
    metadata: dict[str, Any] = {"fwhm": widths, IGNORED: math.nan if scale else 0}
    if "Epsg_Code" in about:
        place, doubts = _place(about, shape).checked()
        metadata[FIELD] = place.to_json()
        metadata |= {"warnings": tuple(doubts)} if doubts else {}
    quantity = "radiance" if level == "L2B" else "reflectance"
    held = lazy if is_large(lazy.nbytes) else np.asarray(lazy)
    return SpectralCube(held, np.array(wavelengths), quantity=quantity, metadata=metadata)


def _place(about: dict[str, Any], shape: tuple[int, ...]) -> Georeference:
    """The georeference of the image, whose middle lies midway between two corners."""
    spans = ("easting", 1, shape[2]), ("northing", -1, shape[1])
    x, y = (
        sum(about[f"Product_{corner}corner_{axis}"] for corner in ("UL", "LR")) / 2
        - sign * side * _PIXEL / 2
        for axis, sign, side in spans
    )
    transform = (_PIXEL, 0.0, x, 0.0, -_PIXEL, y)
    return Georeference.of_code(transform, int(about["Epsg_Code"]), is_geographic=False)
