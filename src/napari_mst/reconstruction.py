"""The one pipeline that the widget, the command line and a notebook call: photo in, spectral cube out.

Letters: B bands, H rows, W columns.
"""

import copy
import gc
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from os import PathLike

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from napari_mst.cube import BAND_INDEX, NANOMETRES, Provenance, SpectralCube
from napari_mst.engine.device import choose_device
from napari_mst.engine.plan import Plan, make_plan
from napari_mst.engine.run import RowSource, run
from napari_mst.errors import OutOfMemory, PhotoError
from napari_mst.models import Model
from napari_mst.photo import Photo, Rectangle, as_photo

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0-1, from the thread that computes."""

PREVIEW_PIXELS = 250_000
"""About how many pixels a preview has."""


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
        self._network = copy.deepcopy(model.network).to(self.device.device) if is_elsewhere else model.network

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
        photo: Photo | str | PathLike[str] | ArrayLike,
        progress: Progress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
        *,
        region: Rectangle | None = None,
    ) -> SpectralCube:
        """The cube of *photo* (a `Photo`, a file or an array): (B, H, W) float32, H and W as in the photo.

        Pixels that are NaN or infinite in the photo are NaN in the cube and influence no other pixel. Whatever had to
        be assumed is listed in `cube.provenance.assumptions`. *progress* is called at least 15 times, with a share
        that grows as time does; *is_cancelled* is asked as often. Of a *region* (first row, one past the last, first
        column, one past the last) only those pixels are read and returned. Attention is global, so a region is
        another image: its numbers differ from those of the whole photo.

        Raises
        ------
        PhotoError
            If the photo cannot be read or has no pixels, the number of its channels is not the network's, or the
            region is empty or reaches beyond it.
        Cancelled
            Soon after *is_cancelled* returned true; nothing of the run remains in memory.
        OutOfMemory
            If memory and disk are too small, before anything is computed; or if the device runs out of memory after
            all, and again within half of it: nothing of the run remains in it.
        """
        source = self._source(photo)
        return self._reconstruct(source, *_part(source, region), progress, is_cancelled)

    def preview(
        self,
        photo: Photo | str | PathLike[str] | ArrayLike,
        is_cancelled: Callable[[], bool] | None = None,
        *,
        region: Rectangle | None = None,
    ) -> SpectralCube:
        """The cube of *photo*, or of a *region* of it, averaged down in linear light to about 0.25 megapixels.

        It covers exactly what `reconstruct` covers. `cube.provenance.is_preview` tells it from an exact one; errors are
        those of `reconstruct`.
        """
        source = self._source(photo)
        part, notes = _part(source, region)
        small = part.reduced(PREVIEW_PIXELS)
        size = " x ".join(map(str, small.shape))
        notes.append(f"A preview: the photo was averaged down to {size} pixels first, which changes the numbers.")
        cube = self._reconstruct(source, small, notes, None, is_cancelled)
        return replace(cube, provenance=replace(cube.provenance, is_preview=True))

    def _source(self, photo: Photo | str | PathLike[str] | ArrayLike) -> Photo:
        source = as_photo(photo)
        channels = self._network.hyperparameters.in_bands
        if channels != len(source.pixels):
            raise PhotoError(
                f"Expected {channels} channels for the model {self.model.card.name}, got {len(source.pixels)}."
            )
        return source

    def _reconstruct(
        self,
        source: Photo,
        part: Photo,
        notes: list[str],
        progress: Progress | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> SpectralCube:
        """The cube of *part*, normalised as the whole *source* is."""
        plan, rows = self.plan(*part.shape), self._rows(source, part)
        data = self._run(part.shape, rows, plan, progress, is_cancelled)
        if data is None:
            plan = make_plan(self._network.hyperparameters, *part.shape, self.device.device, plan.memory // 2)
            notes.append(f"The run was out of memory and was started again: the second one {plan}.")
            data = self._run(part.shape, rows, plan, progress, is_cancelled)
        if data is None:
            size = " x ".join(map(str, part.shape))
            raise OutOfMemory(
                f"Expected enough memory on {self.device.name} for {size} pixels, got too little. "
                "Close other programs, take the CPU, or reconstruct a smaller image."
            )
        return self._cube(data, part, self._provenance(source, plan, notes))

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
        shape: tuple[int, int],
        rows: RowSource,
        plan: Plan,
        progress: Progress | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> NDArray[np.float32] | None:
        """The cube; None, and nothing of the run left, if it was out of memory."""
        try:
            return run(self._network, rows, *shape, self.device.device, plan, progress, is_cancelled)
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
        self._free_memory()  # outside the handler: there, the traceback would keep the tensors of the run
        return None

    def _rows(self, source: Photo, part: Photo) -> RowSource:
        """Rows of *part* as the model's card says that the network expects them, by the range of the whole *source*."""
        card = self.model.card
        if card.normalisation == "none":
            return lambda start, stop: part.rows(start, stop, linear=card.is_linear)
        low, high = source.extrema()
        scale = np.float32(1 / (high - low)) if high > low else np.float32(0)
        return lambda start, stop: (part.rows(start, stop, linear=card.is_linear) - np.float32(low)) * scale

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


def _part(photo: Photo, region: Rectangle | None) -> tuple[Photo, list[str]]:
    """The *region* of *photo*, or all of it, and what there is to say about it."""
    if region is None:
        return photo, []
    top, bottom, left, right = region
    note = (
        f"Only rows {top} to {bottom - 1}, columns {left} to {right - 1} of the photo were read. "
        "Attention is global, so a region is another image: its numbers differ from those of the whole photo."
    )
    return photo.cropped(region), [note]


def _is_out_of_memory(error: Exception) -> bool:
    """Whether *error* is a lack of memory: torch says so on a CPU only in the text of a RuntimeError."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "not enough memory" in str(error)
