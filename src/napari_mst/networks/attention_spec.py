"""`AttentionSpec`, the attention of a pass and its weights, and other weights in their place."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class QueryWeights:
    """The weights with which one query takes the values of all its keys.

    Attributes
    ----------
    weights
        (heads, keys), from 0 to 1; each head sums to 1.
    places
        (keys, axes), whole numbers: row and column of each key on a map, or the index of a token or
        channel. Keys outside the map are padding.
    regions
        (keys,), whole numbers: the part of a shifted window in which a key lies. Only keys in the
        part of the query have weight. All are 0 where no window is shifted.
    """

    weights: Tensor
    places: Tensor
    regions: Tensor

    @property
    def effective_keys(self) -> Tensor:
        """The number of keys that count in each head, (heads,): 1 / sum of the squared weights.

        It is 1 where one key has all weight, and the number of keys where all have the same.
        """
        return 1 / self.weights.square().sum(-1)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionSpec:
    """The description of the attention in a pass, by which it is recorded, drawn and clicked.

    Attributes
    ----------
    block
        The name of the block under which it is recorded.
    channels, heads
        Those of the block.
    softmax
        Makes the weights (..., heads, queries, keys) of their scores: a hook on it sees both. None
        where no module does; between channels there has to be one.
    weights
        Makes the weights of one query from a part of the map that the pass reads, (1, C, h, w), and
        a row and column of that part. None where channels attend to channels.
    window, keys, shift
        Sides of the window of queries and of that of its keys, and by how much windows are shifted,
        in pixels of the map; 0 where every pixel attends to all.
    halo
        Pixels around a window on which the weights of its queries depend.
    parts
        The block of this package that its maps and steps take apart; None for others.
    """

    block: str
    channels: int
    heads: int
    softmax: nn.Module | None = None
    weights: Callable[[Tensor, Sequence[int]], QueryWeights] | None = None
    window: int = 0
    keys: int = 0
    shift: int = 0
    halo: int = 0
    parts: Any = None


N = TypeVar("N", bound=nn.Module)


class ChangedWeights(nn.Module):
    """A softmax whose weights are changed: flatter or sharper, equal, given, or none.

    Scores are (..., heads, queries, keys); -inf hides a key.

    Parameters
    ----------
    temperature
        Divides the scores: above 1 weights are more even, below 1 less.
    given
        (heads, queries, keys), the weights of another photo: they stand for those of the scores.
    equal
        Heads in which all keys that are not hidden have the same weight.
    silent
        Heads without any weight, so that they add nothing.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        given: Tensor | None = None,
        equal: Sequence[int] = (),
        silent: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.change(temperature, given, equal, silent)

    def change(
        self,
        temperature: float = 1.0,
        given: Tensor | None = None,
        equal: Sequence[int] = (),
        silent: Sequence[int] = (),
    ) -> None:
        """Take other values from now on; see the class for the parameters."""
        self.temperature = temperature
        self.given = given
        self.equal, self.silent = list(equal), list(silent)

    def forward(self, scores: Tensor) -> Tensor:
        """Weights of the shape of *scores*; rows add up to 1, but for heads that are silent."""
        weights = (scores / self.temperature).softmax(-1)
        if self.given is not None:
            weights = self.given.to(weights).expand_as(weights).clone()
        is_heard = scores[..., self.equal, :, :].isfinite().to(scores.dtype)
        weights[..., self.equal, :, :] = is_heard / is_heard.sum(-1, keepdim=True)
        weights[..., self.silent, :, :] = 0
        return weights


def with_weights(network: N, changes: Mapping[nn.Module, ChangedWeights]) -> N:
    """A copy of *network* whose softmaxes are replaced as *changes* says; they share all weights.

    Examples
    --------
    >>> vit = nm.load_model("light-vit").network
    >>> equal = {block.attention.softmax: ChangedWeights(equal=[0]) for block in vit.blocks}
    >>> changed = with_weights(vit, equal)
    """
    # The copy takes these for its own: new softmaxes, and the weights that both share.
    memo: dict[int, object] = {id(each): each for each in network.parameters()}
    memo |= {id(each): each for each in network.buffers()}
    # An open record watches the network itself.
    memo |= {id(each._forward_hooks): OrderedDict() for each in network.modules()}
    memo |= {id(softmax): changed for softmax, changed in changes.items()}
    return copy.deepcopy(network, memo)
