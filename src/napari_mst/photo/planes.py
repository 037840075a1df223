"""The planes listed in the XML of an OME-TIFF, in the file and in others beside it; its log.

tifffile opens every file that the XML names, in any folder, and returns zeros for missing planes.
Source: OME-TIFF specification 2016-06.
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
    """Collect the messages that tifffile logs in the block, instead of showing them."""
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
        If a plane is missing, or lies in a file that is not beside this one or belongs to another
        set; or if this file is a part of a set that another file describes.
    """
    _check_files(tif)
    for image in tif.series:
        if image.kind in ("ome", "mmstack"):
            _check_planes(image)
    return tif.series


def _check_files(tif: "TiffFile") -> None:
    """Refuse *tif* if its XML refers to unsuitable files, before tifffile opens any of them."""
    root = _root(tif)
    whole = root.find("{*}BinaryOnly")
    if whole is not None:
        raise ValueError(f"a part of the set that {whole.get('MetadataFile', '')!r} describes")
    own = root.get("UUID")
    named = {element.text: element.get("FileName", "") for element in root.iterfind(".//{*}UUID")}
    for uuid, name in named.items():
        # Without a UUID of its own, tifffile identifies a file by its name.
        is_this = uuid == own or (own is None and name.lower() == tif.filename.lower())
        if not is_this:
            _check_file(Path(tif.filehandle.dirname), name, uuid)


def _check_planes(image: "TiffPageSeries") -> None:
    # In Micro-Manager's index, planes that were never written have offset 0.
    planes = [plane for plane in image.pages if plane is not None and plane.offset]
    places = {(plane.parent.filehandle.path, plane.offset) for plane in planes}
    if len(places) < len(image.pages):
        raise ValueError(f"{len(places)} of {len(image.pages)} planes")
    if len({(plane.shape, plane.dtype) for plane in planes}) > 1:
        raise ValueError("planes of several sizes or types")


def _check_file(folder: Path, name: str, uuid: str | None) -> None:
    """Refuse a file of a set that is missing in *folder* or has another *uuid*."""
    from tifffile import TiffFile

    # A name with a drive or folders could expose any file of the user.
    if PureWindowsPath(name).name != name or not (folder / name).is_file():
        raise ValueError(f"planes in {name!r}, which is not beside it")
    with TiffFile(folder / name) as other:
        got = _root(other).get("UUID")
    if uuid is None or got != uuid:
        raise ValueError(f"planes in {name!r}, which is of another set")


def _root(tif: "TiffFile") -> ElementTree.Element:
    """The OME-XML of *tif*, parsed like in tifffile; an empty element without it."""
    try:
        return ElementTree.fromstring(tif.ome_metadata or "<none/>")
    except ElementTree.ParseError:
        return ElementTree.Element("none")
