"""The vision transformer (ViT): one answer for a whole photo, from attention between its patches.

The photo is cut into patches. Each becomes a token by one linear map; the class token and learnt
positions are added; blocks of attention follow, and the last class token gives the outputs.
Weights of timm fit: the names of their blocks are changed to ours. Letters: N batch, H rows, W
columns, T tokens, C features, h heads, L blocks, B outputs.

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

_HEADS = "heads"  # an entry of our weights files: timm stores no number of heads
_USUAL_HEAD = 64  # features of a head in the published networks
_EPSILON = 1e-6  # of the LayerNorms, as published
_SPREAD = 0.02  # standard deviation of the first positions, as published


@dataclass(frozen=True)
class TransformerHyperparameters:
    """The numbers that make a vision transformer besides its weights.

    Attributes
    ----------
    size, patch
        Sides in pixels of the photo that it sees and of a patch.
    width
        Columns of the photo, where they are not as many as its rows.
    hidden
        Features between the two layers of a feed-forward.
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
        """Rows and columns of the photo that it sees."""
        return self.size, self.width or self.size

    def is_cut(self, sides: Sequence[int]) -> bool:
        """True if patches cut a photo with these *sides* as they cut the one that it sees."""
        # Weights do not say how patches that make no square lie: there any such photo will do.
        is_rectangle = self.sides[0] != self.sides[1]
        is_as_large = is_rectangle and math.prod(sides) == math.prod(self.sides)
        return (is_as_large and not any(side % self.patch for side in sides)) or sides == self.sides


class TokenEncoding(NamedTuple):
    """All that a vision transformer makes of photos on the way to its outputs.

    Attributes
    ----------
    layers
        The tokens (N, T, C) before the first block and after each: L + 1 of them.
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
    """One linear map of every patch to a token."""

    def __init__(self, in_bands: int, features: int, patch: int) -> None:
        super().__init__()
        # A convolution that steps from patch to patch is the same linear map of each.
        self.proj = nn.Conv2d(in_bands, features, patch, patch)

    def forward(self, photo: Tensor) -> Tensor:
        """(N, in_bands, H, W) -> (N, patches, C), patches row by row."""
        return self.proj(photo).flatten(2).mT


class VisionTransformer(Network):
    """The encoder of Dosovitskiy et al. with *depth* blocks, its outputs from the class token.

    A photo of another size is averaged to *size* first. `outputs` and `encoded` are for
    photos; as a network of the engine it gives its outputs in every pixel.
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
        # Filling tensors without memory would make torch import its compiler, which takes two
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
        """`encoded` for some patches of photos only, as in training, where fewer take less time.

        Parameters
        ----------
        patches
            (N, P, in_bands, patch, patch).
        places
            (N, P): where in the photo each patch lies, row by row.
        """
        tokens = self.patch_embed(patches.flatten(0, 1)).view(*places.shape, -1)
        return self._encoded(tokens + self.pos_embed[0, 1:][places])

    def _encoded(self, placed: Tensor) -> TokenEncoding:
        """The encoding of patches (N, P, C) that have their positions."""
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

    Weights of timm do not hold the number of heads: each then counts as one of 64 features, as in
    all published networks.
    """
    weights = renamed(state, PUBLISHED)

    def make() -> VisionTransformer:
        hyperparameters = hyperparameters_of(weights)
        weights.setdefault(_HEADS, torch.tensor(float(hyperparameters.heads), device="cpu"))
        return VisionTransformer(hyperparameters)

    return loaded("vision transformer", make, weights)


def hyperparameters_of(state: Mapping[str, Tensor]) -> TransformerHyperparameters:
    """The hyperparameters that the shapes in *state* say; raises `KeyError` or `ValueError`."""
    features, in_bands, patch, _ = state["patch_embed.proj.weight"].shape
    patches = state["pos_embed"].shape[1] - 1
    # The rectangle of this many patches that is nearest to a square, lying.
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
