"""ENVI spectral libraries: rows of numbers in a `.sli` file, and its text header beside it.

Specification: NV5 Geospatial, "ENVI Header Files": `samples` are the bands, `lines` the spectra. We
write `name.sli` and `name.sli.hdr`, because `name.hdr` would be the header of a cube called `name`.
Letters: B bands; n spectra.
"""

import json
from pathlib import Path

import numpy as np

from napari_mst.base import atomic_save
from napari_mst.base.arrays import Floats
from napari_mst.cube.curves import BAND_INDEX, Curves, axis, number
from napari_mst.formats.cube_record import IGNORED
from napari_mst.formats.envi.header import (
    OWN,
    DataLayout,
    Header,
    data_of,
)
from napari_mst.formats.envi.header_fields import scaled_by
from napari_mst.formats.envi.raster import (
    axis_fields,
    braced,
    layout_fields,
    load,
    sealed,
    steadily,
)
from napari_mst.formats.numbers import crc32
from napari_mst.formats.wavelengths import percent_encode, spectral_axis, titles_of

KIND = "ENVI Spectral Library"
_SAMPLES = "sample names"


def targets(path: Path) -> tuple[Path, Path]:
    """The data file and the header that saving to *path* writes."""
    return path, path.with_name(f"{path.name}.hdr")


def read_library(path: Path) -> Curves:
    """The curves of the library whose data or header is *path*. Raises `CubeFileError`."""

    def read(header: Header, header_path: Path) -> Curves:
        # hylite's libraries (.lib) are rasters with a spectrum and a name per pixel.
        is_raster = _SAMPLES in header.fields
        layout = header.layout() if is_raster else header.layout((KIND,))
        if layout.bands != 1 and not is_raster:
            raise header.error("'bands' 1, as spectra are lines of samples", str(layout.bands))
        data = data_of(header, header_path, layout) if path == header_path else path
        stored, _ = load(header, data, layout, None)
        if stored.dtype.kind == "c":
            raise header.error("real numbers", "complex ones", "Save the library as floats.")
        scaled, *_, notes = scaled_by(header, stored, {})
        ignored = number(header.text(IGNORED))
        values = np.where(stored == ignored, np.nan, scaled).astype(np.float64)
        values = values.reshape(len(values), -1).T if is_raster else values[0]
        records, doubts_of_names = _records(header, len(values))
        is_own = "curve" in records[0]
        texts = header.numbers("wavelength")
        wavelengths, unit, doubts = spectral_axis(texts, header.unit_word, (), values.shape[1])
        if unit != BAND_INDEX:
            wavelengths, unit, doubts = axis(texts, header.unit_word, path.name, is_own=is_own)
        has = np.ones(values.shape, dtype=bool)
        heading = header.text("description") + header.text("z plot titles")
        notes += doubts_of_names + ([] if is_own else doubts)
        return Curves(
            path.name, wavelengths, unit, values, has, records, heading, is_own, notes
        ).settled()

    return steadily(path, targets(path), read)


def _records(header: Header, count: int) -> tuple[list[dict[str, str]], list[str]]:
    """The facts about each of *count* spectra in *header*, at least a name; and notes.

    A note reports missing names.
    """
    try:
        records = json.loads(header.text(f"{OWN}spectra") or "[]")
    except ValueError:
        records = []
    is_one_each = isinstance(records, list) and len(records) == count
    if is_one_each and all(isinstance(record, dict) for record in records):
        return [{key: str(value) for key, value in record.items()} for record in records], []
    # Another program wrote or changed the library, so only the names are reliable.
    names, notes = (
        header.items("spectra names", count) or header.items(_SAMPLES, count),
        list[str](),
    )
    # A wrong number of names belongs to other spectra.
    if len(names) != count:
        given = f"The header gives {len(names)} names for {count} spectra; they are numbered."
        notes = [given] if names else []
        names = [f"spectrum {number}" for number in range(1, count + 1)]
    return [{"name": name} for name in names], notes


def write_library(path: Path, library: Curves, *, overwrite: bool = False) -> Path:
    """Save *library* and return the data file.

    The numbers are float32 if that holds every value, else float64.

    Raises
    ------
    SaveError
        As `atomic_save.saving`.
    """
    values = _stored(library.values)
    text = _header_text(library, values).encode("ascii")
    data_path, header_path = targets(path)
    needed = values.nbytes + len(text)
    with atomic_save.saving(data_path, header_path, needed=needed, overwrite=overwrite) as (
        data,
        header,
    ):
        data.write_bytes(values.tobytes())
        header.write_bytes(text)
    return data_path


def _stored(values: Floats) -> Floats:
    # A number beyond float32 becomes infinity, which the comparison then detects.
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
    is_exact = np.array_equal(single, values, equal_nan=True)
    return single if is_exact else values.astype("<f8")


def _header_text(library: Curves, values: Floats) -> str:
    rows, columns = values.shape
    layout = DataLayout(bands=1, rows=rows, columns=columns, dtype=values.dtype)
    names = (percent_encode(title, ",") for title in titles_of(library.records))
    # Empty fields are missing facts.
    records = [{key: text for key, text in record.items() if text} for record in library.records]
    fields = {
        **layout_fields(layout, KIND),
        **axis_fields(library.wavelengths, library.unit),
        "spectra names": braced(names, 1),
        f"{OWN}encoding": "percent",
        f"{OWN}spectra": "{" + percent_encode(json.dumps(records)) + "}",
    }
    return sealed(fields, f"{crc32(values):08x}")
