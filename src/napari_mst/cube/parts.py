"""The fields of a cube, and cuts of a cube: their checks, and their effect on metadata.

Tensors of other libraries enter through DLPack (https://dmlc.github.io/dlpack), masked arrays as
arrays with NaN. Letters: B bands, H rows, W columns.
"""

import operator
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from napari_mst.base.arrays import Array, Doubles, doubles
from napari_mst.base.errors import CubeError, shown
from napari_mst.cube.curves import BAND_INDEX, NANOMETRES, extent
from napari_mst.cube.georeference import FIELD, Georeference
from napari_mst.cube.lazy import Numbers
from napari_mst.cube.provenance import Provenance


def array_of_tensor(tensor: Any) -> Array:
    """The numbers of *tensor* as an array that shares its memory.

    Raises
    ------
    CubeError
        If the tensor is not in main memory, needs gradients, or has a type that NumPy lacks.
    """
    try:
        return np.from_dlpack(tensor)
    # Libraries raise different types: torch a RuntimeError for bfloat16, TypeError for sparse.
    except (AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError) as error:
        raise CubeError(
            f"Expected a tensor that NumPy can share, got {shown(type(tensor).__name__, 30)}: "
            f"{shown(error, 80)}. Convert it first, as by tensor.detach().float().cpu()."
        ) from error


def plain_array(source: ArrayLike) -> Array:
    """*source* as an array without a mask: masked numbers become NaN, and integers floats."""
    if not np.ma.is_masked(source):
        return np.asarray(source)
    numbers = np.ma.getdata(source)
    floats = numbers.astype(np.result_type(numbers, np.float32))
    floats[np.ma.getmaskarray(np.asanyarray(source))] = np.nan
    return floats


Span = slice | tuple[int, int]
"""A range of rows or columns, (start, stop) or a slice; *stop* is excluded."""

_OF_PIXELS = frozenset({"geo points", "map info", "picks", "rpc info", "x start", "y start"})
"""Metadata fields that refer to pixels of the whole image, and are wrong for a part of it."""

_OF_BANDS = ("band names", "bbl", "fwhm", "data gain values", "data offset values")
"""Metadata fields with one value per band."""

DEFAULT_BANDS = "default bands"
"""ENVI field with the 1-based numbers of the bands to display as red, green and blue."""

ABOUT_BANDS = frozenset({*_OF_BANDS, DEFAULT_BANDS})
"""Metadata fields that describe single bands."""

Cube = TypeVar("Cube", bound="PlainCube")
"""Any kind of cube; a function returns the kind that it was given."""


@dataclass(frozen=True, eq=False)
class PlainCube:
    """The fields of a `SpectralCube`, documented there, and the cube as an array for libraries."""

    data: Numbers
    wavelengths: Doubles
    unit: str = NANOMETRES
    quantity: str = "reflectance"
    provenance: Provenance = field(default_factory=Provenance)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given: Any = self.data
        if not isinstance(given, np.ndarray) and hasattr(given, "__dlpack__"):
            object.__setattr__(self, "data", array_of_tensor(given))
        # A masked array exists only if its module was imported before, which takes 0.02 s.
        if "numpy.ma" in sys.modules and isinstance(given, np.ma.MaskedArray):
            object.__setattr__(self, "data", plain_array(given))
        if self.data.ndim != 3 or 0 in self.data.shape:
            raise CubeError(
                f"Expected a cube of shape (bands, rows, columns), got {self.data.shape}."
            )
        wavelengths = doubles(self.wavelengths)
        if wavelengths.shape != self.data.shape[:1] or not np.isfinite(wavelengths).all():
            raise CubeError(
                f"Expected {len(self.data)} finite wavelengths, one a band, "
                f"got {wavelengths.shape}."
            )
        # The only way to set a field of a frozen class.
        object.__setattr__(self, "wavelengths", wavelengths)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """`data` (B, H, W) for NumPy, without a copy where possible.

        Raises
        ------
        CubeError
            If *copy* is False, and `data` has another *dtype* or would have to be read first.
        """
        is_there = isinstance(self.data, np.ndarray)
        is_same = dtype is None or np.dtype(dtype) == self.data.dtype
        if copy is False and not (is_there and is_same):
            raise CubeError(
                f"Expected to copy {self.data.dtype} data of type {type(self.data).__name__}, "
                "got copy=False. Leave `copy` out."
            )
        # Before NumPy 2, copy=None had another meaning.
        return np.array(self.data, dtype) if copy else np.asarray(self.data, dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """`data` for other array libraries, as in `torch.from_dlpack(cube)`.

        Raises
        ------
        BufferError
            If the numbers are read-only, as those of a file opened for reading.
        """
        return np.asarray(self.data).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device of `data` as DLPack names it: main memory."""
        return np.empty(0).__dlpack_device__()

    def __getitem__(self, key: Any) -> Any:
        """The numbers at *key*, as a plain array or one number: NumPy's indexing of `data`.

        From data that are still in a file, only these numbers are read. Slices of data in memory
        are views.

        Raises
        ------
        IndexError
            If *key* lies outside the cube.

        Examples
        --------
        >>> cube = nm.SpectralCube(np.zeros((3, 40, 50), np.float32), [500, 550, 600])
        >>> cube[0].shape, cube[:, 10:20].shape
        ((40, 50), (3, 10, 50))
        """
        # The empty key turns an array without axes into a number, and leaves others as they are.
        return np.asarray(self.data[key])[()]

    def __iter__(self) -> NoReturn:
        # `__getitem__` alone would make the cube iterable, and `in` would read all of a large file.
        raise TypeError(
            "Expected cube.data to loop over, or add_cube(viewer, cube) to show it, got the cube."
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Bands, rows and columns, (B, H, W)."""
        bands, rows, columns = self.data.shape
        return bands, rows, columns

    @property
    def has_wavelengths(self) -> bool:
        """True if the spectral axis is in nanometres."""
        return self.unit == NANOMETRES

    def nearest_band(self, wavelength: float) -> int:
        """Index of the band whose wavelength is nearest to *wavelength* (in `unit`)."""
        return int(np.abs(self.wavelengths - wavelength).argmin())

    def _axis_text(self) -> str:
        has_none = self.unit == BAND_INDEX
        return "no wavelengths" if has_none else extent(self.wavelengths, self.unit)

    def _band_at(self, wavelength: float) -> int:
        if not self.wavelengths.min() <= wavelength <= self.wavelengths.max():
            raise CubeError(
                f"Expected a wavelength within {self._axis_text()}, got {wavelength:g}. "
                "Choose one that the cube has."
            )
        return self.nearest_band(wavelength)

    def _bands_within(self, span: slice) -> list[int]:
        """The indices of the bands within *span*, both ends included."""
        low = -np.inf if span.start is None else span.start
        high = np.inf if span.stop is None else span.stop
        is_within = (self.wavelengths >= low) & (self.wavelengths <= high)
        bands: list[int] = np.flatnonzero(is_within).tolist()
        if not bands or span.step is not None:
            raise CubeError(
                f"Expected two wavelengths with bands of {self._axis_text()} between them, "
                f"got {span}. Write the lower one first, and no step."
            )
        return bands


def without(fields: Mapping[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    """*fields* without the names in *left_out*."""
    return {key: value for key, value in fields.items() if key not in left_out}


def with_tuples(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata *stored* as JSON, with its lists turned back into tuples."""
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()
    }


def checked_span(span: Span, length: int, name: str) -> slice:
    """*span* as a slice with a start and a stop, within *length* and not empty.

    Raises
    ------
    CubeError
        If it is empty, reaches beyond 0 to *length*, has a step, or is not of whole numbers. The
        message calls it *name*.
    """
    try:
        start, stop = (span.start, span.stop) if isinstance(span, slice) else span
        first = 0 if start is None else operator.index(start)
        end = length if stop is None else operator.index(stop)
    except (TypeError, ValueError):
        raise CubeError(
            f"Expected {name} as (start, stop) or a slice of whole numbers, got {shown(span)}."
        ) from None
    takes_each = not isinstance(span, slice) or span.step in (None, 1)
    if not takes_each or not 0 <= first < end <= length:
        raise CubeError(
            f"Expected {name} from 0 to {length}, without a step, got {shown(span)}. "
            "Choose a part that lies on the image."
        )
    return slice(first, end)


def cropped_metadata(metadata: Mapping[str, Any], top: int, left: int) -> dict[str, Any]:
    """*metadata* for the part of the image that begins at row *top* and column *left*."""
    kept = without(metadata, _OF_PIXELS)
    place = Georeference.of_metadata(kept)
    if place is not None:
        kept[FIELD] = place.cropped(top, left).to_json()
    return kept


def metadata_of_cut(
    metadata: Mapping[str, Any], then: tuple[int, int, int], now: tuple[int, int, int]
) -> dict[str, Any]:
    """*metadata* of a cube of shape *then* for a part of shape *now* that another library cut out.

    If pixels are missing, fields about pixels and the georeference are left out; if bands are
    missing, fields with a value per band.
    """
    kept = dict(metadata)
    if then[1:] != now[1:]:
        kept = without(kept, _OF_PIXELS | {FIELD})
    if then[0] != now[0]:
        kept = without(kept, ABOUT_BANDS)
    return kept


def metadata_of_bands(
    metadata: Mapping[str, Any], bands: Sequence[int], count: int
) -> dict[str, Any]:
    """*metadata* for some *bands* of *count*, without the default bands, which number all bands."""
    kept = without(metadata, [DEFAULT_BANDS])
    for key in [key for key in _OF_BANDS if key in kept]:
        value = kept.pop(key)
        is_text = isinstance(value, str)
        values = value.strip("{} ").split(",") if is_text else value
        # A field with another number of values does not describe single bands.
        if np.ndim(values) == 1 and len(values) == count:
            chosen = tuple(values[band] for band in bands)
            kept[key] = "{" + ",".join(chosen) + "}" if is_text else chosen
    return kept
