"""Seals of weights files, which reveal any changed bit: safetensors has no checksum.

Files that we write have a seal in their card: the SHA-256 of the whole file with zeros in place of
the seal. Bundled files are compared with a list in this module, which is part of the program rather
than of the file. Format: https://github.com/huggingface/safetensors.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from napari_mst.base.atomic_save import saving
from napari_mst.base.errors import CheckpointError
from napari_mst.models.cards import ModelCard, card_to_metadata

if TYPE_CHECKING:
    from torch import Tensor

BUNDLED = {
    "light-vit.safetensors": "c386cc159093729b2792be3249202fa13f3c6e96c5b42204444802eb1bc28214",
    "mstpp-camera.safetensors": "ad7d2b81e1227097e0496d174de39907ed5fb2a93de312ecc39884a32618684d",
    "mstpp-hybrid.safetensors": "3cc0e282337a861d38d5f674f80a47892d0255cce2acfb06ae709f27ac3a4a7f",
    "mstpp-mixed.safetensors": "fdacd9a6f756fc11b46a24109b0aa41c5a3285462d8ad61b0a550fad7da8eb46",
    "mstpp-photo.safetensors": "b30709cc0ba13f7f5f1d60ccd279c8ead0b58a9ed46c01745e61873b0743e410",
    "mstpp-srgb.safetensors": "d54c3763ca6759193db65a93a8386274b38e17f29ccbf9a917fca48395e39cf8",
    "pixelwise-srgb.safetensors": (
        "a86a5c4781f7c723ea6083181d79f95c51ebe052cf6426c55cecd01f27c265de"
    ),
}
"""SHA-256 of each bundled weights file, as `sha256sum` prints it."""

_EMPTY = b"0" * 64
_BEFORE_SEAL = rb"\"seal\": \""
"""Bytes before the seal: the card is JSON within JSON, so its quotes are escaped."""


def write_weights(path: Path, tensors: "Mapping[str, Tensor]", card: ModelCard) -> None:
    """Save *tensors* and their *card* as a sealed safetensors file, which replaces an older one.

    Raises
    ------
    SaveError
        As `atomic_save.saving`. The older file is then intact.
    """
    from safetensors.torch import save

    unsealed = save(dict(tensors), card_to_metadata(card, seal=_EMPTY.decode()))
    place = _place_of_seal(unsealed)
    data = unsealed[:place] + _seal_of(unsealed, place) + unsealed[place + len(_EMPTY) :]
    with saving(path, needed=len(data), overwrite=True) as (temporary,):
        temporary.write_bytes(data)


def check_seal(data: bytes) -> None:
    """Refuse a safetensors file whose contents differ from the sealed contents.

    Files without a seal pass.

    Raises
    ------
    CheckpointError
        If the seal belongs to other contents.
    """
    place = _place_of_seal(data)
    if place >= 0 and data[place : place + len(_EMPTY)] != _seal_of(data, place):
        raise CheckpointError(
            "Expected the weights that were sealed, got changed ones. Get another copy of the file."
        )


def check_bundled(name: str, sha256: str) -> None:
    """Refuse the bundled file *name* unless it is the one delivered with this version.

    Raises
    ------
    CheckpointError
        If *sha256* belongs to another file.
    """
    if BUNDLED.get(name) != sha256:
        raise CheckpointError(
            "Expected the weights that came with napari-mst, got changed ones. Install it again."
        )


def _place_of_seal(data: bytes) -> int:
    """Offset of the seal; -1 without a seal."""
    size_of_header = int.from_bytes(data[:8], "little")
    found = data.find(_BEFORE_SEAL, 0, 8 + size_of_header)
    return found if found < 0 else found + len(_BEFORE_SEAL)


def _seal_of(data: bytes, place: int) -> bytes:
    """SHA-256 of *data* with zeros at the *place* of the seal, as text."""
    digest = hashlib.sha256(data[:place])
    digest.update(_EMPTY)
    digest.update(memoryview(data)[place + len(_EMPTY) :])
    return digest.hexdigest().encode()
