"""Videos and GIFs, decoded by FFmpeg (PyAV) in a separate process; see `sandbox`.

Phones record HLG or PQ by default (ITU-R BT.2100). Such frames become linear light in the primaries
of sRGB, where 1 is diffuse white: 75 % of HLG, 203 cd/m2 of PQ (ITU-R BT.2408).

Letters: H rows, W columns.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from napari_mst.base import sandbox
from napari_mst.base.arrays import Array, Singles, singles
from napari_mst.base.errors import PhotoError, shown
from napari_mst.base.sandbox import SandboxAnswer
from napari_mst.cube.colour import srgb_to_linear
from napari_mst.photo.orientation import upright
from napari_mst.photo.raw import check_size

CONTAINERS = "apng,avi,gif,matroska,mov,mpeg,mpegts"
"""FFmpeg demuxers that may open a file. Others open further files named in the file."""
# Memory per pixel: up to 17 frames from which others are predicted, and their conversions.
_PIXEL_BYTES = 128

# Matrices by their numbers in ITU-T H.273 and in FFmpeg's swscale.
_MATRICES = {1: 1, 4: 4, 5: 5, 6: 5, 7: 7, 9: 9}
_UNTAGGED = 2
# For an untagged matrix, players assume BT.709 from this width or height on, BT.601 below.
_HD = (1280, 577)
_LINEAR, _PQ, _HLG = 8, 16, 18
# Curves like BT.709, which every player replaces by the curve of the screen.
_LIKE_SRGB = (1, 2, 4, 5, 6, 7, 11, 12, 13, 14, 15)
_TO_SRGB = {  # linear BT.2020 (ITU-R BT.2087) and Display P3
    9: [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
    12: [[1.2249, -0.2247, 0], [-0.0420, 1.0419, 0], [-0.0197, -0.0786, 1.0979]],
}


def decoded(path: Path) -> Iterator[SandboxAnswer]:
    """Yield the frames of a video, with their `seconds`, `encoding` and `notes`.

    A damaged frame has a `fault` instead of pixels, and so has every later frame predicted from it.
    A truncated file ends with a `fault` without `seconds`.
    """
    sandbox.limit_memory(sandbox.ROOM_BYTES)
    import av

    settings: Any = {
        "options": {"format_whitelist": CONTAINERS, "protocol_whitelist": "none"},
        "metadata_errors": "ignore",
    }
    try:
        with path.open("rb") as file:
            with av.open(file, **settings) as container:
                seconds, stamps = _times(container)
            is_whole = _declared_bytes(file) <= path.stat().st_size
            file.seek(0)
            with av.open(file, **settings) as container:
                yield from _frames(container, seconds, stamps)
        if not is_whole:
            yield from _faults("it is cut short", [None])
    except (av.FFmpegError, ValueError) as error:
        if isinstance(error, (MemoryError, PhotoError)):
            raise
        raise not_a_clip(path, error) from error


def not_a_clip(path: Path, error: Exception) -> PhotoError:
    """The error about a file that cannot be opened as a clip."""
    return PhotoError(
        f"Expected a clip, got {shown(path.name)}: {shown(error, 80)}. Convert it to MP4."
    )


def _times(container: Any) -> tuple[list[float], list[int] | None]:
    """The seconds of all frames since the first, and their rising time stamps.

    AVI stores no time stamps, and FFmpeg guesses wrongly for frames predicted from later ones, so
    its stamps are None and the seconds come from the packets.
    """
    if not container.streams.video:
        raise ValueError("no pictures in it")
    stream = container.streams.video[0]
    packets = [each for each in container.demux(stream) if each.size and not each.is_discard]
    stamps = [each.pts for each in packets]
    has_stamps = container.format.name != "avi" and None not in stamps
    stamps = sorted(stamps if has_stamps else [each.dts or 0 for each in packets])
    seconds = [float((stamp - stamps[0]) * stream.time_base) for stamp in stamps]
    return seconds, stamps if has_stamps else None


def _frames(
    container: Any, seconds: list[float], stamps: list[int] | None
) -> Iterator[SandboxAnswer]:
    """Yield the results of `decoded`; time stamps place all frames, including damaged ones."""
    import av

    stream = container.streams.video[0]
    context = stream.codec_context
    check_size(context.width, context.height)
    sandbox.limit_memory(sandbox.ROOM_BYTES + _PIXEL_BYTES * context.width * context.height)
    # With more threads, errors would be raised for later packets.
    context.thread_count = 1
    # By default FFmpeg fills damaged parts by guessing.
    context.options = {"err_detect": "explode"}
    fault, number = "", 0
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except av.FFmpegError as error:
            fault, frames = shown(error, 80), []
            if stamps is None:
                yield from _faults(fault, seconds[number : number + 1])
                number += 1
        for frame in frames:
            place = number if stamps is None else max(number, bisect_left(stamps, frame.pts))
            yield from _faults(fault, seconds[number:place])
            fault = "" if frame.key_frame else fault
            fault = "it is damaged" if frame.is_corrupt else fault
            number = place + 1
            when = seconds[min(place, len(seconds) - 1)]
            if fault:
                yield from _faults(fault, [when])
            else:
                yield _answer(frame, when)
    yield from _faults(fault, seconds[number:])


def _faults(fault: str, seconds: Sequence[float | None]) -> Iterator[SandboxAnswer]:
    """Yield the *fault*, if there is one, for each frame at *seconds*."""
    for when in seconds if fault else ():
        yield {"shape": [0], "dtype": "u1", "seconds": when, "fault": fault}, ()


def _answer(frame: Any, seconds: float) -> SandboxAnswer:
    """The upright pixels (H, W, 3) of *frame*, for `Photo.from_array`."""
    notes: list[str] = []
    check_size(frame.width, frame.height)
    stored = upright(_rgb(frame, notes), _orientation(frame))
    pixels, encoding = _in_srgb(stored, int(frame.color_trc), int(frame.color_primaries), notes)
    facts = {
        "shape": pixels.shape,
        "dtype": pixels.dtype.str,
        "seconds": seconds,
        "encoding": encoding,
        "notes": notes,
    }
    return facts, [np.ascontiguousarray(pixels)]


def _rgb(frame: Any, notes: list[str]) -> Array:
    """The code values of *frame* in its own colours, uint8, or uint16 for more than 8 bits."""
    components = frame.format.components
    is_deep = max(each.bits for each in components) > 8
    kind = "rgb48" if is_deep else "rgb24"
    if frame.format.is_rgb or len(components) < 3:
        return frame.to_ndarray(format=kind)
    matrix = int(frame.colorspace)
    if matrix == _UNTAGGED:
        is_hd = frame.width >= _HD[0] or frame.height >= _HD[1]
        matrix, name = (1, "BT.709") if is_hd else (5, "BT.601")
        notes.append(f"Its colour matrix is not tagged: by its size, {name} was taken.")
    if matrix not in _MATRICES:
        raise _unknown(f"matrix {matrix}")
    return frame.to_ndarray(format=kind, src_colorspace=_MATRICES[matrix])


def _orientation(frame: Any) -> int:
    """The EXIF orientation of *frame*, from a display matrix that rotates by right angles."""
    found = frame.side_data.get("DISPLAYMATRIX")
    if not found:
        return 1
    (a, b), (c, d) = np.frombuffer(bytes(found), np.int32).reshape(3, 3)[:2, :2].tolist()
    # In the matrix, a and b place a column, c and d a row.
    is_upright = abs(a) + abs(d) >= abs(b) + abs(c)
    across, down = (a, d) if is_upright else (c, b)
    return (1 if is_upright else 5) + (1 + (down < 0) if across < 0 else 3 * (down < 0))


def _in_srgb(stored: Array, curve: int, primaries: int, notes: list[str]) -> tuple[Array, str]:
    """Values in sRGB or linear, and their encoding, by H.273's *curve* and *primaries*."""
    if curve in _LIKE_SRGB and primaries not in _TO_SRGB:
        return stored, "srgb"
    values = singles(stored) / np.float32(np.iinfo(stored.dtype).max)
    if curve in _LIKE_SRGB:
        linear = srgb_to_linear(values)
    elif curve == _LINEAR:
        linear = values
    elif curve == _HLG:
        linear = hlg_to_linear(values)
        notes.append("HLG was converted to linear light: 75 % of HLG is white.")
    elif curve == _PQ:
        linear = pq_to_linear(values)
        notes.append("PQ was converted to linear light: 203 cd/m2 are white.")
    else:
        raise _unknown(f"transfer curve {curve}")
    if primaries in _TO_SRGB:
        linear = np.maximum(linear @ singles(_TO_SRGB[primaries]).T, 0)
        notes.append("Colours outside sRGB were clipped.")
    return linear, "linear"


def hlg_to_linear(values: Singles) -> Singles:
    """Scene light of HLG *values*, with 1 at 75 % (ITU-R BT.2100, BT.2408)."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    bright = (np.exp((np.maximum(values, 0.5) - c) / a) + b) / 12
    white = (np.exp((0.75 - c) / a) + b) / 12
    return singles(np.where(values <= 0.5, values**2 / 3, bright) / white)


def pq_to_linear(values: Singles) -> Singles:
    """Display light of PQ *values*, with 1 at 203 cd/m2 (SMPTE ST 2084, BT.2408)."""
    m1, m2 = 2610 / 16384, 2523 / 32
    c1, c2, c3 = 3424 / 4096, 2413 / 128, 2392 / 128
    root = values.astype(np.float64) ** (1 / m2)
    return singles(10000 / 203 * (np.maximum(root - c1, 0) / (c2 - c3 * root)) ** (1 / m1))


def _unknown(got: str) -> PhotoError:
    return PhotoError(
        f"Expected video in sRGB, BT.709, BT.2020, HLG or PQ, got {got} of H.273. "
        "Convert it to BT.709."
    )


def _declared_bytes(file: BinaryIO) -> int:
    """The length in bytes stated in a container; 0 if it states none."""
    file.seek(0)
    head = file.read(4096)
    if head[:4] == b"RIFF":
        return 8 + int.from_bytes(head[4:8], "little")
    if head[:4] == b"GIF8":
        size = file.seek(-1, 2)
        return size + 1 + (file.read(1) != b";")
    if head[:4] == b"\x1aE\xdf\xa3":
        return _matroska_bytes(head)
    return _boxes_bytes(file) if head[4:8] == b"ftyp" else 0


def _matroska_bytes(head: bytes) -> int:
    """The end of the segment that follows the header of a Matroska file (RFC 8794)."""
    end = 0
    for _ in range(2):
        at = end + 4  # after the identifier
        length = 9 - head[at].bit_length()
        size = int.from_bytes(head[at : at + length]) & (1 << 7 * length) - 1
        end = at + length + size
    is_unknown = size == (1 << 7 * length) - 1
    return 0 if is_unknown else end


def _boxes_bytes(file: BinaryIO) -> int:
    """The end of the last box of an MP4 or QuickTime file (ISO/IEC 14496-12)."""
    end = 0
    for _ in range(2**16):
        file.seek(end)
        box = file.read(16)
        size = int.from_bytes(box[:4])
        if size == 1:
            size = int.from_bytes(box[8:])
        if len(box) < 8 or size < 8:
            break
        end += size
    return end
