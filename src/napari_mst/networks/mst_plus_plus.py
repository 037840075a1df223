"""MST++: multi-stage spectral-wise transformer.

Paper: Cai et al., CVPRW 2022, doi:10.1109/CVPRW56347.2022.00090.

RGB in, B bands out. Architecture and published weights:
https://github.com/caiyuanhao1998/MST-plus-plus (MIT); this is an independent implementation.
Letters: N batch, B bands, C feature channels, H rows, W columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from napari_mst.base.errors import CheckpointError
from napari_mst.networks.attention.kinds import (
    ATTENTIONS,
    Block,
    BlockPlace,
    check_geometry,
    geometry_of,
)
from napari_mst.networks.hyperparameters import WINDOW, AttentionParameters, Hyperparameters
from napari_mst.networks.layout import count_of, loaded, renamed
from napari_mst.networks.module import Network
from napari_mst.networks.network import Pass, Program
from napari_mst.networks.shared_modules import Chain, near

MakeBlock = Callable[[int, int], Block]
"""Channels and heads -> a block."""


class SpectralTransformer(nn.Module):
    """SST: a U-shape of five blocks with a residual.

    The blocks have C, 2C, 4C, 2C and C channels, and 1, 2, 4, 2 and 1 heads. *make_block* creates
    a block from channels and heads: as published, a SAB. *fuses_last* puts the decoder blocks
    before the fusion with the skip, right after the doubling, as described in some texts.
    """

    def __init__(
        self,
        width: int,
        make_block: MakeBlock,
        make_down: Callable[[int], nn.Module],
        fuses_last: bool,
    ) -> None:
        super().__init__()

        self.fuses_last = fuses_last
        self.embedding = near(width, width, bias=False)
        self.encoder: Any = nn.ModuleList([make_block(width * s, s) for s in (1, 2)])
        self.down: Any = nn.ModuleList([make_down(width * s) for s in (1, 2)])
        self.bottleneck = make_block(width * 4, 4)
        self.up = nn.ModuleList(nn.ConvTranspose2d(width * s, width * s // 2, 2, 2) for s in (4, 2))
        self.fuse: Any = nn.ModuleList(
            near(width * s, width * s // 2, 1, bias=False) for s in (4, 2)
        )
        self.decoder = nn.ModuleList([make_block(width * s, s) for s in (2, 1)])
        self.mapping = near(width, width, bias=False)

    def passes(self, name: str, source: str) -> list[Pass]:
        """The passes of this stage from the map *source*; the last one writes the map *name*.

        Every block reads a map whose Gram matrix is folded into the block's mixing matrix.
        """
        passes = Chain(source)
        passes.add(f"{name}.embedding", self.embedding)
        skips = []
        for level, (block, down) in enumerate(zip(self.encoder, self.down, strict=True)):
            passes.add_block(block, f"{name}.encoder.{level}")
            skips.append(passes.last)
            passes.add(
                f"{name}.down.{level}",
                down,
                channels=down.out_channels,
                halo=getattr(down, "halo", 1),
                scale=Fraction(1, 2),
            )
        passes.add_block(self.bottleneck, f"{name}.bottleneck")
        for level, (up, fuse) in enumerate(zip(self.up, self.fuse, strict=True)):
            block, named = self.decoder[level], f"{name}.decoder.{level}"
            # A fast path computes doubling and fusion at once, without the map between them.
            passes.add(f"{name}.up.{level}", up, is_kept=self.fuses_last)
            if self.fuses_last:
                passes.add_block(block, named)
            passes.add(f"{name}.fuse.{level}", Concatenated(fuse), skips.pop())
            if not self.fuses_last:
                passes.add_block(block, named)
        passes.add(name, Plus(self.mapping), source)
        return passes


class Plus(nn.Module):
    """A convolution of one map, to which other maps are added unchanged, as a residual."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        """(N, C, H, W) and maps of C' channels -> (N, C', H, W)."""
        return sum(others, self.convolution(x))


class Concatenated(Plus):
    """A 1x1 convolution of concatenated maps: the fusion of doubled features with the skip."""

    def forward(self, *maps: Tensor) -> Tensor:
        """Maps (N, C, H, W) -> (N, C', H, W)."""
        return self.convolution(torch.cat(maps, dim=1))


class MSTPlusPlus(Network):
    """MST++: 3x3 convolution, *stages* spectral transformers, 3x3 convolution, residual.

    `forward` takes (N, in_bands, H, W) of any H, W >= 1 and returns (N, out_bands, H, W). As
    published, the residual goes around the last convolution if *width* equals *out_bands*;
    otherwise it ends before that convolution. *width* defaults to *out_bands*. *attention* is
    `AttentionParameters`: by default, blocks attend between channels, as published.

    Raises
    ------
    ModelError
        If a parameter is not a positive integer, or the attention is unknown.

    Examples
    --------
    >>> network = MSTPlusPlus(stages=1, attention="shifted", window=8)
    """

    fuses_last = False
    """See `SpectralTransformer`; a subclass may set it to True."""

    def __init__(
        self,
        in_bands: int = 3,
        out_bands: int = 31,
        stages: int = 3,
        width: int | None = None,
        **attention: Unpack[AttentionParameters],
    ) -> None:
        super().__init__()
        width = out_bands if width is None else width
        self.in_bands, self.out_bands = in_bands, out_bands
        self.hyperparameters = Hyperparameters(in_bands, out_bands, stages, width, **attention)
        self._blocks_made = 0
        self.conv_in = near(in_bands, width, bias=False)
        self.stages: Any = nn.ModuleList(
            SpectralTransformer(width, self.make_block, self.make_down, self.fuses_last)
            for _ in range(stages)
        )
        self.conv_out = near(width, out_bands, bias=False)

    def make_block(self, channels: int, heads: int) -> Block:
        """Create the next block: with spectral attention as published, or another."""
        parameters = self.hyperparameters
        index = self._blocks_made % 5
        self._blocks_made += 1
        has_norm = bool(parameters.norm_before_attention)
        return parameters.kind.make(BlockPlace(channels, heads, parameters.window, has_norm, index))

    def make_down(self, channels: int) -> nn.Module:
        """Create a module that halves a map; a subclass may use `ConvolutionMerging`."""
        return self.hyperparameters.kind.make_down(channels)

    def first_passes(self, name: str) -> list[Pass]:
        """The passes from the photo to the map *name*, the features that the stages refine."""
        passes = Chain()
        passes.add(name, self.conv_in)
        return passes

    def last_passes(self, bands: str) -> list[Pass]:  # noqa: ARG002 - networks around it have some
        """The passes from the map *bands* to the result: none, as published."""
        return []

    def program(self) -> Program:
        """All passes, from the photo to the cube.

        The first features are needed again at the end, and are then recomputed rather than kept.
        """
        passes = [replace(each, is_kept=False) for each in self.first_passes("shallow")]
        features = "shallow"
        for index, stage in enumerate(self.stages):
            passes += stage.passes(f"stages.{index}", features)
            features = f"stages.{index}"
        last = Chain(features)
        # The residual ends before the last convolution if the widths differ.
        shallow = ["shallow"]
        if self.hyperparameters.width != self.out_bands:
            channels = self.hyperparameters.width
            last.add("sum", torch.add, *shallow, channels=channels, is_kept=False, work=1)
            shallow = []
        last.add("bands", Plus(self.conv_out), *shallow, is_kept=False)
        return self.program_of(
            [*passes, *last, *self.last_passes("bands")],
            self.hyperparameters.multiple,
            most_pixels=self.hyperparameters.kind.most_pixels,
        )


def is_mst_plus_plus(state: Mapping[str, Tensor]) -> bool:
    """True if *state* holds an MST++ network, in the published or in our layout."""
    is_mirnet = any(key.startswith("body.0.body.") for key in state)
    return {"conv_in.weight", "conv_out.weight"} <= state.keys() and not is_mirnet


def build_mst_plus_plus(state: Mapping[str, Tensor]) -> MSTPlusPlus:
    """Build the network whose weights *state* holds, in either layout, and load them strictly.

    Raises
    ------
    CheckpointError
        If tensors are missing, left over or of the wrong shape; the message names the first five.
    """
    weights = renamed(state, PUBLISHED)
    parameters = _hyperparameters(weights)
    network = loaded("MST++", lambda: MSTPlusPlus(**asdict(parameters)), weights)
    check_geometry(network, weights)
    return network


# The order matters: each pattern assumes that the patterns above were applied.
PUBLISHED = [
    (r"\.blocks\.(\d+)\.0\.mm\.", r".blocks.\1.mm."),
    (r"\.blocks\.(\d+)\.0\.pos_emb\.", r".blocks.\1.attention.pos."),
    (r"\.blocks\.(\d+)\.0\.", r".blocks.\1.attention."),
    (r"\.blocks\.(\d+)\.1\.norm\.", r".blocks.\1.feed_forward.norm."),
    (r"\.blocks\.(\d+)\.1\.fn\.net\.0\.", r".blocks.\1.feed_forward.expand."),
    (r"\.blocks\.(\d+)\.1\.fn\.net\.2\.", r".blocks.\1.feed_forward.depthwise."),
    (r"\.blocks\.(\d+)\.1\.fn\.net\.4\.", r".blocks.\1.feed_forward.reduce."),
    (r"^body\.(\d+)\.", r"stages.\1."),
    (r"\.encoder_layers\.(\d+)\.0\.blocks\.0\.", r".encoder.\1."),
    (r"\.encoder_layers\.(\d+)\.1\.", r".down.\1."),
    (r"\.bottleneck\.blocks\.0\.", ".bottleneck."),
    (r"\.decoder_layers\.(\d+)\.0\.", r".up.\1."),
    (r"\.decoder_layers\.(\d+)\.1\.", r".fuse.\1."),
    (r"\.decoder_layers\.(\d+)\.2\.blocks\.0\.", r".decoder.\1."),
]
"""Patterns of published keys, and our keys: for blocks (also of MST) and one-block stages."""


def _hyperparameters(state: Mapping[str, Tensor]) -> Hyperparameters:
    stages = count_of(r"stages\.(\d+)\.", state)
    conv_in, conv_out = state.get("conv_in.weight"), state.get("conv_out.weight")
    if not stages or conv_in is None or conv_out is None or not conv_in.ndim == conv_out.ndim == 4:
        raise CheckpointError(
            f"Expected MST++ (conv_in, body, conv_out), got another network ({len(state)} tensors)."
        )
    return Hyperparameters(
        in_bands=conv_in.shape[1],
        out_bands=conv_out.shape[0],
        stages=stages,
        width=conv_in.shape[0],
        **_attention_of(state),
    )


def _attention_of(state: Mapping[str, Tensor]) -> AttentionParameters:
    """The attention of the blocks in *state*, from the second, the first that may be shifted."""
    prefix = "stages.0.encoder.1."
    block = {
        key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
    }
    # A network with an unknown attention is compared with the published one, and refused.
    found = (name for name, kind in ATTENTIONS.items() if kind.recognises(block))
    geometry = geometry_of(block)
    return {
        "attention": next(found, "spectral"),
        "window": geometry.window if geometry else WINDOW,
        "norm_before_attention": "norm.weight" in block,
    }
