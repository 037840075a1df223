"""The effect of a head: the output of a network less that with equal weights in the head.

Only the softmax that an attention says (`Attends.softmax`) is another one in the copy of the
network. It is run like any network: exact, streamed, at any size. The correction of colours, which
follows the network, is left out.
"""

from dataclasses import dataclass

import numpy as np

from napari_mst.arrays import Floats, Singles
from napari_mst.attention.blocks import check_name
from napari_mst.attention.explorer import PhotoExplorer
from napari_mst.attention.maps import AttentionMap, Selection
from napari_mst.attention.overlays import EFFECT
from napari_mst.cube import Provenance
from napari_mst.errors import AttentionError
from napari_mst.networks.attends import Attends, with_equal_weights
from napari_mst.networks.network import Program
from napari_mst.watch import Watch

NO_SOFTMAX = (
    "Expected a network with attention whose weights can be made equal, got one without a softmax "
    "to be heard. Take another model."
)


@dataclass(frozen=True, eq=False)
class HeadShares:
    """The share of each head of each block, 0 or more, and the history of the run."""

    blocks: dict[str, tuple[float, ...]]
    provenance: Provenance


class HeadEffects(PhotoExplorer):
    """The effects of all heads of a network on the cube of *photo*, or of a *region* of it.

    The cube is compared with the one in which all keys of the head have the same weight. So it
    answers what the entropy of a matrix does not: a head with nearly uniform weights may do much.
    Arguments are those of `AttentionExplorer`. The cube itself is computed once, and kept.

    Raises
    ------
    AttentionError
        From its methods, if the network has no attention whose weights can be changed.

    Notes
    -----
    ========  ===========================================================================
    photo     a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    map()     (H, W) float32, 0 or more: the mean over the bands, in the unit of the cube
    shares()  of each head, 0 or more: 1 is what equal weights in all heads change
    ========  ===========================================================================

    Examples
    --------
    >>> photo = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    >>> effects = nm.attention.HeadEffects(nm.Reconstructor(nm.load_model("mstpp-srgb")), photo)
    >>> effects.map("stages.0.decoder.0", 1).values.shape
    (16, 16)
    >>> [len(shares) for shares in effects.shares().blocks.values()]
    [1, 2, 4, 2, 1]
    """

    _cube: Floats | None = None

    def map(
        self, block: str = "", head: int | None = None, watch: Watch | None = None
    ) -> AttentionMap:
        """The mean over the bands of abs(cube - cube with equal weights) in a *head* of a *block*.

        Without a head it is that of all heads of the block, and without a block that of all blocks.

        Raises
        ------
        AttentionError
            If there is no such block or head.
        """
        values, provenance = self._changed(block, head, watch or self._watch)
        name = block or "all blocks"
        chosen = Selection(name if head is not None else f"{name}, all heads", head or 0)
        return self._map(EFFECT, chosen, values, provenance)

    def shares(self, watch: Watch | None = None) -> HeadShares:
        """The effect of each head by that of all, in the mean over the pixels, by block.

        Heads work together, so shares do not add up to 1.
        """
        watch = watch or self._watch
        said = _said(self._program)
        heads = [(block, head) for block, both in said.items() for head in range(both[0].heads)]
        runs: list[tuple[str, int | None]] = [("", None), *heads]
        means = []
        for number, (block, head) in enumerate(runs):
            part = watch.step(number, len(runs))
            means.append(float(self._changed(block, head, part)[0].mean(dtype=np.float64)))
        shares: dict[str, tuple[float, ...]] = {}
        for (block, _), effect in zip(heads, means[1:], strict=True):
            shares[block] = (*shares.get(block, ()), effect / means[0] if means[0] else 0.0)
        return HeadShares(shares, self._seen.provenance(watch))

    def _changed(self, block: str, head: int | None, watch: Watch) -> tuple[Singles, Provenance]:
        """The values of `map`, and their history."""
        said = _said(self._program)
        if not said:
            raise AttentionError(NO_SOFTMAX)
        if block:
            check_name(block, said)
        chosen = said[block] if block else [each for both in said.values() for each in both]
        if head is not None:
            Selection(block, head).check(chosen[0].heads, 1)
        if self._cube is None:
            self._cube, _ = self._run(self._program, watch.part(0, 0.5))
            watch = watch.part(0.5, 1)
        softmaxes = [attends.softmax for attends in chosen]
        changed = with_equal_weights(self._network(), softmaxes, head)
        numbers, provenance = self._run(changed.program(), watch)
        # In place: a large cube need not be in memory a third time.
        np.subtract(numbers, self._cube, out=numbers)
        np.abs(numbers, out=numbers)
        return numbers.mean(axis=0, dtype=np.float32), provenance


def _said(program: Program) -> dict[str, list[Attends]]:
    """The attentions of each block whose weights can be changed; hybrid blocks have two."""
    said: dict[str, list[Attends]] = {}
    for each in program.passes:
        for attends in each.attends:
            if attends.softmax is not None:
                said.setdefault(attends.block, []).append(attends)
    return said
