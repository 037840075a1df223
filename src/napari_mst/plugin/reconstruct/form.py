"""The state of the reconstruction dock, without Qt: the photo, the model, and all other choices.

The dock writes what the user does into a `ReconstructionForm` and draws what it says; a script uses
it alone. `requests` turns it into requests for jobs.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from napari.layers import Image
from psygnal import SignalGroupDescriptor

from napari_mst.calibration.chart import CHARTS, Corners
from napari_mst.calibration.grey_scale import GreyScale
from napari_mst.calibration.white_patch import GREY_CARD, GreyPatch
from napari_mst.cube.colour import SRGB_D65
from napari_mst.models import MODELS, ModelCard
from napari_mst.models.cards import PHOTOGRAPHED, RENDERED, card_of_file, model_for, reason_for
from napari_mst.photo.cameras import ESTIMATED, Acquisition, matching_camera
from napari_mst.photo.files import camera_named_in
from napari_mst.photo.photo import Photo
from napari_mst.plugin.jobs.workspace import Extent, JobState
from napari_mst.plugin.viewer.layer_photos import has_pages, is_of_sensor, is_raw
from napari_mst.reconstruction.options import DEFAULTS, RunOptions

if TYPE_CHECKING:
    from napari_mst.calibration.balancing import WhiteBalance
    from napari_mst.calibration.chart_calibration import Calibration
    from napari_mst.calibration.light.estimating import LightEstimate
    from napari_mst.engine.device import DeviceChoice
    from napari_mst.plugin.jobs.workspace import Correction


PartChoice = Literal["whole", "visible", "drawn"]
"""The part of the photo to reconstruct: all, what is on the screen, or a drawn rectangle."""


@dataclass(frozen=True, eq=False)
class Finding:
    """A fact found in a photo: its white by a grey patch, its colours by a chart, or its light.

    A finding without text is false: nothing was found.

    Attributes
    ----------
    text
        The finding in a sentence or two, for a person.
    acquisition
        Camera, light and white of a linear photo; None where they were not found.
    light
        The likely lights of the photo; None if they were not asked for.
    calibration
        The colours of a chart; None without a chart.
    balance
        The white of an sRGB photo; None if it was not asked for.
    corrects_white
        True if the next run corrects the photo by `balance`.
    scale, greys
        The clicked grey patches of an sRGB photo. They correct the photo, or the cube of the model
        for photos of cameras.
    sample
        A small copy of an sRGB photo, on which the corrections are previewed, or a picture of what
        a run will make of a RAW photo; None without either.
    details
        A table to show on request; "" without one.
    layer
        Finds the photo, which the finding does not keep alive.
    """

    text: str = ""
    acquisition: Acquisition | None = None
    light: "LightEstimate | None" = None
    calibration: "Calibration | None" = None
    balance: "WhiteBalance | None" = None
    corrects_white: bool = False
    scale: GreyScale | None = None
    greys: tuple[GreyPatch, ...] = ()
    sample: Photo | None = None
    details: str = ""
    layer: Callable[[], Image | None] = lambda: None

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def corrections(self) -> tuple["Correction", ...]:
        """All that the next run does to the photo first."""
        balance = self.balance if self.corrects_white else None
        each_may_be = (balance, self.scale, self.calibration)
        return tuple(each for each in each_may_be if each is not None)


NOTHING = Finding()
RENDERING = "rendering"
"""The evidence that the colours of a rendered photo are exact, for its history."""
NO_PHOTO = "Open a photo first: File > Open, or File > Open Sample > Hyperspectral napari-mst."
NO_DEVICES = "Looking for devices ..."


class DeviceEntry(NamedTuple):
    """A device in the list: its title there, "auto" or torch's name, and what it is."""

    title: str
    name: str
    about: str


def device_entries(devices: "Sequence[DeviceChoice]") -> tuple[DeviceEntry, ...]:
    """List the *devices*, best first, after the automatic choice."""
    best = devices[0]
    named = [(device.name, device.name, device) for device in devices]
    listed = [(f"automatic ({best.name})", "auto", best), *named]
    return tuple(
        DeviceEntry(title, name, f"{device.name}: {device.reason}")
        for title, name, device in listed
    )


@dataclass(eq=False)
class ReconstructionForm:
    """The choices of one reconstruction; `events` has a signal for each field.

    Attributes
    ----------
    cards
        The models to choose from, by name.
    photo
        The Image layer to reconstruct, which the form does not keep alive.
    all_pages
        True to reconstruct all pages of a stack, and not only the page that is shown.
    extent
        How much of the cube is computed.
    photos
        All photos of the viewer.
    card, weights
        The model, and the weights file of a model without bundled weights. Until a user chooses a
        model, it is the one that fits the photo.
    wavelengths, takes
        For an ONNX file: the centres of its bands in nm, as typed, and the values that the network
        takes, "linear" or "srgb"; "" leaves either to the file.
    devices
        Empty until the devices of the computer are known.
    options
        The settings of the run; its acquisition and region are those of the photo.
    scheduler
        The address of a dask scheduler, whose workers make the cubes of a folder; "" for none.
    is_rendered
        True if the user says that the colours of the photo are exact.
    white
        The stored value of a white surface; 0 for the full scale of the file.
    grey
        Reflectance of the grey patch in per cent.
    chart, corners
        The kind of chart in the photo, a name of `CHARTS`, and the frame around it: the centres of
        its corner patches; None without a frame.
    is_far_off
        True if a run has found the white of the photo far from that of daylight.
    finding
        The latest finding in the photo; `NOTHING` before the first, and for another photo.
    hint
        Says that the camera was preselected; "" if it was not.
    """

    events: ClassVar[SignalGroupDescriptor] = SignalGroupDescriptor()

    cards: Mapping[str, ModelCard] = field(default_factory=lambda: MODELS)
    photo: "weakref.ref[Image] | None" = None
    all_pages: bool = False
    photos: "tuple[weakref.ref[Image], ...]" = ()
    part: PartChoice = "whole"
    extent: Extent = "auto"
    card: str = ""
    weights: str = ""
    wavelengths: str = ""
    takes: str = ""
    devices: tuple[DeviceEntry, ...] = ()
    options: RunOptions = DEFAULTS
    scheduler: str = ""
    camera: str = ""
    illuminant: str = ""
    white: float = 0.0
    is_balanced: bool = True
    is_linear: bool = False
    is_rendered: bool = False
    grey: float = 100 * GREY_CARD
    chart: str = next(iter(CHARTS))
    corners: Corners | None = None
    is_far_off: bool = False
    finding: Finding = NOTHING
    hint: str = ""

    def __post_init__(self) -> None:
        self._is_card_chosen = bool(self.card)
        self.card = self.card or next(iter(self.cards))
        # A camera that was only suggested gives way to the camera of the next photo.
        self._suggested = ""
        self._suggested_light = ""
        self._is_of_sensor = self.needs_camera
        for changed in (self.events.devices, self.events.options):
            changed.connect(self._keep_device)
        self.events.card.connect(self._choose_card)
        # First, so that the camera and the light are those of the right model.
        self.events.photo.connect(self._suggest_card)
        for changed in (self.events.photo, self.events.card, self.events.weights):
            changed.connect(self._suggest_camera)
            changed.connect(self._suggest_light)
        for changed in (self.events.photo, self.events.weights):
            changed.connect(self.forget)
        self.events.card.connect(self._forget_other_kind)
        self.events.is_rendered.connect(self._take_other_card)
        for changed in (self.events.finding, self.events.part, self.events.all_pages):
            changed.connect(self._suggest_card)
        self.events.is_balanced.connect(self._suggest_light)
        self.events.photo.connect(self._forget_photo)
        self.events.weights.connect(self._forget_weights)

    @property
    def layer(self) -> Image | None:
        """The layer of the chosen photo; None if none is chosen, or it is gone."""
        return None if self.photo is None else self.photo()

    @property
    def has_pages(self) -> bool:
        """True if the photo is a stack of photos."""
        return self.layer is not None and has_pages(self.layer)

    @property
    def is_whole(self) -> bool:
        """True if one whole photo is reconstructed: its greys then can correct its cube."""
        return self.part == "whole" and not (self.all_pages and self.has_pages)

    @property
    def chosen_card(self) -> ModelCard:
        """The card of the chosen model."""
        return self.cards[self.card]

    @property
    def model(self) -> str:
        """The name of a bundled model, or the path of a weights file; "" if none is chosen yet."""
        return self.card if self.chosen_card.file else self.weights

    @property
    def is_onnx(self) -> bool:
        """True if the model is an ONNX file, which may have no card."""
        return self.model.lower().endswith(".onnx")

    @property
    def _own_card(self) -> ModelCard | None:
        """The card of the model, else the card in its weights file; None without either."""
        card = self.chosen_card
        return card if card.file else card_of_file(Path(self.weights))

    @property
    def needs_camera(self) -> bool:
        """True if the model needs to know the camera and the illuminant."""
        card = self._own_card
        return card is not None and card.needs_camera

    @property
    def asks_camera(self) -> bool:
        """True if the model needs camera and illuminant, and the photo has not shown them."""
        return self.needs_camera and self.finding.acquisition is None

    @property
    def asks_weights(self) -> bool:
        """True if the model has no bundled weights."""
        return not self.chosen_card.file

    @property
    def fitting_card(self) -> str:
        """The model for photos of this kind: see `model_for`."""
        is_of_raw = self.layer is not None and is_raw(self.layer)
        return model_for(self.exact_by, is_of_raw, self.cards) or self.card

    @property
    def exact_by(self) -> str:
        """The evidence that the colours of the photo are exact; "" if there is none."""
        if self.is_rendered:
            return RENDERING
        is_corrected = self.finding.scale is not None and not self.is_whole
        if is_corrected or self.finding.calibration:
            return "as measured in the photo"
        dtype = "uint8" if self.layer is None else str(self.layer.dtype)
        return "" if dtype in ("uint8", "bool") else f"{dtype} values"

    @property
    def reason(self) -> str:
        """Says whether the model suits the photo; "" for other models or without a photo."""
        return "" if self.layer is None else reason_for(self.card, self.exact_by)

    @property
    def may_ask(self) -> bool:
        """True unless a chart or lights are shown, in place of the questions, until forgotten.

        More greys may follow the first.
        """
        return self.corners is None and self.finding.light is None

    @property
    def may_be_rendered(self) -> bool:
        """True if the user may know that the colours of the photo are exact."""
        return self.card in (PHOTOGRAPHED, RENDERED) and self.layer is not None

    @property
    def misfit(self) -> str:
        """Says why the model does not fit the photo; "" if it does, or nothing is known."""
        card, layer = self._own_card, self.layer
        if card is None or layer is None:
            return ""
        if is_raw(layer):
            if card.rendering != SRGB_D65:
                return ""
            return f"This photo holds the values of a sensor. {card.name} is for sRGB photos."
        if self.asks_if_linear and not self.is_linear:
            return f"This photo has 8 bits, as sRGB photos have. {card.name} needs linear values."
        return ""

    @property
    def asks_if_linear(self) -> bool:
        """True if the photo has 8 bits, which a model that needs a camera refuses."""
        return self.needs_camera and self.layer is not None and self.layer.dtype == "uint8"

    @property
    def is_ready(self) -> bool:
        """True if the devices are known, so that a job can start."""
        return bool(self.devices)

    @property
    def chosen_device(self) -> DeviceEntry | None:
        """The chosen entry of the list of devices; None until it is known."""
        return next((each for each in self.devices if each.name == self.options.device), None)

    def value(self, field: str) -> Any:
        """Return the value of a *field* of the form, or of its options."""
        return getattr(self.options if hasattr(self.options, field) else self, field)

    def choose(self, field: str, value: Any) -> None:
        """Set a *field* of the form, or of its options."""
        if hasattr(self.options, field):
            self.options = replace(self.options, **{field: value})
        else:
            setattr(self, field, value)

    def take_light(self, name: str) -> None:
        """Take *name* as the only light of the photo."""
        finding = self.finding
        if finding.light is None or finding.balance is None:
            self.illuminant = name
            return
        # This module imports torch, which is already loaded, because the light was estimated.
        from napari_mst.calibration.balancing import balance_for

        balance = balance_for(finding.light, name)
        self.finding = replace(finding, balance=balance, corrects_white=True)

    def correct_white(self, is_wanted: bool) -> None:
        """Have the next run correct the white found in an sRGB photo, or leave it as it is."""
        self.finding = replace(self.finding, corrects_white=is_wanted)

    def use_fitting_card(self) -> None:
        """Take the model for photos of this kind, here and for the photos to come."""
        self.card = self.fitting_card
        self._is_card_chosen = False

    def _choose_card(self) -> None:
        self._is_card_chosen = True

    def _suggest_card(self) -> None:
        """Take the model for photos of this kind, unless somebody has chosen one."""
        if self.layer is not None and not self._is_card_chosen:
            self.use_fitting_card()

    def _keep_device(self) -> None:
        """Choose the automatic device if the last session had a GPU that is gone."""
        if self.devices and self.chosen_device is None:
            self.choose("device", "auto")

    def _suggest_camera(self) -> None:
        """Choose the camera that the photo's file names, unless the user has chosen another."""
        path = self.layer.source.path if self.needs_camera and self.layer is not None else None
        name = matching_camera(*camera_named_in(Path(path))) if path else ""
        if not name or self.camera.strip() not in ("", self._suggested):
            self.hint = ""
            return
        self._suggested = name
        self.camera = name
        self.hint = f"The file says that {name} took it: check the camera."

    def _suggest_light(self) -> None:
        """Have the light estimated where it can be, unless the user has named one."""
        if self.illuminant.strip() in ("", self._suggested_light):
            has_camera = self.needs_camera and self.layer is not None
            # Only the values of the sensor show the light.
            is_seen = has_camera and (is_of_sensor(self.layer) or not self.is_balanced)
            self._suggested_light = ESTIMATED if is_seen else ""
            self.illuminant = self._suggested_light

    def forget(self) -> None:
        """Drop what was found in the photo, as for another photo or another kind of model."""
        self.corners, self.finding = None, NOTHING

    def _forget_other_kind(self) -> None:
        """Drop a finding of linear photos for a model of sRGB photos, and the other way round."""
        is_of_sensor, self._is_of_sensor = self._is_of_sensor, self.needs_camera
        if is_of_sensor != self._is_of_sensor or self.card not in (PHOTOGRAPHED, RENDERED):
            self.forget()

    def _take_other_card(self) -> None:
        """Take the model for exact colours, or for others, as the user has just said."""
        if self.card in (PHOTOGRAPHED, RENDERED):
            self.use_fitting_card()

    def _forget_photo(self) -> None:
        self.is_far_off = self.is_rendered = False

    def _forget_weights(self) -> None:
        self.wavelengths = self.takes = ""


def status(form: ReconstructionForm, state: JobState) -> str:
    """Choose the sentence under the form: the state of the job, or the next step.

    The lines after the first are details.
    """
    # How a job ended is old news once its photo has left the viewer.
    is_news = form.layer is not None or not state.is_idle
    if state.text and state.is_of_photo and is_news:
        return state.text
    if form.layer is None:
        return NO_PHOTO
    if form.misfit:
        return form.misfit
    entry = form.chosen_device
    ready = NO_DEVICES if entry is None else f"Ready for {entry.about}."
    return f"{form.hint} {ready}".lstrip()
