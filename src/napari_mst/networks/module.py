"""`Network`, the base of torch modules that list their passes.

Letters: N batch, H rows, W columns.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from napari_mst.networks.network import Pass, Program


class Network(nn.Module, ABC):
    """A torch module that lists its passes, which the engine and the pipeline run.

    `forward` evaluates the program on whole maps, so that both share the same mathematics. A photo
    has `in_bands` channels, and a cube `out_bands` bands.
    """

    in_bands: int
    out_bands: int

    makes_bands = True
    """True if every output pixel is a spectrum; False for one answer about the whole photo."""

    @abstractmethod
    def program(self) -> Program:
        """All passes, from the photo to the cube, with the current weights."""

    def program_of(self, passes: Sequence[Pass], multiple: int = 1, **words: Any) -> Program:
        """The program of *passes*, in the precision of the weights."""
        dtype = next(self.parameters()).dtype
        return Program(tuple(passes), self.in_bands, multiple, dtype, **words)

    def forward(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, out_bands, H, W)."""
        return self.program().whole(photo)
