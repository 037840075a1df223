"""The one pipeline that the widget, the command line and a notebook call: photo in, spectral cube out.

Letters: B bands, H rows, W columns.
"""

import copy
import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import product
from os import PathLike
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from napari_mst import georeference
from napari_mst.cameras import CAMERA_RGB, Capture, named
from napari_mst.colour import SRGB_D65, srgb_response
from napari_mst.consistency import HALF_CODE, Correction, bytes_to_correct, correct_colours
from napari_mst.cube import BAND_INDEX, NANOMETRES, Provenance, SpectralCube
from napari_mst.engine.device import choose_device
from napari_mst.engine.forms import has_compiled_form
from napari_mst.engine.plan import Budget, Job, Plan, make_plan
from napari_mst.engine.run import RowSource, Source, execute, run_cost
from napari_mst.engine.schedule import schedule
from napari_mst.errors import CameraError, DeviceError, OutOfMemory, PhotoError, raise_if_cancelled
from napari_mst.memory import is_out_of_memory
from napari_mst.models import Model, ModelCard
from napari_mst.networks import Network
from napari_mst.networks.network import Program
from napari_mst.photo import Photo, Rectangle, as_photo
from napari_mst.watch import UNWATCHED, Progress, Watch

N = TypeVar("N", bound=nn.Module)

PhotoLike = Photo | str | PathLike[str] | ArrayLike
"""A photo, its file, or an array of it."""


class Compute(Protocol):
    """Makes something of a photo on the device of a `Reconstructor`: a cube, or maps of attention."""

    def __call__(self, source: Source, plan: Plan, watch: Watch) -> NDArray[np.floating]:
        """(C, H, W) numbers of the photo of *source*, computed as *plan* says."""


CORRECTION = 0.45
"""How long the correction of the colours takes, as `run_cost`: 0.15 to 1.5, by how many spectra it has to move."""

PREVIEW_PIXELS = 250_000
"""About how many pixels a preview has."""


PREPARING = "Preparing the engine for this processor: some seconds, once."
LONG, PATIENCE = 1.5, 0.1
"""Seconds after which that is said, and between two questions whether it is cancelled."""

SAMPLE = (4, 32)
"""Squares along each side of the sample on which the error of 16 bits is measured, and pixels along theirs."""

AS_LOADED = ("cpu", torch.float32)
"""Device and precision of the network of a model."""

THROUGH = {"device": "", "memory": " through memory", "file": " through a file"}

Orientation = tuple[bool, bool, bool]
"""Whether the rows and the columns are reversed, and whether they are then exchanged."""

ORIENTATIONS: tuple[Orientation, ...] = tuple(product((True, False), (True, False), (True, False)))
"""The eight of the published ensemble; the last changes nothing, so that its attention is what a recorder keeps."""

UNTURNED = ORIENTATIONS[-1:]
"""The photo as it is."""


@dataclass(frozen=True)
class PrecisionError:
    """How far a precision was off float32 on a sample of a photo: shares of the largest value, and where measured."""

    largest: float
    rms: float
    rows: int
    columns: int

    def __str__(self) -> str:
        """One clause for a person."""
        return (
            f"off float32 by {self.largest:.2%} of the largest value at most and {self.rms:.3%} rms, "
            f"on {self.rows} x {self.columns} pixels of this photo"
        )


class Reconstructor:
    """Reconstructs cubes with one model on one device: "auto", "cuda", "cuda:1", "mps" or "cpu".

    `device` says which device was chosen, and why. *memory* is the budget of a run in bytes of the computer's memory,
    *device_memory* that of a GPU's own, by default most of what is free. *precision* is "float32"; "float64", in which
    everything is then computed and returned: the reference, slower and twice as large; or "bfloat16" or "float16":
    features in half the memory, where the device is faster in them, but not exact. How far they are off is measured on
    a sample of each photo, before the run. *correct_colour* moves spectra whose colour is not the photo's, where the
    model's card says how a photo shows them (see `consistency`); `cube.quality` is how far they were off. *capture*
    tells the camera and the illuminant of the photos to a model that needs them. An instance may be used again and
    again, from one thread at a time.

    Raises
    ------
    CameraError
        If the model needs a capture and there is none, or has no use for the one that there is.
    DeviceError
        If the device is not there, or does not compute in this precision, or the model has no features of 16 bits.
    """

    def __init__(
        self,
        model: Model,
        device: str = "auto",
        memory: int | None = None,
        precision: str = "float32",
        correct_colour: bool = True,
        device_memory: int | None = None,
        capture: Capture | None = None,
    ) -> None:
        _check_capture(model.card, capture)
        self.model = model
        self.capture = capture
        self.memory, self.device_memory = memory, device_memory
        self.correct_colour = correct_colour
        self.device = choose_device(device)
        self.device.check(precision)
        self.precision = precision
        self._is_narrow = getattr(torch, precision).itemsize == 2
        if self._is_narrow and schedule(model.network.program()).is_pointwise:
            raise DeviceError(
                f"Expected float32 or float64 for {model.card.name}, which keeps no features, got {precision}."
            )
        weights = torch.float64 if precision == "float64" else torch.float32
        is_as_loaded = (self.device.name, weights) == AS_LOADED and capture is None
        self._network = model.network if is_as_loaded else _copied(model.network).to(self.device.device, weights)
        if capture is not None:
            _see_with(self._network, capture)
        self._errors: weakref.WeakKeyDictionary[Photo, dict[Rectangle | None, PrecisionError]]
        self._errors = weakref.WeakKeyDictionary()

    def plan(self, height: int, width: int, *, ensemble: bool = False) -> Plan:
        """What a photo of *height* x *width* pixels will need; `str` of it is a sentence for a person.

        Raises
        ------
        OutOfMemory
            If the photo fits neither into the memory nor onto the disk.
        """
        return self._plan(height, width, self.memory, self.device_memory, ensemble)

    def plan_for(
        self,
        photo: PhotoLike,
        region: Rectangle | None = None,
        *,
        ensemble: bool = False,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> Plan:
        """What a run on *photo* will need and, in 16 bits, how far it will be off: measured now, in about a second.

        Raises
        ------
        OutOfMemory
            If the photo fits neither into the memory nor onto the disk.
        PhotoError, Cancelled
            As of `reconstruct`.
        DeviceError
            If features of this photo are beyond what float16 holds.
        """
        source = self.read(photo)
        part, _ = _part(source, region)
        plan = self.plan(*part.shape, ensemble=ensemble)
        return replace(plan, error=str(self._error(source, region, is_cancelled))) if self._is_narrow else plan

    def _plan(
        self,
        height: int,
        width: int,
        memory: int | None,
        device_memory: int | None,
        ensemble: bool,
        or_least: bool = False,
    ) -> Plan:
        after = bytes_to_correct(height, width) if self._corrects_colour else 0
        job = Job(self.program, height, width, self.device.device, self.precision, ensemble, after)
        return make_plan(job, Budget(memory, device_memory), or_least=or_least)

    def _smaller_plan(self, failed: Plan, height: int, width: int, ensemble: bool) -> Plan | None:
        """Within half of what *failed* took or, where nothing is, with the least there is; None if that was it."""
        memory = self.memory if self.device.device.type != "cpu" else failed.memory // 2
        plan = self._plan(height, width, memory, failed.device_memory // 2, ensemble, or_least=True)
        return plan if plan.needs < failed.needs else None

    def _error(
        self, photo: Photo, region: Rectangle | None, is_cancelled: Callable[[], bool] | None = None
    ) -> PrecisionError:
        """The error of 16 bits on a sample of *photo*, measured when it is first asked for."""
        known = self._errors.setdefault(photo, {})
        if region not in known:
            sample = _part(photo, region)[0].sampled(*SAMPLE)
            known[region] = self._measured(sample, self._extrema(photo), is_cancelled)
        return known[region]

    def _noted_error(
        self, photo: Photo, region: Rectangle | None, notes: list[str], is_cancelled: Callable[[], bool] | None
    ) -> float:
        """The largest error of 16 bits, which is added to *notes*; 0 in another precision."""
        if not self._is_narrow:
            return 0.0
        error = self._error(photo, region, is_cancelled)
        notes.append(f"Computed in {self.precision}: {error}.")
        return error.largest

    def _measured(
        self, sample: Photo, extrema: tuple[float, float], is_cancelled: Callable[[], bool] | None
    ) -> PrecisionError:
        plans = [Plan(precision=name) for name in ("float32", self.precision)]
        both = (self._run(self.cube_of, sample, extrema, UNTURNED, plan, None, is_cancelled) for plan in plans)
        exact, narrow = (self._had(result, sample).astype(np.float64) for result in both)
        off = np.abs(narrow - exact) / max(float(np.abs(exact).max()), 1e-30)
        return PrecisionError(float(off.max()), float(np.sqrt((off**2).mean())), *sample.shape)

    def prepare(self, say: Callable[[str], None], is_cancelled: Callable[[], bool] | None = None) -> None:
        """Get ready what the first run would have to wait for: kernels are compiled once on a machine.

        *say* is told, from another thread, where that takes long. Not needed: `reconstruct` does it by itself. Raises
        `Cancelled` as soon as *is_cancelled* says so; the compiler, which cannot be stopped, then ends on its own, or
        with the program: what it has compiled by then is kept.
        """
        timer = threading.Timer(LONG, say, [PREPARING])
        preparing = threading.Thread(target=self._has_kernels, daemon=True)
        timer.start()
        try:
            if is_cancelled is None:
                self._has_kernels()
                return
            preparing.start()
            while preparing.is_alive():
                preparing.join(PATIENCE)
                raise_if_cancelled(is_cancelled)
        finally:
            timer.cancel()

    def reconstruct(
        self,
        photo: PhotoLike,
        progress: Progress | None = None,
        is_cancelled: Callable[[], bool] | None = None,
        *,
        region: Rectangle | None = None,
        ensemble: bool = False,
    ) -> SpectralCube:
        """The cube of *photo* (a `Photo`, a file or an array): (B, H, W) float32, H and W as in the photo.

        Pixels that are NaN or infinite in the photo are NaN in the cube and influence no other pixel. Whatever had to
        be assumed is listed in `cube.provenance.assumptions`. *progress* is called at least 5 times a stage, and for
        every few rows by a pixelwise network, with a share that grows as time does; *is_cancelled* is asked as often.
        Of a *region* (first row, one past the last, first column, one past the last) only those pixels are read and
        returned. Attention is global, so a region is another image: its numbers differ from those of the whole photo.

        *ensemble* gives the mean over the eight flips and transposes of the photo, as published, in eight times the
        time. It hardly changes the accuracy, and the spread of the eight is no error bar: it is far smaller than the
        error.

        Raises
        ------
        PhotoError
            If the photo cannot be read or has no pixels, the number of its channels is not the network's, or the
            region is empty or reaches beyond it.
        Cancelled
            Soon after *is_cancelled* returned true; nothing of the run remains in memory.
        OutOfMemory
            If memory and disk are too small, before anything is computed; or if the device runs out of memory after
            all, and again within half of it, or within the least that a run can do with: nothing remains in it.
        """
        source = self.read(photo)
        orientations = ORIENTATIONS if ensemble else UNTURNED
        part, notes = _part(source, region)
        error = self._noted_error(source, region, notes, is_cancelled)
        cube = self._reconstruct(source, part, notes, orientations, progress, is_cancelled)
        provenance = replace(cube.provenance, region=_region_text(region), precision_error=error)
        return replace(cube, provenance=provenance)

    def preview(
        self,
        photo: PhotoLike,
        is_cancelled: Callable[[], bool] | None = None,
        *,
        region: Rectangle | None = None,
    ) -> SpectralCube:
        """The cube of *photo*, or of a *region* of it, averaged down in linear light to about 0.25 megapixels.

        It covers exactly what `reconstruct` covers. `cube.provenance.is_preview` tells it from an exact one; errors are
        those of `reconstruct`.
        """
        source = self.read(photo)
        part, notes = _part(source, region)
        error = self._noted_error(source, region, notes, is_cancelled)
        small = part.reduced(PREVIEW_PIXELS, Watch(is_cancelled=is_cancelled))
        size = " x ".join(map(str, small.shape))
        notes.append(f"A preview: the photo was averaged down to {size} pixels first, which changes the numbers.")
        cube = self._reconstruct(source, small, notes, UNTURNED, None, is_cancelled)
        provenance = replace(cube.provenance, region=_region_text(region), precision_error=error, is_preview=True)
        return replace(cube, provenance=provenance)

    @property
    def network(self) -> Network:
        """The network on its device, in its precision."""
        return self._network

    @property
    def program(self) -> Program:
        """The passes of the network."""
        return self._network.program()

    def cube_of(self, source: Source, plan: Plan, watch: Watch) -> NDArray[np.floating]:
        """The numbers (B, H, W) that the network makes of *source*."""
        return execute(self.program, source, self.device.device, plan, watch).numbers

    def compute(
        self,
        compute: Compute,
        photo: Photo,
        region: Rectangle | None = None,
        watch: Watch = UNWATCHED,
    ) -> tuple[NDArray[np.floating], Provenance]:
        """What *compute* makes of *photo*, or of a *region* of it.

        Everything else, and the errors, as `reconstruct`.
        """
        part, notes = _part(photo, region)
        data, provenance = self._computed(compute, photo, part, notes, UNTURNED, watch.progress, watch.is_cancelled)
        return data, replace(provenance, region=_region_text(region))

    def read(self, photo: PhotoLike) -> Photo:
        """*photo*, which has the channels that the network takes; else a `PhotoError`."""
        source = as_photo(photo)
        channels = self._network.in_bands
        if channels != len(source.pixels):
            raise PhotoError(
                f"Expected {channels} channels for the model {self.model.card.name}, got {len(source.pixels)}."
            )
        if self.model.card.needs_camera and source.encoding != "linear":
            raise PhotoError(
                f"Expected linear RGB of a camera for the model {self.model.card.name}, got sRGB-encoded values. "
                "Say that the photo is linear, if it is, or use another model."
            )
        return source

    def _reconstruct(
        self,
        source: Photo,
        part: Photo,
        notes: list[str],
        orientations: Sequence[Orientation],
        progress: Progress | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> SpectralCube:
        """The cube of *part*: see `_computed`."""
        of_run = len(orientations) * run_cost(self.program, self.device.device, Plan(precision=self.precision))
        computed = of_run / (of_run + CORRECTION * self._corrects_colour)
        computing, correcting = _span(progress, 0, computed), _span(progress, computed, 1)
        data, provenance = self._computed(self.cube_of, source, part, notes, orientations, computing, is_cancelled)
        correction = self._correct(data, part, self._extrema(source), correcting, is_cancelled)
        return self._cube(data, part, provenance, correction)

    def _computed(
        self,
        compute: Compute,
        source: Photo,
        part: Photo,
        notes: list[str],
        orientations: Sequence[Orientation],
        progress: Progress | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> tuple[NDArray[np.floating], Provenance]:
        """What *compute* makes of *part*, normalised as the whole *source* is, and where that came from.

        It is the mean over *orientations*, if need be within less memory.
        """
        is_mean, extrema = len(orientations) > 1, self._extrema(source)
        plan = self.plan(*part.shape, ensemble=is_mean)
        data = self._run(compute, part, extrema, orientations, plan, progress, is_cancelled)
        if data is None and (smaller := self._smaller_plan(plan, *part.shape, is_mean)):
            plan = smaller
            notes.append(f"The run was out of memory and was started again: the second one {plan}.")
            data = self._run(compute, part, extrema, orientations, plan, progress, is_cancelled)
        return self._had(data, part), self._provenance(source, plan, is_mean, notes)

    def _had(self, data: NDArray[np.floating] | None, part: Photo) -> NDArray[np.floating]:
        """The result of `_run` on *part*; raises `OutOfMemory` if there was none."""
        if data is None:
            size = " x ".join(map(str, part.shape))
            raise OutOfMemory(
                f"Expected enough memory on {self.device.name} for {size} pixels, got too little. "
                "Close other programs, take the CPU, or reconstruct a smaller image."
            )
        return data

    def _correct(
        self,
        data: NDArray[np.floating],
        photo: Photo,
        extrema: tuple[float, float],
        progress: Progress | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> Correction | None:
        """The colours of *data* corrected in place; None where that is not wanted or the card does not say how."""
        if not self._corrects_colour:
            return None
        least = HALF_CODE if self.capture else 0.0
        return correct_colours(data, photo, self._response(extrema[1]), is_cancelled, progress, least=least)

    def _response(self, white: float) -> NDArray[np.floating]:
        """(B, 3): what the photo itself, whose white is *white*, shows of the spectra, in shares of its full scale."""
        if self.capture is None:
            return srgb_response(self.model.card.wavelengths)
        return self.capture.response / self.capture.gains * white

    @property
    def _corrects_colour(self) -> bool:
        card = self.model.card
        return self.correct_colour and card.rendering in (SRGB_D65, CAMERA_RGB) and bool(card.wavelengths)

    def _cube(
        self, data: NDArray[np.floating], photo: Photo, provenance: Provenance, correction: Correction | None
    ) -> SpectralCube:
        if photo.valid is not None:
            data[:, ~photo.valid] = np.nan
        card = self.model.card
        return SpectralCube(
            data,
            np.asarray(card.wavelengths or range(len(data)), dtype=np.float64),
            unit=NANOMETRES if card.wavelengths else BAND_INDEX,
            quantity=card.quantity,
            provenance=replace(provenance, correction=correction.text if correction else ""),
            metadata={georeference.FIELD: photo.georeference.to_json()} if photo.georeference else {},
            quality=correction.quality if correction else None,
        )

    def _run(
        self,
        compute: Compute,
        part: Photo,
        extrema: tuple[float, float],
        orientations: Sequence[Orientation],
        plan: Plan,
        progress: Progress | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> NDArray[np.floating] | None:
        """What *compute* makes of *part*; None, and nothing of the run left, if it was out of memory."""
        total: NDArray[np.floating] | None = None
        try:
            for index, orientation in enumerate(orientations):
                share = _span(progress, index / len(orientations), (index + 1) / len(orientations))
                # the result of one run has no name here: it would stay in memory through the next
                total = _added(
                    total,
                    self._run_turned(compute, part, extrema, orientation, plan, share, is_cancelled),
                    is_cancelled,
                )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            total = None
        if total is None:
            self._free_memory()  # outside the handler: there, the traceback would keep the tensors of the run
        elif len(orientations) > 1:
            total /= len(orientations)
        return total

    def _run_turned(
        self,
        compute: Compute,
        part: Photo,
        extrema: tuple[float, float],
        orientation: Orientation,
        plan: Plan,
        progress: Progress | None,
        is_cancelled: Callable[[], bool] | None,
    ) -> NDArray[np.floating]:
        """What *compute* makes of *part* by way of another orientation."""
        turned = replace(part, pixels=_turned(part.pixels, orientation), valid=None)
        photo = Source(self._rows(turned, *extrema), *turned.shape)
        result = compute(photo, plan, Watch(progress, is_cancelled))
        return _turned_back(result, orientation)

    def _extrema(self, source: Photo) -> tuple[float, float]:
        """What becomes 0 and 1 for the network."""
        if self.capture is not None and self.capture.white:
            return 0.0, self.capture.white / source.full_scale
        return source.extrema() if self.model.card.normalisation == "min-max" else (0.0, 1.0)

    def _rows(self, photo: Photo, low: float, high: float) -> RowSource:
        """Rows of *photo* as the model's card says that the network expects them."""
        is_linear = self.model.card.is_linear
        gains = np.ones(3) if self.capture is None else self.capture.gains
        if (low, high) == (0, 1) and (gains == 1).all():
            return lambda start, stop: photo.rows(start, stop, linear=is_linear)
        scale = (gains[:, None, None] / (high - low) if high > low else np.zeros(1)).astype(np.float32)
        return lambda start, stop: (photo.rows(start, stop, linear=is_linear) - np.float32(low)) * scale

    def _free_memory(self) -> None:
        gc.collect()
        if self.device.device.type != "cpu":
            torch.get_device_module(self.device.device).empty_cache()

    def origin(self, sha256: str, encoding: str, region: Rectangle | None = None, ensemble: bool = False) -> Provenance:
        """What will be said of the cube of a photo with this *sha256* and *encoding*, whatever happens in the run."""
        card = self.model.card
        return Provenance(
            model=card.name,
            weights_sha256=self.model.weights_sha256,
            normalisation=card.normalisation,
            device=f"{self.device.name} ({self.device.reason})",
            precision=self.precision,
            correction="colours corrected" if self._corrects_colour else "",
            error_factor=card.error_factor,
            source_sha256=sha256,
            encoding=encoding,
            **_capture_fields(self.capture),
            region=_region_text(region),
            is_ensemble=ensemble,
            versions={package: version(package) for package in ("napari-mst", "numpy", "torch")},
        )

    def _has_kernels(self) -> bool:
        return has_compiled_form(self.program, self.device.device, getattr(torch, self.precision))

    def _engine(self) -> str:
        kernels = f" by kernels of numba {version('numba')}" if self._has_kernels() else ""
        return f"{'16 bits' if self._is_narrow else 'exact'}, streamed{kernels}"

    def _provenance(self, photo: Photo, plan: Plan, is_mean: bool, notes: list[str]) -> Provenance:
        return replace(
            self.origin(photo.sha256, photo.encoding, ensemble=is_mean),
            engine=self._engine() + THROUGH[plan.place],
            source=photo.name,
            assumptions=(*photo.assumptions, *_capture_notes(self.capture), *self.model.assumptions, *notes),
        )


def _check_capture(card: ModelCard, capture: Capture | None) -> None:
    if card.needs_camera and capture is None:
        raise CameraError(
            f"Expected the camera and the illuminant of the photo for the model {card.name}, got none. Choose them."
        )
    if capture is not None and not card.needs_camera:
        raise CameraError(
            f"Expected no camera for the model {card.name}, got {capture.camera[-40:]}. Use mstpp-camera."
        )


def _see_with(network: nn.Module, capture: Capture) -> None:
    told = (getattr(part, "see_with", None) for part in network.modules())
    for see_with in filter(None, told):
        see_with(torch.from_numpy(capture.response))


def _capture_fields(capture: Capture | None) -> dict[str, Any]:
    """Of the provenance."""
    if capture is None:
        return {}
    return {
        "camera": named(capture.camera),
        "illuminant": named(capture.illuminant),
        "white": capture.white,
        "white_balance": capture.balance,
    }


def _capture_notes(capture: Capture | None) -> list[str]:
    if capture is None or capture.white:
        return []
    return ["The full scale of the photo was taken as the value of a white surface."]


def _copied(network: N) -> N:
    """A copy with the very softmax modules of *network*, which have no parameters: hooks on them hear the copy too."""
    return copy.deepcopy(network, {id(part): part for part in network.modules() if isinstance(part, nn.Softmax)})


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


def _region_text(region: Rectangle | None) -> str:
    return "" if region is None else "{}:{},{}:{}".format(*region)


def _turned(planes: NDArray[Any], orientation: Orientation) -> NDArray[Any]:
    """(C, H, W) as *orientation* says: a view."""
    flips_rows, flips_columns, is_transposed = orientation
    flipped = planes[:, :: -1 if flips_rows else 1, :: -1 if flips_columns else 1]
    return flipped.swapaxes(1, 2) if is_transposed else flipped


def _turned_back(planes: NDArray[Any], orientation: Orientation) -> NDArray[Any]:
    """The inverse of `_turned`."""
    flips_rows, flips_columns, is_transposed = orientation
    return _turned(planes.swapaxes(1, 2) if is_transposed else planes, (flips_rows, flips_columns, False))


def _added(
    total: NDArray[np.floating] | None, planes: NDArray[np.floating], is_cancelled: Callable[[], bool] | None
) -> NDArray[np.floating]:
    """*planes* added to *total*, in place; the first become the total. Asks for cancel before each."""
    if total is None and planes.flags.c_contiguous:
        return planes
    total = np.zeros(planes.shape, planes.dtype) if total is None else total
    for own, plane in zip(total, planes, strict=True):
        raise_if_cancelled(is_cancelled)
        own += plane
    return total


def _span(progress: Progress | None, start: float, stop: float) -> Progress | None:
    """What tells *progress* of the part of the work from *start* to *stop*, shares of the whole."""
    return None if progress is None else lambda share: progress(start + share * (stop - start))
