"""The maps of the attention explorer: meaning at a pixel p, formula, unit and computation.

To add one, write a function of a head (see `probe.HeadProbe`) and of (1, C, h, w) of the block's
input, and a row of `OVERLAYS`; the words of ours are in `data/attention_maps.json`. Every formula
is exact for the network as it is run, MST++ (Cai et al., CVPRW 2022,
doi:10.1109/CVPRW56347.2022.00090). None is taken from attention over positions, which this network
does not have.

Letters: h, w pixels; C channels of the block; i key channel, j query channel; A attention, v
values, W projection.
"""

import json
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from napari_mst.attention.probe import HeadProbe

REFERENCE = "MST++, Cai et al. 2022, doi:10.1109/CVPRW56347.2022.00090, eq. of S-MSA"


@dataclass(frozen=True, kw_only=True)
class Caption:
    """The words that explain a map to a person.

    Where `is_signed`, zero is the middle of its colours, and its limits are symmetrical.
    """

    name: str
    title: str
    formula: str
    unit: str
    text: str
    is_signed: bool
    reference: str = REFERENCE

    @property
    def tooltip(self) -> str:
        """All the words together."""
        return f"{self.text}\n\n{self.formula}\nUnit: {self.unit}.\nReference: {self.reference}."


@dataclass(frozen=True, kw_only=True)
class Overlay(Caption):
    """A map of one block; `uses` says which of the chosen channels it depends on."""

    uses: Literal["i and j", "i", ""] = ""
    compute: "Callable[[HeadProbe, Tensor], Tensor]"


def _score(head: "HeadProbe", x: "Tensor") -> "Tensor":
    return head.key(x) * head.query(x)


def _attended(head: "HeadProbe", x: "Tensor") -> "Tensor":
    attended = head.attended(x)
    return attended[0] if len(attended) == 1 else attended.norm(dim=0)


def _share(head: "HeadProbe", x: "Tensor") -> "Tensor":
    output = head.output(x)
    squares = (output * output).sum(0)
    share = (head.contribution(x) * output).sum(0) / squares
    return share.masked_fill_(squares == 0, 0.0)


_FILE = resources.files("napari_mst").joinpath("data", "attention_maps.json")
_WORDS = json.loads(_FILE.read_text(encoding="utf-8"))

_COMPUTED: "dict[str, Callable[[HeadProbe, Tensor], Tensor]]" = {
    "score": _score,
    "attended": _attended,
    "share": _share,
    "attention": lambda head, x: head.attention_branch(x).norm(dim=0),
    "feed-forward": lambda head, x: head.feed_forward_branch(x).norm(dim=0),
}

OVERLAYS: dict[str, Overlay] = {
    name: Overlay(name=name, compute=compute, **_WORDS[name]) for name, compute in _COMPUTED.items()
}
"""All maps of a block by name."""

_OTHERS = {
    name: Caption(name=name, **words) for name, words in _WORDS.items() if name not in _COMPUTED
}

SENSITIVITY = _OTHERS["sensitivity"]
"""The map of a picked pixel; it belongs to no block."""

WEIGHTS = _OTHERS["weights"]
"""The map of what one pixel attends to, for each head."""

ALIKE = _OTHERS["non-local-means"]
"""The map of what one pixel attends to before the network, where a photo is denoised."""

EFFECT = _OTHERS["head-effect"]
"""The map of what a head does, against equal weights."""

FEATURES = _OTHERS["features"]
"""The maps of a part of the network by its name; they belong to no head."""

DIFFERENCE = _OTHERS["difference"]
"""The difference of two maps of the same size."""

DESCRIPTIONS: Mapping[str, Caption] = ChainMap(
    _OTHERS,
    OVERLAYS,  # type: ignore[arg-type] # it is only read
)
"""Every map by name."""
