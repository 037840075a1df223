"""Scenes of all hues, for a network that must not take the colour of things for that of the light.

Measured reflectances are mostly of earth, plants, wood and skin, and so are warm on the whole. A
network that has seen no others takes a scene of blue things for a blue light. Letters: N scenes, B
bands, H rows, W columns.
"""

from torch import Tensor

from napari_mst.simulation.scenes import SceneSimulator

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

    def _highlight(self, n: int, size: int) -> Tensor:
        """Specular reflection (N, 1, H, W), in all bands alike."""
        cells = self._integer(_FEWEST_GLINTS, _MOST_GLINTS)
        glint = (self._smooth(n, 1, size, cells) - _DULL).clamp_min(0)
        return glint * self._uniform(n, 1, 1, 1) * (self._uniform(n, 1, 1, 1) < _SHINY)
