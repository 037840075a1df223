"""A shelf for the photo that was looked at last: it is read and denoised only once."""

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from napari_mst.attention.record import AttentionRecord
from napari_mst.errors import AttentionError
from napari_mst.messages import shown
from napari_mst.photo.photo import Photo
from napari_mst.plugin.jobs.job import Reports
from napari_mst.plugin.jobs.request import Request
from napari_mst.plugin.viewer.photos import LayerPhoto

if TYPE_CHECKING:
    from napari_mst.attention.explorer import AttentionExplorer
    from napari_mst.attention.pixels import PixelExplorer


class Ready(NamedTuple):
    """A photo, and the explorers of its network; one without attention of a kind has None."""

    photo: Photo
    channels: "AttentionExplorer | None"
    pixels: "PixelExplorer | None"


class Shelf:
    """Keeps one photo with its explorers, which jobs use one after the other, each on its thread.

    A photo that has other values by now, or is to be run otherwise, is made ready again.
    """

    def __init__(self) -> None:
        self._kept: tuple[Any, Ready] | None = None

    def clear(self) -> None:
        """Let go of the photo."""
        self._kept = None

    def ready(self, request: Request, reports: Reports) -> Ready:
        """Make the photo of *request* ready, unless it is."""
        key = _key(request)
        if self._kept is not None and self._kept[0] == key:
            return self._kept[1]
        # What was kept makes room before the next photo is read.
        self.clear()
        ready = _made_ready(request, reports)
        self._kept = key, ready
        return ready


class Look(NamedTuple):
    """A shelf, and the run whose photo is looked at; None for a new run."""

    shelf: Shelf
    record: AttentionRecord | None = None

    def ready(self, request: Request, reports: Reports) -> Ready:
        """The photo of *request*. Raises `AttentionError` if it is not the one of the run."""
        found = self.shelf.ready(request, reports)
        if self.record is not None and found.photo.sha256 != self.record.provenance.source_sha256:
            raise AttentionError(
                "Expected the photo that was recorded, "
                f"got '{found.photo.name}' changed since. Record it again."
            )
        return found

    def channels(self, request: Request, reports: Reports) -> "AttentionExplorer":
        """The explorer of matrices, which reports to *reports*."""
        explorer = self.ready(request, reports).channels
        if explorer is None:
            raise AttentionError(
                f"Expected a network with spectral attention, got {_name(request)}. "
                "Take another model, or the page Pixel."
            )
        return explorer.watched_by(reports)

    def pixels(self, request: Request, reports: Reports) -> "PixelExplorer":
        """The explorer of pixels."""
        explorer = self.ready(request, reports).pixels
        if explorer is None:
            raise AttentionError(
                f"Expected a network with attention between pixels, got {_name(request)}. "
                "Take another model, or non-local means."
            )
        return explorer


def _name(request: Request) -> str:
    return shown(Path(request.model).name)


def _key(request: Request) -> tuple[Any, ...]:
    """All that decides what is made ready."""
    source = request.source
    pixels = source.pixels[source.index] if isinstance(source, LayerPhoto) else None
    model = Path(request.model)
    changed = model.stat().st_mtime_ns if model.is_file() else 0
    return (request.model, changed, request.options, request.corrections, *_fingerprint(pixels))


def _fingerprint(pixels: Any) -> tuple[Any, ...]:
    """A fingerprint of the values of an array, in a tenth of the time that SHA-256 takes."""
    values = np.ascontiguousarray(pixels)
    return values.shape, values.dtype.str, zlib.crc32(values.view(np.uint8).reshape(-1).data)


def _made_ready(request: Request, reports: Reports) -> Ready:
    # These import torch, which takes seconds: here they do so on the job's thread.
    from napari_mst.attention.blocks import attention_blocks, pixel_blocks
    from napari_mst.attention.explorer import AttentionExplorer
    from napari_mst.attention.pixels import PixelExplorer
    from napari_mst.models import load_model
    from napari_mst.reconstruction.reconstructor import Reconstructor

    photo = request.read()
    options = request.options
    reconstructor = Reconstructor(load_model(request.model), **vars(options))
    network = reconstructor.network
    has_channels = bool(attention_blocks(network))
    has_pixels = bool(pixel_blocks(network))
    if not has_channels and not has_pixels:
        raise AttentionError(
            f"Expected a network with attention, got {_name(request)}, which has none. "
            "Take another model."
        )
    reconstructor.prepare(reports.say, reports)
    region = options.region
    channels = AttentionExplorer(reconstructor, photo, region=region) if has_channels else None
    pixels = PixelExplorer(reconstructor, photo, region) if has_pixels else None
    return Ready(photo, channels, pixels)
