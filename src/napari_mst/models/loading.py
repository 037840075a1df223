"""`load_model`, by name or from a file; without torch if compiled kernels cover all passes."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from safetensors.numpy import load

from napari_mst.base.arrays import Singles
from napari_mst.base.errors import CheckpointError, ModelError, OutOfMemory, shown
from napari_mst.base.memory import is_out_of_memory
from napari_mst.models.cards import LIGHT_MODELS, MODELS, WEIGHTS, FileCard
from napari_mst.models.model import MADE, Model, check_bands, read_weights, sound_card
from napari_mst.models.seal import check_bundled
from napari_mst.networks.compiled import compiled_program

if TYPE_CHECKING:
    from napari_mst.networks.module import Network

DEFAULT = next(iter(MODELS))


def load_model(name_or_path: str | PathLike[str] = DEFAULT, **card: Unpack[FileCard]) -> Model:
    """Load a model of `models` by name, or a weights file of a network of `NETWORKS`.

    The default is the first model. A file is `.pth`, `.safetensors` or, with the extra `onnx`,
    `.onnx`, according to its content. An ONNX file may hold any network for photos, see `Model.of`.

    Parameters
    ----------
    card
        Fields of the `ModelCard`, such as ``wavelengths`` in nm and ``is_linear``, that are missing
        or wrong in the file.

    Raises
    ------
    ModelError
        If the name is neither that of a model with bundled weights nor of a file.
    CheckpointError
        If the file is damaged or unsafe, or does not hold exactly the tensors of such a network; or
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
    if name_or_path in MADE:
        made = MADE[str(name_or_path)]
        return replace(made, card=sound_card({**vars(made.card), **card})) if card else made
    path = _weights_path(name_or_path)
    name = shown(path.name, 30)
    try:
        return _bundled(path, card) or _of_file(path, card)
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


def _bundled(path: Path, fields: Mapping[str, Any]) -> Model | None:
    """The bundled model at *path*, with its network not created yet; None for another file."""
    if path.parent != WEIGHTS:
        return None
    sha256, weights = _sealed(path)
    program = compiled_program(weights)
    if program is None:
        return None
    card = next(each for each in MODELS.values() if each.file == path.name)
    if fields:
        card = sound_card({**vars(card), **fields})
        check_bands(card, program.output.channels)
    model = Model(card, partial(_network_at, path), sha256)  # type: ignore[arg-type]
    vars(model)["_program"] = program
    return model


def _of_file(path: Path, fields: Mapping[str, Any]) -> Model:
    from napari_mst.models.checkpoint import load_file

    return load_file(path, fields, path.parent == WEIGHTS)


def _network_at(path: Path) -> "Network":
    """The torch module of the bundled weights at *path*."""
    return _of_file(path, {}).network


def bundled_weights(name: str) -> Mapping[str, Singles]:
    """The weights of a bundled model by name; raises like `load_model`."""
    return _sealed(_weights_path(name))[1]


def _sealed(path: Path) -> tuple[str, Mapping[str, Singles]]:
    """The checksum and the weights, in single precision, of the bundled file at *path*."""
    data = read_weights(path)
    sha256 = hashlib.sha256(data).hexdigest()
    check_bundled(path.name, sha256)
    return sha256, {name: each.astype(np.float32) for name, each in load(data).items()}
