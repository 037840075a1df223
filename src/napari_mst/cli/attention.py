"""The command `attention`: matrices of a photo, maps of them, and what its pixels attend to."""

import argparse
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.attention.files import check_target, write_attention, write_maps
from napari_mst.attention.maps import AttentionMap, Selection
from napari_mst.attention.overlays import OVERLAYS
from napari_mst.attention.record import AttentionRecord
from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import (
    add_device,
    add_model,
    add_output,
    add_overwrite,
    add_region,
    pixel,
)
from napari_mst.cli.photos import PhotoOptions, add_photo_arguments, load_reconstructor
from napari_mst.errors import AttentionError, SaveError
from napari_mst.messages import shown
from napari_mst.photo.photo import Photo, Rectangle
from napari_mst.reconstruction.options import RunOptions
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.attention.explorer import AttentionExplorer
    from napari_mst.attention.pixels import PixelExplorer
    from napari_mst.reconstruction.reconstructor import Reconstructor

FIRST_BLOCK = "stages.0.encoder.0"
"""The block whose maps are made where none is named."""

TIFF_SUFFIXES = (".tif", ".tiff")

Pixel = tuple[int, int]
"""Row and column of the photo."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("photo", type=Path, metavar="PHOTO")
    add_output(parser, "OUT.npz", "file to write; a .tif holds the maps only, a page each")
    add_overwrite(parser)
    add_model(parser)
    add_device(parser)
    parser.add_argument(
        "--precision",
        choices=("float32", "float64"),
        default="float32",
        help="float64 is exact and six times slower (default: float32)",
    )
    add_region(parser)
    _add_pixel_arguments(parser)
    _add_map_arguments(parser)
    add_photo_arguments(parser)


def _add_pixel_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "pixels",
        "for networks in which pixels attend to pixels (attention in windows, or between all "
        "pixels): they have no matrices of channels, and --map, --key and --query do not apply, "
        "unless channels attend to channels in them as well (hybrid)",
    )
    group.add_argument(
        "--pixel",
        action="append",
        type=pixel,
        default=[],
        metavar="ROW,COLUMN",
        help="add the weights of every head for this pixel of the photo, in every block or in that "
        "of --block; may be repeated",
    )


def _add_map_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "maps",
        "pictures of one head of a block, over the photo, for networks in which channels attend to "
        "channels",
    )
    group.add_argument(
        "--map", action="append", choices=OVERLAYS, default=[], help="add this map; may be repeated"
    )
    group.add_argument(
        "--block",
        metavar="NAME",
        help=f"block of the network (default: {FIRST_BLOCK}; with --pixel, all)",
    )
    group.add_argument(
        "--head", type=int, default=0, metavar="N", help="head of the block, from 0 (default: 0)"
    )
    group.add_argument("--key", type=int, metavar="I", help="key channel, from 0 (default: all)")
    group.add_argument(
        "--query", type=int, metavar="J", help="query channel, from 0 (default: all)"
    )


class _Exploration:
    """A photo, and the network that looks at it; it is denoised once for all maps of a kind."""

    def __init__(
        self, reconstructor: "Reconstructor", photo: Photo, region: Rectangle | None
    ) -> None:
        self.photo = photo
        self._reconstructor = reconstructor
        self._region = region

    @cached_property
    def _channels(self) -> "AttentionExplorer":
        from napari_mst.attention.explorer import AttentionExplorer  # imports torch

        return AttentionExplorer(self._reconstructor, self.photo, region=self._region)

    @cached_property
    def _pixels(self) -> "PixelExplorer":
        from napari_mst.attention.pixels import PixelExplorer  # imports torch

        return PixelExplorer(self._reconstructor, self.photo, self._region)

    def check(self, arguments: argparse.Namespace) -> None:
        """Refuse what the network does not have. Raises `AttentionError`."""
        from napari_mst.attention.blocks import attention_blocks, pixel_blocks  # imports torch

        network = self._reconstructor.network
        if pixel_blocks(network) and not attention_blocks(network) and not arguments.pixel:
            raise AttentionError(
                f"Expected --pixel ROW,COLUMN, for pixels attend to pixels in {_name(arguments)}, "
                "got none. Name one: there are no matrices of channels, nor maps of them."
            )
        if arguments.pixel and not pixel_blocks(network):
            raise AttentionError(
                "Expected a network with attention between pixels for --pixel, got "
                f"{_name(arguments)}. Leave it out, or take another model."
            )

    def record(self, watch: Watch) -> AttentionRecord:
        """The matrices of every block that has some, and the shapes of the others."""
        from napari_mst.attention.blocks import pixel_blocks  # imports torch

        with progress_bar(self.photo.name, watch) as bar:
            if not pixel_blocks(self._reconstructor.network):
                return self._channels.watched_by(bar).record()
            heard = self._pixels.heard(bar)
            bar.reach(1)  # nothing runs for the shapes alone
            return heard

    def map(self, overlay: str, selection: Selection, watch: Watch) -> AttentionMap:
        """One map of the selected head."""
        with progress_bar(f"{self.photo.name}: {overlay}", watch) as bar:
            return self._channels.watched_by(bar).map(overlay, selection)

    def weights(self, pixel: Pixel, blocks: Sequence[str], watch: Watch) -> list[AttentionMap]:
        """The weights of a *pixel* in every head of *blocks*; of all, where none is named."""
        top, bottom, left, right = self._region or (0, self.photo.shape[0], 0, self.photo.shape[1])
        row, column = pixel
        if not (top <= row < bottom and left <= column < right):
            raise AttentionError(
                f"Expected a pixel in rows {top} to {bottom - 1} and columns {left} to "
                f"{right - 1}, got {row}, {column}. Count from 0."
            )
        found: list[AttentionMap] = []
        names = blocks or list(self._pixels.blocks)
        with progress_bar(f"{self.photo.name}: pixel {row}, {column}", watch) as bar:
            for done, name in enumerate(names):
                part = bar.part(done / len(names), (done + 1) / len(names))
                own = self._pixels.weights(name, row - top, column - left, part)
                found += own.maps((top, left))
                part.reach(1)
        return found


def _run(arguments: argparse.Namespace) -> int:
    _check_output(arguments)
    photos = PhotoOptions.from_arguments(arguments, [arguments.photo])
    options = RunOptions(
        device=arguments.device, precision=arguments.precision, capture=photos.capture
    )
    reconstructor = load_reconstructor(arguments.model, options)
    with asked_to_stop() as watch:
        photo = photos.read(arguments.photo)
        exploration = _Exploration(reconstructor, photo, arguments.region)
        exploration.check(arguments)
        maps = _maps(exploration, arguments, watch)
        record = exploration.record(watch)
        for assumption in record.provenance.assumptions:
            note(f"{arguments.photo.name}: {assumption}")
        print(_save(arguments, record, maps))
    return DONE


def _maps(
    exploration: _Exploration, arguments: argparse.Namespace, watch: Watch
) -> list[AttentionMap]:
    """All maps that are asked for."""
    block = arguments.block or FIRST_BLOCK
    selection = Selection(block, arguments.head, arguments.key, arguments.query)
    maps = [exploration.map(overlay, selection, watch) for overlay in arguments.map]
    blocks = [arguments.block] if arguments.block else []
    for place in arguments.pixel:
        maps += exploration.weights(place, blocks, watch)
    return maps


def _save(
    arguments: argparse.Namespace, record: AttentionRecord, maps: Sequence[AttentionMap]
) -> Path:
    output: Path = arguments.output
    if output.suffix.lower() in TIFF_SUFFIXES:
        return write_maps(output, maps, overwrite=arguments.overwrite)
    return write_attention(output, record, maps, overwrite=arguments.overwrite)


def _name(arguments: argparse.Namespace) -> str:
    return shown(Path(arguments.model).name)


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse before computing what could not be saved."""
    output: Path = arguments.output
    suffix = output.suffix.lower()
    if suffix not in (".npz", *TIFF_SUFFIXES):
        raise SaveError(
            f"Expected a name that ends in .npz or .tif, got {shown(output.name)}. Choose another."
        )
    if suffix in TIFF_SUFFIXES and not arguments.map and not arguments.pixel:
        raise SaveError(
            f"Expected --map or --pixel, got neither for {shown(output.name)}. "
            "A TIFF holds maps; save matrices as .npz."
        )
    with asked_to_stop():
        check_target(output, overwrite=arguments.overwrite)


ATTENTION = Command(
    name="attention",
    help="save the attention to a photo: matrices, maps, pixels",
    add_arguments=_add_arguments,
    run=_run,
)
