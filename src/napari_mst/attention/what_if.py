"""The output of a network with changed attention weights: "what if".

In a copy of the network, only the softmax of each attention (`AttentionSpec.softmax`) is replaced.
The copy runs like any network: exact, streamed, at any size. The colour correction, which follows
the network, is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import cast

import numpy as np
import torch
from torch import nn

from napari_mst.attention.explorer import PhotoExplorer
from napari_mst.attention.overlays import EFFECT
from napari_mst.attention.record import AttentionRecord
from napari_mst.attention.record_views import AttentionMap, Selection
from napari_mst.attention.recorder import check_name
from napari_mst.base.arrays import Floats, Singles
from napari_mst.base.errors import AttentionError
from napari_mst.base.progress import Progress
from napari_mst.cube import Provenance
from napari_mst.networks.attention_spec import AttentionSpec, ChangedWeights, with_weights
from napari_mst.networks.network import Program


@dataclass(frozen=True, eq=False)
class AttentionChange:
    """A change of the attention weights of a photo.

    Attributes
    ----------
    temperature
        Divisor, above 0, of the scores of all heads; weights are more even above 1.
    equal, silent
        Heads, by block, that get equal weights, or whose output is removed.
    record
        Matrices of another photo, which replace those of this photo.

    Notes
    -----
    ===========  =============================
    temperature  above 0, without a unit
    heads        from 0, names as in a record
    ===========  =============================

    Examples
    --------
    >>> change = nm.attention.Change(temperature=4)
    >>> only_one = nm.attention.Change(silent={"stages.0.bottleneck": [0, 1, 2]})
    """

    temperature: float = 1.0
    equal: Mapping[str, Sequence[int]] = field(default_factory=dict)
    silent: Mapping[str, Sequence[int]] = field(default_factory=dict)
    record: AttentionRecord | None = None


@dataclass(frozen=True, eq=False)
class HeadShares:
    """The share of every head, 0 or more, by block, and the history of the run."""

    blocks: dict[str, tuple[float, ...]]
    provenance: Provenance


class HeadEffects(PhotoExplorer):
    """The effect of every head of a network on the cube of *photo*, or of a *region* of it.

    The cube is compared with the cube that results if all keys of the head have equal weights.
    Entropy cannot answer this question: a head with nearly uniform weights may have a large effect.
    `AttentionExplorer` describes the arguments. The unchanged cube is computed once and cached.

    Raises
    ------
    AttentionError
        From its methods, if the network has no attention whose weights can be changed.

    Notes
    -----
    ===========  ===========================================================================
    photo        a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    map()        (H, W) float32, 0 or more: the mean over the bands, in the unit of the cube
    shares()     of each head, 0 or more: 1 is the effect of equal weights in all heads
    changed()    (B, H, W) float32 in the unit of the cube
    unchanged()  the same
    ===========  ===========================================================================

    Examples
    --------
    >>> photo = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    >>> effects = nm.attention.HeadEffects(nm.Reconstructor(nm.load_model("mstpp-srgb")), photo)
    >>> effects.map("stages.0.decoder.0", 1).values.shape
    (16, 16)
    >>> [len(shares) for shares in effects.shares().blocks.values()]
    [1, 2, 4, 2, 1]
    >>> flatter = effects.changed(nm.attention.Change(temperature=4))
    >>> flatter.shape == effects.unchanged().shape == (31, 16, 16)
    True
    """

    _cube: Floats | None = None

    @cached_property
    def _specs(self) -> dict[str, list[AttentionSpec]]:
        """The attentions of each block whose weights can be changed; hybrid blocks have two.

        Raises `AttentionError` if there are none.
        """
        specs: dict[str, list[AttentionSpec]] = {}
        for spec in chain(*(each.attention for each in self._program.passes)):
            if spec.softmax is not None:
                specs.setdefault(spec.block, []).append(spec)
        if not specs:
            raise AttentionError(
                "Expected a network with attention whose weights can be made equal, got one "
                "without a softmax to be heard. Take another model."
            )
        return specs

    @cached_property
    def _other_weights(self) -> dict[nn.Module, ChangedWeights]:
        """The replacements, in `_other_program`, of each softmax of the network."""
        every = (cast("nn.Module", spec.softmax) for spec in chain(*self._specs.values()))
        return {softmax: ChangedWeights() for softmax in every}

    @cached_property
    def _other_program(self) -> Program:
        """The passes with `_other_weights`; cached, as copying takes a fifth of a short run."""
        return with_weights(self._network(), self._other_weights).program()

    def _weights_of(self, spec: AttentionSpec) -> ChangedWeights:
        return self._other_weights[cast("nn.Module", spec.softmax)]

    def map(
        self, block: str = "", head: int | None = None, progress: Progress | None = None
    ) -> AttentionMap:
        """Map the effect of a *head* of a *block*: the mean over the bands of the absolute change.

        Without a head, all heads of the block get equal weights; without a block, all blocks.

        Raises
        ------
        AttentionError
            If there is no such block or head.
        """
        values, provenance = self._changed(block, head, progress or self._progress)
        name = block or "all blocks"
        chosen = Selection(name if head is not None else f"{name}, all heads", head or 0)
        return self._map(EFFECT, chosen, values, provenance)

    def shares(self, progress: Progress | None = None) -> HeadShares:
        """Return the effect of each head relative to the effect of all, averaged over the pixels.

        Heads interact, so shares do not add up to 1.
        """
        progress = progress or self._progress
        blocks = self._specs.items()
        heads = [(block, head) for block, both in blocks for head in range(both[0].heads)]
        runs: list[tuple[str, int | None]] = [("", None), *heads]
        means = []
        for number, (block, head) in enumerate(runs):
            part = progress.step(number, len(runs))
            means.append(float(self._changed(block, head, part)[0].mean(dtype=np.float64)))
        shares: dict[str, tuple[float, ...]] = {}
        for (block, _), effect in zip(heads, means[1:], strict=True):
            shares[block] = (*shares.get(block, ()), effect / means[0] if means[0] else 0.0)
        return HeadShares(shares, self._prepared.provenance(progress))

    def changed(self, change: AttentionChange, progress: Progress | None = None) -> Floats:
        """Return the cube (B, H, W) that the network makes with a *change* of its attention.

        Raises
        ------
        AttentionError
            If there is no such block or head, if the temperature is not above 0, or if the record
            is of another network.
        """
        specs = self._specs
        if not 0 < change.temperature < np.inf:
            raise AttentionError(
                f"Expected a temperature above 0, got {change.temperature:g}. Change it."
            )
        for heads in (change.equal, change.silent):
            for block, chosen in heads.items():
                check_name(block, specs)
                for head in chosen:
                    Selection(block, head).check(specs[block][0].heads, 1)
        for spec in chain(*specs.values()):
            given = None if change.record is None else _given(change.record, spec)
            equal, silent = change.equal.get(spec.block, ()), change.silent.get(spec.block, ())
            self._weights_of(spec).change(change.temperature, given, equal, silent)
        return self._unpadded(self._run(self._other_program, progress or self._progress)[0])

    def unchanged(self, progress: Progress | None = None) -> Floats:
        """Return the cube (B, H, W) of the unchanged network; it is computed once."""
        return self._unpadded(self._whole(progress or self._progress))

    def _unpadded(self, numbers: Floats) -> Floats:
        height, width = self.shape
        return numbers[:, :height, :width]

    def _whole(self, progress: Progress) -> Floats:
        if self._cube is None:
            self._cube, _ = self._run(self._program, progress)
        return self._cube

    def _changed(
        self, block: str, head: int | None, progress: Progress
    ) -> tuple[Singles, Provenance]:
        """Return the values of `map`, and their history."""
        if block:
            check_name(block, self._specs)
        every = list(chain(*self._specs.values()))
        chosen = self._specs[block] if block else every
        if head is not None:
            Selection(block, head).check(chosen[0].heads, 1)
        if self._cube is None:
            self._whole(progress.part(0, 0.5))
            progress = progress.part(0.5, 1)
        for spec in every:
            heads = range(spec.heads) if head is None else [head]
            self._weights_of(spec).change(equal=heads if spec in chosen else ())
        numbers, provenance = self._run(self._other_program, progress)
        # In place, so that a large cube is not in memory a third time.
        np.subtract(numbers, self._whole(progress), out=numbers)
        np.abs(numbers, out=numbers)
        return numbers.mean(axis=0, dtype=np.float32), provenance


def _given(record: AttentionRecord, spec: AttentionSpec) -> torch.Tensor:
    """Return the matrices (h, d, d) of *record* for an attention between channels."""
    side = spec.channels // spec.heads
    expected = (spec.heads, side, side)
    found = record[spec.block].attention if spec.block in record else np.empty(0)
    if found.shape != expected:
        raise AttentionError(
            f"Expected matrices {expected} of {spec.block}, got those of another network. "
            "Record the other photo with the same model."
        )
    return torch.from_numpy(np.ascontiguousarray(found))
