"""`Model`, a network with its card, and `load_model`, by name or from a file."""

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from napari_mst.base.errors import CheckpointError, ModelError, OutOfMemory, shown
from napari_mst.base.memory import is_out_of_memory
from napari_mst.models.cards import (
    IN_MEMORY,
    LIGHT_MODELS,
    MODELS,
    PUBLISHED,
    WEIGHTS,
    CardFields,
    FileCard,
    ModelCard,
    card_from_metadata,
    card_to_metadata,
    faults_of,
    list_card,
)
from napari_mst.models.onnx_file import read_onnx, write_onnx
from napari_mst.models.seal import check_bundled
from napari_mst.models.weights_files import checked, is_safetensors, parsed, read_weights
from napari_mst.networks import NETWORKS, OURS, Kind, Network
from napari_mst.networks.measured import Reach, measured

DEFAULT = next(iter(MODELS))

_START_OF_ONNX = b"\x08"  # the version of the format

_ONNX = replace(NETWORKS["pixelwise"], title="ONNX network", taken_as="a network of linear light")
"""The conventions of an ONNX file without a card."""

_ASSUMED_LINEAR = (
    "Nobody said if the network takes linear light or stored values: linear light is taken."
)

_OTHER_NETWORKS = {
    "body.0.body.0.blocks.": "MIRNet",
    "shallow_feat1.0.weight": "MPRNet",
    "patch_embed.proj.weight": "Restormer",
}
"""Beginning of a key that only this network of the authors' tool box has, for an error."""


@dataclass(frozen=True, eq=False)
class Model:
    """A network with its conventions.

    `assumptions` are sentences for a person about what the file did not say.

    Raises
    ------
    ModelError
        If the network does not say its passes: see `napari_mst.networks.Network`.

    Notes
    -----
    =======  ==================================================
    network  takes (N, 3, H, W) float32 0-1, gives (N, B, H, W)
    =======  ==================================================

    Examples
    --------
    >>> model = nm.load_model("pixelwise-srgb")
    >>> model.card.name, model.network.out_bands
    ('pixelwise-srgb', 31)
    >>> import torch
    >>> mine = torch.nn.Conv2d(3, 5, kernel_size=3, padding=1)  # any module of your own
    >>> model = nm.Model.of(mine, wavelengths=range(400, 801, 100), is_linear=False)
    >>> nm.Reconstructor(model).reconstruct(np.zeros((45, 67, 3))).shape
    (5, 45, 67)
    """

    card: ModelCard
    network: Network
    weights_sha256: str
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not callable(getattr(self.network, "program", None)):
            kind = type(self.network).__name__
            raise ModelError(
                f"Expected a network that says its passes (`napari_mst.networks.Network`), "
                f"got {kind}. Make the model with `Model.of({kind}, wavelengths)`."
            )

    def to_onnx(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Save the model and its card as an ONNX file, for other programs and for `load_model`.

        The graph takes photos (1, C, H, W), float32, of any H and W that are multiples of the
        number under ``napari_mst.multiple`` in its metadata: photos are padded before, as
        `numpy.pad` does in its mode "reflect", and cubes cropped. It needs the extra `onnx`.

        Raises
        ------
        ModelError
            If the model needs a camera, or if torch cannot export its network for all sizes: five
            are compared, to 1e-5 of the largest value.
        CheckpointError
            If the extra is not installed.
        SaveError
            If the file exists or cannot be written.

        Examples
        --------
        >>> nm.load_model("mstpp-srgb").to_onnx("model.onnx")  # doctest: +SKIP
        """
        if self.card.needs_camera:
            raise ModelError(
                f"Expected a model for sRGB photos, got {shown(self.card.name)}, whose network "
                "changes with the camera. Export another one."
            )
        write_onnx(Path(path), self.network, card_to_metadata(self.card), overwrite=overwrite)
        return Path(path)

    @classmethod
    def of(
        cls,
        module: nn.Module,
        wavelengths: Iterable[float],
        *,
        in_bands: int = 3,
        reach: Reach = "measured",
        **card: Unpack[CardFields],
    ) -> "Model":
        """The model of any torch module (N, 3, H, W) -> (N, B, H, W), whose geometry is measured.

        The module may want sides that are multiples of a number up to 32. It is run tile by tile if
        an output pixel looks less than 256 pixels far, else on the whole photo at once; either way
        the cube is that of one forward, to the rounding of torch. The model has a copy of the
        module as it is now, in evaluation mode and float32. A module that says its passes (a
        `napari_mst.networks.Network`) runs by them, and its attention can be recorded.

        Parameters
        ----------
        wavelengths
            Band centres in nm, one for each of the B bands.
        in_bands
            Channels of the photo.
        reach
            Pixels on each side on which an output pixel depends, if known; None for all.
        card
            Fields of the `ModelCard`, as ``name``, ``is_linear``, ``normalisation``, ``quantity``.
            By default the module takes linear light as it is and gives reflectance. With a name,
            the model is one of `models` until the program ends: the window lists it.

        Raises
        ------
        ModelError
            If the module takes no such photo, if its result has another size or number of bands,
            if *reach* is too short, or if a field of the card is unusable or its name is taken.
        """
        name = type(module).__name__
        usual = {"name": name, "title": card.get("name", name), **OURS}
        sound = _sound_card({**usual, **card, "wavelengths": wavelengths, "file": IN_MEMORY})
        copied = copy.deepcopy(module).cpu().float().eval().requires_grad_(False)
        network = copied if isinstance(copied, Network) else measured(copied, in_bands, reach)
        if len(sound.wavelengths) != network.out_bands:
            raise ModelError(
                f"Expected {network.out_bands} wavelengths, one for each band of the module, "
                f"got {len(sound.wavelengths)}."
            )
        assumed = () if "is_linear" in card else (_ASSUMED_LINEAR,)
        model = cls(sound, network, _sha256_of(network), assumed)
        if "name" in card:
            list_card(sound)
            _MADE[sound.name] = model
        return model

    def __repr__(self) -> str:
        """One line: name, network, channels and the beginning of the weights' checksum."""
        kind = type(self.network).__name__
        size = f"{self.network.in_bands} channels to {self.network.out_bands} bands"
        return f"<Model {shown(self.card.name)}: {kind}, {size}, weights {self.weights_sha256[:8]}>"


_MADE: dict[str, Model] = {}
"""The models that were made in this session, by the names that they were given."""


def _sound_card(fields: Mapping[str, Any]) -> ModelCard:
    """The card of *fields*; raises `ModelError`."""
    try:
        wavelengths = tuple(map(float, fields["wavelengths"]))
        card = ModelCard(**{**fields, "wavelengths": wavelengths})
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"Expected wavelengths in nm and fields of a model card, got: {error}."
        ) from error
    if faults := faults_of(vars(card)):
        raise ModelError(f"Expected a sound model card, got an unusable {', '.join(faults)}.")
    return card


def _sha256_of(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in network.state_dict().items():
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def load_model(name_or_path: str | PathLike[str] = DEFAULT, **card: Unpack[FileCard]) -> Model:
    """Load a model of `models` by name, or a weights file of a network of `NETWORKS`.

    The default is the first model. A file is `.pth`, `.safetensors` or, with the extra `onnx`,
    `.onnx`, which its content shows. An ONNX file may hold any network of photos: see `Model.of`.

    Parameters
    ----------
    card
        Fields of the `ModelCard`, as ``wavelengths`` in nm and ``is_linear``, that the file does
        not say, or says otherwise.

    Raises
    ------
    ModelError
        If it is neither the name of a model whose weights are bundled, nor a file.
    CheckpointError
        If the file is damaged, unsafe, or does not hold exactly the tensors of such a network; or
        if a field of *card* is unusable.
    OutOfMemory
        If there is too little memory for the weights.

    Notes
    -----
    =======  ===============================================
    returns  a network that takes photos of 0-1; see `Model`
    =======  ===============================================

    Examples
    --------
    >>> nm.load_model("pixelwise-srgb").card.title
    'Pixel by pixel, for sRGB photos: reflectance under D65, at once'
    """
    if name_or_path in _MADE:
        made = _MADE[str(name_or_path)]
        return replace(made, card=_sound_card({**vars(made.card), **card})) if card else made
    path = _weights_path(name_or_path)
    name = shown(path.name, 30)
    try:
        return _load(path, card)
    except (CheckpointError, ModelError) as error:
        raise CheckpointError(f"{name}: {error}") from error.__cause__
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"Expected memory for {name}, got too little. Close other programs."
        ) from error


def _weights_path(name_or_path: str | PathLike[str]) -> Path:
    named = {**MODELS, **LIGHT_MODELS}
    card = named.get(name_or_path) if isinstance(name_or_path, str) else None
    if card is not None and card.file is not None:
        return WEIGHTS / card.file
    path = Path(name_or_path)
    if path.is_file():
        return path
    if card is not None:
        raise ModelError(
            f"Expected a weights file, got the name {card.name}. Download it from {card.url}."
        )
    if path.suffix or path.name != str(path):
        raise ModelError(
            f"Expected a weights file, got {shown(path.name, 80)}, which does not exist. "
            "Check its path."
        )
    raise ModelError(
        f"Expected a weights file or one of {', '.join(MODELS)}, got {str(name_or_path)[-80:]!r}."
    )


def _load(path: Path, fields: Mapping[str, Any]) -> Model:
    data = read_weights(path)
    sha256 = hashlib.sha256(data).hexdigest()
    is_bundled = path.parent == WEIGHTS
    if is_bundled:
        check_bundled(path.name, sha256)
    kind, network, card = _read_network(data, path.name if is_bundled else None)
    if not all(torch.isfinite(value).all() for value in network.state_dict().values()):
        raise CheckpointError("Expected finite weights, got NaN or infinity. Ask for another copy.")
    card, assumptions = (card, ()) if card else _assumed_card(path.name, data, kind, network)
    if fields:
        card = _sound_card({**vars(card), **fields})
        assumptions = () if fields.keys() >= {"wavelengths", "is_linear"} else assumptions
    bands = network.out_bands
    if card.wavelengths and len(card.wavelengths) != bands:
        raise CheckpointError(
            f"Expected {bands} wavelengths in the model card, got {len(card.wavelengths)}."
        )
    return Model(card, network, sha256, assumptions)


def _read_network(data: bytes, bundled: str | None) -> tuple[Kind, Network, ModelCard | None]:
    """The network of a file, its row, and its card if it has one."""
    if data.startswith(_START_OF_ONNX) and not is_safetensors(data):
        network, metadata = read_onnx(data)
        return _ONNX, network, card_from_metadata(metadata)
    state, card = parsed(data, bundled)
    kind = _kind(checked(state))
    return kind, kind.build(state), card


def _kind(state: Mapping[str, Tensor]) -> Kind:
    """The first row of `NETWORKS` that recognises *state*."""
    for kind in NETWORKS.values():
        if kind.recognises(state):
            return kind
    names = (
        name
        for beginning, name in _OTHER_NETWORKS.items()
        if any(key.startswith(beginning) for key in state)
    )
    raise CheckpointError(
        f"Expected weights of a known network, got {next(names, 'another network')} "
        f"({len(state)} tensors). Load its module in Python: `Model.of(module, wavelengths)`."
    )


def _assumed_card(
    name: str, data: bytes, kind: Kind, network: Network
) -> tuple[ModelCard, tuple[str, ...]]:
    """The card of a file without one: the published card, or the conventions of its kind."""
    # A git object id is the SHA-1 of the contents after this header.
    blob = b"blob %d\0" % len(data) + data
    if hashlib.sha1(blob, usedforsecurity=False).hexdigest() == PUBLISHED.git_blob:
        return PUBLISHED, ()
    bands = network.out_bands
    is_alike = (network.in_bands, bands) == (3, len(PUBLISHED.wavelengths))
    conventions = {name: getattr(PUBLISHED, name) for name in OURS} | dict(kind.conventions)
    card = ModelCard(
        name=name,
        title=f"{kind.title} from {name}",
        wavelengths=PUBLISHED.wavelengths if is_alike else (),
        **conventions,
    )
    known = "31 bands of 400-700 nm" if is_alike else f"{bands} bands of unknown wavelengths"
    return card, (f"The weights file has no model card: taken as {kind.taken_as}, {known}.",)
