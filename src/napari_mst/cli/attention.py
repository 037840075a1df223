"""The command `attention`: the attention matrices of a photo, with maps of them over it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.attention.files import check_target, write_attention
from napari_mst.attention.maps import AttentionMap, Selection
from napari_mst.attention.overlays import OVERLAYS
from napari_mst.attention.record import AttentionRecord
from napari_mst.cli.command import DONE, Command
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import add_device, add_model, add_output, add_overwrite, add_region
from napari_mst.cli.photos import PhotoOptions, add_photo_arguments, load_reconstructor
from napari_mst.errors import SaveError
from napari_mst.messages import shown
from napari_mst.photo.photo import Photo, Rectangle
from napari_mst.reconstruction.options import RunOptions
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.reconstruction.reconstructor import Reconstructor


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("photo", type=Path, metavar="PHOTO")
    add_output(parser, "OUT.npz", "file to write")
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
    _add_map_arguments(parser)
    add_photo_arguments(parser)


def _add_map_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("maps", "pictures of one head of a block, over the photo")
    group.add_argument(
        "--map", action="append", choices=OVERLAYS, default=[], help="add this map; may be repeated"
    )
    group.add_argument(
        "--block",
        default="stages.0.encoder.0",
        metavar="NAME",
        help="block of the network (default: %(default)s)",
    )
    group.add_argument(
        "--head", type=int, default=0, metavar="N", help="head of the block, from 0 (default: 0)"
    )
    group.add_argument("--key", type=int, metavar="I", help="key channel, from 0 (default: all)")
    group.add_argument(
        "--query", type=int, metavar="J", help="query channel, from 0 (default: all)"
    )


class _Exploration:
    """A photo, and the network that looks at it; it is denoised once for all maps."""

    def __init__(
        self, reconstructor: "Reconstructor", photo: Photo, region: Rectangle | None
    ) -> None:
        from napari_mst.attention.explorer import AttentionExplorer  # imports torch

        self.photo = photo
        self._explorer = AttentionExplorer(reconstructor, photo, region=region)

    def record(self, watch: Watch) -> AttentionRecord:
        """The matrices of every block."""
        with progress_bar(self.photo.name, watch) as bar:
            return self._explorer.watched_by(bar).record()

    def map(self, overlay: str, selection: Selection, watch: Watch) -> AttentionMap:
        """One map of the selected head."""
        with progress_bar(f"{self.photo.name}: {overlay}", watch) as bar:
            return self._explorer.watched_by(bar).map(overlay, selection)


def _run(arguments: argparse.Namespace) -> int:
    _check_output(arguments)
    photos = PhotoOptions.from_arguments(arguments, [arguments.photo])
    options = RunOptions(
        device=arguments.device, precision=arguments.precision, capture=photos.capture
    )
    reconstructor = load_reconstructor(arguments.model, options)
    selection = Selection(arguments.block, arguments.head, arguments.key, arguments.query)
    with asked_to_stop() as is_cancelled:
        watch = Watch(is_cancelled=is_cancelled)
        photo = photos.read(arguments.photo)
        exploration = _Exploration(reconstructor, photo, arguments.region)
        maps = [exploration.map(overlay, selection, watch) for overlay in arguments.map]
        record = exploration.record(watch)
        for assumption in record.provenance.assumptions:
            note(f"{arguments.photo.name}: {assumption}")
        print(write_attention(arguments.output, record, maps, overwrite=arguments.overwrite))
    return DONE


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse before computing what could not be saved."""
    output: Path = arguments.output
    if output.suffix.lower() != ".npz":
        raise SaveError(
            f"Expected a name that ends in .npz, got {shown(output.name)}. Choose another."
        )
    with asked_to_stop():
        check_target(output, overwrite=arguments.overwrite)


ATTENTION = Command(
    name="attention",
    help="save the attention matrices of a photo, with maps over it",
    add_arguments=_add_arguments,
    run=_run,
)
