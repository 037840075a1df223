"""The one pipeline that the widget, the command line and a notebook call: photo in, spectral cube out.

Letters: B bands, H rows, W columns.
"""

import copy
import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from os import PathLike
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from napari_mst.attention import HeadProbe, attention_blocks, probe, record_attention
from napari_mst.attention_record import AttentionMap, AttentionRecord, AttentionSteps, BlockAttention, Selection
from napari_mst.cube import BAND_INDEX, NANOMETRES, Provenance, SpectralCube
from napari_mst.engine.device import choose_device
from napari_mst.engine.plan import Plan, make_plan
from napari_mst.engine.run import run, tap
from napari_mst.errors import AttentionError, Cancelled, OutOfMemory, PhotoError
from napari_mst.models import Model
from napari_mst.models.mst_plus_plus import MULTIPLE
from napari_mst.models.spectral_attention import SpectralAttentionBlock
from napari_mst.overlays import OVERLAYS, SENSITIVITY
from napari_mst.photo import Photo, as_photo
from napari_mst.sensitivity import sensitivity

N = TypeVar("N", bound=nn.Module)

PICTURE = 160
"""Pixels of the longer side of a picture of `attention_steps`, at most."""

PhotoLike = Photo | str | PathLike[str] | ArrayLike
"""A photo, its file, or an array of it."""

Compute = Callable[..., NDArray[np.float32]]
"""`run`, or `tap` for one map."""

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0-1, from the thread that computes."""


class Reconstructor:
    """Reconstructs cubes with one model on one device: "auto", "cuda", "cuda:1", "mps" or "cpu".

    `device` says which device was chosen, and why. *memory* is the budget of a run on it in bytes, by default most of
    what is free. An instance may be used again and again, from one thread at a time.

    Raises
    ------
    DeviceError
        If the device is not there.
    """

    def __init__(self, model: Model, device: str = "auto", memory: int | None = None) -> None:
        self.model = model
        self.memory = memory
        self.device = choose_device(device)
        is_elsewhere = self.device.device.type != "cpu"
        self._network = _copied(model.network).to(self.device.device) if is_elsewhere else model.network

    def plan(self, height: int, width: int) -> Plan:
        """What a photo of *height* x *width* pixels will need; `str` of it is a sentence for a person.

        Raises
        ------
        OutOfMemory
            If the photo fits neither into the memory nor onto the disk.
        """
        return make_plan(self._network.hyperparameters, height, width, self.device.device, self.memory)

    def reconstruct(
        self,
        photo: PhotoLike,
        progress: Progress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> SpectralCube:
        """The cube of *photo* (a `Photo`, a file or an array): (B, H, W) float32, H and W as in the photo.

        Pixels that are NaN or infinite in the photo are NaN in the cube and influence no other pixel. Whatever had to
        be assumed is listed in `cube.provenance.assumptions`. *progress* is called at least 15 times;
        *is_cancelled* is asked as often.

        Raises
        ------
        PhotoError
            If the photo cannot be read or has no pixels, or the number of its channels is not the network's.
        Cancelled
            Soon after *is_cancelled* returned true; nothing of the run remains in memory.
        OutOfMemory
            If memory and disk are too small, before anything is computed; or if the device runs out of memory after
            all, and again within half of it: nothing of the run remains in it.
        """
        source = self._source(photo)
        data, provenance = self._computed(run, source, progress, is_cancelled)
        return self._cube(data, source, provenance)

    def attention(
        self,
        photo: PhotoLike,
        progress: Progress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> AttentionRecord:
        """The attention matrices of a run on *photo*, and where they came from; everything else as `reconstruct`.

        Raises
        ------
        AttentionError
            If the network has no spectral attention.
        """
        self._blocks()
        with record_attention(self._network) as record:
            _, provenance = self._computed(run, self._source(photo), progress, is_cancelled)
        return replace(record, provenance=provenance)

    def attention_map(
        self,
        photo: PhotoLike,
        overlay: str,
        selection: Selection,
        progress: Progress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> AttentionMap:
        """A map of `OVERLAYS` over *photo*, by running the network up to the block; everything else as `reconstruct`.

        Raises
        ------
        AttentionError
            If there is no such overlay, block, head or channel.
        """
        if overlay not in OVERLAYS:
            raise AttentionError(f"Expected one of {', '.join(OVERLAYS)}, got the overlay {overlay!r}.")
        _, pitch = self._check(selection)
        source = self._source(photo)
        compute = partial(tap, name=selection.block, probe=probe(OVERLAYS[overlay].compute, selection))
        (padded,), provenance = self._computed(compute, source, progress, is_cancelled)
        height, width = (-(-side // pitch) for side in source.shape)
        return AttentionMap(
            values=np.ascontiguousarray(padded[:height, :width]),
            overlay=overlay,
            unit=OVERLAYS[overlay].unit,
            selection=selection,
            pitch=pitch,
            offset=((pitch - 1) / 2, (pitch - 1) / 2),
            total=float(padded.sum(dtype=np.float64)),
            provenance=provenance,
        )

    def attention_steps(
        self,
        photo: PhotoLike,
        block: str,
        head: int = 0,
        progress: Progress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> AttentionSteps:
        """One head step by step on *photo*, in pictures of at most `PICTURE` pixels a side; see `attention_map`."""
        selection = Selection(block, head)
        channels, pitch = self._check(selection)
        source = self._source(photo)
        height, width = (-(-side // MULTIPLE) * MULTIPLE // pitch for side in source.shape)
        stride = -(-max(height, width) // PICTURE)
        depth = self._network.hyperparameters.width
        with record_attention(self._network) as record:
            compute = partial(
                tap,
                name=block,
                probe=probe(HeadProbe.steps, selection),
                planes=1 + 3 * depth,
                stride=stride,
            )
            planes, provenance = self._computed(compute, source, progress, is_cancelled)
        planes = planes[:, : -(-source.shape[0] // (pitch * stride)), : -(-source.shape[1] // (pitch * stride))]
        return AttentionSteps(
            selection=selection,
            size=(channels, height, width),
            features=planes[0],
            keys=planes[1 : 1 + depth],
            queries=planes[1 + depth : 1 + 2 * depth],
            values=planes[1 + 2 * depth :],
            matrices=BlockAttention(*(part[head : head + 1] for part in vars(record[block]).values())),
            provenance=provenance,
        )

    def sensitivity(
        self,
        photo: PhotoLike,
        band: int,
        row: int,
        column: int,
        record: AttentionRecord | None = None,
        progress: Progress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> AttentionMap:
        """Which pixels of *photo* one band of one pixel of its cube depends on (see `sensitivity.py` for its limits).

        *record* is that of a run on the same photo; without one it is made first.

        Raises
        ------
        AttentionError
            If there is no such band or pixel, or the network has no spectral attention.
        """
        source = self._source(photo)
        limits = (self._network.hyperparameters.out_bands, *source.shape)
        for name, index, limit in zip(("band", "row", "column"), (band, row, column), limits, strict=True):
            if not 0 <= index < limit:
                raise AttentionError(f"Expected {name} 0 to {limit - 1}, got {index}.")
        record = record or self.attention(source, progress, is_cancelled)

        def check() -> None:
            if is_cancelled is not None and is_cancelled():
                raise Cancelled("The map was cancelled.")

        at = (band, row, column)
        values, corner = sensitivity(
            self._network, record, self._rows(source), *source.shape, at, self.device.device, check
        )
        return AttentionMap(
            values=values,
            overlay=SENSITIVITY.name,
            unit=SENSITIVITY.unit,
            selection=Selection(f"band {band}, row {row}, column {column}"),
            pitch=1,
            offset=corner,
            total=float(values.sum(dtype=np.float64)),
            provenance=self._provenance(source, self.plan(*source.shape), []),
        )

    def _source(self, photo: PhotoLike) -> Photo:
        source = as_photo(photo)
        channels = self._network.hyperparameters.in_bands
        if channels != len(source.pixels):
            raise PhotoError(
                f"Expected {channels} channels for the model {self.model.card.name}, got {len(source.pixels)}."
            )
        return source

    def _blocks(self) -> dict[str, SpectralAttentionBlock]:
        blocks = attention_blocks(self._network)
        if not blocks:
            raise AttentionError(f"Expected a network with spectral attention, got {self.model.card.name}.")
        return blocks

    def _check(self, selection: Selection) -> tuple[int, int]:
        """Channels of the chosen block, and pixels of the photo for one of its; raises `AttentionError`."""
        blocks = self._blocks()
        if selection.block not in blocks:
            raise AttentionError(f"Expected a block as {next(iter(blocks))}, got {selection.block!r}.")
        attention = blocks[selection.block].attention
        channels = attention.to_v.in_features
        selection.check(attention.heads, channels // attention.heads)
        return channels, channels // self._network.hyperparameters.width

    def _computed(
        self, compute: Compute, source: Photo, progress: Progress | None, is_cancelled: Callable[[], bool] | None
    ) -> tuple[NDArray[np.float32], Provenance]:
        """What *compute* makes of the photo, if need be within less memory; and where that came from."""
        plan, notes = self.plan(*source.shape), list[str]()
        data = self._run(compute, source, plan, progress, is_cancelled)
        if data is None:
            plan = make_plan(self._network.hyperparameters, *source.shape, self.device.device, plan.memory // 2)
            notes.append(f"The run was out of memory and was started again: the second one {plan}.")
            data = self._run(compute, source, plan, progress, is_cancelled)
        if data is None:
            size = " x ".join(map(str, source.shape))
            raise OutOfMemory(
                f"Expected enough memory on {self.device.name} for {size} pixels, got too little. "
                "Close other programs, take the CPU, or reconstruct a smaller image."
            )
        return data, self._provenance(source, plan, notes)

    def _cube(self, data: NDArray[np.float32], photo: Photo, provenance: Provenance) -> SpectralCube:
        if photo.valid is not None:
            data[:, ~photo.valid] = np.nan
        card = self.model.card
        return SpectralCube(
            data,
            np.asarray(card.wavelengths or range(len(data)), dtype=np.float64),
            unit=NANOMETRES if card.wavelengths else BAND_INDEX,
            quantity=card.quantity,
            provenance=provenance,
        )

    def _run(
        self,
        compute: Compute,
        photo: Photo,
        plan: Plan,
        progress: Progress | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> NDArray[np.float32] | None:
        """What *compute* makes of the photo; None, and nothing of the run left, if it was out of memory."""
        device, rows = self.device.device, self._rows(photo)
        try:
            return compute(self._network, rows, *photo.shape, device, plan, progress, is_cancelled)
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
        self._free_memory()  # outside the handler: there, the traceback would keep the tensors of the run
        return None

    def _rows(self, photo: Photo) -> Callable[[int, int], NDArray[np.float32]]:
        """Rows of the photo as the model's card says that the network expects them."""
        card = self.model.card
        if card.normalisation == "none":
            return lambda start, stop: photo.rows(start, stop, linear=card.is_linear)
        low, high = photo.extrema()
        scale = np.float32(1 / (high - low)) if high > low else np.float32(0)
        return lambda start, stop: (photo.rows(start, stop, linear=card.is_linear) - np.float32(low)) * scale

    def _free_memory(self) -> None:
        gc.collect()
        if self.device.device.type == "cuda":
            torch.cuda.empty_cache()

    def origin(self, sha256: str, encoding: str) -> Provenance:
        """What will be said of the cube of a photo with this *sha256* and *encoding*, whatever happens in the run."""
        card = self.model.card
        return Provenance(
            model=card.name,
            weights_sha256=self.model.weights_sha256,
            normalisation=card.normalisation,
            device=f"{self.device.name} ({self.device.reason})",
            precision="float32",
            source_sha256=sha256,
            encoding=encoding,
            versions={package: version(package) for package in ("napari-mst", "numpy", "torch")},
        )

    def _provenance(self, photo: Photo, plan: Plan, notes: list[str]) -> Provenance:
        return replace(
            self.origin(photo.sha256, photo.encoding),
            engine="exact, streamed" + (" through a file" if plan.is_in_file else ""),
            source=photo.name,
            assumptions=(*photo.assumptions, *self.model.assumptions, *notes),
        )


def _copied(network: N) -> N:
    """A copy with the very softmax modules of *network*, which have no parameters: hooks on them hear the copy too."""
    return copy.deepcopy(network, {id(part): part for part in network.modules() if isinstance(part, nn.Softmax)})


def _is_out_of_memory(error: Exception) -> bool:
    """Whether *error* is a lack of memory: torch says so on a CPU only in the text of a RuntimeError."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "not enough memory" in str(error)
