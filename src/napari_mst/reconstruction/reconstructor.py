"""The public interface of the pipeline, which `pipeline` implements.

Letters: B bands, H rows, W columns.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from napari_mst.base.arrays import Floats
from napari_mst.base.errors import shown
from napari_mst.base.progress import Progress, ProgressLike, as_progress
from napari_mst.cube import Provenance, SpectralCube
from napari_mst.engine.device import DeviceChoice
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import Plan
from napari_mst.models import Model
from napari_mst.networks.network import Program
from napari_mst.photo.cameras import Acquisition
from napari_mst.photo.photo import Photo, PhotoLike, Rectangle
from napari_mst.reconstruction import cube_history, preparing
from napari_mst.reconstruction.options import RunOptions
from napari_mst.reconstruction.pipeline import PreparedPhoto
from napari_mst.reconstruction.running import plan_run
from napari_mst.reconstruction.setup import Setup, compile_kernels, set_up

if TYPE_CHECKING:
    from napari_mst.networks.module import Network

P = ParamSpec("P")
Initialiser = Callable[[Any, Model, RunOptions], None]
"""An `__init__` that takes a model and its options."""


def _with_options(
    options: Callable[P, RunOptions],
) -> Callable[[Initialiser], Callable[Concatenate[Any, Model, P], None]]:
    """Make a method take the fields of *options* as arguments instead of the record."""

    def decorate(method: Initialiser) -> Callable[Concatenate[Any, Model, P], None]:
        def taking_fields(self: Any, model: Model, *args: P.args, **kwargs: P.kwargs) -> None:
            method(self, model, options(*args, **kwargs))

        first = list(signature(method).parameters.values())[:2]
        fields = signature(options).parameters.values()
        taking_fields.__signature__ = Signature([*first, *fields])  # type: ignore[attr-defined]
        return taking_fields  # type: ignore[return-value] # the names may be written, too

    return decorate


class Reconstructor:
    """Reconstructs cubes with one model on one device.

    An instance can be reused, from one thread at a time. It can be pickled and sent to another
    computer, where "auto" chooses again.

    Parameters
    ----------
    model
        The model; see `load_model`.
    device
        "auto", "cuda", "cuda:1", "mps" or "cpu"; the attribute `device` tells which device was
        chosen, and why.
    memory, device_memory
        Memory budgets of a run in bytes, for the computer and for the GPU; by default most of the
        free memory.
    precision
        "float32" by default. "float64" computes and returns everything in double precision: the
        reference, slower and twice as large. "bfloat16" and "float16" keep features in half the
        memory and are faster on some devices, but not exact; their error is measured on a sample of
        each photo before the run.
    denoise
        "auto" denoises noisy photos that were no JPEG before the network sees them, by non-local
        Bayes; see `denoising.nl_bayes`. "off" disables denoising. A number denoises every photo as
        if its noise were that many times the noise estimated from the whole photo; "auto" uses 1.
    correct_colour
        Whether to adjust spectra whose colour differs from the photo's, if the model's card tells
        how photos show spectra (see `colour_fidelity`). `cube.colour_error` has the differences.
    acquisition
        Camera and illuminant of the photos, for models that need them. The illuminant "estimate" is
        estimated for each photo.
    calibrated_by
        Reason, in a few words, why the photos show exact colours: "rendered from spectra", "a
        profile of a chart". Prediction intervals then assume exactly rendered sRGB, and say so. By
        default they assume a JPEG from an unknown camera.
    region, ensemble
        Defaults for every photo, which the arguments of `reconstruct` override.

    Raises
    ------
    CameraError
        If the model needs an acquisition and none is given, or cannot use the given one.
    DenoisingError
        If *denoise* is neither "auto" nor "off" nor a number above 0.
    DeviceError
        If the device is missing or does not support the precision, or if the model has no features
        to keep in 16 bits.

    Notes
    -----
    ==============================  ===============================================================
    photo                           a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3),
                                    sRGB;
                                    linear RGB of a camera, uint16 0-65535 or float 0-1, for a model
                                    that needs a camera
    reconstruct()                   (B, H, W) float32, reflectance, 0 to about 1; wavelengths in nm
    preview()                       as `reconstruct`, of about 0.25 megapixels
    reconstruct_lazy()              as `reconstruct`, computed where it is read
    cube_of(), prepare().compute()  (B, H, W) in the precision: float32, or float64 if asked for
    read(), prepare(), plan_for()   photos as for `reconstruct`
    memory                          bytes
    ==============================  ===============================================================

    Examples
    --------
    >>> reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))
    >>> photo = np.full((4, 6, 3), 128, np.uint8)
    >>> cube = reconstructor.reconstruct(photo)
    >>> cube.spectrum(row=0, column=0).values[::10].round(2)
    array([0.17, 0.22, 0.22, 0.22])
    >>> reconstructor.preview(photo).provenance.is_preview
    True
    """

    @_with_options(RunOptions)
    def __init__(self, model: Model, options: RunOptions) -> None:
        self.setup = set_up(model, options)

    def __repr__(self) -> str:
        """One line with the model, the device and the precision."""
        name = shown(self.model.card.name)
        return f"<Reconstructor {name} on {self.device.name}, {self.precision}>"

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(type(self), **vars(self.options))
        return again, (self.model,)

    @property
    def model(self) -> Model:
        """The model, as it was loaded."""
        return self.setup.model

    @property
    def device(self) -> DeviceChoice:
        """The chosen device, and the reason for the choice."""
        return self.setup.device

    @property
    def options(self) -> RunOptions:
        """The options as given: device, budgets, precision, correction, acquisition and others."""
        return self.setup.options

    @property
    def precision(self) -> str:
        """The precision of features."""
        return self.options.precision

    @property
    def acquisition(self) -> Acquisition | None:
        """The camera and the illuminant of the photos."""
        return self.options.acquisition

    @property
    def network(self) -> "Network":
        """The network on its device, in its precision."""
        return self.setup.network

    @property
    def program(self) -> Program:
        """The passes of the network."""
        return self.network.program()

    def warm_up(self, say: Callable[[str], None], progress: ProgressLike = None) -> None:
        """Compile the kernels for which the first run on a machine would have to wait.

        Calling this is optional, since `reconstruct` compiles them as well. If compiling takes
        long, *say* receives sentences, from another thread. The compiler cannot be stopped: after a
        cancellation it ends on its own, or with the program, and keeps what it has compiled.

        Raises
        ------
        Cancelled
            Soon after *progress* was cancelled.

        Examples
        --------
        >>> nm.Reconstructor(nm.load_model("pixelwise-srgb")).warm_up(print)
        """
        compile_kernels(self.setup, say, as_progress(progress))

    def plan(self, height: int, width: int, *, ensemble: bool | None = None) -> Plan:
        """Plan a run on *height* x *width* pixels; printed, the plan is a sentence on its needs.

        It excludes the memory for denoising, which depends on the photo; `plan_for` includes it.

        Raises
        ------
        OutOfMemory
            If the photo fits neither into the memory nor onto the disk.

        Examples
        --------
        >>> reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))
        >>> reconstructor.plan(3000, 4000).memory > 1e6  # bytes
        True
        """
        return plan_run(self._setup_for(None, ensemble), height, width)

    def plan_for(
        self,
        photo: PhotoLike,
        region: Rectangle | None = None,
        *,
        ensemble: bool | None = None,
        progress: ProgressLike = None,
    ) -> Plan:
        """Plan a run on *photo*: its needs and, in 16 bits, its error.

        The error of 16 bits is measured now, in about a second.

        Raises
        ------
        OutOfMemory
            If the photo fits neither into the memory nor onto the disk.
        PhotoError, Cancelled
            See `reconstruct`.
        DeviceError
            If features of this photo exceed the range of float16.

        Examples
        --------
        >>> reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))
        >>> reconstructor.plan_for(np.full((4, 6, 3), 128, np.uint8)).error
        ''
        """
        return self.prepare(photo, region, ensemble=ensemble).plan(progress)

    def reconstruct(
        self,
        photo: PhotoLike,
        progress: ProgressLike = None,
        *,
        region: Rectangle | None = None,
        ensemble: bool | None = None,
    ) -> SpectralCube:
        """Reconstruct the cube of *photo*: (B, H, W) float32, H and W as in the photo.

        Pixels that are NaN or infinite in the photo are NaN in the cube and influence no other
        pixel. `cube.provenance.assumptions` lists all assumptions.

        Parameters
        ----------
        photo
            A `Photo`, a file or an array.
        progress
            A `Progress`, or a function of the share that is done. It is called at least 5 times per
            stage, and every few rows by a pixelwise network; the share grows in step with time.
        region
            First row, one past the last, first column, one past the last: only these pixels are
            read and returned. To all but pixelwise networks a region is another image, so results
            differ from those of the whole photo. Results of a pixelwise network are the same: bit
            for bit by compiled kernels, otherwise to 1e-6 of the largest value.
        ensemble
            Whether to average over the eight flips and transposes of the photo, as published, in
            eight times the time. It hardly changes the accuracy. The spread of the eight results is
            no error bar, as it is far smaller than the error.

        Raises
        ------
        PhotoError
            If the photo cannot be read or has no pixels, if the network expects another number of
            channels, or if the region is empty or reaches beyond the photo.
        Cancelled
            Soon after *progress* was cancelled; nothing of the run remains in memory.
        OutOfMemory
            If memory and disk are too small, before anything is computed; or if the device runs out
            of memory nevertheless, and again with half of it or with the smallest possible plan.
            Nothing of the run remains in memory.

        Examples
        --------
        >>> reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))
        >>> photo = np.full((40, 60, 3), 128, np.uint8)
        >>> reconstructor.reconstruct(photo).shape
        (31, 40, 60)
        >>> reconstructor.reconstruct(photo, region=(10, 20, 0, 30)).shape
        (31, 10, 30)
        """
        return self.prepare(photo, region, ensemble=ensemble).reconstruct(progress)

    def preview(
        self,
        photo: PhotoLike,
        progress: ProgressLike = None,
        *,
        region: Rectangle | None = None,
    ) -> SpectralCube:
        """Reconstruct *photo*, or a *region*, averaged down to about 0.25 megapixels.

        Pixels are averaged in linear light, and the cube covers the same area as that of
        `reconstruct`. `cube.provenance.is_preview` marks it. Raises the errors of `reconstruct`.
        """
        return self.prepare(photo, region).preview(progress)

    def reconstruct_lazy(
        self,
        photo: PhotoLike,
        progress: ProgressLike = None,
        *,
        region: Rectangle | None = None,
        estimate: bool = False,
    ) -> SpectralCube:
        """Return a cube of *photo*, or of a *region*, that computes only the parts that are read.

        Its values equal those of `reconstruct` to 4e-7 of the largest value. The call passes over
        the photo once for the statistics of its attention, which takes 77 to 91 % of a whole run.
        After that, any pixel takes a few hundredths of a second, and computed tiles are cached. The
        cube has no `colour_error`. Use it for spectra, regions and parts of a photo whose cube
        would not fit into memory; if the whole cube fits and is needed, `reconstruct` is faster.

        The statistics are cached in a folder of the user, so the same photo with the same weights
        and settings opens at once the next time. The environment variable `NAPARI_MST_CACHE` names
        another folder; an empty value disables the cache.

        Raises the errors of `reconstruct`.

        Parameters
        ----------
        photo, progress, region
            See `reconstruct`.
        estimate
            Estimate the statistics from squares of the photo, in a few seconds, instead of waiting
            for them. `cube.provenance.is_estimate` is then True, and `estimate_error` gives the
            error of the cube as a share of its largest value; both are kept in files. If the
            statistics are cached already, or cannot be estimated, the cube is exact.

        Raises
        ------
        ModelError
            If the precision is 16 bits, or *ensemble* is set.

        Examples
        --------
        >>> reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))
        >>> cube = reconstructor.reconstruct_lazy(np.full((40, 60, 3), 128, np.uint8))
        >>> cube.spectrum(row=20, column=30).values[::10].round(2)
        array([0.17, 0.22, 0.22, 0.22])
        >>> cube.provenance.is_estimate
        False
        """
        return self.prepare(photo, region).reconstruct_lazy(progress, estimate=estimate)

    def cube_of(self, source: PhotoRows, plan: Plan, progress: Progress) -> Floats:
        """Return the output (B, H, W) of the network for *source*."""
        return self.setup.cube_of(source, plan, progress)

    def prepare(
        self, photo: PhotoLike, region: Rectangle | None = None, *, ensemble: bool | None = None
    ) -> PreparedPhoto:
        """Prepare *photo*, or a *region* of it, once for several computations.

        The result has `plan`, `preview` and `reconstruct`.

        Raises the errors of `reconstruct`.

        Examples
        --------
        >>> reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))
        >>> prepared = reconstructor.prepare(np.full((4, 6, 3), 128, np.uint8))
        >>> planes, history = prepared.compute(reconstructor.cube_of)
        >>> planes.shape, history.model
        ((31, 4, 6), 'pixelwise-srgb')
        """
        return PreparedPhoto(self._setup_for(region, ensemble), self.read(photo))

    def read(self, photo: PhotoLike) -> Photo:
        """Read *photo* and check that the network accepts it; else `PhotoError`.

        Examples
        --------
        >>> reconstructor = nm.Reconstructor(nm.load_model("pixelwise-srgb"))
        >>> reconstructor.read(np.full((4, 6, 3), 128, np.uint8)).full_scale
        255.0
        """
        return preparing.read(self.setup, photo)

    def origin(
        self,
        sha256: str,
        encoding: str,
        region: Rectangle | None = None,
        ensemble: bool | None = None,
    ) -> Provenance:
        """Return the part of a history known before the run, for a photo with this *sha256*.

        Examples
        --------
        >>> nm.Reconstructor(nm.load_model("pixelwise-srgb")).origin("5e1f", "srgb").model
        'pixelwise-srgb'
        """
        return cube_history.origin(self._setup_for(region, ensemble), sha256, encoding)

    def _setup_for(self, region: Rectangle | None, ensemble: bool | None = None) -> Setup:
        """Return the setup for one photo, whose options default to those of all photos."""
        options = self.options
        if region is not None:
            options = replace(options, region=region)
        if ensemble is not None:
            options = replace(options, ensemble=ensemble)
        return replace(self.setup, options=options)
