"""The loss of a fit, of spectra and of the colours that they show.

Letters: N photos, B bands, H rows, W columns.
"""

import torch
from torch import Tensor

from napari_mst.networks.refining import encoded


def reconstruction_loss(
    estimate: Tensor, reference: Tensor, response: Tensor, colours: Tensor | None = None
) -> Tensor:
    """The loss (N,) of each photo: mean |difference| of encoded spectra, and of encoded colours.

    Parameters
    ----------
    response
        (B, 3), takes spectra to linear RGB.
    colours
        (N, 3, H, W), clipped as a photo is; by default the colours that the *reference* shows.
    """
    seen = torch.einsum("nbhw,bc->nchw", estimate, response)
    if colours is None:
        colours = torch.einsum("nbhw,bc->nchw", reference, response)
    else:
        seen = seen.clamp(0, 1)
    return distance(estimate, reference) + distance(seen, colours)


def distance(light: Tensor, expected: Tensor) -> Tensor:
    """Mean |difference| (N,) of the encoded values of two images (N, channels, H, W)."""
    return (encoded(light) - encoded(expected)).abs().mean((1, 2, 3))
