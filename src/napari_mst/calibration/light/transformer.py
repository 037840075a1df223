"""The vision transformer for light in NumPy: it is small, and importing torch takes a second.

It equals `networks.vision_transformer.VisionTransformer`, which explains it, up to rounding.
Letters: N photos, T tokens (the class token first), C features, h heads, L blocks.
"""

import functools
from typing import NamedTuple

import numpy as np

from napari_mst.base.arrays import Singles
from napari_mst.models.loading import bundled_weights

_EPSILON = 1e-6  # of the LayerNorms, as published

# The error function to 1.5e-7: Abramowitz and Stegun 7.1.26.
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_SCALE = 0.3275911


class EncodedPhotos(NamedTuple):
    """The answers (N, outputs), and the attention (N, h, T, T) of each of L blocks."""

    outputs: Singles
    attentions: tuple[Singles, ...]


class LightTransformer:
    """The network with the weights of the bundled model *name*."""

    def __init__(self, name: str) -> None:
        self._weights = bundled_weights(name)
        self._patch = self._weights["patch_embed.proj.weight"].shape[-1]
        patches = self._weights["pos_embed"].shape[1] - 1
        self.size = int(patches**0.5) * self._patch

    def seen(self, photos: Singles) -> EncodedPhotos:
        """Run the network on photos (N, channels, size, size)."""
        own = self._weights
        heads = int(own["heads"])
        tokens = self._linear("patch_embed.proj", self._patches(photos)) + own["pos_embed"][:, 1:]
        first = np.broadcast_to(
            own["cls_token"] + own["pos_embed"][:, :1], (len(photos), 1, tokens.shape[-1])
        )
        tokens = np.concatenate([first, tokens], axis=1)
        attentions: list[Singles] = []
        while f"blocks.{len(attentions)}.norm1.weight" in own:  # the names of timm
            block = f"blocks.{len(attentions)}"
            normal = self._norm(f"{block}.norm1", tokens)
            queries, keys, values = (
                part.reshape(*part.shape[:2], heads, -1).swapaxes(1, 2)
                for part in np.split(self._linear(f"{block}.attn.to_qkv", normal), 3, -1)
            )
            scores = queries / np.float32(queries.shape[-1] ** 0.5) @ keys.swapaxes(-1, -2)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            attention = shares / shares.sum(-1, keepdims=True)
            joined = (attention @ values).swapaxes(1, 2).reshape(tokens.shape)
            tokens = tokens + self._linear(f"{block}.attn.proj", joined)
            normal = self._norm(f"{block}.norm2", tokens)
            hidden = _gelu(self._linear(f"{block}.mlp.fc1", normal))
            tokens = tokens + self._linear(f"{block}.mlp.fc2", hidden)
            attentions.append(attention)
        outputs = self._linear("head", self._norm("norm", tokens[:, :1]))[:, 0]
        return EncodedPhotos(outputs, tuple(attentions))

    def _patches(self, photos: Singles) -> Singles:
        """(N, channels, size, size) -> (N, patches, channels patch patch), row by row."""
        count, side = self.size // self._patch, self._patch
        cut = photos.reshape(*photos.shape[:2], count, side, count, side)
        return cut.transpose(0, 2, 4, 1, 3, 5).reshape(len(photos), count**2, -1)

    def _linear(self, name: str, x: Singles) -> Singles:
        weight = self._weights[f"{name}.weight"]
        return x @ weight.reshape(len(weight), -1).T + self._weights[f"{name}.bias"]

    def _norm(self, name: str, x: Singles) -> Singles:
        off = x - x.mean(-1, keepdims=True)
        normal = off / np.sqrt((off**2).mean(-1, keepdims=True) + np.float32(_EPSILON))
        return normal * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


light_transformer = functools.cache(LightTransformer)
"""Returns the network of a bundled model by name; its weights are read once."""


def _gelu(x: Singles) -> Singles:
    size = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(_ERF_SCALE) * size)
    series = np.polyval(np.array((*_ERF, 0), np.float32), t)
    error = np.copysign(1 - series * np.exp(-(size**2)), x)
    return x * (1 + error) / 2
