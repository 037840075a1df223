"""Spectra in files that are no tables, as tables: ASD's binary files, and the USGS's library."""

import re
import struct
from pathlib import Path

import numpy as np

from napari_mst.errors import mismatch

ASD = re.compile(b"ASD|as[2-8]")
SPLIB = re.compile(r"\s*splib0\d\w* Record")


def asd_table(raw: bytes, name: str) -> str:
    """The spectrum in a file of an ASD spectrometer as a table; raw counts by those of the white.

    Source: ASD Document 600596, "ASD File Format: Version 8".
    """
    first, step = struct.unpack_from("<2f", raw, 191)
    (count,) = struct.unpack_from("<H", raw, 204)
    dtype = np.dtype(("<f4", "<i4", "<f8")[raw[199]])
    values = np.frombuffer(raw, dtype, count, 484)
    if raw[186] == 0:
        # Behind the spectrum: a flag, two times, and a description with its length before it.
        start = 484 + values.nbytes + 18
        (length,) = struct.unpack_from("<H", raw, start)
        white = np.frombuffer(raw, dtype, count, start + 2 + length)
        values = np.where(white == 0, np.nan, values / np.where(white == 0, 1, white))
    title = f"{name} radiance" if raw[186] in (2, 4) else name
    rows = [f"{first + at * step:g}\t{value!r}" for at, value in enumerate(values.tolist())]
    return "\n".join([f"wavelength (nm)\t{title}", *rows])


def splib_table(path: Path, text: str) -> str:
    """A spectrum of the USGS's library (splib07) with the wavelengths that another file has.

    That file has as many rows, and lies in the same folder or above. Source: Kokaly et al., USGS
    Data Series 1035 (2017), doi:10.3133/ds1035.
    """
    title, *values = text.strip().split("\n")
    for folder in (path.parent, path.parent.parent):
        for file in sorted(folder.glob("*Wavelengths*.txt")):
            _, *at = file.read_text("latin-1").strip().split("\n")
            if file != path and len(at) == len(values):
                name = title.partition(":")[2].strip()
                rows = map("\t".join, zip(at, values, strict=True))
                return "\n".join([f"wavelength (um)\t{name}", *rows])
    advice = "Copy the library's file of wavelengths beside it."
    raise mismatch(path.name, f"a file of {len(values)} wavelengths beside it", "none", advice)
