"""ENVI spectral libraries: rows of numbers in a `.sli` file, and its text header beside it.

Specification: NV5 Geospatial, "ENVI Header Files": `samples` are the bands, `lines` the spectra. We
write `name.sli` and `name.sli.hdr`, since a cube called `name` has `name.hdr`.
Letters: B bands; n spectra.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.cube import BAND_INDEX, NANOMETRES
from napari_mst.errors import CubeFileError
from napari_mst.formats.envi.data import load
from napari_mst.formats.envi.files import data_of, finish, first_named, header_bytes
from napari_mst.formats.envi.header import OWN, Header, Layout
from napari_mst.formats.envi.header_text import braced, sealed
from napari_mst.formats.numbers import crc32
from napari_mst.formats.text import percent_encode
from napari_mst.formats.wavelengths import spectral_axis
from napari_mst.messages import shown

KIND = "ENVI Spectral Library"
_FLOAT32, _FLOAT64 = 4, 5


@dataclass(frozen=True, eq=False)
class Library:
    """A spectral library.

    Attributes
    ----------
    wavelengths, unit
        (B,), as those of a `SpectralCube`.
    names, values
        The n names, and the spectra (n, B).
    notes
        Text of the program that wrote it.
    """

    wavelengths: NDArray[np.float64]
    unit: str
    names: Sequence[str]
    values: NDArray[np.floating]
    notes: str = ""


def targets(path: Path) -> tuple[Path, Path]:
    """The data file and the header that saving to *path* writes."""
    return path, path.with_name(f"{path.name}.hdr")


def read_library(path: Path) -> Library:
    """The library at *path*, its data or its header. Raises `CubeFileError`."""
    header_path = _header_of(path)
    header = Header.parse(header_bytes(header_path), header_path.name)
    layout = header.layout((KIND,))
    if layout.bands != 1:
        raise header.error("'bands' 1, as spectra are lines of samples", str(layout.bands))
    data = data_of(header, header_path, layout) if path == header_path else path
    cube, _ = load(header, data, layout, None)
    values = cube[0]
    if values.dtype.kind == "c":
        raise header.error("real numbers", "complex ones", "Save the library as floats.")
    unit_word = header.unit_word or "Unknown"
    wavelengths, unit, _ = spectral_axis(
        header.numbers("wavelength"), unit_word, (), layout.columns
    )
    names = header.items("spectra names")
    # Names that are too many or too few are of other spectra.
    if len(names) != layout.rows:
        names = [f"spectrum {number}" for number in range(1, layout.rows + 1)]
    return Library(wavelengths, unit, names, values, header.text(f"{OWN}spectra"))


def write_library(path: Path, library: Library, *, overwrite: bool = False) -> Path:
    """Save *library* and return the data file.

    The numbers are float32 where that holds every value, else float64.

    Raises
    ------
    SaveError
        As `crash_safe.saving`.
    """
    values = _stored(library.values)
    text = _header_text(library, values).encode("ascii")
    data_path, header_path = targets(path)
    needed = values.nbytes + len(text)
    with crash_safe.saving(data_path, header_path, needed=needed, overwrite=overwrite) as (
        data,
        header,
    ):
        data.write_bytes(values.tobytes())
        header.write_bytes(text)
    return data_path


def _stored(values: NDArray[np.floating]) -> NDArray[np.floating]:
    # A number beyond float32 becomes infinity, which is then seen to be another one.
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
    is_exact = np.array_equal(single, values, equal_nan=True)
    return single if is_exact else values.astype("<f8")


def _header_text(library: Library, values: NDArray[np.floating]) -> str:
    rows, columns = values.shape
    layout = Layout(bands=1, rows=rows, columns=columns, dtype=values.dtype)
    names = (percent_encode(name, ",") for name in library.names)
    fields: dict[str, Any] = {
        "samples": columns,
        "lines": rows,
        "bands": 1,
        "header offset": 0,
        "file type": KIND,
        "data type": _FLOAT32 if values.dtype.itemsize == 4 else _FLOAT64,
        "interleave": "bsq",
        "byte order": 0,
        **_spectral_fields(library),
        "spectra names": braced(names, 1),
        f"{OWN}encoding": "percent",
        f"{OWN}spectra": "{" + percent_encode(library.notes) + "}",
    }
    return sealed(fields, layout, f"{crc32(values):08x}")


def _spectral_fields(library: Library) -> dict[str, str]:
    if library.unit == BAND_INDEX:
        return {}
    unit = "Nanometers" if library.unit == NANOMETRES else percent_encode(library.unit)
    wavelengths = braced(repr(float(wavelength)) for wavelength in library.wavelengths)
    return {"wavelength units": unit, "wavelength": wavelengths}


def _header_of(path: Path) -> Path:
    """The header at or beside *path*. Raises `CubeFileError` if there is none."""
    if path.suffix.lower() == ".hdr":
        return path
    if crash_safe.is_interrupted(targets(path)):
        finish(path, targets(path))
    header = first_named(path.parent, [f"{path.name}.hdr", f"{path.stem}.hdr"])
    if header is None:
        raise CubeFileError(
            f"Expected an ENVI header beside {shown(path.name)}, got none. Put it there."
        )
    return header
