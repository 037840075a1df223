"""`AttentionSpec`, the attention of a pass; the weights of a query; and changed weights."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class QueryWeights:
    """The attention weights of one query for all its keys.

    Attributes
    ----------
    weights
        (heads, keys), from 0 to 1; each head sums to 1.
    places
        (keys, axes), integers: row and column of each key on a map, or the index of a token or
        channel. Keys outside the map are padding.
    regions
        (keys,), integers: the part of a shifted window that contains the key. Only keys in the same
        part as the query have weight. All are 0 without a shift.
    """

    weights: Tensor
    places: Tensor
    regions: Tensor

    @property
    def effective_keys(self) -> Tensor:
        """The effective number of keys in each head, (heads,): 1 / sum of the squared weights.

        It is 1 if one key has all the weight, and the number of keys if all weights are equal.
        """
        return 1 / self.weights.square().sum(-1)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionSpec:
    """The attention in a pass, as needed to record, draw and query it.

    Attributes
    ----------
    block
        Name of the block in records.
    channels, heads
        Channels and heads of the block.
    softmax
        Module that turns scores into weights (..., heads, queries, keys); a hook on it sees both.
        None if no module does, which is not allowed for attention between channels.
    weights
        Computes the weights of one query from a part (1, C, h, w) of the map that the pass reads,
        and a row and column of that part. None for attention between channels.
    window, keys, shift
        Sides of the windows of queries and of keys, and the shift of windows, in pixels of the map;
        0 if every pixel attends to all pixels.
    halo
        Pixels around a window on which the weights of its queries depend.
    parts
        The block, if maps and steps of its attention can be computed separately; else None.
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
        Divides the scores: weights become more even above 1, and less even below 1.
    given
        (heads, queries, keys): weights of another photo, used instead of the scores.
    equal
        Heads in which all keys that are not hidden get the same weight.
    silent
        Heads whose weights are all 0, so that they contribute nothing.
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
        """Set new values; see the class for the parameters."""
        self.temperature = temperature
        self.given = given
        self.equal, self.silent = list(equal), list(silent)

    def forward(self, scores: Tensor) -> Tensor:
        """Weights in the shape of *scores*; rows sum to 1 except in silent heads."""
        weights = (scores / self.temperature).softmax(-1)
        if self.given is not None:
            weights = self.given.to(weights).expand_as(weights).clone()
        is_heard = scores[..., self.equal, :, :].isfinite().to(scores.dtype)
        weights[..., self.equal, :, :] = is_heard / is_heard.sum(-1, keepdim=True)
        weights[..., self.silent, :, :] = 0
        return weights


def with_weights(network: N, changes: Mapping[nn.Module, ChangedWeights]) -> N:
    """A copy of *network* that shares its weights, with softmaxes replaced according to *changes*.

    Examples
    --------
    >>> vit = nm.load_model("light-vit").network
    >>> equal = {block.attention.softmax: ChangedWeights(equal=[0]) for block in vit.blocks}
    >>> changed = with_weights(vit, equal)
    """
    # The memo makes the copy reuse these objects: shared weights and new softmaxes.
    memo: dict[int, object] = {id(each): each for each in network.parameters()}
    memo |= {id(each): each for each in network.buffers()}
    # Hooks of an open record stay on the original network.
    memo |= {id(each._forward_hooks): OrderedDict() for each in network.modules()}
    memo |= {id(softmax): changed for softmax, changed in changes.items()}
    return copy.deepcopy(network, memo)
