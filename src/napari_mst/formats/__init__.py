"""Reading and writing cube files: `read_cube`, `write_cube`, and the table `FORMATS`.

Each format is one row of `FORMATS` and one module or folder here. Readers list their assumptions in
`cube.metadata["warnings"]`, a tuple of sentences for the user. The key is absent if there are no
assumptions, and writers leave it out.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from napari_mst.base import atomic_save
from napari_mst.base.errors import (
    CubeError,
    CubeFileError,
    OutOfMemory,
    SaveError,
    check_regular,
    complete,
    shown,
    unreadable,
)
from napari_mst.base.extensions import load_extensions
from napari_mst.base.progress import ProgressLike, as_progress
from napari_mst.cube import SpectralCube
from napari_mst.formats import band_folder, netcdf, numpy_files, prisma
from napari_mst.formats.array_files import Answers
from napari_mst.formats.conventions import physical
from napari_mst.formats.cube_record import IGNORED
from napari_mst.formats.envi.header import DATA_SUFFIXES, targets
from napari_mst.formats.envi.raster import is_envi, read_envi, write_envi
from napari_mst.formats.matlab.mat_files import is_matlab, read_matlab, write_matlab
from napari_mst.formats.matlab.stored import CLASSES
from napari_mst.formats.numbers import stored_type
from napari_mst.formats.tiff.reading import is_own_tiff, is_tiff, read_tiff
from napari_mst.formats.tiff.writing import write_imagej, write_tiff
from napari_mst.formats.wavelengths import with_wavelengths
from napari_mst.formats.zarr.reading import check_installed, is_own_zarr, is_zarr, read_zarr
from napari_mst.formats.zarr.writing import write_zarr


@dataclass(frozen=True)
class Format:
    """One kind of cube file: a row of `FORMATS`.

    Its functions import their library only when they are called, so that every other format works
    without zarr.

    Attributes
    ----------
    name, title
        Names for the command line and for people.
    is_mine
        Tells from the contents of a file whether it has this format.
    read
        `read(path, **options)` returns the cube.
    write
        `write(*temporaries, cube, dtype, progress)` fills the temporary files, or the temporary
        folder, that become `targets` on success; *dtype* is one of `types`.
    types
        The number types of the format in NumPy's letters, smallest first.
    suffixes
        Suffixes for writing, in lower case, with the dot; the first is the default. Empty for a
        read-only format.
    more_suffixes
        Further suffixes for reading.
    targets
        Lists the files written for a path; the last is the one to open.
    check_installed
        Raises `SaveError` if a library for writing is missing.
    is_folder
        True if a cube is a folder rather than a file.
    is_own
        Tells whether a file of this format is a cube that we saved. It reads only the description
        of the file, no numbers.
    """

    name: str
    title: str
    is_mine: Callable[[Path], bool]
    read: Callable[..., SpectralCube]
    write: Callable[..., None] = lambda *_: None
    types: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    more_suffixes: tuple[str, ...] = ()
    targets: Callable[[Path], tuple[Path, ...]] = lambda path: (path,)
    check_installed: Callable[[], None] = lambda: None
    is_folder: bool = False
    is_own: Callable[[Path], bool] = lambda _: False


_WHOLE = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")

IMAGEJ = ".imagej.tif"
"""Suffix of TIFFs that ImageJ and Fiji open as a stack of bands; GDAL needs the other kind."""

# `find_format` asks the rows in this order. ENVI comes last because its data files have no mark:
# anything with a header beside it may be ENVI.
FORMATS: list[Format] = [
    Format(
        name="imagej",
        title="ImageJ TIFF",
        suffixes=(IMAGEJ,),
        is_mine=lambda path: path.name.lower().endswith(IMAGEJ) and is_tiff(path),
        read=read_tiff,
        write=write_imagej,
        types=("u1", "u2", "f4"),
        is_own=is_own_tiff,
    ),
    Format(
        name="tiff",
        title="TIFF",
        suffixes=(".tif", ".tiff"),
        is_mine=is_tiff,
        read=read_tiff,
        write=write_tiff,
        types=(*_WHOLE, "f4", "f8"),
        is_own=is_own_tiff,
    ),
    Format(
        name="npz",
        title="NumPy archive",
        suffixes=(".npz",),
        is_mine=numpy_files.is_npz,
        read=numpy_files.read_npz,
        write=numpy_files.write_npz,
        types=(*_WHOLE, "f2", "f4", "f8"),
        is_own=numpy_files.is_own_npz,
    ),
    Format(
        name="npy",
        title="NumPy array",
        suffixes=(".npy",),
        is_mine=numpy_files.is_npy,
        read=numpy_files.read_npy,
        write=numpy_files.write_npy,
        types=(*_WHOLE, "f2", "f4", "f8"),
    ),
    Format(
        name="matlab",
        title="MATLAB",
        suffixes=(".mat",),
        is_mine=is_matlab,
        read=read_matlab,
        write=write_matlab,
        types=tuple(CLASSES),
    ),
    Format(
        name="prisma",
        title="PRISMA product",
        is_mine=prisma.is_prisma,
        read=prisma.read_prisma,
    ),
    Format(
        name="netcdf",
        title="netCDF",
        suffixes=(netcdf.SUFFIX,),
        more_suffixes=netcdf.MORE_SUFFIXES,
        is_mine=netcdf.is_netcdf,
        read=netcdf.read_netcdf,
        write=netcdf.write_netcdf,
        types=(*_WHOLE, "f4", "f8"),
    ),
    Format(
        name="zarr",
        title="OME-Zarr",
        suffixes=(".zarr",),
        is_mine=is_zarr,
        read=read_zarr,
        write=write_zarr,
        types=(*_WHOLE, "f2", "f4", "f8"),
        is_own=is_own_zarr,
        check_installed=check_installed,
        is_folder=True,
    ),
    Format(
        name="folder",
        title="Folder of band images",
        is_mine=band_folder.is_folder_of_bands,
        read=band_folder.read_folder,
        is_folder=True,
    ),
    Format(
        name="envi",
        title="ENVI raster",
        suffixes=(".hdr", ".img"),
        more_suffixes=DATA_SUFFIXES,
        is_mine=is_envi,
        read=read_envi,
        write=write_envi,
        types=("u1", "i2", "u2", "i4", "u4", "f4", "f8"),
        targets=targets,
    ),
]


def find_format(path: str | PathLike[str]) -> Format | None:
    """The format of the file at *path*, by its contents.

    None if no format recognises the file, or if it cannot be read.
    """
    path = Path(path)
    try:
        check_regular(path)
        is_folder = path.is_dir()
        for form in FORMATS:
            if form.is_folder == is_folder and form.is_mine(path):
                return form
    # An unreadable file has no format; `read_cube` gives the reason.
    except (OSError, CubeFileError):
        pass
    return None


def is_own_cube(path: str | PathLike[str]) -> bool:
    """True if the file at *path* is a cube that we saved as TIFF, npz or Zarr.

    Other programs use these formats too, so napari has to choose between their readers and ours.
    Only the description of the file is read; a damaged file gives False.
    """
    path = Path(path)
    form = find_format(path)
    try:
        return form is not None and form.is_own(path)
    # A damaged description does not tell who saved the file.
    except (CubeFileError, OSError, ValueError, AttributeError):
        return False


def read_cube(  # noqa: PLR0913 (public, its options by name)
    path: str | PathLike[str],
    *,
    variable: str | None = None,
    band_axis: int | None = None,
    wavelengths: Sequence[float] | slice | None = None,
    unit: str = "",
    scale: float | bool | None = None,
    verify: bool | None = None,
) -> SpectralCube:
    """The spectral cube in the file at *path*.

    Parameters
    ----------
    variable
        Name of the array in a file with several. Refused for formats with one array.
    band_axis
        Axis of the bands, if the file does not define it. Refused for formats that always do.
    wavelengths
        (B,), instead of the file's wavelengths; a slice goes evenly from the first to the last.
    unit
        Unit of *wavelengths*, or of the file's wavelengths if they have none: "nm" (the default),
        "um", ...
    scale
        Apply gain and offset (the default); False gives the numbers as stored. A number replaces
        gain and offset: the stored numbers are multiplied by it.
    verify
        Read all numbers now and compare them with the checksum in the file.

    Raises
    ------
    CubeFileError
        If the file is missing, damaged or not a cube.
    ChoiceNeeded
        If the file is ambiguous without one of the options.
    OutOfMemory
        If the cube does not fit into memory.

    Notes
    -----
    =======  =================================================================================
    returns  numbers with gain and offset applied; wavelengths in nm where their unit is known
    =======  =================================================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.full((3, 4, 5), 0.5, np.float32), [500, 550, 600])
    >>> nm.read_cube(nm.write_cube("cube.hdr", cube))
    <SpectralCube (3, 4, 5) float32, 500-600 nm, reflectance>
    """
    path = Path(path)
    form = _reader(path)
    is_factor = scale is not None and not isinstance(scale, bool)
    bands = 0 if isinstance(wavelengths, slice | None) else len(wavelengths)
    answers = Answers(variable, band_axis, bands)
    options = _options_of(form, answers, {"scale": False if is_factor else scale, "verify": verify})
    try:
        with complete(path.name, f"{form.title} file"):
            cube = form.read(path, **options)
        if is_factor:
            cube = _scaled(cube, float(scale or 0))
        if wavelengths is not None or unit:
            cube = with_wavelengths(cube, wavelengths, unit)
    except (CubeFileError, OutOfMemory):
        raise
    except CubeError as error:
        raise CubeFileError(f"Expected a cube in {shown(path.name)}, got none. {error}") from error
    except (OSError, MemoryError) as error:
        raise unreadable(path.name, error) from error
    return cube


def _options_of(form: Format, answers: Answers, given: dict[str, Any]) -> dict[str, Any]:
    """The options for the reader of *form*. Raises `CubeFileError` about those that it refuses."""
    known = signature(form.read).parameters.keys()
    if "answers" in known:
        given["answers"] = answers
    else:
        given |= answers._asdict()
        names = {"variable", "band_axis"} - known
        unknown = [name for name in sorted(names, reverse=True) if given[name] is not None]
        if unknown:
            raise CubeFileError(
                f"Expected options of {form.title} files, got {', '.join(unknown)}. Leave them out."
            )
    return {name: value for name, value in given.items() if name in known and value is not None}


def _scaled(cube: SpectralCube, factor: float) -> SpectralCube:
    """*cube* with its stored numbers times *factor*. Raises `CubeError` unless it is above 0."""
    if not 0 < factor < math.inf:
        raise CubeError(f"Expected a scale above 0, got {factor:g}. Give another.")
    about = {"scale_factor": factor, IGNORED: cube.metadata.get(IGNORED, math.nan)}
    data, fields, *_ = physical(cube.data, about, cube.metadata)
    return replace(cube, data=data, metadata=fields)


def write_cube(
    path: str | PathLike[str],
    cube: SpectralCube,
    *,
    overwrite: bool = False,
    progress: ProgressLike = None,
) -> Path:
    """Save *cube* in the format that the suffix of *path* names, and return the file to open.

    A crash at any moment leaves either the old file or the new one. If the format lacks the type of
    the numbers, they are stored in another type that holds every value.

    Raises
    ------
    SaveError
        If the suffix is unknown, its library is missing, the target exists (without *overwrite*),
        the disk is full, or the numbers cannot be stored without loss. The old file stays intact.

    Notes
    -----
    ====  =================================================================
    cube  any unit and number type; float32 and wavelengths in nm are usual
    ====  =================================================================

    Examples
    --------
    >>> cube = nm.SpectralCube(np.full((3, 4, 5), 0.5, np.float32), [500, 550, 600])
    >>> nm.write_cube("cube.hdr", cube).name
    'cube.hdr'
    >>> nm.write_cube("cube.tif", cube, overwrite=True).name
    'cube.tif'
    """
    path = Path(path)
    form = _writer(path)
    dtype = stored_type(cube.data, form.types, f"a {form.suffixes[0]} file")
    files = form.targets(path)
    # The extra bytes are for headers and the record.
    needed = cube.data.size * dtype.itemsize + 2**20
    is_ours = form.is_mine if form.is_folder else None
    with atomic_save.saving(*files, needed=needed, overwrite=overwrite, is_ours=is_ours) as places:
        form.write(*places, cube, dtype, as_progress(progress))
    _warn_of_pairs(files[-1])
    return files[-1]


def _warn_of_pairs(path: Path) -> None:
    """Warn that hylite 1.41 and GDAL 3.10 pair any file with an ENVI header of the same stem."""
    suffixes = {suffix for form in FORMATS if not form.is_folder for suffix in form.suffixes}
    others = [path.with_suffix(suffix) for suffix in sorted(suffixes - {".hdr", ".img"})]
    header = path.with_suffix(".hdr")
    pair = [other for other in others if path in (header, other) and other.exists()]
    if pair and header.exists():
        warnings.warn(
            f"{shown(header.name, 40)} and {shown(pair[0].name, 40)} have one name: GDAL and hylite"
            " may read one with the other. Give them different names.",
            stacklevel=3,
        )


def check_target(path: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Refuse a *path* that `write_cube` would refuse, before a long computation.

    Returns
    -------
    The file to open once the cube is saved.

    Raises
    ------
    SaveError
        If the suffix is unknown, its library is missing, the target exists (without *overwrite*),
        or nothing can be written there.
    """
    path = Path(path)
    form = _writer(path)
    files = form.targets(path)
    atomic_save.check_targets(files, overwrite=overwrite, is_folder=form.is_folder)
    return files[-1]


def _reader(path: Path) -> Format:
    """The format that reads the file at *path*. Raises `CubeFileError` if there is none."""
    check_regular(path)
    # No format recognises a damaged or missing file. Its suffix still tells which reader can give
    # the best error.
    form = find_format(path)
    if form is not None:
        return form
    suffix = path.suffix.lower()
    for form in FORMATS:
        may_be_read = form.is_folder or not path.is_dir()
        is_last = form.read is band_folder.read_folder and path.is_dir()
        if may_be_read and (is_last or suffix in (*form.suffixes, *form.more_suffixes)):
            return form
    raise CubeFileError(
        f"Expected a cube file ({_suffixes()}), got {shown(path.name)}. Open another file."
    )


def _writer(path: Path) -> Format:
    """The format that writes files with the suffix of *path*. Raises `SaveError` without one."""
    for form in FORMATS:
        if path.suffix and path.name.lower().endswith(form.suffixes):
            form.check_installed()
            return form
    raise SaveError(
        f"Expected a file name ending in {_suffixes()}, got {shown(path.name)!r}. Add one of them."
    )


def _suffixes() -> str:
    return ", ".join(suffix for form in FORMATS for suffix in form.suffixes)


load_extensions("formats")
