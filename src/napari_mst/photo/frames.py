"""The frames of a clip, one after the other: of a folder, a TIFF of pages, a GIF or a video.

Videos and GIFs are decoded by FFmpeg, through PyAV: the extra `video`.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tifffile

from napari_mst.errors import NapariMstError, PhotoError, shown
from napari_mst.photo.photo import Encoding, Photo

Frame = Photo | NapariMstError
"""A frame, or the reason why it cannot be read."""


def frames_of(clip: Path, encoding: Encoding | None = None) -> Iterator[Frame]:
    """The frames of *clip*; errors take the place of those that are damaged.

    Raises
    ------
    PhotoError
        If there is no such file, or nothing can read it.
    """
    if clip.is_dir():
        for file in sorted(clip.iterdir()):
            if file.is_file() and not file.name.startswith("."):
                try:
                    yield Photo.read(file, encoding=encoding)
                except NapariMstError as error:
                    yield error
        return
    name = f"{shown(clip.name)}, frame"
    try:
        decode = _pages if clip.suffix.lower() in (".tif", ".tiff") else _video
        for number, pixels in enumerate(decode(clip)):
            if isinstance(pixels, str):
                yield PhotoError(f"{name} {number}: Expected a frame, got damage: {pixels}.")
            else:
                yield Photo.from_array(pixels, encoding=encoding, name=f"{name} {number}")
    except (OSError, ValueError) as error:
        raise PhotoError(
            f"Expected a clip, got {shown(clip.name)}: {shown(error, 80)}. Convert it to MP4."
        ) from error


def _pages(clip: Path) -> Iterator[Any]:
    with tifffile.TiffFile(clip) as tiff:
        for page in tiff.pages:
            try:
                yield page.asarray()
            except Exception as error:  # noqa: BLE001 (decoders meet damage with all kinds)
                yield shown(error, 80)


def _video(clip: Path) -> Iterator[Any]:
    if find_spec("av") is None:
        raise PhotoError('Expected PyAV for videos, got none. Run: pip install "napari-mst[video]"')
    import av

    with av.open(str(clip)) as container:
        if not container.streams.video:
            raise ValueError("no pictures in it")
        # FFmpeg would guess what damage hides.
        container.streams.video[0].codec_context.options = {"err_detect": "explode"}
        for packet in container.demux(video=0):
            try:
                for frame in packet.decode():
                    is_whole = not frame.is_corrupt
                    yield frame.to_ndarray(format="rgb24") if is_whole else "it is damaged"
            except av.FFmpegError as error:
                yield shown(error, 80)
