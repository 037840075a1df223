"""Passes with compiled kernels, as plain NumPy weights.

A form is the `local` of a pass without torch; kernels take their weights from it. `of` builds a
form from the weights in a file whose names have a given prefix. Letters: B bands, C channels, d = C
/ heads.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from napari_mst.base.arrays import Array, Doubles, Singles

LIMIT = 1.25
"""Largest reflectance of an estimate, for any colour up to white."""

DARKEST = 1e-7
"""Smallest linear light, a 3000th of an 8-bit code: a floor that keeps gradients finite."""

OFFSET = 1e-3
"""Linear light added to the brightness by which colours are divided."""

BLACK = 0.003
"""Light added before a power, so that the slope at black is finite."""

NORM_EPS = 1e-12
"""Epsilon of torch.nn.functional.normalize, which the published code calls."""

NamedWeights = Mapping[str, Singles]
"""The weights of a network by name."""


class PixelwiseStart(NamedTuple):
    """The spectra from which a network starts, and how its layers change them.

    For a pixel (r, g, b) the start is *matrix* x pixel, but at least *slope* x (r + g + b) +
    *least*, and at most *most* times the limit. Its share s of the limit becomes
    sigmoid(layers + log(s / (1 - *bend* x s))).

    Attributes
    ----------
    matrix
        (B, 3).
    slope, least, most
        Numbers in the formulas above.
    bend
        0 if the layers change the logarithm of the share, 1 if they change its logit.
    """

    matrix: Any
    slope: float
    least: float
    most: float = math.inf
    bend: float = 0.0


@dataclass(frozen=True, eq=False)
class ConvolutionForm:
    """A 3x3 convolution, or a 4x4 convolution that halves a map, with zero padding of 1.

    Further maps that the pass reads are added to the result.
    """

    weight: Singles
    bias: Singles | None = None

    @classmethod
    def of(cls, weights: NamedWeights, name: str) -> "ConvolutionForm":
        """The convolution *name* of a network."""
        return cls(weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    @property
    def numbers(self) -> int:
        """Number of parameters."""
        return self.weight.size + (0 if self.bias is None else self.bias.size)

    @property
    def stride(self) -> int:
        """Step of the filter in pixels."""
        return 2 if self.weight.shape[-1] == 4 else 1


class DoublingForm(ConvolutionForm):
    """A transposed convolution of 2x2, stride 2: its weight is (in, out, 2, 2)."""


class FusionForm(ConvolutionForm):
    """A 1x1 convolution without bias of two concatenated maps."""


def gram(x: Singles) -> Doubles:
    """Gram matrix of the channels, (1, C, H, W) -> (1, C, C), which a kernel computes in a run."""
    pixels = x.reshape(*x.shape[:2], -1).astype(np.float64)
    return pixels @ pixels.swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class BlockForm:
    """A spectral attention block without LayerNorm before its attention; *weights* by name.

    *eps* belongs to the LayerNorm of its feed-forward network.
    """

    weights: NamedWeights
    heads: int
    eps: float = 1e-5

    @classmethod
    def of(cls, weights: NamedWeights, name: str) -> "BlockForm":
        """The block *name* of a network."""
        own = {
            key.removeprefix(f"{name}."): value
            for key, value in weights.items()
            if key.startswith(f"{name}.")
        }
        return cls(own, len(own["attention.rescale"]))

    @property
    def local_work(self) -> int:
        """Multiplications and additions per pixel."""
        # The matrices of q and k are applied only to the Gram matrix, once per image.
        once = ("attention.to_q.weight", "attention.to_k.weight")
        return sum(each.size for name, each in self.weights.items() if name not in once)

    def mixing(self, gram: Doubles, _pixels: int = 0) -> Doubles:
        """Gram matrix of the whole image -> mixing matrix M, both (1, C, C).

        See `SpectralAttentionBlock.mixing` for an explanation.
        """
        own = self.weights
        q, k, v, joined = (
            own[f"attention.{name}.weight"].astype(np.float64)
            for name in ("to_q", "to_k", "to_v", "proj")
        )
        norms_of_q, norms_of_k = (_norms(each, gram) for each in (q, k))
        scores = k @ gram @ q.T / (norms_of_k[:, :, None] * norms_of_q[:, None, :])
        depth = len(q) // self.heads
        attended = np.empty_like(scores)
        for head, scale in enumerate(own["attention.rescale"].astype(np.float64)):
            rows = slice(head * depth, (head + 1) * depth)
            logits = scores[:, rows, rows] * scale
            shares = np.exp(logits - logits.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            attended[:, rows] = shares @ v[rows]
        return joined @ attended


def _norms(weight: Doubles, gram: Doubles) -> Doubles:
    """The norms of the channels of queries or keys, (1, C)."""
    return np.sqrt(np.maximum(((weight @ gram) * weight).sum(-1), NORM_EPS**2))


@dataclass(frozen=True, eq=False)
class EstimateForm:
    """A network of single pixels: four layers, (weight, bias) each, and a start.

    The hidden layers have *width* numbers. *is_encoded* encodes the spectra. *margins* (2 B, width)
    and their biases give prediction intervals.
    """

    layers: list[tuple[Array, Array]]
    start: PixelwiseStart
    width: int
    bands: int
    is_encoded: bool = False
    margins: tuple[Array, Array] | None = None

    @classmethod
    def of(cls, weights: NamedWeights, name: str = "", is_encoded: bool = False) -> "EstimateForm":
        """The pixelwise network whose weights begin with *name*."""
        names = ("hidden.0", "hidden.2", "hidden.4", "estimate", "margins")
        *layers, margins = (
            (
                weights[f"{name}{each}.weight"].astype(np.float64),
                weights[f"{name}{each}.bias"].astype(np.float64),
            )
            for each in names
        )
        bands, width = layers[-1][0].shape
        return cls(layers, grey_start(bands), width, bands, is_encoded, margins)


def grey_start(bands: int) -> PixelwiseStart:
    """A start at grey with the brightness of the pixel."""
    return PixelwiseStart(np.zeros((bands, 3), np.float32), slope=1 / 3, least=OFFSET)


class EncodingForm(NamedTuple):
    """Linear light of three channels, encoded."""


class DecodingForm(NamedTuple):
    """Encoded spectra as reflectances."""


Form = (
    BlockForm
    | ConvolutionForm
    | DecodingForm
    | DoublingForm
    | EncodingForm
    | EstimateForm
    | FusionForm
)
"""Any pass that compiled kernels compute."""
