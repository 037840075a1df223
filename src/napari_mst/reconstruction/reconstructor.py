"""The pipeline as people call it; `pipeline` shows what it does.

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


def _with_options(
    options: Callable[P, RunOptions],
) -> Callable[
    [Callable[[Any, Model, RunOptions], None]], Callable[Concatenate[Any, Model, P], None]
]:
    """Have a method take the fields of *options* as arguments, instead of the record."""

    def decorate(
        method: Callable[[Any, Model, RunOptions], None],
    ) -> Callable[Concatenate[Any, Model, P], None]:
        def taking_fields(self: Any, model: Model, *args: P.args, **kwargs: P.kwargs) -> None:
            method(self, model, options(*args, **kwargs))

        first = list(signature(method).parameters.values())[:2]
        fields = signature(options).parameters.values()
        taking_fields.__signature__ = Signature([*first, *fields])  # type: ignore[attr-defined]
        return taking_fields  # type: ignore[return-value] # the names may be written, too

    return decorate


class Reconstructor:
    """Reconstructs cubes with one model on one device.

    An instance may be used again and again, from one thread at a time. It can be pickled, and sent
    to another computer: "auto" chooses again there.

    Parameters
    ----------
    model
        The model; see `load_model`.
    device
        "auto", "cuda", "cuda:1", "mps" or "cpu"; the attribute `device` says which one was chosen,
        and why.
    memory, device_memory
        Budgets of a run in bytes of the computer's memory and of a GPU's own; by default most of
        what is free.
    precision
        "float32". Or "float64", in which everything is then computed and returned: the reference,
        slower and twice as large. Or "bfloat16" or "float16": features in half the memory, where
        the device is faster in them, but not exact; how far they are off is measured on a sample of
        each photo, before the run.
    denoise
        "auto" denoises photos that are noisy and were no JPEG before the network sees them, by
        non-local Bayes; see `denoising.nl_bayes`. "off" denoises none. A number denoises every
        photo, as if its noise were that many times what is estimated from the whole photo. 1 is
        what "auto" takes.
    correct_colour
        Whether to move spectra whose colour is not the photo's, where the model's card says how a
        photo shows them (see `colour_fidelity`); `cube.colour_error` is how far they were off.
    acquisition
        The camera and the illuminant of the photos, for a model that needs them. Where the
        illuminant is "estimate", it is estimated for each photo.
    calibrated_by
        What ensures that the photos show colours exactly, in a few words: "rendered from spectra",
        "a profile of a chart". Prediction intervals are then for exactly rendered sRGB, and say so.
        By default they are for the JPEG of a camera of which nothing is known.
    region, ensemble
        Those of every photo, unless `reconstruct` is given others.

    Raises
    ------
    CameraError
        If the model needs an acquisition and none is given, or cannot use the given one.
    DenoisingError
        If *denoise* is neither "auto" nor "off" nor a number above 0.
    DeviceError
        If the device is not there or does not compute in this precision, or if the model has no
        features to keep in 16 bits.

    Notes
    -----
    ==============================  ===============================================================
    photo                           a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3),
                                    sRGB;
                                    linear RGB of a camera, uint16 0-65535 or float 0-1, for a model
                                    that needs a camera
    reconstruct()                   (B, H, W) float32, reflectance, 0 to about 1; wavelengths in nm
    preview()                       as `reconstruct`, of about 0.25 megapixels
    reconstruct_lazy()              as `reconstruct`, computed where it is looked at
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
        """One line: the model, the device and the precision."""
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
        """The device that was chosen, and why."""
        return self.setup.device

    @property
    def options(self) -> RunOptions:
        """The device that was asked for, budgets, precision, correction and acquisition."""
        return self.setup.options

    @property
    def precision(self) -> str:
        """The precision in which features are kept."""
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
        """Compile the kernels that the first run on a machine would have to wait for.

        There is no need to call this, since `reconstruct` does it by itself. Where compiling takes
        long, *say* receives sentences, from another thread. The compiler cannot be stopped: after a
        cancel it ends on its own, or with the program, and what it has compiled by then is kept.

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
        """The plan for *height* x *width* pixels: what a run needs, as a sentence if printed.

        It does not count what denoising takes, since that needs the photo; `plan_for` does.

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
        """The plan for *photo*: what a run needs and, in 16 bits, how far it will be off.

        The error of 16 bits is measured now, in about a second.

        Raises
        ------
        OutOfMemory
            If the photo fits neither into the memory nor onto the disk.
        PhotoError, Cancelled
            See `reconstruct`.
        DeviceError
            If features of this photo are beyond what float16 holds.

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
        """The cube of *photo*: (B, H, W) float32, H and W as in the photo.

        Pixels that are NaN or infinite in the photo are NaN in the cube and influence no other
        pixel. Everything that had to be assumed is listed in `cube.provenance.assumptions`.

        Parameters
        ----------
        photo
            A `Photo`, a file or an array.
        progress
            A `Progress`, or a function of the share that is done. It is called at least 5 times a
            stage, and by a pixelwise network for every few rows; the share grows as time does.
        region
            First row, one past the last, first column, one past the last: only these pixels are
            read and returned. A region is another image to all networks but pixelwise ones: its
            numbers differ from those of the whole photo. Those of a pixelwise network are the same:
            bit for bit by compiled kernels, else to 1e-6 of the largest.
        ensemble
            Whether to take the mean over the eight flips and transposes of the photo, as published,
            in eight times the time. It hardly changes the accuracy, and the spread of the eight is
            no error bar: it is far smaller than the error.

        Raises
        ------
        PhotoError
            If the photo cannot be read or has no pixels, the number of its channels is not the
            network's, or the region is empty or reaches beyond it.
        Cancelled
            Soon after *progress* was cancelled; nothing of the run remains in memory.
        OutOfMemory
            If memory and disk are too small, before anything is computed. Or if the device runs out
            of memory after all, and again within half of it or the least that a run can do with;
            nothing of the run remains in it.

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
        """The cube of *photo*, or of a *region*, averaged down to about 0.25 megapixels.

        The mean is taken in linear light, and the cube covers exactly what that of `reconstruct`
        covers. `cube.provenance.is_preview` marks it; errors are those of `reconstruct`.
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
        """The cube of *photo*, or of a *region*, of which only what is looked at is computed.

        Its numbers are those of `reconstruct`, to 4e-7 of the largest. Now the photo is passed over
        once for the statistics that its attention needs, which takes 77 to 91 % of a whole run;
        then a pixel takes a few hundredths of a second, wherever it lies, and a tile that was
        computed is kept. The cube has no `colour_error`. It is meant for spectra, regions and parts
        of a photo whose cube would not fit into memory; where all of it fits and is needed,
        `reconstruct` is faster.

        The statistics are kept in a folder of the user, so that the same photo with the same
        weights and settings opens at once the next time. The environment variable
        `NAPARI_MST_CACHE` names another folder; where it is empty, none are kept.

        Errors are those of `reconstruct`.

        Parameters
        ----------
        photo, progress, region
            See `reconstruct`.
        estimate
            Do not wait for the statistics: take those of squares of the photo, in a few seconds.
            `cube.provenance.is_estimate` is then true, and `estimate_error` says how far the cube
            is off, as a share of its largest value, also in the file of such a cube. Where the
            statistics are known already, or cannot be estimated, the cube is exact all the same.

        Raises
        ------
        ModelError
            If the precision is of 16 bits, or the mean over eight orientations is asked for.

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
        """The numbers (B, H, W) that the network makes of *source*."""
        return self.setup.cube_of(source, plan, progress)

    def prepare(
        self, photo: PhotoLike, region: Rectangle | None = None, *, ensemble: bool | None = None
    ) -> PreparedPhoto:
        """The *photo*, or a *region* of it, as the network sees it: for many computations.

        It has `plan`, `preview` and `reconstruct`, for which the photo is prepared only once.

        Errors are those of `reconstruct`.

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
        """Read *photo* and check that the network can be given it; else `PhotoError`.

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
        """The part of a history that is known before the run, for a photo of this *sha256*.

        Examples
        --------
        >>> nm.Reconstructor(nm.load_model("pixelwise-srgb")).origin("5e1f", "srgb").model
        'pixelwise-srgb'
        """
        return cube_history.origin(self._setup_for(region, ensemble), sha256, encoding)

    def _setup_for(self, region: Rectangle | None, ensemble: bool | None = None) -> Setup:
        """The setup with the options of one photo, which are at first those of all."""
        options = self.options
        if region is not None:
            options = replace(options, region=region)
        if ensemble is not None:
            options = replace(options, ensemble=ensemble)
        return replace(self.setup, options=options)
