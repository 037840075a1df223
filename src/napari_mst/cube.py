"""The spectral cube: (B, H, W) numbers, their wavelengths, and where they came from.

Letters: B bands, H rows, W columns.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.errors import CubeError

NANOMETRES = "nm"
"""Unit of the spectral axis of a cube that has wavelengths."""

BAND_INDEX = "band"
"""Unit of the spectral axis of a cube that has no wavelengths: 0, 1, 2, ..."""


@dataclass(frozen=True)
class Provenance:
    """The history of a cube. Empty strings and 0 mean unknown.

    Attributes
    ----------
    precision_error
        How far a precision of 16 bits was off float32 on a sample of the photo, at most, as a share
        of the largest value.
    camera, illuminant, white, white_balance
        How a linear photo came about (see `cameras.Capture`), for models that are told.
    region
        The part of the photo that was read, "row0:row1,column0:column1"; "" for all.
    is_ensemble
        Whether it is the mean over flips and transposes.
    is_preview
        Whether it was made from the photo averaged down.
    assumptions
        Sentences for a person to read.
    """

    model: str = ""
    weights_sha256: str = ""
    normalisation: str = ""
    device: str = ""
    precision: str = ""
    precision_error: float = 0.0
    engine: str = ""
    correction: str = ""
    error_factor: float = 0.0
    source: str = ""
    source_sha256: str = ""
    encoding: str = ""
    camera: str = ""
    illuminant: str = ""
    white: float = 0.0
    white_balance: str = ""
    region: str = ""
    is_ensemble: bool = False
    is_preview: bool = False
    adaptation: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()

    def gives_the_cube_of(self, other: "Provenance") -> bool:
        """True if both are of one photo and model, with the same options and versions.

        Device and memory may differ.
        """
        may_differ = {"device", "precision_error", "engine", "source", "correction", "assumptions"}
        names = {f.name for f in fields(self)} - may_differ
        is_known = bool(self.source_sha256)
        # The text of a correction is written after the run: before it only the fact is known.
        is_corrected_alike = bool(self.correction) == bool(other.correction)
        are_equal = all(getattr(self, name) == getattr(other, name) for name in names)
        return is_known and is_corrected_alike and are_equal

    def to_json(self) -> str:
        """One line of JSON, ASCII only, without the empty fields."""
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    @classmethod
    def from_json(cls, text: str) -> "Provenance":
        """The inverse of `to_json`; fields that a later version added are ignored.

        Raises
        ------
        CubeError
            If *text* is not a JSON object.
        """
        try:
            stored = json.loads(text)
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise CubeError(f"Expected provenance as a JSON object, got {text[:40]!r}.")
        known = {f.name: stored[f.name] for f in fields(cls) if f.name in stored}
        known["assumptions"] = tuple(known.get("assumptions", ()))  # JSON has no tuples
        return cls(**known)


@dataclass(frozen=True, eq=False)
class SpectralCube:
    """A cube of spectra.

    Attributes
    ----------
    data
        (B, H, W), any numeric type; float32 from a reconstruction, a memory map from a large file.
    wavelengths
        (B,) float64, centres of the bands in *unit*.
    unit
        "nm"; or, where a file gives no usable wavelengths, "band" (0, 1, 2, ...) or the file's own
        word for it.
    quantity
        The meaning of the numbers: "reflectance", "radiance", or "" if unknown.
    metadata
        Further fields of the file that it came from, by their names there (`fwhm`, `band names`,
        `map info`, ...); `georeference` tells where the pixels of a GeoTIFF lie on earth (text of
        `georeference.Georeference`).
    quality
        (H, W) float32: how far the colour of the network's spectrum was from the photo's, in 8-bit
        codes (see `consistency`); NaN where unknown. None for cubes that are not fresh from a
        reconstruction; not kept in files.

    Raises
    ------
    CubeError
        If *data* is not three-dimensional or has a side of zero, or *wavelengths* does not have B
        finite values.
    """

    data: NDArray[Any]
    wavelengths: NDArray[np.float64]
    unit: str = NANOMETRES
    quantity: str = "reflectance"
    provenance: Provenance = field(default_factory=Provenance)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    quality: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.data.ndim != 3 or 0 in self.data.shape:
            raise CubeError(
                f"Expected a cube of shape (bands, rows, columns), got {self.data.shape}."
            )
        wavelengths = np.asarray(self.wavelengths, dtype=np.float64)
        if wavelengths.shape != self.data.shape[:1] or not np.isfinite(wavelengths).all():
            raise CubeError(
                f"Expected {len(self.data)} finite wavelengths, one a band, "
                f"got {wavelengths.shape}."
            )
        # The only way to set a field of a frozen class.
        object.__setattr__(self, "wavelengths", wavelengths)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(bands, rows, columns)."""
        bands, rows, columns = self.data.shape
        return bands, rows, columns

    @property
    def has_wavelengths(self) -> bool:
        """True if the spectral axis is in nanometres."""
        return self.unit == NANOMETRES

    def spectrum(self, row: int, column: int) -> NDArray[Any]:
        """The (B,) values of one pixel.

        Raises
        ------
        CubeError
            If the pixel lies outside the image; negative numbers do not count from the end.
        """
        _, rows, columns = self.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise CubeError(
                f"Expected a pixel within {rows} rows x {columns} columns, "
                f"got row {row}, column {column}."
            )
        return np.array(self.data[:, row, column])

    def nearest_band(self, wavelength: float) -> int:
        """Index of the band whose wavelength is nearest to *wavelength* (in `unit`)."""
        return int(np.abs(self.wavelengths - wavelength).argmin())
