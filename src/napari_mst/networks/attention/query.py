"""Helpers for the weights of a single query, which show what a pixel attends to.

Each mechanism in this folder has `weights(x, query)`, which returns `QueryWeights`.
"""

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex

import torch
from torch import Tensor

from napari_mst.base.errors import AttentionError, ModelError
from napari_mst.base.memory import check_room
from napari_mst.networks.attention_spec import QueryWeights

_CHECKED = 1 << 28  # smallest bytes of scores for which the free memory is looked up
_COPIES = 3  # scores, their exponentials and the weights are in memory at the same time


def unmasked(weights: Tensor, places: Tensor) -> QueryWeights:
    """The weights of a query for which no key is masked."""
    return QueryWeights(weights, places, torch.zeros(len(places), dtype=torch.long))


def listed(count: int) -> Tensor:
    """The places of *count* consecutive tokens or channels: (count, 1)."""
    return torch.arange(count)[:, None]


def square(corner: Sequence[int], side: int) -> Tensor:
    """Rows and columns (side^2, 2) of the pixels of a square, from its first *corner*."""
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    return places.reshape(-1, 2) + torch.tensor(corner)


def check_query(query: Sequence[object], sizes: Sequence[int]) -> None:
    """Refuse a *query* that does not lie within *sizes*, axis by axis.

    Raises
    ------
    AttentionError
        If it lies outside, has another number of axes, or is not of integers.
    """
    is_inside = len(query) == len(sizes) and all(
        isinstance(index, SupportsIndex) and 0 <= operator.index(index) < size
        for index, size in zip(query, sizes, strict=True)
    )
    if not is_inside:
        within = " x ".join(map(str, sizes))
        given = ", ".join(map(str, query))
        raise AttentionError(
            f"Expected a query within {within}, got ({given}). Count from 0 to the size minus 1."
        )


def check_one(x: Tensor, axes: int) -> None:
    """Refuse a batch: *x* must have *axes* axes, the first of length 1."""
    if x.ndim != axes or len(x) != 1:
        shape = " x ".join(map(str, x.shape))
        raise AttentionError(
            f"Expected one image or sequence, got a tensor of {shape}. Choose one of the batch."
        )


def check_pixel(x: Tensor, query: Sequence[int]) -> None:
    """Refuse a *query* that is not a row and column of the single map *x* (1, C, H, W).

    Raises
    ------
    AttentionError
        If it lies outside, or there are several maps.
    """
    check_one(x, 4)
    check_query(query, x.shape[-2:])


def check_heads(channels: int, heads: int) -> None:
    """Refuse a number of *heads* that does not divide the *channels*.

    Raises
    ------
    ModelError
        If the channels cannot be divided among the heads.
    """
    if type(heads) is not int or heads < 1 or channels % heads:
        divisors = [count for count in range(1, channels + 1) if channels % count == 0]
        choices = ", ".join(map(str, divisors[:8]))
        raise ModelError(
            f"Expected a number of heads that divides {channels} channels, got {heads}. "
            f"Choose one of {choices}."
        )


def check_memory(scores: Sequence[int], dtype: torch.dtype) -> None:
    """Refuse *scores* (..., heads, queries, keys) that do not fit into the free memory.

    Raises
    ------
    OutOfMemory
        If the softmax of these scores needs more memory than is free.
    """
    needed = math.prod(scores) * dtype.itemsize * _COPIES
    if needed >= _CHECKED:
        what = f"{scores[-1]:,} tokens that attend to each other"
        check_room(what, needed, "Take a smaller image, or windows.", in_gigabytes=True)
