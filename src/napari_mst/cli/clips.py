"""The command `clip`: one file of cubes from the frames of a video or a series."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from napari_mst.analysis.library import write_spectra
from napari_mst.base import atomic_save
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.photo_options import load_reconstructor
from napari_mst.cli.shared_options import DEFAULT_MODEL, USUAL, OutputFile, PixelOption
from napari_mst.cube import SpectralCube
from napari_mst.cube.spectrum import Spectrum
from napari_mst.formats.zarr.writing import CubeClip
from napari_mst.photo.frames import frames_of
from napari_mst.reconstruction.options import DEFAULTS, RunOptions


def reconstruct_frames(
    clip: Path,
    *,
    target: OutputFile = USUAL,
    steady: bool = False,
    at: tuple[PixelOption, ...] = (),
    model: str = DEFAULT_MODEL,
    options: RunOptions = DEFAULTS,
) -> None:
    """Reconstruct the frames of a clip, and print the path of the file of cubes.

    Parameters
    ----------
    clip
        a video or GIF (extra `video`), a multi-page TIFF, or a folder of photos; frames that are
        damaged, or differ in size from the first, are reported and stay empty (NaN)
    output : OUT
        .zarr to write: frames, bands, rows, columns (default: CLIP.zarr here)
    steady
        take the statistics of attention from the whole clip instead of from each frame, so that
        nothing flickers
    at : ROW,COLUMN
        also write the spectrum of a pixel in each frame, to OUT_ROW_COLUMN.csv; may be repeated
    model : NAME|FILE
        name of a model or its weights file

    Examples
    --------
    napari-mst clip clip.mp4 -o clip.zarr --steady --at 120,80
    """
    path, overwrite = target.path(f"{clip.stem}.zarr"), target.overwrite
    tables = {pixel: path.with_name(f"{path.stem}_{pixel[0]}_{pixel[1]}.csv") for pixel in at}
    with asked_to_stop():
        atomic_save.check_targets([path], overwrite=overwrite, is_folder=True)
        for table in tables.values():
            atomic_save.check_targets([table], overwrite=overwrite)
    reconstructor = load_reconstructor(model, options)
    # It imports torch.
    from napari_mst.batch.clips import reconstruct_clip, write_clip

    spectra: dict[PixelOption, list[Spectrum]] = {pixel: [] for pixel in at}

    def noted(clip: CubeClip) -> Iterator[SpectralCube | None]:
        frames = enumerate(clip.seconds)
        for cube in clip.cubes:
            number, when = next(frames)
            name = f"frame {number}" if when is None else f"frame {number}, {when:.6g} s"
            for pixel, found in spectra.items():
                if cube is not None:
                    found.append(replace(cube.spectrum(*pixel), name=name))
            yield cube
            del cube  # released before the next is computed

    with asked_to_stop() as progress, progress_bar(clip.name, progress) as bar:
        cubes = reconstruct_clip(
            partial(frames_of, clip), reconstructor, is_steady=steady, say=note, progress=bar
        )
        cubes = cubes._replace(cubes=noted(cubes))
        print(write_clip(path, cubes, overwrite=overwrite), flush=True)
    for pixel, table in tables.items():
        print(write_spectra(table, spectra[pixel], overwrite=overwrite))
