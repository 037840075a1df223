"""`Network`, the base of the torch modules that say their passes.

Letters: N batch, H rows, W columns.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from napari_mst.networks.network import Pass, Program


class Network(nn.Module, ABC):
    """A torch module that lists its passes, which the engine and the pipeline run.

    `forward` is the program evaluated on whole maps, so both are one mathematics. A photo has
    `in_bands` channels, and a cube `out_bands` bands.
    """

    in_bands: int
    out_bands: int

    makes_bands = True
    """Every pixel of its output is a spectrum; else it gives one answer for the whole photo."""

    @abstractmethod
    def program(self) -> Program:
        """All passes, from the photo to the cube, with the weights that the network has."""

    def program_of(self, passes: Sequence[Pass], multiple: int = 1, **words: Any) -> Program:
        """The program of these *passes*, in the precision of the weights."""
        dtype = next(self.parameters()).dtype
        return Program(tuple(passes), self.in_bands, multiple, dtype, **words)

    def forward(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, out_bands, H, W)."""
        return self.program().whole(photo)
