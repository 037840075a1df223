"""Scenes that teach about light: of all hues, and seen in other materials again and again.

Measured reflectances are mostly of earth, plants, wood and skin, and so are warm on the whole. A
network that has seen no others takes a scene of blue things for a blue light.

A scene is linear in its materials: each pixel shows an amount of each of them, after texture,
shading and shadows, and an amount of highlight. To draw these amounts takes long, and to draw
materials for them does not. Letters: N scenes, M materials, B bands, H rows, W columns.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lab.simulated import SceneSimulator

# Shares of the materials that have the complementary colour, and that are nearly grey.
_COMPLEMENTS = 0.35
_GREYS = 0.2
_LEAST_GREY = 0.6
# Share of the scenes with highlights, which have the colour of the light.
_SHINY = 0.4
_FEWEST_GLINTS = 4
_MOST_GLINTS = 40
_DULL = 1.2  # bumps below it, in standard deviations, have no highlight


class ColourfulSimulator(SceneSimulator):
    """Draws scenes as a `SceneSimulator` does, with complementary colours, greys and highlights."""

    def _pick(self, count: int) -> Tensor:
        """The spectra (count, B) of *count* materials."""
        spectra = super()._pick(count)
        ends = spectra.amin(1, keepdim=True) + spectra.amax(1, keepdim=True)
        is_turned = self._uniform(count, 1) < _COMPLEMENTS
        spectra = spectra + is_turned * (ends - 2 * spectra)
        strength = _LEAST_GREY + (1 - _LEAST_GREY) * self._uniform(count, 1)
        greyness = strength * (self._uniform(count, 1) < _GREYS)
        return spectra + greyness * (spectra.mean(1, keepdim=True) - spectra)

    def _highlight(self, n: int) -> Tensor:
        """Specular reflection (N, 1, H, W), in all bands alike."""
        cells = self._integer(_FEWEST_GLINTS, _MOST_GLINTS)
        glint = (self._smooth(n, cells) - _DULL).clamp_min(0)
        return glint * self._often(_SHINY, n, 1, 1, 1)


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
        u, v, leaf = self.leaves(count)
        light = self.shading(u, v, leaf) * self._shadow(count)
        highlight = self._highlight(count)
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
