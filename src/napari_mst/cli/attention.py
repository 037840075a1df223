"""The command `attention`: matrices of a photo, maps of them, and what its pixels attend to."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from napari_mst.attention.files import (
    check_target,
    write_attention,
    write_figure,
    write_maps,
)
from napari_mst.attention.maps import AttentionMap, Selection
from napari_mst.attention.overlays import OVERLAYS
from napari_mst.batch.jobs import find_photos
from napari_mst.cli.arguments import DONE
from napari_mst.cli.captures import CaptureAnswers
from napari_mst.cli.console import note, progress_bar
from napari_mst.cli.control_c import asked_to_stop
from napari_mst.cli.options import DEFAULT_MODEL, Model, Overwrite, pixel_of, to_file
from napari_mst.cli.photos import PhotoOptions, load_reconstructor
from napari_mst.errors import AttentionError, SaveError, shown
from napari_mst.option import Only, Option
from napari_mst.photo.photo import Photo
from napari_mst.reconstruction.options import DEFAULTS, RunOptions
from napari_mst.watch import Watch

if TYPE_CHECKING:
    from napari_mst.attention.pixels import PixelExplorer
    from napari_mst.reconstruction.reconstructor import Reconstructor

FIRST_BLOCK = "stages.0.encoder.0"
"""The block whose maps are made where none is named."""

TIFF_SUFFIXES = (".tif", ".tiff")

Pixel = tuple[int, int]
"""Row and column of the photo."""


_PIXELS = (
    "pixels",
    "for networks in which pixels attend to pixels (attention in windows, or between all pixels): "
    "they have no matrices of channels, and --map, --key and --query do not apply, unless channels "
    "attend to channels in them as well (hybrid)",
)
_MAPS = (
    "maps",
    "pictures of one head of a block, over the photo, for networks in which channels attend to "
    "channels",
)


@dataclass(frozen=True)
class Attention:
    """A photo, a model, and what of the model's attention to the photo is saved."""

    photo: Annotated[
        Path,
        Option(
            "the photo that the network looks at; with --mean a folder, or a pattern",
            is_positional=True,
        ),
    ]
    output: Annotated[
        Path | None,
        to_file(
            "file to write, .npz; a .csv holds the matrices only, a .tif the maps only, a page "
            "each (default: PHOTO_attention.npz, here)"
        ),
    ] = None
    overwrite: Overwrite = False
    model: Model = DEFAULT_MODEL
    options: Annotated[RunOptions, Only("device", "precision", "region")] = DEFAULTS
    pixel: Annotated[
        tuple[Pixel, ...],
        Option(
            "add the weights of every head for this pixel of the photo, in every block or in that "
            "of --block; may be repeated",
            "ROW,COLUMN",
            parse=pixel_of,
            is_repeated=True,
            group=_PIXELS,
        ),
    ] = ()
    map: Annotated[
        tuple[str, ...],
        Option("add this map; may be repeated", choices=OVERLAYS, is_repeated=True, group=_MAPS),
    ] = ()
    block: Annotated[
        str,
        Option(
            f"block of the network (default: {FIRST_BLOCK}; with --pixel, all)", "NAME", group=_MAPS
        ),
    ] = ""
    head: Annotated[int, Option("head of the block, from 0", "N", group=_MAPS)] = 0
    key: Annotated[int | None, Option("key channel, from 0 (default: all)", "I", group=_MAPS)] = (
        None
    )
    query: Annotated[
        int | None, Option("query channel, from 0 (default: all)", "J", group=_MAPS)
    ] = None
    mean: Annotated[
        bool, Option("save the mean and the standard deviation of the matrices of many photos")
    ] = False
    side_by_side: Annotated[
        Pixel | None,
        Option(
            "save a picture (.png) of six attentions of this pixel instead, side by side, without "
            "a network",
            "ROW,COLUMN",
            parse=pixel_of,
        ),
    ] = None
    taken: CaptureAnswers = field(default_factory=CaptureAnswers)

    examples = (
        "attention photo.jpg --side-by-side 120,300 -o six.png",
        "attention photo.jpg -o attention.npz",
        "attention photo.jpg --map score --head 0 -o maps.tif",
        "attention photos/ --mean -o mean.csv",
    )

    def run(self) -> int:
        """Save the attention, and print the path of the file."""
        if self.side_by_side is not None:
            return self._save_side_by_side(*self.side_by_side)
        return self._save_mean() if self.mean else self._save_attention()

    def _save_attention(self) -> int:
        target = self.output or Path(f"{self.photo.stem}_attention.npz")
        self._check_target(target)
        photos = PhotoOptions.of(self.taken, [self.photo])
        reconstructor = self._reconstructor(photos)
        # They import torch, which a refused argument must not wait for.
        from napari_mst.attention.blocks import attention_blocks, pixel_blocks
        from napari_mst.attention.explorer import AttentionExplorer
        from napari_mst.attention.pixels import PixelExplorer

        region = self.options.region
        with asked_to_stop() as watch:
            photo = photos.read(self.photo)
            has_pixels = bool(pixel_blocks(reconstructor.network))
            has_channels = bool(attention_blocks(reconstructor.network))
            self._check_network(has_channels, has_pixels)
            maps: list[AttentionMap] = []
            if self.map or not has_pixels:
                channels = AttentionExplorer(reconstructor, photo, region=region)
                selection = Selection(self.block or FIRST_BLOCK, self.head, self.key, self.query)
                for overlay in self.map:
                    with progress_bar(f"{photo.name}: {overlay}", watch) as bar:
                        maps.append(channels.watched_by(bar).map(overlay, selection))
            if has_pixels:
                pixels = PixelExplorer(reconstructor, photo, region=region)
                for place in self.pixel:
                    maps += self._weights(pixels, photo, place, watch)
            with progress_bar(photo.name, watch) as bar:
                if has_pixels:
                    record = pixels.watched_by(bar).heard()
                    bar.reach(1)  # nothing runs for the shapes alone
                else:
                    record = channels.watched_by(bar).record()
            for assumption in record.provenance.assumptions:
                note(f"{self.photo.name}: {assumption}")
            if target.suffix.lower() in TIFF_SUFFIXES:
                print(write_maps(target, maps, overwrite=self.overwrite))
            else:
                print(write_attention(target, record, maps, overwrite=self.overwrite))
        return DONE

    def _reconstructor(self, photos: PhotoOptions) -> "Reconstructor":
        return load_reconstructor(self.model, replace(self.options, capture=photos.capture))

    def _save_mean(self) -> int:
        """Save the mean of the matrices of many photos, and print the path of the file."""
        target = self.output or Path(f"{self.photo.stem}_attention.npz")
        self._check_target(target)
        paths = [path for path, _ in find_photos([self.photo], target, note)]
        photos = PhotoOptions.of(self.taken, paths)
        reconstructor = self._reconstructor(photos)
        from napari_mst.attention.explorer import AttentionExplorer  # imports torch
        from napari_mst.attention.record import AttentionRecord

        records = []
        with asked_to_stop() as watch:
            for path in paths:
                photo = photos.read(path)
                explorer = AttentionExplorer(reconstructor, photo, region=self.options.region)
                with progress_bar(photo.name, watch) as bar:
                    records.append(explorer.watched_by(bar).record())
            record = AttentionRecord.mean(records, self.photo.name)
            print(write_attention(target, record, overwrite=self.overwrite))
        return DONE

    def _save_side_by_side(self, row: int, column: int) -> int:
        """Save the picture of six attentions of a pixel, and print its path."""
        target = self.output or Path(f"{self.photo.stem}_attention.png")
        if target.suffix.lower() != ".png":
            raise SaveError(
                f"Expected a name that ends in .png, got {shown(target.name)}. Choose another."
            )
        with asked_to_stop():
            check_target(target, overwrite=self.overwrite)
            photo = PhotoOptions.of(self.taken, [self.photo]).read(self.photo)
            from napari_mst.attention.side_by_side import side_by_side  # imports torch

            figure = side_by_side(photo, row, column).plot()
            print(write_figure(target, figure, overwrite=self.overwrite))
        return DONE

    def _check_target(self, target: Path) -> None:
        """Refuse before computing what could not be saved."""
        suffix = target.suffix.lower()
        if suffix not in (".npz", ".csv", *TIFF_SUFFIXES):
            raise SaveError(
                f"Expected a name that ends in .npz, .csv or .tif, got {shown(target.name)}. "
                "Choose another."
            )
        if (self.mean or suffix == ".csv") and (self.map or self.pixel):
            raise SaveError(
                "Expected matrices alone with --mean or in a .csv, got --map or --pixel. "
                "Leave it out."
            )
        if suffix in TIFF_SUFFIXES and not self.map and not self.pixel:
            raise SaveError(
                f"Expected --map or --pixel, got neither for {shown(target.name)}. "
                "A TIFF holds maps; save matrices as .npz."
            )
        with asked_to_stop():
            check_target(target, overwrite=self.overwrite)

    def _check_network(self, has_channels: bool, has_pixels: bool) -> None:
        """Refuse what the network does not have. Raises `AttentionError`."""
        model = shown(Path(self.model).name)
        if has_pixels and not has_channels and not self.pixel:
            raise AttentionError(
                f"Expected --pixel ROW,COLUMN, for pixels attend to pixels in {model}, "
                "got none. Name one: there are no matrices of channels, nor maps of them."
            )
        if self.pixel and not has_pixels:
            raise AttentionError(
                "Expected a network with attention between pixels for --pixel, got "
                f"{model}. Leave it out, or take another model."
            )

    def _weights(
        self, pixels: "PixelExplorer", photo: Photo, pixel: Pixel, watch: Watch
    ) -> list[AttentionMap]:
        """The weights of a *pixel* in every head of the block; of all, where none is named."""
        top, bottom, left, right = self.options.region or (0, photo.shape[0], 0, photo.shape[1])
        row, column = pixel
        if not (top <= row < bottom and left <= column < right):
            raise AttentionError(
                f"Expected a pixel in rows {top} to {bottom - 1} and columns {left} to "
                f"{right - 1}, got {row}, {column}. Count from 0."
            )
        maps: list[AttentionMap] = []
        names = [self.block] if self.block else list(pixels.blocks)
        with progress_bar(f"{photo.name}: pixel {row}, {column}", watch) as bar:
            for done, name in enumerate(names):
                part = bar.part(done / len(names), (done + 1) / len(names))
                weights = pixels.watched_by(part).weights(name, row - top, column - left)
                maps += weights.maps((top, left))
                part.reach(1)
        return maps
