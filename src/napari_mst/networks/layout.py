"""Compares weights with the network for which they are meant, before anything is loaded."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from napari_mst.base.errors import CheckpointError

MOST_PARTS = 64
"""Most stages or blocks in a file: keys alone create modules, which take 0.3 MB each."""

N = TypeVar("N", bound=nn.Module)


def loaded(title: str, make: Callable[[], N], state: Mapping[str, Tensor]) -> N:
    """The network from *make* with the weights *state*, in float32 and evaluation mode.

    Raises
    ------
    CheckpointError
        If tensors are missing, left over or of the wrong shape.
    """
    try:
        # Memory is allocated only once the shapes of all tensors are known to be right.
        with torch.device("meta"):
            network = make()
    except (LookupError, ValueError, ArithmeticError, RuntimeError) as error:
        raise CheckpointError(
            f"Expected a whole {title}, got {len(state)} other tensors. "
            "Ask for another copy of the file."
        ) from error
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    check_layout(title, shapes, state)
    weights = {
        key: value.to(torch.float32, memory_format=torch.contiguous_format)
        for key, value in state.items()
    }
    network.load_state_dict(weights, assign=True)
    return network.eval().requires_grad_(False)


def renamed(state: Mapping[str, Tensor], patterns: Iterable[tuple[str, str]]) -> dict[str, Tensor]:
    """*state* with *patterns* in keys replaced by our names; empty keys are dropped.

    Raises
    ------
    CheckpointError
        If two keys become one.
    """

    def ours(key: str) -> str:
        for pattern, name in patterns:
            key = re.sub(pattern, name, key)
        return key

    pairs = [(name, value) for key, value in state.items() if (name := ours(key))]
    if len(dict(pairs)) != len(pairs):
        raise CheckpointError(
            "Expected one tensor of each name, got both the published and our own name of some."
        )
    return dict(pairs)


def count_of(pattern: str, state: Mapping[str, Tensor]) -> int:
    """The number of parts in *state* whose keys match *pattern*, with the part in its group.

    Raises
    ------
    CheckpointError
        If there are more than `MOST_PARTS`.
    """
    parts = {match[1] for key in state if (match := re.match(pattern, key))}
    if len(parts) > MOST_PARTS:
        raise CheckpointError(
            f"Expected at most {MOST_PARTS} stages or blocks, got {len(parts):,}. "
            "Ask for another copy."
        )
    return len(parts)


def check_layout(
    title: str, expected: Mapping[str, tuple[int, ...]], state: Mapping[str, Tensor]
) -> None:
    """Compare the names and shapes of weights with the parameters of the network *title*.

    Raises
    ------
    CheckpointError
        If tensors are missing, left over or of the wrong shape; the message names the first five.
    """
    missing = [key for key in expected if key not in state]
    unexpected = [key for key in state if key not in expected]
    misshapen = [
        key for key, shape in expected.items() if key in state and tuple(state[key].shape) != shape
    ]
    counts = (
        (len(missing), "missing"),
        (len(unexpected), "unexpected"),
        (len(misshapen), "of another shape"),
    )
    faults = [f"{count} {name}" for count, name in counts if count]
    if faults:
        named = (missing + unexpected + misshapen)[:5]
        first = ", ".join(key if len(key) <= 30 else f"{key[:12]}..{key[-16:]}" for key in named)
        raise CheckpointError(
            f"Expected the {len(expected)} tensors of {title}, got {', '.join(faults)}: {first}."
        )


def sha256_of(network: nn.Module) -> str:
    """Checksum of the names and weights of *network*."""
    digest = hashlib.sha256()
    for name, value in network.state_dict().items():
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()
