"""Cubes of the frames of a clip in one OME-Zarr: (T, B, H, W), for T frames and B bands."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from napari_mst.base import atomic_save
from napari_mst.base.errors import NapariMstError, PhotoError
from napari_mst.base.progress import NO_PROGRESS, Progress
from napari_mst.cube import SpectralCube
from napari_mst.formats.zarr.reading import check_installed, is_zarr
from napari_mst.formats.zarr.writing import CubeClip, write_frames
from napari_mst.photo.frames import Frame
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.lazy_statistics import added_up
from napari_mst.reconstruction.reconstructor import Reconstructor

MOST = 8
"""Largest number of sampled frames whose statistics represent the clip."""

Frames = Callable[[], Iterator[Frame | NapariMstError]]
"""Reads a clip from the beginning, as `frames_of` does."""


def reconstruct_clip(
    read: Frames,
    reconstructor: Reconstructor,
    *,
    is_steady: bool = False,
    say: Callable[[str], object] = print,
    progress: Progress = NO_PROGRESS,
) -> CubeClip:
    """Return the cubes of the frames given by *read*; each cube is made when it is requested.

    Frames that are damaged, or differ in size from the first frame, get no cube; *say* receives a
    sentence about each.

    Parameters
    ----------
    is_steady
        Take the statistics of attention from frames sampled all over the clip, instead of from each
        frame. Equal colours then have equal spectra in all frames, and nothing flickers.

    Raises
    ------
    PhotoError
        If no frame can be read.
    """
    sample, seconds = _sampled(_photos(read(), say))
    statistics = None
    if is_steady:
        pixels = np.concatenate([photo.pixels for photo in sample], axis=1)
        sheet = replace(sample[0], pixels=pixels, sha256="", valid=None)
        statistics, _ = added_up(reconstructor.prepare(sheet).job(progress.part(0, 0)))

    def cubes() -> Iterator[SpectralCube | None]:
        for number, (photo, _) in enumerate(_photos(read(), lambda _: None)):
            if photo is None:
                yield None
                continue
            part = progress.step(number, len(seconds))
            prepared = reconstructor.prepare(photo)
            if statistics is None:
                yield prepared.reconstruct(part)
            else:
                yield prepared.reconstruct_lazy(part, add_up=lambda _: statistics)
            progress.reach((number + 1) / len(seconds))

    bands = len(reconstructor.model.card.wavelengths)
    return CubeClip(cubes(), (len(seconds), bands, *sample[0].shape), seconds)


def write_clip(path: Path, clip: CubeClip, *, overwrite: bool = False) -> Path:
    """Save *clip* as one OME-Zarr of (T, B, H, W); returns its *path*. Raises `SaveError`."""
    check_installed()
    needed = math.prod(clip.shape) * np.dtype(np.float32).itemsize
    with atomic_save.saving(path, needed=needed, overwrite=overwrite, is_ours=is_zarr) as (folder,):
        write_frames(folder, clip)
    return path


def _sampled(
    photos: Iterator[tuple[Photo | None, float | None]],
) -> tuple[list[Photo], list[float | None]]:
    """Return at most `MOST` photos from all over a clip, and the times of all frames in seconds."""
    count, step, sample, seconds = 0, 1, list[Photo](), list[float | None]()
    for photo, when in photos:
        seconds.append(when)
        if photo is None:
            continue
        if count % step == 0:
            sample.append(photo)
        if len(sample) > MOST:
            sample, step = sample[::2], 2 * step
        count += 1
    if not sample:
        raise PhotoError("Expected a clip, got no frame that can be read. Choose another.")
    return sample, seconds


def _photos(
    frames: Iterator[Frame | NapariMstError], say: Callable[[str], object]
) -> Iterator[tuple[Photo | None, float | None]]:
    """Yield photo and time of each frame; unusable frames give None, and *say* gets the reason."""
    shape = None
    for frame in frames:
        if not isinstance(frame, Frame):
            say(str(frame))
            continue
        photo = None
        if isinstance(frame.content, NapariMstError):
            say(f"{frame.content} It stays empty.")
        elif shape not in (None, frame.content.shape):
            name, got = frame.content.name, frame.content.shape
            say(f"{name}: Expected {shape} pixels, got {got}. It stays empty.")
        else:
            photo = frame.content
            # All frames have the same notes, except for their values.
            for note in photo.assumptions if shape is None else ():
                say(f"{photo.name}: {note}")
            shape = photo.shape
        yield photo, frame.seconds
