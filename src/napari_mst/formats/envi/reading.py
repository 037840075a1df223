"""Reading ENVI rasters: every data type, byte order and interleave, as (B, H, W).

Letters: B bands, H rows, W columns.
"""

from dataclasses import dataclass
from pathlib import Path

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.curves import power_of
from napari_mst.errors import CubeFileError
from napari_mst.formats.envi.data import load
from napari_mst.formats.envi.files import data_of, finish, header_bytes, header_of, targets
from napari_mst.formats.envi.georeference import read_from_envi
from napari_mst.formats.envi.header import OWN, Header, provenance
from napari_mst.formats.envi.values import APPLIED, metadata, physical
from napari_mst.formats.wavelengths import spectral_axis
from napari_mst.messages import shown

# How often a pair of files is read that a save replaces meanwhile.
_ATTEMPTS = 5


@dataclass(frozen=True)
class _Request:
    """The pair of files to read, and how; *data* is None where the header has to find it."""

    header: Path
    data: Path | None
    scale: bool
    verify: bool | None


def is_envi(path: Path) -> bool:
    """True if *path* is an ENVI header, or a data file beside one.

    Other programs call files of their own `.hdr` too.
    """
    header = header_of(path)
    if header is None:
        return False
    with header.open("rb") as file:
        head = file.read(16)
    # Headers in UTF-16 or with a byte order mark are ENVI's too: `Header.parse` says what is wrong.
    return head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe").startswith(b"ENVI")


def read_envi(path: Path, *, scale: bool = True, verify: bool | None = None) -> SpectralCube:
    """The cube at *path*, a header or its data file.

    Parameters
    ----------
    scale
        Apply gains, offsets and the reflectance scale factor, once: float (B, H, W) with NaN for
        ignored values. False keeps the numbers as stored.
    verify
        Compare the data with the checksum in a header that we wrote and nobody changed; by default
        unless the file is memory-mapped.

    Returns
    -------
    What was assumed or ignored on the way is in `metadata["warnings"]`.

    Raises
    ------
    CubeFileError
        If header or data are missing, damaged, contradictory or of an unsupported kind.
    """
    for _ in range(_ATTEMPTS):
        header = header_of(path)
        if header is not None:
            data = None if header == path else path
            cube = _attempt(_Request(header, data, scale, verify))
            if cube is not None:
                return cube
        elif crash_safe.is_interrupted(targets(path)):
            finish(path, targets(path))
        else:
            raise CubeFileError(
                f"Expected an ENVI header at or beside {shown(path.name)}, got none. Put it there."
            )
    raise CubeFileError(
        f"Expected {shown(path.name)} to stay as it is, got changes while reading. Try again."
    )


def _attempt(request: _Request) -> SpectralCube | None:
    """The cube, or None if a save replaced its files meanwhile.

    Header and data are two files, and a save renames one after the other. If the header is the
    same before and after, the data that were read in between belong to it.
    """
    before = _bytes_now(request.header)
    try:
        cube = _read_pair(before, request)
    except (CubeFileError, FileNotFoundError):
        if request.header.exists() and _bytes_now(request.header) == before:
            raise
        return None
    return cube if _bytes_now(request.header) == before else None


def _bytes_now(header: Path) -> bytes:
    """The bytes of the *header*; none if it has just gone."""
    try:
        return header_bytes(header)
    except FileNotFoundError:
        return b""


def _read_pair(raw: bytes, request: _Request) -> SpectralCube:
    header = Header.parse(raw, request.header.name)
    layout = header.layout()
    data_path = request.data or data_of(header, request.header, layout)
    stored, warnings = load(header, data_path, layout, request.verify)
    unit_word = header.unit_word
    wavelengths, unit, axis_doubts = spectral_axis(
        header.numbers("wavelength"), unit_word, header.items("band names"), layout.bands
    )
    fields, field_doubts = metadata(header, layout.bands, power_of(unit_word) or 0)
    warnings += axis_doubts + field_doubts
    if request.scale:
        stored, fields, scaling_doubts = physical(stored, header, fields)
        warnings += scaling_doubts
    fields = read_from_envi(fields, is_sealed=header.is_sealed)
    quantity = header.text(f"{OWN}quantity")
    # A reflectance scale factor says what the numbers are, though no field of ENVI does.
    if not quantity and "reflectance" in fields.get(APPLIED, ""):
        quantity = "reflectance"
    if warnings:
        fields["warnings"] = tuple(warnings)
    return SpectralCube(stored, wavelengths, unit, quantity, provenance(header), fields)
