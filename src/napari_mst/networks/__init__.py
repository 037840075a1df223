"""Networks: one file each, and `NETWORKS`, the table of those that a weights file can hold.

A network is a torch module that says its passes (`network.Network`): all that the engine, the
pipeline and the window ask of it. To add one: a file here and a row of `NETWORKS`. CONTRIBUTING.md
shows an example.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from napari_mst.networks.edsr import build_edsr, is_edsr
from napari_mst.networks.hscnn_plus import build_hscnn_plus, is_hscnn_plus
from napari_mst.networks.mst import build_mst, is_mst
from napari_mst.networks.mst_plus_plus import build_mst_plus_plus, is_mst_plus_plus
from napari_mst.networks.network import Network
from napari_mst.networks.pixelwise import build_pixelwise, is_pixelwise
from napari_mst.networks.refining import build_refining, is_refining
from napari_mst.networks.vision_transformer import (
    build_vision_transformer,
    is_vision_transformer,
)

__all__ = ["NETWORKS", "Kind", "Network"]

State = Mapping[str, Tensor]
"""The weights of a network by name."""

OURS = {"is_linear": True, "normalisation": "none", "quantity": "reflectance"}
"""The conventions of the networks that `napari-mst train` makes."""


@dataclass(frozen=True)
class Kind:
    """One row of `NETWORKS`.

    Attributes
    ----------
    title
        A name for a person.
    recognises
        True if a state dict holds the weights of such a network.
    build
        Builds the network of a state dict, in evaluation mode. Raises `CheckpointError` if tensors
        are missing, left over or of the wrong shape.
    conventions
        Fields of the model card for a weights file without one; fields that are not here are those
        of the published MST++. By default those of a network that `napari-mst train` makes.
    taken_as
        The same in words, for a person.
    """

    title: str
    recognises: Callable[[State], bool]
    build: Callable[[State], Network]
    conventions: Mapping[str, Any] = field(default_factory=lambda: OURS)
    taken_as: str = "trained by napari-mst, linear light"


def _published(
    title: str, recognises: Callable[[State], bool], build: Callable[[State], Network]
) -> Kind:
    """The row of a network of the authors' tool box, whose weights are of their challenge."""
    return Kind(title, recognises, build, {}, f"published {title}, min-max normalised")


# A refining network holds all tensors of an MST++ besides its own, so its row stands first.
NETWORKS: dict[str, Kind] = {
    "pixelwise": Kind("Pixelwise network", is_pixelwise, build_pixelwise),
    "refining": Kind("MST++", is_refining, build_refining),
    "mst++": _published("MST++", is_mst_plus_plus, build_mst_plus_plus),
    "mst": _published("MST", is_mst, build_mst),
    "edsr": _published("EDSR", is_edsr, build_edsr),
    "hscnn+": _published("HSCNN+", is_hscnn_plus, build_hscnn_plus),
    "vision transformer": Kind(
        title="Vision transformer",
        recognises=is_vision_transformer,
        build=build_vision_transformer,
        conventions={**OURS, "quantity": ""},
        taken_as="a vision transformer of linear light",
    ),
}
"""In the order of asking: the first row that recognises a weights file builds its network."""
