"""Reads the frames of a clip: a folder, a multi-page TIFF, a GIF or a video."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import tifffile

from napari_mst.base import sandbox
from napari_mst.base.errors import NapariMstError, OutOfMemory, PhotoError, shown
from napari_mst.photo.photo import Photo
from napari_mst.photo.planes import tifffile_log
from napari_mst.photo.video import not_a_clip


class Frame(NamedTuple):
    """A frame of a clip, or the reason why it cannot be read.

    `seconds` since the first frame are None if the clip stores no times.
    """

    content: Photo | NapariMstError
    seconds: float | None = None


def frames_of(clip: Path) -> Iterator[Frame | NapariMstError]:
    """Yield the frames of *clip*; a damaged frame is replaced by its error.

    A bare error means that the clip as a whole is truncated.

    Raises
    ------
    PhotoError
        If the file is missing or unreadable.
    OutOfMemory
        If a frame does not fit into memory.
    """
    # Reading a pipe would wait for a writer, and a device may never end.
    if not (clip.is_file() or clip.is_dir()):
        raise not_a_clip(clip, FileNotFoundError("no file of this name"))
    is_tiff = clip.suffix.lower() in (".tif", ".tiff")
    decode = _files if clip.is_dir() else _pages if is_tiff else _video
    try:
        yield from decode(clip, f"{shown(clip.name)}, frame")
    except NapariMstError:
        raise
    except (OSError, ValueError) as error:
        raise not_a_clip(clip, error) from error
    except MemoryError as error:
        raise OutOfMemory(
            "Expected memory for the frames, got too little. Close other programs."
        ) from error


def _files(folder: Path, _: str) -> Iterator[Frame]:
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            try:
                yield Frame(Photo.read(file))
            except NapariMstError as error:
                yield Frame(error)


def _cut(clip: Path) -> PhotoError:
    return PhotoError(
        f"Expected all of {shown(clip.name)}, got a file that is cut short: its last frames are "
        "lost. Copy it again."
    )


def _damaged(name: str, fault: object) -> PhotoError:
    return PhotoError(f"{name}: Expected a frame, got damage: {shown(fault, 80)}.")


def _pages(clip: Path, name: str) -> Iterator[Frame | NapariMstError]:
    # Only tifffile's log tells that pages lie beyond the end of the file.
    with tifffile_log() as logged, tifffile.TiffFile(clip) as tiff:
        for number, page in enumerate(tiff.pages):
            try:
                yield Frame(Photo.from_array(page.asarray(), name=f"{name} {number}"))
            except Exception as error:  # noqa: BLE001 (decoders meet damage with all kinds)
                yield Frame(_damaged(f"{name} {number}", error))
    if any("page offset" in line for line in logged):
        yield _cut(clip)


def _video(clip: Path, name: str) -> Iterator[Frame | NapariMstError]:
    if find_spec("av") is None:
        raise PhotoError('Expected PyAV for videos, got none. Run: pip install "napari-mst[video]"')

    def refusal(got: str, advice: str) -> PhotoError:
        return PhotoError(f"Expected a clip, got {got}. {advice}")

    results = sandbox.stream("napari_mst.photo.video:decoded", clip, (), refusal)
    for number, (facts, pixels) in enumerate(results):
        seconds = facts["seconds"]
        if seconds is None:
            yield _cut(clip)
        elif "fault" in facts:
            yield Frame(_damaged(f"{name} {number}", facts["fault"]), seconds)
        else:
            photo = Photo.from_array(
                pixels,
                encoding=facts["encoding"],
                full_scale=1.0 if pixels.dtype.kind == "f" else None,
                name=f"{name} {number}",
            )
            notes = (*photo.assumptions, *facts["notes"])
            yield Frame(replace(photo, assumptions=notes), seconds)
