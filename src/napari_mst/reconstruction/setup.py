"""A model set up to run: on its device, in its precision, for a camera, with compiled kernels.

Averaging over flips and transposes is part of the setup. Letters: C channels, H rows, W columns.
"""

import copy
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from napari_mst.base.arrays import Array, Floats
from napari_mst.base.errors import CameraError, DenoisingError, DeviceError, ModelError, shown
from napari_mst.base.progress import Progress
from napari_mst.cube.colour import SRGB_D65
from napari_mst.engine.device import DeviceChoice, choose_device
from napari_mst.engine.fast_paths import native
from napari_mst.engine.features import PhotoRows
from napari_mst.engine.plan import Plan, dtype_of
from napari_mst.engine.run import execute
from napari_mst.engine.schedule import schedule
from napari_mst.engine.steps import has_fast_path, plain_values
from napari_mst.models import Model, ModelCard
from napari_mst.networks.network import Program
from napari_mst.photo.cameras import CAMERA_RGB, Acquisition
from napari_mst.reconstruction.options import Denoise, RunOptions

if TYPE_CHECKING:
    from torch import nn

    from napari_mst.networks.module import Network

PREPARING = "Preparing the engine for this processor: some seconds, once."

PATIENCE = 0.1
"""Seconds between checks of the compiler and of cancellation."""


N = TypeVar("N", bound="nn.Module")


_CHECKED: set[tuple[type, str]] = set()
"""Third-party networks whose passes were checked, with their weights."""

AS_LOADED = ("cpu", "float32")
"""Device and precision of a network as loaded."""


class Orientation(NamedTuple):
    """A flip of rows, columns or both, optionally followed by a transpose."""

    flips_rows: bool
    flips_columns: bool
    is_transposed: bool


ORIENTATIONS = tuple(Orientation(*each) for each in product((True, False), repeat=3))
"""The eight orientations of the published ensemble.

The last one is the identity: a recorder keeps the attention of the last run, which should be that
of the unchanged photo.
"""

UNTURNED = ORIENTATIONS[-1]
"""The identity."""


def turned(planes: Array, orientation: Orientation) -> Array:
    """Return a view of *planes* (C, H, W), flipped or transposed by *orientation*."""
    if orientation == UNTURNED:
        return planes
    row_step = -1 if orientation.flips_rows else 1
    column_step = -1 if orientation.flips_columns else 1
    flipped = planes[:, ::row_step, ::column_step]
    return flipped.swapaxes(1, 2) if orientation.is_transposed else flipped


def turned_back(planes: Array, orientation: Orientation) -> Array:
    """Return a view of *planes* with `turned` undone."""
    upright = planes.swapaxes(1, 2) if orientation.is_transposed else planes
    return turned(upright, orientation._replace(is_transposed=False))


@dataclass(frozen=True, eq=False)
class Setup:
    """A model ready to run with its options: everything that stays the same from photo to photo.

    *own* is a copy of the network on another device, in another precision, or for a camera.
    """

    model: Model
    options: RunOptions
    device: DeviceChoice
    own: "Network | None" = None

    @property
    def network(self) -> "Network":
        """The network on its device, in its precision."""
        return self.model.network if self.own is None else self.own

    @property
    def program(self) -> Program:
        """The passes of the network, by compiled kernels unless the torch module is in use."""
        compiled = self.model.compiled if self.own is None and not self.is_narrow else None
        if compiled is not None and native.can_run(self.device.device, compiled.dtype):
            return compiled
        return self.network.program()

    @property
    def is_narrow(self) -> bool:
        """True if features are kept in 16 bits."""
        return _is_narrow(self.options.precision)

    @property
    def orientations(self) -> tuple[Orientation, ...]:
        """The flips and transposes of a photo over which results are averaged."""
        return ORIENTATIONS if self.options.ensemble else (UNTURNED,)

    @property
    def corrects_colour(self) -> bool:
        """True if correction is enabled and the card tells how photos show spectra."""
        card = self.model.card
        is_known = card.rendering in (SRGB_D65, CAMERA_RGB) and bool(card.wavelengths)
        return self.options.correct_colour and is_known

    def with_acquisition(self, acquisition: Acquisition) -> "Setup":
        """Return the setup for photos of another *acquisition*; hooks on modules are shared."""
        network = copied(self.network)
        _set_response(network, acquisition)
        return replace(self, options=replace(self.options, acquisition=acquisition), own=network)

    def has_kernels(self) -> bool:
        """True if compiled kernels run the network.

        The first call on a machine compiles them, which takes some seconds.
        """
        return has_fast_path(self.program, self.device.device, self._dtype)

    def has_plain_passes(self) -> bool:
        """True if torch computes some pass directly; its rounding depends on tile borders."""
        return plain_values(self.program, self.device.device, self._dtype) > 0

    @property
    def _dtype(self) -> Any:
        return dtype_of(self.options.precision, self.program.dtype)

    def cube_of(self, source: PhotoRows, plan: Plan, progress: Progress) -> Floats:
        """Return the output (B, H, W) of the network for *source*.

        Forward hooks on blocks are then called with whole maps, which takes two more runs for each.
        """
        program, device = self.program, self.device.device
        numbers = execute(program, source, device, plan, progress).numbers
        for each in program.passes:
            if each.is_heard:
                maps = (
                    execute(program.until(name), source, device, plan, progress.part(1, 1)).numbers
                    for name in (each.reads[0], each.writes)
                )
                import torch

                each.call_hooks(*(torch.from_numpy(values)[None].to(device) for values in maps))
        return numbers


def set_up(model: Model, options: RunOptions) -> Setup:
    """Set *model* up to run with *options*.

    Raises
    ------
    CameraError
        If the model needs an acquisition and none is given, or cannot use the given one.
    DenoisingError
        If the denoising option is invalid.
    ModelError
        If the model makes no cubes, or its network is not ours and fails `check_network`.
    DeviceError
        If the device is missing or does not support the precision, or if the model has no features
        to keep in 16 bits.
    """
    _check_makes_cubes(model)
    _check_acquisition(model.card, options.acquisition)
    _check_denoise(options.denoise)
    device = choose_device(options.device)
    device.check(options.precision)
    _check_features(model, options.precision)
    _check_stranger(model)
    return Setup(model, options, device, _network_on(device, model, options))


def copied(network: N) -> N:
    """Copy *network*, sharing its forward hooks, such as those that record attention."""
    shared = {
        id(hooks): hooks
        for part in network.modules()
        for name, hooks in vars(part).items()
        if name.startswith("_forward_")
    }
    return copy.deepcopy(network, shared)


def _network_on(device: DeviceChoice, model: Model, options: RunOptions) -> "Network | None":
    """Copy the network of *model* to *device*; None if it can be used as loaded."""
    precision = "float64" if options.precision == "float64" else "float32"
    if (device.name, precision) == AS_LOADED and options.acquisition is None:
        return None
    import torch

    network = copied(model.network).to(device.device, getattr(torch, precision))
    if options.acquisition is not None and not options.acquisition.is_estimated:
        _set_response(network, options.acquisition)
    return network


def _is_narrow(precision: str) -> bool:
    return precision in ("bfloat16", "float16")


def _check_makes_cubes(model: Model) -> None:
    card = model.card
    if card.tells_light:
        raise ModelError(
            f"Expected a model that makes cubes, got {card.name}, which estimates the light of a "
            "photo. Use `estimate_light`, or another model."
        )
    if model.compiled is None and not model.network.makes_bands:
        raise ModelError(
            f"Expected a model that makes a spectrum of every pixel, got {shown(card.name)}, which "
            "gives one answer for the whole photo. Take another, or look at its attention "
            "in Python, with `load_model(...).network.encoded(...)`."
        )


def _check_acquisition(card: ModelCard, acquisition: Acquisition | None) -> None:
    if card.needs_camera and acquisition is None:
        raise CameraError(
            "Expected the camera and the illuminant of the photo "
            f"for the model {card.name}, got none. Choose them."
        )
    if acquisition is not None and not card.needs_camera:
        camera = acquisition.camera[-40:]
        raise CameraError(
            f"Expected no camera for the model {card.name}, got {camera}. Use mstpp-camera."
        )


def _check_denoise(denoise: Denoise) -> None:
    is_number = isinstance(denoise, int | float) and not isinstance(denoise, bool)
    if denoise in ("auto", "off") or (is_number and 0 < float(denoise) < math.inf):
        return
    raise DenoisingError(
        f"Expected denoise 'auto', 'off' or a number above 0, got {denoise!r:.40}. "
        "Give 1 for what 'auto' does to noisy photos."
    )


def _check_features(model: Model, precision: str) -> None:
    if _is_narrow(precision) and schedule(model.network.program()).is_pointwise:
        raise DeviceError(
            f"Expected float32 or float64 for {model.card.name}, which keeps no features, "
            f"got {precision}."
        )


def _check_stranger(model: Model) -> None:
    """Check, once, the passes of a third-party network."""
    if model.compiled is not None:
        return
    kind = type(model.network)
    if kind.__module__.split(".")[0] == __name__.split(".")[0]:
        return
    if (kind, model.weights_sha256) not in _CHECKED:
        from napari_mst.engine.checking import check_network

        check_network(model.network)
        _CHECKED.add((kind, model.weights_sha256))


def _set_response(network: "nn.Module", acquisition: Acquisition) -> None:
    """Pass the response of *acquisition* to the parts of *network* that use it."""
    import torch

    response = torch.from_numpy(acquisition.response)
    for part in network.modules():
        set_response = getattr(part, "set_response", None)
        if set_response is not None:
            set_response(response)


def compile_kernels(setup: Setup, say: Callable[[str], None], progress: Progress) -> None:
    """Compile the kernels for which the first run would have to wait.

    *say* is called only if kernels are being compiled: loading them takes as long on a slow
    machine, but every time. The compiler cannot be stopped: after a cancellation it ends on its
    own, or with the program.
    """
    # A daemon, so that closing the program does not wait for the compiler.
    compiler = threading.Thread(target=setup.has_kernels, daemon=True)
    compiler.start()
    is_said = False
    while compiler.is_alive():
        compiler.join(PATIENCE)
        progress.check()
        if not is_said and native.is_compiling():
            say(PREPARING)
            is_said = True
