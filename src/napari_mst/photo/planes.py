"""The planes that the XML of an OME-TIFF names, in the file itself and in others beside it.

tifffile opens each file that the XML names, wherever it lies, and gives zeros for planes that it
does not find. Source: OME-TIFF specification 2016-06.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPageSeries


@contextmanager
def tifffile_log() -> Iterator[list[str]]:
    """The messages that tifffile logs in the block; they are shown nowhere else."""
    logged: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        logged.append(record.getMessage())
        return False

    logger = logging.getLogger("tifffile")
    logger.addFilter(keep)
    try:
        yield logged
    finally:
        logger.removeFilter(keep)


def whole_series(tif: "TiffFile") -> list["TiffPageSeries"]:
    """The images in *tif*; their planes may lie in several files of one folder.

    Raises
    ------
    ValueError
        If a plane is missing, lies in a file that is not beside this one or is of another set, or
        if this file is a part of a set that another file describes.
    """
    _check_files(tif)
    for image in tif.series:
        if image.kind in ("ome", "mmstack"):
            _check_planes(image)
    return tif.series


def _check_files(tif: "TiffFile") -> None:
    """Refuse *tif* if its XML points to other files that do not fit, before any is opened."""
    root = _root(tif)
    whole = root.find("{*}BinaryOnly")
    if whole is not None:
        raise ValueError(f"a part of the set that {whole.get('MetadataFile', '')!r} describes")
    own = root.get("UUID")
    named = {element.text: element.get("FileName", "") for element in root.iterfind(".//{*}UUID")}
    for uuid, name in named.items():
        # Where a file does not say its own UUID, tifffile knows it by its name.
        is_this = uuid == own or (own is None and name.lower() == tif.filename.lower())
        if not is_this:
            _check_file(Path(tif.filehandle.dirname), name, uuid)


def _check_planes(image: "TiffPageSeries") -> None:
    # Micro-Manager's index gives planes that were never written the place 0.
    planes = [plane for plane in image.pages if plane is not None and plane.offset]
    places = {(plane.parent.filehandle.path, plane.offset) for plane in planes}
    if len(places) < len(image.pages):
        raise ValueError(f"{len(places)} of {len(image.pages)} planes")
    if len({(plane.shape, plane.dtype) for plane in planes}) > 1:
        raise ValueError("planes of several sizes or types")


def _check_file(folder: Path, name: str, uuid: str | None) -> None:
    """Refuse a file of a set that is not in the *folder*, or has another *uuid*."""
    from tifffile import TiffFile

    # A name with a drive or folders could show any file of the user.
    if PureWindowsPath(name).name != name or not (folder / name).is_file():
        raise ValueError(f"planes in {name!r}, which is not beside it")
    with TiffFile(folder / name) as other:
        got = _root(other).get("UUID")
    if uuid is None or got != uuid:
        raise ValueError(f"planes in {name!r}, which is of another set")


def _root(tif: "TiffFile") -> ElementTree.Element:
    """The OME-XML of *tif* as tifffile parses it; an empty element if there is none."""
    try:
        return ElementTree.fromstring(tif.ome_metadata or "<none/>")
    except ElementTree.ParseError:
        return ElementTree.Element("none")
