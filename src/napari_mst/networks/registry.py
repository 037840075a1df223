"""`NETWORKS`, the table of networks that a weights file can hold."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from napari_mst.base.extensions import load_extensions
from napari_mst.networks.awan import AWAN
from napari_mst.networks.edsr import EDSR
from napari_mst.networks.hdnet import HDNet
from napari_mst.networks.hinet import HINET_KEYS, HINet
from napari_mst.networks.hrnet import HRNET_KEYS, HRNet
from napari_mst.networks.hscnn_plus import HSCNNPlus
from napari_mst.networks.layout import loaded, renamed
from napari_mst.networks.module import Network
from napari_mst.networks.mst import MST
from napari_mst.networks.mst_plus_plus import (
    PUBLISHED,
    MSTPlusPlus,
    build_mst_plus_plus,
    is_mst_plus_plus,
)
from napari_mst.networks.pixelwise import build_pixelwise
from napari_mst.networks.refining_mst_plus_plus import build_refining
from napari_mst.networks.vision_transformer import build_vision_transformer

State = Mapping[str, Tensor]
"""Weights of a network by name."""

OURS = {"is_linear": True, "normalisation": "none", "quantity": "reflectance"}
"""Conventions of the networks trained by `napari-mst train`."""


@dataclass(frozen=True)
class Kind:
    """One row of `NETWORKS`.

    Attributes
    ----------
    title
        Name for people.
    recognises
        True if a state dict holds the weights of such a network.
    build
        Builds the network of a state dict, in evaluation mode. Raises `CheckpointError` if tensors
        are missing, left over or of the wrong shape.
    conventions
        Fields of the model card for a weights file without a card; missing fields are those of the
        published MST++. The default is the conventions of `napari-mst train`.
    taken_as
        The conventions in words, for people.
    new
        Creates a new network for photos and 31 bands, by its name in `napari-mst train --network`.
    """

    title: str
    recognises: Callable[[State], bool]
    build: Callable[[State], Network]
    conventions: Mapping[str, Any] = field(default_factory=lambda: OURS)
    taken_as: str = "trained by napari-mst, linear light"
    new: Mapping[str, Callable[[], Network]] = field(default_factory=dict)


def _marked(mark: str) -> Callable[[State], bool]:
    """Return a test for state dicts with a key that begins with the pattern *mark*."""
    return lambda state: any(re.match(mark, key) for key in state)


def _published(
    title: str,
    mark: str,
    network: Any,
    renames: Iterable[tuple[str, str]] = (),
    new: Mapping[str, Callable[[], Network]] | None = None,
) -> Kind:
    """The row of a network from the authors' toolbox, with weights from their challenge.

    The class *network* loads keys after *renames*. By default it also creates the *new* network.
    """

    def build(state: State) -> Network:
        weights = renamed(state, renames)
        return loaded(title, lambda: network.of(weights), weights)

    new = new or {title.lower(): network}
    return Kind(title, _marked(mark), build, {}, _taken_as(title), new)


def _taken_as(title: str) -> str:
    return f"published {title}, min-max normalised"


MST_SIZES: Mapping[str, Callable[[], Network]] = {
    "mst-s": partial(MST, blocks=(2, 2, 2)),
    "mst-m": partial(MST, blocks=(2, 4, 4)),
    "mst-l": MST,
}
"""Published sizes, which differ in the number of blocks per level."""


# A refining network contains all tensors of an MST++, and HDNet all tensors of an EDSR, so their
# rows come first.
NETWORKS: dict[str, Kind] = {
    "pixelwise": Kind("Pixelwise network", _marked(r"margins\."), build_pixelwise),
    "refining": Kind("MST++", _marked(r"pixelwise\."), build_refining),
    "mst++": Kind(
        title="MST++",
        recognises=is_mst_plus_plus,
        build=build_mst_plus_plus,
        conventions={},
        taken_as=_taken_as("MST++"),
        new={"mst++": MSTPlusPlus},
    ),
    "mst": _published("MST", r"embedding_2\.", MST, PUBLISHED, MST_SIZES),
    "hdnet": _published("HDNet", r"body\.32\.conv_up", HDNet),
    "edsr": _published("EDSR", r"tail\.0\.", EDSR),
    "hscnn+": _published("HSCNN+", r"ddfn\.conv_up1", HSCNNPlus),
    "hrnet": _published("HRNet", r"(levels\.)?top\.?1\.", HRNet, HRNET_KEYS),
    "hinet": _published("HINet", r"sam12\.", HINet, HINET_KEYS),
    "awan": _published("AWAN", r"tail_nonlocal\.", AWAN, [(r"\.conv2d\.", ".")]),
    "vision transformer": Kind(
        title="Vision transformer",
        recognises=_marked("cls_token"),
        build=build_vision_transformer,
        conventions={**OURS, "quantity": ""},
        taken_as="a vision transformer of linear light",
    ),
}
"""Networks by name. A weights file is built by the first network that recognises it."""


load_extensions("networks")
