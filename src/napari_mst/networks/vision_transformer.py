"""The vision transformer (ViT): one answer per photo, from attention between its patches.

The photo is cut into patches, which one linear map turns into tokens. The class token and learnt
positions are added, attention blocks follow, and the outputs come from the last class token.
Weights of timm load after renaming their blocks. Letters: N batch, H rows, W columns, T tokens, C
features, h heads, L blocks, B outputs.

References: Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021, arXiv:2010.11929.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.attention.class_token import MultiHeadAttention
from napari_mst.networks.attention.transformer_block import PUBLISHED, TransformerBlock
from napari_mst.networks.layout import loaded, renamed
from napari_mst.networks.module import Network
from napari_mst.networks.network import PHOTO, Pass, Program

_HEADS = "heads"  # an entry of our weights files; timm does not store the number of heads
_USUAL_HEAD = 64  # features of a head in the published networks
_EPSILON = 1e-6  # of the LayerNorms, as published
_SPREAD = 0.02  # standard deviation of the first positions, as published


@dataclass(frozen=True)
class TransformerHyperparameters:
    """The numbers that define a vision transformer besides its weights.

    Attributes
    ----------
    size, patch
        Sides of the input photo and of a patch, in pixels.
    width
        Columns of the input photo, if they differ from its rows.
    hidden
        Features between the two layers of a feed-forward network.
    """

    in_bands: int = 3
    outputs: int = 24
    size: int = 64
    patch: int = 8
    features: int = 64
    depth: int = 3
    heads: int = 4
    hidden: int = 128
    width: int | None = None

    @property
    def sides(self) -> tuple[int, int]:
        """Rows and columns of the input photo."""
        return self.size, self.width or self.size

    def is_cut(self, sides: Sequence[int]) -> bool:
        """True if a photo with these *sides* gives the same patches as the input photo."""
        # Weights do not define how patches lie in a rectangle, so any such photo is accepted.
        is_rectangle = self.sides[0] != self.sides[1]
        is_as_large = is_rectangle and math.prod(sides) == math.prod(self.sides)
        return (is_as_large and not any(side % self.patch for side in sides)) or sides == self.sides


class TokenEncoding(NamedTuple):
    """All intermediate results of a vision transformer, and its outputs.

    Attributes
    ----------
    layers
        The L + 1 token arrays (N, T, C) before the first block and after each block.
    attentions
        The attention (N, h, T, T) of each block: rows are queries, row 0 is the class token.
    tokens
        (N, T, C): the last tokens after the last LayerNorm.
    outputs
        (N, B).
    """

    layers: tuple[Tensor, ...]
    attentions: tuple[Tensor, ...]
    tokens: Tensor
    outputs: Tensor


class PatchEmbedding(nn.Module):
    """The linear map from patches to tokens."""

    def __init__(self, in_bands: int, features: int, patch: int) -> None:
        super().__init__()
        # A convolution with the stride of a patch applies the same linear map to each patch.
        self.proj = nn.Conv2d(in_bands, features, patch, patch)

    def forward(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, patches, C), patches row by row."""
        return self.proj(photo).flatten(2).mT


class VisionTransformer(Network):
    """The encoder of Dosovitskiy et al. with *depth* blocks; the outputs come from the class token.

    A photo of another size is averaged to *size* first. `outputs` and `encoded` take photos; in the
    engine, the network returns its outputs in every pixel.
    """

    heads: Tensor
    makes_bands = False

    def __init__(self, hyperparameters: TransformerHyperparameters) -> None:
        super().__init__()
        self.hyperparameters = hyperparameters
        self.in_bands, self.out_bands = hyperparameters.in_bands, hyperparameters.outputs
        features, heads = hyperparameters.features, hyperparameters.heads
        self.register_buffer(_HEADS, torch.tensor(float(heads)))
        self.patch_embed = PatchEmbedding(self.in_bands, features, hyperparameters.patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, features))
        patches = math.prod(hyperparameters.sides) // hyperparameters.patch**2
        positions = torch.empty(1, patches + 1, features)
        # Filling tensors on the meta device would make torch import its compiler, which takes two
        # seconds.
        is_empty = positions.is_meta
        self.pos_embed = nn.Parameter(positions if is_empty else positions.normal_(std=_SPREAD))
        self.blocks: Any = nn.ModuleList(
            TransformerBlock(MultiHeadAttention(features, heads), hyperparameters.hidden, _EPSILON)
            for _ in range(hyperparameters.depth)
        )
        self.norm = nn.LayerNorm(features, _EPSILON)
        self.head = nn.Linear(features, self.out_bands)

    def outputs(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, B)."""
        return self.encoded(photo).outputs

    def encoded(self, photo: Tensor) -> TokenEncoding:
        """The tokens and the attention of every block for photos (N, in_bands, H, W)."""
        if not self.hyperparameters.is_cut(photo.shape[-2:]):
            photo = F.adaptive_avg_pool2d(photo, self.hyperparameters.sides)
        return self._encoded(self.patch_embed(photo) + self.pos_embed[:, 1:])

    def encoded_patches(self, patches: Tensor, places: Tensor) -> TokenEncoding:
        """`encoded` for only some patches of photos, to save time in training.

        Parameters
        ----------
        patches
            (N, P, in_bands, patch, patch).
        places
            (N, P): the index of each patch in the photo, row by row.
        """
        tokens = self.patch_embed(patches.flatten(0, 1)).view(*places.shape, -1)
        return self._encoded(tokens + self.pos_embed[0, 1:][places])

    def _encoded(self, placed: Tensor) -> TokenEncoding:
        """The encoding of patches (N, P, C) with positions added."""
        first = self.cls_token + self.pos_embed[:, :1]
        tokens = torch.cat([first.expand(len(placed), -1, -1), placed], dim=1)
        layers = [tokens]
        attentions = []
        for block in self.blocks:
            attention, values = block.attention.attention(block.norm_attention(tokens))
            tokens = block.perceived(tokens + block.attention.joined(attention @ values))
            layers.append(tokens)
            attentions.append(attention)
        last = self.norm(tokens)
        return TokenEncoding(tuple(layers), tuple(attentions), last, self.head(last[:, 0]))

    def program(self) -> Program:
        """One pass over the whole photo."""
        whole = Pass("outputs", (PHOTO,), self._everywhere, self.out_bands, halo=None)
        return self.program_of([whole])

    def _everywhere(self, photo: Tensor) -> Tensor:
        """The outputs of photos (N, in_bands, H, W), the same in every pixel: (N, B, H, W)."""
        answer = self.outputs(photo)[..., None, None]
        return answer.expand(-1, -1, *photo.shape[-2:]).contiguous()


def build_vision_transformer(state: Mapping[str, Tensor]) -> VisionTransformer:
    """Build the network whose weights *state* holds; raises `CheckpointError` as `loaded`.

    Weights of timm do not contain the number of heads. Heads then have 64 features, as in all
    published networks.
    """
    weights = renamed(state, PUBLISHED)

    def make() -> VisionTransformer:
        hyperparameters = hyperparameters_of(weights)
        weights.setdefault(_HEADS, torch.tensor(float(hyperparameters.heads), device="cpu"))
        return VisionTransformer(hyperparameters)

    return loaded("vision transformer", make, weights)


def hyperparameters_of(state: Mapping[str, Tensor]) -> TransformerHyperparameters:
    """The hyperparameters according to the shapes in *state*; raises `KeyError` or `ValueError`."""
    features, in_bands, patch, _ = state["patch_embed.proj.weight"].shape
    patches = state["pos_embed"].shape[1] - 1
    # The landscape rectangle of this many patches that is closest to a square.
    rows = max(side for side in range(1, math.isqrt(patches) + 1) if patches % side == 0)
    columns = patches // rows
    depth = len([key for key in state if key.endswith(".norm_attention.weight")])
    heads = int(state[_HEADS]) if _HEADS in state else max(features // _USUAL_HEAD, 1)
    if heads < 1 or features % heads:
        raise ValueError("heads that do not divide the features")
    return TransformerHyperparameters(
        in_bands=in_bands,
        outputs=state["head.weight"].shape[0],
        size=rows * patch,
        width=None if rows == columns else columns * patch,
        patch=patch,
        features=features,
        depth=depth,
        heads=heads,
        hidden=state["blocks.0.perceptron.0.weight"].shape[0],
    )
