"""The command `attention`: attention matrices, maps, and weights of pixels for a photo."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from napari_mst.attention.overlays import OVERLAYS
from napari_mst.attention.record_files import write_attention, write_figure, write_maps
from napari_mst.attention.record_views import AttentionMap, Selection
from napari_mst.base import atomic_save
from napari_mst.base.errors import AttentionError, PhotoError, SaveError, shown
from napari_mst.base.progress import Progress
from napari_mst.batch.jobs import find_photos
from napari_mst.cli.acquisition_answers import UNANSWERED, AcquisitionAnswers
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.photo_options import PhotoOptions, load_reconstructor
from napari_mst.cli.shared_options import DEFAULT_MODEL, USUAL, OutputFile, PixelOption
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.options import DEFAULTS, RunOptions

if TYPE_CHECKING:
    from napari_mst.attention.record import AttentionRecord
    from napari_mst.reconstruction.reconstructor import Reconstructor

FIRST_BLOCK = "stages.0.encoder.0"
"""Default block for maps."""

TIFF_SUFFIXES = (".tif", ".tiff")


@dataclass(frozen=True)
class AttentionOptions:
    """The attention to save.

    Attributes
    ----------
    mean
        save mean and standard deviation of the matrices of many photos
    side_by_side : ROW,COLUMN
        instead, save a picture (.png) of six attention mechanisms for this pixel, without a network

    pixels
    ------
    for networks in which pixels attend to pixels (in windows, or all to all): they have no matrices
    between channels, so --map, --key and --query do not apply, unless channels attend to channels
    as well (hybrid)

    pixel : ROW,COLUMN
        add the weights of every head for this pixel of the photo, in every block or in --block; may
        be repeated

    maps
    ----
    pictures of one head of a block, over the photo, for networks in which channels attend to
    channels

    map
        add this map; may be repeated
    block : NAME
        block of the network (default: stages.0.encoder.0; with --pixel, all)
    head : N
        head of the block, from 0
    key : I
        key channel, from 0 (default: all)
    query : J
        query channel, from 0 (default: all)
    """

    mean: bool = False
    side_by_side: PixelOption | None = None
    pixel: tuple[PixelOption, ...] = ()
    map: tuple[Annotated[str, OVERLAYS], ...] = ()
    block: str = ""
    head: int = 0
    key: int | None = None
    query: int | None = None

    def check(self, path: Path) -> None:
        """Check that the attention can be saved to *path*, before it is computed."""
        if self.mean and (self.map or self.pixel):
            raise SaveError("Expected --mean alone, got --map or --pixel. Leave it out.")
        suffixes: tuple[str, ...] = (".npz", ".csv")
        if self.side_by_side is not None:
            suffixes = (".png",)
        elif self.map or self.pixel:
            suffixes = (".npz", *TIFF_SUFFIXES)
        if path.suffix.lower() not in suffixes:
            raise SaveError(
                f"Expected a name that ends in {', '.join(suffixes)}, got {shown(path.name)}. "
                "Choose another: matrices go into .npz and .csv, --map and --pixel into .npz and "
                ".tif."
            )


MATRICES = AttentionOptions()
"""Saves the matrices of all blocks for one photo."""


def save_attention(
    photo: Path,
    *,
    target: OutputFile = USUAL,
    model: str = DEFAULT_MODEL,
    options: Annotated[RunOptions, ("device", "precision", "region")] = DEFAULTS,
    asked: AttentionOptions = MATRICES,
    taken: AcquisitionAnswers = UNANSWERED,
) -> None:
    """Save the attention of a model to a photo, and print the path of the file.

    Parameters
    ----------
    photo
        the photo to explore; with --mean, a folder or a pattern
    output : OUT
        file to write: .npz; .csv for the matrices alone; .tif for the maps alone, a page each
        (default: PHOTO_attention.npz, here)
    model : NAME|FILE
        name of a model or its weights file

    Examples
    --------
    napari-mst attention photo.jpg --side-by-side 120,300 -o six.png
    napari-mst attention photo.jpg -o attention.npz
    napari-mst attention photo.jpg --map score --head 0 -o maps.tif
    napari-mst attention photos/ --mean -o mean.csv
    """
    suffix = ".npz" if asked.side_by_side is None else ".png"
    path, overwrite = target.path(f"{photo.stem}_attention{suffix}"), target.overwrite
    asked.check(path)
    with asked_to_stop():
        atomic_save.check_targets([path], overwrite=overwrite)
    if photo.is_dir() and not asked.mean:
        raise PhotoError(
            f"Expected a photo, got the folder {shown(photo.name)}. "
            "Add --mean for the mean of all its photos."
        )
    found = [each for each, _ in find_photos([photo], path, note)] if asked.mean else [photo]
    photos = PhotoOptions.of(taken, found)
    if not (asked.mean or taken.patch_photo or options.region):
        photos = photos.with_greys_as_references(photo, model, options.calibrated_by)
    if asked.side_by_side is not None:
        with asked_to_stop():
            from napari_mst.attention.six_attentions import side_by_side  # imports torch

            figure = side_by_side(photos.read(photo), *asked.side_by_side).plot()
            print(write_figure(path, figure, overwrite=overwrite))
        return
    reconstructor = load_reconstructor(model, replace(options, acquisition=photos.acquisition))
    with asked_to_stop() as progress:
        if asked.mean:
            record = _mean_record(reconstructor, photos, found, photo.name, progress)
            print(write_attention(path, record, overwrite=overwrite))
            return
        shot = photos.read(photo)
        _check_network(reconstructor, shown(Path(model).name), bool(asked.pixel))
        record, maps = _explored(reconstructor, shot, asked, progress)
        for assumption in record.provenance.assumptions:
            note(f"{photo.name}: {assumption}")
        if path.suffix.lower() in TIFF_SUFFIXES:
            print(write_maps(path, maps, overwrite=overwrite))
        else:
            print(write_attention(path, record, maps, overwrite=overwrite))


def _check_network(reconstructor: "Reconstructor", model: str, is_of_pixels: bool) -> None:
    """Raise `AttentionError` if the options do not apply to the network of *model*."""
    from napari_mst.attention.recorder import attention_blocks, pixel_blocks  # imports torch

    has_pixels = pixel_blocks(reconstructor.network)
    if has_pixels and not is_of_pixels and not attention_blocks(reconstructor.network):
        raise AttentionError(
            f"Expected --pixel ROW,COLUMN, for pixels attend to pixels in {model}, "
            "got none. Name one: there are no matrices of channels, nor maps of them."
        )
    if is_of_pixels and not has_pixels:
        raise AttentionError(
            "Expected a network with attention between pixels for --pixel, got "
            f"{model}. Leave it out, or take another model."
        )


def _mean_record(
    reconstructor: "Reconstructor",
    photos: PhotoOptions,
    paths: Sequence[Path],
    name: str,
    progress: Progress,
) -> "AttentionRecord":
    """Average the matrices of many photos, described by one *name*."""
    from napari_mst.attention.explorer import AttentionExplorer  # imports torch
    from napari_mst.attention.record import AttentionRecord

    records = []
    for path in paths:
        photo = photos.read(path)
        explorer = AttentionExplorer(reconstructor, photo)
        with progress_bar(photo.name, progress) as bar:
            records.append(explorer.reporting_to(bar).record())
    return AttentionRecord.mean(records, name)


def _explored(
    reconstructor: "Reconstructor",
    photo: Photo,
    asked: AttentionOptions,
    progress: Progress,
) -> "tuple[AttentionRecord, list[AttentionMap]]":
    """Return the record of a *photo*, and the requested maps and pixel weights."""
    # These import torch, for which refused arguments must not wait.
    from napari_mst.attention.explorer import AttentionExplorer
    from napari_mst.attention.pixels import PixelExplorer
    from napari_mst.attention.recorder import pixel_blocks

    has_pixels = bool(pixel_blocks(reconstructor.network))
    maps: list[AttentionMap] = []
    if asked.map or not has_pixels:
        channels = AttentionExplorer(reconstructor, photo)
        selection = Selection(asked.block or FIRST_BLOCK, asked.head, asked.key, asked.query)
        for overlay in asked.map:
            with progress_bar(f"{photo.name}: {overlay}", progress) as bar:
                maps.append(channels.reporting_to(bar).map(overlay, selection))
    if not has_pixels:
        with progress_bar(photo.name, progress) as bar:
            return channels.reporting_to(bar).record(), maps
    pixels = PixelExplorer(reconstructor, photo)
    region = reconstructor.options.region
    top, bottom, left, right = region or (0, photo.shape[0], 0, photo.shape[1])
    names = [asked.block] if asked.block else list(pixels.blocks)
    for row, column in asked.pixel:
        if not (top <= row < bottom and left <= column < right):
            raise AttentionError(
                f"Expected a pixel in rows {top} to {bottom - 1} and columns {left} to "
                f"{right - 1}, got {row}, {column}. Count from 0."
            )
        with progress_bar(f"{photo.name}: pixel {row}, {column}", progress) as bar:
            for done, name in enumerate(names):
                part = bar.step(done, len(names))
                weights = pixels.reporting_to(part).weights(name, row - top, column - left)
                maps += weights.maps((top, left))
                part.reach(1)
    with progress_bar(photo.name, progress) as bar:
        record = pixels.reporting_to(bar).heard()
        bar.reach(1)  # recording only shapes reports no progress
    return record, maps
