"""Weights files as models: the network built from their tensors, and their card."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from napari_mst.base.errors import CheckpointError
from napari_mst.models.cards import PUBLISHED, ModelCard, card_from_metadata
from napari_mst.models.model import Model, check_bands, read_weights, sound_card
from napari_mst.models.onnx_file import read_onnx
from napari_mst.models.seal import check_bundled
from napari_mst.models.weights_files import checked, is_safetensors, parsed
from napari_mst.networks import NETWORKS, OURS, Kind, Network

_START_OF_ONNX = b"\x08"  # the version of the format

_ONNX = replace(NETWORKS["pixelwise"], title="ONNX network", taken_as="a network of linear light")
"""Conventions for an ONNX file without a card."""

_OTHER_NETWORKS = {
    "body.0.body.0.blocks.": "MIRNet",
    "shallow_feat1.0.weight": "MPRNet",
    "patch_embed.proj.weight": "Restormer",
}
"""Prefixes of keys found only in these networks of the authors' toolbox, for an error."""


def load_file(path: Path, fields: Mapping[str, Any], is_bundled: bool) -> Model:
    """The model of the weights file at *path*, with *fields* of its card; see `load_model`."""
    data = read_weights(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if is_bundled:
        check_bundled(path.name, sha256)
    kind, network, card = _read_network(data, path.name if is_bundled else None)
    if not all(torch.isfinite(value).all() for value in network.state_dict().values()):
        raise CheckpointError("Expected finite weights, got NaN or infinity. Ask for another copy.")
    card, assumptions = (card, ()) if card else _assumed_card(path.name, data, kind, network)
    if fields:
        card = sound_card({**vars(card), **fields})
        assumptions = () if fields.keys() >= {"wavelengths", "is_linear"} else assumptions
    check_bands(card, network.out_bands)
    return Model(card, network, sha256, assumptions)


def _read_network(data: bytes, bundled: str | None) -> tuple[Kind, Network, ModelCard | None]:
    """The kind and the network of a file, and its card if it has one."""
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
    """The card for a file without one: the published card, or the conventions of its kind."""
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
