"""Scenes without their materials, which can be seen in other materials again and again.

A scene is linear in its materials: each pixel shows an amount of each of them, after texture,
shading and shadows, and an amount of highlight. To draw these amounts takes long, and to draw
materials for them does not. Letters: N scenes, M materials, B bands, H rows, W columns.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from napari_mst.simulation.colourful import ColourfulSimulator


class Compositions(NamedTuple):
    """Scenes of which only the materials are missing.

    Attributes
    ----------
    amounts
        (N, M + 1, H, W): of each material, the darkest first, and last of highlight, as a share
        of white.
    brightness
        (N, M + 1): those of materials that were drawn with them, and of white.
    """

    amounts: Tensor
    brightness: Tensor


class CompositionSimulator(ColourfulSimulator):
    """Draws scenes as a `ColourfulSimulator` does, and their materials apart from them."""

    def draw_compositions(self, count: int) -> Compositions:
        """*count* scenes without materials."""
        brightness = self.draw_materials(count).mean(2)
        u, v, leaf = self.leaves(count, self.size)
        light = self.shading(u, v, leaf) * self._shadow(count, self.size)
        highlight = self._highlight(count, self.size)
        amounts = torch.cat([self._textured(leaf) * light, highlight], dim=1)
        return Compositions(self._softened(amounts), brightness)

    def draw_materials(self, count: int) -> Tensor:
        """The spectra (N, M + 1, B) of materials, the darkest first, and last that of highlight."""
        spectra = super()._palette(count)
        order = spectra.mean(2).argsort(1)[..., None]
        materials = spectra.gather(1, order.expand_as(spectra))
        return torch.cat([materials, torch.ones_like(materials[:, :1])], dim=1)

    def _palette(self, n: int) -> Tensor:
        """Each material as a band of its own, so that scenes are made of amounts."""
        return torch.eye(self.materials).expand(n, -1, -1)
