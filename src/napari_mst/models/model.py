"""`Model`: a network with its card.

A bundled model whose passes all have compiled kernels is loaded without torch; its torch module is
created on first use.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from napari_mst.base.errors import CheckpointError, ModelError, shown
from napari_mst.base.memory import free_host_memory
from napari_mst.models.cards import (
    IN_MEMORY,
    CardFields,
    ModelCard,
    card_to_metadata,
    faults_of,
    list_card,
)
from napari_mst.networks.network import Program

if TYPE_CHECKING:
    from torch import nn

    from napari_mst.networks.measured import Reach
    from napari_mst.networks.module import Network

_ASSUMED_LINEAR = (
    "Nobody said if the network takes linear light or stored values: linear light is taken."
)

_MAX_BYTES = 2**30
"""Largest weights file in bytes; MST++ has 6.5 MB."""

_COPIES = 4
"""Memory for loading in file sizes: bytes, tensors, and both in double precision."""

_making = threading.RLock()  # reentrant: the network comes from a model of the same file


class _Made:
    """A field whose network is created on first access."""

    def __get__(self, model: Any, _kind: type) -> "Network":
        if model is None:  # a dataclass looks for a default, which does not exist
            raise AttributeError
        with _making:
            network: Network | partial[Network] = vars(model)["network"]
            if isinstance(network, partial):
                network = vars(model)["network"] = network()
        return network

    def __set__(self, model: Any, network: "Network | partial[Network]") -> None:
        vars(model)["network"] = network


@dataclass(frozen=True, eq=False)
class Model:
    """A network with its conventions.

    `assumptions` are sentences for the user about facts missing in the file. `compiled` is the
    program of a bundled network for compiled kernels, without torch; None for others.

    Raises
    ------
    ModelError
        If the network does not list its passes, see `napari_mst.networks.Network`.

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
    if TYPE_CHECKING:
        network: Network
    else:
        network: "Network" = _Made()
    weights_sha256: str
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(vars(self)["network"], partial):
            return  # one of our own networks
        if not callable(getattr(self.network, "program", None)):
            kind = type(self.network).__name__
            raise ModelError(
                f"Expected a network that says its passes (`napari_mst.networks.Network`), "
                f"got {kind}. Make the model with `Model.of({kind}, wavelengths)`."
            )

    @property
    def compiled(self) -> Program | None:
        """The program of a bundled network for compiled kernels, without torch.

        None if kernels do not cover all passes, or if the torch network exists: it may differ now.
        """
        is_made = not isinstance(vars(self)["network"], partial)
        return None if is_made else vars(self)["_program"]

    @property
    def sides(self) -> tuple[int, int]:
        """Channels of the photo and bands of the cube."""
        if (program := self.compiled) is not None:
            return program.in_bands, program.output.channels
        return self.network.in_bands, self.network.out_bands

    def to_onnx(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Save the model and its card as an ONNX file, for other programs and for `load_model`.

        The graph takes photos (1, C, H, W), float32, whose H and W are multiples of the number
        under ``napari_mst.multiple`` in its metadata. Pad photos beforehand like `numpy.pad` with
        mode "reflect", and crop the cubes. Saving needs the extra `onnx`.

        Raises
        ------
        ModelError
            If the model needs a camera, or torch cannot export its network for all sizes: five
            sizes are compared, to 1e-5 of the largest value.
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
        from napari_mst.models.onnx_file import write_onnx

        write_onnx(Path(path), self.network, card_to_metadata(self.card), overwrite=overwrite)
        return Path(path)

    @classmethod
    def of(
        cls,
        module: "nn.Module",
        wavelengths: Iterable[float],
        *,
        in_bands: int = 3,
        reach: "Reach" = "measured",
        **card: Unpack[CardFields],
    ) -> "Model":
        """The model of any torch module (N, 3, H, W) -> (N, B, H, W), whose geometry is measured.

        The module may need sides that are multiples of a number up to 32. It runs tile by tile if
        an output pixel depends on fewer than 256 pixels to each side, else on the whole photo at
        once. Either way the cube equals one forward pass, up to the rounding of torch. The model
        holds a copy of the current module in evaluation mode and float32. A module that lists its
        passes (a `napari_mst.networks.Network`) runs pass by pass, and its attention can be
        recorded.

        Parameters
        ----------
        wavelengths
            Centres of the B bands in nm.
        in_bands
            Channels of the photo.
        reach
            Pixels on each side on which an output pixel depends, if known; None for all.
        card
            Fields of the `ModelCard`, such as ``name``, ``is_linear``, ``normalisation`` and
            ``quantity``. By default the module takes unchanged linear light and returns
            reflectance. A model with a name is listed in `models` and in the window until the
            program ends.

        Raises
        ------
        ModelError
            If the module does not accept such a photo, its result has another size or number of
            bands, *reach* is too short, a field of the card is unusable, or the name is taken.
        """
        from napari_mst.networks import OURS
        from napari_mst.networks.layout import sha256_of
        from napari_mst.networks.measured import network_of

        name = type(module).__name__
        usual = {"name": name, "title": card.get("name", name), **OURS}
        sound = sound_card({**usual, **card, "wavelengths": wavelengths, "file": IN_MEMORY})
        network = network_of(module, in_bands, reach)
        if len(sound.wavelengths) != network.out_bands:
            raise ModelError(
                f"Expected {network.out_bands} wavelengths, one for each band of the module, "
                f"got {len(sound.wavelengths)}."
            )
        assumed = () if "is_linear" in card else (_ASSUMED_LINEAR,)
        model = cls(sound, network, sha256_of(network), assumed)
        if "name" in card:
            list_card(sound)
            MADE[sound.name] = model
        return model

    def __repr__(self) -> str:
        """One line: name, network, channels and the beginning of the weights' checksum."""
        kind = type(self.network).__name__
        size = "{} channels to {} bands".format(*self.sides)
        return f"<Model {shown(self.card.name)}: {kind}, {size}, weights {self.weights_sha256[:8]}>"


MADE: dict[str, Model] = {}
"""The models created in this session with a name, by that name."""


def sound_card(fields: Mapping[str, Any]) -> ModelCard:
    """The card with these *fields*; raises `ModelError` if one is unusable."""
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


def check_bands(card: ModelCard, bands: int) -> None:
    """Raise `CheckpointError` if *card* has wavelengths, but not one per band."""
    if card.wavelengths and len(card.wavelengths) != bands:
        raise CheckpointError(
            f"Expected {bands} wavelengths in the model card, got {len(card.wavelengths)}."
        )


def read_weights(path: Path) -> bytes:
    """The contents of the file at *path*, if it fits into memory."""
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise CheckpointError(
                f"Expected weights of at most {_MAX_BYTES:,} bytes, got {size:,}."
            )
        if _COPIES * size > free_host_memory():
            raise MemoryError(path)
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"Expected a readable file, got {error.strerror}. Check its permissions."
        ) from error
