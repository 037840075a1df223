"""Maps of the attention explorer: meaning at a pixel p, formula, unit and computation.

To add a map, write a function of a head (see `probe.HeadProbe`) and of the block's input
(1, C, h, w), and add a row to `OVERLAYS`. Every formula is exact for the network that runs, MST++
(Cai et al., CVPRW 2022, doi:10.1109/CVPRW56347.2022.00090). None relies on attention over
positions, which this network does not have.

Letters: h, w pixels; C channels of the block; i key channel, j query channel; A attention, v
values, W projection.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from napari_mst.attention.probe import HeadProbe

REFERENCE = "MST++, Cai et al. 2022, doi:10.1109/CVPRW56347.2022.00090, eq. of S-MSA"


@dataclass(frozen=True, kw_only=True)
class Caption:
    """The texts that explain a map to a person.

    If `is_signed`, zero is the middle colour and the limits are symmetrical.
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
        """Text, formula, unit and reference."""
        return f"{self.text}\n\n{self.formula}\nUnit: {self.unit}.\nReference: {self.reference}."


@dataclass(frozen=True, kw_only=True)
class Overlay(Caption):
    """A map of one block; `uses` names the selected channels on which it depends."""

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


_OVERLAYS = (
    Overlay(
        name="score",
        title="Score contribution",
        formula="s(p) = sigma k_i(p) q_j(p) / (|k_i| |q_j|)",
        unit="logit per pixel of the map",
        text="Pixels that make key channel i attend to query channel j (> 0), and pixels that "
        "speak against it (< 0). The sum over the padded photo is the logit of A_ij; with all "
        "channels, the sum of the logits.",
        is_signed=True,
        uses="i and j",
        compute=_score,
    ),
    Overlay(
        name="attended",
        title="Attended value",
        formula="a(p) = (A v)_i(p) = sum_j A_ij v_j(p); all channels: (sum_i a_i(p)^2)^(1/2)",
        unit="the block's features, without a physical unit",
        text="The features that the head passes on in output channel i, before its projection W.",
        is_signed=True,
        uses="i",
        compute=_attended,
    ),
    Overlay(
        name="share",
        title="Share of the block's output",
        formula="s(p) = <W_i a_i(p), y(p)> / |y(p)|^2, with the output y(p) of the block; "
        "all channels: their sum",
        unit="1; all that is added up in the block has the sum 1",
        text="How much of the block's output comes from attended channel i; negative where it "
        "works against the rest.",
        is_signed=True,
        uses="i",
        compute=_share,
    ),
    Overlay(
        name="attention",
        title="Effect of attention",
        formula="e(p) = |S-MSA(x)(p)|, over all channels and heads, positional branch included",
        unit="the block's features, without a physical unit",
        text="How much the attention branch adds to the features at each pixel.",
        is_signed=False,
        compute=lambda head, x: head.attention_branch(x).norm(dim=0),
    ),
    Overlay(
        name="feed-forward",
        title="Effect of the feed-forward network",
        formula="e(p) = |FFN(LN(x'))(p)|, over all channels, with x' = x + S-MSA(x)",
        unit="the block's features, without a physical unit",
        text="How much the feed-forward network adds to the features at each pixel.",
        is_signed=False,
        compute=lambda head, x: head.feed_forward_branch(x).norm(dim=0),
    ),
)

OVERLAYS: dict[str, Overlay] = {overlay.name: overlay for overlay in _OVERLAYS}
"""All maps of a block, by name."""

SENSITIVITY = Caption(
    name="sensitivity",
    title="Sensitivity of a spectrum",
    formula="g(p) = |d cube[band, row, column] / d photo[:, p]|, over the channels of the photo",
    unit="quantity of the cube per value of the network's input "
    "(linear light 0-1, or as the model normalises it)",
    text="The pixels of the photo that one band of the picked spectrum depends on. It is a "
    "gradient, with the attention matrices of the whole photo held fixed: exact and complete for "
    "all that is local. Left out are the matrices themselves, to which every pixel adds, and the "
    "correction of colours.",
    is_signed=False,
    reference="Simonyan et al. 2014, arXiv:1312.6034 (gradient of an output to the input)",
)
"""The sensitivity of a picked pixel; it belongs to no block."""

WEIGHTS = Caption(
    name="weights",
    title="Weights of a pixel",
    formula="w(q) = A_pq = softmax_q(s(p, q)) for the pixel p, over its keys q",
    unit="1; the weights of a head add up to 1",
    text="The pixels that a pixel attends to in a block between pixels, and how much.",
    is_signed=False,
    reference="Liu et al. 2021, arXiv:2103.14030; Chen et al. 2023, arXiv:2205.04437",
)
"""The attention weights of one pixel, for each head."""

EFFECT = Caption(
    name="head-effect",
    title="Effect of a head",
    formula="e(p) = mean over bands of |cube(p) - cube(p) with A = 1 / keys in the head|",
    unit="quantity of the cube",
    text="How much the cube changes, at each pixel, if the head gives all its keys equal weights: "
    "the cube of the network, before the correction of colours.",
    is_signed=False,
    reference="Michel, Levy & Neubig 2019, arXiv:1905.10650 (heads that are taken away)",
)
"""The effect of a head, compared with equal weights."""

FEATURES = Caption(
    name="features",
    title="Features",
    formula="x_c(p): the map of channel c that a part of the network writes",
    unit="features, without a physical unit",
    text="The maps of any part of the network, one for each of its channels: the slider goes "
    "through them. The channels are learnt; none is a wavelength.",
    is_signed=True,
)
"""The maps of a named part of the network; they belong to no head."""

DIFFERENCE = Caption(
    name="difference",
    title="Difference",
    formula="d(p) = first(p) - second(p)",
    unit="that of both maps",
    text="One map less another: of two models, two photos, two heads or two parts.",
    is_signed=True,
)
"""The difference of two maps of the same size."""

_OTHERS = (SENSITIVITY, WEIGHTS, EFFECT, FEATURES, DIFFERENCE)

DESCRIPTIONS: Mapping[str, Caption] = ChainMap(
    {caption.name: caption for caption in _OTHERS},
    OVERLAYS,  # type: ignore[arg-type] # it is only read
)
