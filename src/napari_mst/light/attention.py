"""The attention of the vision transformer over the patches of a photo, as arrays.

Letters: L blocks, h heads, T tokens (the class token first), G patches on a side.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from napari_mst.arrays import Doubles
from napari_mst.errors import AttentionError
from napari_mst.networks.attention.class_token import rollout


@dataclass(frozen=True, eq=False)
class LightAttention:
    """The attention of the tokens of a vision transformer.

    All maps are (G, G), patch by patch over the photo. A map and the share of the class token,
    which belongs to no patch, sum to 1.

    Attributes
    ----------
    blocks
        (L, h, T, T) attention: the rows are queries, and sum to 1; row and column 0 are the class
        token's.
    """

    blocks: Doubles

    @property
    def grid(self) -> int:
        """Patches on a side of the photo."""
        return math.isqrt(self.blocks.shape[-1] - 1)

    @property
    def rollout(self) -> Doubles:
        """(T, T): attention through all blocks, by Abnar & Zuidema (2020); its rows sum to 1."""
        matrix = rollout([torch.from_numpy(block) for block in self.blocks])
        return np.asarray(matrix.numpy())

    @property
    def rollout_map(self) -> Doubles:
        """(G, G): the patches that the answer for the photo came from, through all blocks."""
        return self._map(self.rollout[0])

    def class_token_map(self, block: int = -1, head: int | None = None) -> Doubles:
        """The patches that the class token attends to in a *block*; all heads' mean for None."""
        return self._map(self._row(block, head, 0))

    def patch_map(
        self, patch: tuple[int, int], block: int = -1, head: int | None = None
    ) -> Doubles:
        """The patches that the *patch* at this row and column of the grid attends to.

        Raises
        ------
        AttentionError
            If there is no such patch, block or head.
        """
        row, column = patch
        if not (0 <= row < self.grid and 0 <= column < self.grid):
            raise AttentionError(
                f"Expected a patch from 0,0 to {self.grid - 1},{self.grid - 1}, "
                f"got {row},{column}. Choose one on the grid."
            )
        return self._map(self._row(block, head, 1 + row * self.grid + column))

    def patch_at(self, pixel: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
        """The patch, by row and column of the grid, over a *pixel* of a photo of this *shape*."""
        row, column = (
            min(max(place * self.grid // length, 0), self.grid - 1)
            for place, length in zip(pixel, shape, strict=True)
        )
        return row, column

    def _row(self, block: int, head: int | None, token: int) -> Doubles:
        blocks, heads = self.blocks.shape[:2]
        is_there = -blocks <= block < blocks and (head is None or 0 <= head < heads)
        if not is_there:
            raise AttentionError(
                f"Expected one of {blocks} blocks and {heads} heads, counted from 0, "
                f"got block {block}, head {head}. Choose another."
            )
        weights = self.blocks[block]
        attention = weights.mean(axis=0) if head is None else weights[head]
        return np.asarray(attention[token])

    def _map(self, row: Doubles) -> Doubles:
        return row[1:].reshape(self.grid, self.grid)
