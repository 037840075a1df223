"""The cubes of the frames of a clip, in one OME-Zarr: (T, B, H, W). T frames, B bands."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from napari_mst import crash_safe
from napari_mst.cube import SpectralCube
from napari_mst.errors import NapariMstError, PhotoError
from napari_mst.formats.zarr.reading import check_installed, is_zarr
from napari_mst.formats.zarr.writing import write_frames
from napari_mst.photo.frames import Frame
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.reconstructor import Reconstructor
from napari_mst.reconstruction.statistics import added_up
from napari_mst.watch import UNWATCHED, Watch

MOST = 8
"""Frames from all over a clip whose statistics stand for all, at most."""


def reconstruct_clip(
    read: Callable[[], Iterator[Frame]],
    reconstructor: Reconstructor,
    *,
    is_steady: bool = False,
    say: Callable[[str], object] = print,
    watch: Watch = UNWATCHED,
) -> Iterator[SpectralCube]:
    """The cubes of the frames that *read* gives, one after the other, as `frames_of` does.

    Frames that are damaged, or of another size than the first, are left out, which *say* hears.

    Parameters
    ----------
    is_steady
        Take the statistics of attention from some frames of all the clip, side by side, instead of
        each frame's own: equal colours have equal spectra then in all frames, and nothing flickers.

    Raises
    ------
    PhotoError
        If no frame can be read.
    """
    count, step, sample = 0, 1, list[Photo]()
    for count, frame in enumerate(_good(read(), say), 1):
        if (count - 1) % step == 0:
            sample.append(frame)
        if len(sample) > MOST:
            sample, step = sample[::2], 2 * step
    if not sample:
        raise PhotoError("Expected a clip, got no frame that can be read. Choose another.")
    statistics = None
    if is_steady:
        pixels = np.concatenate([frame.pixels for frame in sample], axis=1)
        sheet = replace(sample[0], pixels=pixels, sha256="", valid=None)
        statistics, _ = added_up(reconstructor.see(sheet).job(watch.part(0, 0)))
    del sample
    for number, frame in enumerate(_good(read(), lambda _: None)):
        part = watch.step(number, count)
        seen = reconstructor.see(frame)
        if statistics is None:
            yield seen.reconstruct(part)
        else:
            yield seen.open(part, add_up=lambda _: statistics)
        watch.reach((number + 1) / count)


def write_clip(path: Path, cubes: Iterator[SpectralCube], *, overwrite: bool = False) -> Path:
    """Save *cubes* as one OME-Zarr of (T, B, H, W); returns its *path*. Raises `SaveError`."""
    check_installed()
    with crash_safe.saving(path, needed=0, overwrite=overwrite, is_ours=is_zarr) as (folder,):
        write_frames(folder, cubes)
    return path


def _good(frames: Iterator[Frame], say: Callable[[str], object]) -> Iterator[Photo]:
    """The *frames* that can be read and are as large as the first of them."""
    shape = None
    for frame in frames:
        if isinstance(frame, NapariMstError):
            say(f"{frame} It is left out.")
            continue
        shape = shape or frame.shape
        if frame.shape == shape:
            yield frame
        else:
            say(f"{frame.name}: Expected {shape} pixels, got {frame.shape}. It is left out.")
