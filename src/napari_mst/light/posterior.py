"""The posterior that the network gives: a mixture of families, each with its white as a Gaussian.

A white is two numbers, the logarithms of red over green and of blue over green in the common space
(see `seeing`). Letters: N photos, F families, K known lights.
"""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from napari_mst.light.lights import Doubles, common_response, known_lights, log_ratios
from napari_mst.photo.lights import FAMILIES

_NUMBERS = 6  # of each family: its share, a white, and three of a Gaussian's shape
OUTPUTS = _NUMBERS * len(FAMILIES)
"""Outputs that the network needs."""

# The mean whites of the families' lights, the guess for a photo that shows nothing.
_USUAL = ((0.38, -0.52), (-0.18, 0.06), (0.23, -0.50), (0.38, -0.60))
# Weight of the photo's own mean colour in the first guess; the rest is that of the usual white.
_OWN = 0.7
_STEP = 0.5
# Logarithms of the inverse widths of a Gaussian, e^2.5 = 12 being a width of 0.08.
_INVERSE_WIDTH = 2.5
_WIDTHS = (-1.0, 5.5)
_SKEW = 5.0


class Posterior(NamedTuple):
    """The families and whites that photos may have.

    Attributes
    ----------
    log_shares
        (N, F): logarithms of the families' probabilities.
    whites
        (N, F, 2): the mean of each family's Gaussian.
    log_widths, skews
        (N, F, 2) and (N, F): the Cholesky factor of each inverse covariance: logarithms of its
        diagonal, and the number beside it.
    """

    log_shares: Tensor
    whites: Tensor
    log_widths: Tensor
    skews: Tensor

    def log_densities(self, white: Tensor) -> Tensor:
        """Logarithm of each family's density at whites (N, K, 2) or (K, 2): (N, K, F)."""
        off = white[..., None, :] - self.whites[:, None]
        inverse_width = self.log_widths[:, None].exp()
        first = inverse_width[..., 0] * off[..., 0]
        second = inverse_width[..., 1] * off[..., 1] + self.skews[:, None] * off[..., 0]
        squares = first**2 + second**2
        return self.log_widths.sum(-1)[:, None] - squares / 2 - math.log(2 * math.pi)


def posterior_of(outputs: Tensor, mean_colour: Tensor) -> Posterior:
    """The meaning of outputs (N, 24) for photos of these mean colours (N, 2)."""
    numbers = outputs.unflatten(-1, (len(FAMILIES), _NUMBERS))
    usual = torch.tensor(_USUAL).to(outputs)
    guess = (1 - _OWN) * usual + _OWN * mean_colour[:, None]
    return Posterior(
        log_shares=numbers[..., 0].log_softmax(-1),
        whites=guess + _STEP * numbers[..., 1:3],
        log_widths=(numbers[..., 3:5] + _INVERSE_WIDTH).clamp(*_WIDTHS),
        skews=_SKEW * numbers[..., 5],
    )


@dataclass(frozen=True, eq=False)
class LightTable:
    """Known lights: *names* and *families* (K), *powers* (K, 31) of mean 1, *whites* (K, 2)."""

    names: tuple[str, ...]
    families: NDArray[np.str_]
    powers: Doubles
    whites: Tensor

    def probabilities(self, posterior: Posterior) -> Doubles:
        """The probability (K,) of each light: the mean over the N views of one photo.

        The share of a family is divided among its lights by the density at their whites.
        """
        densities = posterior.log_densities(self.whites).double()
        shares = posterior.log_shares.double().exp()
        found = torch.zeros(densities.shape[:2], dtype=torch.float64)
        for index, family in enumerate(FAMILIES):
            of_family = torch.from_numpy(self.families == family)
            within = densities[:, of_family, index].softmax(-1)
            found[:, of_family] = shares[:, index, None] * within
        return np.asarray(found.mean(0).numpy())


@functools.cache
def light_table(without: str = "") -> LightTable:
    """All known lights, but not the one of the name *without*."""
    lights = {name: light for name, light in known_lights().items() if name != without}
    powers = np.stack([light.power for light in lights.values()])
    whites = torch.from_numpy(powers).float() @ common_response()
    families = np.array([light.family for light in lights.values()])
    return LightTable(tuple(lights), families, powers, log_ratios(whites))
