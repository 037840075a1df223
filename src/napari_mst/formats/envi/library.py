"""ENVI spectral libraries: rows of numbers in a `.sli` file, and its text header beside it.

Specification: NV5 Geospatial, "ENVI Header Files": `samples` are the bands, `lines` the spectra. We write `name.sli`
and `name.sli.hdr`, which no cube named `name` uses. Letters: B bands; n spectra.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from napari_mst import crash_safe
from napari_mst.cube import BAND_INDEX, NANOMETRES
from napari_mst.errors import CubeFileError
from napari_mst.formats.envi.header import MAX_BYTES, OWN, Header, Layout, braced, sealed
from napari_mst.formats.envi.reading import data_of, finish, load
from napari_mst.formats.numbers import crc32
from napari_mst.formats.text import percent_encode
from napari_mst.formats.wavelengths import spectral_axis
from napari_mst.messages import shown

KIND = "ENVI Spectral Library"


@dataclass(frozen=True, eq=False)
class Library:
    """The (n, B) *values* of a library, their wavelengths, the *names* of the spectra, and *notes* of the writer's."""

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
    with header_path.open("rb") as file:
        header = Header.parse(file.read(MAX_BYTES + 1), header_path.name)
    layout = header.layout((KIND,))
    if layout.bands != 1:
        raise header.error("'bands' 1, as spectra are lines of samples", str(layout.bands))
    data = data_of(header, header_path, layout) if path == header_path else path
    values = load(header, data, layout, None)[0][0]
    if values.dtype.kind == "c":
        raise header.error("real numbers", "complex ones", "Save the library as floats.")
    word = header.text("wavelength units") or header.text("wavelength unit") or "Unknown"
    wavelengths, unit, _ = spectral_axis(header.numbers("wavelength"), word, (), layout.columns)
    names = header.items("spectra names")
    if len(names) != layout.rows:
        names = [f"spectrum {number}" for number in range(1, layout.rows + 1)]
    return Library(wavelengths, unit, names, values, header.text(f"{OWN}spectra"))


def write_library(path: Path, library: Library, *, overwrite: bool = False) -> Path:
    """Save *library*, float32 where that holds every value and float64 elsewhere, and return the data file.

    Raises
    ------
    SaveError
        As `crash_safe.saving`.
    """
    with np.errstate(over="ignore"):
        single = library.values.astype("<f4")
    is_exact = np.array_equal(single, library.values, equal_nan=True)
    values = single if is_exact else library.values.astype("<f8")
    data_path, header_path = targets(path)
    rows, columns = values.shape
    layout = Layout(1, rows, columns, values.dtype, "bsq", 0, is_compressed=False)
    fields: dict[str, object] = {
        "samples": columns,
        "lines": rows,
        "bands": 1,
        "header offset": 0,
        "file type": KIND,
        "data type": 4 if is_exact else 5,
        "interleave": "bsq",
        "byte order": 0,
        **_spectral_fields(library),
        "spectra names": braced((percent_encode(name, ",") for name in library.names), 1),
        f"{OWN}encoding": "percent",
        f"{OWN}spectra": "{" + percent_encode(library.notes) + "}",
    }
    text = sealed(fields, layout, f"{crc32(values):08x}").encode("ascii")
    with crash_safe.saving(
        data_path, header_path, needed=values.nbytes + len(text), overwrite=overwrite
    ) as (
        data,
        header,
    ):
        data.write_bytes(values.tobytes())
        header.write_bytes(text)
    return data_path


def _spectral_fields(library: Library) -> dict[str, object]:
    if library.unit == BAND_INDEX:
        return {}
    unit = "Nanometers" if library.unit == NANOMETRES else percent_encode(library.unit)
    return {
        "wavelength units": unit,
        "wavelength": braced(repr(float(w)) for w in library.wavelengths),
    }


def _header_of(path: Path) -> Path:
    if path.suffix.lower() == ".hdr":
        return path
    if crash_safe.is_interrupted(targets(path)):
        finish(path, targets(path))
    names = [f"{path.name}.hdr".casefold(), f"{path.stem}.hdr".casefold()]
    headers = [entry for entry in path.parent.iterdir() if entry.name.casefold() in names]
    if not headers:
        raise CubeFileError(
            f"Expected an ENVI header beside {shown(path.name)}, got none. Put it there."
        )
    return min(headers, key=lambda entry: names.index(entry.name.casefold()))
