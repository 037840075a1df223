"""Blocks of the U-shape of MST++ whose attention is between pixels, or that have none.

Letters: N batch, C channels, H rows, W columns.

    x = x + attention(LN(x)) + pos(W_v LN(x))        x = x + FFN(LN(x))

`HybridBlock` adds spectral attention, S-MSA(x), to the first sum.

Everything except the attention is as in the spectral block: the position branch `pos` of two
depthwise convolutions of the values, the feed-forward network with a depthwise convolution, and
scores that are cosines times a learnt number. These blocks therefore differ from the spectral block
only in which pixels or channels attend to each other. *LN* before the attention can be omitted.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from napari_mst.networks.attention.heads import HeadOptions, Heads
from napari_mst.networks.attention.layer_norm import ChannelNorm
from napari_mst.networks.attention.patches import PatchAttention
from napari_mst.networks.attention.spectral import (
    FeedForward,
    PositionBranch,
    SpectralAttention,
    channel_attention_spec,
    gram,
)
from napari_mst.networks.attention.window_attention import WindowAttention
from napari_mst.networks.attention_spec import AttentionSpec, QueryWeights
from napari_mst.networks.network import Pass

LIKE_SPECTRAL = HeadOptions(score="cosine", has_bias=False)
"""Heads like those of S-MSA."""

_POSITION_HALO = 2  # two convolutions of 3x3
_MIXING_VALUES = 4  # per channel: the sum, mixed features, values and their positions
_FEED_FORWARD_VALUES = 12  # per channel: hidden layers of 4 C, input, norm and output
_QUERIES_OF_WORK = 1 << 12  # assumed number of keys of global attention, for progress


class NoAttention(nn.Module):
    """Projected values: attention in which every pixel attends only to itself."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.to_v = nn.Linear(channels, channels, bias=False)
        self.proj = nn.Linear(channels, channels)

    @property
    def value_weight(self) -> Tensor:
        """The weights of the values, (C, C)."""
        return self.to_v.weight

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return self.proj(self.to_v(x.movedim(1, -1))).movedim(-1, 1)


class AttentionBlock(nn.Module):
    """A block around *attention*: `norm`, `attention`, `pos` and `feed_forward`.

    *has_norm* puts a LayerNorm before the attention.
    """

    def __init__(
        self, attention: NoAttention | WindowAttention | PatchAttention, has_norm: bool = True
    ) -> None:
        super().__init__()
        self.has_norm = has_norm
        self.norm = ChannelNorm(attention.channels) if has_norm else nn.Identity()
        self.attention = attention
        self.pos: nn.Module = PositionBranch(attention.channels)
        self.feed_forward: nn.Module = FeedForward(attention.channels)

    def prepared(self, source: Pass) -> Pass:
        """*source* unchanged, since nothing is added up over the image."""
        return source

    def passes(self, name: str, source: str) -> list[Pass]:
        """The passes of this block from the map *source* to the map *name*."""
        first_half = self.attention_pass(f"{name}.attended", source)
        attended = replace(first_half, attention=self.attention_specs(name))
        channels = self.attention.channels
        fed_forward = Pass(
            name,
            (attended.writes,),
            self.fed_forward,
            channels,
            halo=1,
            work=parameters_of(self.feed_forward),
            values=_FEED_FORWARD_VALUES * channels,
        )
        return [attended, fed_forward]

    def attention_specs(self, name: str) -> tuple[AttentionSpec, ...]:  # noqa: ARG002 - without attention: none
        """The attention of the first half of the block *name*."""
        return ()

    def weights(self, x: Tensor, query: Sequence[int]) -> QueryWeights:
        """The weights of one query on a part (1, C, h, w) of the block's input map."""
        return cast("Heads", self.attention).weights(self.normal(x), query)

    def normal(self, x: Tensor) -> Tensor:
        """The input of the attention for *x*, in the precision of the weights."""
        return self.norm(x.to(self.attention.value_weight.dtype))

    def attention_pass(self, name: str, source: str) -> Pass:
        """The first half of the block, from the map *source* to the map *name*."""
        # A few convolutions are cheaper than keeping a map for the second half.
        return Pass(
            name,
            (source,),
            self.attended,
            self.attention.channels,
            halo=_POSITION_HALO,
            is_kept=False,
            work=self.local_work,
        )

    def attended(self, x: Tensor) -> Tensor:
        """x + attention(LN(x)) + pos(W_v LN(x)): (N, C, H, W) -> (N, C, H, W)."""
        normal = self.norm(x)
        return x + self.attention(normal) + self.positions(normal)

    def positions(self, normal: Tensor) -> Tensor:
        """The position branch, applied to the values of the *normal* features."""
        return self.pos(F.conv2d(normal, self.attention.value_weight[:, :, None, None]))

    def fed_forward(self, x: Tensor) -> Tensor:
        """x + FFN(LN(x)): (N, C, H, W) -> (N, C, H, W)."""
        return x + self.feed_forward(x)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W)."""
        return self.fed_forward(self.attended(x))

    @property
    def local_work(self) -> float:
        """Multiplications and additions of `attended` per pixel, without scores."""
        of_values = self.attention.channels**2
        return of_values + sum(map(parameters_of, (self.norm, self.attention, self.pos)))


class WindowBlock(AttentionBlock):
    """A block with attention in windows, whose tiles are whole windows."""

    attention: WindowAttention

    def attention_specs(self, name: str) -> tuple[AttentionSpec, ...]:
        """The attention in windows."""
        attention = self.attention
        between_pixels = AttentionSpec(
            block=name,
            channels=attention.channels,
            heads=attention.heads,
            softmax=attention.softmax,
            weights=self.weights,
            **attention.sides._asdict(),
            halo=attention.halo,
            parts=self,
        )
        return (between_pixels,)

    def attention_pass(self, name: str, source: str) -> Pass:
        """The first half of the block, aligned to windows, with the halo that they need."""
        plain = super().attention_pass(name, source)
        attention = self.attention
        keys = attention.key_window**2
        channels = attention.channels
        # Unlike convolutions, windows at the rim of a tile are too expensive to compute twice.
        return replace(
            plain,
            halo=max(attention.halo, _POSITION_HALO),
            align=attention.window,
            is_kept=True,
            work=self.local_work + 2 * keys * channels,
            values=3 * attention.heads * keys + 8 * channels,
        )


class PlainBlock(WindowBlock):
    """`TransformerBlock` on maps: without a position branch, and with a perceptron per pixel.

    x = x + W-MSA(LN(x))        x = x + W_2 gelu(W_1 LN(x) + b_1) + b_2
    """

    def __init__(self, attention: WindowAttention, has_norm: bool = True) -> None:
        super().__init__(attention, has_norm)
        channels = attention.channels
        self.pos = nn.Identity()
        self.feed_forward = nn.Sequential(
            ChannelNorm(channels),
            nn.Conv2d(channels, 4 * channels, 1),
            nn.GELU(),
            nn.Conv2d(4 * channels, channels, 1),
        )

    def positions(self, normal: Tensor) -> Tensor:
        """Zero: this block has no position branch."""
        return normal.new_zeros(())


class HybridBlock(WindowBlock):
    """Spectral attention and attention in windows in parallel, on the same features.

        x = x + S-MSA(x) + W-MSA(LN(x)) + pos(W_v LN(x))        x = x + FFN(LN(x))

    S-MSA has its own position branch and, as published, no LayerNorm before it. HAT's hybrid block
    also combines attention between channels with attention in shifted windows: Chen et al., CVPR
    2023, arXiv:2205.04437.
    """

    def __init__(self, attention: WindowAttention, has_norm: bool = True) -> None:
        super().__init__(attention, has_norm)
        self.spectral = SpectralAttention(attention.channels, attention.heads)

    @property
    def channel_attention(self) -> SpectralAttention:
        """The half that attends between channels."""
        return self.spectral

    @property
    def halo(self) -> int:
        """Pixels around a window on which the whole block depends."""
        # The feed-forward network reads one pixel of the neighbouring windows.
        return self.attention.window + max(self.attention.halo, _POSITION_HALO)

    @property
    def align(self) -> int:
        """Side of a window; parts of a map must begin at its multiples."""
        return self.attention.window

    def attention_specs(self, name: str) -> tuple[AttentionSpec, ...]:
        """The attention of both kinds in the first half."""
        return (channel_attention_spec(name, self), *super().attention_specs(name))

    def channel_input(self, x: Tensor) -> Tensor:
        """The input of the block, whose channels attend to each other."""
        return x

    def prepared(self, source: Pass) -> Pass:
        """*source*, which also adds up the Gram matrix of its map and folds it for this block."""
        return replace(source, statistic=gram, fold=self.folded)

    def folded(self, summed: Tensor, _pixels: int = 0) -> Tensor:
        """The Gram matrix of the whole image -> the mixing matrix of S-MSA, both (N, C, C)."""
        return self.spectral.mixing(self.spectral.attention(summed))

    def attention_pass(self, name: str, source: str) -> Pass:
        """The first half of the block, in whole windows, with the matrix of the whole image."""
        in_windows = super().attention_pass(name, source)
        return replace(
            in_windows,
            local=self.attended_and_mixed,
            uses=source,
            values=(in_windows.values or 0) + _MIXING_VALUES * self.attention.channels,
        )

    def attended_and_mixed(self, x: Tensor, mixing: Tensor) -> Tensor:
        """The first half, with the mixing matrix of S-MSA: (N, C, H, W) -> (N, C, H, W)."""
        return super().attended(x) + self.mixed(x, mixing)

    def mixed(self, x: Tensor, mixing: Tensor) -> Tensor:
        """S-MSA(x), with its mixing matrix: (N, C, H, W) -> (N, C, H, W)."""
        return self.spectral.apply_mixing(self.channel_input(x), mixing)

    def apply_mixing(self, x: Tensor, mixing: Tensor) -> Tensor:
        """The whole block, with the mixing matrix of S-MSA: (N, C, H, W) -> (N, C, H, W)."""
        return self.fed_forward(self.attended_and_mixed(x, mixing))

    def attended(self, x: Tensor) -> Tensor:
        """x + S-MSA(x) + W-MSA(LN(x)) + pos(W_v LN(x)): (N, C, H, W) -> (N, C, H, W)."""
        return self.attended_and_mixed(x, self.folded(gram(x)))

    @property
    def local_work(self) -> float:
        """Multiplications and additions of the first half per pixel, without scores."""
        # The matrices of q and k are applied only to the Gram matrix, once per image.
        once_an_image = 2 * self.attention.channels**2
        return super().local_work + parameters_of(self.spectral) - once_an_image


class GlobalBlock(AttentionBlock):
    """A block in which every pixel attends to all pixels.

    A run gathers the keys and values of all pixels, two numbers per channel. A region needs nothing
    else from other regions, so regions are computed one by one as with any other block.
    """

    attention: PatchAttention

    def attention_specs(self, name: str) -> tuple[AttentionSpec, ...]:
        """The attention between all pixels; no module sees its scores."""
        channels, heads = self.attention.channels, self.attention.heads
        return (AttentionSpec(block=name, channels=channels, heads=heads, weights=self.weights),)

    def prepared(self, source: Pass) -> Pass:
        """*source*, which also gathers the keys and values of its map."""
        return replace(source, statistic=self.keys_and_values, gathers=2 * self.attention.channels)

    def keys_and_values(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, H W, 2 C), in the precision of the weights."""
        return self.attention.keys_and_values(self.normal(x))

    def attention_pass(self, name: str, source: str) -> Pass:
        """The first half of the block, with the keys and values of all pixels."""
        plain = super().attention_pass(name, source)
        channels = self.attention.channels
        return replace(
            plain,
            local=self.attended_to,
            uses=source,
            is_kept=True,
            work=self.local_work + 2 * _QUERIES_OF_WORK * channels,
            values=8 * channels,
        )

    def attended_to(self, x: Tensor, keys_and_values: Tensor) -> Tensor:
        """`attended` for any part (N, C, h, w), with the keys and values of all pixels."""
        normal = self.norm(x)
        attended = self.attention.attend(normal, keys_and_values.to(normal))
        return x + attended + self.positions(normal)


def parameters_of(module: nn.Module) -> int:
    """The number of parameters of *module*."""
    return sum(parameter.numel() for parameter in module.parameters())
