"""The pipeline as people call it; its steps are the other modules of this folder.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_mst.cube import Provenance, SpectralCube
from napari_mst.engine.device import DeviceChoice
from napari_mst.engine.plan import Plan
from napari_mst.engine.run import Source
from napari_mst.models import Model
from napari_mst.networks import Network
from napari_mst.networks.network import Program
from napari_mst.photo.cameras import Capture
from napari_mst.photo.photo import Photo, Rectangle
from napari_mst.reconstruction import history
from napari_mst.reconstruction.correcting import corrected, share_before
from napari_mst.reconstruction.job import Compute, Job, PhotoLike, job_of, read, reduced
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.precision import PrecisionErrors
from napari_mst.reconstruction.preparing import prepare
from napari_mst.reconstruction.running import computed, plan_of
from napari_mst.reconstruction.setup import Setup, set_up
from napari_mst.watch import UNWATCHED, IsCancelled, Progress, Watch


class Reconstructor:
    """Reconstructs cubes with one model on one device: "auto", "cuda", "cuda:1", "mps" or "cpu".

    `device` says which device was chosen, and why. *memory* is the budget of a run in bytes of the computer's memory,
    *device_memory* that of a GPU's own, by default most of what is free. *precision* is "float32"; "float64", in which
    everything is then computed and returned: the reference, slower and twice as large; or "bfloat16" or "float16":
    features in half the memory, where the device is faster in them, but not exact. How far they are off is measured on
    a sample of each photo, before the run. *correct_colour* moves spectra whose colour is not the photo's, where the
    model's card says how a photo shows them (see `consistency`); `cube.quality` is how far they were off. *capture*
    tells the camera and the illuminant of the photos to a model that needs them. An instance may be used again and
    again, from one thread at a time. It can be pickled, and sent to another computer: "auto" chooses again there.

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
        options = RunOptions(device, memory, device_memory, precision, correct_colour, capture)
        self.setup = set_up(model, options)
        self._errors = PrecisionErrors()

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(type(self), **self.options.for_reconstructor)
        return again, (self.model,)

    @property
    def model(self) -> Model:
        """The model, as it was loaded."""
        return self.setup.model

    @property
    def device(self) -> DeviceChoice:
        """The device that was chosen, and why."""
        return self.setup.device

    @property
    def options(self) -> RunOptions:
        """The device that was asked for, budgets, precision, correction and capture."""
        return self.setup.options

    @property
    def precision(self) -> str:
        """The precision in which features are kept."""
        return self.options.precision

    @property
    def capture(self) -> Capture | None:
        """The camera and the illuminant of the photos."""
        return self.options.capture

    @property
    def network(self) -> Network:
        """The network on its device, in its precision."""
        return self.setup.network

    @property
    def program(self) -> Program:
        """The passes of the network."""
        return self.setup.program

    def prepare(self, say: Callable[[str], None], is_cancelled: IsCancelled | None = None) -> None:
        """Get ready what the first run would have to wait for: kernels are compiled once on a machine.

        *say* is told, from another thread, where that takes long. Not needed: `reconstruct` does it by itself. Raises
        `Cancelled` as soon as *is_cancelled* says so; the compiler, which cannot be stopped, then ends on its own, or
        with the program: what it has compiled by then is kept.
        """
        prepare(self.setup, say, Watch(is_cancelled=is_cancelled))

    def plan(self, height: int, width: int, *, ensemble: bool = False) -> Plan:
        """What a photo of *height* x *width* pixels will need; `str` of it is a sentence for a person.

        Raises
        ------
        OutOfMemory
            If the photo fits neither into the memory nor onto the disk.
        """
        return plan_of(self._setup_for(None, ensemble), height, width)

    def plan_for(
        self,
        photo: PhotoLike,
        region: Rectangle | None = None,
        *,
        ensemble: bool = False,
        is_cancelled: IsCancelled | None = None,
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
        setup = self._setup_for(region, ensemble)
        job = job_of(setup, photo, watch=Watch(is_cancelled=is_cancelled))
        plan = plan_of(setup, *job.part.shape)
        return replace(plan, error=str(self._errors.of(job))) if setup.is_narrow else plan

    def reconstruct(
        self,
        photo: PhotoLike,
        progress: Progress | None = None,
        is_cancelled: IsCancelled | None = None,
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
        setup = self._setup_for(region, ensemble)
        job = job_of(setup, photo, self.cube_of, Watch(progress, is_cancelled))
        return reconstructed(self._errors.noted(job))

    def preview(
        self,
        photo: PhotoLike,
        is_cancelled: IsCancelled | None = None,
        *,
        region: Rectangle | None = None,
    ) -> SpectralCube:
        """The cube of *photo*, or of a *region* of it, averaged down in linear light to about 0.25 megapixels.

        It covers exactly what `reconstruct` covers. `cube.provenance.is_preview` tells it from an exact one; errors are
        those of `reconstruct`.
        """
        setup = self._setup_for(region)
        job = job_of(setup, photo, self.cube_of, Watch(is_cancelled=is_cancelled))
        return reconstructed(reduced(self._errors.noted(job)))

    def cube_of(self, source: Source, plan: Plan, watch: Watch) -> NDArray[np.floating]:
        """The numbers (B, H, W) that the network makes of *source*."""
        return self.setup.cube_of(source, plan, watch)

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
        done = computed(job_of(self._setup_for(region), photo, compute, watch))
        return done.data, history.history(done)

    def read(self, photo: PhotoLike) -> Photo:
        """*photo*, which has the channels that the network takes; else a `PhotoError`."""
        return read(self.setup, photo)

    def origin(
        self, sha256: str, encoding: str, region: Rectangle | None = None, ensemble: bool = False
    ) -> Provenance:
        """What will be said of the cube of a photo with this *sha256* and *encoding*, whatever happens in the run."""
        return history.origin(self._setup_for(region, ensemble), sha256, encoding)

    def _setup_for(self, region: Rectangle | None, ensemble: bool = False) -> Setup:
        """The setup with the options of one photo."""
        return replace(self.setup, options=replace(self.options, region=region, ensemble=ensemble))


def reconstructed(job: Job) -> SpectralCube:
    """The cube of *job*: computed, its colours corrected, and told where it came from."""
    share = share_before(job)
    done = computed(job.share(0, share))
    correction = corrected(job.share(share, 1), done.data)
    return history.cube_of(done, correction)
