"""Model cards: the input, the output and the origin of a network.

A safetensors file carries strings beside its tensors (`__metadata__`). Ours contain the card as
JSON under "napari_mst.card", so that weights and card cannot be separated. Format:
https://github.com/huggingface/safetensors.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Literal, TypedDict, cast

from napari_mst.base.errors import CheckpointError, ModelError, shown
from napari_mst.photo.cameras import CAMERA_RGB

WEIGHTS = Path(__file__).parent / "weights"
"""Folder of the bundled weights files."""

FACTOR = "factor"
"""Name of the factors on the uncertainty left by colour, for photos without any error."""

NOISE = "noise"
"""Name of the uncertainty that noise adds in uncompressed photos, as shares of a spectrum."""

JPEG = "JPEG"
"""Name of the uncertainty that noise and JPEG add."""

CAMERA = "camera"
"""Name of the uncertainty that the JPEG of an unknown camera adds."""

BRIGHTNESS = "brightness below", "brightness above"
"""Names of the two factors, one number each, between which the true brightness of a photo lies.

Models for photos with unknown exposure and tone curve have them. Their uncertainty concerns the
shape of a spectrum, after applying the best gain of each photo.
"""

LIGHT_QUANTITY = "illuminant"
"""Quantity of a model that estimates the light of a photo instead of a cube."""

PHOTOGRAPHED = "mstpp-photo"
"""The model for photos from cameras, which infers light, exposure and tone curve."""

RENDERED = "mstpp-srgb"
"""The model for photos with exact colours."""

IN_MEMORY = "in memory"
"""Replaces the weights file of a model created in this session."""

_CARD_KEY = "napari_mst.card"
_HEADER_LIMIT = 2**22
"""Largest header parsed, in bytes: its objects take 20 times as much. MST++ has 25,000."""


class CardFields(TypedDict, total=False):
    """The fields of a `ModelCard` that a user may set."""

    name: str
    title: str
    is_linear: bool
    normalisation: Literal["none", "min-max"]
    quantity: str
    domain: str
    training_data: str
    licence: str
    accuracy: Mapping[str, Mapping[str, float]]
    reference: str
    rendering: str
    error_band: Mapping[str, tuple[float, ...]]


class FileCard(CardFields, total=False):
    """The fields of a card that a user may set for a weights file: also the wavelengths."""

    wavelengths: Sequence[float]


@dataclass(frozen=True, repr=False)
class ModelCard:
    """The description and the conventions of a model.

    Attributes
    ----------
    name, title
        Short name (a key of `MODELS`) and a line for people.
    wavelengths
        Band centres in nm; empty if unknown.
    is_linear
        True if the network takes linear light, False if it takes the stored values.
    normalisation
        Normalisation of the whole photo: none, or (x - min) / (max - min).
    quantity
        The quantity of the cube: "reflectance" or "relative radiance"; "" if unknown. Or
        `LIGHT_QUANTITY`, for a model without a cube.
    rendering
        Rendering from cube to photo: `colour.SRGB_D65`, `cameras.CAMERA_RGB`; "" if unknown.
    error_band
        Calibration of the 90 % prediction interval, on simulated scenes that no model has seen:
        under `FACTOR`, `NOISE`, `JPEG`, `CAMERA` and `BRIGHTNESS` one number per band, or one for
        all bands (see `reconstruction.model_intervals`). Without a factor there is no interval.
    domain, training_data, licence, reference
        Sentences for people: suitable photos, training data, terms, and publication.
    accuracy
        Data set -> metric -> value.
    file
        Name of the bundled weights file; `IN_MEMORY` for a model of this session; None for a model
        that the user provides.
    url, git_blob
        Address of the published weights, and git object id of a known copy (a hint, not a proof).
    is_example
        True if the model is bundled for inspection, not for its results.

    Notes
    -----
    ===========  ===================================================================
    wavelengths  nm
    accuracy     MRAE and RMSE in shares and reflectance, PSNR in dB, SAM in degrees
    ===========  ===================================================================

    Examples
    --------
    >>> card = nm.load_model("mstpp-srgb").card
    >>> card.wavelengths[0], card.wavelengths[-1], len(card.wavelengths)
    (400.0, 700.0, 31)
    >>> card.has_intervals, card.needs_camera
    (True, False)
    """

    name: str
    title: str
    wavelengths: tuple[float, ...]
    is_linear: bool
    normalisation: Literal["none", "min-max"]
    quantity: str
    domain: str = ""
    training_data: str = ""
    licence: str = ""
    accuracy: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)
    reference: str = ""
    file: str | None = None
    url: str | None = None
    git_blob: str | None = None
    rendering: str = ""
    error_band: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)
    is_example: bool = False

    def __repr__(self) -> str:
        """One line: its name."""
        return f"<card {shown(self.name, 40)}>"

    @property
    def has_intervals(self) -> bool:
        """True if the model has a calibrated prediction interval."""
        return FACTOR in self.error_band

    @property
    def needs_camera(self) -> bool:
        """True if the network needs the camera and the illuminant of every photo."""
        return self.rendering == CAMERA_RGB

    @property
    def tells_light(self) -> bool:
        """True if the network estimates the light of a photo instead of a cube."""
        return self.quantity == LIGHT_QUANTITY


PUBLISHED = ModelCard(
    name="mst-plus-plus",
    title="MST++ as published (NTIRE 2022)",
    wavelengths=tuple(float(nm) for nm in range(400, 701, 10)),
    is_linear=False,
    normalisation="min-max",
    quantity="relative radiance",
    domain=(
        "Dark linear camera RGB as in NTIRE 2022 (Basler response, no gamma, no white balance); "
        "not sRGB photos."
    ),
    training_data="ARAD_1K, the data set of the NTIRE 2022 Spectral Recovery Challenge.",
    licence="MIT",
    reference="Cai et al., CVPRW 2022, doi:10.1109/CVPRW56347.2022.00090",
    url="https://github.com/caiyuanhao1998/MST-plus-plus",
    git_blob="02ed90227552f80359531aff17dda696fa0df8ad",
)
"""The published network. Download its weights from the authors and load the file."""


def card_to_metadata(card: ModelCard, **others: str) -> dict[str, str]:
    """The metadata for `safetensors.torch.save_file`: the fields of the card, and *others*."""
    stored = {name: value for name, value in asdict(card).items() if name != "file"} | others
    return {_CARD_KEY: json.dumps(stored, sort_keys=True)}


def card_from_metadata(metadata: Mapping[str, str], file: str | None = None) -> ModelCard | None:
    """The card in the metadata of a safetensors file; None without one.

    Fields of later versions are ignored.

    Raises
    ------
    CheckpointError
        If the card is damaged or unusable.
    """
    if _CARD_KEY not in metadata:
        return None
    try:
        stored = dict[str, Any](json.loads(metadata[_CARD_KEY]))
        band = dict(stored.get("error_band", {}))
        stored["error_band"] = {name: tuple(map(float, numbers)) for name, numbers in band.items()}
        stored["wavelengths"] = tuple(map(float, stored["wavelengths"]))
        known = {field.name for field in fields(ModelCard)} & stored.keys()
        card = ModelCard(**{name: stored[name] for name in known} | {"file": file})
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise CheckpointError(
            f"Expected a model card as JSON, got one that is damaged ({error!r:.80})."
        ) from error
    if faults := faults_of(stored):
        raise CheckpointError(f"Expected a sound model card, got an unusable {', '.join(faults)}.")
    return card


def read_metadata(file: BinaryIO) -> dict[str, str]:
    """The `__metadata__` of a safetensors file; only its header is read.

    Raises
    ------
    CheckpointError
        If *file* does not begin with the header of a safetensors file.
    """
    size = int.from_bytes(file.read(8), "little")
    try:
        header = json.loads(file.read(size) if size <= _HEADER_LIMIT else "")
        metadata = header.get("__metadata__", {})
        return {str(key): str(value) for key, value in metadata.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            "Expected a safetensors file, got a damaged header. Download it again."
        ) from error


def card_of_file(path: Path) -> ModelCard | None:
    """The card in a weights file; None if there is none or it cannot be read."""
    try:
        if not path.is_file():  # opening a pipe would wait forever
            return None
        with path.open("rb") as file:
            return card_from_metadata(read_metadata(file))
    except (OSError, CheckpointError):
        return None


def faults_of(stored: Mapping[str, Any]) -> list[str]:
    """Names of fields that would break a reconstruction or its provenance."""
    plain = [field for field in fields(ModelCard) if field.type in (str, str | None, bool)]
    faults = [
        field.name
        for field in plain
        if field.name in stored and not isinstance(stored[field.name], cast("type", field.type))
    ]
    wavelengths = stored["wavelengths"]
    is_band = all(
        len(numbers) in (1, len(wavelengths)) and all(0 <= number < math.inf for number in numbers)
        for numbers in stored["error_band"].values()
    )
    accuracy = stored.get("accuracy", {})
    is_accuracy = isinstance(accuracy, dict) and all(
        isinstance(measures, dict)
        and all(isinstance(value, int | float) for value in measures.values())
        for measures in accuracy.values()
    )
    sound = {
        "accuracy": is_accuracy,
        "wavelengths": all(map(math.isfinite, wavelengths)),
        "error_band": is_band,
        "normalisation": stored["normalisation"] in ("none", "min-max"),
    }
    return faults + [name for name, is_sound in sound.items() if not is_sound]


def _bundled() -> Iterator[ModelCard]:
    for path in sorted(WEIGHTS.glob("*.safetensors")):
        with path.open("rb") as file:
            card = card_from_metadata(read_metadata(file), path.name)
        if card is not None:
            yield card


# The first model is the default: the one for photos from cameras, then others without a camera.
_ORDERED = sorted(
    _bundled(), key=lambda card: (card.is_example, card.needs_camera, card.name != PHOTOGRAPHED)
)
_CARDS = (*_ORDERED, PUBLISHED)

_LISTED = {card.name: card for card in _CARDS if not card.tells_light}

MODELS: Mapping[str, ModelCard] = MappingProxyType(_LISTED)
"""All models for cubes by name: the bundled ones, default first, and the published one.

Users provide the weights of the published model. The models that `Model.of` created with a name in
this session come last.
"""


def model_for(
    exact_by: str, is_of_sensor: bool = False, cards: Mapping[str, ModelCard] = MODELS
) -> str:
    """The name of the model for a photo, "" for none among *cards*.

    The window, the command line and Python share this rule.

    Parameters
    ----------
    exact_by
        The reason why its colours are exact, from `Photo.exact_by` or the user; "" for none, as for
        a file from a camera.
    is_of_sensor
        True for sensor values, as in a RAW photo.
    """
    fitting = [
        name for name, card in cards.items() if card.file and card.needs_camera == is_of_sensor
    ]
    if exact_by and RENDERED in fitting:
        return RENDERED
    return next(iter(fitting), "")


def reason_for(model: str, exact_by: str) -> str:
    """A sentence on how well *model* suits such a photo; "" for other models."""
    if model not in (PHOTOGRAPHED, RENDERED) or PHOTOGRAPHED not in MODELS:
        return ""
    if exact_by:
        told = f"The colours of the photo are exact ({exact_by})"
        if model == RENDERED:
            return f"{told}: {RENDERED} takes them as they are."
        return f"{told}, yet {PHOTOGRAPHED} guesses light and curve: {RENDERED} is more accurate."
    told = "Nothing says that the colours of the photo are exact"
    if model == PHOTOGRAPHED:
        return f"{told}, so {PHOTOGRAPHED} works out light, exposure and tone curve from it."
    return f"{told}, which {RENDERED} takes for granted: {PHOTOGRAPHED} works them out."


LIGHT_MODELS: Mapping[str, ModelCard] = MappingProxyType(
    {card.name: card for card in _CARDS if card.tells_light}
)
"""The bundled models that estimate the light of a photo, by name."""


def list_card(card: ModelCard) -> None:
    """Add the *card* of a model of this session to `MODELS`, or replace an older one.

    Raises
    ------
    ModelError
        If a model from outside this session has the same name.
    """
    if _LISTED.get(card.name, card).file != IN_MEMORY:
        raise ModelError(
            f"Expected a name of its own, got {shown(card.name)}, which is one of MODELS. "
            "Choose another."
        )
    _LISTED[card.name] = card
