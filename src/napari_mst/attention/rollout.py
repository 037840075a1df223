"""Attention rollout: the combined attention of all blocks of a U-shape, as one matrix.

Source: Abnar & Zuidema, ACL 2020, doi:10.18653/v1/2020.acl-main.385. Rollout multiplies (A + I) / 2
over the blocks, where I stands for the residual around each attention, and ignores feed-forward
parts. In the paper, all blocks share the same tokens. Here tokens are channels, which convolutions
between the blocks mix. As our extension, each convolution takes part with the magnitudes of its
weights, as shares of each output channel.

Letters: C channels of the first and the last block.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from torch import nn

from napari_mst.attention.record import BlockAttention
from napari_mst.base.arrays import Doubles, Singles
from napari_mst.networks.mst_plus_plus import SpectralTransformer

BLOCKS = 5
"""Blocks of a U-shape."""


def rollouts(network: nn.Module, blocks: Mapping[str, BlockAttention]) -> dict[str, Singles]:
    """Return the rollout (C, C) of each stage of *network* whose *blocks* attend between channels.

    Row i holds the shares of output channel i that come from each channel of the stage's embedding;
    it adds up to 1.
    """
    found = {}
    for index, stage in enumerate(getattr(network, "stages", ())):
        name = f"stages.{index}"
        of_stage = [each for each in blocks if each.startswith(f"{name}.")]
        is_whole = isinstance(stage, SpectralTransformer) and len(of_stage) == BLOCKS
        if is_whole and all(isinstance(down, nn.Conv2d) for down in stage.down):
            found[name] = _rollout(stage, name, blocks).astype(np.float32)
    return found


def _rollout(stage: Any, name: str, blocks: Mapping[str, BlockAttention]) -> Doubles:
    def mixed(block: str, features: Doubles) -> Doubles:
        attention = block_diag(*blocks[f"{name}.{block}"].attention.astype(np.float64))
        return (attention @ features + features) / 2

    features = np.eye(stage.embedding.out_channels)
    skips = []
    for level, down in enumerate(stage.down):
        features = mixed(f"encoder.{level}", features)
        skips.append(features)
        features = _shares(down) @ features
    features = mixed("bottleneck", features)
    for level, (up, fuse) in enumerate(zip(stage.up, stage.fuse, strict=True)):
        features = _shares(up) @ features
        if stage.fuses_last:
            features = mixed(f"decoder.{level}", features)
        features = _shares(fuse) @ np.concatenate([features, skips.pop()])
        if not stage.fuses_last:
            features = mixed(f"decoder.{level}", features)
    return features


def _shares(convolution: Any) -> Doubles:
    """Return the share (C_out, C_in) of each input of *convolution*, by the size of its weights."""
    weight = convolution.weight.detach().cpu().double()
    if isinstance(convolution, nn.ConvTranspose2d):
        weight = weight.transpose(0, 1)
    sizes: Doubles = weight.abs().sum((2, 3)).numpy()
    return sizes / np.maximum(sizes.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
